//! Protection of the server: web pages, limits, slow clients, sockets, TLS, the data directory, and
//! calls from jobs.

mod blocking_files;
mod calls_from_jobs;
mod connection_limits;
mod data_dir;
mod size_limits;
mod slow_clients;
mod tls;
mod unix_socket;
mod unread_responses;
mod web_pages;

use serde_json::json;

use crate::harness::{Era, HttpConnection, HttpRequest, TestServer};

/// Every route, and a path that is not one.
const ROUTES: [&str; 8] = [
    "/mcp",
    "/metrics",
    "/healthz",
    "/readyz",
    "/api/v1/jobs",
    "/api/v1/jobs/1",
    "/api/v1/jobs/1/output",
    "/no/such/path",
];

/// A call of `run_command`, as a client of the modern era posts it.
fn run_command(command: &str) -> HttpRequest {
    let params = json!({"name": "run_command", "arguments": {"command": command}});
    let message = Era::Modern.request(1, "tools/call", params);
    let mut request = HttpRequest::post("/mcp", &message);
    request.headers.extend(Era::Modern.headers(&message));
    request
}

#[track_caller]
fn status_of(server: &mut TestServer, request: &HttpRequest) -> u16 {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(request);
    connection.answer().status
}

/// The number of connections and requests that were refused for this reason.
#[track_caller]
fn refused(server: &mut TestServer, reason: &str) -> f64 {
    server.metric(&format!("shellyard_http_refused_total{{reason=\"{reason}\"}}"))
}
