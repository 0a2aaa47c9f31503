//! The names that a started file counts under: those of the known file, or the applet of a program
//! with many names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::rules::{KnownFile, StartedFile, file_name};
use crate::command::{SimpleCommand, Word, base_name};
use crate::wrappers::git_operands;

/// The shells that may start without a rule: each program below them is judged.
pub(super) const SHELLS: [&str; 4] = ["sh", "bash", "dash", "zsh"];
/// The program that looks for the interpreter of a script in PATH.
pub(super) const ENV: &str = "env";

/// A way in which a program chooses what it does by the name that it is called by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dispatch {
    /// Called by its own name, the program takes the applet from its first argument.
    Argument,
    /// The name alone decides; the program's own name is one of its programs.
    Name,
    /// `OWN-WORD` is `OWN WORD`.
    Prefix,
}

/// Programs whose files have many names that do different things.
const MULTI_CALL: [(&str, Dispatch); 20] = [
    ("busybox", Dispatch::Argument),
    ("toybox", Dispatch::Argument),
    ("coreutils", Dispatch::Argument),
    ("rustup", Dispatch::Name),
    ("rustup-init", Dispatch::Name),
    ("git", Dispatch::Prefix),
    ("systemctl", Dispatch::Name),
    ("kmod", Dispatch::Name),
    ("lvm", Dispatch::Name),
    ("snap", Dispatch::Name),
    ("nix", Dispatch::Name),
    ("mise", Dispatch::Name),
    ("volta-shim", Dispatch::Name),
    ("ccache", Dispatch::Name),
    ("pgrep", Dispatch::Name),
    ("setarch", Dispatch::Name),
    ("tune2fs", Dispatch::Name),
    ("e2fsck", Dispatch::Name),
    ("xtables-nft-multi", Dispatch::Name),
    ("xtables-legacy-multi", Dispatch::Name),
];

/// Returns the names of the programs with many names. The server looks them up together with the
/// names in the rules, so that a link to one of them is recognised.
pub(super) fn multi_call_names() -> impl Iterator<Item = &'static str> {
    MULTI_CALL.iter().map(|(name, _)| *name)
}

/// All known files, by device and inode.
#[derive(Debug, Clone, Default)]
pub(super) struct FileTable {
    by_inode: HashMap<(u64, u64), KnownProgram>,
    by_path: HashMap<PathBuf, (u64, u64)>,
}

/// A known file with everything that was found about it.
#[derive(Debug, Clone)]
pub(super) struct KnownProgram {
    pub(super) path: PathBuf,
    changed: (i64, i64),
    names: Vec<String>,
    dispatch: Option<(&'static str, Dispatch)>,
}

impl KnownProgram {
    /// `true` if the file was found under the name of this command, in PATH or in a directory of
    /// helpers.
    fn has_name(&self, form: &SimpleCommand) -> bool {
        let name = form.program.text.as_str();
        self.names.iter().any(|known| known == name || base_name(known) == name)
    }
}

/// A started file compared with the known ones.
#[derive(Debug, Clone, Copy)]
pub(super) enum FileMatch<'t> {
    Known(&'t KnownProgram),
    /// The file or its path is known, but the file is not as it was.
    Changed(&'t KnownProgram),
    Unknown,
}

impl FileTable {
    pub(super) fn new(files: &[KnownFile]) -> Self {
        let mut table = Self::default();
        for file in files {
            let id = (file.device, file.inode);
            table.by_path.insert(file.path.clone(), id);
            let program = table.by_inode.entry(id).or_insert_with(|| KnownProgram {
                path: file.path.clone(),
                changed: file.changed,
                names: vec![],
                dispatch: None,
            });
            let new = file.names.iter().filter(|name| !program.names.contains(name));
            let new: Vec<String> = new.cloned().collect();
            program.names.extend(new);
            let names = program.names.iter().map(|name| base_name(name).to_owned());
            program.dispatch = find_dispatch(names.chain([file_name(&program.path)]));
        }
        table
    }

    pub(super) fn find(&self, file: &StartedFile) -> FileMatch<'_> {
        if let Some(program) = self.by_inode.get(&(file.device, file.inode)) {
            return if program.changed == file.changed {
                FileMatch::Known(program)
            } else {
                FileMatch::Changed(program)
            };
        }
        let at_path = self.by_path.get(&file.path).and_then(|id| self.by_inode.get(id));
        at_path.map_or(FileMatch::Unknown, FileMatch::Changed)
    }

    /// Returns the path of the file that a program's name stands for.
    pub(super) fn path_of(&self, name: &str) -> Option<&Path> {
        let has_name = |program: &&KnownProgram| program.names.iter().any(|it| it == name);
        self.by_inode.values().find(has_name).map(|program| program.path.as_path())
    }
}

fn find_dispatch(mut names: impl Iterator<Item = String>) -> Option<(&'static str, Dispatch)> {
    names.find_map(|name| MULTI_CALL.iter().find(|(own, _)| *own == name).copied())
}

/// A started program under each of its names.
#[derive(Debug, Clone, Default)]
pub(super) struct CalledProgram {
    /// The names that allow rules may match, with the arguments of each.
    pub(super) listed: Vec<SimpleCommand>,
    /// The names that helper rows may match. They include those with a directory:
    /// `git-core/git-remote-https`.
    pub(super) helper: Vec<SimpleCommand>,
    /// The names that deny and ask rules may match: also the path, and the name it is called by.
    pub(super) denied: Vec<SimpleCommand>,
    /// `true` if the name that the program is called by decides what it does.
    pub(super) is_multi_call: bool,
}

impl CalledProgram {
    /// Finds the names of a file that is known.
    pub(super) fn known(program: &KnownProgram, file: &StartedFile, argv: &[Vec<u8>]) -> Self {
        let argv = to_words(argv);
        let args = argv.get(1..);
        let forms = match program.dispatch {
            Some((own, dispatch)) => applet_forms(own, dispatch, &argv),
            None => program.names.iter().filter_map(|name| form(name, args)).collect(),
        };
        let helper: Vec<SimpleCommand> =
            forms.into_iter().filter(|form| program.has_name(form)).collect();
        let is_in_path = |form: &&SimpleCommand| program.names.iter().any(|it| form.program.is(it));
        let listed: Vec<SimpleCommand> = helper
            .iter()
            .filter(is_in_path)
            .filter(|form| !form.program.text.contains('/'))
            .cloned()
            .collect();
        let denied = denied_forms(program.dispatch, &listed, file, &argv);
        Self { listed, helper, denied, is_multi_call: program.dispatch.is_some() }
    }

