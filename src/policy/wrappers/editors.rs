//! Editors and pagers: commands among their options.

use super::dispatch::{Effect, SH};
use crate::policy::command::{SimpleCommand, Word};

/// What an editor or a pager leads to; `None` for anything else.
pub(super) fn effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let effects = match name {
        "vi" | "vim" | "nvim" | "view" | "gvim" | "vimdiff" | "rvim" => vim(name, &command.args),
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

fn vim(name: &str, args: &[Word]) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "-c" | "--cmd" => match words.next() {
                Some(code) => effects.extend(ex_command(name, code.value())),
                None => effects.push(Effect::unclear(name, "an option without its value")),
            },
            text if text.starts_with('+') => {
                let code = word.value().map(|_| text.trim_start_matches('+'));
                effects.extend(ex_command(name, code));
            }
            text if text.starts_with("-c") => {
                effects.extend(ex_command(name, word.value().and_then(|text| text.get(2..))));
            }
            text if ["-S", "-s", "-u", "-U", "-W", "-w", "--remote", "-E", "-e"]
                .iter()
                .any(|option| text.starts_with(option)) =>
            {
                effects.push(Effect::unclear(name, format!("the option {text}")));
            }
            _ if word.may_become_option() => {
                effects.push(Effect::unclear(name, format!("the word {word}")));
            }
            _ => {}
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
