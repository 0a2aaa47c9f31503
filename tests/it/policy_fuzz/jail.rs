//! Where scripts are run: a directory of their own, marker programs for a PATH, bounds on all.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use shellyard::policy::command::Shell;
use tempfile::TempDir;

/// The programs that scripts can find. No system has programs of these names.
pub(crate) const MARKERS: [&str; 6] = ["zqa", "zqb", "zqc", "zqd", "zqe", "zqf"];
/// Real programs that start others; they find the markers only.
const STARTERS: [&str; 7] = ["env", "xargs", "timeout", "nice", "nohup", "bash", "sh"];
const PATIENCE: Duration = Duration::from_secs(1);
const STRAGGLERS: Duration = Duration::from_millis(300);

/// What a script did.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) programs: BTreeSet<String>,
    pub(crate) timed_out: bool,
}

#[derive(Debug)]
pub(crate) struct Jail {
    root: TempDir,
}

impl Jail {
    pub(crate) fn new() -> Self {
        let jail = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir(jail.bin()).unwrap();
        for name in MARKERS {
            // What it prints is code wherever somebody evaluates it.
            let text =
                format!("#!/bin/sh\necho {name} >>{}\necho 'a[$(zqf)]'\n", jail.notes().display());
            let path = jail.bin().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in STARTERS {
            if let Some(path) = real(name) {
                symlink(path, jail.bin().join(name)).unwrap();
            }
        }
        jail.clean();
        jail
    }

    /// Leaves nothing that a later script could run as a file: a shell's scripts are opaque.
    fn clean(&self) {
        fs::remove_dir_all(self.cwd()).ok();
        fs::create_dir(self.cwd()).unwrap();
        for name in ["o1", "o2"] {
            symlink("/dev/null", self.cwd().join(name)).unwrap();
        }
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    fn cwd(&self) -> PathBuf {
        self.root.path().join("cwd")
    }

    fn notes(&self) -> PathBuf {
        self.root.path().join("notes")
    }

    /// Drops what was noted so far.
    fn forget(&self) {
        fs::write(self.notes(), "").unwrap();
    }

    /// Runs a script to its end, or to the end of our patience.
    pub(crate) fn run(&self, shell: Shell, script: &str) -> Run {
        let program = match shell {
            Shell::Bash => "bash --noprofile --norc",
            Shell::Posix => "sh",
        };
        let limits = format!("ulimit -t 2 -f 64 -c 0 -n 64; exec {program} -c \"$1\"");
        let mut child = Command::new("/bin/sh")
            .args(["-c", &limits, "sh", script])
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.cwd())
            .env("FUNCNEST", "5")
            .current_dir(self.cwd())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let timed_out = !wait(&mut child);
        end_group(&mut child);
        let noted = fs::read_to_string(self.notes()).unwrap_or_default();
        self.forget();
        self.clean();
        Run { programs: noted.lines().map(str::to_owned).collect(), timed_out }
    }
}

fn real(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists())
}

/// Whether the child ended by itself.
fn wait(child: &mut Child) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    false
}

/// Lets background commands finish, then ends what is left.
fn end_group(child: &mut Child) {
    let group = Pid::from_child(child);
    let deadline = Instant::now() + STRAGGLERS;
    while is_alive(group) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(500));
    }
    kill_process_group(group, Signal::KILL).ok();
    child.wait().unwrap();
}

/// Whether some process of the group still runs. One that ended and that nobody waits for counts
/// to the kernel, but not to us.
fn is_alive(group: Pid) -> bool {
    if test_kill_process_group(group).is_err() {
        return false;
    }
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let wanted = group.as_raw_nonzero().to_string();
    stats.into_iter().any(|stat| {
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let mut fields = fields.split(' ');
        fields.next() != Some("Z") && fields.nth(1) == Some(wanted.as_str())
    })
}
