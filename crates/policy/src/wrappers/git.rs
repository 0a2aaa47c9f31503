//! `git`: settings, options and subcommands that run other programs.

use std::sync::LazyLock;

use super::editors::{git_editor, git_edits};
use super::effect::{Effect, Reader, SH};
use super::scan::{Scan, is_one, option_set, scan};
use crate::command::{AssignedValue, AssignmentScope, Shape, SimpleCommand, UncertainReason, Word};
use crate::options::OptionSet;
use crate::tables::has_word;

/// The options before the subcommand.
static GLOBAL: LazyLock<OptionSet> = LazyLock::new(|| option_set("git"));

/// Subcommands that come with git; any other name is a program `git-NAME` or an alias.
const KNOWN: &str = "add am annotate apply archive bisect blame branch bundle cat-file check-attr \
    check-ignore check-ref-format checkout checkout-index cherry cherry-pick clean clone \
    commit commit-graph commit-tree config count-objects credential describe diff diff-files \
    diff-index diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch \
    for-each-ref format-patch fsck gc get-tar-commit-id grep hash-object help index-pack \
    init interpret-trailers lfs log ls-files ls-remote ls-tree mailinfo maintenance merge \
    merge-base merge-file merge-tree mergetool mktag mktree mv name-rev notes pack-refs \
    prune pack-objects pull push range-diff read-tree rebase reflog remote repack replace \
    request-pull rerere reset restore rev-list rev-parse revert rm send-email shortlog show \
    show-ref sparse-checkout stash status submodule switch tag update-index update-ref \
    update-server-info var verify-commit verify-pack verify-tag version whatchanged worktree \
    write-tree symbolic-ref stripspace show-branch";

/// The words from the subcommand on; all of them where the options are not understood.
pub(crate) fn git_operands(args: &[Word]) -> &[Word] {
    scan(args, &GLOBAL).ok().and_then(|scan| args.get(scan.rest..)).unwrap_or(args)
}

pub(super) fn git(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan(args, &GLOBAL) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("git", odd)],
    };
    let mut effects = settings(&scan);
    let rest = args.get(scan.rest..).unwrap_or_default();
    let Some((name, rest)) = rest.split_first() else {
        return effects;
    };
    match name.value() {
        Some(text) => effects.extend(subcommand(text, rest)),
        None => effects.push(Effect::unclear("git", format!("the word {name}"))),
    }
    effects
}

/// `-c name=value`, `--exec-path=…`, `--config-env=…`.
fn settings(scan: &Scan) -> Vec<Effect> {
    let mut effects = Vec::new();
    for given in &scan.given {
        let text = given.value.as_ref().map(|word| (word.text.as_str(), word.value().is_some()));
        match (given.name.as_str(), text) {
            ("c", Some((text, literal))) => effects.extend(setting(text, literal)),
            ("exec-path" | "config-env", Some(_)) => {
                effects.push(Effect::unclear("git", format!("the option --{}", given.name)));
            }
            _ => {}
        }
    }
    effects
}

/// One setting: harmless, text for a shell, or not understood.
fn setting(text: &str, literal: bool) -> Option<Effect> {
    /// Settings that only change what is shown or written.
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
        Some("cat" | "true" | "false" | "") if literal && is_viewer(&name) => None,
        Some(code) if literal && name.starts_with("alias.") => {
            Some(Effect::Script { text: code.to_owned(), reader: SH })
        }
        Some(_) | None => Some(Effect::unclear("git", format!("the setting {name}"))),
    }
}

/// Whether a setting names a program that only shows or edits a text.
fn is_viewer(name: &str) -> bool {
    name.starts_with("pager.") || ["core.pager", "core.editor", "sequence.editor"].contains(&name)
}

fn subcommand(name: &str, args: &[Word]) -> Vec<Effect> {
    let mut effects = if git_edits(name, args) { git_editor() } else { Vec::new() };
    effects.extend(launches(name, args));
    effects
}

fn launches(name: &str, args: &[Word]) -> Vec<Effect> {
    match name {
        "bisect" => bisect(args),
        "submodule" => foreach(args),
        "rebase" => options_with_code(name, args, &["-x", "--exec"]),
        "difftool" => options_with_code(name, args, &["-x", "--extcmd", "-t", "--tool"]),
        "filter-branch" => vec![Effect::unclear("git filter-branch", "a filter")],
        "grep" => options_with_code(name, args, &["-O", "--open-files-in-pager"]),
        "clone" | "fetch" | "pull" | "push" | "ls-remote" | "fetch-pack" | "archive" | "remote" => {
            transport(name, args)
        }
        "config" => config(args),
        "init" => options_with_code(name, args, &["--template"]),
        "send-email" | "mergetool" | "credential" | "maintenance" => {
            vec![Effect::unclear(&format!("git {name}"), "what it starts")]
        }
        _ if KNOWN.split(' ').any(|known| known == name) => Vec::new(),
        _ => {
            // An alias in a configuration file, or a program on PATH.
            let mut words = vec![Word::literal(format!("git-{name}"))];
            words.extend_from_slice(args);
            Effect::runs(&words, Vec::new()).into_iter().collect()
        }
    }
}

