//! Editors and pagers: commands among their options, and when git starts an editor.

use super::effect::{Effect, SH};
use super::git::is_option;
use crate::command::{SimpleCommand, Word};

/// What an editor or a pager leads to; `None` for anything else.
pub(super) fn effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let effects = match name {
        "vi" | "vim" | "nvim" | "view" | "gvim" | "vimdiff" | "rvim" | "rview" | "gview"
        | "gvimdiff" | "rgvim" | "rgview" | "evim" | "eview" | "nvi" | "vim.tiny" | "vim.basic"
        | "vimx" => vim(name, &command.args),
        // They read commands, `!` among them, from their input.
        "ed" | "ex" | "red" => vec![Effect::unclear(name, "what it reads")],
        "emacs" | "emacsclient" => {
            options(name, &command.args, &["--eval", "--execute", "-l", "-f"])
        }
        "less" | "more" | "most" => plus(name, &command.args),
        _ => return None,
    };
    Some(effects)
}

/// Only flags that are known to run nothing; commands of the editor are looked at.
fn vim(name: &str, args: &[Word]) -> Vec<Effect> {
    const FLAGS: &str = "AbCdfFgHhLmMnNoOpRrTvxXyZ0123456789";
    const LONG: [&str; 7] =
        ["--", "--version", "--help", "--noplugin", "--clean", "--not-a-term", "--literal"];
    let mut effects = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if word.is("-c") || word.is("--cmd") {
            match words.next() {
                Some(code) => effects.extend(ex_command(name, code.value())),
                None => effects.push(Effect::unclear(name, "an option without its value")),
            }
            continue;
        }
        if text.starts_with('+') {
            let code = word.value().map(|_| text.trim_start_matches('+'));
            effects.extend(ex_command(name, code));
            continue;
        }
        let harmless = match text.strip_prefix('-') {
            Some(_) if text.starts_with("--") => LONG.contains(&text),
            Some(cluster) => cluster.chars().all(|letter| FLAGS.contains(letter)),
            None => true,
        };
        if !harmless || word.may_become_option() {
            effects.push(Effect::unclear(name, format!("the word {word}")));
        }
    }
    effects
}

/// A command of the editor: a few are harmless, `!` runs a shell, the rest is not understood.
fn ex_command(name: &str, code: Option<&str>) -> Option<Effect> {
    const HARMLESS: [&str; 14] =
        ["", "q", "q!", "qa", "qa!", "qall", "w", "wq", "wq!", "wqa", "x", "xa", "$", "quit"];
    let Some(code) = code else {
        return Some(Effect::unclear(name, "a command of unknown value"));
    };
    let code = code.trim_start_matches([':', ' ', '\t']);
    if HARMLESS.contains(&code) || code.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match code.strip_prefix('!') {
        Some(text) => Some(Effect::Script { text: text.to_owned(), reader: SH }),
        None => Some(Effect::unclear(name, format!("the command {code}"))),
    }
}

fn options(name: &str, args: &[Word], dangerous: &[&str]) -> Vec<Effect> {
    let odd = args.iter().filter(|word| {
        word.may_become_option() || dangerous.iter().any(|option| word.text.starts_with(option))
    });
    odd.map(|word| Effect::unclear(name, format!("the word {word}"))).collect()
}

/// `less '+!command'` and `less -k file`.
fn plus(name: &str, args: &[Word]) -> Vec<Effect> {
    options(name, args, &["+", "-k", "--lesskey"])
}

/// The editor that git is set to start, under a name of its own.
pub(super) fn git_editor() -> Vec<Effect> {
    Effect::runs(&[Word::literal("editor")], Vec::new()).into_iter().collect()
}

/// Whether a subcommand of git has somebody edit a text.
pub(super) fn git_edits(name: &str, args: &[Word]) -> bool {
    let end = args.iter().position(|word| word.is("--")).unwrap_or(args.len());
    let words = args.get(..end).unwrap_or_default();
    let has = |options: &[&str]| {
        words.iter().any(|word| options.iter().any(|option| is_option(&word.text, option)))
    };
    match name {
        "commit" => message(words) != Message::Given,
        "tag" => match message(words) {
            Message::Given => false,
            Message::Edited => true,
            Message::None => has(&["-a", "-s", "-u", "--annotate", "--sign", "--local-user"]),
        },
        "notes" => match words.iter().find(|word| !word.text.starts_with('-')) {
            Some(word) if word.is("add") || word.is("edit") || word.is("append") => {
                message(words) != Message::Given
            }
            Some(word) => word.value().is_none(),
            None => false,
        },
        "rebase" => has(&["-i", "--interactive", "--edit-todo"]),
        "branch" => has(&["--edit-description"]),
        "merge" | "pull" | "cherry-pick" | "revert" | "add" | "replace" => has(&["-e", "--edit"]),
        _ => false,
    }
}

/// Where a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    None,
    Given,
    Edited,
}

/// The message among the options of `commit`, `tag` and `notes`.
fn message(words: &[Word]) -> Message {
    const GIVEN: [&str; 6] =
        ["--message", "--file", "--reuse-message", "--no-edit", "--fixup", "--dry-run"];
    const EDITED: [&str; 2] = ["--edit", "--reedit-message"];
    let mut message = Message::None;
    let (mut value, mut fixup) = (false, false);
    for word in words {
        let reworded = std::mem::take(&mut fixup) && names_action(word);
        if std::mem::take(&mut value) && !reworded {
            continue;
        }
        if reworded {
            return Message::Edited;
        }
        let text = word.text.as_str();
        if word.may_become_option() && !text.starts_with('-') {
            return Message::Edited;
        }
        if text.starts_with("--") {
            let (name, attached) = text.split_once('=').map_or((text, ""), |(n, v)| (n, v));
            fixup = is_option(name, "--fixup");
            let reworded = fixup && attached.contains(':');
            if reworded || EDITED.iter().any(|option| is_option(name, option)) {
                return Message::Edited;
            }
            if GIVEN.contains(&name) {
                message = Message::Given;
            }
            value = !text.contains('=') && takes_value(name);
            fixup &= value;
        } else if let Some(cluster) = text.strip_prefix('-') {
            let end = cluster.find(['m', 'F', 'C', 'c', 't', 'S', 'u']).unwrap_or(cluster.len());
            let (flags, rest) = cluster.split_at(end);
            if flags.contains('e') || rest.starts_with('c') {
                return Message::Edited;
            }
            if rest.starts_with(['m', 'F', 'C']) {
                message = Message::Given;
            }
            value = rest.len() == 1 && rest.starts_with(['m', 'F', 'C', 't']);
        }
    }
    message
}

/// `--fixup amend:COMMIT` and `--fixup reword:COMMIT` open an editor.
fn names_action(word: &Word) -> bool {
    word.value().is_none_or(|text| text.contains(':'))
}

/// Whether a long option of `commit`, `tag` or `notes` has its value in the next word.
fn takes_value(name: &str) -> bool {
    const VALUES: &str = "--message --file --reuse-message --fixup --squash --author --date --template --cleanup \
        --trailer --pathspec-from-file --local-user --ref";
    VALUES.split_ascii_whitespace().any(|option| is_option(name, option))
}
