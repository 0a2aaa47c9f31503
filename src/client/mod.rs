//! A small HTTP/1.1 client for our own server, over TCP, TLS or a unix socket.
//!
//! It opens one connection per request: its users are the command line, and a proxy that keeps its
//! one connection for its whole life. Every wait and every response is limited.

mod http_client;
mod target;

pub use http_client::{ClientError, ResponseStream, ServerClient, ServerResponse, UpgradedStream};
pub use target::{
    Authority, BearerToken, DEFAULT_SOCKET_NAME, Endpoint, ServerTarget, TargetError,
    list_private_sockets, private_socket, private_socket_dir, remove_stale_sockets,
};
