//! Matching a command against a rule: the program's name or path, and its arguments.

use super::super::command::{Shape, SimpleCommand, Word, base_name};
use super::super::wrappers::git_operands;
use super::rule::{Match, Side};

/// Directories in which a name is the program that everybody means.
const TRUSTED: [&str; 6] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Whether a program, as the text names it, is the one that a pattern means.
///
/// To deny, the last part of the path is enough: `/tmp/x/rm` is `rm`. To allow, the directory
/// must be one of the system's, with no detour: `/tmp/x/git` and `./git` are not `git`.
pub(super) fn is_meant(pattern: &str, program: &str, side: Side) -> bool {
    if pattern == "*" {
        return true;
    }
    // A wildcard of an allow rule does not stand for a way out of its directory.
    let climbs = |path: &str| path.split('/').any(|part| part == "..");
    if side == Side::Allow && climbs(program) && !climbs(pattern) {
        return false;
    }
    if pattern.contains('/') {
        return fits(pattern, program) || (side == Side::Deny && fits(pattern, &normal(program)));
    }
    match (side, program.rsplit_once('/')) {
        (_, None) => fits(pattern, program),
        (Side::Deny, Some(_)) => fits(pattern, base_name(program)),
        (Side::Allow, Some((directory, name))) => {
            TRUSTED.contains(&directory) && fits(pattern, name)
        }
    }
}

/// The path without empty parts, `.` and `..`, by its text alone.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

// Arguments in rules: exact beginnings to allow, meaning to deny.

/// Whether the command's arguments start with the rule's, word for word.
pub(super) fn start_with(rule: &[String], args: &[Word]) -> Match {
    for (index, wanted) in rule.iter().enumerate() {
        if wanted == "*" && index + 1 == rule.len() {
            return Match::Yes;
        }
        match args.get(index).map(Word::value) {
            Some(Some(text)) if fits(wanted, text) => {}
            Some(Some(_)) | None => return Match::No,
            Some(None) => return Match::Maybe,
        }
    }
    Match::Yes
}

/// Whether the command does what the rule's arguments say, in any order of its options.
///
/// The rule's operands must be the command's first ones; its options must all be given, in any
/// spelling: `-rf` is `-r -f`, `-fR`, `--recursive --force`.
pub(super) fn mean(rule: &[String], command: &SimpleCommand) -> Match {
    let words = match command.name() {
        Some("git") => git_operands(&command.args),
        Some(_) | None => &command.args,
    };
    let given = Given::of(words);
    let (options, operands): (Vec<&String>, Vec<&String>) =
        rule.iter().partition(|word| word.starts_with('-') && word.len() > 1);
    let options = options.iter().map(|option| given.has(option));
    let operands = given.starts_with(&operands);
    options.fold(operands, Match::and)
}

/// The arguments of a command, sorted.
#[derive(Debug, Default)]
struct Given<'w> {
    options: Vec<&'w str>,
    /// Each with whether it follows an option, whose value it may be.
    operands: Vec<(&'w Word, bool)>,
    /// Some word may turn out to be an option.
    open: bool,
}

impl<'w> Given<'w> {
    fn of(words: &'w [Word]) -> Self {
        let mut given = Self::default();
        let mut after_option = false;
        let mut closed = false;
        for word in words {
            let option = !closed && word.text.starts_with('-') && word.text.len() > 1;
            if word.is("--") {
                closed = true;
            } else if option {
                given.options.push(&word.text);
                given.open |= word.shape != Shape::Literal;
            } else {
                // A file could be called `-rf`, but nobody writes a pattern for that.
                given.open |= !closed && word.shape != Shape::Glob && word.may_become_option();
                given.operands.push((word, after_option));
            }
            after_option = option && !word.text.contains('=');
        }
        given
    }

    fn has(&self, wanted: &str) -> Match {
        let exact = self.options.contains(&wanted);
        let found = exact
            || match wanted.strip_prefix("--") {
                Some(name) => self.has_long(name),
                None => wanted.chars().skip(1).all(|letter| self.has_letter(letter)),
            };
        match (found, self.open) {
            (true, _) => Match::Yes,
            (false, true) => Match::Maybe,
            (false, false) => Match::No,
        }
    }

