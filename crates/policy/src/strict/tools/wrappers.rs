//! Shells, programs that start the command after their own options (`env`, `timeout`, `sudo`), and
//! programs that start a command for each file or line (`find`, `fd`, `xargs`, `parallel`).
//!
//! The text of a shell is read by the recogniser; script files count as code. The expression of `find` is
//! read as a language of known words. The inner command of the others gets words that are known only
//! when it runs.

use super::entry::{ArgumentEffect, Judged, ProgramEntry, behind, script, written};
use super::programs::{Builtin, look_up_builtin};
use crate::command::{Shape, ShellSyntax, Word};
use crate::options::{
    Arguments, Doubt, OptionOrder, check_operand, has_word, require_known, stays_one_word,
};

/// Judges a program that starts the command in its operands. Keys of its own:
///
/// - `before`: the number of operands before the command (`timeout 5 make`).
/// - `assigns`: `NAME=value` may come before the command.
/// - `inspects`: options with which the operands are no command.
/// - `bare_shell`: without a command the program starts a shell.
pub(super) fn wrap(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    let found = entry.read(args)?;
    let mut all = output_files(entry, &found)?;
    for name in found.values(&["-u", "--unset"]).filter(|_| program == "env") {
        all.extend(unset(require_known(name)?));
    }
    if found.has(entry.words("inspects")) {
        return Ok(all);
    }
    let mut words = found.operands.as_slice();
    while entry.has("assigns")
        && let Some((name, value, rest)) = read_assignment(words)?
    {
        all.push(ArgumentEffect::Sets { name, value });
        words = rest;
    }
    let before = usize::from(entry.words("before") == ["1"]);
    let command = behind(words, before)?;
    let is_bare_harmless =
        !entry.has("bare_shell") || found.has(&["-h", "-V", "--help", "--version"]);
    match command.first() {
        Some(_) => all.push(ArgumentEffect::Runs(command.to_vec())),
        None if is_bare_harmless => {}
        None => return Err(format!("{program} without a command, which starts a shell")),
    }
    Ok(all)
}

/// The files that are written. `strace -o '|command'` starts a program instead.
fn output_files(entry: &ProgramEntry, found: &Arguments) -> Judged {
    let starts_pipe = |word: &&Word| match word.text.chars().next() {
        Some(first) => matches!(first, '|' | '!'),
        None => true,
    };
    match found.values(entry.words("writes")).find(starts_pipe) {
        Some(word) => Err(format!("the output file {word}")),
        None => Ok(written(found.values(entry.words("writes")))),
    }
}

/// Refuses a program that starts others at a later time, in another root, from a language of its
/// own, or by applets that have no entry.
pub(super) fn refuse_command(_: &ProgramEntry, program: &str, _: &[Word]) -> Judged {
    Err(arguments_of(program))
}

pub(super) fn crontab(_: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    if matches!(args, [list] if list.is("-l")) {
        Ok(Vec::new())
    } else {
        Err(arguments_of(program))
    }
}

/// `ts` prints the time before each line; with a command it is another program.
pub(super) fn timestamps(_: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    let is_format = args.iter().all(|word| word.text.starts_with(['-', '%']));
    if is_format { Ok(Vec::new()) } else { Err(arguments_of(program)) }
}

fn arguments_of(program: &str) -> Doubt {
    format!("the command that {program} is given")
}

/// Variables without which programs are found or text is read in another way.
fn unset(name: &str) -> Option<ArgumentEffect> {
    let matters = matches!(name, "PATH" | "HOME" | "IFS" | "LANG") || name.starts_with("LC_");
    matters.then(|| ArgumentEffect::Sets { name: name.to_owned(), value: None })
}

/// A variable, its value where that is known, and the words after it.
type AssignedFirst<'w> = (String, Option<String>, &'w [Word]);

/// Splits `NAME=value` off the words.
fn read_assignment(words: &[Word]) -> Result<Option<AssignedFirst<'_>>, Doubt> {
    let Some((word, rest)) = words.split_first() else { return Ok(None) };
    // `env -` clears the environment.
    if word.is("-") {
        return Err("the option -".to_owned());
    }
    match word.text.split_once('=') {
        Some((name, value)) if stays_one_word(word) => {
            let value = word.value().map(|_| value.to_owned());
            Ok(Some((name.to_owned(), value, rest)))
        }
        None if word.shape == Shape::Literal => Ok(None),
        _ => Err(format!("the word {word}")),
    }
}

