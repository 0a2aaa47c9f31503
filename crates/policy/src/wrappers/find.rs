//! `find -exec`, `fd -x`, `xargs` and `parallel`: commands in the arguments.

use std::sync::LazyLock;

use super::effect::{Effect, ScriptReader};
use super::scan::{option_set, scan_options};
use crate::command::{Shape, ShellSyntax, SimpleCommand, Word};
use crate::options::OptionSet;
use crate::tables::has_word;

/// Actions that run the words up to `;` or `+`.
const ACTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Returns the effects of `find`: the command of each action. A word that could become an action is
/// uncertain.
pub(super) fn find_effects(command: &SimpleCommand) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut index = 0;
    let mut expression = false;
    while let Some(word) = command.args.get(index) {
        index += 1;
        // A pattern may match several files, but nobody names files like an action. Any other word
        // that may become several words could become an action.
        let value_of_test = expression
            && index >= 2
            && word.shape != Shape::Many
            && is_test_with_value(command.args.get(index - 2));
        if word.may_become_option() && !value_of_test {
            effects.push(Effect::unclear("find", format!("the word {word}")));
        }
        expression |= word.text.starts_with('-') || word.is("(") || word.is("!");
        if word.value().is_some_and(|text| ACTIONS.contains(&text)) {
            let rest = command.args.get(index..).unwrap_or_default();
            let Some(length) = action_length(rest) else {
                effects.push(Effect::unclear("find", "an action without its end"));
                return effects;
            };
            let words: Vec<Word> = rest.iter().take(length).map(replace_path_placeholder).collect();
            effects.extend(Effect::runs(&words, Vec::new()));
            index += length + 1;
        }
    }
    effects
}

/// Returns the number of words up to `;`, or up to a `+` directly after `{}`.
fn action_length(words: &[Word]) -> Option<usize> {
    let ends = |index: usize| {
        let after_path =
            || index.checked_sub(1).and_then(|it| words.get(it)).is_some_and(|it| it.is("{}"));
        words.get(index).is_some_and(|word| word.is(";") || (word.is("+") && after_path()))
    };
    (0..words.len()).find(|index| ends(*index))
}

/// `true` for a test of `find` whose value is the next word.
fn is_test_with_value(word: Option<&Word>) -> bool {
    const TESTS: &str = "-name -iname -path -ipath -wholename -regex -iregex -type -user -group -newer -size \
        -perm -mtime -mmin -atime -amin -ctime -cmin -maxdepth -mindepth -printf -samefile \
        -lname";
    word.and_then(Word::value).is_some_and(|text| has_word(TESTS, text))
}

/// Replaces `{}` by an unknown path. It is below a starting point, so it is not an option.
fn replace_path_placeholder(word: &Word) -> Word {
    match word.text.split_once("{}") {
        Some(("", _)) => Word::unknown("./", Shape::One),
        Some((before, _)) => Word::unknown(before, Shape::One),
        None => word.clone(),
    }
}

/// Returns the effects of `fd`: all words after `-x` or `-X`, up to `;`, are a command.
pub(super) fn fd_effects(command: &SimpleCommand) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut words = command.args.iter().enumerate();
    while let Some((index, word)) = words.next() {
        if word.may_become_option() {
            effects.push(Effect::unclear("fd", format!("the word {word}")));
        }
        let text = word.text.as_str();
        let (long, attached) = text.split_once('=').unwrap_or((text, ""));
        let executes =
            is_short_exec_option(text) || (long.len() > 4 && "--exec-batch".starts_with(long));
        if !executes {
            continue;
        }
        if !attached.is_empty() || (is_short_exec_option(text) && !text.ends_with(['x', 'X'])) {
            effects.push(Effect::unclear("fd", format!("the word {word}")));
        }
        let rest = command.args.get(index + 1..).unwrap_or_default();
        let length = rest.iter().position(|word| word.is(";")).unwrap_or(rest.len());
        let inner: Vec<Word> = rest.iter().take(length).map(replace_fd_placeholder).collect();
        effects.extend(Effect::runs(&inner, Vec::new()));
        words.by_ref().take(length + 1).for_each(drop);
    }
    effects
}

fn is_short_exec_option(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--") && text.contains(['x', 'X'])
}

fn replace_fd_placeholder(word: &Word) -> Word {
    match word.text.split_once('{') {
        Some(("", _)) => Word::unknown("./", Shape::One),
        Some((before, _)) => Word::unknown(before, Shape::One),
        None => word.clone(),
    }
}

// `xargs` and `parallel`: commands that get more arguments from the input.

static XARGS: LazyLock<OptionSet> = LazyLock::new(|| option_set("xargs"));

/// Returns the effects of `xargs`: its command gets words from the input, at the end or instead of
/// the placeholder of `-I`.
pub(super) fn xargs_effects(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan_options(args, &XARGS) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("xargs", odd)],
    };
    // Without a command `xargs` runs `echo`.
    let echo = [Word::literal("echo")];
    let command = args.get(scan.rest..).unwrap_or_default();
    let rest = if command.is_empty() { echo.as_slice() } else { command };
    let placeholder = match (scan.value(&["I"]), scan.value(&["replace"]), scan.has(&["replace"])) {
        (Some(word), ..) | (None, Some(word), _) => match word.value() {
            Some(text) => Some(text),
            None => return vec![Effect::unclear("xargs", "the option -I")],
        },
        (None, None, true) => Some("{}"),
        (None, None, false) => None,
    };
    let words: Vec<Word> = match placeholder {
        Some(text) => rest.iter().map(|word| replace_input_placeholder(word, text)).collect(),
        None => rest.iter().cloned().chain([Word::unknown("", Shape::Many)]).collect(),
    };
    Effect::runs(&words, Vec::new()).into_iter().collect()
}

fn replace_input_placeholder(word: &Word, placeholder: &str) -> Word {
    match word.text.split_once(placeholder) {
        Some((before, _)) if !placeholder.is_empty() => Word::unknown(before, Shape::One),
        Some(_) | None => word.clone(),
    }
}

static PARALLEL: LazyLock<OptionSet> = LazyLock::new(|| option_set("parallel"));

/// Returns the effects of `parallel`: it joins the words up to `:::`, fills in quoted values, and
/// passes the text to a shell.
pub(super) fn parallel_effects(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan_options(args, &PARALLEL) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("parallel", odd)],
    };
    let rest = args.get(scan.rest..).unwrap_or_default();
    let is_end = |word: &Word| word.text.starts_with(":::");
    let words = rest.split(is_end).next().unwrap_or_default();
    let texts: Option<Vec<&str>> = words.iter().map(Word::value).collect();
    match texts {
        Some(texts) if !texts.is_empty() && !texts.iter().any(|text| text.starts_with('{')) => {
            vec![Effect::Script {
                text: texts.join(" "),
                reader: ScriptReader::Other(ShellSyntax::Bash),
            }]
        }
        Some(_) | None => vec![Effect::unclear("parallel", "a command from its input")],
    }
}
