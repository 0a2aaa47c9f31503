//! Where output may go when only listed programs may run.

use super::glob::fits;
use super::program::normal;
use crate::command::{Redirect, Shape, SimpleCommand, Word, base_name};

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

    /// `true` if the text may write this file.
    pub(crate) fn may_write(&self, word: &Word) -> bool {
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