    /// Finds the names of a known interpreter. The name that the script calls it by is not known:
    /// if the name decides what the program does, it counts as a shell or as `env` alone.
    pub(super) fn interpreter(
        program: &KnownProgram,
        file: &StartedFile,
        argv: &[Vec<u8>],
    ) -> Self {
        let mut names = program.names.clone();
        if program.dispatch.is_some() {
            names.retain(|name| SHELLS.contains(&name.as_str()) || name == ENV);
        }
        Self::known(&KnownProgram { dispatch: None, names, ..program.clone() }, file, argv)
    }

    /// Finds the names of a file that is not known: none for allow rules.
    pub(super) fn unknown(file: &StartedFile, argv: &[Vec<u8>]) -> Self {
        let argv = to_words(argv);
        let dispatch = find_dispatch([file_name(&file.path)].into_iter());
        let denied = denied_forms(dispatch, &[], file, &argv);
        Self { denied, is_multi_call: dispatch.is_some(), ..Self::default() }
    }

    /// Returns the names that allow rules may match.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(|form| form.program.text.as_str())
    }
}

fn to_words(argv: &[Vec<u8>]) -> Vec<String> {
    argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn form(name: &str, args: Option<&[String]>) -> Option<SimpleCommand> {
    let words = [name.to_owned()].into_iter().chain(args.unwrap_or_default().iter().cloned());
    SimpleCommand::from_words(words.map(Word::literal).collect())
}

/// Returns the commands that a program with many names runs for these arguments.
fn applet_forms(own: &str, dispatch: Dispatch, argv: &[String]) -> Vec<SimpleCommand> {
    let called = argv.first().map_or(own, |word| base_name(word).trim_start_matches('-'));
    let args = argv.get(1..).unwrap_or_default();
    match dispatch {
        Dispatch::Name => form(called, Some(args)).into_iter().collect(),
        Dispatch::Argument if called.starts_with(own) => {
            let applet = args.first().and_then(|word| {
                let word = word.strip_prefix("--coreutils-prog=").unwrap_or(word);
                form(base_name(word), args.get(1..))
            });
            form(own, Some(args)).into_iter().chain(applet).collect()
        }
        Dispatch::Argument => form(called, Some(args)).into_iter().collect(),
        Dispatch::Prefix => prefix_forms(own, called, args),
    }
}

fn prefix_forms(own: &str, called: &str, args: &[String]) -> Vec<SimpleCommand> {
    let subcommand = called.strip_prefix(own).and_then(|rest| rest.strip_prefix('-'));
    let Some(subcommand) = subcommand else {
        return form(own, Some(args)).map(with_and_without_options).unwrap_or_default();
    };
    let mut words = vec![subcommand.to_owned()];
    words.extend_from_slice(args);
    form(own, Some(&words)).into_iter().chain(form(called, Some(args))).collect()
}

/// Returns a git command as it is, and without the options before its subcommand.
fn with_and_without_options(command: SimpleCommand) -> Vec<SimpleCommand> {
    let operands = git_operands(&command.args).to_vec();
    if operands.len() == command.args.len() {
        return vec![command];
    }
    let short = SimpleCommand { args: operands, ..command.clone() };
    vec![command, short]
}

fn denied_forms(
    dispatch: Option<(&str, Dispatch)>,
    listed: &[SimpleCommand],
    file: &StartedFile,
    argv: &[String],
) -> Vec<SimpleCommand> {
    let mut forms = listed.to_vec();
    match dispatch {
        Some((own, dispatch)) => forms.extend(applet_forms(own, dispatch, argv)),
        None => {
            forms.extend(form(&file.path.to_string_lossy(), argv.get(1..)));
            let called = argv.first().map(|word| base_name(word).trim_start_matches('-'));
            forms.extend(called.and_then(|name| form(name, argv.get(1..))));
        }
    }
    forms
}
