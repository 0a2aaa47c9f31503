//! The same over two pipes.

use std::io::Write as _;
use std::process::{ChildStdin, ChildStdout};

use memchr::{memchr, memmem};
use rustix::buffer::spare_capacity;

use super::Call;

const READ_BYTES: usize = 64 << 10;

/// Calls tools by lines of JSON, any number of them at once.
#[derive(Debug)]
pub(crate) struct StdioClient {
    input: ChildStdin,
    output: ChildStdout,
    /// Bytes that were read after the last complete line.
    buffer: Vec<u8>,
    next_id: u64,
}

/// An answer and the request that it belongs to.
#[derive(Debug)]
pub(crate) struct AnswerLine {
    pub(crate) id: u64,
    pub(crate) text: Vec<u8>,
}

impl StdioClient {
    pub(crate) const fn new(input: ChildStdin, output: ChildStdout) -> Self {
        Self { input, output, buffer: Vec::new(), next_id: 1 }
    }

    /// Sends a call: its id.
    pub(crate) fn send(&mut self, call: &Call) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.write(call.body(id));
        id
    }

    /// Sends a line as it is.
    pub(crate) fn write(&mut self, mut line: String) {
        line.push('\n');
        self.input.write_all(line.as_bytes()).expect("the server reads");
    }

    /// Waits for the next answer.
    pub(crate) fn receive(&mut self) -> AnswerLine {
        let end = loop {
            if let Some(end) = memchr(b'\n', &self.buffer) {
                break end;
            }
            self.buffer.reserve(READ_BYTES);
            let count = rustix::io::read(&self.output, spare_capacity(&mut self.buffer));
            assert_ne!(count.expect("a pipe"), 0, "the server hung up");
        };
        let text: Vec<u8> = self.buffer.drain(..=end).collect();
        AnswerLine { id: id_of(&text), text }
    }

    /// Sends a call and waits for its answer.
    pub(crate) fn call(&mut self, call: &Call) -> Vec<u8> {
        let id = self.send(call);
        let line = self.receive();
        assert_eq!(line.id, id, "an answer to this call");
        line.text
    }
}

fn id_of(line: &[u8]) -> u64 {
    const ID: &[u8] = br#""id":"#;
    let at = memmem::find(line, ID).expect("answers have ids") + ID.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}
