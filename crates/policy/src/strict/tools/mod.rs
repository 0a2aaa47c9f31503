//! The effects of a listed program's arguments.
//!
//! A program that can start others, or that writes files which others execute, has an entry in one
//! of the tables of `crates/policy/tables/`. The entry lists the options and subcommands known to
//! be harmless, taken from the help of a named version (or marked as unchecked). Anything that an
//! entry does not list is in doubt, and the doubt names it. Programs that start nothing are in the
//! table `inert`. Every other program is unknown: only a rule that ends in `*` lets it run.
//!
//! - `tables` reads the text of the tables, `entry` one block of it, `options` a list of options.
//! - `programs` finds the entry of a program.
//! - The other files hold the functions that tables name, where a list does not say enough.

mod archives;
mod awk;
mod build;
mod cloud;
mod entry;
mod files;
mod find;
mod git;
mod interpreters;
mod network;
mod other;
mod packages;
mod programs;
mod sed;
#[cfg(test)]
mod tests;
mod wrappers;

pub(crate) use entry::{ArgumentEffect, is_standard_input};
pub(crate) use programs::{consequences, is_known};
