//! The command line: flags as typed values, and one file per verb.
//!
//! stdout is data, stderr is talk. A verb returns its exit code; only `main` exits.

pub mod audit;
pub mod config;
pub mod doctor;
mod flags;
pub mod policy;
mod reply;
pub mod run;
mod server;
pub mod talk;
pub mod token;

pub use flags::{
    AuditCommand, AuditVerb, AuditVerifyFlags, CheckFlags, Cli, Command, ConfigCommand, ConfigVerb,
    DoctorFlags, InitFlags, PolicyCommand, PolicyExplainFlags, PolicyTestFlags, PolicyVerb,
    RunFlags, ServeFlags, ServerFlags, ShowFlags, StdioFlags,
};
pub use server::{ServerCommand, ServerVerb, ShellServerFlags};
pub use token::{TokenCommand, TokenNewFlags, TokenRevokeFlags, TokenVerb};
