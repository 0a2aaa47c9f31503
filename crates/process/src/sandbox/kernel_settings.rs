//! The settings of the kernel that root can write as files in `/proc`, read-only for a job.
//!
//! The kernel asks for no capability before it lets root write most of them, and one of them
//! (`core_pattern`) names a program that the kernel then executes as root, outside of every job. So a
//! job of root gets a mount namespace of its own, in which these files are mounted read-only. Later
//! mounts of the host still appear in it. Nothing that the job may do undoes it: the filter refuses all
//! calls that change mounts, and the capabilities that the job lost are those that lead into another
//! mount namespace, by `setns` or by `/proc/PID/root`.
//!
//! [`find_kernel_settings`] decides, in the server; [`protect_kernel_settings`] does it, in the new
//! process.
#![expect(unsafe_code, reason = "unshare and getcwd have no safe wrapper that allocates nothing")]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use rustix::fs::statfs;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount_bind_recursive, mount_change, mount_remount,
};
use rustix::process::{chdir, geteuid};

use crate::confinement::{Backend, SandboxProfile};
use crate::load::ProbeError;
use crate::syscalls::last_error;

/// The mounts that this thread sees.
const MOUNTS: &str = "/proc/thread-self/mountinfo";

/// The settings in a mount of `/proc`: a directory, and a file that restarts the machine.
const SETTINGS: [&str; 2] = ["sys", "sysrq-trigger"];

/// The file system of `/proc`, and the one in which programs for other formats are registered, in
/// `/proc/sys/fs/binfmt_misc`.
const PROC: &[u8] = b"proc";
const PROGRAM_FORMATS: &[u8] = b"binfmt_misc";

/// The numbers by which the kernel knows them, and the number of a mount that is made on demand.
const KINDS: [u64; 3] = [0x9fa0, 0x4249_4e4d, 0x0187];

/// The mount is read-only (`ST_RDONLY`).
const IS_READ_ONLY: u64 = 1;

/// The longest path that the kernel returns.
const LONGEST_PATH: usize = 4096;

/// `true` if only read-only mounts keep a job from these settings: its files are not limited
/// otherwise.
pub(crate) const fn are_at_stake(profile: SandboxProfile, backend: Backend) -> bool {
    matches!((profile, backend), (SandboxProfile::Default, Backend::Seccomp))
}

/// Returns the files and directories with settings that this process could write, parents first.
/// Empty for an ordinary user, to whom the kernel refuses them, and in a container that mounts them
/// read-only.
///
/// # Errors
/// If the mounts cannot be read.
pub(crate) fn find_kernel_settings() -> io::Result<Vec<CString>> {
    if !geteuid().is_root() {
        return Ok(Vec::new());
    }
    let mounts = fs::read(MOUNTS)?;
    let found = mounts.split(|byte| *byte == b'\n').flat_map(settings_of_mount);
    let writable = found.filter(|path| is_writable_setting(path));
    Ok(writable.filter_map(|path| CString::new(path.into_os_string().as_bytes()).ok()).collect())
}

/// Returns the settings in the mount that this line describes.
fn settings_of_mount(line: &[u8]) -> Vec<PathBuf> {
    let Some((root, place, kind)) = parse_mount(line) else { return Vec::new() };
    let is_setting = |path: &Path| SETTINGS.iter().any(|name| path.starts_with(name));
    match kind {
        PROGRAM_FORMATS => vec![place],
        PROC if root == Path::new("/") => SETTINGS.map(|name| place.join(name)).into(),
        PROC if root.strip_prefix("/").is_ok_and(is_setting) => vec![place],
        _ => Vec::new(),
    }
}

/// Parses a line of mountinfo: the directory of the file system that is mounted, the place, and the
/// file system's name.
fn parse_mount(line: &[u8]) -> Option<(PathBuf, PathBuf, &[u8])> {
    let mut words = line.split(|byte| *byte == b' ');
    let root = unescape(words.nth(3)?);
    let place = unescape(words.next()?);
    let kind = words.skip_while(|word| *word != b"-").nth(1)?;
    Some((root, place, kind))
}

/// Reads a path as mountinfo writes it: with blanks and the like as three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        path.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    std::ffi::OsStr::from_bytes(&path).into()
}

/// `true` if a setting is seen at this path, in a mount that is not read-only. Another mount may
/// cover it.
fn is_writable_setting(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| {
        let kind = u64::try_from(found.f_type).unwrap_or(0);
        let flags = u64::try_from(found.f_flags).unwrap_or(0);
        KINDS.contains(&kind) && flags & IS_READ_ONLY == 0
    })
}

