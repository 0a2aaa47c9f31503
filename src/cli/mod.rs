//! The command line: typed flags, and one file per verb or group of verbs.
//!
//! stdout carries data, stderr carries messages for people. A verb returns its exit code; only `main` exits.

mod attach;
pub mod audit;
mod command_line;
mod completions_and_man;
pub mod config;
pub mod doctor;
mod flags;
pub mod greeting;
pub mod install;
mod install_report;
mod job_connection;
mod job_view;
mod jobs;
mod logs;
mod operator;
pub mod policy;
pub mod run;
mod self_test;
mod server_request;
mod server_set;
mod show;
mod stdio_probe;
mod stop;
pub mod terminal;
mod text_layout;
pub mod token;
mod top;
mod top_view;
mod wait;

pub use attach::{AttachFlags, DetachKeys};
pub use audit::{AuditCommand, AuditVerb, AuditVerifyFlags};
pub use command_line::{Cli, Command, JobVerb, ProgramVerb};
pub use completions_and_man::{CompletedShell, CompletionsFlags, ManFlags, complete_command_line};
pub use config::{
    CheckFlags, ConfigCommand, ConfigFileVerb, ConfigVerb, InitFlags, ReloadFlags, ShowFlags,
};
pub use doctor::DoctorFlags;
pub use flags::{
    BuiltInServerCommand, ServeFlags, ServerFlags, ServerVerb, ShellServerFlags, StdioFlags,
};
pub use install::{InstallFlags, ScopeFlag};
pub use jobs::JobsFlags;
pub use logs::{GrepPattern, LogsFlags, Since};
pub use operator::{DrainFlags, LaneFlags, LogLevelFlags, OperatorVerb, QueueFlags, UpgradeFlags};
pub use policy::{PolicyCommand, PolicyExplainFlags, PolicyTestFlags, PolicyVerb};
pub use run::{ConfineFlags, RunFlags, RunQueueFlags};
pub use self_test::SelfTestFlags;
pub use server_request::ConnectFlags;
pub use server_set::{FoundServer, JobName, JobScopeFlags, ServerLabel, ServerSet};
pub use show::ShowJobFlags;
pub use stop::StopFlags;
pub use terminal::Display;
pub use token::{TokenCommand, TokenNewFlags, TokenRevokeFlags, TokenVerb};
pub use top::TopFlags;
pub use wait::WaitFlags;
