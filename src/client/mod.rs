//! A small HTTP/1.1 client for our own server: over TCP, over TLS, and over a unix socket.
//!
//! One connection per request: whoever asks is a command line or a proxy that keeps its one
//! connection for as long as it lives. Every wait and every answer has a bound.

mod connect;
mod error;
mod exchange;
mod target;
mod tls;
mod token;

pub use error::ClientError;
pub use exchange::{Answer, Client, Upgraded};
pub use target::{Authority, Place, Target, TargetError, USUAL_SOCKET};
pub use token::Token;
