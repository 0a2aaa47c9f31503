//! The file that a start names, and the program that the kernel would load for it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;
use shellyard_policy::gate::StartedFile;

use super::lookup::TaskView;
use super::script::{HEADER_BYTES, interpreter_argv, parse_interpreter};

/// The most interpreters that name further ones: the kernel's limit.
const MOST_INTERPRETERS: usize = 5;

const ANY_EXECUTE: u32 = 0o111;

/// The program that the kernel loads for a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoadedProgram {
    /// The file that the start names.
    pub(super) named: StartedFile,
    /// The last interpreter, if that file is a script.
    pub(super) interpreter: Option<StartedFile>,
    /// The arguments that the new program gets.
    pub(super) argv: Vec<Vec<u8>>,
    /// `true` if the named file has no name: it was deleted, or exists in memory alone.
    pub(super) is_nameless: bool,
}

impl LoadedProgram {
    /// Finds the program for a file that was opened, which the kernel shows to an interpreter as `shown`.
    ///
    /// # Errors
    /// The errors that the call would return.
    pub(super) fn find(
        view: &TaskView,
        file: &OwnedFd,
        shown: Vec<u8>,
        argv: &[Vec<u8>],
    ) -> Result<Self, Errno> {
        let (named, is_nameless) = describe(file)?;
        let mut program = Self { named, interpreter: None, argv: argv.to_vec(), is_nameless };
        let mut header = read_header(file)?;
        let mut shown = shown;
        for _ in 0..MOST_INTERPRETERS {
            let Some(interpreter) = parse_interpreter(&header) else { return Ok(program) };
            program.argv = interpreter_argv(&interpreter, &shown, &program.argv);
            let file = view.open(&interpreter.path, true)?;
            header = read_header(&file)?;
            program.interpreter = Some(describe(&file)?.0);
            shown = interpreter.path;
        }
        Err(Errno::LOOP)
    }

    /// Returns the file that the kernel loads.
    pub(super) fn loaded(&self) -> &StartedFile {
        self.interpreter.as_ref().unwrap_or(&self.named)
    }
}

pub(super) fn started_file(path: PathBuf, stat: &Stat) -> StartedFile {
    StartedFile {
        path,
        device: stat.st_dev,
        inode: stat.st_ino,
        changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
    }
}

/// Describes an open file that can be executed. Also returns `true` if it has no name.
fn describe(file: &OwnedFd) -> Result<(StartedFile, bool), Errno> {
    let stat = fstat(file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_mode & ANY_EXECUTE == 0 {
        return Err(Errno::ACCESS);
    }
    let path = path_of(file)?;
    let is_nameless = stat.st_nlink == 0;
    // The text is then no path, and must match no rule on paths.
    let path = match path.strip_prefix("/") {
        Ok(text) if is_nameless => text.to_owned(),
        Ok(_) | Err(_) => path,
    };
    Ok((started_file(path, &stat), is_nameless))
}

/// Returns the path of an open file.
pub(super) fn path_of(file: impl AsFd) -> Result<PathBuf, Errno> {
    let link = own_link(&file);
    std::fs::read_link(link).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn own_link(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// Reads the first bytes, padded with zeros. A file that cannot be read could be executed, but not be
/// verified: who runs it could not be inspected.
fn read_header(file: &OwnedFd) -> Result<[u8; HEADER_BYTES], Errno> {
    let mut header = [0; HEADER_BYTES];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let readable = File::from(open(own_link(file), flags, Mode::empty())?);
    let mut length = 0;
    while let Some(rest) = header.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match readable.read_at(rest, length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }
    Ok(header)
}

/// Returns a path for a message: one that is not UTF-8 could not be sent.
pub(super) fn to_text_path(path: PathBuf) -> PathBuf {
    match path.as_os_str().to_str() {
        Some(_) => path,
        None => String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned().into(),
    }
}
