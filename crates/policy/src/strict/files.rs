//! Files that one command of a line writes and another one runs.

use crate::command::{Shape, Word, base_name};

/// Code that a command of the line runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Code {
    /// The content of this file.
    File(Word),
    /// The files that this build tool looks for by itself: makefiles, manifests, settings.
    Conventional(String),
}

impl Code {
    /// Says in a refusal how the command runs the code.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::File(word) => format!("runs {word}"),
            Self::Conventional(program) => format!("lets `{program}` run what it finds"),
        }
    }
}

/// Interpreters that run whatever code their arguments hold: a file that the same line writes gives
/// them no power that `-c` does not.
const INTERPRETERS: [&str; 13] = [
    "python", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "luajit", "Rscript",
    "julia", "tclsh",
];

/// Programs that read shell text themselves.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash"];

/// Endings of files that no tool runs or takes for its settings.
const DATA: [&str; 18] = [
    "log", "txt", "out", "err", "csv", "tsv", "diff", "patch", "md", "xml", "html", "json",
    "jsonl", "bak", "tmp", "tgz", "gz", "zip",
];
/// Files with such an ending that tools do read.
const SETTINGS: [&str; 11] = [
    "CMakeLists.txt",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "composer.json",
    "deno.json",
    "project.json",
    "nx.json",
    "lerna.json",
    "pom.xml",
    "build.xml",
];

/// `true` for the name of a file that no tool runs or takes for its settings.
fn is_data_name(name: &str) -> bool {
    let has_ending = name.rsplit_once('.').is_some_and(|(_, ending)| DATA.contains(&ending));
    let is_settings = SETTINGS.contains(&name)
        || name.starts_with('.')
        || name.contains("config")
        || name.contains("requirements");
    has_ending && !is_settings
}

/// `true` for an interpreter whose code the line may as well hand over as an argument.
pub(super) fn is_interpreter(program: &str) -> bool {
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().any(|known| program.strip_prefix(known).is_some_and(is_version))
}

/// `true` for a program that starts a shell on this host for text that it is given. Shells read it
/// themselves, and `ssh` has it read on another host.
pub(super) fn starts_shell(program: &str) -> bool {
    !SHELLS.contains(&program) && program != "ssh"
}

/// `true` for a program that is no build tool, but whose settings or batch file may name programs: an
/// earlier line may have written the file.
pub(super) fn is_configured_by_argument(program: &str) -> bool {
    matches!(program, "ssh" | "scp" | "sftp")
}

/// `true` for a file that is an input of the command rather than a file: `-`, a pipe, `/dev/stdin`.
pub(super) fn is_fed(word: &Word) -> bool {
    let is_input =
        |path: &str| path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/");
    word.shape == Shape::Process || word.value().is_some_and(is_input)
}

/// The code that a build tool finds by itself; `None` for an interpreter.
pub(super) fn conventional_code(program: &str) -> Option<Code> {
    (!is_interpreter(program)).then(|| Code::Conventional(program.to_owned()))
}

/// Checks that none of the files which a line writes is the code that a command of it runs.
///
/// # Errors
/// Names the file that is written and the command that may run it.
pub(super) fn check_code<'w>(
    code: &Code,
    mut targets: impl Iterator<Item = &'w Word>,
) -> Result<(), String> {
    let runner = code.describe();
    match targets.find(|target| !is_data(target, code)) {
        Some(target) => Err(format!("a line that writes {target} and {runner}")),
        None => Ok(()),
    }
}

/// `true` if one of these is more than a device or a pipe.
pub(super) fn has_content(targets: &[&Word]) -> bool {
    let is_device = |word: &Word| word.value().is_some_and(|path| path.starts_with("/dev/"));
    targets.iter().any(|word| word.shape != Shape::Process && !is_device(word))
}

/// `true` for a file that is certainly not the code.
fn is_data(target: &Word, code: &Code) -> bool {
    if target.shape == Shape::Process {
        return true;
    }
    let Some(path) = target.value() else { return false };
    if path.starts_with("/dev/") {
        return true;
    }
    let name = base_name(path);
    let is_code = match code {
        Code::File(word) => word.value().is_none_or(|file| base_name(file) == name),
        Code::Conventional(_) => false,
    };
    is_data_name(name) && !is_code
}

/// Checks a file that is opened for reading: bash opens connections for `/dev/tcp/…`.
///
/// # Errors
/// Names the file.
pub(super) fn check_read(word: &Word) -> Result<(), String> {
    let is_fine = match (word.shape, word.value()) {
        (_, Some(path)) => {
            !path.starts_with("/dev/") || path == "/dev/null" || path == "/dev/stdin"
        }
        (Shape::Process, None) => true,
        (Shape::One, None) => word.plain && !word.text.is_empty() && !word.text.starts_with('/'),
        (Shape::Glob | Shape::Many | Shape::Literal, None) => false,
    };
    if is_fine { Ok(()) } else { Err(format!("reading from {word}")) }
}
