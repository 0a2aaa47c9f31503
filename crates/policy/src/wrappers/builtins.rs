//! Builtins of bash that run text, change how text is read, or set variables.

use std::sync::LazyLock;

use super::prefix::{ScannedOptions, scan_options};
use crate::command::{
    Effect, ScriptReader, Shape, SimpleCommand, UncertainReason, VariableValue, Word,
};
use crate::options::{OptionSet, has_word, stays_one_word};

/// Returns the effects of a builtin; `None` if it has none, or for any other command.
pub(super) fn builtin_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let args = command.args.as_slice();
    let effects = match name {
        "eval" => eval_effects(args),
        "trap" => trap_effects(args),
        "." | "source" => vec![Effect::Unclear(UncertainReason::Dynamic("what `source` reads"))],
        "alias" => alias_effects(args),
        "unalias" | "enable" | "fc" | "bind" | "complete" | "compopt" => {
            vec![Effect::unclear(name, "what it sets up")]
        }
        "hash" => hash_effects(args),
        "compgen" => compgen_effects(args),
        "set" => set_effects(args),
        "shopt" => shopt_effects(args),
        "jobs" => jobs_effects(args),
        "logout" | "suspend" | "history" if !args.is_empty() => {
            vec![Effect::unclear(name, "its arguments")]
        }
        _ => return variable_builtin_effects(name, args),
    };
    Some(effects)
}

/// Returns the effects of `eval`, which joins its arguments with blanks and runs them.
fn eval_effects(args: &[Word]) -> Vec<Effect> {
    let args = if args.first().is_some_and(|word| word.is("--")) { &args[1..] } else { args };
    let texts: Option<Vec<&str>> = args.iter().map(Word::value).collect();
    match texts {
        Some(texts) if texts.first().is_some_and(|text| text.starts_with('-')) => {
            vec![Effect::unclear("eval", "an option")]
        }
        Some(texts) => vec![Effect::Script { text: texts.join(" "), reader: ScriptReader::Same }],
        None => vec![Effect::Unclear(UncertainReason::Dynamic("the text of `eval`"))],
    }
}

/// Returns the effects of `trap CODE SIGNAL…`; `-`, an empty text and the listing forms run
/// nothing.
fn trap_effects(args: &[Word]) -> Vec<Effect> {
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
            vec![Effect::Unclear(UncertainReason::Dynamic("the text of `trap`"))]
        }
        [code, ..] => vec![Effect::script(code, ScriptReader::Same)],
    }
}

/// Returns the effects of `alias`: only listing aliases is harmless.
fn alias_effects(args: &[Word]) -> Vec<Effect> {
    if args.iter().all(|word| word.is("-p")) {
        return Vec::new();
    }
    vec![Effect::unclear("alias", "an alias")]
}

/// Returns the effects of `hash`: `hash -p PATH NAME` makes a name start another program.
fn hash_effects(args: &[Word]) -> Vec<Effect> {
    let harmless = |word: &Word| {
        word.value()
            .is_some_and(|text| !text.starts_with('-') || matches!(text, "-r" | "-l" | "-t"))
    };
    if args.iter().all(harmless) {
        return Vec::new();
    }
    vec![Effect::unclear("hash", "an option")]
}

/// Returns the effects of `compgen`: `-C` runs a command, `-F` a function, and `-W` expands its
/// words.
fn compgen_effects(args: &[Word]) -> Vec<Effect> {
    let odd = |text: &str| {
        text.contains(['$', '`']) || (text.starts_with('-') && text.contains(['C', 'F', 'X']))
    };
    let harmless = |word: &Word| word.value().is_some_and(|text| !odd(text));
    if args.iter().all(harmless) {
        return Vec::new();
    }
    vec![Effect::unclear("compgen", "its arguments")]
}

/// Options of `set` that change neither how text is read nor which program a name starts.
const SET_NAMES: &str = "allexport errexit errtrace functrace hashall monitor noclobber noglob notify nounset \
    physical pipefail verbose xtrace";
static SET: LazyLock<OptionSet> =
    LazyLock::new(|| OptionSet::parse("-a -b -e -f -h -m -u -v -x -C -E -T -P -o=="));

fn set_effects(args: &[Word]) -> Vec<Effect> {
    let mut effects = Vec::new();
    // `+x` turns an option off and is read like `-x`.
    let options: Vec<Word> = args.iter().map(with_minus).collect();
    if options.len() == 1 && options.iter().any(|word| word.is("-o")) {
        return effects;
    }
    let scan = match scan_options(&options, &SET) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("set", odd)],
    };
    for option in scan.options.iter().filter(|option| option.name == "o") {
        let name = option.value.as_ref().and_then(Word::value);
        if !name.is_some_and(|name| has_word(SET_NAMES, name)) {
            effects.push(Effect::unclear("set", "the option -o"));
        }
    }
    effects
}

