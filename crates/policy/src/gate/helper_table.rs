//! The helper table: programs that a listed program starts by itself.

use std::sync::LazyLock;

use super::called::CalledProgram;
use super::verdict::{ProgramKind, RunningProgram};
use crate::command::SimpleCommand;
use crate::rules::matches_wildcard;

static ROWS: LazyLock<Vec<HelperRow>> =
    LazyLock::new(|| read_rows(include_str!("../../tables/gate_helpers.txt")));

/// The helpers of some programs.
#[derive(Debug, Default)]
struct HelperRow {
    parents: Vec<&'static str>,
    starts: Vec<&'static str>,
    /// Subcommands of the program itself that it starts directly.
    itself: Vec<&'static str>,
    /// Subcommands of the program itself that it may start through a shell.
    through_shell: Vec<&'static str>,
    directory: Option<(&'static str, Vec<&'static str>)>,
}

/// A directory with helpers of a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HelperDirectory {
    /// The program that has the helpers.
    pub program: String,
    /// The first part of the names of the files in it: `git-core` for `git-core/git-remote-https`.
    pub name: String,
    /// The places to look at, below the directory above that of the program's file.
    pub paths: Vec<String>,
}

/// Joins each line with the indented lines that continue it. A line continues the one above if it
/// is indented more than a key is.
fn read_rows(table: &'static str) -> Vec<HelperRow> {
    let mut rows: Vec<HelperRow> = Vec::new();
    let mut last = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace().peekable();
        let is_continued = line.starts_with("        ");
        let key = if is_continued { last } else { words.next().unwrap_or_default() };
        last = key;
        if key == "program" && !is_continued {
            rows.push(HelperRow::default());
        }
        let Some(row) = rows.last_mut() else { continue };
        match key {
            "program" => row.parents.extend(words.take_while(|word| *word != "observed")),
            "starts" => row.starts.extend(words),
            "itself" => row.itself.extend(words),
            "through-shell" => row.through_shell.extend(words),
            "directory" => row.directory = words.next().map(|name| (name, words.collect())),
            _ => {}
        }
    }
    rows
}

fn rows_of(program: &str) -> impl Iterator<Item = &'static HelperRow> {
    ROWS.iter().filter(move |row| row.parents.contains(&program))
}

/// `true` if the table has a row for this program.
pub(super) fn has_helpers(program: &str) -> bool {
    rows_of(program).next().is_some()
}

/// Returns every name in the table that a program may start. The program itself is left out.
pub(super) fn helper_names(program: &str) -> impl Iterator<Item = &'static str> {
    rows_of(program).flat_map(|row| row.starts.iter().copied())
}

/// Returns every program that has a row.
pub(super) fn parents() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|row| row.parents.iter().copied())
}

/// Returns the directories with helpers of a program.
pub(super) fn helper_directories(program: &str) -> impl Iterator<Item = HelperDirectory> {
    let directories = rows_of(program).filter_map(|row| row.directory.as_ref());
    directories.map(move |(name, paths)| HelperDirectory {
        program: program.to_owned(),
        name: (*name).to_owned(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    })
}

/// A program that is a helper of the one that starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Helper {
    pub(super) name: String,
    /// The program whose helpers the helper may start itself.
    pub(super) helpers_of: Option<String>,
}

/// Returns the helper that a start is, if the table says that the starter starts it.
pub(super) fn find_helper(starter: &RunningProgram, called: &CalledProgram) -> Option<Helper> {
    let of = starter.helpers_of.as_deref();
    let own = (starter.kind != ProgramKind::Shell).then_some(starter.name.as_str());
    let parents = of.into_iter().chain(own.filter(|own| Some(*own) != of));
    parents
        .into_iter()
        .find_map(|parent| rows_of(parent).find_map(|row| row.find(parent, starter.kind, called)))
}

impl HelperRow {
    fn find(&self, parent: &str, kind: ProgramKind, called: &CalledProgram) -> Option<Helper> {
        called.helper.iter().find_map(|form| self.match_form(parent, kind, form))
    }

    fn match_form(&self, parent: &str, kind: ProgramKind, form: &SimpleCommand) -> Option<Helper> {
        let name = form.program.text.as_str();
        let subcommand = form.args.first().map(|word| word.text.as_str());
        let is_one_of = |words: &[&str]| subcommand.is_some_and(|word| words.contains(&word));
        let is_direct = kind != ProgramKind::Shell;
        let is_itself = name == parent
            && (is_one_of(&self.through_shell) || (is_direct && is_one_of(&self.itself)));
        let base = self
            .directory
            .as_ref()
            .and_then(|(directory, _)| name.strip_prefix(directory)?.strip_prefix('/'));
        if is_itself || base.is_some() {
            let name = base.unwrap_or(name).to_owned();
            return Some(Helper { name, helpers_of: Some(parent.to_owned()) });
        }
        let is_started = self.starts.iter().any(|pattern| matches_wildcard(pattern, name));
        is_started.then(|| Helper {
            name: name.to_owned(),
            helpers_of: has_helpers(name).then(|| name.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_completely() {
        assert!(ROWS.len() >= 25, "{}", ROWS.len());
        for row in ROWS.iter() {
            assert!(!row.parents.is_empty() && !(row.starts.is_empty()), "{row:?}");
        }
        assert!(helper_names("git").any(|name| name == "less"));
        assert!(rows_of("git").any(|row| row.itself.contains(&"update-index")));
        assert!(has_helpers("git-web--browse") && !has_helpers("observed"));
        let directories: Vec<HelperDirectory> = helper_directories("git").collect();
        assert_eq!(directories[0].paths, ["libexec/git-core", "lib/git-core"]);
    }
}
