//! `find -exec`, `fd -x`, `xargs` and `parallel`: commands among the arguments.

use std::sync::LazyLock;

use super::effect::{Effect, Reader};
use super::scan::{option_set, scan};
use crate::command::{Shape, ShellSyntax, SimpleCommand, Word};
use crate::options::OptionSet;
use crate::tables::has_word;

/// Actions that run the words up to `;` or `+`.
const ACTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// `find`: each `-exec` and its kin. A word that could become an action is uncertain.
pub(super) fn find(command: &SimpleCommand) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut index = 0;
    let mut expression = false;
    while let Some(word) = command.args.get(index) {
        index += 1;
        // A pattern may match several files, but nobody names those like an action. Any other word
        // that may become several could bring one.
        let value_of_test = expression
            && index >= 2
            && word.shape != Shape::Many
            && is_value(command.args.get(index - 2));
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
            let words: Vec<Word> = rest.iter().take(length).map(with_path).collect();
            effects.extend(Effect::runs(&words, Vec::new()));
            index += length + 1;
        }
    }
    effects
}

/// The number of words up to `;`, or up to a `+` that stands directly behind `{}`.
fn action_length(words: &[Word]) -> Option<usize> {
    let ends = |index: usize| {
        let after_path =
            || index.checked_sub(1).and_then(|it| words.get(it)).is_some_and(|it| it.is("{}"));
        words.get(index).is_some_and(|word| word.is(";") || (word.is("+") && after_path()))
    };
    (0..words.len()).find(|index| ends(*index))
}

/// Whether this is a test of `find` that takes the next word as its value.
fn is_value(word: Option<&Word>) -> bool {
    const TESTS: &str = "-name -iname -path -ipath -wholename -regex -iregex -type -user -group -newer -size \
        -perm -mtime -mmin -atime -amin -ctime -cmin -maxdepth -mindepth -printf -samefile \
        -lname";
    word.and_then(Word::value).is_some_and(|text| has_word(TESTS, text))
}

/// `{}` becomes a path below a starting point, so it is no option.
fn with_path(word: &Word) -> Word {
    match word.text.split_once("{}") {
        Some(("", _)) => Word::unknown("./", Shape::One),
        Some((before, _)) => Word::unknown(before, Shape::One),
        None => word.clone(),
    }
}

/// `fd`: everything behind `-x` or `-X` is a command, up to `;`.
pub(super) fn fd(command: &SimpleCommand) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut words = command.args.iter().enumerate();
    while let Some((index, word)) = words.next() {
        if word.may_become_option() {
            effects.push(Effect::unclear("fd", format!("the word {word}")));
        }
        let text = word.text.as_str();
        let (long, attached) = text.split_once('=').unwrap_or((text, ""));
        let executes = is_short(text) || (long.len() > 4 && "--exec-batch".starts_with(long));
        if !executes {
            continue;
        }
        if !attached.is_empty() || (is_short(text) && !text.ends_with(['x', 'X'])) {
            effects.push(Effect::unclear("fd", format!("the word {word}")));
        }
        let rest = command.args.get(index + 1..).unwrap_or_default();
        let length = rest.iter().position(|word| word.is(";")).unwrap_or(rest.len());
        let inner: Vec<Word> = rest.iter().take(length).map(with_placeholder).collect();
        effects.extend(Effect::runs(&inner, Vec::new()));
        words.by_ref().take(length + 1).for_each(drop);
    }
    effects
}

fn is_short(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--") && text.contains(['x', 'X'])
}

fn with_placeholder(word: &Word) -> Word {
    match word.text.split_once('{') {
        Some(("", _)) => Word::unknown("./", Shape::One),
        Some((before, _)) => Word::unknown(before, Shape::One),
        None => word.clone(),
    }
}

// `xargs` and `parallel`: commands that get more arguments from their input.

static XARGS: LazyLock<OptionSet> = LazyLock::new(|| option_set("xargs"));

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

static PARALLEL: LazyLock<OptionSet> = LazyLock::new(|| option_set("parallel"));

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
            vec![Effect::Script { text: texts.join(" "), reader: Reader::Other(ShellSyntax::Bash) }]
        }
        Some(_) | None => vec![Effect::unclear("parallel", "a command from its input")],
    }
}
