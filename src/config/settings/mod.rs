//! The checked values.
//!
//! Every field has a key in `config/default.toml` and every key a field: unknown and
//! missing fields both fail the read. Ranges were checked before, per layer.

mod all;
mod confinement;
mod doors;
mod jobs;
mod read;
mod safety;
mod store;
mod tenants;
mod tools;

pub use all::Settings;
pub use confinement::{
    Backend, Bound, BoundWord, ConfinementSettings, LimitSettings, Network, OnUnavailable,
    OwnConfinement, Profile,
};
pub use doors::{
    Dialect, HttpSettings, LogFormat, LogSettings, McpSettings, ResultFormat, ServerName,
    ServerSettings, Socket, TraceSettings,
};
pub use jobs::{
    JobSettings, LaneSettings, PolicySettings, Priority, QueueSettings, Shell, Uncertain,
};
pub use safety::{AuditSettings, EnvironmentSettings, Inherit, OnAuditFailure, RedactSettings};
pub use store::{OnLargeOutput, OutputSettings, RetentionSettings};
pub use tenants::{OauthSettings, PressureSettings, QuotaSettings, TenantSettings};
pub use tools::{
    ExecuteCommandSettings, ExecuteSettings, RunShellCommandSettings, ShellToolSettings,
};
