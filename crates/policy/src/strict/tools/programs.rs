//! The entries of all programs, by their names; and the builtins of the shell whose effect is certain,
//! with the arguments with which it is.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::entry::{self, ArgumentEffect, Judge, Judged, ProgramEntries, ProgramEntry};
use super::{awk_sed, build, files, git, network, other, wrappers};
use crate::command::{Shape, Word};
use crate::options::{Doubt, OptionSet, ProgramTable, has_word};
use crate::strict::reader::is_name;

/// The text of the tables, each with its name. No program is in two of them.
macro_rules! tables {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../tables/", $name, ".txt")))),*]
    };
}

const TABLES: &[(&str, &str)] = tables! {
    "archives" "build" "checkers" "cloud" "compilers" "containers" "databases" "files" "find" "git"
    "inert" "interpreters" "network" "other" "packages" "system_packages" "text" "transfer"
    "unread" "viewers" "wrappers"
};

/// Functions by the names that tables use.
macro_rules! judges {
    ($kind:ident $($module:ident: $($name:ident)*;)*) => {
        &[$($((
            concat!(stringify!($module), "::", stringify!($name)),
            Judge::$kind($module::$name),
        ),)*)*]
    };
}

const OPERAND_JUDGES: &[(&str, Judge)] = judges! { Operands
    awk_sed: awk sed;
    build: behind_command bun c_compiler cmake compiler_arguments dpkg eslint fmt go_flags gradle indexed_packages installed_packages jest js_tool lints local_packages make maven nix_shell no_argument_files npm_pkg npx package_files pipx_run plain_targets project_tool pytest rpm rustc tox uv uv_run yarn;
    files: copy cpio install link move_files patch query split split_by_context unzip;
    network: ansible aws command_client copy_from_container curl downloads github ip only_lists only_shows openssl plain_hosts playbook remote_command rsync run_container run_in_container run_in_pod secure_copy secure_transfer services socat ssh units vagrant_ssh wget;
    other: addresses all_written dc dumped_page editor gdb java less logsave mlr mongo mysql needs_list no_argument_files no_batch no_cache_command no_settings pandoc perl pg_ctl plain_files project protoc psql python redis screen sqlite tex tmux unpack uudecode vim;
    wrappers: lock parallel record run_on_change switch_user watch xargs;
};

const ARGUMENT_JUDGES: &[(&str, Judge)] = judges! { Arguments
    build: toolchain;
    entry: refuse_arguments;
    files: ar compress copy_blocks seven_zip tar uncompress zip;
    git: git;
    other: unread version_only;
    wrappers: crontab fd find foreign_shell refuse_command run_as_user shell timestamps wrap;
};

fn find_judge(name: &str) -> Option<Judge> {
    let mut all = OPERAND_JUDGES.iter().chain(ARGUMENT_JUDGES);
    all.find(|(known, _)| *known == name).map(|(_, judge)| *judge)
}

/// The programs of all tables.
#[derive(Debug, Default)]
struct Programs {
    entries: ProgramEntries,
    /// Names that a version may follow: `python3.11`, `gcc-12`.
    versioned: HashSet<&'static str>,
    /// Names that may follow a target: `x86_64-linux-gnu-gcc`.
    cross: HashSet<&'static str>,
    pnpm_options: OptionSet,
    /// Lines of the tables that are not valid.
    faults: Vec<String>,
}

static PROGRAMS: LazyLock<Programs> = LazyLock::new(Programs::parse);

impl Programs {
    fn parse() -> Self {
        let mut all = Self::default();
        for (name, text) in TABLES {
            let table = ProgramTable::parse(text);
            all.faults.extend(table.faults.iter().map(|fault| format!("{name}: {fault}")));
            for block in &table.programs {
                all.entries.add(block, find_judge, &mut all.faults);
                if !table.has_exact_names {
                    all.versioned.extend(&block.names);
                }
                if *name == "compilers" {
                    all.cross.extend(&block.names);
                }
            }
            if let Some(pnpm) = table.sets.get("pnpm") {
                all.pnpm_options = OptionSet::from_tokens(pnpm.iter().copied());
            }
        }
        all
    }

