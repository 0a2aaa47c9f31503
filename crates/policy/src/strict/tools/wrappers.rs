//! Shells, and programs that start the command after their own options: `env`, `timeout`, `sudo`.
//!
//! The text of a shell is read by the recogniser; script files count as code.

use super::entry::{ArgumentEffect, Judged, ProgramEntry, behind, written};
use crate::command::{Shape, ShellSyntax, Word};
use crate::options::{Arguments, Doubt, OptionOrder, check_operand, require_known, stays_one_word};

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

/// Shell text that a program hands to `sh -c`.
fn script(text: &Word) -> Result<ArgumentEffect, Doubt> {
    Ok(ArgumentEffect::Script { text: require_known(text)?.to_owned(), shell: ShellSyntax::Posix })
}

pub(super) fn watch(found: &Arguments) -> Judged {
    if found.operands.is_empty() {
        return Ok(Vec::new());
    }
    if found.has(&["-x", "--exec"]) {
        return Ok(vec![ArgumentEffect::Runs(found.operands.clone())]);
    }
    let words = found.operands.iter().map(require_known).collect::<Result<Vec<&str>, Doubt>>()?;
    Ok(vec![script(&Word::literal(words.join(" ")))?])
}

pub(super) fn lock(found: &Arguments) -> Judged {
    match found.operands.as_slice() {
        [] | [_] => Ok(Vec::new()),
        [file, ..] if !stays_one_word(file) => Err(format!("the word {file}")),
        [_, option, text] if option.is("-c") || option.is("--command") => Ok(vec![script(text)?]),
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
                all.push(script(text)?);
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
            Ok(vec![script(text)?])
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
            [text] => Ok(vec![script(text)?]),
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
        Some(text) if takes_text => {
            Ok(vec![ArgumentEffect::Script { text: require_known(text)?.to_owned(), shell }])
        }
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

#[cfg(test)]
mod tests {
    use crate::strict::tools::tests::{assert_doubts, assert_harmless, judged};

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
}
