//! Landlock: where a process and all that comes out of it may write.
#![expect(unsafe_code, reason = "the system call itself, for a process that must not allocate")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, Errno,
    LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, Scope,
};

use super::probe::Missing;
use crate::confinement::Network;
use crate::raw;

/// What is allowed; all other ways of writing that Landlock knows are not. Reading is not limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRules {
    /// Directories below which everything may be written.
    pub(crate) writable: Vec<PathBuf>,
    /// Whether there is a network.
    pub(crate) network: Network,
}

/// The first version without which files could be emptied anywhere.
const NEEDED: ABI = ABI::V3;
/// The first version that knows everything that is asked for here. Since then connections to
/// sockets with a path are limited to what may be written.
const COMPLETE: ABI = ABI::V9;

/// Devices that everybody writes to. Left out where they are missing.
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

/// The rules in the form in which a process takes them on itself ([`restrict_self`]): they limit
/// writing, and with it signals and nameless sockets of processes outside.
///
/// # Errors
/// When the kernel cannot limit all ways of writing, or a writable directory cannot be opened.
pub(crate) fn ruleset(rules: &FileRules) -> io::Result<OwnedFd> {
    let everything = AccessFs::from_write(COMPLETE);
    let device = everything & AccessFs::from_file(COMPLETE);
    let mut ruleset = empty_ruleset(rules.network).map_err(errno)?;
    for path in DEVICES {
        ruleset = allow_if_there(ruleset, Path::new(path), device)?;
    }
    ruleset = allow_if_there(ruleset, Path::new(SHARED_MEMORY), everything)?;
    for path in &rules.writable {
        ruleset = allow(ruleset, path, everything)?;
    }
    Option::from(ruleset).ok_or(io::ErrorKind::Unsupported.into())
}

/// Limits this thread and all that comes after it, which must not be able to gain privileges any
/// more (`no_new_privs`). Allocates nothing.
pub(crate) fn restrict_self(ruleset: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    const NO_FLAGS: u32 = 0;
    // SAFETY: takes two numbers, and changes nothing but what this thread may do.
    let done =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), NO_FLAGS) };
    if done == 0 { Ok(()) } else { Err(raw::last_error()) }
}

/// Rules that allow nothing yet. What newer kernels can do is taken where it is there.
fn empty_ruleset(network: Network) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(COMPLETE))?
        .scope(Scope::from_all(COMPLETE))?;
    if network == Network::Off {
        ruleset = ruleset.handle_access(AccessNet::from_all(COMPLETE))?;
    }
    ruleset.create()
}

fn allow_if_there(
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
    ruleset.add_rule(PathBeneath::new(place, access)).map_err(errno)
}

fn errno(error: RulesetError) -> io::Error {
    from_errno(&Errno::from(error))
}

fn from_errno(errno: &Errno) -> io::Error {
    io::Error::from_raw_os_error(**errno)
}

/// The version of Landlock that this host has, found out by using it.
///
/// # Errors
/// What is missing.
pub(crate) fn offer() -> Result<u32, Missing> {
    let thread = thread::Builder::new().spawn(probe);
    let thread = thread.map_err(|error| Missing::new(&error, error.to_string()))?;
    let tried = thread.join().unwrap_or(Err(io::ErrorKind::Other.into()));
    let status = tried.map_err(|error| Missing::Means(error.to_string()))?;
    version(status).map_err(Missing::Means)
}

fn version(status: LandlockStatus) -> Result<u32, String> {
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

/// Limits this thread where the kernel can do it at all.
fn probe() -> io::Result<LandlockStatus> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_write(COMPLETE));
    let limited = ruleset.and_then(Ruleset::create).and_then(RulesetCreated::restrict_self);
    limited.map(|status| status.landlock).map_err(errno)
}

#[cfg(test)]
#[path = "landlock_tests.rs"]
mod tests;