pub(super) fn watch(found: &Arguments) -> Judged {
    if found.operands.is_empty() {
        return Ok(Vec::new());
    }
    if found.has(&["-x", "--exec"]) {
        return Ok(vec![ArgumentEffect::Runs(found.operands.clone())]);
    }
    let words = found.operands.iter().map(require_known).collect::<Result<Vec<&str>, Doubt>>()?;
    script(&Word::literal(words.join(" ")), ShellSyntax::Posix)
}

pub(super) fn lock(found: &Arguments) -> Judged {
    match found.operands.as_slice() {
        [] | [_] => Ok(Vec::new()),
        [file, ..] if !stays_one_word(file) => Err(format!("the word {file}")),
        [_, option, text] if option.is("-c") || option.is("--command") => {
            script(text, ShellSyntax::Posix)
        }
        [_, option, ..] if option.text.starts_with('-') => Err(format!("the option {option}")),
        [_, command @ ..] => Ok(vec![ArgumentEffect::Runs(command.to_vec())]),
    }
}

pub(super) fn record(found: &Arguments) -> Judged {
    let logs = ["-I", "-O", "-B", "-T", "--log-in", "--log-out", "--log-io", "--log-timing"];
    let mut all = written(found.values(&logs).chain(&found.operands));
    let commands: Vec<&Word> = found.values(&["-c", "--command"]).collect();
    match commands.as_slice() {
        [] => Err("script without a command, which starts a shell".to_owned()),
        texts => {
            for text in texts {
                all.extend(script(text, ShellSyntax::Posix)?);
            }
            Ok(all)
        }
    }
}

pub(super) fn switch_user(found: &Arguments) -> Judged {
    let users = found.operands.iter().filter(|word| !word.is("-")).count();
    let texts: Vec<&Word> = found.values(&["-c", "--command"]).collect();
    match texts.as_slice() {
        // Further operands are arguments of the user's shell.
        [text] if users <= 1 && found.operands.iter().all(stays_one_word) => {
            script(text, ShellSyntax::Posix)
        }
        _ => Err("the shell that su starts".to_owned()),
    }
}

pub(super) fn run_as_user(entry: &ProgramEntry, _: &str, args: &[Word]) -> Judged {
    let options = entry.options().0;
    let found = options.read(args, OptionOrder::First)?;
    match found.operands.as_slice() {
        [_, ..]
            if found.has(&["-u", "--user"])
                && !found.has(&["-c", "--command", "-l", "--login"]) =>
        {
            Ok(vec![ArgumentEffect::Runs(found.operands)])
        }
        _ => switch_user(&options.read(args, OptionOrder::Anywhere)?),
    }
}

pub(super) fn run_on_change(found: &Arguments) -> Judged {
    if found.has(&["-s"]) {
        return match found.operands.as_slice() {
            [text] => script(text, ShellSyntax::Posix),
            _ => Err(arguments_of("entr")),
        };
    }
    // `/_` stands for the absolute path of the file that changed.
    let change = |word: Word| if word.is("/_") { Word::unknown("/", Shape::One) } else { word };
    Ok(vec![ArgumentEffect::Runs(found.operands.iter().cloned().map(change).collect())])
}

/// Options that change neither the files that a shell reads first nor how it reads text: `-e`,
/// `-u`, `-x`, `-v`, `-n`, `-f` and `-b`, in any combination with `-c`.
const FLAGS: &str = "euxvnfb";

/// `set -o` options of the same kind.
const NAMED: [&str; 7] =
    ["errexit", "nounset", "xtrace", "verbose", "noexec", "noglob", "pipefail"];

/// bash(1): options that make it read fewer files.
const LONG: [&str; 2] = ["--norc", "--noprofile"];

