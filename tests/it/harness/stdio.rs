//! JSON-RPC lines over a child's stdin and stdout.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::wait::DEADLINE;

/// A stdio server's two pipes. Messages that nobody waited for yet are kept in order.
#[derive(Debug)]
pub(crate) struct StdioLink {
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    kept: VecDeque<Value>,
}

impl StdioLink {
    /// Reads what the server writes from now on, on a thread of its own.
    pub(crate) fn new(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                let message = serde_json::from_str(&line)
                    .unwrap_or_else(|_| Value::String(format!("not JSON on stdout: {line}")));
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Self { stdin: Some(stdin), lines, kept: VecDeque::new() }
    }

    /// Writes one message and its newline.
    #[track_caller]
    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    /// Writes any text as a line.
    #[track_caller]
    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is still open");
        stdin.write_all(line.as_bytes()).expect("the server reads its stdin");
        stdin.write_all(b"\n").expect("the server reads its stdin");
        stdin.flush().expect("the server reads its stdin");
    }

    /// Closes the server's stdin.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// The first message that `wanted` picks; the others are kept.
    #[track_caller]
    pub(crate) fn receive(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.kept.iter().position(&wanted) {
            return self.kept.remove(index).expect("the index is valid");
        }
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = match self.lines.recv_timeout(left) {
                Ok(message) => message,
                Err(error) => panic!("no {what}: {error}; kept: {:?}", self.kept),
            };
            assert!(!message.is_string(), "{message}");
            if wanted(&message) {
                return message;
            }
            self.kept.push_back(message);
        }
    }

    /// The answer to request `id`.
    #[track_caller]
    pub(crate) fn response(&mut self, id: u64) -> Value {
        self.receive(&format!("answer to request {id}"), |message| {
            message["id"] == id && message.get("method").is_none()
        })
    }

    /// Forgets what came before the last message that was waited for.
    pub(crate) fn forget_earlier(&mut self) {
        self.kept.clear();
    }

    /// Everything that came so far and was not waited for.
    pub(crate) fn take_all(&mut self) -> Vec<Value> {
        self.kept.extend(self.lines.try_iter());
        self.kept.drain(..).collect()
    }
}
