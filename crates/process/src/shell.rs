//! The choice of the shell that runs a text, its command line, the exit codes that it reports, the PATH
//! of a login shell, and suggestions for commands that do not exist.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::fs::{Access, AtFlags, CWD, MemfdFlags, accessat, memfd_create};
use rustix::io::pread;

use crate::launch::{CommandLine, REPORT_FD, ReportMode};
use crate::stdio::move_above_standard_files;

/// The shell that runs shell text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellChoice {
    /// `sh` for a plain line, since it starts fastest and treats the line the same; otherwise bash
    /// if the host has it.
    Auto,
    /// This shell: a path, or a name that is looked up in the job's PATH.
    Path(String),
}

impl ShellChoice {
    /// Returns the path of the shell that runs this text.
    #[must_use]
    pub fn choose_path(&self, text: &str) -> &str {
        match self {
            Self::Auto => choose_auto_path(text, BASH.as_deref()),
            Self::Path(path) => path,
        }
    }

    /// Returns the path of the shell that runs texts that were checked against policy rules.
    fn choose_judged_path(&self) -> &str {
        match self {
            Self::Auto => BASH.as_deref().unwrap_or("/bin/sh"),
            Self::Path(path) => path,
        }
    }
}

/// Builds the command line that makes the shell at this path run this text.
///
/// The text always comes last and unchanged. If bash runs it and it contains a pipe, a trap
/// precedes it, on the same line so that line numbers stay. The trap reports the exit codes of the
/// last pipeline and changes neither output nor exit code.
#[must_use]
pub fn build_invocation(path: &str, text: &str) -> CommandLine {
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
    CommandLine { program: path.into(), arg0: Some(name.into()), args, report }
}

/// Builds the command line for a text that was checked against policy rules: always the shell whose
/// dialect [`judged_dialect`] returns, without start-up files.
#[must_use]
pub fn build_judged_invocation(shell: &ShellChoice, text: &str) -> CommandLine {
    let path = shell.choose_judged_path();
    let mut invocation = build_invocation(path, text);
    if dialect_of(path) == ShellDialect::Bash {
        invocation.args.splice(0..0, ["--noprofile".into(), "--norc".into()]);
    }
    invocation
}

/// Builds the command line for a text whose programs are judged as they start: as
/// [`build_judged_invocation`], and bash cannot load builtins from files, which would be code that no
/// program start shows.
///
/// The words before the text are on its first line, so that line numbers stay.
#[must_use]
pub fn build_gated_invocation(shell: &ShellChoice, text: &str) -> CommandLine {
    let mut invocation = build_judged_invocation(shell, text);
    if dialect_of(shell.choose_judged_path()) == ShellDialect::Bash
        && let Some(last) = invocation.args.last_mut()
    {
        let text = std::mem::replace(last, OsString::from(NO_LOADED_BUILTINS));
        last.push(text);
    }
    invocation
}

/// Takes `enable` away from bash, for good: what is not enabled is not found by `builtin` either.
const NO_LOADED_BUILTINS: &str = "builtin enable -n enable; ";

/// The syntax of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellDialect {
    /// The syntax that bash accepts.
    Bash,
    /// The syntax of any POSIX shell.
    Posix,
}

