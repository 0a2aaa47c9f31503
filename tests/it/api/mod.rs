//! `/api/v1` for people and programs: what jobs are, what may be done with them, and their output as
//! it grows; over TCP and over unix sockets.

mod actions;
mod description;
mod events;
mod fields;
mod following;
mod operators;
mod private_sockets;

use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{HttpConnection, HttpRequest, TestServer};

/// The address of a server of either kind.
#[derive(Debug, Clone)]
enum ApiAddress {
    Tcp(String),
    Unix(PathBuf),
}

/// A caller of the API, with its token.
#[derive(Debug, Clone)]
struct ApiCaller {
    address: ApiAddress,
    token: Option<String>,
}

impl ApiCaller {
    fn new(address: ApiAddress) -> Self {
        Self { address, token: None }
    }

    /// Both ways to a server of HTTP.
    fn both_ways(server: &mut TestServer) -> [Self; 2] {
        let tcp = ApiAddress::Tcp(server.http().address().to_owned());
        let unix = ApiAddress::Unix(server.data().join("shellyard.sock"));
        [Self::new(tcp), Self::new(unix)]
    }

    fn over_tcp(server: &mut TestServer) -> Self {
        let [tcp, _] = Self::both_ways(server);
        tcp
    }

    fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    #[track_caller]
    fn connect(&self) -> HttpConnection {
        match &self.address {
            ApiAddress::Tcp(address) => HttpConnection::open(address),
            ApiAddress::Unix(path) => HttpConnection::open_unix(path),
        }
    }

    /// Sends a request on a connection of its own; its answer is still to be read.
    #[track_caller]
    fn open(&self, request: HttpRequest) -> HttpConnection {
        let request = match &self.token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        };
        let mut connection = self.connect();
        connection.send(&request);
        connection
    }

    /// The status and the body of the answer.
    #[track_caller]
    fn send(&self, request: HttpRequest) -> (u16, String) {
        let mut connection = self.open(request);
        let answer = connection.answer();
        (answer.status, answer.text())
    }

    #[track_caller]
    fn get(&self, path: &str) -> (u16, Value) {
        let (status, text) = self.send(HttpRequest::get(&format!("/api/v1{path}")));
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}")))
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.send(HttpRequest::post(&format!("/api/v1{path}"), body));
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}")))
    }

    /// The body of a path that exists.
    #[track_caller]
    fn read(&self, path: &str) -> String {
        let (status, text) = self.send(HttpRequest::get(&format!("/api/v1{path}")));
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    /// The state of a job once it has finished.
    #[track_caller]
    fn wait_finished(&self, job: u64) -> Value {
        crate::harness::eventually_some(&format!("job {job} finishes"), || {
            let (status, state) = self.get(&format!("/jobs/{job}?wait_s=20"));
            assert_eq!(status, 200, "{state}");
            (state["state"] == "finished").then_some(state)
        })
    }
}

/// The number of a job in an answer.
#[track_caller]
fn number(job: &Value) -> u64 {
    job["job"].as_u64().unwrap_or_else(|| panic!("no job: {job}"))
}

/// The code of an error.
fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or_default()
}