pub(super) fn shell(_: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    let shell = if program == "bash" { ShellSyntax::Bash } else { ShellSyntax::Posix };
    let mut words = args.iter();
    let mut takes_text = false;
    while let Some(word) = words.next() {
        if word.is("--") {
            return finish(words.next(), takes_text, shell);
        }
        // `sh -` ends the options, too.
        if word.is("-") {
            return Err("the option -".to_owned());
        }
        if word.text.starts_with('+') || word.text.is_empty() {
            return Err(format!("the word {word}"));
        }
        if check_operand(word)? {
            return finish(Some(word), takes_text, shell);
        }
        let text = require_known(word)?;
        if LONG.contains(&text) && shell == ShellSyntax::Bash {
            continue;
        }
        if matches!(text, "--version" | "--help") {
            return Ok(Vec::new());
        }
        if text.starts_with("--") {
            return Err(format!("the option {text}"));
        }
        for letter in text.chars().skip(1) {
            match letter {
                'c' => takes_text = true,
                'o' => {
                    let name = words.next().ok_or("the option -o without a value")?;
                    let name = require_known(name)?;
                    if !NAMED.contains(&name) {
                        return Err(format!("the option -o {name}"));
                    }
                }
                _ if FLAGS.contains(letter) => {}
                _ => return Err(format!("the option -{letter}")),
            }
        }
    }
    finish(None, takes_text, shell)
}

/// Judges the first operand: the text with `-c`, else a script. Further words are parameters.
fn finish(operand: Option<&Word>, takes_text: bool, shell: ShellSyntax) -> Judged {
    match operand {
        Some(text) if takes_text => script(text, shell),
        None if takes_text => Err("the option -c without a value".to_owned()),
        Some(file) => {
            require_known(file)?;
            Ok(vec![ArgumentEffect::ReadsCode(file.clone())])
        }
        None => Ok(vec![ArgumentEffect::ReadsCodeFromInput]),
    }
}

/// A shell whose text is not read: only a script file without options is accepted.
pub(super) fn foreign_shell(_: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    match args.first() {
        None => Ok(vec![ArgumentEffect::ReadsCodeFromInput]),
        Some(word) if word.is("--version") => Ok(Vec::new()),
        Some(word) if word.text.starts_with(['-', '+']) => {
            Err(format!("the option {word} of {program}"))
        }
        Some(file) => {
            require_known(file)?;
            Ok(vec![ArgumentEffect::ReadsCode(file.clone())])
        }
    }
}

