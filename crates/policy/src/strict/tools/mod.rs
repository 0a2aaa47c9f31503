//! What the arguments of a listed program make it do.
//!
//! A program without an entry here is judged by its name alone: whatever its arguments are, it
//! starts nothing else. A program that can start others, or that writes files which others execute,
//! has an entry that lists the options and subcommands known to be harmless, taken from the help of
//! a named version. Anything that an entry does not list is in doubt, and the doubt names it.

mod archive;
mod awk;
mod build;
mod checkers;
mod cloud;
mod compilers;
mod consequence;
mod containers;
mod databases;
mod dispatch;
mod entry;
mod files;
mod find;
mod git;
mod git_options;
mod git_settings;
mod interpreters;
mod network;
mod option_spec;
mod options;
mod package_operands;
mod packages;
mod rest;
mod sed;
mod shells;
mod system_packages;
#[cfg(test)]
mod table_checks;
#[cfg(test)]
mod testing;
mod text;
mod tool;
mod transfer;
mod viewers;
mod wrappers;
mod xargs;

pub(crate) use consequence::Consequence;
pub(crate) use dispatch::consequences;
