//! The effects of programs and builtins that run others, or that evaluate text, for deny and ask rules.
//!
//! Everyday wrappers (`env`, `sudo`, `timeout`) are read by their options; an unknown option is
//! uncertain. Behind the options of other wrappers (`loose`) each word that may start the command
//! counts as one. Scripts, interpreters and build tools are judged by their name only.

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
