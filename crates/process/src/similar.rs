//! Suggestions for a command that does not exist.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::shell::BASH_WORDS;

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
        let (given, lower) = (given.to_lowercase(), known.to_lowercase());
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

/// Parses `zsh: command not found: NAME`, or `zsh:1: …`.
fn parse_zsh_message(line: &str) -> Option<&str> {
    let (place, name) = line.split_once(": command not found: ")?;
    is_shell(place.split(':').next()?).then_some(name)
}

/// Parses `bash: NAME: command not found`, or `bash: line 1: …`, or with a script's name before it.
fn parse_bash_message(line: &str) -> Option<&str> {
    let (_, name) = line.strip_suffix(": command not found")?.rsplit_once(": ")?;
    Some(name)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

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
}
