//! Programs that start a command for each file or line: `find`, `fd`, `xargs` and `parallel`.
//!
//! The expression of `find` is read as a language of known words. The inner command of the others
//! gets words that are known only when it runs.

use super::entry::{ArgumentEffect, Judged, ProgramEntry, written};
use crate::command::{Shape, Word};
use crate::options::{Arguments, Doubt, has_word, require_known, stays_one_word};
use crate::strict::builtins::{self, Builtin};

/// Words of an expression without an argument.
const ALONE: &str = "-daystart -depth -d -follow -ignore_readdir_race -noignore_readdir_race -mount \
    -xdev -noleaf -nowarn -warn -empty -executable -false -true -nogroup -nouser -readable \
    -writable -print -print0 -ls -prune -quit -delete -not -a -and -o -or ! ( ) , --help --version \
    -help -version";

/// Words of an expression with one argument.
const WITH_ARGUMENT: &str = "-amin -anewer -atime -cmin -cnewer -ctime -fstype -gid -group -ilname \
    -iname -inum -ipath -iregex -iwholename -links -lname -mmin -mtime -name -newer -path -perm \
    -regex -samefile -size -type -uid -used -user -wholename -xtype -context -maxdepth -mindepth \
    -regextype -printf";

/// Words whose first argument is a file that find writes.
const WRITING: [&str; 4] = ["-fprint", "-fprint0", "-fls", "-fprintf"];

/// Words with the place of the next one.
struct Expression<'w> {
    words: &'w [Word],
    /// Stands for the names that are found.
    name: Word,
}

pub(super) fn find(_: &ProgramEntry, _: &str, args: &[Word]) -> Judged {
    let words = skip_options(args)?;
    let starts = words.iter().take_while(|word| !begins_expression(word)).count();
    let (starts, expression) = words.split_at(starts);
    // A word that may be empty or begin with a dash may begin the expression.
    if let Some(word) = starts.iter().find(|word| !is_certain_path(word)) {
        return Err(format!("the word {word}"));
    }
    let mut rest = Expression { words: expression, name: found_name(starts) };
    let mut all = Vec::new();
    while let Some(word) = rest.next() {
        let text = require_known(word)?;
        match text {
            "-exec" | "-ok" => all.push(ArgumentEffect::Runs(rest.command()?)),
            _ if WRITING.contains(&text) => {
                let file = rest.argument(text)?;
                all.extend(written(std::iter::once(file)));
                if text == "-fprintf" {
                    rest.argument(text)?;
                }
            }
            _ if has_word(WITH_ARGUMENT, text) || is_newer(text) => {
                rest.argument(text)?;
            }
            _ if has_word(ALONE, text) => {}
            _ if text.starts_with('-') => return Err(format!("the option {text}")),
            _ => return Err(format!("the word {text}")),
        }
    }
    Ok(all)
}

/// `true` for a test `-newerXY`.
fn is_newer(text: &str) -> bool {
    let letters = text.strip_prefix("-newer").unwrap_or_default();
    letters.len() == 2 && letters.chars().all(|letter| "aBcmt".contains(letter))
}

/// Skips the options before the starting points.
fn skip_options(args: &[Word]) -> Result<&[Word], Doubt> {
    let mut rest = args;
    while let Some((word, after)) = rest.split_first() {
        let is_level = |text: &str| matches!(text, "-O0" | "-O1" | "-O2" | "-O3");
        match word.value() {
            Some("-H" | "-L" | "-P") => rest = after,
            Some(text) if is_level(text) => rest = after,
            _ => break,
        }
    }
    Ok(rest)
}

fn begins_expression(word: &Word) -> bool {
    word.text.starts_with(['-', '(', ')', '!', ','])
}

fn is_certain_path(word: &Word) -> bool {
    match word.shape {
        Shape::Literal | Shape::Process => true,
        Shape::One | Shape::Glob => !word.text.is_empty(),
        Shape::Many => false,
    }
}

/// The names that find passes on: each begins with one of the starting points.
fn found_name(starts: &[Word]) -> Word {
    let Some((first, others)) = starts.split_first() else {
        return Word::unknown(".", Shape::One);
    };
    let common = others.iter().fold(first.text.as_str(), |common, start| {
        let same = common.bytes().zip(start.text.bytes()).take_while(|(a, b)| a == b).count();
        common.get(..same).unwrap_or_default()
    });
    // No starting point begins with a dash, so none of the names does, whatever they share.
    Word { plain: !first.text.is_empty(), ..Word::unknown(common, Shape::One) }
}