    fn has_letter(&self, letter: char) -> bool {
        let same = |other: char| fold(other) == fold(letter);
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => long_name(letter).is_some_and(|name| is_short_for(long, name)),
            None => option.chars().skip(1).any(same),
        })
    }

    fn has_long(&self, name: &str) -> bool {
        let letter = ['r', 'f'].into_iter().find(|letter| long_name(*letter) == Some(name));
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => is_short_for(long, name),
            None => letter.is_some_and(|letter| option.chars().skip(1).any(|c| fold(c) == letter)),
        })
    }

    /// The wanted operands stand first, or first behind what may be values of options.
    fn starts_with(&self, wanted: &[&String]) -> Match {
        let starts = self.operands.iter().take_while(|(_, after_option)| *after_option).count();
        (0..=starts).map(|start| self.starts_with_at(start, wanted)).fold(Match::No, Match::or)
    }

    fn starts_with_at(&self, start: usize, wanted: &[&String]) -> Match {
        let operands = self.operands.get(start..).unwrap_or_default();
        let mut result = Match::Yes;
        for (index, wanted) in wanted.iter().enumerate() {
            let one = match operands.get(index) {
                Some((word, _)) => match word.value() {
                    Some(text) if fits(wanted, text) => Match::Yes,
                    Some(_) => Match::No,
                    None if word.shape == Shape::Many || wanted.starts_with(&word.text) => {
                        return result.and(Match::Maybe);
                    }
                    None => Match::No,
                },
                None => Match::No,
            };
            result = result.and(one);
        }
        result
    }
}

/// `-R` and `-r` mean the same to every program that has both and that rules are written for.
const fn fold(letter: char) -> char {
    if letter == 'R' { 'r' } else { letter }
}

const fn long_name(letter: char) -> Option<&'static str> {
    match fold(letter) {
        'r' => Some("recursive"),
        'f' => Some("force"),
        _ => None,
    }
}

/// GNU programs take any beginning of a long option's name.
fn is_short_for(given: &str, name: &str) -> bool {
    let given = given.split('=').next().unwrap_or(given);
    !given.is_empty() && name.starts_with(given)
}

// Wildcards: `*` for any text, `?` for one character.

/// Returns whether the whole text fits the pattern. Quadratic at worst, without recursion or copies.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Where to go on after the last `*` if what follows it does not fit here.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        match (pattern.next(), text.clone().next()) {
            (Some('*'), _) => retry = Some((pattern.clone(), text.clone())),
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                text.next();
            }
            (Some(_) | None, _) => {
                let Some((after_star, from)) = &mut retry else { return false };
                if from.next().is_none() {
                    return false;
                }
                (pattern, text) = (after_star.clone(), from.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Side, is_meant, normal};

    #[test]
    fn to_deny_the_name_is_enough_to_allow_the_directory_counts() {
        for (pattern, program, denied, allowed) in [
            ("rm", "rm", true, true),
            ("rm", "/bin/rm", true, true),
            ("rm", "//bin//rm", true, false),
            ("rm", "/usr/bin/../bin/rm", true, false),
            ("git", "/tmp/evil/git", true, false),
            ("git", "./git", true, false),
            ("./build.sh", "./build.sh", true, true),
            ("./build.sh", "./sub/../build.sh", false, false),
            ("/opt/x/run", "/opt//x/run", true, false),
            ("*", "./anything", true, true),
        ] {
            assert_eq!(is_meant(pattern, program, Side::Deny), denied, "deny {pattern} {program}");
            assert_eq!(
                is_meant(pattern, program, Side::Allow),
                allowed,
                "allow {pattern} {program}"
            );
        }
    }

    #[test]
    fn a_path_is_cleaned_by_its_text_alone() {
        assert_eq!(normal("/a/./b/../c//d"), "/a/c/d");
        assert_eq!(normal("../a/../../b"), "../../b");
        assert_eq!(normal("/../a"), "/a");
    }
}

#[cfg(test)]
mod glob_tests {
    use super::fits;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, text, expected) in [
            ("rm", "rm", true),
            ("rm", "rmdir", false),
            ("rm*", "rmdir", true),
            ("rm*", "rm", true),
            ("*rm", "confirm", true),
            ("r?", "rm", true),
            ("r?", "r", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
