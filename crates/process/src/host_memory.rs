//! How much memory there is for us: that of the host, or what our cgroup may use of it.

use std::fs;

/// Bytes of memory that we and our jobs may use together, where that is known.
#[must_use]
pub fn total() -> Option<u64> {
    let host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = limit_files(&groups);
    let bounds = files.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    bounds.chain(host).min()
}

/// `MemTotal:       24567890 kB`
fn mem_total(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// The files that may bound our memory: those of our cgroup and of those above it. In a container
/// the path is often that of the host, and the files are at the top of the mount.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.push(format!("{root}{path}/{name}"));
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_tells_its_memory() {
        assert_eq!(mem_total("MemTotal:       1000 kB\nMemFree: 1 kB\n"), Some(1_024_000));
        assert_eq!(mem_total("MemFree: 1 kB\n"), None);
        assert!(total().is_some_and(|bytes| bytes > 64 << 20));
    }

    #[test]
    fn every_cgroup_above_us_may_bound_it() {
        assert_eq!(
            limit_files("0::/a/b\n"),
            [
                "/sys/fs/cgroup/a/b/memory.max",
                "/sys/fs/cgroup/a/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            limit_files("4:memory:/\n1:cpu,cpuacct:/x\n"),
            ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
    }
}
