//! Builtins that set variables, and builtins that evaluate the names they are given.

use super::dispatch::{Effect, Reader};
use super::options::{Grammar, NO_OPTIONS, Scan, is_one, scan};
use crate::command::{Reach, Reason, Shape, Value, Word};

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
        let reach = if exported { Reach::Environment } else { Reach::Shell };
        if array {
            let name = word.text.split(['=', '+', '[']).next().unwrap_or_default();
            effects.push(Effect::IsArray(name.to_owned()));
        }
        declare_word(word, reach, integer, &mut effects);
    }
    effects
}

/// `declare -a 'a=($(command))'` runs the command: bash reads the elements of an array from a
/// value in parentheses, if the variable is one.
fn array_value(word: &Word, name: &str, value: &Value) -> Option<Effect> {
    let text = word.text.split_once('=').map_or("", |(_, text)| text);
    match value {
        Value::Text(_) if text.starts_with('(') && text.ends_with(')') => {
            Some(Effect::Script { text: format!("{name}={text}"), reader: Reader::Same })
        }
        Value::Text(_) => None,
        Value::Copy(_) | Value::Number | Value::File | Value::Unknown => {
            (text.is_empty() || text.starts_with('(')).then(|| Effect::Declares(name.to_owned()))
        }
    }
}

fn declare_word(word: &Word, reach: Reach, integer: bool, effects: &mut Vec<Effect>) {
    let (name, value) = match (word.text.split_once('='), word.shape) {
        (Some((name, text)), Shape::Literal) => (name, Value::Text(text.to_owned())),
        (Some((name, _)), _) => (name, Value::Unknown),
        (None, Shape::Literal) => (word.text.as_str(), Value::Text(String::new())),
        (None, _) => {
            effects.push(Effect::Unclear(Reason::Dynamic("the name of a variable")));
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
        effects.push(Effect::Unclear(Reason::Code("a subscript")));
    }
    effects.push(Effect::Assigns { name: name.to_owned(), value, reach });
}

/// A word that names a variable to be set.
fn sets(word: &Word, value: Value) -> Effect {
    match word.value() {
        Some(name) => Effect::Assigns { name: name.to_owned(), value, reach: Reach::Shell },
        None => Effect::Unclear(Reason::Dynamic("the name of a variable")),
    }
}

fn read(args: &[Word]) -> Vec<Effect> {
    const READ: Grammar = Grammar { flags: "ers", values: "adinNptu", ..NO_OPTIONS };
    let scan = match scan(args, &READ) {
        Ok(scan) => scan,
        Err(what) => return odd("read", what),
    };
    let names = args.get(scan.rest..).unwrap_or_default();
    let array = scan.value(&["a"]).into_iter();
    let marks: Vec<Effect> = array.clone().filter_map(Word::value).map(is_array).collect();
    let sets = array.chain(names).map(|word| sets(word, Value::Unknown));
    marks.into_iter().chain(sets).collect()
}

fn is_array(name: &str) -> Effect {
    Effect::IsArray(name.to_owned())
}

fn mapfile(args: &[Word]) -> Vec<Effect> {
    const MAPFILE: Grammar = Grammar { flags: "t", values: "dnOsuCc", ..NO_OPTIONS };
    let scan = match scan(args, &MAPFILE) {
        Ok(scan) => scan,
        Err(what) => return odd("mapfile", what),
    };
    let names = args.get(scan.rest..).unwrap_or_default();
    let callback = scan.value(&["C"]).map(|code| Effect::script(code, Reader::Same));
    let marks = names.iter().filter_map(Word::value).map(is_array);
    let sets = names.iter().map(|word| sets(word, Value::Unknown));
    callback.into_iter().chain(marks).chain(sets).collect()
}

/// `printf -v NAME` sets a variable; a first word of unknown value could turn out to be `-v`.
fn printf(args: &[Word]) -> Vec<Effect> {
    const PRINTF: Grammar = Grammar { values: "v", ..NO_OPTIONS };
    match scan(args, &PRINTF) {
        Ok(Scan { given, .. }) => given
            .iter()
            .filter_map(|given| given.value.as_ref())
            .map(|word| sets(word, Value::Unknown))
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
    let cleared = named().map(|word| sets(word, Value::Text(String::new())));
    std::iter::once(Effect::RemovesFunctions)
        .chain(named().cloned().map(Effect::Evaluates))
        .chain(cleared)
        .collect()
}

fn getopts(args: &[Word]) -> Vec<Effect> {
    let unknown = args.iter().take(2).any(|word| !is_one(word));
    match args {
        _ if unknown => odd("getopts", "its arguments".to_owned()),
        [_, name, ..] => vec![sets(name, Value::Unknown)],
        _ => Vec::new(),
    }
}

fn wait(args: &[Word]) -> Vec<Effect> {
    const WAIT: Grammar = Grammar { flags: "fn", values: "p", ..NO_OPTIONS };
    match scan(args, &WAIT) {
        Ok(scan) => scan.value(&["p"]).map(|word| sets(word, Value::Number)).into_iter().collect(),
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
    const OPERATORS: [&str; 19] = [
        "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef",
        "-a", "-o", "]", ")", "(",
    ];
    !word.value().is_some_and(|text| OPERATORS.contains(&text))
}
