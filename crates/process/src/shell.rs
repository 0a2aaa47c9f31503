//! The choice of the shell that runs a text, and its command line. Pure, except for one search for
//! bash.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;
use std::{fs, thread};

use super::stdio::REPORT_FD;
use super::stdio::ReportMode;

/// The shell that runs shell text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellChoice {
    /// `sh` for a plain line, since it starts fastest and treats the line the same; otherwise bash
    /// if the host has it.
    Auto,
    /// This shell: a path, or a name that is looked up in the job's PATH.
    Path(String),
}

/// The command line of a shell, as fields of [`super::ProcessLaunch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellInvocation {
    /// The path or name of the shell.
    pub program: OsString,
    /// The name that the shell uses for itself in its messages.
    pub arg0: OsString,
    /// The arguments of the shell.
    pub args: Vec<OsString>,
    /// The reporting of the exit codes of its last pipeline.
    pub report: ReportMode,
}

/// Builds the command line that makes this shell run this text.
///
/// The text always comes last and unchanged. If bash runs it and it contains a pipe, a trap
/// precedes it, on the same line so that line numbers stay. The trap reports the exit codes of the
/// last pipeline and changes neither output nor exit code.
#[must_use]
pub fn build_invocation(shell: &ShellChoice, text: &str) -> ShellInvocation {
    match shell {
        ShellChoice::Auto => auto_invocation(text, BASH.as_deref()),
        ShellChoice::Path(path) => path_invocation(path, text),
    }
}

/// Builds the command line for a text that was checked against policy rules: always the shell whose
/// dialect [`judged_dialect`] returns, without start-up files.
#[must_use]
pub fn build_judged_invocation(shell: &ShellChoice, text: &str) -> ShellInvocation {
    let path = match shell {
        ShellChoice::Auto => BASH.as_deref().unwrap_or("/bin/sh"),
        ShellChoice::Path(path) => path,
    };
    let mut invocation = path_invocation(path, text);
    if dialect_of(path) == ShellDialect::Bash {
        invocation.args.splice(0..0, ["--noprofile".into(), "--norc".into()]);
    }
    invocation
}

/// The syntax of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellDialect {
    /// The syntax of bash.
    Bash,
    /// The syntax of any POSIX shell.
    Posix,
}

/// Returns the dialect in which a text that is checked against policy rules is read.
#[must_use]
pub fn judged_dialect(shell: &ShellChoice) -> ShellDialect {
    match shell {
        ShellChoice::Auto if BASH.is_some() => ShellDialect::Bash,
        ShellChoice::Auto => ShellDialect::Posix,
        ShellChoice::Path(path) => dialect_of(path),
    }
}

fn dialect_of(path: &str) -> ShellDialect {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.starts_with("bash") { ShellDialect::Bash } else { ShellDialect::Posix }
}

static BASH: LazyLock<Option<String>> = LazyLock::new(|| {
    const PLACES: [&str; 4] =
        ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];
    PLACES.into_iter().find(|path| Path::new(path).exists()).map(str::to_owned)
});

/// Returns the path of bash, if the host has it.
#[must_use]
pub fn bash_path() -> Option<&'static str> {
    BASH.as_deref()
}

fn auto_invocation(text: &str, bash: Option<&str>) -> ShellInvocation {
    match bash {
        Some(bash) if !is_plain(text) => path_invocation(bash, text),
        Some(_) | None => path_invocation("/bin/sh", text),
    }
}

fn path_invocation(path: &str, text: &str) -> ShellInvocation {
    let name = path.rsplit('/').next().unwrap_or(path);
    let reports = dialect_of(path) == ShellDialect::Bash && has_pipe(text);
    let (text, report) = if reports {
        (format!("{}{text}", report_trap()), ReportMode::Pipeline)
    } else {
        (text.to_owned(), ReportMode::None)
    };
    let mut args = vec!["-c".into()];
    // Otherwise it would be taken for more options.
    args.extend(text.starts_with(['-', '+']).then(|| "--".into()));
    args.push(text.into());
    ShellInvocation { program: path.into(), arg0: name.into(), args, report }
}

/// Returns a trap that writes PIPESTATUS to the report's file when the shell ends.
///
/// It uses `[@]` and not `[*]`, which would join by the job's own IFS; the redirection in braces
/// hides it from `set -x`. An EXIT trap leaves `$?` unchanged.
fn report_trap() -> String {
    format!(
        r#"trap '{{ builtin printf "%s " "${{PIPESTATUS[@]}}" >&{REPORT_FD}; }} 2>/dev/null' EXIT; "#
    )
}

/// `true` if there is a `|` that is not half of `||`. One in quotes counts too, which does no harm.
fn has_pipe(text: &str) -> bool {
    text.as_bytes().chunk_by(|a, b| a == b).any(|run| run == b"|")
}

/// `true` if every shell understands the line in the same way: words of harmless characters, one
/// space between them, and a command that is not a bash builtin with its own meaning.
fn is_plain(line: &str) -> bool {
    let mut words = line.split(' ');
    let command = words.next().unwrap_or_default();
    is_plain_command(command)
        && line.split(' ').all(is_plain_word)
        // Only here do the `echo` commands of shells differ, since backslashes are not plain.
        && (command != "echo" || !words.any(|word| word.starts_with('-')))
}

fn is_plain_command(word: &str) -> bool {
    !word.contains('=') && !word.starts_with('%') && !BASH_WORDS.contains(&word)
}

