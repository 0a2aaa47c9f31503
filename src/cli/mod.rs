//! The command line: typed flags, and one file per verb.
//!
//! stdout carries data, stderr carries messages for people. A verb returns its exit code; only `main` exits.

pub mod audit;
pub mod config;
pub mod doctor;
mod doctor_checks;
mod drain;
mod flags;
pub mod install;
mod install_check;
mod install_list;
mod install_report;
mod jobs;
mod log_level;
mod operator;
mod pause;
pub mod policy;
mod queue;
pub mod run;
mod server;
mod server_request;
pub mod terminal;
pub mod token;
mod upgrade;

pub use config::ReloadFlags;
pub use drain::DrainFlags;
pub use flags::{
    AuditCommand, AuditVerb, AuditVerifyFlags, CheckFlags, Cli, Command, ConfigCommand,
    ConfigFileVerb, ConfigVerb, ConfineFlags, DoctorFlags, InitFlags, PolicyCommand,
    PolicyExplainFlags, PolicyTestFlags, PolicyVerb, RunFlags, ServeFlags, ServerFlags, ShowFlags,
    StdioFlags,
};
pub use install::{InstallFlags, ScopeFlag};
pub use jobs::JobsFlags;
pub use log_level::LogLevelFlags;
pub use operator::OperatorVerb;
pub use pause::LaneFlags;
pub use queue::QueueFlags;
pub use server::{ServerCommand, ServerVerb, ShellServerFlags};
pub use server_request::ConnectFlags;
pub use token::{TokenCommand, TokenNewFlags, TokenRevokeFlags, TokenVerb};
pub use upgrade::UpgradeFlags;
