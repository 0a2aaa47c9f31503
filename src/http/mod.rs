//! HTTP: carries requests to the MCP handler, the API and the probes, and keeps strangers out.
//!
//! ```text
//! Server (accept, bounds, shutdown) → guard (host, origin, token, body) → /mcp → mcp::Handler
//!                                                                       → /api/v1 → yard::JobOutput
//!                                                                       → /healthz /readyz /metrics
//! ```
//!
//! **Invariant:** no route is reached without passing the guard.
//! **Invariant:** connections, headers, bodies, sessions and the time that a shutdown takes
//! are bounded, each by a setting.

mod api;
mod body;
mod error;
mod guard;
mod health;
mod keep_alive;
mod mcp_mount;
mod metrics;
mod routes;
mod serve;
mod sessions;
mod settings;

pub use error::HttpError;
pub use health::Readiness;
pub use metrics::MetricsText;
pub use routes::Doors;
pub use serve::Server;
pub use settings::{HttpSettings, Token};
