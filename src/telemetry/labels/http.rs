//! The HTTP door.

use super::words::words;

words! {
    /// Why an HTTP request or connection was turned away before any route saw it.
    pub enum Refusal {
        /// The Host header is not on the list.
        Host = "host",
        /// The Origin header is not on the list.
        Origin = "origin",
        /// The bearer token is missing or wrong.
        Auth = "auth",
        /// The headers are too large.
        Headers = "headers",
        /// The body is too large.
        Body = "body",
        /// Too many connections are open.
        Connections = "connections",
        /// The client left what was sent to it unread for too long.
        Unread = "unread",
        /// The process at the other end of the unix socket is another user's.
        Peer = "peer",
        /// A job of this server sent it.
        Job = "job",
    }
}
