//! The real binary, started for one measurement, and what it uses.

mod http;
mod running;
mod stdio;
mod usage;

pub(crate) use http::HttpServer;
pub(crate) use running::{BINARY, Running};
pub(crate) use stdio::StdioServer;
pub(crate) use usage::Usage;
