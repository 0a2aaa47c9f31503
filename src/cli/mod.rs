//! The command line: flags as typed values, and one file per verb.
//!
//! stdout is data, stderr is talk. A verb returns its exit code; only `main` exits.

pub mod config;
mod flags;
pub mod run;
pub mod talk;

pub use flags::{
    CheckFlags, Cli, Command, ConfigCommand, ConfigVerb, InitFlags, RunFlags, ServeFlags,
    ServerFlags, ShowFlags, StdioFlags,
};
