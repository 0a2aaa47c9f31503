//! The check of files that a text writes when only listed programs may run.

use super::matching::{matches_wildcard, normalize_path};
use crate::command::{Redirect, Shape, SimpleCommand, Word, base_name};
use crate::tables::has_word;

/// The directory of a text, the directories that it may write to, and the allow rules.
#[derive(Debug, Clone)]
pub(crate) struct WriteCheck<'p> {
    /// The absolute directory that the text starts in.
    pub(crate) cwd: &'p str,
    /// Absolute directories that the text may write to; empty means `cwd`.
    pub(crate) writable: &'p [String],
    /// `true` if the text changes to a directory that may be outside `cwd`.
    pub(crate) leaves_cwd: bool,
    /// `true` if the text changes its directory at all.
    pub(crate) changes_directory: bool,
    /// The allow rules as written. The text may not write files that they name.
    pub(crate) allow_rules: Vec<&'p str>,
}

/// Devices that store nothing.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];

/// Directories with files that programs run or read as their settings.
const PROTECTED_DIRECTORIES: &str = "hooks .ssh .gnupg .config .cargo .claude .cursor .vscode .idea .husky .github .docker \
    .kube .aws";
/// Files that git, shells and common tools read as their settings, in any directory.
const PROTECTED_FILES: [&str; 38] = [
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
/// Files that a tool runs by itself. A text may not write them if an allow rule names the tool.
const FILES_RUN_BY_TOOLS: [(&[&str], &[&str]); 9] = [
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

impl WriteCheck<'_> {
    /// `true` if an allow rule names this file or one below it, relative to any directory, or if a
    /// listed tool runs it.
    fn is_named_or_run(&self, path: &str) -> bool {
        let is_named = self.named_files().any(|named| {
            let pattern = normalize_path(named);
            let relative = pattern.trim_start_matches("../");
            let whole = if pattern.starts_with('/') {
                pattern.clone()
            } else {
                normalize_path(&format!("{}/{pattern}", self.cwd))
            };
            matches_wildcard(&pattern, path)
                || (path != normalize_path(self.cwd) && is_below(&whole, path))
                || (!pattern.starts_with('/') && matches_wildcard(&format!("*/{relative}"), path))
                || (self.changes_directory
                    && matches_wildcard(base_name(&pattern), base_name(path)))
        });
        let name = base_name(path).to_ascii_lowercase();
        is_named || self.files_run_by_listed_tools().any(|pattern| matches_wildcard(pattern, &name))
    }

    /// Returns the files that the allow rules name: programs by path, and scripts that are
    /// arguments.
    fn named_files(&self) -> impl Iterator<Item = &str> {
        self.allow_rules.iter().flat_map(|rule| {
            let is_file = |(index, word): &(usize, &str)| {
                let has_name = word.chars().any(char::is_alphanumeric) && !word.starts_with('-');
                word.contains('/') || (*index > 0 && has_name && word.contains('.'))
            };
            rule.split_whitespace().enumerate().filter(is_file).map(|(_, word)| word)
        })
    }

    /// Returns the programs that the allow rules name.
    fn programs(&self) -> impl Iterator<Item = &str> {
        self.allow_rules.iter().filter_map(|rule| rule.split_whitespace().next())
    }

    /// Returns patterns of the files that listed tools run by themselves.
    fn files_run_by_listed_tools(&self) -> impl Iterator<Item = &'static &'static str> {
        let is_listed = |tools: &[&str]| self.programs().any(|it| tools.contains(&base_name(it)));
        FILES_RUN_BY_TOOLS
            .iter()
            .filter(move |(tools, _)| is_listed(tools))
            .flat_map(|(_, files)| *files)
    }

    /// Returns the target of a redirection if it is forbidden.
    pub(crate) fn forbidden_target<'r>(&self, redirect: &'r Redirect) -> Option<&'r Word> {
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
            (_, Some(path)) => DEVICES.contains(&path) || self.is_writable(path),
            (Shape::Glob, None) => self.may_write_matches(&word.source),
            (Shape::One | Shape::Many | Shape::Literal, None) => false,
        }
    }

    /// `true` if the text may write every file that an unquoted pattern can match: all are in one
    /// directory, none is hidden, and no program runs them or reads them as its settings.
    fn may_write_matches(&self, pattern: &str) -> bool {
        let is_simple = |c: char| c.is_ascii_alphanumeric() || "_-./*?".contains(c);
        let (directory, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
        if !pattern.chars().all(is_simple) || directory.contains(['*', '?']) {
            return false;
        }
        let matches = |file: &&str| matches_wildcard(&name.to_ascii_lowercase(), file);
        let is_protected =
            PROTECTED_FILES.iter().chain(self.files_run_by_listed_tools()).any(matches);
        let scripts = self.named_files().map(base_name);
        !name.starts_with('.')
            && !is_protected
            && !scripts.into_iter().any(|script| matches(&script))
            && self.is_writable(&format!("{directory}/file.txt"))
    }

    /// Returns the absolute path without `.` and `..`; `None` for devices, and if the text alone
    /// does not determine the path.
    pub(crate) fn absolute_path(&self, path: &str) -> Option<String> {
        let is_relative = !path.starts_with('/');
        if DEVICES.contains(&path) || path.starts_with('~') || (is_relative && self.leaves_cwd) {
            return None;
        }
        Some(if is_relative {
            normalize_path(&format!("{}/{path}", self.cwd))
        } else {
            normalize_path(path)
        })
    }

    fn is_writable(&self, path: &str) -> bool {
        let Some(path) = self.absolute_path(path) else { return false };
        let is_unprotected = !is_protected(&path) && !self.is_named_or_run(&path);
        let is_below =
            |root: &str| path == normalize_path(root) || is_below(&path, &normalize_path(root));
        let is_in_writable_root = match self.writable {
            [] => is_below(self.cwd),
            roots => roots.iter().any(|root| is_below(root)),
        };
        // Logs and scratch files directly in the temporary directory.
        let is_temporary = path.strip_prefix("/tmp/").is_some_and(|name| !name.contains('/'));
        is_unprotected && (is_in_writable_root || is_temporary)
    }
}

/// `true` for files that programs run or read as their settings, in any directory.
fn is_protected(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.split('/').any(is_protected_directory) || PROTECTED_FILES.contains(&base_name(&path))
}

fn is_protected_directory(part: &str) -> bool {
    has_word(PROTECTED_DIRECTORIES, part) || part.ends_with(".git")
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/') || root == "/")
}

/// `true` for the names under which bash opens network connections.
fn is_network(word: &Word) -> bool {
    let text = normalize_path(&word.text);
    text.starts_with("/dev/tcp") || text.starts_with("/dev/udp")
}

/// `true` if a command changes to a protected directory, or to one that may lie outside the current
/// one.
pub(crate) fn leaves_workspace(command: &SimpleCommand) -> bool {
    if !matches!(command.name(), Some("cd" | "pushd" | "popd")) {
        return false;
    }
    let inside = |word: &Word| {
        word.value().is_some_and(|text| {
            !text.starts_with(['/', '~', '-'])
                && !text.split('/').any(|part| {
                    let part = part.to_ascii_lowercase();
                    part == ".." || is_protected_directory(&part)
                })
        })
    };
    command.args.is_empty() || !command.args.iter().all(inside)
}
