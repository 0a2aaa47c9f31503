//! Where our own cgroup is in the file system.

use std::fs;
use std::path::PathBuf;

/// The directory of the cgroup that this process is in, or why there is none.
pub(super) fn own_directory() -> Result<PathBuf, String> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|error| format!("{path} cannot be read ({error})"))
    };
    locate(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
}

fn locate(cgroup: &str, mountinfo: &str) -> Result<PathBuf, String> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.ok_or("this kernel has no cgroups of version 2")?;
    let mut mounts = mountinfo.lines().filter_map(unified).peekable();
    if mounts.peek().is_none() {
        return Err("no file system of type cgroup2 is mounted".to_owned());
    }
    let below = |(root, point): (&str, &str)| {
        let rest = path.strip_prefix(root.trim_end_matches('/'))?;
        // A sibling's name may begin with ours; a way up is out of what is mounted.
        let is_inside = rest.is_empty() || rest.starts_with('/') && !rest.contains("/..");
        is_inside.then(|| PathBuf::from(point).join(rest.trim_matches('/')))
    };
    mounts
        .find_map(below)
        .ok_or_else(|| format!("our cgroup {path} is outside of what is mounted of them"))
}

/// Root and mount point, if a line of mountinfo is about a cgroup2 file system.
fn unified(line: &str) -> Option<(&str, &str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let places = (fields.next()?, fields.next()?);
    (file_system.split(' ').next()? == "cgroup2").then_some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURE: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const BOUND: &str = "50 40 0:26 /docker/ab /sys/fs/cgroup ro shared:9 - cgroup2 cgroup rw\n";

    #[track_caller]
    fn check(cgroup: &str, mountinfo: &str, expected: Option<&str>) {
        let found = locate(cgroup, mountinfo);
        assert_eq!(found.as_deref().ok(), expected.map(std::path::Path::new), "{found:?}");
    }

    #[test]
    fn our_cgroup_is_found_in_every_layout() {
        let unit = "0::/system.slice/shellyard.service\n";
        check(unit, PURE, Some("/sys/fs/cgroup/system.slice/shellyard.service"));
        check("4:memory:/x\n0::/\n", HYBRID, Some("/sys/fs/cgroup/unified"));
        check("4:memory:/x\n0::/a/b\n", HYBRID, Some("/sys/fs/cgroup/unified/a/b"));
        check("0::/docker/ab/c\n", BOUND, Some("/sys/fs/cgroup/c"));
        check("0::/docker/ab\n", BOUND, Some("/sys/fs/cgroup"));
    }

    #[test]
    fn what_is_not_mounted_is_not_found() {
        check("4:memory:/x\n", PURE, None);
        check("0::/\n", "", None);
        check("0::/docker/abc\n", BOUND, None);
        check("0::/other\n", BOUND, None);
        check("0::/../above\n", PURE, None);
    }
}
