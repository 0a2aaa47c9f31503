//! Shared by the tests of the entries: commands as text, and consequences as text.

use super::consequence::{Consequence, Doubt};
use super::dispatch::consequences;
use crate::command::{Shape, Word};

/// Reads a command: words are split at spaces, `'…'` keeps spaces, `$x` is one unknown word, `@m`
/// any number of them, and a word with `*` outside quotes is a pattern.
pub(super) fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (text, quoted, after) = split_word(rest);
        words.push(word(&text, quoted));
        rest = after.trim_start_matches(' ');
    }
    words
}

fn split_word(line: &str) -> (String, bool, &str) {
    let mut text = String::new();
    let mut in_quotes = false;
    let mut quoted = false;
    for (index, letter) in line.char_indices() {
        match letter {
            '\'' => {
                in_quotes = !in_quotes;
                quoted = true;
            }
            ' ' if !in_quotes => return (text, quoted, line.get(index..).unwrap_or_default()),
            _ => text.push(letter),
        }
    }
    (text, quoted, "")
}

fn word(text: &str, quoted: bool) -> Word {
    if quoted {
        return Word::literal(text);
    }
    if text == "@m" {
        return Word::unknown("", Shape::Many);
    }
    if let Some((prefix, _)) = text.split_once('$') {
        return Word::unknown(prefix, Shape::One);
    }
    match text.split_once('*') {
        Some((prefix, _)) => Word { source: text.to_owned(), ..Word::unknown(prefix, Shape::Glob) },
        None => Word::literal(text),
    }
}

/// The consequences of a command, in words.
pub(super) fn judged(line: &str) -> Result<String, Doubt> {
    let words = words(line);
    let (program, args) = words.split_first().expect("a program");
    let found = consequences(&program.text, args)?;
    Ok(found.iter().map(shown).collect::<Vec<_>>().join(", "))
}

fn shown(consequence: &Consequence) -> String {
    match consequence {
        Consequence::Runs(words) => {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            format!("runs {}", words.join(" "))
        }
        Consequence::Script { text, shell } => format!("{shell:?} script {text}"),
        Consequence::Sets { name, .. } => format!("sets {name}"),
        Consequence::Writes(word) => format!("writes {word}"),
        Consequence::ChecksOut(word) => format!("checks out {word}"),
        Consequence::WritesBeneath(word) => format!("writes beneath {word}"),
        Consequence::ReadsCode(word) => format!("code {word}"),
        Consequence::ReadsCodeFromInput => "code from input".to_owned(),
        Consequence::Opaque => "opaque".to_owned(),
    }
}

/// Asserts that each command is in doubt, and about what.
#[track_caller]
pub(super) fn assert_doubts(cases: &[(&str, &str)]) {
    for (line, doubt) in cases {
        assert_eq!(judged(line), Err((*doubt).to_owned()), "{line}");
    }
}

/// Asserts that each command starts nothing and writes nothing.
#[track_caller]
pub(super) fn assert_harmless(lines: &[&str]) {
    for line in lines {
        assert_eq!(judged(line), Ok(String::new()), "{line}");
    }
}
