//! Shells, and programs that pass text to a shell.

use std::sync::LazyLock;

use super::prefix::{NotUnderstood, option_set, scan_options};
use crate::command::{
    CommandContext, Effect, Redirect, SH, ScriptReader, ShellSyntax, SimpleCommand,
    UncertainReason, Word,
};
use crate::options::{OptionSet, stays_one_word};

/// Returns the effects of a shell or of a program that passes text to one; `None` for any other
/// program.
pub(super) fn shell_program_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    if let Some(dialect) = shell_syntax(name) {
        return Some(shell_effects(name, dialect, command));
    }
    let args = command.args.as_slice();
    let effects = match name {
        "csh" | "tcsh" | "fish" | "nu" | "elvish" | "xonsh" | "rbash" | "capsh" | "at"
        | "batch" | "crontab" | "tmux" | "screen" | "expect" | "newgrp" | "bwrap" | "firejail"
        | "socat" => Err("what it is given".to_owned()),
        "su" | "sg" | "script" => {
            text_option_effect(args).ok_or_else(|| "a shell of its own".to_owned())
        }
        "runuser" | "flock" => return text_option_effect(args),
        "watch" => watch_effects(args),
        "ssh" | "autossh" | "mosh" => ssh_effects(name, args),
        "hyperfine" => Ok(hyperfine_effects(args)),
        _ => return None,
    };
    Some(effects.unwrap_or_else(|odd| vec![Effect::unclear(name, odd)]))
}

fn shell_syntax(name: &str) -> Option<ShellSyntax> {
    match name {
        "bash" => Some(ShellSyntax::Bash),
        "sh" | "dash" | "ash" | "ksh" | "ksh93" | "mksh" | "zsh" | "yash" => {
            Some(ShellSyntax::Posix)
        }
        _ => None,
    }
}

static SHELL: LazyLock<OptionSet> = LazyLock::new(|| option_set("shell"));
/// Options after which the source of the commands or the way they are read is not clear.
const SHELL_UNCLEAR: [&str; 3] = ["s", "H", "posix"];

fn shell_effects(name: &str, dialect: ShellSyntax, command: &SimpleCommand) -> Vec<Effect> {
    match find_source(dialect, &command.args) {
        Ok(ScriptSource::Text(effect)) => vec![effect],
        Ok(ScriptSource::File(None)) => Vec::new(),
        Ok(ScriptSource::File(Some(script))) => Effect::runs(&[script]),
        Ok(ScriptSource::Input) => input_effects(name, dialect, command),
        Err(odd) => vec![Effect::unclear(name, odd)],
    }
}

/// The source of a shell's commands.
#[derive(Debug)]
enum ScriptSource {
    /// The value of the option `-c`.
    Text(Effect),
    /// A file, which is opaque and judged by the shell's name; or a script that is searched in
    /// PATH.
    File(Option<Word>),
    /// The shell's standard input.
    Input,
}

fn find_source(dialect: ShellSyntax, args: &[Word]) -> Result<ScriptSource, String> {
    let args = remove_harmless_o_options(args)?;
    let scan = scan_options(&args, &SHELL)?;
    if let Some(option) =
        scan.options.iter().find(|option| SHELL_UNCLEAR.contains(&option.name.as_str()))
    {
        return Err(format!("the option {}", option.name));
    }
    let mut rest = args.get(scan.rest..).unwrap_or_default();
    if rest.first().is_some_and(|word| word.is("-")) {
        rest = rest.get(1..).unwrap_or_default();
    }
    match rest.first() {
        Some(code) if scan.has(&["c"]) && stays_one_word(code) => {
            Ok(ScriptSource::Text(Effect::script(code, ScriptReader::Other(dialect))))
        }
        None if scan.has(&["c"]) => Err("-c without its text".to_owned()),
        None => Ok(ScriptSource::Input),
        Some(word) if is_plain_file(word) => {
            let searched = !word.text.contains(['/', '.']);
            Ok(ScriptSource::File(searched.then(|| word.clone())))
        }
        Some(word) => Err(format!("the word {word}")),
    }
}

/// `true` if a word is neither an option nor a file that is the shell's own input.
fn is_plain_file(word: &Word) -> bool {
    let odd = ["+", "/dev/", "/proc/"].iter().any(|start| word.text.starts_with(start));
    !odd && !word.text.is_empty() && stays_one_word(word)
}

/// Removes `-o errexit`, `-o pipefail` and similar options, which do not change how text is read.
fn remove_harmless_o_options(args: &[Word]) -> Result<Vec<Word>, String> {
    const HARMLESS: [&str; 6] = ["errexit", "pipefail", "nounset", "xtrace", "verbose", "noglob"];
    let mut remaining = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let options = word.value().filter(|text| text.starts_with('-') && !text.starts_with("--"));
        match options.filter(|text| text.contains(['o', 'O'])) {
            None if word.text.starts_with(['-', '+']) => remaining.push(word.clone()),
            None => {
                remaining.push(word.clone());
                remaining.extend(words.cloned());
                break;
            }
            Some(text) => {
                let name = words.next().and_then(Word::value);
                let plain = text.ends_with('o') && text.matches(['o', 'O']).count() == 1;
                if !plain || !name.is_some_and(|name| HARMLESS.contains(&name)) {
                    return Err(format!("the option {text}"));
                }
                // `-ceo errexit` keeps its other letters.
                if text.len() > 2 {
                    remaining.push(Word::literal(text.trim_end_matches('o')));
                }
            }
        }
    }
    Ok(remaining)
}

