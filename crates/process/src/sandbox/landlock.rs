//! Landlock: limits where a process and everything that it starts may write.
#![expect(unsafe_code, reason = "the system call itself, for a process that must not allocate")]

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{io, thread};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, Errno,
    LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, Scope,
};

use crate::confinement::NetworkAccess;
use crate::load::ProbeError;
use crate::syscalls;

/// The allowed writes; all other ways of writing that Landlock knows are refused. Reading is not
/// limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRules {
    /// Directories below which everything may be written.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) network: NetworkAccess,
}

/// The first version that prevents files from being truncated anywhere.
const NEEDED: ABI = ABI::V3;
/// The first version with every feature that is requested here. From this version on, connections
/// to sockets with a path are limited to writable paths.
const COMPLETE: ABI = ABI::V9;

/// Devices that every program writes to. Skipped if they are missing.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
/// Shared memory and semaphores, which are files here.
const SHARED_MEMORY: &str = "/dev/shm";

/// Builds the ruleset that a process applies to itself ([`restrict_self`]): it limits writing, and
/// with it signals to processes outside and their abstract sockets.
///
/// # Errors
/// If the kernel cannot limit all ways of writing, or a writable directory cannot be opened.
pub(crate) fn build_ruleset(rules: &FileRules) -> io::Result<OwnedFd> {
    let everything = AccessFs::from_write(COMPLETE);
    let device = everything & AccessFs::from_file(COMPLETE);
    let mut ruleset = empty_ruleset(rules.network).map_err(to_io_error)?;
    for path in DEVICES {
        ruleset = allow_if_present(ruleset, Path::new(path), device)?;
    }
    ruleset = allow_if_present(ruleset, Path::new(SHARED_MEMORY), everything)?;
    for path in &rules.writable {
        ruleset = allow(ruleset, path, everything)?;
    }
    Option::from(ruleset).ok_or(io::ErrorKind::Unsupported.into())
}

/// Restricts this thread and everything that it starts, which must no longer be able to gain
/// privileges (`no_new_privs`). Allocates nothing.
pub(crate) fn restrict_self(ruleset: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    const NO_FLAGS: u32 = 0;
    // SAFETY: the call takes two numbers, and changes only what this thread may do.
    let done =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), NO_FLAGS) };
    if done == 0 { Ok(()) } else { Err(syscalls::last_error()) }
}

/// Creates a ruleset that allows nothing yet. Features of newer kernels are used if available.
fn empty_ruleset(network: NetworkAccess) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(COMPLETE))?
        .scope(Scope::from_all(COMPLETE))?;
    if network == NetworkAccess::Off {
        ruleset = ruleset.handle_access(AccessNet::from_all(COMPLETE))?;
    }
    ruleset.create()
}

fn allow_if_present(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    if path.exists() { allow(ruleset, path, access) } else { Ok(ruleset) }
}

fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let place = PathFd::new(path).map_err(|error| from_errno(&Errno::from(error)))?;
    ruleset.add_rule(PathBeneath::new(place, access)).map_err(to_io_error)
}

fn to_io_error(error: RulesetError) -> io::Error {
    from_errno(&Errno::from(error))
}

fn from_errno(errno: &Errno) -> io::Error {
    io::Error::from_raw_os_error(**errno)
}

/// Returns the version of Landlock that this host has, by using it.
///
/// # Errors
/// A description of what is missing.
pub(crate) fn probe() -> Result<u32, ProbeError> {
    let thread = thread::Builder::new().spawn(restrict_probe_thread);
    let thread = thread.map_err(|error| ProbeError::new(&error, error.to_string()))?;
    let tried = thread.join().unwrap_or(Err(io::ErrorKind::Other.into()));
    let status = tried.map_err(|error| ProbeError::Missing(error.to_string()))?;
    check_version(status).map_err(ProbeError::Missing)
}

