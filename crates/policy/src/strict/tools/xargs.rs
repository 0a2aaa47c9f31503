//! Programs that build commands from their input: `xargs`, `parallel`.
//!
//! The inner command gets words that are known only when it runs. Versions: GNU findutils 4.9.0,
//! GNU parallel 20221122.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::options::{NO_OPTIONS, Options, Order, known, read, stays_one_word};
use super::tool::written;
use crate::command::{Shape, Word};
use crate::strict::builtins::{self, Builtin};

const XARGS: Options = Options {
    flags: "0oprtx",
    values: "adEILnPs",
    attached: "eil",
    long: "null arg-file= delimiter= eof=? replace=? max-lines=? max-args= open-tty max-procs= \
        interactive process-slot-var= no-run-if-empty max-chars= show-limits verbose exit help \
        version",
    order: Order::First,
    ..NO_OPTIONS
};

const PARALLEL: Options = Options {
    flags: "0kmtuX",
    values: "ajnN",
    long: "null arg-file= jobs= keep-order max-args= max-replace-args= bar eta progress dry-run \
        will-cite halt= tag line-buffer lb ungroup group no-notice timeout= retries= delay= load= \
        memfree= nice= joblog= resume verbose help version",
    undashed_values: true,
    order: Order::First,
    ..NO_OPTIONS
};

/// Judges the arguments of a program that builds commands.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    match program {
        "xargs" | "gxargs" => Some(build(args)),
        "parallel" => Some(parallel(args)),
        _ => None,
    }
}

fn build(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &XARGS)?;
    let slots = found.values(&["process-slot-var"]);
    let slots =
        slots.map(|name| Ok(Consequence::Sets { name: known(name)?.to_owned(), value: None }));
    let mut all = slots.collect::<Result<Vec<Consequence>, Doubt>>()?;
    let marks = ["I", "i", "replace"];
    if found.options.iter().filter(|given| marks.contains(&given.name.as_str())).count() > 1 {
        return Err("two options that replace".to_owned());
    }
    let replaced = match found.values(&["I", "i", "replace"]).last() {
        Some(text) => Some(known(text)?),
        None => found.has(&["i", "replace"]).then_some("{}"),
    };
    let mut words = found.operands.clone();
    if words.is_empty() {
        words.push(Word::literal("echo"));
    }
    if let Some(mark) = replaced.filter(|mark| !mark.is_empty()) {
        words = words.iter().map(|word| replace(word, mark)).collect();
    }
    // These options and replacing exclude each other; the last one counts.
    let appends = found.has(&["n", "L", "l", "max-args", "max-lines"]);
    if replaced.is_none() || appends {
        words.push(Word::unknown("", Shape::Many));
    }
    all.push(Consequence::Runs(words));
    Ok(all)
}

/// A word in which a line of the input stands for a mark.
fn replace(word: &Word, mark: &str) -> Word {
    match (word.shape, word.text.split_once(mark)) {
        (Shape::Literal | Shape::One, Some((prefix, _))) => Word::unknown(prefix, Shape::One),
        (_, Some((prefix, _))) => Word::unknown(prefix, Shape::Many),
        (Shape::Literal, None) => word.clone(),
        // The unknown part may hold the mark, and so does the source of a pattern.
        (_, None) => Word { plain: false, ..word.clone() },
    }
}

/// Replacement strings of parallel without an expression in Perl.
const REPLACEMENTS: [&str; 7] = ["{}", "{.}", "{/}", "{//}", "{/.}", "{#}", "{%}"];

fn parallel(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &PARALLEL)?;
    let mut all = written(found.values(&["joblog"]));
    let is_source = |word: &&Word| word.text.starts_with(":::");
    let end = found.operands.iter().position(|word| is_source(&word));
    let (command, sources) = found.operands.split_at(end.unwrap_or(found.operands.len()));
    // `parallel cmd -- a b` is the program of moreutils; unknown words could be `:::`.
    let odd = |word: &&Word| word.is("--") || !stays_one_word(word) && word.text.is_empty();
    if let Some(word) = sources.iter().find(odd) {
        return Err(format!("the word {word}"));
    }
    if command.is_empty() {
        return if sources.is_empty() {
            all.push(Consequence::ReadsCodeFromInput);
            Ok(all)
        } else {
            Err("the commands that parallel is given".to_owned())
        };
    }
    let mut words = command.iter().map(template).collect::<Result<Vec<Word>, Doubt>>()?;
    if words.iter().all(|word| word.shape == Shape::Literal) {
        words.push(Word::unknown("", Shape::Many));
    }
    check_builtin(&words)?;
    all.push(Consequence::Runs(words));
    Ok(all)
}