/// Options whose value is run by a shell; a word that could become one is uncertain.
fn options_with_code(name: &str, args: &[Word], options: &[&str]) -> Vec<Effect> {
    let program = format!("git {name}");
    let mut effects = Vec::new();
    for (index, word) in args.iter().enumerate() {
        if word.may_become_option() {
            effects.push(Effect::unclear(&program, format!("the word {word}")));
        }
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

/// Whether a word is this option: whole, cut short, or with its value attached.
pub(super) fn is_option(text: &str, option: &str) -> bool {
    if !option.starts_with("--") {
        let letter = option.get(1..).unwrap_or_default();
        return text.starts_with('-') && !text.starts_with("--") && text.contains(letter);
    }
    let name = text.split('=').next().unwrap_or(text);
    name.len() > 2 && option.starts_with(name)
}

/// `ext::` runs a command; so do the options that name the program on the other side.
fn transport(name: &str, args: &[Word]) -> Vec<Effect> {
    const OPTIONS: [&str; 5] =
        ["--upload-pack", "--receive-pack", "--exec", "--template", "--config"];
    let program = format!("git {name}");
    let mut effects = Vec::new();
    for (index, word) in args.iter().enumerate() {
        let named = OPTIONS.iter().any(|option| is_option(&word.text, option));
        let short = name == "clone" && is_option(&word.text, "-u");
        let setting = name == "clone" && is_option(&word.text, "-c");
        let value = index.checked_sub(1).and_then(|index| args.get(index));
        let free = word.value().is_none()
            && word.text.is_empty()
            && !value.is_some_and(|option| option.is("-b") || option.is("--branch"));
        if named || short || setting || free || word.text.contains("::") {
            effects.push(Effect::unclear(&program, format!("the word {word}")));
        }
    }
    effects
}

fn bisect(args: &[Word]) -> Vec<Effect> {
    match args {
        [first, rest @ ..] if first.is("run") => {
            Effect::runs(rest, Vec::new()).into_iter().collect()
        }
        [first, ..] if first.value().is_none() => {
            vec![Effect::unclear("git bisect", format!("the word {first}"))]
        }
        _ => Vec::new(),
    }
}

/// `git submodule foreach TEXT`: one word is text for a shell, several are joined.
fn foreach(args: &[Word]) -> Vec<Effect> {
    let Some(position) = args.iter().position(|word| word.is("foreach")) else {
        let odd = args.iter().find(|word| word.may_become_option());
        let odd = odd.map(|word| Effect::unclear("git submodule", format!("the word {word}")));
        return odd.into_iter().collect();
    };
    let rest = args.get(position + 1..).unwrap_or_default();
    let rest: Vec<&Word> = rest.iter().filter(|word| !word.text.starts_with("--")).collect();
    let texts: Option<Vec<&str>> = rest.iter().map(|word| word.value()).collect();
    match texts {
        Some(texts) => vec![Effect::Script { text: texts.join(" "), reader: SH }],
        None => vec![Effect::unclear("git submodule", "text of unknown value")],
    }
}

/// The options of `git config` and where its words start; those behind the first word are words.
static CONFIG: LazyLock<OptionSet> = LazyLock::new(|| option_set("git_config"));

/// `git config name value` is `-c name=value` that stays.
fn config(args: &[Word]) -> Vec<Effect> {
    const ACTIONS: [&str; 5] = ["get", "list", "set", "unset", "edit"];
    const READS: [&str; 8] =
        ["get", "get-all", "get-regexp", "get-urlmatch", "list", "l", "unset", "unset-all"];
    let odd = |what: String| vec![Effect::unclear("git config", what)];
    let mut given = Vec::new();
    let mut rest = args;
    let mut action = None;
    loop {
        let scan = match scan(rest, &CONFIG) {
            Ok(scan) => scan,
            Err(what) => return odd(what),
        };
        rest = rest.get(scan.rest..).unwrap_or_default();
        given.extend(scan.given);
        let first = rest.first().and_then(Word::value);
        match first.and_then(|first| ACTIONS.iter().find(|it| **it == first)) {
            Some(found) if action.is_none() => action = Some(*found),
            Some(_) | None => break,
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    let has = |names: &[&str]| given.iter().any(|it| names.contains(&it.name.as_str()));
    if action == Some("edit") || has(&["e", "edit"]) {
        return git_editor();
    }
    if matches!(action, Some("get" | "list" | "unset")) || (action.is_none() && has(&READS)) {
        return Vec::new();
    }
    match rest {
        [name] if name.value().is_some() && action.is_none() => Vec::new(),
        [_, _, ..] if has(&["f", "file"]) => odd("another file".to_owned()),
        [name, value, ..] => {
            let literal = name.value().is_some() && value.value().is_some();
            setting(&format!("{}={}", name.text, value.text), literal).into_iter().collect()
        }
        [] | [_] => odd("what it changes".to_owned()),
    }
}

// Builtins that set variables, and builtins that evaluate the names they are given.

/// What such a builtin leads to; `None` for anything else.
pub(super) fn effects(name: &str, args: &[Word]) -> Option<Vec<Effect>> {
    let effects = match name {
        "declare" | "typeset" | "local" | "export" | "readonly" => declare(name, args),
        "read" => read(args),
        "mapfile" | "readarray" => mapfile(args),
        "printf" => printf(args),
        "unset" => unset(args),
        "getopts" => getopts(args),
        "wait" => wait(args),
        "let" => args.iter().cloned().map(Effect::Evaluates).collect(),
        "test" | "[" => test(args),
        _ => return None,
    };
    Some(effects)
}

fn odd(program: &str, what: String) -> Vec<Effect> {
    vec![Effect::unclear(program, what)]
}

fn declare(name: &str, args: &[Word]) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut exported = name == "export";
    let (mut integer, mut array) = (false, false);
    for word in args {
        if word.shape == Shape::Process {
            // The array of this name; its elements are noted under the name.
            if integer {
                effects.push(Effect::Evaluates(Word::literal(word.text.clone())));
            }
            continue;
        }
        if word.text.starts_with(['-', '+']) && word.value().is_some() {
            if word.text.contains('n') && name != "export" {
                effects.push(Effect::unclear(name, "a reference to another variable"));
            }
            exported |= word.text.contains('x');
            integer |= word.text.contains('i');
            array |= word.text.contains(['a', 'A']);
            continue;
        }
        let scope = if exported { AssignmentScope::Environment } else { AssignmentScope::Shell };
        if array {
            let name = word.text.split(['=', '+', '[']).next().unwrap_or_default();
            effects.push(Effect::IsArray(name.to_owned()));
        }
        declare_word(word, scope, integer, &mut effects);
    }
    effects
}

/// `declare -a 'a=($(command))'` runs the command: bash reads the elements of an array from a
/// value in parentheses, if the variable is one.
fn array_value(word: &Word, name: &str, value: &AssignedValue) -> Option<Effect> {
    let text = word.text.split_once('=').map_or("", |(_, text)| text);
    match value {
        AssignedValue::Text(_) if text.starts_with('(') && text.ends_with(')') => {
            Some(Effect::Script { text: format!("{name}={text}"), reader: Reader::Same })
        }
        AssignedValue::Text(_) => None,
        AssignedValue::Copy(_)
        | AssignedValue::Number
        | AssignedValue::File
        | AssignedValue::Unknown => {
            (text.is_empty() || text.starts_with('(')).then(|| Effect::Declares(name.to_owned()))
        }
    }
}

fn declare_word(word: &Word, scope: AssignmentScope, integer: bool, effects: &mut Vec<Effect>) {
    let (name, value) = match (word.text.split_once('='), word.shape) {
        (Some((name, text)), Shape::Literal) => (name, AssignedValue::Text(text.to_owned())),
        (Some((name, _)), _) => (name, AssignedValue::Unknown),
        (None, Shape::Literal) => (word.text.as_str(), AssignedValue::Text(String::new())),
        (None, _) => {
            effects.push(Effect::Unclear(UncertainReason::Dynamic("the name of a variable")));
            return;
        }
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let plain = name.split('[').next().unwrap_or_default();
    effects.extend(array_value(word, plain, &value));
    if integer {
        effects.push(Effect::Evaluates(Word::literal(name)));
    }
    if word.shape != Shape::Literal && word.variable.is_none() && word.text.contains('[') {
        effects.push(Effect::Unclear(UncertainReason::Code("a subscript")));
    }
    effects.push(Effect::Assigns { name: name.to_owned(), value, scope });
}

/// A word that names a variable to be set.
fn sets(word: &Word, value: AssignedValue) -> Effect {
    match word.value() {
        Some(name) => {
            Effect::Assigns { name: name.to_owned(), value, scope: AssignmentScope::Shell }
        }
        None => Effect::Unclear(UncertainReason::Dynamic("the name of a variable")),
    }
}

fn read(args: &[Word]) -> Vec<Effect> {
    static READ: LazyLock<OptionSet> =
        LazyLock::new(|| OptionSet::parse("-e -r -s -a== -d== -i== -n== -N== -p== -t== -u=="));
    let scan = match scan(args, &READ) {
        Ok(scan) => scan,
        Err(what) => return odd("read", what),
    };
    let names = args.get(scan.rest..).unwrap_or_default();
    let array = scan.value(&["a"]).into_iter();
    let marks: Vec<Effect> = array.clone().filter_map(Word::value).map(is_array).collect();
    let sets = array.chain(names).map(|word| sets(word, AssignedValue::Unknown));
    marks.into_iter().chain(sets).collect()
}

fn is_array(name: &str) -> Effect {
    Effect::IsArray(name.to_owned())
}

fn mapfile(args: &[Word]) -> Vec<Effect> {
    static MAPFILE: LazyLock<OptionSet> =
        LazyLock::new(|| OptionSet::parse("-t -d== -n== -O== -s== -u== -C== -c=="));
    let scan = match scan(args, &MAPFILE) {
        Ok(scan) => scan,
        Err(what) => return odd("mapfile", what),
    };
    let names = args.get(scan.rest..).unwrap_or_default();
    let callback = scan.value(&["C"]).map(|code| Effect::script(code, Reader::Same));
    let marks = names.iter().filter_map(Word::value).map(is_array);
    let sets = names.iter().map(|word| sets(word, AssignedValue::Unknown));
    callback.into_iter().chain(marks).chain(sets).collect()
}

/// `printf -v NAME` sets a variable; a first word of unknown value could turn out to be `-v`.
fn printf(args: &[Word]) -> Vec<Effect> {
    static PRINTF: LazyLock<OptionSet> = LazyLock::new(|| OptionSet::parse("-v=="));
    match scan(args, &PRINTF) {
        Ok(Scan { given, .. }) => given
            .iter()
            .filter_map(|given| given.value.as_ref())
            .map(|word| sets(word, AssignedValue::Unknown))
            .collect(),
        Err(_)
            if args.first().and_then(Word::value).is_some_and(|text| !text.starts_with("-v")) =>
        {
            Vec::new()
        }
        Err(what) => odd("printf", what),
    }
}

/// `unset 'a[$(command)]'` runs the command; `unset -f` can bring a program back from behind a
/// function. A name that is gone counts like one that is set.
fn unset(args: &[Word]) -> Vec<Effect> {
    let named = || args.iter().filter(|word| !word.text.starts_with('-') || word.value().is_none());
    let cleared = named().map(|word| sets(word, AssignedValue::Text(String::new())));
    std::iter::once(Effect::RemovesFunctions)
        .chain(named().cloned().map(Effect::Evaluates))
        .chain(cleared)
        .collect()
}

fn getopts(args: &[Word]) -> Vec<Effect> {
    let unknown = args.iter().take(2).any(|word| !is_one(word));
    match args {
        _ if unknown => odd("getopts", "its arguments".to_owned()),
        [_, name, ..] => vec![sets(name, AssignedValue::Unknown)],
        _ => Vec::new(),
    }
}

fn wait(args: &[Word]) -> Vec<Effect> {
    static WAIT: LazyLock<OptionSet> = LazyLock::new(|| OptionSet::parse("-f -n -p=="));
    match scan(args, &WAIT) {
        Ok(scan) => {
            scan.value(&["p"]).map(|word| sets(word, AssignedValue::Number)).into_iter().collect()
        }
        Err(_) if args.iter().all(|word| word.variable.as_deref() == Some("#")) => Vec::new(),
        Err(what) => odd("wait", what),
    }
}

/// `test -v NAME` evaluates subscripts. A word that splits could bring its own `-v`.
fn test(args: &[Word]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (index, word) in args.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| args.get(index));
        if before.is_some_and(|before| before.is("-v") || before.is("-R")) {
            effects.push(Effect::Evaluates(word.clone()));
        }
        let next = args.get(index + 1);
        if word.shape == Shape::Many && word.variable.as_deref() != Some("#") {
            effects.push(Effect::Evaluates(word.clone()));
        } else if word.value().is_none() && word.text.is_empty() && next.is_some_and(is_operand) {
            // `[ "$op" "$name" ]`: the first word may turn out to be `-v`.
            if let Some(next) = next {
                effects.push(Effect::Evaluates(next.clone()));
            }
        }
    }
    effects
}

/// Whether a word after another one in `test` can be a name: neither operator nor closing bracket.
fn is_operand(word: &Word) -> bool {
    const OPERATORS: &str = "= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ] ) (";
    !word.value().is_some_and(|text| has_word(OPERATORS, text))
}
