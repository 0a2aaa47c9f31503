//! The effects of programs and builtins that run others, or that evaluate text.
//!
//! There is a table for each kind of program. Options that take a value must be known, because
//! otherwise the command after them cannot be found; an unknown option of such a program is
//! uncertain. Scripts, interpreters and build tools are judged by their name only.

mod awk_sed;
mod builtins;
mod git;
mod loose;
mod prefix;
mod programs;
mod shells;

pub(crate) use git::git_operands;
pub(super) use programs::{command_effects, runs_shell_on_input};
pub(super) use shells::heredoc_shell;
