//! `shell_exec`: a command whose output comes in pages; `read_file_chunk` reads what was spilled.
//!
//! A call with a cursor reads on in the output of a command that was run before, and runs nothing
//! again. Offsets count the bytes of stdout as they were written; what a page shows of them may be
//! shorter, since escape codes and `\r` are taken out on the way.

mod address;
mod chunk;
mod error;
mod piece;
mod reading;
mod schema;
mod target;
mod tool;
mod wish;

pub(super) use address::{Address, Packing};
pub(super) use chunk::{Chunk, Style};
pub(super) use error::ExecError;
pub(super) use piece::{Limits, Span, stream_piece};
pub(super) use reading::mime_of;
pub(super) use schema::{ABOUT, schema};
pub(super) use tool::call;
pub(super) use wish::place;
