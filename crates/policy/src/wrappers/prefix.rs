//! Programs that take a whole command as their last arguments: `env`, `sudo`, `docker run`; and the
//! reader of the options before a command, which accepts more than the programs do.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::command::{
    Assignment, AssignmentScope, Effect, SH, Shape, SimpleCommand, VariableValue, Word, base_name,
};
use crate::options::{Block, OptionSet, ProgramTable, stays_one_word};

/// Returns the effects of a program that takes a command; `None` for any other program.
pub(super) fn prefix_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    if let Some(effects) =
        opaque_effects(name, command).or_else(|| subcommand_effects(name, command))
    {
        return Some(effects);
    }
    let name = if is_dynamic_loader(name) { "ld.so" } else { name };
    let prefix = PREFIXES.get(name)?;
    Some(
        following_command_effects(name, command, prefix)
            .unwrap_or_else(|odd| vec![Effect::unclear(name, odd)]),
    )
}

/// `true` for the dynamic loader, which runs the program in its arguments.
fn is_dynamic_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl")
}

fn following_command_effects(
    name: &str,
    command: &SimpleCommand,
    prefix: &Prefix,
) -> Result<Vec<Effect>, String> {
    let mut args = command.args.as_slice();
    if name == "env" && args.first().is_some_and(|word| word.is("-")) {
        args = args.get(1..).unwrap_or_default();
    }
    let scan = scan_options(args, &prefix.options)?;
    if let Some(option) = scan.options.iter().find(|option| prefix.lists("unclear", option)) {
        return Err(format!("the option {}", option.name));
    }
    if scan.options.iter().any(|option| prefix.lists("inert", option)) {
        return Ok(Vec::new());
    }
    let mut effects: Vec<Effect> = strace_output_effects(name, &scan);
    let rest = args.get(scan.rest..).unwrap_or_default();
    let rest = skip_operands(rest, prefix.operands)?;
    let (assignments, rest) = split_assignments(rest, prefix)?;
    if rest.first().is_some_and(|word| word.is("--") && prefix.operands > 0) {
        return Err("a second --".to_owned());
    }
    match SimpleCommand::from_words(rest.to_vec()) {
        Some(command) => {
            effects.push(Effect::Runs(Box::new(SimpleCommand { assignments, ..command })));
        }
        None if prefix.block.has("bare_shell") => return Err("a shell of its own".to_owned()),
        None => {}
    }
    Ok(effects)
}

/// Returns a doubt for `strace -o '|command'`, which runs a command.
fn strace_output_effects(name: &str, scan: &ScannedOptions) -> Vec<Effect> {
    let piped = |option: &&ScannedOption| {
        option.value.as_ref().is_some_and(|value| {
            value.text.starts_with(['|', '!']) || (value.value().is_none() && value.text.is_empty())
        })
    };
    let output = scan.options.iter().filter(|option| option.name == "o" || option.name == "output");
    match (name, output.filter(piped).count()) {
        ("strace", count) if count > 0 => {
            vec![Effect::unclear(name, "an output that is a command")]
        }
        _ => Vec::new(),
    }
}

/// Skips words before the command: a duration, a mask, a directory.
fn skip_operands(words: &[Word], count: usize) -> Result<&[Word], String> {
    let (operands, rest) = words.split_at(count.min(words.len()));
    match operands.iter().find(|word| !stays_one_word(word)) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(rest),
    }
}

fn split_assignments<'w>(
    words: &'w [Word],
    prefix: &Prefix,
) -> Result<(Vec<Assignment>, &'w [Word]), String> {
    let mut assignments = Vec::new();
    let mut rest = words;
    while prefix.block.has("assigns")
        && let Some((first, others)) = rest.split_first()
    {
        let Some((name, value)) = first.text.split_once('=') else {
            if first.value().is_none() && first.text.is_empty() {
                return Err(format!("the word {first}"));
            }
            break;
        };
        if !stays_one_word(first) {
            return Err(format!("the word {first}"));
        }
        let value =
            first.value().map_or(VariableValue::Unknown, |_| VariableValue::Text(value.to_owned()));
        let name = name.to_owned();
        assignments.push(Assignment { name, value, scope: AssignmentScope::Environment });
        rest = others;
    }
    Ok((assignments, rest))
}

