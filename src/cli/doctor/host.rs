//! What this host gives to every job: a shell, programs, room for files, limits.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::fs::{StatVfs, statvfs};
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use crate::environment::Cleaned;
use crate::process::shell::{DESKTOP_PATH, is_found, of_login_shell};
use crate::process::shell::{Shell, bash};
use crate::size;

/// What agents most often call.
const TOOLS: [&str; 18] = [
    "git", "cargo", "rustc", "node", "npm", "npx", "pnpm", "bun", "deno", "python3", "uv", "go",
    "java", "docker", "kubectl", "make", "gh", "rg",
];

/// Variables by which a login shell finds its start-up files.
const LOGIN_VARIABLES: [&str; 5] = ["HOME", "USER", "LOGNAME", "SHELL", "XDG_CONFIG_HOME"];

/// Below this a build soon fails.
const LITTLE_SPACE: u64 = 1 << 30;
const FEW_FILES: u64 = 10_000;
const FEW_OPEN_FILES: u64 = 1024;
const FEW_PROCESSES: u64 = 512;

/// The shell that runs command text.
pub(super) fn shell_finding(shell: &Shell) -> Finding {
    const WHAT: &str = "shell";
    match shell {
        Shell::Auto => match bash() {
            Some(bash) => Finding::ok(WHAT, format!("{bash}; /bin/sh for plain lines")),
            None => Finding::warn(
                WHAT,
                "/bin/sh for all command text: there is no bash",
                "install bash; agents write for it",
            ),
        },
        Shell::Path(path) if Path::new(path).exists() => Finding::ok(WHAT, path.as_str()),
        Shell::Path(path) => {
            Finding::fail(WHAT, format!("there is no {path}"), "correct job.shell, or remove it")
        }
    }
}

/// What a login shell knows that a client with windows does not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoginPath {
    /// Its PATH, and the tools that are found only there.
    Known { path: OsString, missed: Vec<&'static str> },
    /// It did not tell.
    Unknown,
}

/// Asks the login shell.
pub(super) fn only_by_login(shell: Option<&Path>, environment: &Cleaned) -> LoginPath {
    let is_needed = |name: &OsStr| LOGIN_VARIABLES.iter().any(|known| name == *known);
    let kept = environment.kept.iter().filter(|(name, _)| is_needed(name)).cloned();
    let kept: Vec<_> = kept.collect();
    let Some(path) = shell.and_then(|shell| of_login_shell(shell, &kept)) else {
        return LoginPath::Unknown;
    };
    let only_there =
        |tool: &&str| is_found(tool, &path) && !is_found(tool, OsStr::new(DESKTOP_PATH));
    let missed = TOOLS.into_iter().filter(only_there).collect();
    LoginPath::Known { path, missed }
}

/// What a server finds that a client with windows starts.
pub(super) fn path_finding(login: &LoginPath) -> Finding {
    const WHAT: &str = "path";
    match login {
        LoginPath::Unknown => Finding::ok(
            WHAT,
            format!(
                "a client with windows starts us with {DESKTOP_PATH}; the login shell does not tell its own"
            ),
        ),
        LoginPath::Known { missed, .. } if missed.is_empty() => Finding::ok(
            WHAT,
            format!(
                "a client with windows starts us with {DESKTOP_PATH}, which has all tools that the login shell finds"
            ),
        ),
        LoginPath::Known { path, missed } => Finding::warn(
            WHAT,
            format!(
                "a client with windows starts us with {DESKTOP_PATH}; found only by the login shell: {}",
                missed.join(" ")
            ),
            &format!("set environment.set = [\"PATH={}\"]", path.display()),
        ),
    }
}

/// How much room there is for temporary files.
pub(super) fn temp_finding(dir: &Path) -> Finding {
    match statvfs(dir) {
        Ok(told) => room_finding(dir, &told),
        Err(error) => Finding::fail(
            "temp",
            format!("{} cannot be used ({error})", dir.display()),
            "set TMPDIR to a directory that can be written",
        ),
    }
}

fn room_finding(dir: &Path, told: &StatVfs) -> Finding {
    let free = told.f_bavail.saturating_mul(told.f_frsize);
    // Some file systems make inodes as they need them, and tell none.
    let files = (told.f_files > 0).then_some(told.f_favail);
    let inodes = files.map(|files| format!(", {files} inodes")).unwrap_or_default();
    let free_mib = size::display(free >> 20 << 20);
    let detail = format!("{} has {free_mib}{inodes} free", dir.display());
    if free < LITTLE_SPACE || files.is_some_and(|files| files < FEW_FILES) {
        Finding::warn("temp", detail, "free some, or set TMPDIR to a larger file system")
    } else {
        Finding::ok("temp", detail)
    }
}

/// What the system lets this user's processes have; `None`: no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnLimits {
    open_files: Option<u64>,
    processes: Option<u64>,
    file_size: Option<u64>,
}

/// What the system lets us have at the most.
pub(super) fn own_limits() -> OwnLimits {
    let most = |resource| getrlimit(resource).maximum;
    OwnLimits {
        open_files: most(Resource::Nofile),
        processes: most(Resource::Nproc),
        file_size: most(Resource::Fsize),
    }
}

pub(super) fn limits_finding(limits: OwnLimits) -> Finding {
    let OwnLimits { open_files, processes, file_size } = limits;
    let words = |bound: Option<u64>| bound.map_or("unlimited".to_owned(), |most| most.to_string());
    let detail = format!(
        "open files {}, processes {}, file size {}",
        words(open_files),
        words(processes),
        file_size.map_or("unlimited".to_owned(), size::display)
    );
    let is_low = |bound: Option<u64>, least| bound.is_some_and(|most| most < least);
    if is_low(open_files, FEW_OPEN_FILES)
        || is_low(processes, FEW_PROCESSES)
        || is_low(file_size, LITTLE_SPACE)
    {
        Finding::warn("limits", detail, "raise them by ulimit -n, -u and -f, or for the service")
    } else {
        Finding::ok("limits", detail)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn tools_that_only_a_login_shell_finds_are_named_with_the_fix() {
        let missed = vec!["cargo", "node"];
        let found = path_finding(&LoginPath::Known { path: "/h/.cargo/bin:/bin".into(), missed });
        assert_eq!(found.level, Level::Warn);
        assert!(found.detail.ends_with("only by the login shell: cargo node"), "{found:?}");
        assert!(found.fix.is_some_and(|fix| fix.contains("PATH=/h/.cargo/bin:/bin")));
        let all = LoginPath::Known { path: OsString::new(), missed: Vec::new() };
        assert_eq!(path_finding(&all).level, Level::Ok);
        assert_eq!(path_finding(&LoginPath::Unknown).level, Level::Ok);
    }

    #[test]
    fn low_limits_are_warned_of() {
        let none = OwnLimits { open_files: None, processes: None, file_size: None };
        assert_eq!(limits_finding(none).level, Level::Ok);
        let found = limits_finding(OwnLimits { open_files: Some(256), ..none });
        assert_eq!(found.level, Level::Warn);
        assert!(found.detail.starts_with("open files 256, processes unlimited"), "{found:?}");
    }

    #[test]
    fn a_shell_or_a_directory_that_is_not_there_fails() {
        assert_eq!(shell_finding(&Shell::Path("/no/sh".to_owned())).level, Level::Fail);
        assert_eq!(shell_finding(&Shell::Path("/bin/sh".to_owned())).level, Level::Ok);
        assert_eq!(temp_finding(Path::new("/no/such/place")).level, Level::Fail);
    }
}
