//! Checks that the tests of all tables share.

use super::consequence::{Consequence, Doubt};
use super::dispatch::consequences;
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
    consequences(&program.text, args)
}

fn shown(effect: &Consequence) -> String {
    match effect {
        Consequence::Runs(words) => {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            format!("runs {}", words.join(" "))
        }
        Consequence::Script { text, .. } => format!("script {text}"),
        Consequence::Sets(name) => format!("sets {name}"),
        Consequence::Writes(file) => format!("writes {file}"),
        Consequence::WritesBeneath(file) => format!("writes beneath {file}"),
        Consequence::ReadsCode(file) => format!("code {file}"),
        Consequence::ReadsCodeFromInput => "code from input".to_owned(),
        Consequence::Opaque => "opaque".to_owned(),
    }
}

/// Checks lines of which everything is known, one per line, and that none starts another command.
#[track_caller]
pub(super) fn harmless(lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match judge(line) {
            Err(doubt) => panic!("{line}: {doubt}"),
            Ok(effects) => {
                let other = effects.iter().find(|effect| {
                    matches!(
                        effect,
                        Consequence::Runs(_)
                            | Consequence::Script { .. }
                            | Consequence::Sets(_)
                            | Consequence::ReadsCodeFromInput
                    )
                });
                assert!(other.is_none(), "{line}: {other:?}");
            }
        }
    }
}

/// Checks `line => doubt` or `line => consequence; consequence`, one per line. Consequences that
/// are not named are not checked.
#[track_caller]
pub(super) fn check(lines: &str) {
    for case in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (line, expected) = case.split_once(" => ").expect("a line and what it leads to");
        match judge(line) {
            Err(doubt) => assert_eq!(doubt, expected, "{line}"),
            Ok(effects) => {
                let shown: Vec<_> = effects.iter().map(shown).collect();
                let missing = expected.split("; ").find(|text| !shown.iter().any(|s| s == text));
                assert_eq!(missing, None, "{line}: {shown:?}");
            }
        }
    }
}
