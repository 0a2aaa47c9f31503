//! Where a login shell looks for programs.
//!
//! A client with windows is started by the desktop, not by a shell: what shell start-up files add
//! to the PATH is not there, and not for its servers either.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What the desktop gives to programs that it starts.
pub const DESKTOP_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Start-up files that wait for something are not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The line after which the shell tells its PATH: start-up files may say something too.
const MARK: &str = "shellyard-path:";

/// The PATH of this shell after its start-up files; nothing where it does not tell in time.
///
/// `environment` is all that it gets beside [`DESKTOP_PATH`].
#[must_use]
pub fn of_login_shell(shell: &Path, environment: &[(OsString, OsString)]) -> Option<OsString> {
    let mut command = Command::new(shell);
    command.args(["-l", "-c", &format!("printf '\\n{MARK}%s\\n' \"$PATH\"")]);
    command.env_clear().envs(environment.iter().cloned()).env("PATH", DESKTOP_PATH);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (told, hears) = mpsc::channel();
    let read = move || {
        let mut said = Vec::new();
        let read = stdout.read_to_end(&mut said);
        told.send(read.map(|_| said)).ok(); // whoever asked may have given up
    };
    // Without a thread nothing is told, and the wait is over at once.
    drop(thread::Builder::new().spawn(read));
    let said = hears.recv_timeout(PATIENCE).ok().and_then(Result::ok);
    // It has ended, or nobody waits for it any more.
    child.kill().ok();
    child.wait().ok();
    path_in(&said?)
}

fn path_in(said: &[u8]) -> Option<OsString> {
    let mut lines = said.rsplit(|byte| *byte == b'\n');
    let path = lines.find_map(|line| line.strip_prefix(MARK.as_bytes()))?;
    Some(OsString::from_vec(path.to_vec()))
}

/// Whether a program of this name is found on this PATH.
#[must_use]
pub fn is_found(name: &str, path: &OsStr) -> bool {
    std::env::split_paths(path).any(|dir| {
        let file = fs::metadata(dir.join(name));
        file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_shell_tells_what_its_start_up_files_add() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".profile"), "echo hello\nPATH=/opt/own/bin:$PATH\n").unwrap();
        let environment = [("HOME".into(), home.path().into())];
        let path = of_login_shell(Path::new("/bin/sh"), &environment).unwrap();
        assert!(path.to_str().unwrap().contains("/opt/own/bin"), "{path:?}");
        assert_eq!(of_login_shell(Path::new("/no/such/shell"), &environment), None);
    }

    #[test]
    fn only_what_can_be_run_is_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tool"), "").unwrap();
        assert!(is_found("sh", OsStr::new(DESKTOP_PATH)));
        assert!(!is_found("tool", dir.path().as_os_str()));
    }
}
