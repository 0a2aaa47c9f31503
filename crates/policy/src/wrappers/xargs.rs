//! `xargs` and `parallel`: commands that get more arguments from their input.

use super::dispatch::{Effect, Reader};
use super::options::{Grammar, scan};
use crate::command::{Shape, Shell, SimpleCommand, Word};

const XARGS: Grammar = Grammar {
    flags: "0oprtx",
    values: "adEILnPs",
    long_flags: &[
        "null",
        "open-tty",
        "interactive",
        "no-run-if-empty",
        "verbose",
        "exit",
        "show-limits",
        "replace",
        "max-lines",
        "eof",
    ],
    long_values: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars"],
    numbers: false,
};

/// `xargs`: the command gets words from the input, or has them put in the place of `-I`'s text.
pub(super) fn xargs(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan(args, &XARGS) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("xargs", odd)],
    };
    // Without a command of its own it runs `echo`.
    let echo = [Word::literal("echo")];
    let given = args.get(scan.rest..).unwrap_or_default();
    let rest = if given.is_empty() { echo.as_slice() } else { given };
    let place = match (scan.value(&["I"]), scan.value(&["replace"]), scan.has(&["replace"])) {
        (Some(word), ..) | (None, Some(word), _) => match word.value() {
            Some(text) => Some(text),
            None => return vec![Effect::unclear("xargs", "the option -I")],
        },
        (None, None, true) => Some("{}"),
        (None, None, false) => None,
    };
    let words: Vec<Word> = match place {
        Some(place) => rest.iter().map(|word| with_input(word, place)).collect(),
        None => rest.iter().cloned().chain([Word::unknown("", Shape::Many)]).collect(),
    };
    Effect::runs(&words, Vec::new()).into_iter().collect()
}

fn with_input(word: &Word, place: &str) -> Word {
    match word.text.split_once(place) {
        Some((before, _)) if !place.is_empty() => Word::unknown(before, Shape::One),
        Some(_) | None => word.clone(),
    }
}

const PARALLEL: Grammar = Grammar {
    flags: "0kmqtvXrun",
    values: "jNnaILs",
    long_flags: &[
        "null",
        "keep-order",
        "quote",
        "verbose",
        "dry-run",
        "bar",
        "progress",
        "eta",
        "halt",
        "no-run-if-empty",
        "line-buffer",
        "lb",
        "ungroup",
        "group",
        "will-cite",
        "pipe",
        "xargs",
    ],
    long_values: &["jobs", "max-args", "delay", "timeout", "retries", "joblog", "colsep", "tmpdir"],
    numbers: false,
};

/// `parallel`: the words up to `:::` are joined, filled in (quoted), and given to a shell.
pub(super) fn parallel(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan(args, &PARALLEL) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("parallel", odd)],
    };
    let rest = args.get(scan.rest..).unwrap_or_default();
    let is_end = |word: &Word| word.text.starts_with(":::");
    let words = rest.split(is_end).next().unwrap_or_default();
    let texts: Option<Vec<&str>> = words.iter().map(Word::value).collect();
    match texts {
        Some(texts) if !texts.is_empty() && !texts.iter().any(|text| text.starts_with('{')) => {
            vec![Effect::Script { text: texts.join(" "), reader: Reader::Other(Shell::Bash) }]
        }
        Some(_) | None => vec![Effect::unclear("parallel", "a command from its input")],
    }
}
