//! Configuration: what may be set, where it may be set, and the checked result.
//!
//! Four layers, the later wins: `config/default.toml` (compiled in), one file, the
//! environment, flags. Every value is checked in the layer that gave it, so that a
//! problem names its line, variable or flag; all problems are told at once. What
//! comes out is [`Settings`], typed and complete, and for every key its [`ValueOrigin`].
//!
//! No other module reads configuration or the environment: `app` hands each module the values that
//! it needs. Settings structs of modules are filled here, so `config` stands above them.

mod check;
mod environment;
mod error;
mod job_settings;
mod layers;
mod load;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

pub use environment::{Environment, TOKEN_VARIABLE, user_file};
pub use error::{ConfigError, Problem, ProblemKind};
pub use job_settings::{
    AuditSection, ConfinementSection, EnvironmentSection, JobSection, LaneSection, OutputSection,
    PolicySection, QueueSection, RedactSection, RetentionSection, TenantSection, UncertainPolicy,
};
pub use layers::{ConfigEntry, ValueOrigin};
pub use load::{Changes, ConfigSources, DEFAULT_FILE, FlagValue, Loaded, load};
pub use settings::{
    ExecuteSection, HttpSection, LogFormat, LogSection, OauthSection, ServerSection, Settings,
    ShellToolSection, SocketSetting, TraceSection,
};
