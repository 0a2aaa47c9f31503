//! Container tools: the command that `docker run`, `podman exec` or `kubectl exec` starts.
//!
//! The options that take a value must be known, because otherwise the command after them cannot be
//! found. They come from `docker run --help` (28.2), podman-run_effects(1) (5.4) and `kubectl options`
//! (1.32).

use std::sync::LazyLock;

use super::effect::{Effect, SH};
use super::scan::{ScannedOptions, is_one_word, option_set, scan_options};
use crate::command::{Shape, SimpleCommand, Word};
use crate::options::OptionSet;

/// Returns the effects of a container tool; `None` for any other program.
pub(super) fn container_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let mut names = Vec::new();
    let args: Vec<Word> = command.args.iter().map(|word| as_one_word(word, &mut names)).collect();
    let found = match name {
        "docker" | "podman" | "nerdctl" => engine_effects(&args),
        "docker-compose" | "podman-compose" => compose_effects(&args),
        "kubectl" | "oc" => kubernetes_effects(&args),
        _ => return None,
    };
    let mut effects = found.unwrap_or_else(|odd| vec![Effect::unclear(name, odd)]);
    if !names.is_empty() {
        effects.push(Effect::ReliesOnOneWord(names));
    }
    Some(effects)
}

/// Substitutions that people often leave unquoted: a directory, or a user's number.
const UNQUOTED_SUBSTITUTIONS: [&str; 4] = ["$(pwd)", "`pwd`", "$(id -u)", "$(id -g)"];

/// Treats `$(pwd):/app`, `$(id -u):$(id -g)` and `X=$X` as one word each, although blanks in a value
/// would split them. Adds the variables to `names`, so that the same text may not give them such a
/// value.
fn as_one_word(word: &Word, names: &mut Vec<String>) -> Word {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if word.shape != Shape::Many {
        return word.clone();
    }
    let mut found = Vec::new();
    let mut rest = word.source.as_str();
    while !rest.is_empty() {
        if let Some(after) = UNQUOTED_SUBSTITUTIONS.iter().find_map(|it| rest.strip_prefix(it)) {
            rest = after;
        } else if let Some(after) = rest.strip_prefix('$') {
            let braced = after.strip_prefix('{');
            let start = braced.unwrap_or(after);
            let name = start.split(|c| !is_name_char(c)).next().unwrap_or_default();
            let after = start.get(name.len()..).unwrap_or_default();
            let after = if braced.is_some() { after.strip_prefix('}') } else { Some(after) };
            let Some(after) = after.filter(|_| name.starts_with(|c: char| !c.is_ascii_digit()))
            else {
                return word.clone();
            };
            found.push(name.to_owned());
            rest = after;
        } else if let Some(after) = rest.strip_prefix(|c| is_name_char(c) || "-./:=,@+".contains(c))
        {
            rest = after;
        } else {
            return word.clone();
        }
    }
    // A word of substitutions alone depends on `PWD` too, because `pwd` prints it.
    found.push("PWD".to_owned());
    names.extend(found);
    Word { shape: Shape::One, plain: !word.text.starts_with('-'), ..word.clone() }
}

static ENGINE: LazyLock<OptionSet> = LazyLock::new(|| option_set("docker"));

fn engine_effects(args: &[Word]) -> Result<Vec<Effect>, String> {
    let Some((subcommand, rest)) = split_subcommand(args, &ENGINE, &["run", "create", "exec"])?
    else {
        return Ok(Vec::new());
    };
    match subcommand {
        "container" => engine_effects(rest),
        "run" | "create" => run_effects(rest),
        "exec" => exec_effects(rest),
        "compose" => compose_effects(rest),
        _ => Ok(Vec::new()),
    }
}

