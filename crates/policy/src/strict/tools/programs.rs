//! The entries of all programs, by their names.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::entry::{ArgumentEffect, Judge, Judged, ProgramEntries, ProgramEntry};
use super::{
    archives, awk, build, cloud, files, find, git, interpreters, network, other, packages, sed,
    wrappers,
};
use crate::command::Word;
use crate::options::{Doubt, OptionSet, ProgramTable};

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
    archives: cpio unzip;
    awk: scan;
    build: c_compiler cmake compiler_arguments eslint fmt go_flags gradle jest js_tool lints make maven no_argument_files plain_targets pytest rustc tox;
    cloud: ansible aws copy github only_lists only_shows playbook run run_in_pod run_inside services units vagrant_ssh;
    files: copy install link move_files patch query split split_by_context;
    find: parallel xargs;
    interpreters: gdb java mongo mysql no_argument_files perl psql python redis sqlite;
    network: command_client curl downloads ip openssl plain_hosts remote_command rsync secure_copy secure_transfer socat ssh wget;
    other: addresses all_written dc dumped_page editor less logsave mlr needs_list no_batch no_cache_command no_settings pandoc pg_ctl plain_files project protoc screen tex tmux unpack uudecode vim;
    packages: behind_command bun dpkg indexed_packages installed_packages local_packages nix_shell npm_pkg npx package_files pipx_run project_tool rpm uv uv_run yarn;
    sed: edit;
    wrappers: lock record run_on_change switch_user watch;
};

const ARGUMENT_JUDGES: &[(&str, Judge)] = judges! { Arguments
    archives: ar compress seven_zip tar uncompress zip;
    build: toolchain;
    files: copy_blocks;
    find: fd find;
    git: git;
    other: refuse_arguments unread version_only;
    wrappers: crontab foreign_shell refuse_command run_as_user shell timestamps wrap;
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
