//! The command line: typed flags, and one file per verb.
//!
//! stdout carries data, stderr carries messages for people. A verb returns its exit code; only `main` exits.

mod attach;
pub mod audit;
mod completions;
pub mod config;
pub mod doctor;
mod doctor_checks;
mod drain;
mod flags;
pub mod greeting;
pub mod install;
mod install_check;
mod install_list;
mod install_owner;
mod install_report;
mod job_connection;
mod job_verb;
mod job_view;
mod jobs;
mod log_level;
mod logs;
mod man;
mod operator;
mod pause;
pub mod policy;
mod program_verb;
mod queue;
pub mod run;
pub mod run_queued;
mod self_test;
mod self_test_checks;
mod self_test_server;
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
mod upgrade;
mod wait;

pub use attach::{AttachFlags, DetachKeys};
pub use completions::{CompletedShell, CompletionsFlags, complete_command_line};
pub use config::ReloadFlags;
pub use drain::DrainFlags;
pub use flags::{
    AuditCommand, AuditVerb, AuditVerifyFlags, CheckFlags, Cli, Command, ConfigCommand,
    ConfigFileVerb, ConfigVerb, ConfineFlags, DoctorFlags, InitFlags, PolicyCommand,
    PolicyExplainFlags, PolicyTestFlags, PolicyVerb, RunFlags, ServeFlags, ServerFlags, ShowFlags,
    StdioFlags,
};
pub use install::{InstallFlags, ScopeFlag};
pub use job_verb::JobVerb;
pub use jobs::JobsFlags;
pub use log_level::LogLevelFlags;
pub use logs::{GrepPattern, LogsFlags, Since};
pub use man::ManFlags;
pub use operator::OperatorVerb;
pub use pause::LaneFlags;
pub use program_verb::ProgramVerb;
pub use queue::QueueFlags;
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
pub use upgrade::UpgradeFlags;
pub use wait::WaitFlags;