fn with_minus(word: &Word) -> Word {
    match (word.value(), word.text.strip_prefix('+')) {
        (Some(_), Some(rest)) if !rest.is_empty() => Word::literal(format!("-{rest}")),
        _ => word.clone(),
    }
}

const SHOPT_NAMES: &str = "autocd cdspell checkhash checkjobs checkwinsize cmdhist dotglob failglob globstar \
    globasciiranges huponexit inherit_errexit lastpipe nocaseglob nocasematch nullglob";

fn shopt_effects(args: &[Word]) -> Vec<Effect> {
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

/// Returns the effects of `jobs`: `jobs -x COMMAND` runs the command.
fn jobs_effects(args: &[Word]) -> Vec<Effect> {
    match args {
        [first, rest @ ..] if first.is("-x") => Effect::runs(rest),
        [] => Vec::new(),
        args if args.iter().all(|word| word.value().is_some_and(|text| !text.contains('x'))) => {
            Vec::new()
        }
        _ => vec![Effect::unclear("jobs", "an option")],
    }
}

// Builtins that set variables, and builtins that evaluate the names in their arguments.

/// Returns the effects of a builtin that sets variables; `None` for any other command.
fn variable_builtin_effects(name: &str, args: &[Word]) -> Option<Vec<Effect>> {
    let effects = match name {
        "declare" | "typeset" | "local" | "export" | "readonly" => declare_effects(name, args),
        "read" => read_effects(args),
        "mapfile" | "readarray" => mapfile_effects(args),
        "printf" => printf_effects(args),
        "unset" => unset_effects(args),
        "getopts" => getopts_effects(args),
        "wait" => wait_effects(args),
        "let" => args.iter().cloned().map(Effect::Evaluates).collect(),
        "test" | "[" => test_effects(args),
        _ => return None,
    };
    Some(effects)
}

fn declare_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut integer = false;
    let mut array = false;
    for word in args {
        if word.shape == Shape::Process {
            // An array with this name, whose elements were read already.
            if integer {
                effects.push(Effect::Evaluates(Word::literal(word.text.clone())));
            }
            continue;
        }
        if word.text.starts_with(['-', '+']) && word.value().is_some() {
            if word.text.contains('n') && name != "export" {
                effects.push(Effect::unclear(name, "a reference to another variable"));
            }
            integer |= word.text.contains('i');
            array |= word.text.contains(['a', 'A']);
            continue;
        }
        if array {
            let name = word.text.split(['=', '+', '[']).next().unwrap_or_default();
            effects.push(Effect::IsArray(name.to_owned()));
        }
        push_declaration_effects(word, integer, &mut effects);
    }
    effects
}

/// Returns the effect of an array value: `declare -a 'a=($(command))'` runs the command, because
/// bash reads the elements of an array from a value in parentheses.
fn array_value_effect(word: &Word, name: &str, value: &VariableValue) -> Option<Effect> {
    let text = word.text.split_once('=').map_or("", |(_, text)| text);
    match value {
        VariableValue::Text(_) if text.starts_with('(') && text.ends_with(')') => {
            Some(Effect::Script { text: format!("{name}={text}"), reader: ScriptReader::Same })
        }
        VariableValue::Text(_) => None,
        VariableValue::Copy(_)
        | VariableValue::Number
        | VariableValue::File
        | VariableValue::Unknown => {
            (text.is_empty() || text.starts_with('(')).then(|| Effect::Declares(name.to_owned()))
        }
    }
}