/// Returns the dialect in which a text that is checked against policy rules is read.
#[must_use]
pub fn judged_dialect(shell: &ShellChoice) -> ShellDialect {
    dialect_of(shell.choose_judged_path())
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

fn choose_auto_path<'a>(text: &str, bash: Option<&'a str>) -> &'a str {
    bash.filter(|_| !is_plain(text)).unwrap_or("/bin/sh")
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
const BASH_WORDS: [&str; 73] = [
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

// Suggestions for a command that does not exist.

/// The most files of PATH that are examined, in its order.
const MAX_FILES: usize = 20_000;
/// The most directories of PATH that are opened.
const MAX_DIRECTORIES: usize = 64;
/// A longer name is not a typing error.
const MAX_NAME: usize = 64;
/// Builtins that shells share with programs, and that [`BASH_WORDS`] leaves out.
const SHARED_WORDS: [&str; 4] = ["echo", "false", "pwd", "true"];
/// The number of lines at the end of an output that can contain a shell's message.
const LAST_LINES: usize = 5;

/// Returns executables on this PATH and shell builtins with names similar to this one, at most
/// `most`: the closest first, equally close ones in alphabetical order.
///
/// A path, and a name that exists, have none. Relative entries of PATH are skipped: they mean
/// something else for each job. Reads directories, and a bounded number of their entries.
#[must_use]
pub fn similar_commands(name: &str, path_variable: &OsStr, most: usize) -> Vec<String> {
    if name.contains('/') || name.len() > MAX_NAME {
        return Vec::new();
    }
    let words = BASH_WORDS.into_iter().chain(SHARED_WORDS);
    let mut found: BTreeSet<_> =
        words.filter_map(|word| CommandCandidate::new(name, word)).collect();
    found.extend(files_on(path_variable, MAX_FILES).filter_map(|(directory, file)| {
        let candidate = CommandCandidate::new(name, file.to_str()?)?;
        is_executable(&directory.join(&file)).then_some(candidate)
    }));
    if found.iter().any(|candidate| candidate.name == name) {
        return Vec::new();
    }
    found.into_iter().take(most).map(|candidate| candidate.name).collect()
}

/// A name that is close enough. The order is that of the suggestions.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CommandCandidate {
    distance: usize,
    likeness: Likeness,
    name: String,
}

/// The tie-breaker between names of the same distance, most likely first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// The same letters in another order: the most common typing error.
    SameLetters,
    SameStart,
    Other,
}

impl CommandCandidate {
    fn new(given: &str, known: &str) -> Option<Self> {
        let given = given.to_lowercase();
        let lower = known.to_lowercase();
        let allowed = allowed_distance(given.chars().count());
        if given.len().abs_diff(lower.len()) > 4 * allowed {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&given, &lower);
        let likeness = compare_names(&given, &lower);
        (distance <= allowed).then(|| Self { distance, likeness, name: known.to_owned() })
    }
}

/// Returns the number of typing errors that a name of this length may have.
const fn allowed_distance(length: usize) -> usize {
    match length {
        0 | 1 => 0,
        2..=4 => 1,
        5..=8 => 2,
        _ => 3,
    }
}