fn check_version(status: LandlockStatus) -> Result<u32, String> {
    match status {
        LandlockStatus::Available { effective_abi, .. } if effective_abi < NEEDED => {
            Err(format!("version {effective_abi}, and {NEEDED} is needed: Linux 6.2 or later"))
        }
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            let newer = kernel_abi.and_then(|version| u32::try_from(version).ok());
            Ok(newer.unwrap_or(effective_abi as u32))
        }
        LandlockStatus::NotEnabled => {
            Err("not switched on: add `landlock` to the kernel's boot parameter `lsm=`".to_owned())
        }
        LandlockStatus::NotImplemented => {
            Err("not built into this kernel, or a container does not allow it".to_owned())
        }
    }
}

/// Restricts this thread if the kernel supports it at all.
fn restrict_probe_thread() -> io::Result<LandlockStatus> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_write(COMPLETE));
    let limited = ruleset.and_then(Ruleset::create).and_then(RulesetCreated::restrict_self);
    limited.map(|status| status.landlock).map_err(to_io_error)
}

#[cfg(test)]
mod tests {
    //! Landlock on threads of this process: it ends with its thread. What is refused must have been
    //! possible without it.

    use std::fs::{self, File, OpenOptions};
    use std::io::{self, ErrorKind};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    /// A workspace, and a directory beside it.
    struct TestGround {
        _dir: tempfile::TempDir,
        inside: PathBuf,
        outside: PathBuf,
    }

    impl TestGround {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let [inside, outside] = ["inside", "outside"].map(|name| dir.path().join(name));
            for place in [&inside, &outside] {
                fs::create_dir(place).unwrap();
                fs::create_dir(place.join("empty")).unwrap();
                for file in ["file", "other", "third", "fourth"] {
                    fs::write(place.join(file), "text").unwrap();
                }
            }
            symlink(&outside, inside.join("way_out")).unwrap();
            Self { _dir: dir, inside, outside }
        }

