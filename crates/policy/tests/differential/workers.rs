//! Worker processes: the test program starts itself again, twice, each time in namespaces of its
//! own, where everything but one small file system in memory is read-only and no network exists.
//!
//! The worker runs the same test function, finds its part of the work in the environment, and
//! prints a report that the first process reads.

use std::ffi::CString;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io, thread};

use rustix::mount::{MountFlags, mount};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::jail::{Jail, Tools};

const WORKERS: u64 = 2;
/// Tells a process that it is a worker, and which.
const VARIABLE: &str = "POLICY_FUZZ_WORKER";
/// Starts the line of a report.
const REPORT: &str = "report: ";
/// Starts a program in namespaces of its own, as their root.
const UNSHARE: [&str; 9] = [
    "--user",
    "--map-root-user",
    "--mount",
    "--net",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// One part of the work, and the place to do it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) jail: Jail,
    pub(crate) settings: Settings,
    /// `true` if nothing outside the jail can be written.
    pub(crate) is_isolated: bool,
    number: u64,
    workers: u64,
}

impl Worker {
    /// The numbers of this worker's scripts, out of `count` in all.
    pub(crate) fn part(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let step = usize::try_from(self.workers).unwrap_or(1);
        (self.number..count).step_by(step)
    }

    fn from_assignment(assignment: &Value) -> Self {
        let number = |name: &str| assignment[name].as_u64().unwrap();
        let root = PathBuf::from(assignment["root"].as_str().unwrap());
        let work = root.join(format!("work-{}", number("number")));
        let is_isolated = assignment["namespaces"] == true;
        if is_isolated {
            make_read_only();
            mount("tmpfs", &work, "tmpfs", MountFlags::NOSUID, Some(c"size=64m")).unwrap();
        }
        Self {
            jail: Jail::new(&root, &work),
            settings: Settings { seed: number("seed"), scripts: number("scripts") },
            is_isolated,
            number: number("number"),
            workers: number("workers"),
        }
    }
}

/// Does the work of a test in worker processes.
///
/// Returns the report of each; `None` in a worker itself, whose work is then done.
pub(crate) fn run(test: &str, workers: u64, work: impl Fn(&Worker) -> Value) -> Option<Vec<Value>> {
    if let Some(assignment) = variable(VARIABLE) {
        let worker = Worker::from_assignment(&serde_json::from_str(&assignment).unwrap());
        let line = format!("\n{REPORT}{}\n", work(&worker));
        io::stdout().write_all(line.as_bytes()).unwrap();
        return None;
    }
    let root = tempfile::tempdir().unwrap();
    Tools::install(root.path());
    let namespaces = has_namespaces();
    if !namespaces {
        announce("no user namespaces here: scripts are held by limits and their directory only");
    }
    let settings = Settings::read();
    if workers > 1 {
        let Settings { seed, scripts } = settings;
        announce(&format!("{test}: POLICY_FUZZ_SEED={seed:#x} POLICY_FUZZ_SCRIPTS={scripts}"));
    }
    let start = |number: u64| {
        std::fs::create_dir(root.path().join(format!("work-{number}"))).unwrap();
        let assignment = json!({
            "root": root.path(), "namespaces": namespaces, "number": number, "workers": workers,
            "seed": settings.seed, "scripts": settings.scripts,
        });
        let mut command = command(test, namespaces);
        command.env(VARIABLE, assignment.to_string()).stdin(Stdio::null());
        thread::spawn(move || report(command))
    };
    let threads: Vec<_> = (0..workers).map(start).collect();
    let reports = threads.into_iter().map(|it| it.join().unwrap()).collect();
    close(root);
    Some(reports)
}

/// Does the work of a test on generated scripts, with the usual number of workers.
pub(crate) fn share(test: &str, work: impl Fn(&Worker) -> Value) -> Option<Vec<Value>> {
    run(test, WORKERS, work)
}

fn close(root: TempDir) {
    root.close().unwrap();
}

fn command(test: &str, namespaces: bool) -> Command {
    let program = env::current_exe().unwrap();
    let mut command = if namespaces {
        let mut command = Command::new("unshare");
        command.args(UNSHARE).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command
}

/// Runs a worker to its end and reads its report.
fn report(mut command: Command) -> Value {
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let report = text.lines().find_map(|line| line.strip_prefix(REPORT));
    let report = report.unwrap_or_else(|| panic!("a worker failed: {}\n{text}", output.status));
    serde_json::from_str(report).unwrap()
}

fn has_namespaces() -> bool {
    let status = Command::new("unshare").args(UNSHARE).arg("true").stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Makes every mount of this namespace read-only.
#[expect(unsafe_code, reason = "mount_setattr has no safe form")]
fn make_read_only() {
    let path = CString::new(Path::new("/").as_os_str().as_bytes()).unwrap();
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a C string, and the kernel reads as many bytes as the size says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    assert_eq!(result, 0, "the root stays writable: {}", io::Error::last_os_error());
}

/// Prints a line that shows also where the test passes: what was tested is never hidden.
pub(crate) fn announce(line: &str) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Sums of the numbers that all reports have under the same name.
pub(crate) fn sum(reports: &[Value], name: &str) -> u64 {
    reports.iter().filter_map(|report| report[name].as_u64()).sum()
}

/// The texts of all reports, one in each line.
pub(crate) fn texts(reports: &[Value], name: &str) -> String {
    let lists = reports.iter().filter_map(|report| report[name].as_array());
    lists.flatten().filter_map(Value::as_str).fold(String::new(), |mut all, text| {
        writeln!(all, "{text}").unwrap();
        all
    })
}

// The settings of a run, from the environment.

/// Scripts of one run of the test command; a longer run is asked for by `POLICY_FUZZ_SCRIPTS`.
const SCRIPTS: u64 = 5_000;

/// The seed and length of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) scripts: u64,
}

impl Settings {
    /// Reads `POLICY_FUZZ_SEED` (decimal, or hexadecimal with `0x`) and `POLICY_FUZZ_SCRIPTS`.
    /// Without a seed each run has a new one.
    pub(crate) fn read() -> Self {
        let new_seed = || RandomState::new().hash_one("seed") >> 16;
        Self {
            seed: number("POLICY_FUZZ_SEED").unwrap_or_else(new_seed),
            scripts: number("POLICY_FUZZ_SCRIPTS").unwrap_or(SCRIPTS),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = variable(name)?;
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(parsed.unwrap_or_else(|error| panic!("{name}={text} is not a number: {error}")))
}

/// The value of an environment variable.
#[expect(clippy::disallowed_methods, reason = "a test's own settings are not the product's")]
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