impl<'w> Expression<'w> {
    fn next(&mut self) -> Option<&'w Word> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    /// The argument of a test: one word, of any value.
    fn argument(&mut self, test: &str) -> Result<&'w Word, Doubt> {
        let word = self.next().ok_or_else(|| format!("the option {test} without a value"))?;
        if stays_one_word(word) { Ok(word) } else { Err(format!("the word {word}")) }
    }

    /// The command after `-exec`, up to `;` or `{} +`.
    fn command(&mut self) -> Result<Vec<Word>, Doubt> {
        let mut command: Vec<Word> = Vec::new();
        let mut follows_name = false;
        while let Some(word) = self.next() {
            if word.is(";") {
                return Ok(command.iter().map(|word| self.with_name(word)).collect());
            }
            if word.is("+") && follows_name {
                command.pop();
                command.push(Word { shape: Shape::Glob, ..self.name.clone() });
                return Ok(command);
            }
            // An unknown word may turn out to be the end of the command.
            let may_end = word.text.is_empty() || word.text.starts_with([';', '+']);
            if word.shape == Shape::Many || word.shape != Shape::Literal && may_end {
                return Err(format!("the word {word}"));
            }
            follows_name = word.is("{}");
            command.push(word.clone());
        }
        Err("the option -exec without an end".to_owned())
    }

    /// The word with a name that was found in place of `{}`.
    fn with_name(&self, word: &Word) -> Word {
        if word.is("{}") {
            return self.name.clone();
        }
        let shape = if word.shape == Shape::Literal { Shape::One } else { word.shape };
        match word.text.split_once("{}") {
            Some(("", _)) => Word { shape, ..self.name.clone() },
            Some((prefix, _)) => Word::unknown(prefix, shape),
            None => word.clone(),
        }
    }
}

pub(super) fn fd(entry: &ProgramEntry, _: &str, args: &[Word]) -> Judged {
    let is_exec =
        |word: &Word| ["-x", "-X", "--exec", "--exec-batch"].iter().any(|option| word.is(option));
    let end = args.iter().position(is_exec).unwrap_or(args.len());
    let (own, exec) = args.split_at(end);
    // After `--` the words are patterns and paths, not options.
    let is_ended = own.iter().any(|word| word.is("--"));
    if is_ended && !exec.is_empty() {
        return Err("the word --".to_owned());
    }
    entry.read(own)?;
    let Some((option, command)) = exec.split_first() else { return Ok(Vec::new()) };
    if command.is_empty() {
        return Err(format!("the option {option} without a value"));
    }
    // `;` ends the command, and fd's own options go on.
    let may_end = |word: &&Word| {
        word.is(";") || word.shape != Shape::Literal && (word.text.is_empty() || word.is(";"))
    };
    if let Some(word) = command.iter().find(may_end) {
        return Err(format!("the word {word}"));
    }
    let marks = ["{}", "{/}", "{//}", "{.}", "{/.}"];
    let replace = |word: &Word| {
        let start = marks.iter().filter_map(|mark| word.text.find(mark)).min();
        match start.and_then(|start| word.text.get(..start)) {
            Some(prefix) => Word::unknown(prefix, Shape::Many),
            None => word.clone(),
        }
    };
    let mut words: Vec<Word> = command.iter().map(replace).collect();
    if words == command {
        words.push(Word::unknown("", Shape::Many));
    }
    Ok(vec![ArgumentEffect::Runs(words)])
}