/// Makes these files and directories read-only for this thread and everything that it starts, in a
/// mount namespace of its own. Without any, does nothing. Allocates nothing.
///
/// Call it in the directory of the job, before capabilities are dropped. The directory stays the same,
/// or becomes its read-only form.
///
/// # Errors
/// If the system refuses: `PERM` without the capability for mounts. `STALE` if the current directory
/// was removed, or belongs to another mount namespace, from which everything could be written.
pub(crate) fn protect_kernel_settings(settings: &[CString]) -> Result<(), Errno> {
    if settings.is_empty() {
        return Ok(());
    }
    // SAFETY: the mounts, and with them root and current directory, become this thread's own; no
    // memory and no file changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(last_error());
    }
    mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    for path in settings {
        match make_read_only(path) {
            // It was unmounted meanwhile.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    enter_covering_directory(settings)
}

/// Mounts what is seen at this path over it, read-only. Nothing that is mounted below it later, on the
/// host, is seen there.
fn make_read_only(path: &CStr) -> Result<(), Errno> {
    mount_bind_recursive(path, path)?;
    mount_change(path, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_remount(path, MountFlags::BIND | flags, c"")
}

/// Enters the current directory anew if it is one of these: it is still the one below the mount.
fn enter_covering_directory(settings: &[CString]) -> Result<(), Errno> {
    let mut buffer = [0_u8; LONGEST_PATH];
    // SAFETY: the kernel writes at most as many bytes as it is told.
    let length = unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) };
    if length < 0 {
        return Err(if last_error() == Errno::NOENT { Errno::STALE } else { last_error() });
    }
    let path = CStr::from_bytes_until_nul(&buffer).map_err(|_| Errno::NAMETOOLONG)?;
    if path.to_bytes().first() != Some(&b'/') {
        return Err(Errno::STALE);
    }
    let is_below = |setting: &CString| {
        let rest = path.to_bytes().strip_prefix(setting.to_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    if settings.iter().any(is_below) { chdir(path) } else { Ok(()) }
}

/// Checks that jobs cannot write settings of the kernel, by protecting them from a thread.
///
/// # Errors
/// A description of what is missing.
pub(crate) fn probe() -> Result<(), ProbeError> {
    let protect = || {
        let settings = find_kernel_settings()?;
        if !settings.is_empty() {
            chdir_of_thread()?;
        }
        Ok(protect_kernel_settings(&settings)?)
    };
    let thread = thread::Builder::new().spawn(protect);
    let thread = thread.map_err(|error| ProbeError::new(&error, error.to_string()))?;
    let tried: io::Result<()> = thread.join().unwrap_or(Err(io::ErrorKind::Other.into()));
    tried.map_err(|error| {
        let why = "root may write /proc/sys here, and no mount namespace can be made in which it is \
                   read-only";
        ProbeError::new(&error, format!("{why}: {error}"))
    })
}

/// Gives this thread a current directory of its own, and enters `/`.
fn chdir_of_thread() -> Result<(), Errno> {
    // SAFETY: only this thread's view of root and current directory changes.
    if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
        return Err(last_error());
    }
    chdir(c"/")
}

#[cfg(test)]
mod tests {
    //! On threads with mount namespaces of their own. Nothing is ever written: a file that can be
    //! opened for writing could be.

    use std::fs::OpenOptions;
    use std::io::ErrorKind;

    use rustix::mount::{UnmountFlags, mount, mount_bind, unmount};

    use super::*;

    const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

    fn can_write(path: impl AsRef<Path>) -> bool {
        match OpenOptions::new().write(true).open(&path) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => false,
            Err(error) => panic!("{}: {error}", path.as_ref().display()),
        }
    }

    /// Runs a test on a thread with mounts and a current directory of its own, if we may write
    /// settings at all.
    fn with_own_mounts(test: impl FnOnce() + Send + 'static) {
        if find_kernel_settings().unwrap().is_empty() || probe().is_err() {
            return;
        }
        let run = || {
            chdir_of_thread().unwrap();
            // SAFETY: as in `protect_kernel_settings`.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
            mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
                .unwrap();
            assert!(can_write(CORE_PATTERN), "it proves nothing");
            test();
        };
        thread::spawn(run).join().unwrap();
    }

    #[test]
    fn settings_are_found_in_every_mount_of_proc() {
        let line = |root: &str, place: &str, kind: &str| {
            format!("22 1 0:21 {root} {place} rw,nosuid shared:5 master:1 - {kind} source rw")
        };
        let found = |root, place, kind| settings_of_mount(line(root, place, kind).as_bytes());
        let both = |place: &str| SETTINGS.map(|name| Path::new(place).join(name)).to_vec();
        assert_eq!(found("/", "/proc", "proc"), both("/proc"));
        assert_eq!(found("/", "/a\\040b\\134/proc", "proc"), both("/a b\\/proc"));
        for root in ["/sys", "/sys/kernel", "/sysrq-trigger"] {
            assert_eq!(found(root, "/x", "proc"), [Path::new("/x")], "{root}");
        }
        assert_eq!(found("/", "/formats", "binfmt_misc"), [Path::new("/formats")]);
        for (root, kind) in [("/", "tmpfs"), ("/1/ns", "proc"), ("/system", "proc")] {
            assert_eq!(found(root, "/x", kind), [] as [PathBuf; 0], "{root} {kind}");
        }
        for text in ["", "1 2 3", "1 2 3 4 5 6 7"] {
            assert_eq!(settings_of_mount(text.as_bytes()), [] as [PathBuf; 0], "{text}");
        }
    }

    #[test]
    fn settings_are_read_only_in_every_mount_of_proc_and_everything_else_is_as_before() {
        with_own_mounts(|| {
            let places = tempfile::tempdir().unwrap();
            let [other, part, own] =
                ["other one", "part", "own"].map(|name| places.path().join(name));
            for place in [&other, &part] {
                fs::create_dir(place).unwrap();
            }
            fs::write(&own, "").unwrap();
            mount(c"proc", &other, c"proc", MountFlags::empty(), None).unwrap();
            mount_bind("/proc/sys/kernel", &part).unwrap();
            let elsewhere = [other.join("sys/kernel/core_pattern"), part.join("core_pattern")];
            assert!(elsewhere.iter().all(can_write), "it proves nothing");
            protect_kernel_settings(&find_kernel_settings().unwrap()).unwrap();
            for path in elsewhere.iter().map(PathBuf::as_path).chain([
                Path::new(CORE_PATTERN),
                Path::new("/proc/thread-self/root/proc/sys/kernel/core_pattern"),
            ]) {
                assert!(!can_write(path), "{}", path.display());
                assert!(fs::read(path).is_ok(), "{}", path.display());
            }
            assert!(can_write("/proc/thread-self/oom_score_adj"));
            assert!(can_write(own));
            assert!(find_kernel_settings().unwrap().is_empty());
        });
    }

    #[test]
    fn mounts_of_the_host_still_appear_and_none_below_the_settings() {
        with_own_mounts(|| {
            let place = tempfile::tempdir().unwrap();
            mount_change(c"/", MountPropagationFlags::SHARED | MountPropagationFlags::REC).unwrap();
            let settings = find_kernel_settings().unwrap();
            let path = place.path().to_owned();
            let (ready, wait) = std::sync::mpsc::channel();
            let (proceed, stopped) = std::sync::mpsc::channel::<()>();
            let job = thread::spawn(move || {
                protect_kernel_settings(&settings).unwrap();
                ready.send(()).unwrap();
                stopped.recv().unwrap();
                (path.join("file").exists(), Path::new("/proc/sys/fs/file").exists())
            });
            wait.recv().unwrap();
            for target in [place.path(), Path::new("/proc/sys/fs")] {
                mount(c"tmpfs", target, c"tmpfs", MountFlags::empty(), None).unwrap();
                fs::write(target.join("file"), "").unwrap();
            }
            proceed.send(()).unwrap();
            assert_eq!(job.join().unwrap(), (true, false));
            unmount(place.path(), UnmountFlags::DETACH).unwrap();
        });
    }

    #[test]
    fn a_current_directory_among_the_settings_is_read_only_too() {
        with_own_mounts(|| {
            chdir("/proc/sys/kernel").unwrap();
            assert!(can_write("core_pattern"), "it proves nothing");
            protect_kernel_settings(&find_kernel_settings().unwrap()).unwrap();
            for path in ["core_pattern", "../kernel/core_pattern", "../../sys/kernel/core_pattern"]
            {
                assert!(!can_write(path), "{path}");
            }
        });
    }

    #[test]
    fn a_current_directory_in_other_mounts_is_refused() {
        with_own_mounts(|| {
            let settings = find_kernel_settings().unwrap();
            let outside = fs::File::open("/proc/sys/kernel").unwrap();
            let job = thread::spawn(move || {
                protect_kernel_settings(&settings).unwrap();
                rustix::process::fchdir(&outside).unwrap();
                assert!(can_write("core_pattern"), "it proves nothing");
                enter_covering_directory(&settings)
            });
            assert_eq!(job.join().unwrap(), Err(Errno::STALE));
        });
    }
}
