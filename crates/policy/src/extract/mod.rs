//! Finds every simple command that a shell text could run.
//!
//! The reader makes one pass over the bytes, recursive over the structure, without a syntax tree.
//! It fails closed: if bash and this reader could disagree, or if the text alone does not determine
//! which commands run, the result is uncertain, never a guess. A text over a limit on size, depth
//! or count is uncertain, too.
//!
//! **Invariant**: each program that bash starts for a text is in `commands` by name, or `uncertain`
//! is set. A differential fuzz test against real bash checks it.

mod compound;
mod expansion;
mod simple_command;
mod symbol_table;
mod text_reader;
mod word;

pub use text_reader::extract;
pub(crate) use text_reader::extract_call;