/// The shell that reads the text of parallel runs its builtins itself; only those without an effect
/// are like the programs of the same names.
fn check_builtin(words: &[Word]) -> Result<(), Doubt> {
    let Some((first, args)) = words.split_first() else { return Ok(()) };
    // `time` is a word of the shell, which runs the rest itself.
    if first.is("time") {
        return check_builtin(args);
    }
    match first.value().and_then(|name| builtins::look_up(name, args)) {
        None | Some(Ok(Builtin::Harmless)) => Ok(()),
        Some(Ok(Builtin::Exports(_) | Builtin::Runs(_))) => Err(format!("the builtin {first}")),
        Some(Err(what)) => Err(what),
    }
}

/// A word of the text that parallel hands to a shell: nothing in it is special to the shell.
fn template(word: &Word) -> Result<Word, Doubt> {
    let text = known(word)?;
    let plain = REPLACEMENTS.iter().fold(text.to_owned(), |text, mark| text.replace(mark, ""));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:,@%+-".contains(c);
    if text.is_empty() || text == "--" || !plain.chars().all(is_plain) {
        return Err(format!("the word {word}"));
    }
    Ok(match text.split_once('{') {
        Some((prefix, _)) => Word::unknown(prefix, Shape::Many),
        None => word.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::judged;

    #[test]
    fn the_inner_command_gets_unknown_words() {
        for (line, expected) in [
            ("xargs", "runs echo …"),
            ("xargs -n1 wc -l", "runs wc -l …"),
            ("xargs -0 -n1 echo", "runs echo …"),
            ("xargs -0 -r rm -f", "runs rm -f …"),
            ("xargs -I{} cp {} out/", "runs cp … out/"),
            ("xargs -I {} sh -c 'echo {}'", "runs sh -c echo …"),
            ("xargs -i grep x src/{}", "runs grep x src/…"),
            ("xargs -I{} -n1 cp {} out", "runs cp … out …"),
            ("xargs -P 4 -L1 grep -n x", "runs grep -n x …"),
            ("xargs -a list.txt -d , ls", "runs ls …"),
            ("xargs --process-slot-var=LD_PRELOAD ls", "sets LD_PRELOAD, runs ls …"),
            ("xargs --max-procs=4 --max-args 1 ls", "runs ls …"),
            ("xargs --max 1 ls", "the option --max"),
            ("xargs $x", "the word …"),
            ("xargs -I $x ls", "the word …"),
            ("xargs -- touch x", "runs touch x …"),
            ("xargs -E -- touch x", "runs touch x …"),
            ("parallel -j4 gzip {}", "runs gzip …"),
            ("parallel gzip ::: a b", "runs gzip …"),
            ("parallel wc -l {} ::: a b", "runs wc -l …"),
            ("parallel", "code from input"),
            ("parallel ::: 'touch x'", "the commands that parallel is given"),
            ("parallel 'wc {}; touch x' ::: a", "the word wc {}; touch x"),
            ("parallel 'wc {=system(1)=}'", "the word wc {=system(1)=}"),
            ("parallel -S host ls", "the option -S"),
            ("parallel ls -- a b", "the word --"),
            ("parallel test -v", "… without quotes in a test"),
            ("parallel time test -v", "… without quotes in a test"),
            ("parallel printf", "the format … of `printf`"),
            ("parallel read", "the word … of `read`"),
            ("parallel eval", "the builtin `eval`"),
            ("parallel command ls", "the builtin command"),
            ("parallel env test -v", "runs env test -v …"),
            ("parallel echo ::: a b", "runs echo …"),
        ] {
            let found = judged(line).unwrap_or_else(|doubt| doubt);
            assert_eq!(found, expected, "{line}");
        }
    }
}