/// Returns the subcommand and the words after it. After an unknown option any word may be the
/// subcommand, so no word may be one that starts a command.
fn split_subcommand<'w>(
    args: &'w [Word],
    options: &OptionSet,
    starters: &[&str],
) -> Result<Option<(&'w str, &'w [Word])>, String> {
    let scan = match scan_options(args, options) {
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

/// Returns the effects of `run [OPTIONS] IMAGE [COMMAND…]`. `--entrypoint` replaces the image's own
/// program.
fn run_effects(args: &[Word]) -> Result<Vec<Effect>, String> {
    let scan = scan_options(args, &RUN)?;
    let checks = scan.values(&["health-cmd", "health-startup-cmd"]);
    let mut effects: Vec<Effect> = checks.map(|text| Effect::script(text, SH)).collect();
    effects.extend(container_command_effects(args, &scan)?);
    Ok(effects)
}

static EXEC: LazyLock<OptionSet> = LazyLock::new(|| option_set("docker_exec"));

/// Returns the effects of `exec [OPTIONS] CONTAINER COMMAND…`.
fn exec_effects(args: &[Word]) -> Result<Vec<Effect>, String> {
    container_command_effects(args, &scan_options(args, &EXEC)?)
}

/// Returns the effect of the command after the image or the container, or of `--entrypoint`.
fn container_command_effects(args: &[Word], scan: &ScannedOptions) -> Result<Vec<Effect>, String> {
    let rest = args.get(scan.rest..).unwrap_or_default();
    let Some((image, command)) = rest.split_first() else { return Ok(Vec::new()) };
    if !is_one_word(image) && !image.plain {
        return Err(format!("the word {image}"));
    }
    let entrypoint = scan.value(&["entrypoint"]).filter(|word| !word.is(""));
    let words: Vec<Word> = entrypoint.into_iter().chain(command).cloned().collect();
    // Without a program, the words are options of the image's own program.
    if words.first().is_some_and(|word| word.value().is_some() && word.text.starts_with('-')) {
        return Ok(Vec::new());
    }
    Ok(Effect::runs(&words, Vec::new()).into_iter().collect())
}

static COMPOSE: LazyLock<OptionSet> = LazyLock::new(|| option_set("compose"));
static COMPOSE_RUN: LazyLock<OptionSet> = LazyLock::new(|| option_set("compose_run"));

fn compose_effects(args: &[Word]) -> Result<Vec<Effect>, String> {
    match split_subcommand(args, &COMPOSE, &["run", "exec"])? {
        Some(("run", rest)) => container_command_effects(rest, &scan_options(rest, &COMPOSE_RUN)?),
        Some(("exec", rest)) => exec_effects(rest),
        Some(_) | None => Ok(Vec::new()),
    }
}

static KUBERNETES: LazyLock<OptionSet> = LazyLock::new(|| option_set("kubectl"));

/// Returns the effects of `kubectl exec POD [OPTIONS] -- COMMAND…`, and of `run` and `debug` with the
/// same `--`.
fn kubernetes_effects(args: &[Word]) -> Result<Vec<Effect>, String> {
    let starters = ["exec", "run", "debug", "rsh"];
    match split_subcommand(args, &KUBERNETES, &starters)? {
        Some((name, rest)) if starters.contains(&name) => pod_command_effects(name, rest),
        Some(_) | None => Ok(Vec::new()),
    }
}

/// Returns the effect of the command in a pod. Options may come before and after the pod's name;
/// `exec` and `rsh` accept a command without `--` too.
fn pod_command_effects(name: &str, args: &[Word]) -> Result<Vec<Effect>, String> {
    let mut rest = args;
    let mut operands = 0;
    loop {
        let scan = scan_options(rest, &KUBERNETES)?;
        if scan.options.iter().any(|option| option.value.as_ref().is_some_and(|it| it.is("--"))) {
            return Err("-- as the value of an option".to_owned());
        }
        let dashed = scan.rest > 0 && rest.get(scan.rest - 1).is_some_and(|word| word.is("--"));
        rest = rest.get(scan.rest..).unwrap_or_default();
        let Some((first, others)) = rest.split_first() else { return Ok(Vec::new()) };
        if dashed || (operands > 0 && matches!(name, "exec" | "rsh")) {
            return Ok(Effect::runs(rest, Vec::new()).into_iter().collect());
        }
        if !is_one_word(first) && !first.plain {
            return Err(format!("the word {first}"));
        }
        operands += 1;
        rest = others;
    }
}