// Programs that start a command for each file or line.

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
    match first.value().and_then(|name| look_up_builtin(name, args)) {
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
    use crate::strict::tests::{assert_doubts, assert_harmless, judged};

    #[test]
    fn the_inner_command_is_reported() {
        for (line, expected) in [
            ("env", ""),
            ("env ls -l", "runs ls -l"),
            ("env RUST_LOG=debug A=$x cargo test", "sets RUST_LOG, sets A, runs cargo test"),
            ("env -u FOO -u PATH ls", "sets PATH, runs ls"),
            ("env -- A=1 ls", "sets A, runs ls"),
            ("env LD_PRELOAD=./e.so ls", "sets LD_PRELOAD, runs ls"),
            ("timeout 60 cargo test", "runs cargo test"),
            ("timeout -k 5 -s KILL 1m make -j4", "runs make -j4"),
            ("timeout --foreground $x ls", "the word …"),
            ("nice -n 19 make", "runs make"),
            ("nice -19 make", "runs make"),
            ("nice", ""),
            ("ionice -c2 -n7 cp a b", "runs cp a b"),
            ("ionice -p 12", ""),
            ("nohup ./server --port 80", "runs ./server --port 80"),
            ("setsid -f ls", "runs ls"),
            ("stdbuf -oL grep x", "runs grep x"),
            ("time -f %e -o t.txt make", "writes t.txt, runs make"),
            ("taskset -c 0-3 make", "runs make"),
            ("taskset -cp 0 1234", ""),
            ("chrt -b 0 make", "runs make"),
            ("prlimit --nofile=1024 ls", "runs ls"),
            ("strace -f -e trace=execve -o t.log ls -l", "writes t.log, runs ls -l"),
            ("strace -c ls", "runs ls"),
            ("strace -p 12", ""),
            ("strace -p 12 touch x", "runs touch x"),
            ("strace --attach=12 touch x", "runs touch x"),
            ("ltrace -p 12 touch x", "runs touch x"),
            ("sudo -u postgres psql -c x", "runs psql -c x"),
            ("sudo -n FOO=1 ls", "sets FOO, runs ls"),
            ("sudo -l", ""),
            ("doas -u www ls", "runs ls"),
            ("unshare -rn ls", "runs ls"),
            ("tini -s -- ls -l", "runs ls -l"),
            ("gosu root ls", "runs ls"),
            ("busybox ls -l", "runs ls -l"),
            ("chronic make", "runs make"),
            ("watch -n 1 'ls -l | wc -l'", "Posix script ls -l | wc -l"),
            ("watch -d ls -l", "Posix script ls -l"),
            ("watch -x ls -l", "runs ls -l"),
            ("flock -n /tmp/l make all", "runs make all"),
            ("flock /tmp/l -c 'make all'", "Posix script make all"),
            ("flock 9", ""),
            ("script -qec 'ls -l' /dev/null", "writes /dev/null, Posix script ls -l"),
            ("su - app -c 'ls'", "Posix script ls"),
            ("runuser -u app -- ls -l", "runs ls -l"),
            ("entr -r make test", "runs make test"),
            ("entr wc -l /_", "runs wc -l /…"),
            ("entr -s 'make test'", "Posix script make test"),
            ("env $x", "the word …"),
            ("env A$x ls", "the word A…"),
            ("env @m ls", "the word …"),
        ] {
            let found = judged(line).unwrap_or_else(|doubt| doubt);
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn options_that_start_or_move_something_are_in_doubt() {
        assert_doubts(&[
            ("env -S 'touch x'", "the option -S"),
            ("env --split-string='touch x'", "the option --split-string"),
            ("env -C .git tee config", "the option -C"),
            ("env -i bash", "the option -i"),
            ("env - ls", "the option -"),
            ("timeout --sig KILL 5 ls", "the option --sig"),
            ("sudo -A ls", "the option -A"),
            ("sudo -s", "the option -s"),
            ("sudo -i", "the option -i"),
            ("sudo -e /etc/passwd", "the option -e"),
            ("sudo -D /x ls", "the option -D"),
            ("strace -o '|touch x' ls", "the output file |touch x"),
            ("strace -o $x ls", "the output file …"),
            ("strace -E LD_PRELOAD=x ls", "the option -E"),
            ("unshare", "unshare without a command, which starts a shell"),
            ("unshare -R /x ls", "the option -R"),
            ("script out.txt", "script without a command, which starts a shell"),
            ("script -c $x", "the word …"),
            ("su root", "the shell that su starts"),
            ("su -s /tmp/e -c ls", "the option -s"),
            ("su root -c ls a b", "the shell that su starts"),
            ("watch $x", "the word …"),
            ("flock f --comm x", "the option --comm"),
            ("flock -c 'touch x' f", "the option -c"),
            ("at now", "the command that at is given"),
            ("chroot d ls", "the command that chroot is given"),
            ("crontab f", "the command that crontab is given"),
            ("entr -s 'x' y", "the command that entr is given"),
            ("busybox --install x", "the option --install"),
        ]);
    }

    #[test]
    fn inspecting_is_harmless() {
        assert_harmless(&["crontab -l", "ts", "ts %H:%M", "nohup --version", "sudo -v", "timeout"]);
    }

    #[test]
    fn text_scripts_and_input_are_told_apart() {
        for (line, expected) in [
            ("bash -c 'ls -l'", "Bash script ls -l"),
            ("bash -euo pipefail -c 'ls | wc'", "Bash script ls | wc"),
            ("bash -c -e ls", "Bash script ls"),
            ("sh -c 'ls' a b $x", "Posix script ls"),
            ("sh -ec ls", "Posix script ls"),
            ("bash --norc -c -- ls", "Bash script ls"),
            ("bash build.sh --release $x", "code build.sh"),
            ("sh -x run.sh", "code run.sh"),
            ("bash", "code from input"),
            ("bash -x", "code from input"),
            ("bash --version", ""),
            ("zsh run.zsh", "code run.zsh"),
            ("zsh --version", ""),
            ("bash -s", "the option -s"),
            ("bash -lc ls", "the option -l"),
            ("bash -ic ls", "the option -i"),
            ("bash --rcfile x -ic ls", "the option --rcfile"),
            ("bash --init-file x", "the option --init-file"),
            ("bash -O extglob -c ls", "the option -O"),
            ("bash +O extglob -c ls", "the word +O"),
            ("bash -o posix -c ls", "the option -o posix"),
            ("bash -c $x", "the word …"),
            ("bash $x", "the word …"),
            ("bash -$x", "the word -…"),
            ("bash - x", "the option -"),
            ("bash -c", "the option -c without a value"),
            ("zsh -c ls", "the option -c of zsh"),
            ("fish -c ls", "the option -c of fish"),
        ] {
            let found = judged(line).unwrap_or_else(|doubt| doubt);
            assert_eq!(found, expected, "{line}");
        }
    }

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