pub(super) fn xargs(found: &Arguments) -> Judged {
    let slots = found.values(&["--process-slot-var"]);
    let slots = slots.map(|name| {
        Ok(ArgumentEffect::Sets { name: require_known(name)?.to_owned(), value: None })
    });
    let mut all = slots.collect::<Judged>()?;
    let marks = ["-I", "-i", "--replace"];
    if found.options.iter().filter(|given| marks.contains(&given.name.as_str())).count() > 1 {
        return Err("two options that replace".to_owned());
    }
    let replaced = match found.values(&["-I", "-i", "--replace"]).last() {
        Some(text) => Some(require_known(text)?),
        None => found.has(&["-i", "--replace"]).then_some("{}"),
    };
    let mut words = found.operands.clone();
    if words.is_empty() {
        words.push(Word::literal("echo"));
    }
    if let Some(mark) = replaced.filter(|mark| !mark.is_empty()) {
        words = words.iter().map(|word| replace(word, mark)).collect();
    }
    // These options and replacing exclude each other; the last one counts.
    let appends = found.has(&["-n", "-L", "-l", "--max-args", "--max-lines"]);
    if replaced.is_none() || appends {
        words.push(Word::unknown("", Shape::Many));
    }
    all.push(ArgumentEffect::Runs(words));
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

pub(super) fn parallel(found: &Arguments) -> Judged {
    let mut all = written(found.values(&["--joblog"]));
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
            all.push(ArgumentEffect::ReadsCodeFromInput);
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
    all.push(ArgumentEffect::Runs(words));
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
    let text = require_known(word)?;
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
    use crate::strict::tools::tests::{assert_doubts, assert_harmless, judged};

    #[test]
    fn searching_is_harmless() {
        assert_harmless(&[
            "find",
            "find . -name '*.rs' -type f",
            "find . -path ./target -prune -o -name '*.toml' -print",
            "find . -maxdepth 2 -type d -not -path '*/.git/*'",
            "find src tests -name $x",
            "find src/* -newer Cargo.toml -size +10k",
            "find . ( -name '*.c' -o -name '*.h' ) -print0",
            "find . ! -name x -mtime -1 -printf '%p %s\\n'",
            "find -L . -type l",
            "find . -empty -delete",
            "find . -newermt 2024-01-01 -iname '*.log'",
            "find src/$x -type f -perm -u+x -user root -ls",
            "fd -e rs",
            "fd -H -t f config src",
            "fd --hidden --exclude .git foo",
        ]);
    }

    #[test]
    fn commands_are_reported_with_the_names_that_are_found() {
        for (line, expected) in [
            ("find . -name x -exec grep -l y {} +", "runs grep -l y .…"),
            ("find . -type f -exec wc -l {} ;", "runs wc -l .…"),
            ("find src -exec mv {} {}.bak ;", "runs mv src… src…"),
            ("find src lib -exec sed -i s/a/b/ {} +", "runs sed -i s/a/b/ …"),
            ("find . -exec sh -c 'echo {}' ;", "runs sh -c echo …"),
            ("find . -exec {} ;", "runs .…"),
            ("find . -exec a {} ; -exec b {} +", "runs a .…, runs b .…"),
            ("find . -ok rm {} ;", "runs rm .…"),
            ("find . -fprint out.txt", "writes out.txt"),
            ("find . -fprintf .git/config x", "writes .git/config"),
            ("fd -e rs -x wc -l", "runs wc -l …"),
            ("fd -e rs -X grep x {}", "runs grep x …"),
            ("fd x --exec touch", "runs touch …"),
        ] {
            assert_eq!(judged(line), Ok(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn everything_else_is_in_doubt() {
        assert_doubts(&[
            ("find . -execdir touch x ;", "the option -execdir"),
            ("find . -okdir touch x ;", "the option -okdir"),
            ("find -files0-from f", "the option -files0-from"),
            ("find . -name $x -unknown", "the option -unknown"),
            ("find . -name *.rs", "the word *.rs"),
            ("find . -name @m", "the word …"),
            ("find $x -name y", "the word …"),
            ("find * -name y", "the word *"),
            ("find @m", "the word …"),
            ("find . -maxdepth 0 $x touch pwned ;", "the word …"),
            ("find . -name . -exec touch pwned", "the option -exec without an end"),
            ("find . -exec ls $x -exec touch y ;", "the word …"),
            ("find . -exec ls @m ;", "the word …"),
            ("find . -name", "the option -name without a value"),
            ("find . foo -D exec", "the option -D"),
            ("fd -l", "the option -l"),
            ("fd --list-details x", "the option --list-details"),
            ("fd --base-directory .git -x tee", "the option --base-directory"),
            ("fd -x", "the option -x without a value"),
            ("fd -x ls ; -x touch", "the word ;"),
            ("fd -x ls $x -x touch", "the word …"),
            ("fd -Hx touch", "the option -x"),
            ("fd --exec=touch", "the option --exec"),
            ("fd $x", "the word …"),
            ("fd -- a -x touch", "the word --"),
        ]);
    }

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