    /// Finds the entry of a program, and the name that its arguments are judged by.
    fn find<'p>(&self, program: &'p str) -> Option<(&ProgramEntry, &'p str)> {
        let bare = without_version(program);
        let exact = self.entries.find(program);
        let entry = exact.or_else(|| self.entries.find(self.versioned.get(bare)?));
        if let Some(entry) = entry {
            return Some((entry, program));
        }
        if let Some(tool) = cross_tool(program)
            && let Some(name) =
                [tool, without_version(tool)].iter().find_map(|it| self.cross.get(it))
        {
            return Some((self.entries.find(name)?, tool));
        }
        Some((self.entries.find(family(program)?)?, program))
    }
}

/// The program whose entry judges all programs of a prefix.
fn family(program: &str) -> Option<&'static str> {
    // Plugins of Nagios start other programs by their options; the dynamic loader starts the
    // program in its arguments, and so do emulators.
    let unread = ["check_", "ld-linux", "ld-musl", "qemu-"];
    if program.starts_with("git-") {
        return Some("git");
    }
    unread.iter().any(|prefix| program.starts_with(prefix)).then_some("ld.so")
}

/// The tool in a name such as `x86_64-linux-gnu-gcc`.
fn cross_tool(program: &str) -> Option<&str> {
    let (_, rest) = program.split_once("-linux-")?;
    rest.split_once('-').map(|(_, tool)| tool)
}

/// A program's name without its version: `python3.11`, `gcc-12`.
fn without_version(name: &str) -> &str {
    let digits = |letter: char| letter.is_ascii_digit() || letter == '.';
    name.trim_end_matches(digits).trim_end_matches('-')
}

/// Returns what a program does with these arguments beyond its own process.
///
/// `program` is the base name. No consequences means that the command starts nothing and writes no
/// file that is worth a check.
///
/// # Errors
/// Names the argument that is not known to be harmless.
pub(crate) fn consequences(program: &str, args: &[Word]) -> Result<Vec<ArgumentEffect>, Doubt> {
    judge(program, args).unwrap_or_else(|| Ok(Vec::new()))
}

/// `true` for a program with an entry.
pub(crate) fn is_known(program: &str) -> bool {
    PROGRAMS.find(program).is_some()
}

/// Returns what the entry of a program says, if it has one.
pub(super) fn judge(program: &str, args: &[Word]) -> Option<Judged> {
    PROGRAMS.find(program).map(|(entry, name)| entry.judge(name, args))
}

/// The options of pnpm, which yarn shares.
pub(super) fn pnpm_options() -> &'static OptionSet {
    &PROGRAMS.pnpm_options
}

// The builtins of the shell.

/// Every other builtin of bash and dash. Some run text (`eval`, `trap`), some change how the rest
/// is read (`alias`, `shopt`), some evaluate names with subscripts (`declare`, `let`, `getopts`).
const REFUSED_BUILTINS: &str = ". alias bind builtin caller chdir compgen complete compopt declare enable eval exec fc \
    getopts hash help history let local logout mapfile readarray readonly shopt source suspend \
    trap typeset ulimit unalias vared";

/// The effect of a builtin and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// Starts no program and exports nothing. The recogniser notes the variables that it assigns.
    Harmless,
    /// Exports these variables, each with its value if that is known, to programs that start later.
    Exports(Vec<(String, Option<String>)>),
    /// Runs another command.
    Runs(Vec<Word>),
}

/// Looks at a command that the shell runs itself; `None` for a program.
///
/// # Errors
/// Names the builtin, or the argument, whose effect is not certain.
pub(crate) fn look_up_builtin(name: &str, args: &[Word]) -> Option<Result<Builtin, String>> {
    let result = match name {
        // Their arguments are text, paths and plain numbers; none is evaluated.
        ":" | "true" | "false" | "echo" | "pwd" | "cd" | "type" | "kill" | "exit" | "return"
        | "break" | "continue" => Ok(Builtin::Harmless),
        "printf" => check_printf(args),
        "test" | "[" => check_test(args),
        "read" => check_read(args),
        "export" => check_export(args),
        "unset" => check_unset(args),
        "set" => check_set(args),
        "wait" => check_wait(args),
        "umask" | "times" | "shift" => all_literal(name, args).map(|()| Builtin::Harmless),
        "pushd" | "popd" | "dirs" | "jobs" | "fg" | "bg" | "disown" => {
            let is_plain = args.iter().all(|word| word.value().is_some_and(is_operand));
            if is_plain { Ok(Builtin::Harmless) } else { Err(format!("an argument of `{name}`")) }
        }
        "command" => check_command(args),
        _ if has_word(REFUSED_BUILTINS, name) => Err(format!("the builtin `{name}`")),
        _ => return None,
    };
    Some(result)
}

