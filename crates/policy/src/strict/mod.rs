//! Proves which programs a text starts, for allow lists.
//!
//! The wide reader (`extract`) understands as much shell as possible, to find what a deny rule
//! names. An allow list needs the opposite: certainty. The recogniser here accepts a small, closed
//! set of constructs, each with the reason why it starts no other program, and refuses everything
//! else by name.
//!
//! - `recognise` reads commands, `reader` redirections, `words` words and the expansions in them,
//!   all with the cursor of `reader`: the accepted grammar. `reader` also says what a word with
//!   variables in it can become.
//! - `prove` follows the commands with `tools`, which knows the shell's own builtins, and the programs
//!   that can start others by the options that are harmless, not by the dangerous ones. It also keeps
//!   a line from writing code that it runs.

mod prove;
mod reader;
mod recognise;
#[cfg(test)]
mod tests;
mod tools;
mod words;

pub(crate) use prove::{Context, Proof, prove_call, prove_text};