fn push_declaration_effects(word: &Word, integer: bool, effects: &mut Vec<Effect>) {
    let (name, value) = match (word.text.split_once('='), word.shape) {
        (Some((name, text)), Shape::Literal) => (name, VariableValue::Text(text.to_owned())),
        (Some((name, _)), _) => (name, VariableValue::Unknown),
        (None, Shape::Literal) => (word.text.as_str(), VariableValue::Text(String::new())),
        (None, _) => {
            effects.push(Effect::Unclear(UncertainReason::Dynamic("the name of a variable")));
            return;
        }
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let plain = name.split('[').next().unwrap_or_default();
    effects.extend(array_value_effect(word, plain, &value));
    if integer {
        effects.push(Effect::Evaluates(Word::literal(name)));
    }
    if word.shape != Shape::Literal && word.variable.is_none() && word.text.contains('[') {
        effects.push(Effect::Unclear(UncertainReason::Code("a subscript")));
    }
    effects.push(Effect::Assigns { name: name.to_owned(), value });
}

/// Returns the effect of setting the variable that a word names.
fn assign_effect(word: &Word, value: VariableValue) -> Effect {
    match word.value() {
        Some(name) => Effect::Assigns { name: name.to_owned(), value },
        None => Effect::Unclear(UncertainReason::Dynamic("the name of a variable")),
    }
}

fn read_effects(args: &[Word]) -> Vec<Effect> {
    static READ: LazyLock<OptionSet> =
        LazyLock::new(|| OptionSet::parse("-e -r -s -a== -d== -i== -n== -N== -p== -t== -u=="));
    let scan = match scan_options(args, &READ) {
        Ok(scan) => scan,
        Err(what) => return vec![Effect::unclear("read", what)],
    };
    let names = args.get(scan.rest..).unwrap_or_default();
    let array = scan.value(&["a"]).into_iter();
    let marks: Vec<Effect> = array
        .clone()
        .filter_map(Word::value)
        .map(|name| Effect::IsArray(name.to_owned()))
        .collect();
    let sets = array.chain(names).map(|word| assign_effect(word, VariableValue::Unknown));
    marks.into_iter().chain(sets).collect()
}

fn mapfile_effects(args: &[Word]) -> Vec<Effect> {
    static MAPFILE: LazyLock<OptionSet> =
        LazyLock::new(|| OptionSet::parse("-t -d== -n== -O== -s== -u== -C== -c=="));
    let scan = match scan_options(args, &MAPFILE) {
        Ok(scan) => scan,
        Err(what) => return vec![Effect::unclear("mapfile", what)],
    };
    let names = args.get(scan.rest..).unwrap_or_default();
    let callback = scan.value(&["C"]).map(|code| Effect::script(code, ScriptReader::Same));
    let marks = names.iter().filter_map(Word::value).map(|name| Effect::IsArray(name.to_owned()));
    let sets = names.iter().map(|word| assign_effect(word, VariableValue::Unknown));
    callback.into_iter().chain(marks).chain(sets).collect()
}

/// Returns the effects of `printf`: `printf -v NAME` sets a variable. A first word of unknown value
/// could be `-v`.
fn printf_effects(args: &[Word]) -> Vec<Effect> {
    static PRINTF: LazyLock<OptionSet> = LazyLock::new(|| OptionSet::parse("-v=="));
    match scan_options(args, &PRINTF) {
        Ok(ScannedOptions { options, .. }) => options
            .iter()
            .filter_map(|option| option.value.as_ref())
            .map(|word| assign_effect(word, VariableValue::Unknown))
            .collect(),
        Err(_)
            if args.first().and_then(Word::value).is_some_and(|text| !text.starts_with("-v")) =>
        {
            Vec::new()
        }
        Err(what) => vec![Effect::unclear("printf", what)],
    }
}

/// Returns the effects of `unset`: `unset 'a[$(command)]'` runs the command, and `unset -f` removes
/// a function that hid a program. A removed variable counts as one that is set.
fn unset_effects(args: &[Word]) -> Vec<Effect> {
    let named = || args.iter().filter(|word| !word.text.starts_with('-') || word.value().is_none());
    let cleared = named().map(|word| assign_effect(word, VariableValue::Text(String::new())));
    std::iter::once(Effect::RemovesFunctions)
        .chain(named().cloned().map(Effect::Evaluates))
        .chain(cleared)
        .collect()
}

fn getopts_effects(args: &[Word]) -> Vec<Effect> {
    let unknown = args.iter().take(2).any(|word| !stays_one_word(word));
    match args {
        _ if unknown => vec![Effect::unclear("getopts", "its arguments")],
        [_, name, ..] => vec![assign_effect(name, VariableValue::Unknown)],
        _ => Vec::new(),
    }
}

fn wait_effects(args: &[Word]) -> Vec<Effect> {
    static WAIT: LazyLock<OptionSet> = LazyLock::new(|| OptionSet::parse("-f -n -p=="));
    match scan_options(args, &WAIT) {
        Ok(scan) => scan
            .value(&["p"])
            .map(|word| assign_effect(word, VariableValue::Number))
            .into_iter()
            .collect(),
        Err(_) if args.iter().all(|word| word.variable.as_deref() == Some("#")) => Vec::new(),
        Err(what) => vec![Effect::unclear("wait", what)],
    }
}

/// Returns the effects of `test`: `test -v NAME` evaluates subscripts. A word that splits could
/// contain `-v`.
fn test_effects(args: &[Word]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (index, word) in args.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| args.get(index));
        if before.is_some_and(|before| before.is("-v") || before.is("-R")) {
            effects.push(Effect::Evaluates(word.clone()));
        }
        let next = args.get(index + 1);
        if word.shape == Shape::Many && word.variable.as_deref() != Some("#") {
            effects.push(Effect::Evaluates(word.clone()));
        } else if word.value().is_none()
            && word.text.is_empty()
            && next.is_some_and(is_test_operand)
        {
            // In `[ "$op" "$name" ]` the first word could be `-v`.
            if let Some(next) = next {
                effects.push(Effect::Evaluates(next.clone()));
            }
        }
    }
    effects
}

/// `true` if the second of two words of `test` can be a name: it is neither an operator nor a
/// closing bracket.
fn is_test_operand(word: &Word) -> bool {
    const OPERATORS: &str = "= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ] ) (";
    !word.value().is_some_and(|text| has_word(OPERATORS, text))
}
