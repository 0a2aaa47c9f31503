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
use crate::confinement::{Backend, Confinement, Network, Profile, ResourceLimits};
use crate::process::birth::{Failure, Files, Order, Shut, Step};
use crate::process::spawner::{self, Offspring};

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
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(try_namespaces)
}

/// Whether system calls can be filtered; found out once.
fn filters() -> &'static Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(seccomp::offer)
}

/// The version of Landlock, or what is missing; found out once.
pub(in crate::process) fn landlock() -> &'static Result<u32, String> {
    static VERSION: OnceLock<Result<u32, String>> = OnceLock::new();
    VERSION.get_or_init(landlock::offer)
}

/// Starts a process as a job with limited files is started.
fn try_namespaces() -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    spawner::start().map_err(|error| format!("no process to create jobs with: {error}"))?;
    start_in(place.path()).map_err(|error| error.to_string())?.map_err(missing)
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