/// `true` for builtins that assign, and so must stand where the recogniser sees them.
pub(crate) fn is_assigning_builtin(name: &str) -> bool {
    matches!(name, "read" | "export" | "unset" | "set")
}

fn is_operand(text: &str) -> bool {
    !text.starts_with('-') && !text.contains('[')
}

fn all_literal(name: &str, args: &[Word]) -> Result<(), String> {
    let odd = args.iter().find(|word| word.value().is_none());
    odd.map_or(Ok(()), |word| Err(format!("the word {word} of `{name}`")))
}

/// `printf FORMAT …`: with `-v` or `%n` it would assign. A format alone has nothing to assign to.
fn check_printf(args: &[Word]) -> Result<Builtin, String> {
    let [format, _, ..] = args else {
        return match args.first() {
            Some(word) if matches!(word.shape, Shape::Many | Shape::Glob) => {
                Err(format!("the format {word} of `printf`"))
            }
            Some(_) | None => Ok(Builtin::Harmless),
        };
    };
    match format.value() {
        Some(text) if !text.starts_with('-') && !has_assigning_directive(text) => {
            Ok(Builtin::Harmless)
        }
        Some(_) | None => Err(format!("the format {format} of `printf`")),
    }
}

/// `true` if a format has `%n`, with whatever flags and width.
fn has_assigning_directive(format: &str) -> bool {
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let directive = after.trim_start_matches(|c: char| !c.is_ascii_alphabetic() && c != '%');
        let directive = directive.trim_start_matches(['h', 'l', 'L', 'j', 'z', 't', '.']);
        if directive.starts_with('n') {
            return true;
        }
        rest = directive.get(1..).unwrap_or_default();
    }
    false
}

/// `true` if the word is an option, or may become one.
fn may_be_option(word: &Word) -> bool {
    match word.shape {
        Shape::Literal => word.text.starts_with('-') && word.text.len() > 1,
        Shape::Process => false,
        Shape::One | Shape::Glob => {
            !word.plain && (word.text.is_empty() || word.text.starts_with('-'))
        }
        Shape::Many => true,
    }
}

/// `test -v NAME` and `test -R NAME` evaluate a subscript in NAME. So no word that may be such an
/// operator comes before a word that may have a subscript, and no word becomes several.
fn check_test(args: &[Word]) -> Result<Builtin, String> {
    if let Some(word) = args.iter().find(|word| word.shape == Shape::Many) {
        return Err(format!("{word} without quotes in a test"));
    }
    let is_operator = |word: &Word| match word.value() {
        Some(text) => text == "-v" || text == "-R",
        None => may_be_option(word),
    };
    let has_subscript = |word: &Word| word.value().is_none_or(|text| text.contains('['));
    let pairs = args.iter().zip(args.iter().skip(1));
    for (first, second) in pairs {
        if is_operator(first) && has_subscript(second) {
            return Err(format!("the words {first} {second} in a test"));
        }
    }
    let globs = args.iter().find(|word| word.shape == Shape::Glob && !word.plain);
    globs.map_or(Ok(Builtin::Harmless), |word| Err(format!("the pattern {word} in a test")))
}

