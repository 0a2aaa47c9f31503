//! Configuration: what may be set, where it may be set, and the checked result.
//!
//! Four layers, the later wins: `config/default.toml` (compiled in), one file, the
//! environment, flags. Every value is checked in the layer that gave it, so that a
//! problem names its line, variable or flag; all problems are told at once. What
//! comes out is [`Settings`], typed and complete, and for every key its [`Origin`].
//!
//! No other room reads configuration or the environment: `app` hands each room the
//! values that it needs.

mod check;
mod environment;
mod error;
mod layers;
mod load;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

pub use environment::{Environment, TOKEN_VARIABLE, user_file};
pub use error::{ConfigError, Problem, Trouble};
pub use layers::{Entry, Origin};
pub use load::{Changes, DEFAULT_FILE, FlagValue, Loaded, Sources, load};
pub use settings::{
    AuditSettings, Backend, Bound, BoundWord, ConfinementSettings, Dialect, EnvironmentSettings,
    ExecuteCommandSettings, ExecuteSettings, HttpSettings, Inherit, JobSettings, LaneSettings,
    LimitSettings, LogFormat, LogSettings, McpSettings, Network, OauthSettings, OnAuditFailure,
    OnLargeOutput, OnUnavailable, OutputSettings, OwnConfinement, PolicySettings, PressureSettings,
    Priority, Profile, QueueSettings, QuotaSettings, RedactSettings, ResultFormat,
    RetentionSettings, RunShellCommandSettings, ServerName, ServerSettings, Settings, Shell,
    ShellToolSettings, Socket, TenantSettings, TraceSettings, Uncertain,
};
