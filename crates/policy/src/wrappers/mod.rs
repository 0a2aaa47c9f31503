//! Programs and builtins that run others, or that evaluate text: what each command leads to.
//!
//! A table per kind of program. Options that take a value must be known, since otherwise the
//! command behind them cannot be found; an unknown option of such a program is uncertain. Scripts,
//! interpreters and build tools are opaque and judged by their name only.

mod awk;
mod builtins;
mod containers;
mod dispatch;
mod editors;
mod effect;
mod exec_options;
mod find;
mod git;
mod prefix;
mod scan;
mod sed;
mod shells;

pub(super) use dispatch::effects;
pub(super) use effect::{Effect, Reader};
pub(super) use exec_options::runs_shell_for;
pub(super) use git::git_operands;
pub(super) use shells::reads_commands;
