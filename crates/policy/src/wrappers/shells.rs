//! Shells, and programs that hand text to one.

use std::sync::LazyLock;

use super::effect::{Effect, Reader, SH};
use super::scan::{Scan, is_one, option_set, scan};
use crate::command::{CommandContext, Redirect, ShellSyntax, SimpleCommand, UncertainReason, Word};
use crate::options::OptionSet;

/// What such a program leads to; `None` for any other.
pub(super) fn effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    if let Some(dialect) = dialect(name) {
        return Some(shell(name, dialect, command));
    }
    let effects = match name {
        "csh" | "tcsh" | "fish" | "nu" | "elvish" | "xonsh" | "rbash" | "capsh" | "at"
        | "batch" | "crontab" | "tmux" | "screen" | "expect" | "newgrp" | "bwrap" | "firejail"
        | "socat" => {
            vec![Effect::unclear(name, "what it is given")]
        }
        "su" | "runuser" | "sg" => su(name, &command.args),
        "script" => script(&command.args),
        "watch" => watch(&command.args),
        "flock" => flock(&command.args),
        "ssh" | "autossh" | "mosh" => ssh(name, &command.args),
        "hyperfine" => hyperfine(&command.args),
        "entr" => entr(&command.args),
        _ => return None,
    };
    Some(effects)
}

fn dialect(name: &str) -> Option<ShellSyntax> {
    match name {
        "bash" => Some(ShellSyntax::Bash),
        "sh" | "dash" | "ash" | "ksh" | "ksh93" | "mksh" | "zsh" | "yash" => {
            Some(ShellSyntax::Posix)
        }
        _ => None,
    }
}

static SHELL: LazyLock<OptionSet> = LazyLock::new(|| option_set("shell"));
/// `-n` reads without running, but not in every shell; `-O` and `-o` change how text is read.
const SHELL_UNCLEAR: [&str; 3] = ["s", "H", "posix"];

fn shell(name: &str, dialect: ShellSyntax, command: &SimpleCommand) -> Vec<Effect> {
    match look(dialect, &command.args) {
        Ok(Source::Text(effect)) => vec![effect],
        Ok(Source::File(None)) => Vec::new(),
        Ok(Source::File(Some(script))) => Effect::runs(&[script], Vec::new()).into_iter().collect(),
        Ok(Source::Input) => input(name, dialect, command),
        Err(odd) => vec![Effect::unclear(name, odd)],
    }
}

/// Where a shell takes its commands from.
#[derive(Debug)]
enum Source {
    /// The value of `-c`.
    Text(Effect),
    /// A file: opaque, judged by the shell's name; or a script that is looked for on PATH.
    File(Option<Word>),
    /// Its standard input.
    Input,
}

fn look(dialect: ShellSyntax, args: &[Word]) -> Result<Source, String> {
    let args = without_o(args)?;
    let scan = scan(&args, &SHELL)?;
    if let Some(given) =
        scan.given.iter().find(|given| SHELL_UNCLEAR.contains(&given.name.as_str()))
    {
        return Err(format!("the option {}", given.name));
    }
    let mut rest = args.get(scan.rest..).unwrap_or_default();
    if rest.first().is_some_and(|word| word.is("-")) {
        rest = rest.get(1..).unwrap_or_default();
    }
    match rest.first() {
        Some(code) if scan.has(&["c"]) && is_one(code) => {
            Ok(Source::Text(Effect::script(code, Reader::Other(dialect))))
        }
        None if scan.has(&["c"]) => Err("-c without its text".to_owned()),
        None => Ok(Source::Input),
        Some(word) if is_plain_file(word) => {
            let searched = !word.text.contains(['/', '.']);
            Ok(Source::File(searched.then(|| word.clone())))
        }
        Some(word) => Err(format!("the word {word}")),
    }
}

/// Neither an option in disguise nor a file that is the shell's own input.
fn is_plain_file(word: &Word) -> bool {
    let odd = ["+", "/dev/", "/proc/"].iter().any(|start| word.text.starts_with(start));
    !odd && !word.text.is_empty() && is_one(word)
}

