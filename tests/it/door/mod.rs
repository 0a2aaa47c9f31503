//! What holds the door: strangers, crowds, and clients that are slow or never listen.

mod blocking_files;
mod crowd;
mod data_dir;
mod jobs;
mod rebinding;
mod sizes;
mod slow;
mod socket;
mod tls;
mod unread;

use serde_json::json;

use crate::harness::{Era, HttpConnection, Request, Yard};

/// Every route, and a path that is none.
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
fn run_command(command: &str) -> Request {
    let params = json!({"name": "run_command", "arguments": {"command": command}});
    let message = Era::Modern.request(1, "tools/call", params);
    let mut request = Request::post("/mcp", &message);
    request.headers.extend(Era::Modern.headers(&message));
    request
}

#[track_caller]
fn status_of(yard: &mut Yard, request: &Request) -> u16 {
    let mut connection = HttpConnection::open(yard.http().address());
    connection.send(request);
    connection.answer().status
}

/// Connections and requests that were turned away for this reason.
#[track_caller]
fn refused(yard: &mut Yard, reason: &str) -> f64 {
    yard.metric(&format!("shellyard_http_refused_total{{reason=\"{reason}\"}}"))
}
