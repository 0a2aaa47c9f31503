//! Matching of a command against a rule.

use crate::command::{Shape, SimpleCommand, Word, base_name};
use crate::rules::{ListKind, RuleMatch};
use crate::wrappers::git_operands;

/// The directories of the system's own programs.
const SYSTEM_DIRECTORIES: [&str; 6] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// `true` if a rule's pattern matches a program as the text names it.
///
/// For a deny rule the last part of the path is enough: `rm` matches `/tmp/x/rm`. For an allow rule
/// the directory must be one of the system's, without `..`: `git` matches neither `/tmp/x/git` nor
/// `./git`.
pub(crate) fn program_matches(pattern: &str, program: &str, list: ListKind) -> bool {
    if pattern == "*" {
        return true;
    }
    // A wildcard of an allow rule must not match `..`, which leads out of its directory.
    let climbs = |path: &str| path.split('/').any(|part| part == "..");
    if list == ListKind::Allow && climbs(program) && !climbs(pattern) {
        return false;
    }
    if pattern.contains('/') {
        return matches_wildcard(pattern, program)
            || (list == ListKind::Deny && matches_wildcard(pattern, &normalize_path(program)));
    }
    match (list, program.rsplit_once('/')) {
        (_, None) => matches_wildcard(pattern, program),
        (ListKind::Deny, Some(_)) => matches_wildcard(pattern, base_name(program)),
        (ListKind::Allow, Some((directory, name))) => {
            SYSTEM_DIRECTORIES.contains(&directory) && matches_wildcard(pattern, name)
        }
    }
}

/// Removes empty parts, `.` and `..` from a path, by its text alone.
pub(crate) fn normalize_path(path: &str) -> String {
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

// Arguments: an allow rule matches exact leading words, a deny rule matches by meaning.

/// Matches if the command's arguments start with the rule's, word for word.
pub(crate) fn match_leading_args(rule: &[String], args: &[Word]) -> RuleMatch {
    for (index, wanted) in rule.iter().enumerate() {
        if wanted == "*" && index + 1 == rule.len() {
            return RuleMatch::Yes;
        }
        match args.get(index).map(Word::value) {
            Some(Some(text)) if matches_wildcard(wanted, text) => {}
            Some(Some(_)) | None => return RuleMatch::No,
            Some(None) => return RuleMatch::Maybe,
        }
    }
    RuleMatch::Yes
}

/// Matches if the command has the rule's operands and options, in any order.
///
/// The rule's operands must be the command's first ones. The command must have all options of the
/// rule, in any spelling: `-rf` is `-r -f`, `-fR`, `--recursive --force`.
pub(crate) fn match_args_by_meaning(rule: &[String], command: &SimpleCommand) -> RuleMatch {
    let words = match command.name() {
        Some("git") => git_operands(&command.args),
        Some(_) | None => &command.args,
    };
    let sorted = SortedArgs::new(words);
    let (options, operands): (Vec<&String>, Vec<&String>) =
        rule.iter().partition(|word| word.starts_with('-') && word.len() > 1);
    let options = options.iter().map(|option| sorted.match_option(option));
    let operands = sorted.match_operands(&operands);
    options.fold(operands, RuleMatch::and)
}

/// The arguments of a command, divided into options and operands.
#[derive(Debug, Default)]
struct SortedArgs<'w> {
    options: Vec<&'w str>,
    /// Each operand, and `true` if it follows an option, whose value it may be.
    operands: Vec<(&'w Word, bool)>,
    /// `true` if some word may turn out to be an option.
    may_have_more_options: bool,
}

impl<'w> SortedArgs<'w> {
    fn new(words: &'w [Word]) -> Self {
        let mut sorted = Self::default();
        let mut after_option = false;
        let mut closed = false;
        for word in words {
            let option = !closed && word.text.starts_with('-') && word.text.len() > 1;
            if word.is("--") {
                closed = true;
            } else if option {
                sorted.options.push(&word.text);
                sorted.may_have_more_options |= word.shape != Shape::Literal;
            } else {
                // A file could be called `-rf`, but nobody writes a pattern for that.
                sorted.may_have_more_options |=
                    !closed && word.shape != Shape::Glob && word.may_become_option();
                sorted.operands.push((word, after_option));
            }
            after_option = option && !word.text.contains('=');
        }
        sorted
    }

    fn match_option(&self, wanted: &str) -> RuleMatch {
        let exact = self.options.contains(&wanted);
        let found = exact
            || match wanted.strip_prefix("--") {
                Some(name) => self.has_long_option(name),
                None => wanted.chars().skip(1).all(|letter| self.has_short_option(letter)),
            };
        match (found, self.may_have_more_options) {
            (true, _) => RuleMatch::Yes,
            (false, true) => RuleMatch::Maybe,
            (false, false) => RuleMatch::No,
        }
    }

    fn has_short_option(&self, letter: char) -> bool {
        let same = |other: char| fold_case_of_r(other) == fold_case_of_r(letter);
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => long_option_name(letter).is_some_and(|name| is_abbreviation(long, name)),
            None => option.chars().skip(1).any(same),
        })
    }

    fn has_long_option(&self, name: &str) -> bool {
        let letter = ['r', 'f'].into_iter().find(|letter| long_option_name(*letter) == Some(name));
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => is_abbreviation(long, name),
            None => letter
                .is_some_and(|letter| option.chars().skip(1).any(|c| fold_case_of_r(c) == letter)),
        })
    }

    /// Matches if the wanted operands come first, or first after words that may be option values.
    fn match_operands(&self, wanted: &[&String]) -> RuleMatch {
        let option_values =
            self.operands.iter().take_while(|(_, after_option)| *after_option).count();
        (0..=option_values)
            .map(|start| self.match_operands_at(start, wanted))
            .fold(RuleMatch::No, RuleMatch::or)
    }

    fn match_operands_at(&self, start: usize, wanted: &[&String]) -> RuleMatch {
        let operands = self.operands.get(start..).unwrap_or_default();
        let mut result = RuleMatch::Yes;
        for (index, wanted) in wanted.iter().enumerate() {
            let one = match operands.get(index) {
                Some((word, _)) => match word.value() {
                    Some(text) if matches_wildcard(wanted, text) => RuleMatch::Yes,
                    Some(_) => RuleMatch::No,
                    None if word.shape == Shape::Many || wanted.starts_with(&word.text) => {
                        return result.and(RuleMatch::Maybe);
                    }
                    None => RuleMatch::No,
                },
                None => RuleMatch::No,
            };
            result = result.and(one);
        }
        result
    }
}

