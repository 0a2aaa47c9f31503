//! Shared by the tests of the entries: commands as text, and consequences as text.

use super::entry::ArgumentEffect;
use super::programs;
use crate::command::{Shape, Word};
use crate::options::Doubt;

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

fn judge(line: &str) -> Result<Vec<ArgumentEffect>, Doubt> {
    let words = words(line);
    let (program, args) = words.split_first().expect("a program");
    programs::judge(&program.text, args).unwrap_or_else(|| Err("no entry".to_owned()))
}

/// The consequences of a command, in words.
pub(super) fn judged(line: &str) -> Result<String, Doubt> {
    Ok(judge(line)?.iter().map(format_consequence).collect::<Vec<_>>().join(", "))
}

fn format_consequence(consequence: &ArgumentEffect) -> String {
    match consequence {
        ArgumentEffect::Runs(words) => {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            format!("runs {}", words.join(" "))
        }
        ArgumentEffect::Script { text, shell } => format!("{shell:?} script {text}"),
        ArgumentEffect::Sets { name, .. } => format!("sets {name}"),
        ArgumentEffect::Writes(word) => format!("writes {word}"),
        ArgumentEffect::ChecksOut(word) => format!("checks out {word}"),
        ArgumentEffect::WritesBeneath(word) => format!("writes beneath {word}"),
        ArgumentEffect::ReadsCode(word) => format!("code {word}"),
        ArgumentEffect::ReadsCodeFromInput => "code from input".to_owned(),
        ArgumentEffect::Opaque => "opaque".to_owned(),
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

/// Checks lines of which everything is known, one per line, and that none starts another command.
#[track_caller]
pub(super) fn harmless(lines: &str) {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let failures: Vec<_> = lines.filter_map(why_not_harmless).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

fn why_not_harmless(line: &str) -> Option<String> {
    let is_other = |effect: &&ArgumentEffect| {
        matches!(
            effect,
            ArgumentEffect::Runs(_)
                | ArgumentEffect::Script { .. }
                | ArgumentEffect::Sets { .. }
                | ArgumentEffect::ReadsCodeFromInput
        )
    };
    match judge(line) {
        Err(doubt) => Some(format!("{line}: {doubt}")),
        Ok(effects) => effects.iter().find(is_other).map(|effect| format!("{line}: {effect:?}")),
    }
}

/// Checks `line => doubt` or `line => consequence; consequence`, one per line. Consequences that
/// are not named are not checked.
#[track_caller]
pub(super) fn check(lines: &str) {
    let cases = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let failures: Vec<_> = cases.filter_map(why_different).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

fn why_different(case: &str) -> Option<String> {
    let (line, expected) = case.split_once(" => ").expect("a line and what it leads to");
    let found = match judge(line) {
        Err(doubt) if doubt == expected => return None,
        Err(doubt) => doubt,
        Ok(effects) => {
            let texts: Vec<_> = effects.iter().map(format_consequence).collect();
            let has = |text: &str| texts.iter().any(|effect| effect == text);
            if expected.split("; ").all(has) {
                return None;
            }
            format!("{texts:?}")
        }
    };
    Some(format!("{line} => {expected}: {found}"))
}
