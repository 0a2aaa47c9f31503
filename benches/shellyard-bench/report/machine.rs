//! The machine on which the figures were measured.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::{Value, json};

use crate::server::BINARY;

/// Facts about the machine that figures depend on.
#[derive(Debug)]
pub(crate) struct Machine {
    cores: usize,
    cpu: String,
    kernel: String,
    memory_gb: u64,
    /// Load average of the minute before the run: on a busy machine figures mean less.
    load: String,
    /// The Cargo profile of the server: `release` or `debug`.
    profile: String,
}

impl Machine {
    /// Reads the facts of this machine.
    pub(crate) fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = field(&read("/proc/meminfo"), "MemTotal").replace(" kB", "");
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_gb: memory.parse::<u64>().unwrap_or(0) * 1024 / 1_000_000_000,
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            profile: profile_of(Path::new(BINARY)),
        }
    }

    pub(crate) fn sentence(&self) -> String {
        let Self { cores, cpu, kernel, memory_gb, load, profile } = self;
        format!(
            "{cores} cores ({cpu}), {memory_gb} GB of memory, Linux {kernel}; \
             load average {load} before the run; Cargo profile `{profile}`."
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "cores": self.cores,
            "cpu": self.cpu,
            "kernel": self.kernel,
            "memory_gb": self.memory_gb,
            "load_before": self.load,
            "profile": self.profile,
        })
    }
}

/// The profile by which Cargo built a program: the name of the directory that it is in.
fn profile_of(program: &Path) -> String {
    let directory = program.parent().and_then(Path::file_name);
    directory.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn field(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim());
    value.unwrap_or("unknown").to_owned()
}
