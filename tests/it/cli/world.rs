//! A server with some jobs, and the ways to reach it.

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Sandbox, TerminalProgram, TestServer, eventually,
    in_terminal, output_of,
};

/// The way from the command line to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Socket,
    Tcp,
    Tls,
}

/// Every way.
pub(super) const ROUTES: [Route; 3] = [Route::Socket, Route::Tcp, Route::Tls];

/// A server and the way to it.
pub(super) struct World {
    pub(super) server: TestServer,
    way: Route,
    /// Read again by a server that replaces this one.
    _certificates: TempDir,
}

impl World {
    /// Starts a server that is reached in this way.
    #[track_caller]
    pub(super) fn start(way: Route) -> Self {
        Self::start_with(way, Launch::http())
    }

    #[track_caller]
    pub(super) fn start_with(way: Route, launch: Launch) -> Self {
        let certificates = tempfile::tempdir().expect("a directory");
        let launch = match way {
            Route::Socket | Route::Tcp => launch,
            Route::Tls => {
                let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
                let made = made.expect("a certificate");
                let [cert, key] =
                    ["cert.pem", "key.pem"].map(|name| certificates.path().join(name));
                fs::write(&cert, made.cert.pem()).expect("a file of ours");
                fs::write(&key, made.signing_key.serialize_pem()).expect("a file of ours");
                launch.config(&format!("[http]\ntls_cert = {cert:?}\ntls_key = {key:?}\n"))
            }
        };
        let server = launch.start_silent();
        if way == Route::Tls {
            let cert = certificates.path().join("cert.pem");
            fs::copy(cert, server.sandbox().path().join("trusted.pem")).expect("a copy");
        }
        Self { server, way, _certificates: certificates }
    }

    pub(super) fn sandbox(&self) -> &Sandbox {
        self.server.sandbox()
    }

    /// Returns the command of a verb, with the flags that name the server. Flags of `run` stand
    /// before its command.
    pub(super) fn command(&mut self, words: &[&str]) -> Command {
        self.command_through(&[], words)
    }

    fn command_through(&mut self, through: &[&str], words: &[&str]) -> Command {
        let address = self.server.http().address().to_owned();
        let port = address.rsplit(':').next().unwrap_or_default().to_owned();
        let mut command = self.sandbox().command_through(through);
        command.env("TERM", "xterm-256color");
        let flags = match self.way {
            Route::Socket => {
                vec!["--data-dir".to_owned(), self.sandbox().data().display().to_string()]
            }
            Route::Tcp => vec!["--connect".to_owned(), format!("http://{address}/mcp")],
            Route::Tls => {
                command.env("SSL_CERT_FILE", self.sandbox().path().join("trusted.pem"));
                vec!["--connect".to_owned(), format!("https://localhost:{port}/mcp")]
            }
        };
        let position = if words.first() == Some(&"config") { 2 } else { 1 };
        command.args(&words[..position]).args(flags).args(&words[position..]);
        command
    }

    /// Runs a verb to its end, with pipes.
    #[track_caller]
    pub(super) fn run(&mut self, words: &[&str]) -> Output {
        output_of(self.command(words), "")
    }

    /// Starts a verb in a terminal of this width.
    #[track_caller]
    pub(super) fn start_in_terminal(&mut self, words: &[&str], columns: u16) -> TerminalProgram {
        let mut command = self.command_through(in_terminal(), words);
        command.env("PAGER", "cat");
        TerminalProgram::start(command, 24, columns)
    }

    /// Submits a job over the socket and returns its number.
    #[track_caller]
    pub(super) fn submit(&self, fields: &Value) -> String {
        let answer = self.post("/api/v1/jobs", fields);
        let number = answer["job"].as_u64();
        number.unwrap_or_else(|| panic!("no job: {answer}")).to_string()
    }

    /// Submits shell text and waits until the job has ended.
    #[track_caller]
    pub(super) fn finished_job(&self, command: &str) -> String {
        let job = self.submit(&json!({"command": command, "stdin": ""}));
        eventually("the job ends", || self.job(&job)["state"] == "finished");
        job
    }

    /// Submits shell text and waits until the job runs.
    #[track_caller]
    pub(super) fn running_job(&self, fields: &Value) -> String {
        let job = self.submit(fields);
        eventually("the job runs", || self.job(&job)["state"] == "running");
        job
    }

    #[track_caller]
    pub(super) fn job(&self, number: &str) -> Value {
        self.exchange(&HttpRequest::get(&format!("/api/v1/jobs/{number}")))
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.exchange(&HttpRequest::post(path, body))
    }

    fn exchange(&self, request: &HttpRequest) -> Value {
        let socket = self.sandbox().data().join("shellyard.sock");
        let mut connection = HttpConnection::open_unix(&socket);
        connection.send(request);
        let text = connection.answer().text();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"))
    }
}