/// `read` into plain names. What is read is unknown to every later use of the name.
fn check_read(args: &[Word]) -> Result<Builtin, String> {
    let odd = |word: &Word| Err(format!("the word {word} of `read`"));
    let mut words = args.iter();
    let mut names = 0;
    while let Some(word) = words.next() {
        match word.value() {
            Some("-r" | "-s" | "-e" | "-rs" | "-sr") if names == 0 => {}
            Some("-p" | "-d" | "-n" | "-t" | "-u" | "-N" | "-rp" | "-rd" | "-rn" | "-rt")
                if names == 0 =>
            {
                match words.next() {
                    Some(value) if value.value().is_some() => {}
                    _ => return odd(word),
                }
            }
            Some(name) if is_name(name) => names += 1,
            Some(_) | None => return odd(word),
        }
    }
    if names == 0 { Err("`read` without a name".to_owned()) } else { Ok(Builtin::Harmless) }
}

/// `export NAME` and `export NAME=value`, without options.
fn check_export(args: &[Word]) -> Result<Builtin, String> {
    let name = |word: &Word| {
        let name = word.text.split('=').next().unwrap_or_default();
        let is_whole = word.value().is_some() || word.text.contains('=');
        if is_whole && is_name(name) && word.shape != Shape::Many && word.shape != Shape::Glob {
            let value = word.value().and_then(|text| text.split_once('='));
            Ok((name.to_owned(), value.map(|(_, value)| value.to_owned())))
        } else {
            Err(format!("the word {word} of `export`"))
        }
    };
    args.iter().map(name).collect::<Result<_, _>>().map(Builtin::Exports)
}

fn check_unset(args: &[Word]) -> Result<Builtin, String> {
    match args.iter().find(|word| !word.value().is_some_and(is_name)) {
        Some(word) => Err(format!("the word {word} of `unset`")),
        None => Ok(Builtin::Harmless),
    }
}

/// Options that stop at errors or print commands. None changes how text is read.
fn check_set(args: &[Word]) -> Result<Builtin, String> {
    let is_known = |word: &Word| {
        let text = word.value().unwrap_or_default();
        let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
        let is_cluster = !letters.is_empty() && letters.chars().all(|c| "euxo".contains(c));
        is_cluster || matches!(text, "pipefail" | "errexit" | "nounset" | "xtrace")
    };
    let odd = args.iter().find(|word| !is_known(word));
    // Any other word would set positional parameters, and is refused here.
    odd.map_or(Ok(Builtin::Harmless), |word| Err(format!("the word {word} of `set`")))
}

/// `wait` for numbers of processes or jobs; with `-p` it would assign.
fn check_wait(args: &[Word]) -> Result<Builtin, String> {
    let is_number = |word: &Word| match word.value() {
        Some(text) => is_operand(text),
        None => word.source == "$!" || word.source == "\"$!\"",
    };
    match args.iter().find(|word| !is_number(word)) {
        Some(word) => Err(format!("the word {word} of `wait`")),
        None => Ok(Builtin::Harmless),
    }
}

/// `command -v NAME` looks a name up; `command PROGRAM …` runs it.
fn check_command(args: &[Word]) -> Result<Builtin, String> {
    match args.first().map(|word| (word, word.value())) {
        Some((_, Some("-v" | "-V"))) => Ok(Builtin::Harmless),
        Some((_, Some(text))) if !text.starts_with('-') => Ok(Builtin::Runs(args.to_vec())),
        Some((word, _)) => Err(format!("the word {word} of `command`")),
        None => Ok(Builtin::Harmless),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_valid() {
        assert_eq!(PROGRAMS.faults, Vec::<String>::new());
    }

    #[test]
    fn a_table_names_each_function() {
        let text: String = TABLES.iter().map(|(_, text)| *text).collect();
        let is_named = |name: &str| text.split_ascii_whitespace().any(|word| word == name);
        let all = OPERAND_JUDGES.iter().chain(ARGUMENT_JUDGES);
        let unused: Vec<_> = all.filter(|(name, _)| !is_named(name)).collect();
        assert!(unused.is_empty(), "{unused:?}");
    }

    #[test]
    fn a_version_or_a_target_may_belong_to_the_name() {
        for name in ["gcc", "gcc-12", "python3", "python3.11", "x86_64-linux-gnu-gcc-12"] {
            assert!(is_known(name), "{name}");
        }
        for name in ["gccx", "sed4", "x86_64-linux-gnu-sed"] {
            assert!(!is_known(name), "{name}");
        }
    }
}
