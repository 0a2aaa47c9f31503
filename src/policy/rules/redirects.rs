//! Where output may go when only listed programs may run.

use super::program::normal;
use crate::policy::command::{Redirect, Shape, SimpleCommand, Word};

/// Where a text runs and where it may write.
#[derive(Debug, Clone, Copy)]
pub(in crate::policy) struct Place<'p> {
    /// The directory it starts in, absolute.
    pub(in crate::policy) cwd: &'p str,
    /// Directories it may write to, absolute.
    pub(in crate::policy) writable: &'p [String],
    /// The text changes to directories that are not plainly inside.
    pub(in crate::policy) leaves: bool,
}

/// Devices that keep nothing.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];

impl Place<'_> {
    /// The target that a redirection may not have; `None` if it is fine.
    pub(in crate::policy) fn objects<'r>(&self, redirect: &'r Redirect) -> Option<&'r Word> {
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
        // Git runs what its own directory says.
        let private = path.split('/').any(|part| part == ".git");
        !private && self.writable.iter().any(|root| is_below(&path, &normal(root)))
    }
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
pub(in crate::policy) fn leaves_workspace(command: &SimpleCommand) -> bool {
    if !matches!(command.name(), Some("cd" | "pushd" | "popd")) {
        return false;
    }
    let inside = |word: &Word| {
        word.value().is_some_and(|text| {
            !text.starts_with(['/', '~', '-']) && !text.split('/').any(|part| part == "..")
        })
    };
    command.args.is_empty() || !command.args.iter().all(inside)
}
