//! Another user of this host, as whom a job runs.
//!
//! Only a server with the capabilities of root can switch users. The job's first process does it
//! itself, as one of its last steps before it executes the program: what the server prepares for it
//! is prepared with the server's rights.
#![expect(unsafe_code, reason = "the user database and setgroups have no safe wrapper")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::{io, ptr};

use rustix::fs::{AtFlags, CWD, chownat, fchown};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use serde::{Deserialize, Serialize};

use crate::env_variable::EnvVariable;
use crate::start_error::StartError;
use crate::syscalls::last_error;

/// The capabilities that a server needs for jobs of other users: to become them, to give them their
/// files, to end their processes and to remove what they leave behind.
const NEEDED: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::DAC_OVERRIDE);

/// The size of the first buffer for an entry of the user database, and of the largest one.
const FIRST_BUFFER: usize = 1 << 10;
const LARGEST_BUFFER: usize = 1 << 20;

/// The most groups that the kernel lets a process have.
const MOST_GROUPS: usize = 1 << 16;

/// The variables that a login sets, in the order of [`JobUser::login_variables`].
const LOGIN_VARIABLES: [&str; 4] = ["HOME", "USER", "LOGNAME", "SHELL"];

/// Variables that name directories, files and sockets of one user. Those of the server's user are of
/// no use to another one.
const PERSONAL_VARIABLES: [&str; 11] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "MAIL",
    "SSH_AUTH_SOCK",
    "TMPDIR",
    "XAUTHORITY",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
    "XDG_STATE_HOME",
];

/// A user of this host with all that a login would give it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobUser {
    /// The name with which it logs in.
    pub name: String,
    /// The number that the kernel knows it by.
    pub uid: u32,
    /// The group of the files that it creates.
    pub gid: u32,
    /// All groups, the primary one included.
    pub groups: Vec<u32>,
    /// The home directory, as the user database has it.
    pub home: PathBuf,
    /// The program that a login starts.
    pub shell: PathBuf,
}

