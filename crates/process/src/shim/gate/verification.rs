//! The check at the exec stop: the kernel has loaded what was judged.

use std::fs::File;
use std::io::Read as _;

use rustix::fs::{AtFlags, CWD, statat};
use rustix::process::Pid;
use shellyard_policy::gate::StartedFile;

/// The result that a permitted start must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpectedImage {
    pub(super) file: StartedFile,
    /// `false` if another change of the file than that of its content is no reason to kill: tests that a
    /// build links to another name while they start.
    pub(super) is_change_refused: bool,
    pub(super) argv: Vec<Vec<u8>>,
    pub(super) env: Vec<Vec<u8>>,
}

/// `true` if this process, which is at its exec stop, has the expected program, arguments and variables.
pub(super) fn has_image(process: Pid, expected: &ExpectedImage) -> bool {
    has_file(process, &expected.file, expected.is_change_refused)
        && has_arguments(process, &expected.argv)
        && has_strings(process, "environ", &expected.env)
}

/// `true` if a process runs this file.
pub(super) fn has_file(process: Pid, file: &StartedFile, is_change_refused: bool) -> bool {
    let loaded = statat(CWD, format!("/proc/{process}/exe"), AtFlags::empty());
    loaded.is_ok_and(|stat| {
        let changed = (stat.st_ctime, stat.st_ctime_nsec.cast_signed());
        (stat.st_dev, stat.st_ino) == (file.device, file.inode)
            && (!is_change_refused || changed == file.changed)
    })
}

fn has_arguments(process: Pid, argv: &[Vec<u8>]) -> bool {
    // For a call without any the kernel adds an empty one, from Linux 5.18 on.
    has_strings(process, "cmdline", argv)
        || (argv.is_empty() && has_strings(process, "cmdline", &[Vec::new()]))
}

fn has_strings(process: Pid, name: &str, expected: &[Vec<u8>]) -> bool {
    let expected: Vec<u8> =
        expected.iter().flat_map(|string| string.iter().copied().chain([0])).collect();
    let mut found = Vec::with_capacity(expected.len() + 1);
    // One byte more tells a longer one.
    let most = expected.len() as u64 + 1;
    let read = File::open(format!("/proc/{process}/{name}"))
        .and_then(|file| file.take(most).read_to_end(&mut found));
    read.is_ok() && found == expected
}
