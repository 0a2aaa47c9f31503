//! Programs of which some options run another program.

use super::dispatch::{Effect, SH};
use crate::command::{Redirect, SimpleCommand, Word};

/// What the options of such a program lead to; `None` for any other program.
pub(super) fn effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let program = TABLE.iter().find(|program| program.names.contains(&name))?;
    let mut effects = Vec::new();
    let mut words = command.args.iter().peekable();
    let (mut first, mut closed) = (true, false);
    while let Some(word) = words.next() {
        // `--` may be the value of an option that is not known here, so words behind it still
        // count if they are options as written.
        if word.is("--") {
            closed = true;
            continue;
        }
        if closed && word.value().is_none() {
            continue;
        }
        if word.may_become_option() {
            effects.push(Effect::unclear(name, format!("the word {word}")));
            continue;
        }
        let bundle = first && program.bundles && !word.text.starts_with('-');
        first = false;
        match find_option(program, &word.text, bundle) {
            Found::Runs(option, attached) => {
                let value = match attached {
                    Some(text) => Some(Word { text, ..word.clone() }),
                    None => words.next().cloned(),
                };
                effects.extend(run(name, option, value));
            }
            Found::Unclear => effects.push(Effect::unclear(name, format!("the word {word}"))),
            Found::TakesNext => {
                words.next();
            }
            Found::Other => {}
        }
    }
    effects.extend(markers(name, command));
    Some(effects)
}

/// What a word is to a program.
enum Found<'p> {
    /// An option that runs something, with its value if it is part of the word.
    Runs(&'p ExecOption, Option<String>),
    /// An option that runs something, with a value that stands elsewhere.
    Unclear,
    /// An option whose value is the next word.
    TakesNext,
    /// Nothing that matters.
    Other,
}

fn find_option<'p>(program: &'p ExecProgram, text: &str, bundle: bool) -> Found<'p> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        // GNU programs take any beginning of an option's name.
        let runs = program.runs.iter().find(|option| {
            !name.is_empty() && option.name.len() > 2 && option.name.starts_with(name)
        });
        return match runs {
            Some(option) => Found::Runs(option, value),
            None if value.is_none() && program.long_values.contains(&name) => Found::TakesNext,
            None => Found::Other,
        };
    }
    match text.strip_prefix('-') {
        Some(cluster) => in_cluster(program, cluster),
        None if bundle => in_bundle(program, text),
        None => Found::Other,
    }
}

fn in_cluster<'p>(program: &'p ExecProgram, cluster: &str) -> Found<'p> {
    for (index, letter) in cluster.char_indices() {
        let here = cluster.get(index..).unwrap_or_default();
        let two = program.runs.iter().filter(|option| option.name.len() == 2);
        if let Some((option, rest)) =
            two.filter_map(|it| here.strip_prefix(it.name).map(|rest| (it, rest))).next()
        {
            return Found::Runs(option, (!rest.is_empty()).then(|| rest.to_owned()));
        }
        let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
        let named =
            |option: &&ExecOption| option.name.len() == 1 && option.name.starts_with(letter);
        if let Some(option) = program.runs.iter().find(named) {
            return Found::Runs(option, (!rest.is_empty()).then(|| rest.to_owned()));
        }
        if program.values.contains(letter) {
            return if rest.is_empty() { Found::TakesNext } else { Found::Other };
        }
    }
    Found::Other
}

/// `tar xIf PROGRAM FILE`: values follow in the order of the letters, so this one is unclear.
fn in_bundle<'p>(program: &'p ExecProgram, letters: &str) -> Found<'p> {
    let named = |option: &&ExecOption| option.name.len() == 1 && letters.contains(option.name);
    match program.runs.iter().find(named) {
        Some(_) => Found::Unclear,
        None => Found::Other,
    }
}

fn run(name: &str, option: &ExecOption, value: Option<Word>) -> Option<Effect> {
    let unclear = || Some(Effect::unclear(name, format!("the option {}", option.name)));
    let Some(value) = value else {
        return unclear();
    };
    match (option.how, value.value()) {
        (How::Text, _) => Some(Effect::script(&value, SH)),
        (How::Action, Some(text)) if !text.contains("exec") => None,
        (How::Action, Some(text)) => match text.strip_prefix("exec=") {
            Some(code) => Some(Effect::Script { text: code.to_owned(), reader: SH }),
            None => unclear(),
        },
        (How::Action, None) | (How::Unclear, _) => unclear(),
    }
}

/// Words that run a shell in the language of an interpreter; none for any other program.
fn shell_words(name: &str) -> &'static [&'static str] {
    match name {
        "psql" | "mysql" | "mariadb" => &["\\!", "program", "system"],
        "sqlite3" => &[".shell", ".system", "|", "edit(", "load_extension"],
        "dc" => &["!"],
        _ => &[],
    }
}

/// `true` if this command would run a shell because of what it is fed.
pub(crate) fn runs_shell_for(command: &SimpleCommand, input: &str) -> bool {
    let input = input.to_ascii_lowercase();
    let name = command.name().unwrap_or_default();
    shell_words(name).iter().any(|marker| input.contains(marker))
}

/// Interpreters of their own little languages, in which some words run a shell.
fn markers(name: &str, command: &SimpleCommand) -> Option<Effect> {
    let markers = shell_words(name);
    if markers.is_empty() {
        return None;
    }
    let fed = |redirect: &Redirect| match redirect {
        Redirect::Text(Some(text)) => runs_shell_for(command, text),
        Redirect::Text(None) => true,
        Redirect::Read(_) | Redirect::Write(_) | Redirect::Duplicate | Redirect::Heredoc => false,
    };
    if command.redirects.iter().any(fed) {
        return Some(Effect::unclear(name, "what it is fed"));
    }
    let args = command.args.iter().map(|word| (word, word.text.to_ascii_lowercase()));
    let found = args.filter(|(word, text)| {
        word.value().is_none() || markers.iter().any(|marker| text.contains(marker))
    });
    found.map(|(word, _)| Effect::unclear(name, format!("the word {word}"))).next()
}

