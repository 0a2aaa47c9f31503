//! A server under test that is called over stdio.

use std::process::Stdio;

use super::Running;
use crate::client::StdioClient;

/// A server with its one client.
#[derive(Debug)]
pub(crate) struct StdioServer {
    pub(crate) client: StdioClient,
    pub(crate) running: Running,
}

impl StdioServer {
    /// Starts it with these variables. It need not be ready: what is written waits for it.
    pub(crate) fn start(variables: &[(String, String)]) -> Self {
        let mut running = Running::start(&["stdio"], Stdio::piped, variables);
        let input = running.child.stdin.take().expect("it was piped");
        let output = running.child.stdout.take().expect("it was piped");
        Self { client: StdioClient::new(input, output), running }
    }
}