/// Programs such as `ip netns exec NAME command`: the words of the subcommand, and the number of
/// words between it and the command.
const SUBCOMMANDS: [(&str, &[&str], usize); 16] = [
    ("ip", &["netns", "exec"], 1),
    ("ip", &["vrf", "exec"], 1),
    ("direnv", &["exec"], 1),
    ("rustup", &["run"], 1),
    ("bundle", &["exec"], 0),
    ("poetry", &["run"], 0),
    ("pipenv", &["run"], 0),
    ("uv", &["run"], 0),
    ("mise", &["exec"], 0),
    ("conda", &["run"], 0),
    ("mamba", &["run"], 0),
    ("pyenv", &["exec"], 0),
    ("rbenv", &["exec"], 0),
    ("asdf", &["exec"], 0),
    ("perf", &["stat"], 0),
    ("perf", &["record"], 0),
];

/// Programs that run others in ways that are not followed.
const OPAQUE: [&str; 4] = ["start-stop-daemon", "schroot", "logsave", "watchexec"];

/// Subcommands that run others in ways that are not followed.
const OPAQUE_WORDS: [(&str, &[&str]); 4] = [
    ("npm", &["exec", "exe", "ex", "x"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("perf", &["trace", "sched", "lock", "mem", "c2c", "kmem", "kvm", "timechart", "ftrace"]),
];

fn opaque_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let has = |word: &str| command.args.iter().any(|arg| arg.is(word));
    let is_first = |word: &str| command.args.first().is_some_and(|arg| arg.is(word));
    // After an option any word may be the subcommand.
    let after_option = command.args.first().is_some_and(|first| first.text.starts_with('-'));
    let is_shifted_subcommand = after_option
        && SUBCOMMANDS.iter().any(|(program, words, _)| {
            *program == name && words.last().is_some_and(|word| has(word))
        });
    let is_opaque_subcommand = OPAQUE_WORDS.iter().any(|(program, words)| {
        *program == name && words.iter().any(|word| is_first(word) || (after_option && has(word)))
    });
    let is_opaque = is_shifted_subcommand
        || is_opaque_subcommand
        || (OPAQUE.contains(&name) && !command.args.is_empty());
    is_opaque.then(|| vec![Effect::unclear(name, "the command that it runs")])
}

fn subcommand_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let (_, words, skip) = SUBCOMMANDS.iter().find(|(program, words, _)| {
        *program == base_name(name)
            && words.iter().zip(&command.args).filter(|(word, arg)| arg.is(word)).count()
                == words.len()
    })?;
    let rest = command.args.get(words.len()..).unwrap_or_default();
    let rest = rest.get(usize::from(rest.first().is_some_and(|word| word.is("--")))..)?;
    match skip_operands(rest, *skip) {
        Ok(rest) if rest.first().is_some_and(|word| word.text.starts_with('-')) => {
            Some(vec![Effect::unclear(name, "an option before the command")])
        }
        Ok(rest) => Some(Effect::runs(rest)),
        Err(odd) => Some(vec![Effect::unclear(name, odd)]),
    }
}

/// A program that takes a whole command as its last arguments. The keys of its block:
///
/// - `options`: the options of the program.
/// - `before`: the number of words between the options and the command.
/// - `assigns`: `NAME=value` may come before the command.
/// - `inert`: options with which the program runs no command.
/// - `unclear`: options with which the program runs a command that is not in its arguments.
/// - `bare_shell`: without a command the program starts a shell.
#[derive(Debug)]
struct Prefix {
    options: OptionSet,
    operands: usize,
    block: Block,
}

