//! Checks that the tests of all tables share.

use super::consequence::{Consequence, Doubt};
use super::dispatch;
use crate::command::Word;

/// Splits a line at spaces; single quotes hold a word together.
fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(Word::literal(part));
        } else {
            words.extend(part.split(' ').filter(|word| !word.is_empty()).map(Word::literal));
        }
    }
    words
}

fn judge(line: &str) -> Result<Vec<Consequence>, Doubt> {
    let words = words(line);
    let (program, args) = words.split_first().expect("a line has a program");
    dispatch::judge(&program.text, args).unwrap_or_else(|| Err("no entry".to_owned()))
}

fn shown(effect: &Consequence) -> String {
    match effect {
        Consequence::Runs(words) => {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            format!("runs {}", words.join(" "))
        }
        Consequence::Script { text, .. } => format!("script {text}"),
        Consequence::Sets { name, .. } => format!("sets {name}"),
        Consequence::Writes(file) => format!("writes {file}"),
        Consequence::ChecksOut(word) => format!("checks out {word}"),
        Consequence::WritesBeneath(file) => format!("writes beneath {file}"),
        Consequence::ReadsCode(file) => format!("code {file}"),
        Consequence::ReadsCodeFromInput => "code from input".to_owned(),
        Consequence::Opaque => "opaque".to_owned(),
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
    let is_other = |effect: &&Consequence| {
        matches!(
            effect,
            Consequence::Runs(_)
                | Consequence::Script { .. }
                | Consequence::Sets { .. }
                | Consequence::ReadsCodeFromInput
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
            let shown: Vec<_> = effects.iter().map(shown).collect();
            let has = |text: &str| shown.iter().any(|effect| effect == text);
            if expected.split("; ").all(has) {
                return None;
            }
            format!("{shown:?}")
        }
    };
    Some(format!("{line} => {expected}: {found}"))
}
