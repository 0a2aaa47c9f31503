//! Small damage to a script: most of what bash and a reader could disagree on is in it.

use super::random::Random;

const PIECES: [&str; 64] = [
    "'", "\"", "`", "$", "(", ")", "{", "}", "[", "]", "<", ">", "|", "&", ";", "#", "\n", " ",
    "\\", "!", "=", "+", "*", "?", "~", ",", "\\\n", "$(", "$((", "))", "${", "<<", "<<<", "<<-",
    "<(", ">(", "$'", "$\"", "((", "[[ ", " ]]", ";;", "&&", "||", "|&", "&>", " then ", " do ",
    " fi ", " done ", " esac ", " in ", " { ", " ; } ", "E\n", "\nE\n", "x=", "x[", "-v ", "\t",
    " zqa ", "zqb", "eval ", "\\\\",
];

/// One to four changes.
pub(crate) fn mutate(script: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = script.chars().collect();
    for _ in 0..=random.below(4) {
        change(&mut chars, random);
    }
    chars.into_iter().collect()
}

fn change(chars: &mut Vec<char>, random: &mut Random) {
    let at = random.below(chars.len() + 1);
    match random.below(6) {
        0 if at < chars.len() => {
            chars.remove(at);
        }
        1 | 2 => {
            let piece = random.pick(&PIECES);
            chars.splice(at..at, piece.chars());
        }
        3 if at < chars.len() => {
            let piece = random.pick(&PIECES);
            chars.splice(at..=at, piece.chars());
        }
        4 => {
            let end = (at + random.below(12)).min(chars.len());
            let slice: Vec<char> = chars[at..end].to_vec();
            let to = random.below(chars.len() + 1);
            chars.splice(to..to, slice);
        }
        5 => {
            let end = (at + random.below(8)).min(chars.len());
            chars.drain(at..end);
        }
        _ => {}
    }
}
