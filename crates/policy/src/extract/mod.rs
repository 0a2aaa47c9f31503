//! Finds every simple command that a shell text could run.
//!
//! One pass over the bytes, recursive over the structure, no syntax tree. It fails closed: where
//! bash and this reader could disagree, or where the text alone does not tell what will run, the
//! result is uncertain and never a guess. Bounds on size, depth and count end in "uncertain" too.
//!
//! **Invariant**: each program that bash starts for a text is among `commands` by name, or
//! `uncertain` is set. A differential fuzz against real bash holds it.

mod compound;
mod cursor;
mod expansion;
mod scope;
mod simple_command;
#[cfg(test)]
mod tests;
mod walker;
mod word;

pub use walker::{MAX_COMMANDS, MAX_DEPTH, MAX_TEXT, extract, extract_call};
