//! Variables that can run code in a program or name a program that it starts.

use std::sync::LazyLock;

use super::verdict::RunningProgram;
use crate::rules::matches_wildcard;

static ROWS: LazyLock<Vec<VariableRow>> =
    LazyLock::new(|| read_rows(include_str!("../../tables/gate_variables.txt")));

/// The most characters of a name that a refusal quotes.
const MOST_NAME_CHARS: usize = 80;

/// The programs for which a variable counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Every program, helpers included.
    Loader,
    /// The readers, and every program that opens.
    Code,
    /// The readers, except those that open.
    Library,
}

#[derive(Debug)]
struct VariableRow {
    reach: Reach,
    names: Vec<&'static str>,
    readers: Vec<&'static str>,
    harmless: Vec<&'static str>,
}

fn read_rows(table: &'static str) -> Vec<VariableRow> {
    let mut rows: Vec<VariableRow> = Vec::new();
    let mut part = Part::Names;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace().peekable();
        if !line.starts_with(' ')
            && let Some(reach) = words.next().and_then(find_reach)
        {
            part = Part::Names;
            rows.push(VariableRow { reach, names: vec![], readers: vec![], harmless: vec![] });
        }
        let Some(row) = rows.last_mut() else { continue };
        for word in words {
            match (word, part) {
                ("for", Part::Names) => part = Part::Readers,
                ("unless", Part::Readers) => part = Part::Harmless,
                (_, Part::Names) => row.names.push(word),
                (_, Part::Readers) => row.readers.push(word),
                (_, Part::Harmless) => row.harmless.push(word),
            }
        }
    }
    rows
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Names,
    Readers,
    Harmless,
}

fn find_reach(word: &str) -> Option<Reach> {
    match word {
        "loader" => Some(Reach::Loader),
        "code" => Some(Reach::Code),
        "library" => Some(Reach::Library),
        _ => None,
    }
}

/// The part of the table that applies to a start.
#[derive(Debug, Clone, Copy)]
pub(super) enum VariableCheck<'n> {
    /// A helper of a listed program, which may set variables for it: only the loader's count.
    Helper,
    /// A program that opens, or a judged one, under these names.
    Program { names: &'n [String], opens: bool },
}

/// Returns the name of the first variable that could run code in the program.
pub(super) fn find_variable<'v>(
    variables: impl IntoIterator<Item = &'v (Vec<u8>, Vec<u8>)>,
    check: VariableCheck<'_>,
) -> Option<String> {
    variables.into_iter().find_map(|(name, value)| {
        let name = String::from_utf8_lossy(name);
        let value = String::from_utf8_lossy(value);
        let counts = ROWS.iter().any(|row| row.counts(&name, &value, check));
        counts.then(|| name.chars().take(MOST_NAME_CHARS).collect())
    })
}

/// Returns the beginning of the names of variables that a program sets for what it starts. Those of git name
/// only programs, which are judged themselves.
pub(super) fn own_variables(starter: &RunningProgram) -> Option<&'static [u8]> {
    match starter.helpers_of.as_deref() {
        Some("git") => Some(b"GIT_"),
        Some(_) | None => None,
    }
}

impl VariableRow {
    fn counts(&self, name: &str, value: &str, check: VariableCheck<'_>) -> bool {
        let is_any = |patterns: &[&str], text: &str| {
            patterns.iter().any(|pattern| matches_wildcard(pattern, text))
        };
        let is_read = |names: &[String]| names.iter().any(|it| is_any(&self.readers, it));
        let applies = match (self.reach, check) {
            (Reach::Loader, _) => true,
            (Reach::Code | Reach::Library, VariableCheck::Helper) => false,
            (Reach::Code, VariableCheck::Program { names, opens }) => opens || is_read(names),
            (Reach::Library, VariableCheck::Program { names, opens }) => !opens && is_read(names),
        };
        applies
            && is_any(&self.names, name)
            && !value.split_ascii_whitespace().all(|word| is_any(&self.harmless, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_counts_for_the_programs_that_read_it() {
        for (variable, value, program, opens, expected) in [
            ("LD_PRELOAD", "/tmp/x.so", "ls", false, true),
            ("LD_PRELOAD", "", "ls", false, false),
            ("LD_LIBRARY_PATH", "lib", "ls", false, true),
            ("GCONV_PATH", "/tmp", "iconv", false, true),
            ("BASH_ENV", "x.sh", "bash", false, true),
            ("GIT_SSH_COMMAND", "touch pwned", "git", false, true),
            ("GIT_SSH_COMMAND", "touch pwned", "ls", false, false),
            ("GIT_SSH_COMMAND", "touch pwned", "cargo", true, true),
            ("GIT_CONFIG_COUNT", "1", "git", false, true),
            ("PAGER", "pwn", "git", false, true),
            ("PAGER", "cat", "git", false, false),
            ("GIT_EDITOR", "true", "git", false, false),
            ("GIT_EDITOR", "touch", "git", false, true),
            ("PYTHONSTARTUP", "x.py", "python3", true, true),
            ("PYTHONUNBUFFERED", "1", "python3", true, false),
            ("PYTHONPATH", "src", "python3", true, false),
            ("PYTHONPATH", "src", "python3", false, true),
            ("NODE_OPTIONS", "--require ./x", "node", true, true),
            ("NODE_OPTIONS", "--max-old-space-size=4096", "node", true, false),
            ("NODE_OPTIONS", "--max-old-space-size=1 --require=x", "node", true, true),
            ("RUSTC_WRAPPER", "./evil", "cargo", true, true),
            ("RUSTFLAGS", "-D warnings", "cargo", true, false),
            ("RUST_LOG", "debug", "cargo", true, false),
            ("CI", "1", "npm", true, false),
            ("BASH_FUNC_f%%", "() { x; }", "bash", false, false),
            ("BASH_FUNC_cc%%", "() { x; }", "make", true, true),
            ("LESSOPEN", "|x %s", "less", false, true),
            ("LESS", "-FRX", "less", false, false),
            ("LESS", "+!x", "less", false, true),
            ("MAKEFLAGS", "-j8", "make", true, false),
            ("MAKEFLAGS", "-j8 --eval=x", "make", true, true),
            ("PATH", "/tmp", "git", false, false),
        ] {
            let variables = [(variable.as_bytes().to_vec(), value.as_bytes().to_vec())];
            let names = [program.to_owned()];
            let found = find_variable(&variables, VariableCheck::Program { names: &names, opens });
            assert_eq!(found.is_some(), expected, "{variable}={value} {program}");
        }
    }

    #[test]
    fn only_the_variables_of_the_loader_count_for_helpers() {
        let of = |name: &str| [(name.as_bytes().to_vec(), b"x".to_vec())];
        assert_eq!(find_variable(&of("GIT_SSH_COMMAND"), VariableCheck::Helper), None);
        assert!(find_variable(&of("LD_AUDIT"), VariableCheck::Helper).is_some());
    }
}