impl JobUser {
    /// Finds a user of this host by its login name.
    ///
    /// # Errors
    /// If the user database cannot be read.
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        let Ok(login) = CString::new(name) else { return Ok(None) };
        let mut buffer = vec![0; FIRST_BUFFER];
        loop {
            let mut entry = MaybeUninit::<libc::passwd>::uninit();
            let mut found = ptr::null_mut();
            // SAFETY: the name ends with a NUL byte, and the buffer has the given length; all
            // pointers live through the call.
            let code = unsafe {
                libc::getpwnam_r(
                    login.as_ptr(),
                    entry.as_mut_ptr(),
                    buffer.as_mut_ptr(),
                    buffer.len(),
                    &raw mut found,
                )
            };
            match code {
                0 if found.is_null() => return Ok(None),
                0 => {
                    // SAFETY: the call has succeeded and found something, so the entry is complete.
                    let entry = unsafe { entry.assume_init() };
                    return Self::read_entry(name, &login, &entry).map(Some);
                }
                libc::ERANGE if buffer.len() < LARGEST_BUFFER => buffer.resize(buffer.len() * 4, 0),
                libc::ENOENT | libc::ESRCH => return Ok(None),
                code => return Err(io::Error::from_raw_os_error(code)),
            }
        }
    }

    fn read_entry(name: &str, login: &CStr, entry: &libc::passwd) -> io::Result<Self> {
        let path = |text: *const c_char| {
            if text.is_null() {
                return PathBuf::new();
            }
            // SAFETY: a text of the entry ends with a NUL byte and lives as long as its buffer.
            let text = unsafe { CStr::from_ptr(text) };
            PathBuf::from(OsStr::from_bytes(text.to_bytes()))
        };
        Ok(Self {
            name: name.to_owned(),
            uid: entry.pw_uid,
            gid: entry.pw_gid,
            groups: find_groups(login, entry.pw_gid)?,
            home: path(entry.pw_dir),
            shell: path(entry.pw_shell),
        })
    }

    /// `true` if this process can run jobs as other users: it is root, and has kept what that needs.
    #[must_use]
    pub fn can_switch() -> bool {
        geteuid().is_root() && capabilities(None).is_ok_and(|held| held.effective.contains(NEEDED))
    }

    /// Returns the variables that a login sets, with their values.
    ///
    /// # Errors
    /// If a value contains a NUL byte.
    pub fn login_variables(&self) -> Result<[EnvVariable; 4], StartError> {
        let name = OsStr::new(&self.name);
        let [home, user, logname, shell] = LOGIN_VARIABLES;
        Ok([
            EnvVariable::new(home, &self.home)?,
            EnvVariable::new(user, name)?,
            EnvVariable::new(logname, name)?,
            EnvVariable::new(shell, &self.shell)?,
        ])
    }

    /// `true` if the value of this variable is about one user, so that a job of another user must
    /// not inherit it.
    #[must_use]
    pub fn is_personal_variable(name: &OsStr) -> bool {
        LOGIN_VARIABLES.iter().chain(&PERSONAL_VARIABLES).any(|it| name == *it)
    }

    /// Does something with the rights of this user on files: they are checked as for a process of the
    /// user, and new files belong to it.
    ///
    /// Only the calling thread changes, and only meanwhile. A thread that is created meanwhile would
    /// keep these rights: `act` must create none.
    ///
    /// # Errors
    /// If this process cannot switch users. Then nothing was done.
    pub fn act_as<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let _guard = FileRights::take(self)?;
        Ok(act())
    }

    /// Gives a file to this user.
    pub(crate) fn give_file(&self, file: impl AsFd) -> Result<(), Errno> {
        fchown(file, Some(self.owner()), Some(self.group()))
    }

    /// Gives the file at this path to this user, without following a symlink.
    pub(crate) fn give_path(&self, path: impl rustix::path::Arg) -> Result<(), Errno> {
        let (owner, group) = (Some(self.owner()), Some(self.group()));
        chownat(CWD, path, owner, group, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn owner(&self) -> Uid {
        Uid::from_raw(self.uid)
    }

    fn group(&self) -> Gid {
        Gid::from_raw(self.gid)
    }

    /// Makes the calling thread this user for good: groups, user and capabilities, checked afterwards.
    ///
    /// It calls the kernel itself: the C library would signal every thread that it knows of.
    pub(crate) fn become_user(&self) -> Result<(), Errno> {
        set_groups(&self.groups)?;
        let (uid, gid) = (self.uid, self.gid);
        set_ids(libc::SYS_setresgid, gid)?;
        set_ids(libc::SYS_setresuid, uid)?;
        if uid != 0 {
            // The kernel keeps them if no user before was root.
            set_capabilities(None, NO_CAPABILITIES)?;
        }
        let is_done = read_ids(libc::SYS_getresuid)? == [uid; 3]
            && read_ids(libc::SYS_getresgid)? == [gid; 3]
            && count_groups()? == self.groups.len()
            && (uid == 0 || capabilities(None)?.permitted.is_empty());
        if is_done { Ok(()) } else { Err(Errno::PERM) }
    }
}

const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

fn find_groups(login: &CStr, primary: u32) -> io::Result<Vec<u32>> {
    let mut groups: Vec<u32> = vec![0; 64];
    loop {
        let mut count = c_int::try_from(groups.len()).unwrap_or(c_int::MAX);
        // SAFETY: the name ends with a NUL byte, and at most `count` groups are written.
        let code = unsafe {
            libc::getgrouplist(login.as_ptr(), primary, groups.as_mut_ptr(), &raw mut count)
        };
        let found = usize::try_from(count).unwrap_or_default();
        if code >= 0 {
            groups.truncate(found);
            groups.sort_unstable();
            groups.dedup();
            return Ok(groups);
        }
        if groups.len() >= MOST_GROUPS {
            return Err(Errno::INVAL.into());
        }
        groups.resize((groups.len() * 2).max(found).min(MOST_GROUPS), 0);
    }
}

/// The rights of another user on files, held by this thread until dropped.
struct FileRights {
    groups: Vec<u32>,
    user: u32,
    group: u32,
}

impl FileRights {
    fn take(user: &JobUser) -> io::Result<Self> {
        let groups = getgroups()?.into_iter().map(Gid::as_raw).collect();
        let user_before = geteuid().as_raw();
        let group_before = getegid().as_raw();
        let before = Self { groups, user: user_before, group: group_before };
        // From here on, an error puts everything back.
        set_groups(&user.groups)?;
        set_file_id(libc::SYS_setfsgid, user.gid)?;
        set_file_id(libc::SYS_setfsuid, user.uid)?;
        Ok(before)
    }
}

impl Drop for FileRights {
    fn drop(&mut self) {
        let put_back = set_file_id(libc::SYS_setfsuid, self.user)
            .and_then(|()| set_file_id(libc::SYS_setfsgid, self.group))
            .and_then(|()| set_groups(&self.groups));
        if put_back.is_err() {
            // This thread would do the work of others with the wrong rights.
            std::process::abort();
        }
    }
}

/// Sets the user or the group for access to files.
fn set_file_id(call: libc::c_long, id: u32) -> Result<(), Errno> {
    // SAFETY: the call takes one number. It returns the id before; a second call with an id that
    // nobody has changes nothing, and returns the present one.
    let now = unsafe {
        libc::syscall(call, id);
        libc::syscall(call, u32::MAX)
    };
    if u32::try_from(now) == Ok(id) { Ok(()) } else { Err(Errno::PERM) }
}

fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: the kernel reads that many numbers, which live through the call.
    let done = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

fn count_groups() -> Result<usize, Errno> {
    // SAFETY: for no room the kernel writes nothing, and returns their number.
    let count = unsafe { libc::syscall(libc::SYS_getgroups, 0, ptr::null_mut::<u32>()) };
    usize::try_from(count).map_err(|_| last_error())
}

/// Sets the real, the effective and the saved id.
fn set_ids(call: libc::c_long, id: u32) -> Result<(), Errno> {
    // SAFETY: the call takes three numbers.
    let done = unsafe { libc::syscall(call, id, id, id) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

/// Reads the real, the effective and the saved id.
fn read_ids(call: libc::c_long) -> Result<[u32; 3], Errno> {
    let [mut real, mut effective, mut saved] = [0_u32; 3];
    // SAFETY: the kernel writes one number to each of the three, which live through the call.
    let done = unsafe { libc::syscall(call, &raw mut real, &raw mut effective, &raw mut saved) };
    if done == 0 { Ok([real, effective, saved]) } else { Err(last_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_user_is_found_with_its_login_and_nobody_else() {
        let root = JobUser::find("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid, root.home.as_path()), (0, 0, "/root".as_ref()));
        assert!(root.groups.contains(&0), "{root:?}");
        for name in ["no-such-user", "", "a\0b"] {
            assert_eq!(JobUser::find(name).unwrap(), None, "{name:?}");
        }
        let all = root.login_variables().unwrap();
        assert!(all.iter().all(|it| JobUser::is_personal_variable(it.name())), "{all:?}");
        assert!(!JobUser::is_personal_variable("PATH".as_ref()));
    }

    #[test]
    fn a_thread_has_the_rights_of_a_user_only_meanwhile() {
        if !JobUser::can_switch() {
            eprintln!("not tried: needs root");
            return;
        }
        let daemon = JobUser::find("daemon").unwrap().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        daemon.act_as(|| std::fs::write(&path, "")).unwrap().unwrap_err();
        daemon.give_path(dir.path()).unwrap();
        daemon.act_as(|| std::fs::write(&path, "")).unwrap().unwrap();
        assert_eq!(path.metadata().unwrap().uid(), daemon.uid);
        let ours = dir.path().join("ours");
        std::fs::write(&ours, "").unwrap();
        assert_eq!(ours.metadata().unwrap().uid(), 0);
    }

    #[test]
    fn a_process_that_became_a_user_has_no_way_back() {
        if !JobUser::can_switch() {
            eprintln!("not tried: needs root");
            return;
        }
        let daemon = JobUser::find("daemon").unwrap().unwrap();
        // The thread alone changes, and ends.
        std::thread::spawn(move || {
            daemon.become_user().unwrap();
            assert_eq!(read_ids(libc::SYS_getresuid), Ok([daemon.uid; 3]));
            assert_eq!(set_ids(libc::SYS_setresuid, 0), Err(Errno::PERM));
            assert!(capabilities(None).unwrap().permitted.is_empty());
            assert_eq!(set_groups(&[0]), Err(Errno::PERM));
        })
        .join()
        .unwrap();
        assert!(geteuid().is_root());
    }
}
