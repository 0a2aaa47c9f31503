//! Editors and pagers: commands in their options, and the cases in which git starts an editor.

use super::effect::{Effect, SH};
use super::git::is_option;
use crate::command::{SimpleCommand, Word};

/// Returns the effects of an editor or a pager; `None` for any other program.
pub(super) fn editor_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let effects = match name {
        "vi" | "vim" | "nvim" | "view" | "gvim" | "vimdiff" | "rvim" | "rview" | "gview"
        | "gvimdiff" | "rgvim" | "rgview" | "evim" | "eview" | "nvi" | "vim.tiny" | "vim.basic"
        | "vimx" => vim_effects(name, &command.args),
        // These editors read commands from their input, including `!`.
        "ed" | "ex" | "red" => vec![Effect::unclear(name, "what it reads")],
        "emacs" | "emacsclient" => {
            dangerous_option_effects(name, &command.args, &["--eval", "--execute", "-l", "-f"])
        }
        "less" | "more" | "most" => pager_effects(name, &command.args),
        _ => return None,
    };
    Some(effects)
}

/// Accepts only flags that are known to run nothing, and checks the commands of the editor.
fn vim_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    const FLAGS: &str = "AbCdfFgHhLmMnNoOpRrTvxXyZ0123456789";
    const LONG: [&str; 7] =
        ["--", "--version", "--help", "--noplugin", "--clean", "--not-a-term", "--literal"];
    let mut effects = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if word.is("-c") || word.is("--cmd") {
            match words.next() {
                Some(code) => effects.extend(ex_command_effect(name, code.value())),
                None => effects.push(Effect::unclear(name, "an option without its value")),
            }
            continue;
        }
        if text.starts_with('+') {
            let code = word.value().map(|_| text.trim_start_matches('+'));
            effects.extend(ex_command_effect(name, code));
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

/// Returns the effect of an editor command: a few are harmless, `!` runs a shell, and the others
/// are not understood.
fn ex_command_effect(name: &str, code: Option<&str>) -> Option<Effect> {
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

fn dangerous_option_effects(name: &str, args: &[Word], dangerous: &[&str]) -> Vec<Effect> {
    let odd = args.iter().filter(|word| {
        word.may_become_option() || dangerous.iter().any(|option| word.text.starts_with(option))
    });
    odd.map(|word| Effect::unclear(name, format!("the word {word}"))).collect()
}

/// Returns the effects of a pager: `less '+!command'` and `less -k file` can run commands.
fn pager_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    dangerous_option_effects(name, args, &["+", "-k", "--lesskey"])
}

/// Returns the effect of starting git's configured editor, for which `editor` stands.
pub(super) fn git_editor_effects() -> Vec<Effect> {
    Effect::runs(&[Word::literal("editor")], Vec::new()).into_iter().collect()
}

/// `true` if a subcommand of git starts an editor.
pub(super) fn starts_git_editor(name: &str, args: &[Word]) -> bool {
    let end = args.iter().position(|word| word.is("--")).unwrap_or(args.len());
    let words = args.get(..end).unwrap_or_default();
    let has = |options: &[&str]| {
        words.iter().any(|word| options.iter().any(|option| is_option(&word.text, option)))
    };
    match name {
        "commit" => message_source(words) != MessageSource::Argument,
        "tag" => match message_source(words) {
            MessageSource::Argument => false,
            MessageSource::Editor => true,
            MessageSource::None => has(&["-a", "-s", "-u", "--annotate", "--sign", "--local-user"]),
        },
        "notes" => match words.iter().find(|word| !word.text.starts_with('-')) {
            Some(word) if word.is("add") || word.is("edit") || word.is("append") => {
                message_source(words) != MessageSource::Argument
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

/// The source of a commit message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageSource {
    None,
    Argument,
    Editor,
}

/// Finds the source of the message in the options of `commit`, `tag` and `notes`.
fn message_source(words: &[Word]) -> MessageSource {
    const ARGUMENT: [&str; 6] =
        ["--message", "--file", "--reuse-message", "--no-edit", "--fixup", "--dry-run"];
    const EDITOR: [&str; 2] = ["--edit", "--reedit-message"];
    let mut message = MessageSource::None;
    let mut value = false;
    let mut fixup = false;
    for word in words {
        let reworded = std::mem::take(&mut fixup) && has_fixup_action(word);
        if std::mem::take(&mut value) && !reworded {
            continue;
        }
        if reworded {
            return MessageSource::Editor;
        }
        let text = word.text.as_str();
        if word.may_become_option() && !text.starts_with('-') {
            return MessageSource::Editor;
        }
        if text.starts_with("--") {
            let (name, attached) = text.split_once('=').map_or((text, ""), |(n, v)| (n, v));
            fixup = is_option(name, "--fixup");
            let reworded = fixup && attached.contains(':');
            if reworded || EDITOR.iter().any(|option| is_option(name, option)) {
                return MessageSource::Editor;
            }
            if ARGUMENT.contains(&name) {
                message = MessageSource::Argument;
            }
            value = !text.contains('=') && takes_next_word(name);
            fixup &= value;
        } else if let Some(cluster) = text.strip_prefix('-') {
            let end = cluster.find(['m', 'F', 'C', 'c', 't', 'S', 'u']).unwrap_or(cluster.len());
            let (flags, rest) = cluster.split_at(end);
            if flags.contains('e') || rest.starts_with('c') {
                return MessageSource::Editor;
            }
            if rest.starts_with(['m', 'F', 'C']) {
                message = MessageSource::Argument;
            }
            value = rest.len() == 1 && rest.starts_with(['m', 'F', 'C', 't']);
        }
    }
    message
}

/// `true` for `amend:COMMIT` and `reword:COMMIT` after `--fixup`, which open an editor.
fn has_fixup_action(word: &Word) -> bool {
    word.value().is_none_or(|text| text.contains(':'))
}

/// `true` if the value of a long option of `commit`, `tag` or `notes` is the next word.
fn takes_next_word(name: &str) -> bool {
    const VALUES: &str = "--message --file --reuse-message --fixup --squash --author --date --template --cleanup \
        --trailer --pathspec-from-file --local-user --ref";
    VALUES.split_ascii_whitespace().any(|option| is_option(name, option))
}
