//! Container tools: the command that `docker run`, `podman exec` or `kubectl exec` starts.
//!
//! The options that take a value must be known, since otherwise the command behind them cannot be
//! found. They come from `docker run --help` (28.2), podman-run(1) (5.4) and `kubectl options`
//! (1.32).

use std::sync::LazyLock;

use super::effect::{Effect, SH};
use super::scan::{Scan, is_one, option_set, scan};
use crate::command::{Shape, SimpleCommand, Word};
use crate::options::OptionSet;

/// The effects of such a tool; `None` for any other program.
pub(super) fn effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let mut names = Vec::new();
    let args: Vec<Word> = command.args.iter().map(|word| as_one_word(word, &mut names)).collect();
    let found = match name {
        "docker" | "podman" | "nerdctl" => engine(&args),
        "docker-compose" | "podman-compose" => compose(&args),
        "kubectl" | "oc" => kubernetes(&args),
        _ => return None,
    };
    let mut effects = found.unwrap_or_else(|odd| vec![Effect::unclear(name, odd)]);
    if !names.is_empty() {
        effects.push(Effect::ReliesOnOneWord(names));
    }
    Some(effects)
}

/// Substitutions that everyday lines leave unquoted: a directory, or the number of a user.
const PLAIN: [&str; 4] = ["$(pwd)", "`pwd`", "$(id -u)", "$(id -g)"];

/// Takes `$(pwd):/app`, `$(id -u):$(id -g)` and `X=$X` for one word each, although blanks in a
/// value would split them. The names of the variables are noted, so that none of them may get
/// such a value in the same text.
fn as_one_word(word: &Word, names: &mut Vec<String>) -> Word {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if word.shape != Shape::Many {
        return word.clone();
    }
    let mut found = Vec::new();
    let mut rest = word.source.as_str();
    while !rest.is_empty() {
        if let Some(after) = PLAIN.iter().find_map(|it| rest.strip_prefix(it)) {
            rest = after;
        } else if let Some(after) = rest.strip_prefix('$') {
            let braced = after.strip_prefix('{');
            let start = braced.unwrap_or(after);
            let name = start.split(|c| !in_name(c)).next().unwrap_or_default();
            let after = start.get(name.len()..).unwrap_or_default();
            let after = if braced.is_some() { after.strip_prefix('}') } else { Some(after) };
            let Some(after) = after.filter(|_| name.starts_with(|c: char| !c.is_ascii_digit()))
            else {
                return word.clone();
            };
            found.push(name.to_owned());
            rest = after;
        } else if let Some(after) = rest.strip_prefix(|c| in_name(c) || "-./:=,@+".contains(c)) {
            rest = after;
        } else {
            return word.clone();
        }
    }
    // A word of substitutions alone relies on `PWD` too, as `pwd` prints it.
    found.push("PWD".to_owned());
    names.extend(found);
    Word { shape: Shape::One, plain: !word.text.starts_with('-'), ..word.clone() }
}

static ENGINE: LazyLock<OptionSet> = LazyLock::new(|| option_set("docker"));

fn engine(args: &[Word]) -> Result<Vec<Effect>, String> {
    let Some((subcommand, rest)) = subcommand(args, &ENGINE, &["run", "create", "exec"])? else {
        return Ok(Vec::new());
    };
    match subcommand {
        "container" => engine(rest),
        "run" | "create" => run(rest),
        "exec" => exec(rest),
        "compose" => compose(rest),
        _ => Ok(Vec::new()),
    }
}

/// The subcommand and what follows it. Behind an option that is not known, the subcommand may be
/// any word, so it must be none that starts a command.
fn subcommand<'w>(
    args: &'w [Word],
    options: &OptionSet,
    starters: &[&str],
) -> Result<Option<(&'w str, &'w [Word])>, String> {
    let scan = match scan(args, options) {
        Ok(scan) => scan,
        Err(odd) => {
            let starts = |word: &Word| word.value().is_none_or(|text| starters.contains(&text));
            return if args.iter().any(starts) { Err(odd) } else { Ok(None) };
        }
    };
    let rest = args.get(scan.rest..).unwrap_or_default();
    let Some((first, rest)) = rest.split_first() else { return Ok(None) };
    match first.value() {
        Some(name) => Ok(Some((name, rest))),
        None => Err(format!("the word {first}")),
    }
}

