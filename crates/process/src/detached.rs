//! A process that outlives us: its own session, nothing of our files.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::children::{self, Child};
use super::raw::{self, Action, Plan};

/// What is started, and how.
#[derive(Debug)]
pub struct DetachedLaunch<'a> {
    /// The program, as a path.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// All of its environment.
    pub env: &'a [(OsString, OsString)],
    /// Where its output goes, both streams.
    pub output: &'a File,
}

/// A process that goes on when this one ends, whatever happens to our session and group.
#[derive(Debug)]
pub struct Detached {
    child: Child,
}

impl Detached {
    /// Starts it in the current directory, with an empty standard input. Of the files that are
    /// open here it gets none but its output.
    ///
    /// # Errors
    /// When the system does not start it.
    pub fn start(launch: &DetachedLaunch<'_>) -> io::Result<Self> {
        // One that we started earlier may have ended since.
        children::reap_orphans();
        // Before Linux 5.11 this fails, and what we were started with passes on as it does by default.
        raw::close_inherited_on_exec().ok();
        let path = CString::new(launch.program.as_os_str().as_bytes())?;
        let mut argv = vec![path.clone()];
        for arg in launch.args {
            argv.push(CString::new(arg.as_bytes())?);
        }
        let actions = [
            Action::Open { to: 0, path: c"/dev/null", flags: libc::O_RDONLY },
            Action::Dup { from: launch.output.as_fd(), to: 1 },
            Action::Copy { from: 1, to: 2 },
        ];
        let env = variables(launch.env)?;
        let plan = Plan { path: &path, argv: &argv, env: &env, actions: &actions, blocked: &[] };
        Ok(Self { child: Child::create(|| raw::posix_spawn(&plan))? })
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid().as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether it is over. To be asked until it is, and no more.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_reap()?.is_some())
    }
}

fn variables(pairs: &[(OsString, OsString)]) -> io::Result<Vec<CString>> {
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
    fn it_has_a_session_of_its_own_and_none_of_our_files() {
        let output = tempfile::NamedTempFile::new().unwrap();
        // A file that would pass on to any child.
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
        let mut process = Detached::start(&launch).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !process.has_ended().unwrap() {
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::yield_now();
        }
        let pid = process.pid();
        let said = std::fs::read_to_string(output.path()).unwrap();
        assert_eq!(said, format!("b\n{pid}\ngone\nend\n{pid}\n"));
    }
}
