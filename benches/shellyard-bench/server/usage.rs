//! Resource usage of a process, as the kernel counts it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A process to be looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pid: u32,
}

/// Fields of `/proc/PID/stat`, counted after the name: the parent, and the CPU time of the process
/// and of the children that it has waited for.
const PARENT: usize = 1;
const OWN_TICKS: std::ops::Range<usize> = 11..13;
const ALL_TICKS: std::ops::Range<usize> = 11..15;

impl Usage {
    pub(crate) const fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// The usage of the calling process.
    pub(crate) fn own() -> Self {
        Self::new(std::process::id())
    }

    /// `true` if the process has not ended yet.
    pub(crate) fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(self.path("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    /// Milliseconds of CPU time of the process alone.
    pub(crate) fn cpu_ms(&self) -> f64 {
        self.ticks(OWN_TICKS)
    }

    /// Milliseconds of CPU time of each of its threads, to the nanosecond.
    pub(crate) fn thread_cpu_ms(&self) -> HashMap<PathBuf, f64> {
        let on_cpu = |thread: PathBuf| {
            let text = fs::read_to_string(thread.join("schedstat")).ok()?;
            let nanos: f64 = text.split_whitespace().next()?.parse().ok()?;
            Some((thread, nanos / 1e6))
        };
        self.entries("task").filter_map(on_cpu).collect()
    }

    /// Milliseconds of the process with the children that it has waited for, and theirs.
    pub(crate) fn cpu_with_children_ms(&self) -> f64 {
        self.ticks(ALL_TICKS)
    }

    /// Resident memory, in KB (of 1,000 bytes).
    pub(crate) fn rss_kb(&self) -> f64 {
        self.kb("status", "VmRSS:")
    }

    /// The most there ever was, or since it was forgotten.
    pub(crate) fn peak_rss_kb(&self) -> f64 {
        self.kb("status", "VmHWM:")
    }

    /// Makes the peak the present.
    pub(crate) fn forget_peak(&self) {
        fs::write(self.path("clear_refs"), "5").expect("a process of ours");
    }

    /// Memory that no file backs: what was allocated.
    pub(crate) fn anonymous_kb(&self) -> f64 {
        self.kb("smaps_rollup", "Anonymous:")
    }

    /// Memory, with the shared pages divided by the number of processes that share them; 0 once it is
    /// gone.
    pub(crate) fn proportional_kb(&self) -> f64 {
        let text = fs::read_to_string(self.path("smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim_end().parse().ok());
        number.map_or(0.0, |kib: f64| kib * 1.024)
    }

    /// The name of the process; empty once it is gone.
    pub(crate) fn name(&self) -> String {
        fs::read_to_string(self.path("comm")).unwrap_or_default().trim_end().to_owned()
    }

    /// Number of open files.
    pub(crate) fn files(&self) -> f64 {
        self.entries("fd").count() as f64
    }

    pub(crate) fn threads(&self) -> f64 {
        self.entries("task").count() as f64
    }

    /// The largest file that it has open.
    pub(crate) fn largest_file(&self) -> PathBuf {
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        self.entries("fd").max_by_key(size).expect("it has files open")
    }

    /// This one and all below it.
    pub(crate) fn with_descendants(self) -> Vec<Self> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for pid in every_pid() {
            if let Some(parent) = Self::new(pid).stat().and_then(|stat| stat.get(PARENT).copied()) {
                children.entry(parent as u32).or_default().push(pid);
            }
        }
        let (mut found, mut next) = (vec![self], 0);
        while let Some(process) = found.get(next) {
            let below = children.remove(&process.pid).unwrap_or_default();
            found.extend(below.into_iter().map(Self::new));
            next += 1;
        }
        found
    }

    fn ticks(&self, fields: std::ops::Range<usize>) -> f64 {
        let ticks: u64 = self.stat().map_or(0, |stat| stat[fields].iter().sum());
        ticks as f64 * 1e3 / rustix::param::clock_ticks_per_second() as f64
    }

    /// The numbers behind the name; what is none counts as 0.
    fn stat(&self) -> Option<Vec<u64>> {
        let text = fs::read_to_string(self.path("stat")).ok()?;
        let (_, rest) = text.rsplit_once(')')?;
        Some(rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
    }

    fn kb(&self, file: &str, field: &str) -> f64 {
        let text = fs::read_to_string(self.path(file)).expect("the process is there");
        let line = text.lines().find(|line| line.starts_with(field)).expect("Linux tells it");
        let digits: String = line.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<f64>().expect("a number") * 1.024
    }

    fn entries(&self, folder: &str) -> impl Iterator<Item = PathBuf> + use<> {
        let entries = fs::read_dir(self.path(folder)).expect("the process is there");
        entries.flatten().map(|entry| entry.path())
    }

    fn path(&self, file: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(file)
    }
}

fn every_pid() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
