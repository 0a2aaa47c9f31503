//! MCP over standard input and output, until the input ends: one client of [`crate::lines`].

mod serve;

pub use serve::serve;