/// Treats `-R` as `-r`: they mean the same in every program that has both and that rules name.
const fn fold_case_of_r(letter: char) -> char {
    if letter == 'R' { 'r' } else { letter }
}

const fn long_option_name(letter: char) -> Option<&'static str> {
    match fold_case_of_r(letter) {
        'r' => Some("recursive"),
        'f' => Some("force"),
        _ => None,
    }
}

/// `true` if an option abbreviates a long option's name, as GNU programs accept it.
fn is_abbreviation(written: &str, name: &str) -> bool {
    let written = written.split('=').next().unwrap_or(written);
    !written.is_empty() && name.starts_with(written)
}

/// `true` if the whole text matches a pattern, in which `*` stands for any text and `?` for one
/// character. Takes quadratic time at worst, without recursion or copies.
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut pattern = pattern.chars();
    let mut text = text.chars();
    // The position to continue from, after the last `*`, if the rest does not match here.
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

/// Locales in which all shells parse quotes the same way.
pub const PLAIN_LOCALES: [&str; 5] = ["C", "POSIX", "C.UTF-8", "C.utf8", "en_US.UTF-8"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deny_rule_matches_the_name_and_an_allow_rule_also_the_directory() {
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
            assert_eq!(
                program_matches(pattern, program, ListKind::Deny),
                denied,
                "deny {pattern} {program}"
            );
            assert_eq!(
                program_matches(pattern, program, ListKind::Allow),
                allowed,
                "allow {pattern} {program}"
            );
        }
    }

    #[test]
    fn a_path_is_normalized_by_its_text_alone() {
        assert_eq!(normalize_path("/a/./b/../c//d"), "/a/c/d");
        assert_eq!(normalize_path("../a/../../b"), "../../b");
        assert_eq!(normalize_path("/../a"), "/a");
    }

    #[test]
    fn a_star_matches_any_text_and_a_question_mark_one_character() {
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
            assert_eq!(matches_wildcard(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
