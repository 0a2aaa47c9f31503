//! The effects of a listed program's arguments.
//!
//! A program that can start others, or that writes files which others execute, has an entry that
//! lists the options and subcommands known to be harmless, taken from the help of a named version
//! (or marked as unchecked). Anything that an entry does not list is in doubt, and the doubt names
//! it. Programs that start nothing are listed in `inert`. Every other program is unknown: only a rule
//! that ends in `*` lets it run.

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
mod inert;
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
mod unread;
mod viewers;
mod wrappers;
mod xargs;

pub(crate) use consequence::Consequence;
pub(crate) use dispatch::{consequences, is_known};
