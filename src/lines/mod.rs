//! MCP as JSON lines over any pair of streams: standard input and output, or a connection that was
//! upgraded to them.
//!
//! rmcp's own line transport ends the server on an early notification, answers nothing to
//! a line that is no JSON, and lets two calls with one id wait for ever. So the lines are
//! read here: a reader task hands on whole messages, and answers itself what is none.
//!
//! ```text
//! input → reader task → messages (bounded) → rmcp → Handler → replies → output
//!              └──────── error replies ───────────────────────────↗
//! ```
//!
//! **Invariant:** no line, however long or broken, ends the server or grows its memory
//! beyond what one message may have. A reply counts as in flight until it is written, so that a
//! client that reads none of them cannot make us hold many.

mod in_flight;
mod line;
mod serve;

pub(crate) use in_flight::{InFlightRequests, request_id};
pub use line::{
    DecodedLine, InputLine, MAX_LINE_BYTES, OversizeLine, decode_message, id_near_ends, read_line,
    trim_line,
};
pub use serve::{
    CLOSING_METHOD, DIRECTORY_HEADER, INPUT_END_GRACE, MAX_IN_FLIGHT, StopConditions,
    UPGRADE_PROTOCOL, serve_streams,
};
