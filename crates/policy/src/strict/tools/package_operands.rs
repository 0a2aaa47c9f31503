//! Operands of package managers: packages, which may be files, and the tools that they bring.

use super::consequence::{Consequence, Doubt};
use super::dispatch;
use super::entry::refuse;
use super::options::Arguments;
use crate::command::{Shape, Word};

/// Tools that projects install as dependencies; their entries judge the arguments.
pub(super) const PROJECT_TOOLS: &str = "tsc vue-tsc eslint prettier jest vitest vite next nuxt astro rollup webpack \
    parcel esbuild tsup playwright cypress mocha ava stylelint turbo nx lerna ng svelte-check biome \
    oxlint depcheck knip madge typedoc commitlint prisma drizzle-kit tailwindcss tsx ts-node \
    react-scripts pytest ruff mypy pyright black isort flake8 pylint coverage bandit pre-commit \
    autoflake pyupgrade rspec rubocop rake phpunit phpstan pest";

/// `true` if the list, separated by spaces, has the name.
pub(super) fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}

/// `uv run pytest -q`: a well-known tool of the project, or any other command.
pub(super) fn project_tool(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let Some((first, args)) = found.operands.split_first() else {
        return Ok(Vec::new());
    };
    let text = first.value().ok_or_else(|| format!("the word {first}"))?;
    // `prettier@3`; a scoped package starts with `@`.
    let (name, version) = text.split_once('@').unwrap_or((text, ""));
    if !is_in(PROJECT_TOOLS, name) {
        return Ok(vec![Consequence::Runs(found.operands.clone())]);
    }
    // Behind `@`, an address, a file or `npm:other` would be another package.
    let is_version = |letter: char| letter.is_ascii_alphanumeric() || ".-+^~".contains(letter);
    let is_archive = ARCHIVES.iter().any(|ending| version.ends_with(ending));
    if is_archive || !version.chars().all(is_version) {
        return Err(format!("the word {first}"));
    }
    dispatch::judge(name, args).unwrap_or_else(|| Err(format!("the subcommand {name}")))
}

/// Endings of archives that are packages.
const ARCHIVES: [&str; 6] = [".tgz", ".tar", ".gz", ".zip", ".whl", ".bz2"];

/// A tool beside packages that these options name. Such a package may bring a program of the tool's
/// name, so the tool is not the project's own: it is a command like others.
pub(super) fn tool_beside(
    options: &[&str],
    found: &Arguments,
    judge: fn(&Arguments) -> Result<Vec<Consequence>, Doubt>,
) -> Result<Vec<Consequence>, Doubt> {
    if !found.has(options) {
        return judge(found);
    }
    refuse(found.values(options), |word| !is_index_package(word))?;
    Ok(match found.operands.as_slice() {
        [] => Vec::new(),
        [..] => vec![Consequence::Runs(found.operands.clone())],
    })
}

/// `true` for a package that comes from the index: `typescript@5`, `@types/node`, `requests[x]>=2`.
pub(super) fn is_index_package(word: &Word) -> bool {
    let Some(text) = word.value() else { return false };
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || "._-+@^~=<>!,[]".contains(letter);
    let name = match text.strip_prefix('@').and_then(|scoped| scoped.split_once('/')) {
        Some((_, name)) => name,
        None => text,
    };
    let is_archive = ARCHIVES.iter().any(|ending| name.ends_with(ending));
    name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
        && !is_archive
}

/// Packages by path run their own build code; a package by name comes from the index.
pub(super) fn local_packages(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| word.text.contains("ext::"))?;
    let is_local = |word: &&Word| word.text.starts_with(['.', '/', '~']) || word.text.contains('/');
    let local = found.operands.iter().filter(is_local);
    Ok(local.cloned().map(Consequence::ReadsCode).collect())
}

/// Packages that are installed, each of which may be a file, whatever its name is: its code runs.
pub(super) fn installed_packages(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| word.text.contains("ext::"))?;
    let files = found.operands.iter().flat_map(|word| [Some(word.clone()), file_of(word)]);
    Ok(files.flatten().map(Consequence::ReadsCode).collect())
}

/// The file of a package that is written with a name or extras: `x@file:y.tgz`, `y.zip[extra]`.
fn file_of(word: &Word) -> Option<Word> {
    let text = word.value()?;
    let start = text.split(['[', '#', ';', '?']).next().unwrap_or(text);
    let file = start.rsplit(['@', ':', '=', ' ']).next().unwrap_or(start);
    (file != text && !file.is_empty()).then(|| Word::literal(file))
}

/// Packages from an index, which may be a directory of archives on this host.
pub(super) fn indexed_packages(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let mut all = installed_packages(found)?;
    let indexes = ["-i", "--index-url", "--extra-index-url", "-f", "--find-links"];
    if found.values(&indexes).any(|word| !word.text.starts_with("http")) {
        all.push(Consequence::ReadsCode(Word::unknown("", Shape::Many)));
    }
    Ok(all)
}
