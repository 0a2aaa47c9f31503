//! Shells. Their text is read by the recogniser; script files count as code.
//!
//! Versions: bash 5.2, dash 0.5.12, zsh 5.9, ksh93u+m 1.0.4, BusyBox 1.35 ash.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::options::{is_operand, known};
use crate::command::{Shell, Word};

/// Options that change neither the files that a shell reads first nor how it reads text: `-e`,
/// `-u`, `-x`, `-v`, `-n`, `-f` and `-b`, in any combination with `-c`.
const FLAGS: &str = "euxvnfb";
/// `set -o` options of the same kind.
const NAMED: [&str; 7] =
    ["errexit", "nounset", "xtrace", "verbose", "noexec", "noglob", "pipefail"];
/// bash(1): options that make it read fewer files.
const LONG: [&str; 2] = ["--norc", "--noprofile"];

/// Judges the arguments of a shell.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    let shell = match program {
        "bash" => Shell::Bash,
        "sh" | "dash" | "ash" => Shell::Posix,
        // These read some texts in ways of their own, so no text is certain.
        "zsh" | "ksh" | "ksh93" | "mksh" | "pdksh" | "oksh" | "yash" | "rbash" | "posh"
        | "fish" | "csh" | "tcsh" | "rc" | "es" | "elvish" | "nu" | "xonsh" | "pwsh" | "hush"
        | "lksh" | "rksh" | "rzsh" | "sash" | "osh" | "ysh" | "oil" => {
            return Some(foreign(program, args));
        }
        _ => return None,
    };
    Some(read_shell(args, shell))
}

fn read_shell(args: &[Word], shell: Shell) -> Result<Vec<Consequence>, Doubt> {
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
        if is_operand(word)? {
            return finish(Some(word), takes_text, shell);
        }
        let text = known(word)?;
        if LONG.contains(&text) && shell == Shell::Bash {
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
                    let name = known(name)?;
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
fn finish(
    operand: Option<&Word>,
    takes_text: bool,
    shell: Shell,
) -> Result<Vec<Consequence>, Doubt> {
    match operand {
        Some(text) if takes_text => {
            Ok(vec![Consequence::Script { text: known(text)?.to_owned(), shell }])
        }
        None if takes_text => Err("the option -c without a value".to_owned()),
        Some(file) => {
            known(file)?;
            Ok(vec![Consequence::ReadsCode(file.clone())])
        }
        None => Ok(vec![Consequence::ReadsCodeFromInput]),
    }
}

/// A shell whose text is not read: only a script file without options is accepted.
fn foreign(program: &str, args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    match args.first() {
        None => Ok(vec![Consequence::ReadsCodeFromInput]),
        Some(word) if word.is("--version") => Ok(Vec::new()),
        Some(word) if word.text.starts_with(['-', '+']) => {
            Err(format!("the option {word} of {program}"))
        }
        Some(file) => {
            known(file)?;
            Ok(vec![Consequence::ReadsCode(file.clone())])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::judged;

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