fn is_plain_word(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./=:,@%+-".contains(&byte))
}

/// Builtins and reserved words of bash, except for those that are the same everywhere (`echo`,
/// `true`, `false`, `pwd`).
pub(crate) const BASH_WORDS: [&str; 73] = [
    ".",
    ":",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

// The PATH of a login shell.
//
// A graphical client is started by the desktop, not by a shell: additions by shell start-up files
// to the PATH are missing, also for the servers that it starts.

/// The PATH that the desktop gives to programs that it starts.
pub const DESKTOP_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// The time after which start-up files that block are given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// The prefix of the line with the PATH: start-up files may print something too.
const MARK: &str = "shellyard-path:";

/// Returns the PATH of this shell after its start-up files; `None` if it does not print it in time.
///
/// `environment` is everything that the shell gets besides [`DESKTOP_PATH`].
#[must_use]
pub fn read_login_path(shell: &Path, environment: &[(OsString, OsString)]) -> Option<OsString> {
    let mut command = Command::new(shell);
    command.args(["-l", "-c", &format!("printf '\\n{MARK}%s\\n' \"$PATH\"")]);
    command.env_clear().envs(environment.iter().cloned()).env("PATH", DESKTOP_PATH);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut output = Vec::new();
        let read = stdout.read_to_end(&mut output);
        sender.send(read.map(|_| output)).ok(); // the receiver may have given up
    };
    // Without a thread nothing is sent, and the wait ends at once.
    drop(thread::Builder::new().spawn(read));
    let output = receiver.recv_timeout(PATIENCE).ok().and_then(Result::ok);
    // It has ended, or nobody waits for it any more.
    child.kill().ok();
    child.wait().ok();
    parse_path(&output?)
}

fn parse_path(output: &[u8]) -> Option<OsString> {
    let mut lines = output.rsplit(|byte| *byte == b'\n');
    let path = lines.find_map(|line| line.strip_prefix(MARK.as_bytes()))?;
    Some(OsString::from_vec(path.to_vec()))
}

/// `true` if an executable file with this name is on this PATH.
#[must_use]
pub fn is_on_path(name: &str, path: &OsStr) -> bool {
    std::env::split_paths(path).any(|dir| {
        let file = fs::metadata(dir.join(name));
        file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, program: &str, report: ReportMode) {
        let found = auto_invocation(text, Some("/bin/bash"));
        assert_eq!((found.program.to_str().unwrap(), found.report), (program, report), "{text}");
        let last = found.args.last().unwrap().to_str().unwrap();
        assert!(last.ends_with(text), "{last}");
        assert_eq!(last == text, report == ReportMode::None, "{last}");
    }

    #[test]
    fn a_plain_line_goes_to_the_fastest_shell() {
        for text in ["ls", "echo hi", "cargo test --lib a::b", "make -j4 CC=gcc", "git log -1"] {
            check(text, "/bin/sh", ReportMode::None);
        }
    }

    #[test]
    fn a_line_that_shells_read_differently_goes_to_bash() {
        let texts = [
            "echo -e a",
            "source x",
            "time ls",
            "X=1 ls",
            "a  b",
            " a",
            "a ",
            "",
            "ls\n",
            "echo $X",
            "[ a ]",
            "ls *",
            "a; b",
            "a && b",
            "a || b",
            "{a,b}",
            "printf x",
            "%1",
            "~/x",
            "kill -l",
        ];
        for text in texts {
            check(text, "/bin/bash", ReportMode::None);
        }
    }

    #[test]
    fn a_pipe_is_reported() {
        for text in ["a | b", "a|b", "a || b | c", "a |& b", "|"] {
            check(text, "/bin/bash", ReportMode::Pipeline);
        }
    }

    #[test]
    fn without_bash_everything_goes_to_sh() {
        let found = auto_invocation("a | b", None);
        assert_eq!((found.program, found.report), ("/bin/sh".into(), ReportMode::None));
    }

    #[test]
    fn a_chosen_shell_is_recognised_by_its_name() {
        let report = |path: &str| build_invocation(&ShellChoice::Path(path.into()), "a | b").report;
        assert_eq!(report("/opt/bash-5.2/bin/bash"), ReportMode::Pipeline);
        assert_eq!(report("bash"), ReportMode::Pipeline);
        assert_eq!(report("/bin/bash/zsh"), ReportMode::None);
        assert_eq!(report("fish"), ReportMode::None);
        assert_eq!(build_invocation(&ShellChoice::Path("/usr/bin/zsh".into()), "x").arg0, "zsh");
    }
}

#[cfg(test)]
mod login_path_tests {
    use super::*;

    #[test]
    fn a_login_shell_prints_what_its_start_up_files_add() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".profile"), "echo hello\nPATH=/opt/own/bin:$PATH\n").unwrap();
        let environment = [("HOME".into(), home.path().into())];
        let path = read_login_path(Path::new("/bin/sh"), &environment).unwrap();
        assert!(path.to_str().unwrap().contains("/opt/own/bin"), "{path:?}");
        assert_eq!(read_login_path(Path::new("/no/such/shell"), &environment), None);
    }

    #[test]
    fn only_executable_files_are_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tool"), "").unwrap();
        assert!(is_on_path("sh", OsStr::new(DESKTOP_PATH)));
        assert!(!is_on_path("tool", dir.path().as_os_str()));
    }
}
