//! `git`: settings, options and subcommands that run other programs.

use std::sync::LazyLock;

use super::prefix::{ScannedOptions, option_set, scan_options};
use crate::command::{Effect, SH, SimpleCommand, Word};
use crate::options::OptionSet;

/// The options of git before the subcommand.
static GLOBAL: LazyLock<OptionSet> = LazyLock::new(|| option_set("git"));

/// Returns the words from the subcommand on; all words if the options are not understood.
pub(crate) fn git_operands(args: &[Word]) -> &[Word] {
    scan_options(args, &GLOBAL).ok().and_then(|scan| args.get(scan.rest..)).unwrap_or(args)
}

pub(super) fn git_effects(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan_options(args, &GLOBAL) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("git", odd)],
    };
    let mut effects = setting_option_effects(&scan);
    let rest = args.get(scan.rest..).unwrap_or_default();
    let Some((name, rest)) = rest.split_first() else {
        return effects;
    };
    match name.value() {
        Some(text) => effects.extend(subcommand_effects(text, rest)),
        None => effects.push(Effect::unclear("git", format!("the word {name}"))),
    }
    effects
}

/// Returns the effects of `-c name=value`, `--exec-path=…` and `--config-env=…`.
fn setting_option_effects(scan: &ScannedOptions) -> Vec<Effect> {
    let mut effects = Vec::new();
    for option in &scan.options {
        let text = option.value.as_ref().map(|word| (word.text.as_str(), word.value().is_some()));
        match (option.name.as_str(), text) {
            ("c", Some((text, literal))) => effects.extend(setting_effect(text, literal)),
            ("exec-path" | "config-env", Some(_)) => {
                effects.push(Effect::unclear("git", format!("the option --{}", option.name)));
            }
            _ => {}
        }
    }
    effects
}

/// Returns the effect of one setting: it is harmless, text for a shell, or not understood.
fn setting_effect(text: &str, literal: bool) -> Option<Effect> {
    /// Settings that change only the output of git or the files that it writes.
    const HARMLESS: &str = "user. color. advice. init.defaultbranch core.quotepath core.autocrlf core.abbrev \
        core.filemode core.ignorecase diff.renames diff.algorithm merge.ff fetch.prune \
        push.autosetupremote commit.gpgsign tag.gpgsign log. http.postbuffer http.version \
        http.lowspeed push.default pull.rebase";
    let (name, value) = text.split_once('=').unwrap_or((text, "true"));
    let name = name.to_ascii_lowercase();
    if HARMLESS.split_ascii_whitespace().any(|harmless| name.starts_with(harmless)) {
        return None;
    }
    let code = match name.split('.').next() {
        Some("alias") => value.strip_prefix('!'),
        Some("core" | "sequence" | "pager" | "diff" | "merge" | "gpg" | "credential") => {
            Some(value)
        }
        Some(_) | None => None,
    };
    match code {
        Some("cat" | "true" | "false" | "") if literal && is_viewer_setting(&name) => None,
        Some(code) if literal && name.starts_with("alias.") => {
            Some(Effect::Script { text: code.to_owned(), reader: SH })
        }
        Some(_) | None => Some(Effect::unclear("git", format!("the setting {name}"))),
    }
}

/// `true` if a setting names a program that only shows or edits a text.
fn is_viewer_setting(name: &str) -> bool {
    name.starts_with("pager.") || ["core.pager", "core.editor", "sequence.editor"].contains(&name)
}

fn subcommand_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    match name {
        "bisect" => bisect_effects(args),
        "submodule" => submodule_effects(args),
        "rebase" => code_option_effects(name, args, &["-x", "--exec"]),
        "difftool" => code_option_effects(name, args, &["-x", "--extcmd", "-t", "--tool"]),
        "grep" => code_option_effects(name, args, &["-O", "--open-files-in-pager"]),
        "config" => config_effects(args),
        "filter-branch" | "send-email" | "mergetool" | "credential" | "maintenance" => {
            vec![Effect::unclear(&format!("git {name}"), "what it starts")]
        }
        "clone" | "fetch" | "pull" | "push" | "ls-remote" | "fetch-pack" | "archive" | "remote"
        | "init" => transport_effects(name, args),
        _ => Vec::new(),
    }
}

