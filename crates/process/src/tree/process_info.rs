//! Descriptions of the processes of a tree, for people.

use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use crate::processes::{ProcStat, pid_number};

/// Bytes of a command line that are read.
const COMMAND_BYTES: u64 = 1024;

/// One living process of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The process id, as the server sees it.
    pub pid: u32,
    /// The process id of its parent; 0 if that is outside of the server's namespace.
    pub parent: u32,
    /// Its arguments, separated by blanks; the beginning of a long command. Empty if it has none or
    /// has ended meanwhile.
    pub command: String,
    /// CPU time of the process and of the children that it waited for.
    pub cpu: Duration,
    /// Its resident memory, shared pages included.
    pub rss_bytes: u64,
}

impl ProcessInfo {
    pub(super) fn read(stat: &ProcStat) -> Self {
        let pid = pid_number(stat.pid);
        Self {
            pid,
            parent: u32::try_from(stat.parent).unwrap_or(0),
            command: read_command(pid),
            cpu: stat.cpu(),
            rss_bytes: stat.rss_bytes(),
        }
    }
}

fn read_command(pid: u32) -> String {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline"));
    // A process that has ended has no command any more.
    file.and_then(|file| file.take(COMMAND_BYTES).read_to_end(&mut bytes)).ok();
    format_command(&bytes)
}

/// Formats arguments that each end with a zero byte.
fn format_command(arguments: &[u8]) -> String {
    let text = String::from_utf8_lossy(arguments);
    text.trim_end_matches('\0').replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_separated_by_blanks() {
        for (bytes, text) in [
            (&b"sleep\x0010\0"[..], "sleep 10"),
            (b"sh\0-c\0echo a b\0", "sh -c echo a b"),
            (b"", ""),
            (b"cut", "cut"),
        ] {
            assert_eq!(format_command(bytes), text);
        }
        assert!(!read_command(std::process::id()).is_empty());
        assert_eq!(read_command(u32::MAX), "");
    }
}
