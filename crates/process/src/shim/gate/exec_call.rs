//! One call of `execve` or `execveat`, as its task has made it.

use std::ffi::c_int;
use std::os::fd::OwnedFd;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use super::listener::Notification;
use super::lookup::{TaskView, open_link};
use super::task_memory::TaskMemory;

/// The file that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedFile {
    /// The open file of the task from which a relative path starts; `None` is its directory.
    pub(super) start: Option<c_int>,
    pub(super) path: Vec<u8>,
    pub(super) flags: AtFlags,
}

/// The strings of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExecCall {
    pub(super) named: NamedFile,
    pub(super) argv: Vec<Vec<u8>>,
    pub(super) env: Vec<Vec<u8>>,
}

impl ExecCall {
    /// Reads a call from the memory of its task. It counts only if the task still waits afterwards.
    ///
    /// # Errors
    /// The errors that the call would return, and `PERM` if the memory cannot be read.
    pub(super) fn read(notification: &Notification) -> Result<Self, Errno> {
        let mut memory = TaskMemory::new(notification.task);
        let given = &notification.arguments;
        let is_at = notification.call == libc::SYS_execveat;
        let [path, argv, env] =
            if is_at { [given[1], given[2], given[3]] } else { [given[0], given[1], given[2]] };
        let path = memory.read_string(path).map_err(|errno| match errno {
            Errno::TOOBIG => Errno::NAMETOOLONG,
            errno => errno,
        })?;
        let named = if is_at {
            // The kernel takes the lower half of both.
            #[expect(clippy::cast_possible_truncation, reason = "as in the kernel")]
            let (start, flags) = (given[0] as u32, given[4] as u32);
            let start = Some(start.cast_signed()).filter(|start| *start != libc::AT_FDCWD);
            let flags = AtFlags::from_bits(flags).ok_or(Errno::INVAL)?;
            NamedFile { start, path, flags }
        } else {
            NamedFile { start: None, path, flags: AtFlags::empty() }
        };
        Ok(Self { named, argv: memory.read_strings(argv)?, env: memory.read_strings(env)? })
    }
}

impl NamedFile {
    /// Opens the file, without reading from it. Returns it with the path by which the kernel names it to
    /// the interpreter of a script.
    ///
    /// # Errors
    /// The errors that the call would return.
    pub(super) fn open(&self, view: &TaskView) -> Result<(OwnedFd, Vec<u8>), Errno> {
        let follows_last = !self.flags.contains(AtFlags::SYMLINK_NOFOLLOW);
        let number = match self.start {
            Some(number) if !self.path.starts_with(b"/") => number,
            _ => return Ok((view.open(&self.path, follows_last)?, self.path.clone())),
        };
        let start = open_file_of(view.task, number)?;
        let mut shown = format!("/dev/fd/{number}").into_bytes();
        if self.path.is_empty() {
            let is_file = self.flags.contains(AtFlags::EMPTY_PATH);
            return if is_file { Ok((start, shown)) } else { Err(Errno::NOENT) };
        }
        let root = view.root.try_clone().map_err(|_| Errno::MFILE)?;
        let view = TaskView { root, directory: start, ..*view };
        shown.push(b'/');
        shown.extend_from_slice(&self.path);
        Ok((view.open(&self.path, follows_last)?, shown))
    }
}

fn open_file_of(task: Pid, number: c_int) -> Result<OwnedFd, Errno> {
    open_link(task, &format!("fd/{number}")).map_err(|errno| match errno {
        Errno::NOENT => Errno::BADF,
        errno => errno,
    })
}
