//! A server under test that is called over HTTP.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::Running;
use crate::client::HttpClient;

/// A server on a port of its own.
#[derive(Debug)]
pub(crate) struct HttpServer {
    running: Running,
    address: SocketAddr,
}

impl HttpServer {
    /// Starts it with these variables, and returns once it listens.
    pub(crate) fn start(variables: &[(String, String)]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("it is bound");
        drop(free);
        let command = ["serve", "--bind", &address.to_string()];
        let running = Running::start(&command, Stdio::null, variables);
        let server = Self { running, address };
        server.await_listening();
        server
    }

    fn await_listening(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(self.address).is_err() {
            assert!(Instant::now() < deadline, "the server never listened");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A new connection to it.
    pub(crate) fn client(&self) -> HttpClient {
        HttpClient::connect(self.address)
    }

    pub(crate) fn clients(&self, count: usize) -> Vec<HttpClient> {
        (0..count).map(|_| self.client()).collect()
    }
}

impl Deref for HttpServer {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}
