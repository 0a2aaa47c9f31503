//! The effects of programs and builtins that run others, or that evaluate text.
//!
//! There is a table for each kind of program. Options that take a value must be known, because
//! otherwise the command after them cannot be found; an unknown option of such a program is
//! uncertain. Scripts, interpreters and build tools are judged by their name only.

mod awk_sed;
mod builtins;
mod command_effects;
mod editors;
mod effect;
mod exec_options;
mod find;
mod git;
mod prefix;
mod scan;
mod shells;

pub(super) use command_effects::command_effects;
pub(super) use effect::{Effect, ScriptReader};
pub(super) use exec_options::runs_shell_on_input;
pub(super) use git::git_operands;
pub(super) use shells::heredoc_shell;
