//! Builtins of bash that run text, or change how text is read.

use std::sync::LazyLock;

use super::effect::{Effect, Reader};
use super::git;
use super::scan::scan;
use crate::command::{Shape, SimpleCommand, UncertainReason, Word};
use crate::options::OptionSet;
use crate::tables::has_word;

/// What a builtin leads to; `None` if it leads to nothing, or is none.
pub(super) fn effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let args = command.args.as_slice();
    let effects = match name {
        "eval" => eval(args),
        "trap" => trap(args),
        "." | "source" => vec![unclear(UncertainReason::Dynamic("what `source` reads"))],
        "alias" => alias(args),
        "unalias" | "enable" | "fc" | "bind" | "complete" | "compopt" => {
            vec![Effect::unclear(name, "what it sets up")]
        }
        "hash" => hash(args),
        "compgen" => compgen(args),
        "set" => set(args),
        "shopt" => shopt(args),
        "jobs" => jobs(args),
        "logout" | "suspend" | "history" if !args.is_empty() => {
            vec![Effect::unclear(name, "its arguments")]
        }
        _ => return git::effects(name, args),
    };
    Some(effects)
}

const fn unclear(reason: UncertainReason) -> Effect {
    Effect::Unclear(reason)
}

/// `eval` joins its arguments with blanks and runs them.
fn eval(args: &[Word]) -> Vec<Effect> {
    let args = if args.first().is_some_and(|word| word.is("--")) { &args[1..] } else { args };
    let texts: Option<Vec<&str>> = args.iter().map(Word::value).collect();
    match texts {
        Some(texts) if texts.first().is_some_and(|text| text.starts_with('-')) => {
            vec![Effect::unclear("eval", "an option")]
        }
        Some(texts) => vec![Effect::Script { text: texts.join(" "), reader: Reader::Same }],
        None => vec![unclear(UncertainReason::Dynamic("the text of `eval`"))],
    }
}

/// `trap CODE SIGNAL…`; `-`, an empty text and the listing forms run nothing.
fn trap(args: &[Word]) -> Vec<Effect> {
    let mut args = args;
    match args.first().and_then(Word::value) {
        Some("-l" | "-p" | "-lp" | "-") => return Vec::new(),
        Some("--") => args = &args[1..],
        Some(text) if text.starts_with('-') => return vec![Effect::unclear("trap", "an option")],
        Some(_) | None => {}
    }
    match args {
        [] => Vec::new(),
        [code, ..] if code.shape == Shape::Many || code.shape == Shape::Glob => {
            vec![unclear(UncertainReason::Dynamic("the text of `trap`"))]
        }
        [code, ..] => vec![Effect::script(code, Reader::Same)],
    }
}

/// Only the listing of aliases is harmless.
fn alias(args: &[Word]) -> Vec<Effect> {
    if args.iter().all(|word| word.is("-p")) {
        return Vec::new();
    }
    vec![Effect::unclear("alias", "an alias")]
}

/// `hash -p PATH NAME` makes a name mean another program.
fn hash(args: &[Word]) -> Vec<Effect> {
    let harmless = |word: &Word| {
        word.value()
            .is_some_and(|text| !text.starts_with('-') || matches!(text, "-r" | "-l" | "-t"))
    };
    if args.iter().all(harmless) {
        return Vec::new();
    }
    vec![Effect::unclear("hash", "an option")]
}

/// `compgen -C` runs a command, `-F` a function, and `-W` expands its words.
fn compgen(args: &[Word]) -> Vec<Effect> {
    let odd = |text: &str| {
        text.contains(['$', '`']) || (text.starts_with('-') && text.contains(['C', 'F', 'X']))
    };
    let harmless = |word: &Word| word.value().is_some_and(|text| !odd(text));
    if args.iter().all(harmless) {
        return Vec::new();
    }
    vec![Effect::unclear("compgen", "its arguments")]
}

/// Options that change neither the reading of the text nor what names mean.
const SET_NAMES: &str = "allexport errexit errtrace functrace hashall monitor noclobber noglob notify nounset \
    physical pipefail verbose xtrace";
static SET: LazyLock<OptionSet> =
    LazyLock::new(|| OptionSet::parse("-a -b -e -f -h -m -u -v -x -C -E -T -P -o=="));

fn set(args: &[Word]) -> Vec<Effect> {
    let mut effects = Vec::new();
    // `+x` turns an option off and is read like `-x`.
    let options: Vec<Word> = args.iter().map(minus).collect();
    if options.len() == 1 && options.iter().any(|word| word.is("-o")) {
        return effects;
    }
    let scan = match scan(&options, &SET) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("set", odd)],
    };
    for given in scan.given.iter().filter(|given| given.name == "o") {
        let name = given.value.as_ref().and_then(Word::value);
        if !name.is_some_and(|name| has_word(SET_NAMES, name)) {
            effects.push(Effect::unclear("set", "the option -o"));
        }
    }
    effects
}

fn minus(word: &Word) -> Word {
    match (word.value(), word.text.strip_prefix('+')) {
        (Some(_), Some(rest)) if !rest.is_empty() => Word::literal(format!("-{rest}")),
        _ => word.clone(),
    }
}

const SHOPT_NAMES: &str = "autocd cdspell checkhash checkjobs checkwinsize cmdhist dotglob failglob globstar \
    globasciiranges huponexit inherit_errexit lastpipe nocaseglob nocasematch nullglob";

fn shopt(args: &[Word]) -> Vec<Effect> {
    let known = |word: &Word| {
        word.value().is_some_and(|text| {
            matches!(text, "-s" | "-u" | "-q" | "-p" | "-sq" | "-uq") || has_word(SHOPT_NAMES, text)
        })
    };
    if args.iter().all(known) {
        return Vec::new();
    }
    vec![Effect::unclear("shopt", "an option")]
}

/// `jobs -x COMMAND` runs it.
fn jobs(args: &[Word]) -> Vec<Effect> {
    match args {
        [first, rest @ ..] if first.is("-x") => {
            Effect::runs(rest, Vec::new()).into_iter().collect()
        }
        [] => Vec::new(),
        args if args.iter().all(|word| word.value().is_some_and(|text| !text.contains('x'))) => {
            Vec::new()
        }
        _ => vec![Effect::unclear("jobs", "an option")],
    }
}
