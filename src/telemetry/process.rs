//! What this process uses, read from `/proc/self` when somebody asks.

use std::fs;

/// Resident memory in bytes; `None` where `/proc` does not tell.
pub(super) fn resident_bytes() -> Option<u64> {
    resident_of(&fs::read_to_string("/proc/self/status").ok()?)
}

/// Open file descriptors, without the one that counts them.
pub(super) fn open_fds() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_the_status_text() {
        assert_eq!(resident_of("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(resident_of("Name:\tx\n"), None);
        assert_eq!(resident_of("VmRSS:\tmuch\n"), None);
    }

    #[test]
    fn this_process_uses_something() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 0));
        assert!(open_fds().is_some_and(|fds| fds > 0));
    }
}