static PREFIXES: LazyLock<HashMap<&'static str, Arc<Prefix>>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for block in ProgramTable::parse(include_str!("../../tables/prefixes.txt")).programs {
        let operands = block.words("before").first().and_then(|count| count.parse().ok());
        let prefix = Arc::new(Prefix {
            options: OptionSet::from_tokens(block.words("options").iter().copied()),
            operands: operands.unwrap_or_default(),
            block,
        });
        all.extend(prefix.block.names.iter().map(|name| (*name, Arc::clone(&prefix))));
    }
    all
});

impl Prefix {
    /// `true` if the key lists the option, whose name is without dashes.
    fn lists(&self, key: &str, option: &ScannedOption) -> bool {
        self.block.words(key).iter().any(|name| name.trim_start_matches('-') == option.name)
    }
}

// Container tools: the command that `docker run`, `podman exec` or `kubectl exec` starts.
//
// The options that take a value must be known, because otherwise the command after them cannot be
// found. They come from `docker run --help` (28.2), podman-run(1) (5.4) and `kubectl options`
// (1.32).

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

/// Treats `$(pwd):/app`, `$(id -u):$(id -g)` and `X=$X` as one word each, although blanks in a
/// value would split them. Adds the variables to `names`, so that the same text may not give them
/// such a value.
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
    if !stays_one_word(image) && !image.plain {
        return Err(format!("the word {image}"));
    }
    let entrypoint = scan.value(&["entrypoint"]).filter(|word| !word.is(""));
    let words: Vec<Word> = entrypoint.into_iter().chain(command).cloned().collect();
    // Without a program, the words are options of the image's own program.
    if words.first().is_some_and(|word| word.value().is_some() && word.text.starts_with('-')) {
        return Ok(Vec::new());
    }
    Ok(Effect::runs(&words))
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

/// Returns the effects of `kubectl exec POD [OPTIONS] -- COMMAND…`, and of `run` and `debug` with
/// the same `--`.
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
            return Ok(Effect::runs(rest));
        }
        if !stays_one_word(first) && !first.plain {
            return Err(format!("the word {first}"));
        }
        operands += 1;
        rest = others;
    }
}

static OPTIONS: LazyLock<ProgramTable> =
    LazyLock::new(|| ProgramTable::parse(include_str!("../../tables/wide_options.txt")));

/// Returns a list of options by its name in the table.
pub(super) fn option_set(name: &str) -> OptionSet {
    let tokens = OPTIONS.sets.get(name).map(Vec::as_slice).unwrap_or_default();
    OptionSet::from_tokens(tokens.iter().copied())
}

/// One option of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScannedOption {
    /// The option's name without dashes.
    pub(super) name: String,
    pub(super) value: Option<Word>,
}

/// The options of a command line, and the index of the first word after them.
#[derive(Debug, Default)]
pub(super) struct ScannedOptions {
    pub(super) options: Vec<ScannedOption>,
    pub(super) rest: usize,
}

impl ScannedOptions {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|option| names.contains(&option.name.as_str()))
    }

    /// Returns the values of all options with these names.
    pub(super) fn values(&self, names: &[&str]) -> impl Iterator<Item = &Word> {
        let named = self.options.iter().filter(|option| names.contains(&option.name.as_str()));
        named.filter_map(|option| option.value.as_ref())
    }

    pub(super) fn value(&self, names: &[&str]) -> Option<&Word> {
        let named = self.options.iter().rfind(|option| names.contains(&option.name.as_str()));
        named.and_then(|option| option.value.as_ref())
    }
}

/// The option or word that is not understood, as part of a sentence.
pub(super) type NotUnderstood = String;

/// Reads options up to the first word that is not an option.
pub(super) fn scan_options(
    args: &[Word],
    options: &OptionSet,
) -> Result<ScannedOptions, NotUnderstood> {
    let mut scan = ScannedOptions::default();
    while let Some(word) = args.get(scan.rest) {
        if word.may_become_option() && !word.text.starts_with('-') {
            return Err(format!("the word {word}"));
        }
        if word.is("--") {
            scan.rest += 1;
            break;
        }
        if !word.text.starts_with('-') || word.is("-") {
            break;
        }
        scan.rest += 1;
        let next = args.get(scan.rest);
        let used = match word.text.strip_prefix("--") {
            Some(long) => read_long_option(word, long, next, options, &mut scan.options)?,
            None => read_short_options(word, next, options, &mut scan.options)?,
        };
        scan.rest += used;
    }
    Ok(scan)
}

