//! The files that a text may write when only listed programs may run.

use super::matching::fits;
use super::matching::normal;
use crate::command::{Redirect, Shape, SimpleCommand, Word, base_name};
use crate::tables::has_word;

/// The surroundings of a text: its directory, and the places that it may write to.
#[derive(Debug, Clone)]
pub(crate) struct Place<'p> {
    /// The directory it starts in, absolute.
    pub(crate) cwd: &'p str,
    /// Directories it may write to, absolute; empty means `cwd`.
    pub(crate) writable: &'p [String],
    /// The text changes to directories that are not plainly inside.
    pub(crate) leaves: bool,
    /// The text changes directories at all.
    pub(crate) moves: bool,
    /// The allow rules as written; files that they name are no targets.
    pub(crate) listed: Vec<&'p str>,
}

/// Devices that keep nothing.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];

/// Parts of a path below which programs find what they run or how they are set up.
const PRIVATE_PARTS: &str = "hooks .ssh .gnupg .config .cargo .claude .cursor .vscode .idea .husky .github .docker \
    .kube .aws";
/// Files that git, shells and common tools read as their settings, wherever they are.
const PRIVATE_FILES: [&str; 38] = [
    "config",
    "head",
    ".gitconfig",
    ".gitmodules",
    ".gitattributes",
    ".mcp.json",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".inputrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".netrc",
    ".curlrc",
    ".wgetrc",
    ".vimrc",
    ".exrc",
    ".nanorc",
    ".lesskey",
    ".psqlrc",
    ".sqliterc",
    ".gdbinit",
    ".tmux.conf",
    ".screenrc",
    ".bazelrc",
    ".pythonrc",
    ".editrc",
];
/// Files that a tool runs by itself: they are no targets where the tool is listed.
const RUN_BY: [(&[&str], &[&str]); 9] = [
    (&["make", "gmake"], &["makefile", "gnumakefile", "*.mk"]),
    (&["cmake"], &["cmakelists.txt", "*.cmake"]),
    (&["npm", "pnpm", "yarn", "npx"], &["package.json"]),
    (&["cargo"], &["build.rs", "cargo.toml"]),
    (&["just"], &["justfile", ".justfile"]),
    (&["pytest", "tox", "nox"], &["conftest.py", "pytest.ini", "tox.ini", "noxfile.py"]),
    (&["gradle", "mvn", "ant"], &["build.gradle", "build.gradle.kts", "pom.xml", "build.xml"]),
    (&["bundle", "rake"], &["gemfile", "rakefile"]),
    (&["docker", "podman"], &["dockerfile", "docker-compose.yml", "compose.yaml", "compose.yml"]),
];

impl Place<'_> {
    /// `true` if an allow rule names this file or one below it, from whatever directory, or a listed
    /// tool runs it.
    fn is_listed(&self, path: &str) -> bool {
        let is_named = self.named_files().any(|named| {
            let pattern = normal(named);
            let relative = pattern.trim_start_matches("../");
            let whole = if pattern.starts_with('/') {
                pattern.clone()
            } else {
                normal(&format!("{}/{pattern}", self.cwd))
            };
            fits(&pattern, path)
                || (path != normal(self.cwd) && is_below(&whole, path))
                || (!pattern.starts_with('/') && fits(&format!("*/{relative}"), path))
                || (self.moves && fits(base_name(&pattern), base_name(path)))
        });
        let name = base_name(path).to_ascii_lowercase();
        is_named || self.run_files().any(|pattern| fits(pattern, &name))
    }

    /// The files that the allow rules name: programs by their path, and scripts behind a program.
    fn named_files(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().flat_map(|rule| {
            let is_file = |(index, word): &(usize, &str)| {
                let has_name = word.chars().any(char::is_alphanumeric) && !word.starts_with('-');
                word.contains('/') || (*index > 0 && has_name && word.contains('.'))
            };
            rule.split_whitespace().enumerate().filter(is_file).map(|(_, word)| word)
        })
    }

    /// The programs that the allow rules name.
    fn programs(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().filter_map(|rule| rule.split_whitespace().next())
    }

    /// The files that listed tools run by themselves.
    fn run_files(&self) -> impl Iterator<Item = &'static &'static str> {
        let is_listed = |tools: &[&str]| self.programs().any(|it| tools.contains(&base_name(it)));
        RUN_BY.iter().filter(move |(tools, _)| is_listed(tools)).flat_map(|(_, files)| *files)
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
            (Shape::Glob, None) => self.may_write_matches(&word.source),
            (Shape::One | Shape::Many | Shape::Literal, None) => false,
        }
    }

    /// `true` if the text may write every file that an unquoted pattern can match: all of them in
    /// one directory, not hidden, and none that a program runs or takes for its settings.
    fn may_write_matches(&self, pattern: &str) -> bool {
        let is_simple = |c: char| c.is_ascii_alphanumeric() || "_-./*?".contains(c);
        let (directory, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
        if !pattern.chars().all(is_simple) || directory.contains(['*', '?']) {
            return false;
        }
        let matches = |file: &&str| fits(&name.to_ascii_lowercase(), file);
        let is_private = PRIVATE_FILES.iter().chain(self.run_files()).any(matches);
        let scripts = self.named_files().map(base_name);
        !name.starts_with('.')
            && !is_private
            && !scripts.into_iter().any(|script| matches(&script))
            && self.is_inside(&format!("{directory}/file.txt"))
    }

    /// The path from the root, without `.` and `..`; `None` where the text alone does not tell, and
    /// for devices.
    pub(crate) fn absolute(&self, path: &str) -> Option<String> {
        let is_relative = !path.starts_with('/');
        if DEVICES.contains(&path) || path.starts_with('~') || (is_relative && self.leaves) {
            return None;
        }
        Some(if is_relative { normal(&format!("{}/{path}", self.cwd)) } else { normal(path) })
    }

    fn is_inside(&self, path: &str) -> bool {
        let Some(path) = self.absolute(path) else { return false };
        let is_open = !is_private(&path) && !self.is_listed(&path);
        let is_below = |root: &str| path == normal(root) || is_below(&path, &normal(root));
        let is_writable = match self.writable {
            [] => is_below(self.cwd),
            roots => roots.iter().any(|root| is_below(root)),
        };
        // Logs and scratch files directly in the temporary directory.
        let is_temporary = path.strip_prefix("/tmp/").is_some_and(|name| !name.contains('/'));
        is_open && (is_writable || is_temporary)
    }
}

/// `true` for files that programs run or take for their settings, wherever they are.
fn is_private(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.split('/').any(is_private_part) || PRIVATE_FILES.contains(&base_name(&path))
}

fn is_private_part(part: &str) -> bool {
    has_word(PRIVATE_PARTS, part) || part.ends_with(".git")
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/') || root == "/")
}

/// Bash opens connections for these names.
fn is_network(word: &Word) -> bool {
    let text = normal(&word.text);
    text.starts_with("/dev/tcp") || text.starts_with("/dev/udp")
}

/// `true` if a command changes to a directory that is not plainly below the current one.
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