/// `-o errexit`, `-o pipefail` and the like change nothing that matters here.
fn without_o(args: &[Word]) -> Result<Vec<Word>, String> {
    const HARMLESS: [&str; 6] = ["errexit", "pipefail", "nounset", "xtrace", "verbose", "noglob"];
    let mut kept = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let options = word.value().filter(|text| text.starts_with('-') && !text.starts_with("--"));
        match options.filter(|text| text.contains(['o', 'O'])) {
            None if word.text.starts_with(['-', '+']) => kept.push(word.clone()),
            None => {
                kept.push(word.clone());
                kept.extend(words.cloned());
                break;
            }
            Some(text) => {
                let name = words.next().and_then(Word::value);
                let plain = text.ends_with('o') && text.matches(['o', 'O']).count() == 1;
                if !plain || !name.is_some_and(|name| HARMLESS.contains(&name)) {
                    return Err(format!("the option {text}"));
                }
                // `-ceo errexit` still has its other letters.
                if text.len() > 2 {
                    kept.push(Word::literal(text.trim_end_matches('o')));
                }
            }
        }
    }
    Ok(kept)
}

/// A shell that reads its input runs what it is fed.
fn input(name: &str, dialect: ShellSyntax, command: &SimpleCommand) -> Vec<Effect> {
    let feeds = |redirect: &&Redirect| {
        matches!(redirect, Redirect::Read(_) | Redirect::Text(_) | Redirect::Heredoc)
    };
    match command.redirects.iter().rfind(feeds) {
        Some(Redirect::Text(Some(text))) => {
            vec![Effect::Script { text: text.clone(), reader: Reader::Other(dialect) }]
        }
        // The body is still to come; `reads_commands` finds this command again.
        Some(Redirect::Heredoc) => Vec::new(),
        _ => vec![Effect::unclear(name, "what it reads")],
    }
}

/// Whether this command runs what its here-document says.
pub(crate) fn reads_commands(command: &SimpleCommand) -> Option<(ShellSyntax, CommandContext)> {
    let name = command.name()?;
    let shell = dialect(name)?;
    match look(shell, &command.args) {
        Ok(Source::Input) => Some((shell, CommandContext::Script(name.to_owned()))),
        Ok(Source::Text(_) | Source::File(_)) | Err(_) => None,
    }
}

/// `su -c TEXT`; without it, it starts a shell.
fn su(name: &str, args: &[Word]) -> Vec<Effect> {
    static SU: LazyLock<OptionSet> = LazyLock::new(|| option_set("su"));
    let mut rest = args.to_vec();
    let mut texts = Vec::new();
    let mut as_user = false;
    // Options may stand after the user's name, so start over behind each operand.
    loop {
        let Scan { given, rest: used } = match scan(&rest, &SU) {
            Ok(scan) => scan,
            Err(odd) => return vec![Effect::unclear(name, odd)],
        };
        as_user |= given.iter().any(|given| given.name == "u" || given.name == "user");
        texts.extend(
            given
                .into_iter()
                .filter(|given| matches!(given.name.as_str(), "c" | "command" | "session-command")),
        );
        rest.drain(..used);
        if rest.is_empty() || as_user {
            break;
        }
        rest.remove(0);
    }
    if as_user {
        let effect = Effect::runs(&rest, Vec::new());
        return effect.into_iter().collect();
    }
    if texts.is_empty() {
        return vec![Effect::unclear(name, "a shell of its own")];
    }
    let texts = texts.iter().filter_map(|given| given.value.as_ref());
    texts.map(|text| Effect::script(text, SH)).collect()
}

/// `script -c TEXT FILE`; without `-c`, it starts a shell.
fn script(args: &[Word]) -> Vec<Effect> {
    static SCRIPT: LazyLock<OptionSet> = LazyLock::new(|| option_set("script"));
    let mut rest = args;
    let mut effects = Vec::new();
    loop {
        let scan = match scan(rest, &SCRIPT) {
            Ok(scan) => scan,
            Err(odd) => return vec![Effect::unclear("script", odd)],
        };
        let text = scan.value(&["c", "command"]);
        effects.extend(text.map(|text| Effect::script(text, SH)));
        match rest.get(scan.rest + 1..) {
            Some(more) => rest = more,
            None => break,
        }
    }
    if effects.is_empty() {
        effects.push(Effect::unclear("script", "a shell of its own"));
    }
    effects
}

/// Words that a program joins with blanks and gives to a shell.
fn joined(words: &[Word]) -> Option<Effect> {
    if words.is_empty() {
        return None;
    }
    let texts: Option<Vec<&str>> = words.iter().map(Word::value).collect();
    Some(match texts {
        Some(texts) => Effect::Script { text: texts.join(" "), reader: SH },
        None => Effect::Unclear(UncertainReason::Dynamic("text that is run as commands")),
    })
}

