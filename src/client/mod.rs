//! A small HTTP/1.1 client for our own server: over TCP, over TLS, and over a unix socket.
//!
//! One connection per request: whoever asks is a command line or a proxy that keeps its one
//! connection for as long as it lives. Every wait and every answer has a bound.

mod http_client;
mod target;

pub use http_client::{ClientError, ServerClient, ServerResponse, UpgradedStream};
pub use target::{
    Authority, BearerToken, DEFAULT_SOCKET_NAME, Endpoint, ServerTarget, TargetError,
};
