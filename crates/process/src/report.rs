//! Exit codes of a shell's last pipeline, as the shell itself tells them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::pread;

use super::plumbing::above_standard_files;

/// The number under which the shell finds the file for its report. High, so that it is in
/// nobody's way; what the shell runs inherits it.
pub(super) const REPORT_FD: i32 = 61;

const MOST_BYTES: usize = 4096;

/// Where a shell leaves the exit codes of its last pipeline.
#[derive(Debug)]
pub struct PipelineReport {
    file: OwnedFd,
}

impl PipelineReport {
    pub(super) fn create() -> io::Result<Self> {
        let file = memfd_create("pipeline", MemfdFlags::CLOEXEC)?;
        Ok(Self { file: above_standard_files(file)? })
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The codes, first command first; to be called after the leader ended.
    ///
    /// Empty when the last command was no pipeline, or when the shell told nothing: it was killed,
    /// replaced itself by `exec`, or had an EXIT trap of its own.
    #[must_use]
    pub fn read(self) -> Vec<i32> {
        let mut text = [0; MOST_BYTES];
        let length = pread(&self.file, &mut text, 0).unwrap_or(0);
        parse(&String::from_utf8_lossy(text.get(..length).unwrap_or_default()))
    }
}

/// Anything but two codes or more is no report: the text comes from the job.
fn parse(text: &str) -> Vec<i32> {
    let codes: Result<Vec<i32>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    codes.ok().filter(|codes| codes.len() > 1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pipeline_is_a_report() {
        assert_eq!(parse("1 0 "), [1, 0]);
        assert_eq!(parse("0 141 2\n"), [0, 141, 2]);
        for text in ["", "0 ", "1 x", "99999999999 0", "\u{fffd} 1 2"] {
            assert_eq!(parse(text), [0; 0], "{text}");
        }
    }
}
