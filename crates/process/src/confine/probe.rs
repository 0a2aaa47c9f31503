//! What this host can do, found out by doing it.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::ladder::{HostOffer, Means};
use super::landlock;
use super::mounts::Mount;
use super::seccomp::{self, SocketRules};
use crate::birth::{Failure, Files, Order, Shut, Step};
use crate::confinement::{Backend, Confinement, Network, Profile, ResourceLimits};
use crate::spawner::{self, Offspring};
use crate::task_limit::TaskLimit;

/// What this host can do: each means is tried out at the first question about it.
#[must_use]
pub fn offer() -> HostOffer {
    HostOffer {
        namespaces: Means::Tried(namespaces),
        landlock: Means::Tried(landlock),
        seccomp: Means::Tried(filters),
    }
}

/// Whether there are namespaces for jobs. Found out once, which starts a process and waits for its
/// end.
fn namespaces() -> &'static Result<(), String> {
    static FOUND: Finding<()> = Finding::new();
    FOUND.get(try_namespaces)
}

/// Whether system calls can be filtered; found out once.
fn filters() -> &'static Result<(), String> {
    static FOUND: Finding<()> = Finding::new();
    FOUND.get(seccomp::offer)
}

/// The version of Landlock, or what is missing; found out once.
pub(crate) fn landlock() -> &'static Result<u32, String> {
    static VERSION: Finding<u32> = Finding::new();
    VERSION.get(landlock::offer)
}

/// The result of trying out one means. It stays, unless the system gave no thread or process to try
/// with: then the next question tries again.
struct Finding<T> {
    known: OnceLock<Result<T, String>>,
    untried: OnceLock<Result<T, String>>,
}

impl<T> Finding<T> {
    const fn new() -> Self {
        Self { known: OnceLock::new(), untried: OnceLock::new() }
    }

    fn get(&self, try_out: fn() -> Result<T, Missing>) -> &Result<T, String> {
        if let Some(known) = self.known.get() {
            return known;
        }
        match try_out() {
            Ok(found) => self.known.get_or_init(|| Ok(found)),
            Err(Missing::Means(why)) => self.known.get_or_init(|| Err(why)),
            Err(Missing::Task) => self.untried.get_or_init(|| Err(UNTRIED.to_owned())),
        }
    }
}

const UNTRIED: &str =
    "no process could be created to try it out; raise the limit on processes, or try again later";

/// Why a means was not found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The host does not have it.
    Means(String),
    /// The system gave no thread or process to try it out with.
    Task,
}

impl Missing {
    /// The same for a means that could not be tried out because of this error.
    pub(crate) fn new(error: &io::Error, why: String) -> Self {
        if TaskLimit::reached(error).is_some() { Self::Task } else { Self::Means(why) }
    }
}

/// Starts a process as a job with limited files is started.
fn try_namespaces() -> Result<(), Missing> {
    let no_directory = |error| Missing::Means(format!("no temporary directory: {error}"));
    let place = tempfile::tempdir().map_err(no_directory)?;
    spawner::start().map_err(|error| {
        Missing::new(&error, format!("no process to create jobs with: {error}"))
    })?;
    let started = start_in(place.path()).map_err(|error| Missing::Means(error.to_string()))?;
    started.map_err(|failure| Missing::new(&failure.errno.into(), missing(failure)))
}

fn start_in(place: &Path) -> io::Result<Result<(), Failure>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(place, flags, Mode::empty())?;
    let output = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    let confinement = Confinement { profile: Profile::WorkspaceWrite, network: Network::Off };
    let order = Order {
        path: CString::from(c"/bin/sh"),
        argv: [c"sh", c"-c", c":"].map(CString::from).into(),
        env: Vec::new(),
        terminal: None,
        tag: None,
        shut: Shut {
            confinement,
            backend: Backend::Namespaces,
            sockets: SocketRules::new(confinement, Backend::Namespaces, None),
            limits: ResourceLimits::NONE,
            mounts: vec![Mount::Writable(place.to_owned())],
            writable: None,
            untouchable: Vec::new(),
        },
    };
    let files = Files {
        directory: directory.as_fd(),
        stdin: None,
        stdout: Some(output.as_fd()),
        stderr: Some(output.as_fd()),
        report: None,
    };
    Ok(spawner::create(&order, files, None).map(|Offspring { leader, namespace }| {
        leader.child.outlive();
        drop(namespace);
    }))
}

/// What a failed step says about the host.
fn missing(Failure { step, errno }: Failure) -> String {
    let word = io::Error::from(errno);
    match (step, errno) {
        (
            Step::Namespaces | Step::UserMap | Step::Network | Step::Mounts | Step::Processes,
            Errno::PERM | Errno::ACCESS,
        ) => format!(
            "{} ({word}): kernel.apparmor_restrict_unprivileged_userns, kernel.unprivileged_userns_clone, or a container's seccomp profile or masked /proc forbids it",
            step.what()
        ),
        (Step::Namespaces, Errno::NOSPC) => {
            format!("{} ({word}): user.max_user_namespaces is used up or 0", step.what())
        }
        (Step::Namespaces, Errno::INVAL | Errno::NOSYS) => {
            format!("{} ({word}): this kernel was built without them", step.what())
        }
        _ => format!("{} ({word})", step.what()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_tried_out_is_tried_again_and_what_was_found_stays() {
        let finding = Finding::new();
        let refused = || Err(Missing::new(&Errno::AGAIN.into(), String::new()));
        assert_eq!(finding.get(refused), &Err(UNTRIED.to_owned()));
        assert_eq!(finding.get(|| Ok(3)), &Ok(3));
        assert_eq!(finding.get(refused), &Ok(3));
        let finding: Finding<u32> = Finding::new();
        let missing = || Err(Missing::new(&Errno::NOSYS.into(), "not built in".to_owned()));
        assert_eq!(finding.get(missing), &Err("not built in".to_owned()));
        assert_eq!(finding.get(|| Ok(3)), &Err("not built in".to_owned()));
    }
}
