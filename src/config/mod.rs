//! Configuration: the keys, the layers that can set them, and the checked result.
//!
//! There are four layers, and later ones override earlier ones: `config/default.toml` (compiled in), one
//! file (TOML, or `settings.json` of another program), the environment, flags. Every value is checked in its own layer, so that a problem names its
//! line, variable or flag; all problems are reported at once. The result is [`Settings`], typed and
//! complete, and the [`ValueOrigin`] of every key.
//!
//! No other module reads the configuration or the environment: `app` passes to each module the values
//! that it needs. This module fills the settings structs of other modules, so it imports them.

mod check;
mod layers;
mod load;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

pub use layers::{ConfigEntry, ConfigError, Problem, ProblemKind, UnknownNames, ValueOrigin};
pub use load::{
    Changes, ConfigSources, Environment, FlagValue, Loaded, TOKEN_VARIABLE, load,
    load_with_unknown_names, user_config_file, write_initial_file,
};
pub use settings::{
    AuditSection, ConfinementSection, EnvironmentSection, ExecuteSection, HttpSection, JobSection,
    LaneSection, LogFormat, LogSection, OauthSection, OutputSection, PolicySection, QueueSection,
    RedactSection, RetentionSection, ServerSection, Settings, ShellToolSection, SocketSetting,
    TenantSection, TraceSection, UncertainPolicy,
};