fn watch(args: &[Word]) -> Vec<Effect> {
    static WATCH: LazyLock<OptionSet> = LazyLock::new(|| option_set("watch"));
    match scan(args, &WATCH) {
        Ok(scan) => {
            let rest = args.get(scan.rest..).unwrap_or_default();
            let direct = scan.has(&["x", "exec"]);
            let effect = if direct { Effect::runs(rest, Vec::new()) } else { joined(rest) };
            effect.into_iter().collect()
        }
        Err(odd) => vec![Effect::unclear("watch", odd)],
    }
}

/// `flock FILE COMMAND…` or `flock FILE -c TEXT`.
fn flock(args: &[Word]) -> Vec<Effect> {
    static FLOCK: LazyLock<OptionSet> = LazyLock::new(|| option_set("flock"));
    let before = match scan(args, &FLOCK) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("flock", odd)],
    };
    let rest = args.get(before.rest..).unwrap_or_default();
    let Some((file, rest)) = rest.split_first() else {
        return Vec::new();
    };
    if !is_one(file) {
        return vec![Effect::unclear("flock", format!("the word {file}"))];
    }
    match rest {
        [option, code, ..] if option.is("-c") || option.is("--command") => {
            vec![Effect::script(code, SH)]
        }
        [word, ..] if word.text.starts_with('-') => {
            vec![Effect::unclear("flock", format!("the word {word}"))]
        }
        words => Effect::runs(words, Vec::new()).into_iter().collect(),
    }
}

/// `ssh HOST TEXT…` runs the text there; some settings run a command here.
fn ssh(name: &str, args: &[Word]) -> Vec<Effect> {
    static SSH: LazyLock<OptionSet> = LazyLock::new(|| option_set("ssh"));
    let scan = match scan(args, &SSH) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear(name, odd)],
    };
    let sets_command = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["command", "exec", "xauthlocation", "include", "askpass", "provider", "helper"]
            .iter()
            .any(|part| text.contains(part))
    };
    let mut effects = Vec::new();
    for option in scan.given.iter().filter(|given| given.name == "o" || given.name == "F") {
        let value = option.value.as_ref().and_then(Word::value);
        if option.name == "F" || value.is_none_or(sets_command) {
            effects.push(Effect::unclear(name, format!("the option -{}", option.name)));
        }
    }
    let rest = args.get(scan.rest..).unwrap_or_default();
    match rest.split_first() {
        Some((host, _)) if !is_one(host) => {
            effects.push(Effect::unclear(name, format!("the word {host}")));
        }
        Some((_, [option, ..])) if option.text.starts_with('-') => {
            effects.push(Effect::unclear(name, "an option behind the host"));
        }
        Some((_, words)) => effects.extend(joined(words)),
        None => {}
    }
    effects
}

/// Each operand is text for a shell; so are some options.
fn hyperfine(args: &[Word]) -> Vec<Effect> {
    static HYPERFINE: LazyLock<OptionSet> = LazyLock::new(|| option_set("hyperfine"));
    let mut rest = args;
    let mut effects = Vec::new();
    while !rest.is_empty() {
        let scan = match scan(rest, &HYPERFINE) {
            Ok(scan) => scan,
            Err(odd) => return vec![Effect::unclear("hyperfine", odd)],
        };
        if scan.has(&["p", "s", "c", "shell"]) {
            return vec![Effect::unclear("hyperfine", "an option that runs text")];
        }
        rest = rest.get(scan.rest..).unwrap_or_default();
        if let Some((text, more)) = rest.split_first() {
            effects.push(Effect::script(text, SH));
            rest = more;
        }
    }
    effects
}

fn entr(args: &[Word]) -> Vec<Effect> {
    static ENTR: LazyLock<OptionSet> =
        LazyLock::new(|| OptionSet::parse("-a -c -d -n -p -r -s -x -z"));
    match scan(args, &ENTR) {
        Ok(scan) => {
            let rest = args.get(scan.rest..).unwrap_or_default();
            let text = scan.has(&["s"]);
            let effect = if text { joined(rest) } else { Effect::runs(rest, Vec::new()) };
            effect.into_iter().collect()
        }
        Err(odd) => vec![Effect::unclear("entr", odd)],
    }
}
