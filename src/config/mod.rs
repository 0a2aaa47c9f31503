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
mod environment;
mod error;
mod initial_file;
mod job_settings;
mod layers;
mod load;
mod schema;
mod settings;
mod settings_json;
#[cfg(test)]
mod tests;

pub use environment::{Environment, TOKEN_VARIABLE, user_config_file};
pub use error::{ConfigError, Problem, ProblemKind};
pub use initial_file::write_initial_file;
pub use job_settings::{
    AuditSection, ConfinementSection, EnvironmentSection, JobSection, LaneSection, OutputSection,
    PolicySection, QueueSection, RedactSection, RetentionSection, TenantSection, UncertainPolicy,
};
pub use layers::{ConfigEntry, ValueOrigin};
pub use load::{Changes, ConfigSources, FlagValue, Loaded, load};
pub use settings::{
    ExecuteSection, HttpSection, LogFormat, LogSection, OauthSection, ServerSection, Settings,
    ShellToolSection, SocketSetting, TraceSection,
};