/// Reads a long option. Returns the number of further words that it uses.
fn read_long_option(
    word: &Word,
    long: &str,
    next: Option<&Word>,
    options: &OptionSet,
    given: &mut Vec<ScannedOption>,
) -> Result<usize, NotUnderstood> {
    let (name, attached) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value_in_word(word, value))),
        None if word.shape == Shape::Literal => (long, None),
        None => return Err(format!("the word {word}")),
    };
    // A program may accept `--flag=value` although its help does not say so.
    let takes = options.takes_next(&format!("--{name}")).filter(|_| !name.is_empty());
    let Some(takes) = takes else {
        return Err(format!("the option --{name}"));
    };
    let (value, used) = match attached {
        Some(value) => (Some(value), 0),
        None if takes => (Some(require_one_word(next)?), 1),
        None => (None, 0),
    };
    given.push(ScannedOption { name: name.to_owned(), value });
    Ok(used)
}

/// Reads a cluster of short options. Returns the number of further words that it uses.
fn read_short_options(
    word: &Word,
    next: Option<&Word>,
    options: &OptionSet,
    given: &mut Vec<ScannedOption>,
) -> Result<usize, NotUnderstood> {
    let cluster = word.text.get(1..).unwrap_or_default();
    let is_number = !cluster.is_empty() && cluster.bytes().all(|b| b.is_ascii_digit());
    if is_number && options.has_numbers() {
        return Ok(0);
    }
    for (index, letter) in cluster.char_indices() {
        let name = letter.to_string();
        match options.takes_next(&format!("-{letter}")) {
            Some(true) => {}
            Some(false) => {
                given.push(ScannedOption { name, value: None });
                continue;
            }
            None => return Err(format!("the option -{letter}")),
        }
        let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
        if rest.is_empty() && word.shape == Shape::Literal {
            given.push(ScannedOption { name, value: Some(require_one_word(next)?) });
            return Ok(1);
        }
        given.push(ScannedOption { name, value: Some(value_in_word(word, rest)) });
        return Ok(0);
    }
    if word.shape == Shape::Literal { Ok(0) } else { Err(format!("the word {word}")) }
}

/// Returns the part of a word after an option's name.
fn value_in_word(word: &Word, rest: &str) -> Word {
    Word { text: rest.to_owned(), variable: None, plain: false, ..word.clone() }
}

/// Returns the value of an option. It must be one word: an empty or split value would shift all
/// words after it.
fn require_one_word(word: Option<&Word>) -> Result<Word, NotUnderstood> {
    match word {
        Some(word) if stays_one_word(word) => Ok(word.clone()),
        Some(word) => Err(format!("the word {word}")),
        None => Err("an option without its value".to_owned()),
    }
}

/// Accepts a file of code, which is opaque. Fails if the path may lead to the command's own input.
pub(super) fn check_opaque_file(word: &Word) -> Result<(), NotUnderstood> {
    match word.value() {
        Some(path)
            if path != "-" && !path.is_empty() && !path.split('/').any(may_lead_to_open_file) =>
        {
            Ok(())
        }
        Some(_) | None => Err(format!("the file {word}")),
    }
}

/// `true` if a part of a path could lead to an open file of the command, from any directory.
fn may_lead_to_open_file(part: &str) -> bool {
    matches!(part, ".." | "dev" | "proc" | "self" | "fd" | "stdin")
        || !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_prefix_table_is_valid() {
        let table = ProgramTable::parse(include_str!("../../tables/prefixes.txt"));
        let keys = ["options", "before", "assigns", "inert", "unclear", "bare_shell"];
        assert_eq!(table.find_faults(&keys), Vec::<String>::new());
    }

    #[test]
    fn every_line_of_the_option_lists_is_valid() {
        assert_eq!(OPTIONS.find_faults(&[]), Vec::<String>::new());
    }
}