/// Returns the effects of options whose value a shell runs. A word that could become such an option
/// is uncertain.
fn code_option_effects(name: &str, args: &[Word], options: &[&str]) -> Vec<Effect> {
    let program = format!("git {name}");
    let mut effects = Vec::new();
    for (index, word) in args.iter().enumerate() {
        let Some(option) = options.iter().find(|option| is_option(&word.text, option)) else {
            continue;
        };
        let attached = if option.starts_with("--") {
            word.text.split_once('=').map(|(_, value)| value)
        } else {
            word.text.get(option.len()..).filter(|value| !value.is_empty())
        };
        let first = option.starts_with("--") || word.text.starts_with(option);
        effects.push(match (attached, word.value().filter(|_| first), args.get(index + 1)) {
            (Some(code), Some(_), _) => Effect::Script { text: code.to_owned(), reader: SH },
            (None, Some(_), Some(next)) => Effect::script(next, SH),
            _ => Effect::unclear(&program, format!("the word {word}")),
        });
    }
    effects
}

/// `true` if a word is this option: in full, abbreviated, or with its value attached.
pub(super) fn is_option(text: &str, option: &str) -> bool {
    if !option.starts_with("--") {
        let letter = option.get(1..).unwrap_or_default();
        return text.starts_with('-') && !text.starts_with("--") && text.contains(letter);
    }
    let name = text.split('=').next().unwrap_or(text);
    name.len() > 2 && option.starts_with(name)
}

/// Returns doubts for addresses and options that run a command: `ext::`, and options that name the
/// program on the remote side.
fn transport_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    const OPTIONS: [&str; 5] =
        ["--upload-pack", "--receive-pack", "--exec", "--template", "--config"];
    let program = format!("git {name}");
    let mut effects = Vec::new();
    for word in args {
        let named = OPTIONS.iter().any(|option| is_option(&word.text, option));
        let short = name == "clone" && is_option(&word.text, "-u");
        let setting = name == "clone" && is_option(&word.text, "-c");
        if named || short || setting || word.text.contains("::") {
            effects.push(Effect::unclear(&program, format!("the word {word}")));
        }
    }
    effects
}

fn bisect_effects(args: &[Word]) -> Vec<Effect> {
    match args {
        [first, rest @ ..] if first.is("run") => Effect::runs(rest),
        [first, ..] if first.value().is_none() => {
            vec![Effect::unclear("git bisect", format!("the word {first}"))]
        }
        _ => Vec::new(),
    }
}

/// Returns the effects of `git submodule foreach TEXT`: git joins several words and passes the text
/// to a shell.
fn submodule_effects(args: &[Word]) -> Vec<Effect> {
    let Some(position) = args.iter().position(|word| word.is("foreach")) else {
        return Vec::new();
    };
    let rest = args.get(position + 1..).unwrap_or_default();
    let rest: Vec<&Word> = rest.iter().filter(|word| !word.text.starts_with("--")).collect();
    let texts: Option<Vec<&str>> = rest.iter().map(|word| word.value()).collect();
    match texts {
        Some(texts) => vec![Effect::Script { text: texts.join(" "), reader: SH }],
        None => vec![Effect::unclear("git submodule", "text of unknown value")],
    }
}

/// Returns the effects of `git config name value`, which is a permanent `-c name=value`.
fn config_effects(args: &[Word]) -> Vec<Effect> {
    let is_operand = |word: &&Word| !word.text.starts_with('-') && !word.is("set");
    let operands: Vec<&Word> = args.iter().filter(is_operand).collect();
    match operands.as_slice() {
        [name, value, ..] if name.text.contains('.') => {
            let literal = name.value().is_some() && value.value().is_some();
            setting_effect(&format!("{}={}", name.text, value.text), literal).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
