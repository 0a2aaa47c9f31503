//! Proves which programs a text starts, for allow lists.
//!
//! The wide reader (`extract`) understands as much shell as possible, to find what a deny rule
//! names. An allow list needs the opposite: certainty. [`recognise`] accepts a small, closed set of
//! constructs, each with the reason why it starts no other program, and refuses everything else by
//! name. [`tools`] does the same for arguments: programs that can start others are known by the
//! options that are harmless, not by those that are dangerous.

mod recognise;
mod tools;

pub(crate) use recognise::{Proof, recognise};
