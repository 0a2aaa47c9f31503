//! The effects of a listed program's arguments.
//!
//! A program that can start others, or that writes files which others execute, has an entry in one
//! of the tables of `crates/policy/tables/`. The entry lists the options and subcommands known to
//! be harmless, taken from the help of a named version (or marked as unchecked). Anything that an
//! entry does not list is in doubt, and the doubt names it. Programs that start nothing are in the
//! table `inert`. Every other program is unknown: only a rule that ends in `*` lets it run.
//!
//! - `options` reads the text of the tables and lists of options in it, `entry` one block of it.
//! - `programs` finds the entry of a program, and knows the builtins of the shell.
//! - The other files hold the functions that tables name, where a list does not say enough; the one
//!   that refuses all arguments is in `entry`.

mod awk_sed;
mod build;
mod entry;
mod files;
mod git;
mod network;
mod other;
mod programs;
mod wrappers;

pub(crate) use entry::{ArgumentEffect, is_standard_input};
pub(crate) use programs::{Builtin, consequences, is_assigning_builtin, is_known, look_up_builtin};