        fn rules(&self, network: NetworkAccess) -> FileRules {
            FileRules { writable: vec![self.inside.clone()], network }
        }
    }

    fn limited<T: Send + 'static>(rules: FileRules, act: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            restrict_self(build_ruleset(&rules).unwrap().as_fd()).unwrap();
            act()
        });
        thread.join().unwrap()
    }

    type Attempt = (&'static str, fn(&Path) -> io::Result<()>);

    /// Every way to change something below a directory.
    const WRITES: &[Attempt] = &[
        ("write", |dir| fs::write(dir.join("file"), "x")),
        ("append", |dir| OpenOptions::new().append(true).open(dir.join("file")).map(drop)),
        ("truncate", |dir| truncate(&dir.join("other"))),
        ("create", |dir| File::create(dir.join("new")).map(drop)),
        ("make a directory", |dir| fs::create_dir(dir.join("new_dir"))),
        ("make a symlink", |dir| symlink("file", dir.join("new_link"))),
        ("make a pipe", |dir| {
            let mode = rustix::fs::Mode::RWXU;
            Ok(rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("new_pipe"), mode)?)
        }),
        ("make a socket", |dir| UnixListener::bind(dir.join("new_socket")).map(drop)),
        ("link", |dir| fs::hard_link(dir.join("third"), dir.join("new_name"))),
        ("rename", |dir| fs::rename(dir.join("third"), dir.join("renamed"))),
        ("remove", |dir| fs::remove_file(dir.join("fourth"))),
        ("remove a directory", |dir| fs::remove_dir(dir.join("empty"))),
    ];

    /// Truncates by name, not by an open file.
    fn truncate(path: &Path) -> io::Result<()> {
        let script = "import os, sys; os.truncate(sys.argv[1], 0)";
        let mut python = Command::new("python3");
        let done = python.args(["-c", script]).arg(path).stderr(Stdio::null()).status()?;
        if done.success() { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
    }

    /// Returns the attempts that failed, with their errors.
    fn failures(dir: &Path) -> Vec<(&'static str, ErrorKind)> {
        let tried = WRITES.iter().map(|(name, attempt)| (*name, attempt(dir)));
        tried.filter_map(|(name, result)| Some((name, result.err()?.kind()))).collect()
    }

    #[test]
    fn every_write_works_inside_and_none_outside() {
        let free = TestGround::new();
        assert_eq!(failures(&free.outside), []);
        let ground = TestGround::new();
        let rules = ground.rules(NetworkAccess::On);
        let outside = ground.outside.clone();
        let inside = ground.inside.clone();
        let way_out = ground.inside.join("way_out");
        let (inside, outside, by_link) =
            limited(rules, move || (failures(&inside), failures(&outside), failures(&way_out)));
        assert_eq!(inside, []);
        let all: Vec<_> =
            WRITES.iter().map(|(name, _)| (*name, ErrorKind::PermissionDenied)).collect();
        assert_eq!(outside, all);
        assert_eq!(by_link, all);
        assert_eq!(fs::read_to_string(ground.outside.join("file")).unwrap(), "text");
    }

    #[test]
    fn nothing_is_moved_or_linked_across_the_boundary() {
        fn crossings(inside: &Path, outside: &Path) -> [bool; 4] {
            [
                fs::hard_link(outside.join("file"), inside.join("alias")).is_ok(),
                fs::hard_link(inside.join("file"), outside.join("alias")).is_ok(),
                fs::rename(outside.join("other"), inside.join("taken")).is_ok(),
                fs::rename(inside.join("other"), outside.join("given")).is_ok(),
            ]
        }
        let free = TestGround::new();
        assert_eq!(crossings(&free.inside, &free.outside), [true; 4]);
        let ground = TestGround::new();
        let inside = ground.inside.clone();
        let outside = ground.outside.clone();
        let crossed =
            limited(ground.rules(NetworkAccess::On), move || crossings(&inside, &outside));
        assert_eq!(crossed, [false; 4]);
    }

    #[test]
    fn processes_outside_get_no_signals_if_the_kernel_supports_that() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let number = child.id();
        let signal = move |text: String| {
            Command::new("sh").args(["-c", &text]).stderr(Stdio::null()).status().unwrap().success()
        };
        let outside = format!("kill -0 {number}");
        let own = "sleep 1000 & kill $!".to_owned();
        assert!(signal(outside.clone()));
        let found = limited(TestGround::new().rules(NetworkAccess::On), move || {
            (signal(outside), signal(own))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, (probe().unwrap() < 6, true));
    }

    #[test]
    fn abstract_sockets_outside_are_unreachable_if_the_kernel_supports_that() {
        let name = format!("outside {}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let connects = move || UnixStream::connect_addr(&address).is_ok();
        assert!(connects());
        assert_eq!(
            limited(TestGround::new().rules(NetworkAccess::On), connects),
            probe().unwrap() < 6
        );
    }

    #[test]
    fn the_network_is_refused_only_if_it_is_off() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reaches =
            move || [TcpStream::connect(address).is_ok(), TcpListener::bind("127.0.0.1:0").is_ok()];
        assert_eq!(limited(TestGround::new().rules(NetworkAccess::On), reaches), [true; 2]);
        let is_older = probe().unwrap() < 4;
        assert_eq!(limited(TestGround::new().rules(NetworkAccess::Off), reaches), [is_older; 2]);
    }

    #[test]
    fn common_programs_work_under_landlock() {
        let ground = TestGround::new();
        let script = format!(
        "set -e; cd {}; echo a > /dev/null; echo b > /dev/stdout; cat ../outside/file
        git init -q repo && cd repo && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m z
        git log --format=' %s'; sleep 1000 & kill $!; wait $! || true
        python3 -c 'import multiprocessing, pty
with multiprocessing.Lock(): print(1, flush=True)
pty.spawn([\"sh\", \"-c\", \"stty size > /dev/null; echo tty > /dev/tty\"])' < /dev/null",
        ground.inside.display()
    );
        let output = limited(ground.rules(NetworkAccess::Off), move || {
            Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap()
        });
        assert_eq!(String::from_utf8_lossy(&output.stdout), "b\ntext z\n1\ntty\r\n");
    }

    #[test]
    fn a_writable_directory_that_is_missing_is_an_error() {
        let missing = PathBuf::from("/nowhere/at/all");
        let rules = FileRules { writable: vec![missing], network: NetworkAccess::On };
        let tried = thread::spawn(move || build_ruleset(&rules)).join().unwrap();
        assert_eq!(tried.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn the_probe_restricts_no_other_thread() {
        assert!(probe().unwrap() >= 3);
        assert_eq!(failures(&TestGround::new().outside), []);
    }
}