/// Returns the effects of a shell that runs its standard input.
fn input_effects(name: &str, dialect: ShellSyntax, command: &SimpleCommand) -> Vec<Effect> {
    let feeds = |redirect: &&Redirect| {
        matches!(redirect, Redirect::Read(_) | Redirect::Text(_) | Redirect::Heredoc)
    };
    match command.redirects.iter().rfind(feeds) {
        Some(Redirect::Text(Some(text))) => {
            vec![Effect::Script { text: text.clone(), reader: ScriptReader::Other(dialect) }]
        }
        // The body was not read yet; `heredoc_shell` finds this command again later.
        Some(Redirect::Heredoc) => Vec::new(),
        _ => vec![Effect::unclear(name, "what it reads")],
    }
}

/// Returns the shell that runs the here-document of this command, if the command is one.
pub(crate) fn heredoc_shell(command: &SimpleCommand) -> Option<(ShellSyntax, CommandContext)> {
    let name = command.name()?;
    let shell = shell_syntax(name)?;
    match find_source(shell, &command.args) {
        Ok(ScriptSource::Input) => Some((shell, CommandContext::Script(name.to_owned()))),
        Ok(ScriptSource::Text(_) | ScriptSource::File(_)) | Err(_) => None,
    }
}

/// Returns the effect of `-c TEXT`, which a shell runs; `None` without that option.
fn text_option_effect(args: &[Word]) -> Option<Vec<Effect>> {
    let at = args.iter().position(|word| {
        ["-c", "--command", "--session-command"].iter().any(|option| word.is(option))
    });
    if let Some(at) = at {
        return Some(args.get(at + 1).map(|text| Effect::script(text, SH)).into_iter().collect());
    }
    let attached = |word: &Word| {
        let text = word.text.strip_prefix("--command=")?.to_owned();
        Some(Effect::script(&Word { text, ..word.clone() }, SH))
    };
    args.iter().find_map(attached).map(|effect| vec![effect])
}

/// Returns the effect of words that a program joins with blanks and passes to a shell.
fn join_as_script(words: &[Word]) -> Vec<Effect> {
    let texts: Option<Vec<&str>> = words.iter().map(Word::value).collect();
    match texts {
        Some(texts) if texts.is_empty() => Vec::new(),
        Some(texts) => vec![Effect::Script { text: texts.join(" "), reader: SH }],
        None => vec![Effect::Unclear(UncertainReason::Dynamic("text that is run as commands"))],
    }
}

fn watch_effects(args: &[Word]) -> Result<Vec<Effect>, NotUnderstood> {
    static WATCH: LazyLock<OptionSet> = LazyLock::new(|| option_set("watch"));
    let scan = scan_options(args, &WATCH)?;
    let rest = args.get(scan.rest..).unwrap_or_default();
    let is_direct = scan.has(&["x", "exec"]);
    Ok(if is_direct { Effect::runs(rest) } else { join_as_script(rest) })
}

/// Returns the effects of `ssh HOST TEXT…`, which runs the text on the host; some settings run a
/// command on this machine.
fn ssh_effects(name: &str, args: &[Word]) -> Result<Vec<Effect>, NotUnderstood> {
    static SSH: LazyLock<OptionSet> = LazyLock::new(|| option_set("ssh"));
    let scan = scan_options(args, &SSH)?;
    let sets_command = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["command", "exec", "include"].iter().any(|part| text.contains(part))
    };
    let mut effects = Vec::new();
    for option in scan.options.iter().filter(|option| option.name == "o" || option.name == "F") {
        let value = option.value.as_ref().and_then(Word::value);
        if option.name == "F" || value.is_none_or(sets_command) {
            effects.push(Effect::unclear(name, format!("the option -{}", option.name)));
        }
    }
    let rest = args.get(scan.rest..).unwrap_or_default();
    match rest.split_first() {
        Some((host, _)) if !stays_one_word(host) => {
            effects.push(Effect::unclear(name, format!("the word {host}")));
        }
        Some((_, [option, ..])) if option.text.starts_with('-') => {
            effects.push(Effect::unclear(name, "an option behind the host"));
        }
        Some((_, words)) => effects.extend(join_as_script(words)),
        None => {}
    }
    Ok(effects)
}

/// Returns the effects of `hyperfine`: each operand is text for a shell, and so are some options.
fn hyperfine_effects(args: &[Word]) -> Vec<Effect> {
    let texts = args.iter().filter(|word| !word.text.starts_with('-'));
    texts.map(|text| Effect::script(text, SH)).collect()
}