static RUN: LazyLock<OptionSet> = LazyLock::new(|| option_set("docker_run"));

/// `run [OPTIONS] IMAGE [COMMAND…]`; `--entrypoint` replaces the image's own program.
fn run(args: &[Word]) -> Result<Vec<Effect>, String> {
    let scan = scan(args, &RUN)?;
    let checks = scan.values(&["health-cmd", "health-startup-cmd"]);
    let mut effects: Vec<Effect> = checks.map(|text| Effect::script(text, SH)).collect();
    effects.extend(command_in(args, &scan)?);
    Ok(effects)
}

static EXEC: LazyLock<OptionSet> = LazyLock::new(|| option_set("docker_exec"));

/// `exec [OPTIONS] CONTAINER COMMAND…`.
fn exec(args: &[Word]) -> Result<Vec<Effect>, String> {
    command_in(args, &scan(args, &EXEC)?)
}

/// The command behind the image or the container, or that of `--entrypoint`.
fn command_in(args: &[Word], scan: &Scan) -> Result<Vec<Effect>, String> {
    let rest = args.get(scan.rest..).unwrap_or_default();
    let Some((image, command)) = rest.split_first() else { return Ok(Vec::new()) };
    if !is_one(image) && !image.plain {
        return Err(format!("the word {image}"));
    }
    let entrypoint = scan.value(&["entrypoint"]).filter(|word| !word.is(""));
    let words: Vec<Word> = entrypoint.into_iter().chain(command).cloned().collect();
    // Without a program the words are options of the one that the image names.
    if words.first().is_some_and(|word| word.value().is_some() && word.text.starts_with('-')) {
        return Ok(Vec::new());
    }
    Ok(Effect::runs(&words, Vec::new()).into_iter().collect())
}

static COMPOSE: LazyLock<OptionSet> = LazyLock::new(|| option_set("compose"));
static COMPOSE_RUN: LazyLock<OptionSet> = LazyLock::new(|| option_set("compose_run"));

fn compose(args: &[Word]) -> Result<Vec<Effect>, String> {
    match subcommand(args, &COMPOSE, &["run", "exec"])? {
        Some(("run", rest)) => command_in(rest, &scan(rest, &COMPOSE_RUN)?),
        Some(("exec", rest)) => exec(rest),
        Some(_) | None => Ok(Vec::new()),
    }
}

static KUBERNETES: LazyLock<OptionSet> = LazyLock::new(|| option_set("kubectl"));

/// `kubectl exec POD [OPTIONS] -- COMMAND…`, and `run` and `debug` with the same `--`.
fn kubernetes(args: &[Word]) -> Result<Vec<Effect>, String> {
    let starters = ["exec", "run", "debug", "rsh"];
    match subcommand(args, &KUBERNETES, &starters)? {
        Some((name, rest)) if starters.contains(&name) => in_pod(name, rest),
        Some(_) | None => Ok(Vec::new()),
    }
}

/// Options may stand before and behind the name of the pod; `exec` and `rsh` take a command
/// without `--` too.
fn in_pod(name: &str, args: &[Word]) -> Result<Vec<Effect>, String> {
    let mut rest = args;
    let mut operands = 0;
    loop {
        let scan = scan(rest, &KUBERNETES)?;
        if scan.given.iter().any(|given| given.value.as_ref().is_some_and(|it| it.is("--"))) {
            return Err("-- as the value of an option".to_owned());
        }
        let dashed = scan.rest > 0 && rest.get(scan.rest - 1).is_some_and(|word| word.is("--"));
        rest = rest.get(scan.rest..).unwrap_or_default();
        let Some((first, others)) = rest.split_first() else { return Ok(Vec::new()) };
        if dashed || (operands > 0 && matches!(name, "exec" | "rsh")) {
            return Ok(Effect::runs(rest, Vec::new()).into_iter().collect());
        }
        if !is_one(first) && !first.plain {
            return Err(format!("the word {first}"));
        }
        operands += 1;
        rest = others;
    }
}
