//! Proves which programs a text starts, for allow lists.
//!
//! The wide reader (`extract`) understands as much shell as possible, to find what a deny rule
//! names. An allow list needs the opposite: certainty. The recogniser here accepts a small, closed
//! set of constructs, each with the reason why it starts no other program, and refuses everything
//! else by name.
//!
//! - `recognise` reads commands, `reader` redirections, `words` words and the expansions in them,
//!   all with the cursor of `reader`: the accepted grammar.
//! - `word` says what a word with variables in it can become.
//! - `prove` follows the commands: `builtins` for the shell's own, `tools` for programs that can
//!   start others, which are known by the options that are harmless, not by the dangerous ones. It
//!   also keeps a line from writing code that it runs.

mod builtins;
mod prove;
mod reader;
mod recognise;
#[cfg(test)]
mod tests;
mod tools;
mod word;
mod words;

pub(crate) use prove::{Context, Proof, prove_call, prove_text};
