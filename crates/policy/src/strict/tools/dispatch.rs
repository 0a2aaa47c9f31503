//! From a program's name to the entry that knows its arguments.

use super::consequence::{Consequence, Doubt};
use super::inert::is_inert;
use super::{
    archive, build, checkers, cloud, compilers, containers, databases, files, find, git,
    interpreters, network, packages, rest, shells, system_packages, text, transfer, unread,
    viewers, wrappers, xargs,
};
use crate::command::Word;

/// The judgement of an entry about a command's arguments; `None` if the family has no entry for the
/// program.
pub(super) type Judgement = Option<Result<Vec<Consequence>, Doubt>>;

/// The families of entries. No program is in two of them.
const FAMILIES: &[fn(&str, &[Word]) -> Judgement] = &[
    archive::consequences,
    build::consequences,
    checkers::consequences,
    cloud::consequences,
    compilers::consequences,
    containers::consequences,
    databases::consequences,
    files::consequences,
    find::consequences,
    git::consequences,
    interpreters::consequences,
    network::consequences,
    packages::consequences,
    rest::consequences,
    shells::consequences,
    system_packages::consequences,
    text::consequences,
    transfer::consequences,
    unread::consequences,
    viewers::consequences,
    wrappers::consequences,
    xargs::consequences,
];

/// Returns what a program does with these arguments beyond its own process.
///
/// `program` is the base name. No consequences means that the command starts nothing and writes no
/// file that is worth a check.
///
/// # Errors
/// Names the argument that is not known to be harmless.
pub(crate) fn consequences(program: &str, args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    judge(program, args).unwrap_or_else(|| Ok(Vec::new()))
}

/// `true` for a program with an entry, or on the list of those that start nothing.
pub(crate) fn is_known(program: &str) -> bool {
    is_inert(program) || judge(program, &[]).is_some()
}

/// Returns what the entry of a program says, if it has one.
pub(super) fn judge(program: &str, args: &[Word]) -> Judgement {
    FAMILIES.iter().find_map(|family| family(program, args))
}