fn compare_names(given: &str, known: &str) -> Likeness {
    let sorted = |text: &str| {
        let mut letters: Vec<_> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    if sorted(given) == sorted(known) {
        Likeness::SameLetters
    } else if given.chars().next() == known.chars().next() {
        Likeness::SameStart
    } else {
        Likeness::Other
    }
}

fn files_on(path: &OsStr, most: usize) -> impl Iterator<Item = (&Path, OsString)> {
    let directories = path.as_bytes().split(|byte| *byte == b':');
    let directories = directories.map(|bytes| Path::new(OsStr::from_bytes(bytes)));
    let absolute = directories.filter(|path| path.is_absolute()).take(MAX_DIRECTORIES);
    let files = absolute.flat_map(|directory| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(move |entry| (directory, entry.file_name()))
    });
    files.take(most)
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Returns the command that a shell did not find, taken from its message at the end of the output.
///
/// Recognises the messages of sh, bash and zsh. Call it only for a command that ended with 127:
/// other programs could print the same.
#[must_use]
pub fn find_missing_command(output: &str) -> Option<&str> {
    let lines = output.lines().rev().map(str::trim_end).filter(|line| !line.is_empty());
    lines.take(LAST_LINES).find_map(missing_in_line)
}

fn missing_in_line(line: &str) -> Option<&str> {
    let name = parse_zsh_message(line)
        .or_else(|| parse_bash_message(line))
        .or_else(|| parse_sh_message(line))?;
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then_some(name)
}

/// Parses `zsh: command not found: NAME`, or `zsh:1: …`, or of a path `no such file or directory`.
fn parse_zsh_message(line: &str) -> Option<&str> {
    let (place, name) = line
        .split_once(": command not found: ")
        .or_else(|| line.split_once(": no such file or directory: "))?;
    is_shell(place.split(':').next()?).then_some(name)
}

/// Parses `bash: NAME: command not found`, or `bash: line 1: …`, or with a script's name before it, or
/// of a path `No such file or directory`.
fn parse_bash_message(line: &str) -> Option<&str> {
    if let Some(before) = line.strip_suffix(": command not found") {
        return before.rsplit_once(": ").map(|(_, name)| name);
    }
    let (place, name) = line.strip_suffix(": No such file or directory")?.rsplit_once(": ")?;
    is_shell(place.split(':').next()?).then_some(name)
}

/// Parses `sh: 1: NAME: not found`, or with a script's name before it; busybox prints `sh: NAME:
/// not found`.
fn parse_sh_message(line: &str) -> Option<&str> {
    let (place, name) = line.strip_suffix(": not found")?.rsplit_once(": ")?;
    let numbered = place.rsplit_once(": ").is_some_and(|(_, number)| is_number(number));
    (numbered || is_shell(place)).then_some(name)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_shell(place: &str) -> bool {
    place.rsplit('/').next().is_some_and(|name| name.trim_start_matches('-').ends_with("sh"))
}

// The exit codes of a shell's last pipeline, as the shell itself reports them.

const MOST_BYTES: usize = 4096;

/// The file in which a shell leaves the exit codes of its last pipeline.
#[derive(Debug)]
pub struct PipelineReport {
    file: OwnedFd,
}

impl PipelineReport {
    pub(crate) fn create() -> io::Result<Self> {
        let file = memfd_create("pipeline", MemfdFlags::CLOEXEC)?;
        Ok(Self { file: move_above_standard_files(file)? })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Takes over the file of a process that an earlier server started.
    pub(crate) const fn restore(file: OwnedFd) -> Self {
        Self { file }
    }

    /// Returns the codes, first command first; call it after the leader ended.
    ///
    /// Empty if the last command was not a pipeline, or if the shell reported nothing: it was
    /// killed, replaced itself by `exec`, or had an EXIT trap of its own.
    #[must_use]
    pub fn read(self) -> Vec<i32> {
        let mut text = [0; MOST_BYTES];
        let length = pread(&self.file, &mut text, 0).unwrap_or(0);
        parse_codes(&String::from_utf8_lossy(text.get(..length).unwrap_or_default()))
    }
}

/// Parses a report. Anything but two or more codes is not a report: the text comes from the job.
fn parse_codes(text: &str) -> Vec<i32> {
    let codes: Result<Vec<i32>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    codes.ok().filter(|codes| codes.len() > 1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    #[track_caller]
    fn check(text: &str, program: &str, report: ReportMode) {
        let found = build_invocation(choose_auto_path(text, Some("/bin/bash")), text);
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
        let found = build_invocation(choose_auto_path("a | b", None), "a | b");
        assert_eq!((found.program, found.report), ("/bin/sh".into(), ReportMode::None));
    }

    #[test]
    fn a_chosen_shell_is_recognised_by_its_name() {
        let report = |path: &str| build_invocation(path, "a | b").report;
        assert_eq!(report("/opt/bash-5.2/bin/bash"), ReportMode::Pipeline);
        assert_eq!(report("bash"), ReportMode::Pipeline);
        assert_eq!(report("/bin/bash/zsh"), ReportMode::None);
        assert_eq!(report("fish"), ReportMode::None);
        assert_eq!(build_invocation("/usr/bin/zsh", "x").arg0, Some("zsh".into()));
    }

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

    /// A directory of executables with these names, and one file that is not executable.
    fn programs(names: &[&str]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            let path = directory.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        fs::write(directory.path().join("carga"), "").unwrap();
        fs::create_dir(directory.path().join("carge")).unwrap();
        directory
    }

    #[test]
    fn similar_names_are_found() {
        let directory = programs(&[
            "cargo",
            "cargo-fmt",
            "git",
            "gist",
            "gcc",
            "python3",
            "ls",
            "sg",
            "kubectl",
            "charge",
        ]);
        for (name, expected) in [
            ("carg", vec!["cargo"]),
            ("crago", vec!["cargo"]),
            ("gti", vec!["git"]),
            ("git2", vec!["git"]),
            ("GIT", vec!["git", "gist"]),
            ("sl", vec!["ls", "sg"]),
            ("pyhton3", vec!["python3"]),
            ("kubeclt", vec!["kubectl"]),
            ("ecoh", vec!["echo"]),
            ("exprot", vec!["export"]),
            ("cargo", vec![]),
            ("frobnicate", vec![]),
            ("x", vec![]),
            ("", vec![]),
            ("./carg", vec![]),
            ("carg\u{e9}", vec!["cargo", "charge"]),
        ] {
            let path = directory.path().as_os_str();
            assert_eq!(similar_commands(name, path, 3), expected, "{name}");
        }
    }

    #[test]
    fn suggestions_are_limited_and_ordered_by_closeness_then_alphabet() {
        let directory = programs(&["maxe", "mbke", "make", "makee"]);
        let path = format!("/nowhere::.:{0}:{0}", directory.path().display());
        assert_eq!(similar_commands("makex", path.as_ref(), 9), ["make", "makee", "maxe", "mbke"]);
        assert_eq!(similar_commands("makex", path.as_ref(), 2), ["make", "makee"]);
        assert_eq!(similar_commands("makex", path.as_ref(), 0), [""; 0]);
    }

    #[test]
    fn a_huge_directory_is_not_read_to_its_end() {
        let directory = programs(&["a", "b", "c", "d"]);
        let path = format!("{0}:{0}", directory.path().display());
        assert_eq!(files_on(path.as_ref(), 5).count(), 5);
        assert_eq!(files_on(path.as_ref(), MAX_FILES).count(), 12);
    }

    #[test]
    fn the_message_of_each_shell_names_the_command() {
        for (output, expected) in [
            ("sh: 1: carg: not found\n", Some("carg")),
            ("/bin/sh: 12: carg: not found", Some("carg")),
            ("./x.sh: 3: carg: not found", Some("carg")),
            ("bash: line 1: carg: command not found\r\n", Some("carg")),
            ("bash: carg: command not found", Some("carg")),
            ("./x: line 3: carg: command not found", Some("carg")),
            ("/bin/sh: carg: not found", Some("carg")),
            ("ash: carg: not found", Some("carg")),
            ("zsh: command not found: carg", Some("carg")),
            ("zsh:1: command not found: carg", Some("carg")),
            ("out\nbash: line 2: b: command not found\n\nmore\n", Some("b")),
            ("bash: line 1: a: command not found\nbash: line 2: b: command not found", Some("b")),
            ("bash: line 1: a b: command not found", None),
            ("curl: page: not found", None),
            ("error: carg: not found", None),
            ("bash: line 1: carg: command not found\n1\n2\n3\n4\n5\n", None),
            ("command not found", None),
            (": command not found", None),
            ("", None),
        ] {
            assert_eq!(find_missing_command(output), expected, "{output:?}");
        }
    }

    #[test]
    fn the_messages_of_real_shells_are_recognised() {
        for shell in ["sh", "bash", "dash", "zsh"] {
            let Ok(run) = Command::new(shell).args(["-c", "no-such-thing x"]).output() else {
                continue;
            };
            let stderr = String::from_utf8(run.stderr).unwrap();
            assert_eq!(find_missing_command(&stderr), Some("no-such-thing"), "{shell}: {stderr}");
        }
    }

    #[test]
    fn two_swapped_letters_are_tolerated() {
        for at in 0.."readonly".len() - 1 {
            let mut slip = "readonly".as_bytes().to_vec();
            slip.swap(at, at + 1);
            let slip = String::from_utf8(slip).unwrap();
            assert_eq!(similar_commands(&slip, OsStr::new(""), 1), ["readonly"], "{slip}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_accepted(text in ".*", name in "\\PC{0,80}") {
            prop_assert!(find_missing_command(&text).is_none_or(|found| text.contains(found)));
            prop_assert!(similar_commands(&name, OsStr::new("/nowhere"), 3).len() <= 3);
        }
    }

    #[test]
    fn only_a_pipeline_is_a_report() {
        assert_eq!(parse_codes("1 0 "), [1, 0]);
        assert_eq!(parse_codes("0 141 2\n"), [0, 141, 2]);
        for text in ["", "0 ", "1 x", "99999999999 0", "\u{fffd} 1 2"] {
            assert_eq!(parse_codes(text), [0; 0], "{text}");
        }
    }
}
