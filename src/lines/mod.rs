//! MCP as JSON lines over any pair of streams: standard input and output, or an upgraded
//! connection.
//!
//! rmcp's own line transport ends the server on an early notification, does not answer a line that
//! is not JSON, and lets two calls with one id wait forever. So this module reads the lines: a reader
//! task forwards whole messages and answers everything else itself.
//!
//! ```text
//! input → reader task → messages (bounded) → rmcp → Handler → replies → output
//!              └──────── error replies ───────────────────────────↗
//! ```
//!
//! **Invariant:** no line, however long or broken, ends the server or uses more memory than one
//! message may have. A reply counts as in flight until it is written, so that a client that does not
//! read cannot make the server hold many replies.

mod message;
mod serve;

pub use message::{
    ClientEnvironment, DecodedMessage, EncodedEnvironment, EnvironmentError, InputLine,
    MAX_LINE_BYTES, OversizeLine, connection_error, decode_environment, decode_message,
    encode_environment, find_id_near_ends, read_line, server_lost_error, trim_line,
};
pub use serve::{
    CLOSING_METHOD, DIRECTORY_HEADER, INPUT_END_GRACE, MAX_IN_FLIGHT, StopConditions,
    UPGRADE_PROTOCOL, serve_stdio, serve_streams,
};
pub(crate) use serve::{InFlightRequests, find_request_id};
