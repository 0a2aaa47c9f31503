//! HTTP: carries requests to the MCP handler, the API and the probes, and keeps strangers out.
//!
//! ```text
//! Server (listeners, seats, shutdown) → guard (host, origin, auth, body) → /mcp → mcp::Handler
//!                                                                        → /mcp, upgraded → lines
//!                                                                        → /api/v1 → yard::JobOutput
//!                                                                        → /healthz /readyz /metrics
//! ```
//!
//! **Invariant:** no route is reached without passing the guard.
//! **Invariant:** connections, headers, bodies, sessions, the time that a client may take to send
//! or to read, and the time that a shutdown takes are bounded, each by a setting.

mod api;
mod arrival;
pub mod auth;
mod backlog;
mod body;
mod connection;
mod connections;
mod crowd;
mod entry;
mod error;
mod guard;
mod half_close;
mod health;
mod in_flight;
mod job_detection;
mod keep_alive;
mod lines;
mod listen;
mod mcp_mount;
mod metrics;
mod operations;
mod refusal;
mod route;
mod routes;
mod serve;
mod sessions;
mod settings;
mod socket;
mod stall;
mod tls;

pub use error::{HttpError, SocketError};
pub use health::Readiness;
pub use job_detection::JobDetection;
pub use metrics::MetricsText;
pub use operations::{Operations, Reloaded};
pub use route::Route;
pub use routes::Doors;
pub use serve::Server;
pub use settings::{HttpSettings, SocketAt};
pub use tls::TlsError;