// The table of programs of which some options run another program.

/// What the value of such an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// A command line.
    Text,
    /// `exec=` and a command line, or something harmless.
    Action,
    /// Something that is not followed.
    Unclear,
}

/// An option that runs something: one letter, two letters behind one dash, or a long name.
#[derive(Debug)]
pub(super) struct ExecOption {
    pub(super) name: &'static str,
    pub(super) how: How,
}

/// A program with such options.
#[derive(Debug)]
pub(super) struct ExecProgram {
    pub(super) names: &'static [&'static str],
    pub(super) runs: &'static [ExecOption],
    /// Other short options that take a value.
    pub(super) values: &'static str,
    /// Other long options that take the next word.
    pub(super) long_values: &'static [&'static str],
    /// The first word may hold options without a dash.
    pub(super) bundles: bool,
}

const fn text(name: &'static str) -> ExecOption {
    ExecOption { name, how: How::Text }
}

const fn unclear(name: &'static str) -> ExecOption {
    ExecOption { name, how: How::Unclear }
}

const PLAIN: ExecProgram =
    ExecProgram { names: &[], runs: &[], values: "", long_values: &[], bundles: false };

pub(super) const TABLE: &[ExecProgram] = &[
    ExecProgram {
        names: &["tar", "gtar", "bsdtar"],
        runs: &[
            text("I"),
            text("use-compress-program"),
            text("to-command"),
            ExecOption { name: "checkpoint-action", how: How::Action },
            unclear("F"),
            unclear("info-script"),
            unclear("new-volume-script"),
            unclear("rsh-command"),
            unclear("rmt-command"),
        ],
        values: "bCfgHKLNTVX",
        long_values: &["file", "directory", "files-from", "exclude", "exclude-from", "transform"],
        bundles: true,
    },
    ExecProgram {
        names: &["rsync"],
        runs: &[text("e"), text("rsh"), unclear("rsync-path")],
        values: "BfMT@",
        long_values: &["exclude", "include", "filter", "files-from", "log-file", "bwlimit"],
        ..PLAIN
    },
    ExecProgram {
        names: &["zip"],
        runs: &[text("TT"), text("unzip-command")],
        values: "bixnPst",
        ..PLAIN
    },
    ExecProgram {
        names: &["man"],
        runs: &[text("P"), text("pager"), text("H"), text("html"), unclear("C")],
        values: "LmMSsepre",
        ..PLAIN
    },
    ExecProgram {
        names: &["sort"],
        runs: &[text("compress-program")],
        values: "koStT",
        long_values: &["key", "output", "field-separator", "parallel", "temporary-directory"],
        ..PLAIN
    },
    ExecProgram {
        names: &["split"],
        runs: &[text("filter")],
        values: "abClnt",
        long_values: &["bytes", "lines", "number", "suffix-length"],
        ..PLAIN
    },
    ExecProgram {
        names: &["rg"],
        runs: &[text("pre"), text("hostname-bin")],
        values: "ABCEMTefgjmrt",
        long_values: &["glob", "regexp", "file", "type", "type-not", "context", "max-count"],
        ..PLAIN
    },
    ExecProgram {
        names: &["bat", "batcat", "ag", "delta"],
        runs: &[text("pager")],
        values: "lHmr",
        ..PLAIN
    },
    ExecProgram { names: &["tcpdump"], runs: &[text("z")], values: "BcCDEFGijmMrsTVwWyQ", ..PLAIN },
    ExecProgram {
        names: &["scp", "sftp"],
        runs: &[unclear("S"), unclear("o"), unclear("F"), unclear("D"), unclear("b")],
        values: "cilJPRX",
        ..PLAIN
    },
    ExecProgram {
        names: &["wget"],
        runs: &[unclear("use-askpass"), unclear("e"), unclear("execute"), unclear("config")],
        values: "oaitOTwQPUlAR",
        long_values: &["output-document", "directory-prefix", "header", "user-agent", "tries"],
        ..PLAIN
    },
    ExecProgram {
        names: &["nc", "ncat", "netcat"],
        runs: &[text("e"), text("c"), text("exec"), text("sh-exec"), unclear("lua-exec")],
        values: "gGiopqswxXTIOm",
        ..PLAIN
    },
    ExecProgram {
        names: &["fzf"],
        runs: &[text("preview"), unclear("bind"), unclear("execute"), unclear("become")],
        values: "dnqf",
        ..PLAIN
    },
    ExecProgram { names: &["cpio"], runs: &[unclear("rsh-command")], values: "CEFHIMOR", ..PLAIN },
    ExecProgram {
        names: &["sdiff", "diff3"],
        runs: &[text("diff-program")],
        values: "IoWw",
        ..PLAIN
    },
    ExecProgram { names: &["install"], runs: &[text("strip-program")], values: "gmoStZ", ..PLAIN },
    ExecProgram { names: &["nix-shell"], runs: &[text("run"), text("command")], ..PLAIN },
    ExecProgram {
        names: &["gdb", "lldb"],
        runs: &[
            unclear("ex"),
            unclear("x"),
            unclear("eval-command"),
            unclear("o"),
            unclear("s"),
            unclear("args"),
            unclear("command"),
            unclear("init-command"),
            unclear("init-eval-command"),
        ],
        ..PLAIN
    },
    ExecProgram { names: &["psql", "mysql", "mariadb", "sqlite3", "dc"], ..PLAIN },
];
