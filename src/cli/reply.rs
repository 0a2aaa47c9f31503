//! What a verb has to say, and its exit code.

use std::io::{self, Write};

/// What a verb has to say, and its exit code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: u8,
}

impl Reply {
    /// Says it, and gives the exit code.
    pub(super) fn give(&self) -> u8 {
        let told = io::stderr().lock().write_all(self.stderr.as_bytes());
        let given = io::stdout().lock().write_all(self.stdout.as_bytes());
        // A reader that went away (`| head`) cannot be told anything any more.
        if told.and(given).is_ok() { self.code } else { 1 }
    }
}
