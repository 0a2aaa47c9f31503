//! A process that outlives this one, in its own session and without our files.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::Pid;

use crate::processes::pid_number;
use crate::syscalls::{self, FileAction, PosixSpawnPlan};

/// The description of a process to start that outlives this one.
#[derive(Debug)]
pub struct DetachedLaunch<'a> {
    /// The path of the program.
    pub program: &'a Path,
    /// The arguments after the program's name.
    pub args: &'a [OsString],
    /// The whole environment.
    pub env: &'a [(OsString, OsString)],
    /// The file for both output streams.
    pub output: &'a File,
}

/// A process that continues when this one ends, whatever happens to our session and group.
#[derive(Debug)]
pub struct DetachedProcess {
    pid: Pid,
}

impl DetachedProcess {
    /// Starts a process in the current directory, with an empty standard input. It inherits no open
    /// file except its output.
    ///
    /// # Errors
    /// If the system does not start it.
    pub fn start(launch: &DetachedLaunch<'_>) -> io::Result<Self> {
        // Before Linux 5.11 this fails, and inherited files are passed on as usual.
        syscalls::close_inherited_on_exec().ok();
        let path = CString::new(launch.program.as_os_str().as_bytes())?;
        let mut argv = vec![path.clone()];
        for arg in launch.args {
            argv.push(CString::new(arg.as_bytes())?);
        }
        let actions = [
            FileAction::Open { to: 0, path: c"/dev/null", flags: libc::O_RDONLY },
            FileAction::Dup { from: launch.output.as_fd(), to: 1 },
            FileAction::Copy { from: 1, to: 2 },
        ];
        let env = env_strings(launch.env)?;
        let plan = PosixSpawnPlan { path: &path, argv: &argv, env: &env, actions: &actions };
        Ok(Self { pid: syscalls::posix_spawn(&plan)? })
    }

    /// Returns the pid of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        pid_number(self.pid)
    }

    /// Reaps the process if it has ended, and returns `true` then. Do not call it again after that.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn try_reap(&self) -> io::Result<bool> {
        Ok(syscalls::try_wait(self.pid)?.is_some())
    }
}

fn env_strings(pairs: &[(OsString, OsString)]) -> io::Result<Vec<CString>> {
    let one = |(name, value): &(OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).map_err(io::Error::from)
    };
    pairs.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_detached_process_has_its_own_session_and_none_of_our_files() {
        let output = tempfile::NamedTempFile::new().unwrap();
        // A file that any child would inherit.
        let ours = rustix::io::dup(output.as_file()).unwrap();
        let script = format!(
            "echo $A; cut -d' ' -f6 /proc/$$/stat; [ -e /proc/$$/fd/{} ] || echo gone; read x || echo end >&2; echo $$",
            ours.as_raw_fd()
        );
        let launch = DetachedLaunch {
            program: Path::new("/bin/sh"),
            args: &["-c".into(), script.into()],
            env: &[("A".into(), "b".into()), ("PATH".into(), "/usr/bin:/bin".into())],
            output: output.as_file(),
        };
        let process = DetachedProcess::start(&launch).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !process.try_reap().unwrap() {
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::yield_now();
        }
        let pid = process.pid();
        let written = std::fs::read_to_string(output.path()).unwrap();
        assert_eq!(written, format!("b\n{pid}\ngone\nend\n{pid}\n"));
    }
}
