//! Where output may go when only listed programs may run.

use super::glob::fits;
use super::program::normal;
use crate::command::{Redirect, Shape, SimpleCommand, Word, base_name};
use crate::wrappers::git_operands;

/// Where a text runs and where it may write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'p> {
    /// The directory it starts in, absolute.
    pub(crate) cwd: &'p str,
    /// Directories it may write to, absolute.
    pub(crate) writable: &'p [String],
    /// The text changes to directories that are not plainly inside.
    pub(crate) leaves: bool,
    /// The text changes directories at all.
    pub(crate) moves: bool,
    /// The allow rules as written; files that they name are no targets.
    pub(crate) listed: &'p [&'p str],
}

/// Devices that keep nothing.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];

impl Place<'_> {
    /// The file that a command writes by its options, where it may not.
    pub(crate) fn objects_to(&self, command: &SimpleCommand) -> Option<Word> {
        outputs(command).into_iter().find(|word| !self.may_write(word))
    }

    /// Whether an allow rule names this file, from whatever directory.
    fn is_listed(&self, path: &str) -> bool {
        let programs = self.listed.iter().filter_map(|rule| rule.split_whitespace().next());
        programs.filter(|program| program.contains('/')).any(|program| {
            let pattern = normal(program);
            let relative = pattern.trim_start_matches("../");
            fits(&pattern, path)
                || (!pattern.starts_with('/') && fits(&format!("*/{relative}"), path))
                || (self.moves && fits(base_name(&pattern), base_name(path)))
        })
    }

    /// The target that a redirection may not have; `None` if it is fine.
    pub(crate) fn objects<'r>(&self, redirect: &'r Redirect) -> Option<&'r Word> {
        match redirect {
            Redirect::Duplicate | Redirect::Text(_) | Redirect::Heredoc => None,
            Redirect::Read(word) => is_network(word).then_some(word),
            Redirect::Write(word) => (!self.may_write(word)).then_some(word),
        }
    }

    fn may_write(&self, word: &Word) -> bool {
        match (word.shape, word.value()) {
            (Shape::Process, _) => true,
            (_, Some(path)) => DEVICES.contains(&path) || self.is_inside(path),
            (Shape::One | Shape::Many | Shape::Glob | Shape::Literal, None) => false,
        }
    }

    fn is_inside(&self, path: &str) -> bool {
        let relative = !path.starts_with('/');
        if path.starts_with('~') || (relative && self.leaves) {
            return false;
        }
        let path = if relative { format!("{}/{path}", self.cwd) } else { path.to_owned() };
        let path = normal(&path);
        let open = !is_private(&path) && !self.is_listed(&path);
        open && self.writable.iter().any(|root| is_below(&path, &normal(root)))
    }
}

/// Git runs what its own directory says, wherever that is.
fn is_private(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.split('/').any(is_private_part) || ["config", "head"].contains(&base_name(&path))
}

fn is_private_part(part: &str) -> bool {
    part == "hooks" || part.ends_with(".git")
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/') || root == "/")
}

/// Bash opens connections for these names.
fn is_network(word: &Word) -> bool {
    let text = normal(&word.text);
    text.starts_with("/dev/tcp") || text.starts_with("/dev/udp")
}

/// Whether a command changes to a directory that is not plainly below the current one.
pub(crate) fn leaves_workspace(command: &SimpleCommand) -> bool {
    if !matches!(command.name(), Some("cd" | "pushd" | "popd")) {
        return false;
    }
    let inside = |word: &Word| {
        word.value().is_some_and(|text| {
            !text.starts_with(['/', '~', '-'])
                && !text.split('/').any(|part| {
                    let part = part.to_ascii_lowercase();
                    part == ".." || is_private_part(&part)
                })
        })
    };
    command.args.is_empty() || !command.args.iter().all(inside)
}

/// The files that `find`, `sort` and `git` write by their options.
fn outputs(command: &SimpleCommand) -> Vec<Word> {
    let args = command.args.as_slice();
    let written = |(index, word): (usize, &Word)| {
        let actions = ["-fprint", "-fprint0", "-fprintf", "-fls"];
        let attached = match command.name()? {
            "find" => actions.contains(&word.text.as_str()).then_some(None),
            "sort" => output_option(word, "--output", Some("kStT")),
            "git" => git_output(args, index, word),
            _ => None,
        }?;
        attached.or_else(|| args.get(index + 1).cloned())
    };
    args.iter().enumerate().filter_map(written).collect()
}

/// `git log --output`, `git archive -o`: in another directory the file is not known.
fn git_output(args: &[Word], index: usize, word: &Word) -> Option<Option<Word>> {
    const WRITERS: [&str; 12] = [
        "log",
        "diff",
        "show",
        "diff-tree",
        "diff-index",
        "diff-files",
        "whatchanged",
        "reflog",
        "range-diff",
        "stash",
        "format-patch",
        "archive",
    ];
    const VALUES: [&str; 8] =
        ["--grep", "--author", "--since", "--until", "--format", "-n", "-S", "-G"];
    let words = git_operands(args);
    let before = args.get(..index).unwrap_or_default();
    let writes = words.first().and_then(Word::value).is_some_and(|it| WRITERS.contains(&it));
    let behind = before.last().and_then(Word::value);
    let fixed = behind.is_some_and(|it| VALUES.contains(&it)) && word.shape == Shape::One;
    if writes && word.may_become_option() && !fixed && !before.iter().any(|it| it.is("--")) {
        return Some(Some(word.clone()));
    }
    let short = words.first().is_some_and(|it| it.is("format-patch") || it.is("archive"));
    let found = output_option(word, "--output-directory", short.then_some(""))?;
    let moved = words.len() != args.len();
    if moved { Some(Some(Word::unknown("", Shape::One))) } else { Some(found) }
}

/// Whether a word is this option, cut short or not, or holds `-o`; with its value if attached.
/// `values` are the letters whose value ends a cluster.
fn output_option(word: &Word, long: &str, values: Option<&str>) -> Option<Option<Word>> {
    let part = |text: &str| Word { text: text.to_owned(), ..word.clone() };
    let text = word.text.as_str();
    if text.starts_with("--") {
        let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
        return (name.len() > 2 && long.starts_with(name)).then(|| value.map(part));
    }
    let (cluster, values) = (text.strip_prefix('-')?, values?);
    let end = cluster.find(|letter| letter == 'o' || values.contains(letter))?;
    let value = cluster.get(end..)?.strip_prefix('o')?;
    Some((!value.is_empty()).then(|| part(value)))
}
