//! The HTTP server: passes requests to the MCP handler, the API and the probes, after the guard has
//! checked them.
//!
//! ```text
//! Server (listeners, permits, shutdown) → guard (host, origin, auth, body) → /mcp → mcp::Handler
//!                                                                        → /mcp, upgraded → lines
//!                                                                        → /api/v1 → service::JobOutput
//!                                                                        → /healthz /readyz /metrics
//! ```
//!
//! **Invariant:** no request reaches a route without passing the guard.
//! **Invariant:** settings limit connections, headers, bodies, sessions, the time that a client may
//! take to send or to read, and the time of a shutdown.

mod api;
pub mod auth;
mod connection;
mod connection_table;
mod guard;
mod legacy_session;
mod listen;
mod mcp_endpoint;
mod probes;
mod server;
mod session_streams;
mod sessions;
mod settings;

pub(crate) use api::MAX_TAIL;
pub use api::{
    ApiProcess, ReloadedSettings, ServerControl, ServerGeneration, ServerKind, UpgradeControl,
};
pub use connection_table::JobDetection;
pub use legacy_session::SessionKey;
pub use listen::{HttpError, InheritedListeners};
pub use probes::{MetricsRenderer, Readiness};
pub use server::{HttpServices, Route, Server};
pub use settings::{HttpServerSettings, OfferedRoutes, SocketPath};
