//! The command line: typed flags, and one file per verb.
//!
//! stdout carries data, stderr carries messages for people. A verb returns its exit code; only `main` exits.

mod attach;
pub mod audit;
mod completions_and_man;
pub mod config;
pub mod doctor;
mod flags;
pub mod greeting;
pub mod install;
mod install_report;
mod job_connection;
mod job_verb;
mod job_view;
mod jobs;
mod logs;
mod operator;
pub mod policy;
mod program_verb;
pub mod run;
pub mod run_queued;
mod self_test;
mod server;
mod server_request;
mod server_set;
mod show;
mod stdio_probe;
mod stop;
pub mod terminal;
mod text_layout;
mod times;
pub mod token;
mod top;
mod top_view;
mod wait;

pub use attach::{AttachFlags, DetachKeys};
pub use completions_and_man::{CompletedShell, CompletionsFlags, ManFlags, complete_command_line};
pub use config::ReloadFlags;
pub use flags::{
    AuditCommand, AuditVerb, AuditVerifyFlags, CheckFlags, Cli, Command, ConfigCommand,
    ConfigFileVerb, ConfigVerb, ConfineFlags, DoctorFlags, InitFlags, PolicyCommand,
    PolicyExplainFlags, PolicyTestFlags, PolicyVerb, RunFlags, ServeFlags, ServerFlags, ShowFlags,
    StdioFlags,
};
pub use install::{InstallFlags, ScopeFlag};
pub use job_verb::JobVerb;
pub use jobs::JobsFlags;
pub use logs::{GrepPattern, LogsFlags, Since};
pub use operator::{DrainFlags, LaneFlags, LogLevelFlags, OperatorVerb, QueueFlags, UpgradeFlags};
pub use program_verb::ProgramVerb;
pub use run_queued::RunQueueFlags;
pub use self_test::SelfTestFlags;
pub use server::{BuiltInServerCommand, ServerVerb, ShellServerFlags};
pub use server_request::ConnectFlags;
pub use server_set::{FoundServer, JobName, JobScopeFlags, ServerLabel, ServerSet};
pub use show::ShowJobFlags;
pub use stop::StopFlags;
pub use terminal::Display;
pub use token::{TokenCommand, TokenNewFlags, TokenRevokeFlags, TokenVerb};
pub use top::TopFlags;
pub use wait::WaitFlags;
