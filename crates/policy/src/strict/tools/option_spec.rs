//! Reading arguments by options that are written as in a program's help.
//!
//! Programs with hundreds of options, or with long options behind a single dash, list them as one
//! text of tokens, each an option in its own spelling:
//!
//! - `-v`, `--verbose`, `-version`: the option alone.
//! - `--name=`: with a value, behind `=` or in the next word. The next word may not look like an
//!   option, because many programs then read it as one.
//! - `--name==`: the same for programs that take the next word whatever it is.
//! - `--name?`: with a value behind `=`, or none.
//! - `-c=>`: with a value; all words behind the value are operands.
//! - `-args>`: without a value; all words behind it are operands.
//! - `-W*`: any word that starts like this.
//! - `-#`: a dash and a number.
//!
//! Short options may be joined (`-xq`) unless the text has a long option behind a single dash.

use super::consequence::Doubt;
use super::options::{Arguments, Given, Order, is_operand, stays_one_word};
use crate::command::{Shape, Word};

/// The options of a program, and of the command around it where both are read together.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptionSpec<'s> {
    /// The tokens.
    pub(super) tokens: &'s [&'static str],
    /// The place of options among the words.
    pub(super) order: Order,
}

/// The form in which an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Word,
    AnyWord,
    Attached,
    /// A value, and then nothing else is an option.
    Rest,
    /// No value, but then nothing else is an option.
    End,
}

/// The next word that an option needs.
struct Needs {
    takes: Takes,
    name: String,
}

impl OptionSpec<'_> {
    /// Sorts arguments into options and operands. Options keep their dashes in their names.
    ///
    /// # Errors
    /// Names the first word that is not a known option and may be one when it runs.
    pub(super) fn read(&self, args: &[Word]) -> Result<Arguments, Doubt> {
        let mut found = Arguments::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if word.is("--") {
                found.operands.extend(words.cloned());
                break;
            }
            if is_operand(word)? {
                found.operands.push(word.clone());
                if self.order == Order::First {
                    found.operands.extend(words.cloned());
                    break;
                }
                continue;
            }
            let Some(needs) = self.read_option(word, &mut found.options)? else {
                continue;
            };
            if needs.takes == Takes::End {
                found.operands.extend(words.cloned());
                break;
            }
            let value = words.next();
            let value =
                value.ok_or_else(|| format!("the option {} without a value", needs.name))?;
            if !is_value(value, needs.takes) {
                return Err(format!("the word {value}"));
            }
            if let Some(given) = found.options.last_mut() {
                given.value = Some(value.clone());
            }
            if needs.takes == Takes::Rest {
                found.operands.extend(words.cloned());
                break;
            }
        }
        Ok(found)
    }

    /// `true` if the option is listed.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.find(name).is_some() || self.prefix(name) == Some(name)
    }

    /// Reads one word of options; returns the last of them if it needs the next word.
    fn read_option(&self, word: &Word, given: &mut Vec<Given>) -> Result<Option<Needs>, Doubt> {
        let text = word.text.as_str();
        let is_literal = word.shape == Shape::Literal;
        if is_literal && let Some(takes) = self.find(text) {
            given.push(Given { name: text.to_owned(), value: None });
            let needs_word = !matches!(takes, Takes::Nothing | Takes::Attached);
            return Ok(needs_word.then(|| Needs { takes, name: text.to_owned() }));
        }
        if let Some((name, value)) = text.split_once('=')
            && name.len() > 2
            && let Some(Takes::Word | Takes::AnyWord | Takes::Attached) = self.find(name)
        {
            given.push(Given { name: name.to_owned(), value: Some(rest_of(word, value)) });
            return Ok(None);
        }
        if let Some(prefix) = self.prefix(text) {
            let value = text.get(prefix.len()..).unwrap_or_default();
            given.push(Given { name: prefix.to_owned(), value: Some(rest_of(word, value)) });
            return Ok(None);
        }
        let digits = text.get(1..).unwrap_or_default();
        if is_literal && digits.bytes().all(|byte| byte.is_ascii_digit()) && self.has_numbers() {
            return Ok(None);
        }
        if text.starts_with("--") || self.has_long_behind_one_dash() {
            return Err(format!("the option {}", name_of(text)));
        }
        self.read_cluster(word, given)
    }

    /// Reads `-abc`.
    fn read_cluster(&self, word: &Word, given: &mut Vec<Given>) -> Result<Option<Needs>, Doubt> {
        let cluster = word.text.get(1..).unwrap_or_default();
        let is_literal = word.shape == Shape::Literal;
        for (index, letter) in cluster.char_indices() {
            let name = format!("-{letter}");
            let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
            let takes = self.find(&name).ok_or_else(|| format!("the option {name}"))?;
            match takes {
                Takes::Nothing => given.push(Given { name, value: None }),
                Takes::Attached => {
                    let value = (!rest.is_empty() || !is_literal).then(|| rest_of(word, rest));
                    given.push(Given { name, value });
                    return Ok(None);
                }
                Takes::Rest | Takes::End if !rest.is_empty() => {
                    return Err(format!("the word {word}"));
                }
                Takes::Word | Takes::AnyWord | Takes::Rest | Takes::End if rest.is_empty() => {
                    // `-n$x`: an empty value would take the next word instead.
                    if !is_literal {
                        return Err(format!("the word {word}"));
                    }
                    given.push(Given { name: name.clone(), value: None });
                    return Ok(Some(Needs { takes, name }));
                }
                Takes::Word | Takes::AnyWord | Takes::Rest | Takes::End => {
                    given.push(Given { name, value: Some(rest_of(word, rest)) });
                    return Ok(None);
                }
            }
        }
        if is_literal { Ok(None) } else { Err(format!("the word {word}")) }
    }

    fn all(&self) -> impl Iterator<Item = &'static str> {
        self.tokens.iter().flat_map(|tokens| tokens.split_ascii_whitespace())
    }

    fn find(&self, name: &str) -> Option<Takes> {
        // The marks of tokens are no part of a name: `--name=` has an empty value.
        if name.contains(['=', '?', '>', '*', '#']) {
            return None;
        }
        self.all().find_map(|token| match token.strip_prefix(name)? {
            "" => Some(Takes::Nothing),
            "=" => Some(Takes::Word),
            "==" => Some(Takes::AnyWord),
            "?" => Some(Takes::Attached),
            "=>" => Some(Takes::Rest),
            ">" => Some(Takes::End),
            _ => None,
        })
    }

    fn prefix(&self, text: &str) -> Option<&'static str> {
        let prefixes = self.all().filter_map(|token| token.strip_suffix('*'));
        prefixes.filter(|prefix| text.starts_with(prefix)).max_by_key(|prefix| prefix.len())
    }

    fn has_numbers(&self) -> bool {
        self.all().any(|token| token == "-#")
    }

    fn has_long_behind_one_dash(&self) -> bool {
        self.all().any(|token| {
            !token.starts_with("--")
                && token.trim_end_matches(['=', '?', '>', '*']).chars().count() > 2
        })
    }
}

/// `true` if the word can be the value of an option that takes its value like this.
fn is_value(word: &Word, takes: Takes) -> bool {
    match takes {
        // A word that may vanish or split would make the next word an option or an operand.
        Takes::AnyWord | Takes::Rest => stays_one_word(word),
        Takes::Word => stays_one_word(word) && is_operand(word) == Ok(true),
        Takes::Nothing | Takes::Attached | Takes::End => false,
    }
}

/// An option as a refusal names it: without its value.
fn name_of(text: &str) -> &str {
    text.split('=').next().unwrap_or(text)
}

/// The part of a word behind an option's name.
fn rest_of(word: &Word, rest: &str) -> Word {
    let source = if word.shape == Shape::Literal { String::new() } else { word.source.clone() };
    Word { text: rest.to_owned(), source, variable: None, ..word.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Word> {
        line.split(' ').filter(|word| !word.is_empty()).map(Word::literal).collect()
    }

    #[track_caller]
    fn check(tokens: &'static str, line: &str, expected: Result<(&[&str], &[&str]), &str>) {
        let spec = OptionSpec { tokens: &[tokens], order: Order::Anywhere };
        let found = spec.read(&words(line)).map(|found| {
            let options = found.options.into_iter().map(|given| match given.value {
                Some(value) => format!("{}:{}", given.name, value.text),
                None => given.name,
            });
            let operands = found.operands.into_iter().map(|word| word.text);
            (options.collect::<Vec<_>>(), operands.collect::<Vec<_>>())
        });
        let expected = expected.map_err(str::to_owned).map(|(options, operands)| {
            let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
            (owned(options), owned(operands))
        });
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn options_are_read_as_they_are_listed() {
        check("-v -n= --all", "-vn5 a --all b", Ok((&["-v", "-n:5", "--all"], &["a", "b"])));
        check("-n= --color?", "-n 5 --color --color=x y", {
            Ok((&["-n:5", "--color", "--color:x"], &["y"]))
        });
        check("-v", "-- -x", Ok((&[], &["-x"])));
        check("-c=> -q", "-q -c code -x", Ok((&["-q", "-c:code"], &["-x"])));
        check("-args> -v", "-v x -args -x", Ok((&["-v", "-args"], &["x", "-x"])));
        check("-jar= -D*", "-Da=b -jar x", Ok((&["-D:a=b", "-jar:x"], &[])));
        check("-#", "-20 x", Ok((&[], &["x"])));
        check("--since==", "--since -1h", Ok((&["--since:-1h"], &[])));
    }

    #[test]
    fn a_word_that_is_not_listed_is_named() {
        check("-v --verbose", "--verb", Err("the option --verb"));
        check("-v --verbose", "--verbose=x", Err("the option --verbose"));
        check("-v", "-vx", Err("the option -x"));
        check("-v -x -xv=", "-vx", Err("the option -vx"));
        check("--name=", "--name --other", Err("the word --other"));
        check("--name=", "--name --", Err("the word --"));
        check("--name=", "--name", Err("the option --name without a value"));
        check("-n=", "-5", Err("the option -5"));
    }

    #[test]
    fn unknown_parts_may_only_be_values() {
        let spec = OptionSpec { tokens: &["-n= --name= --any== -v"], order: Order::Anywhere };
        let read = |word: &Word| spec.read(&[word.clone(), Word::literal("x")]).is_ok();
        assert!(read(&Word::unknown("--name=", Shape::One)));
        assert!(read(&Word::unknown("-n5", Shape::One)));
        assert!(!read(&Word::unknown("-n", Shape::One)));
        assert!(!read(&Word::unknown("-v", Shape::One)));
        assert!(!read(&Word::unknown("--na", Shape::One)));
        assert!(!read(&Word::unknown("", Shape::One)));
        assert!(!read(&Word::unknown("", Shape::Glob)));
        let value = |option: &str, shape| {
            spec.read(&[Word::literal(option), Word::unknown("", shape)]).is_ok()
        };
        assert!(value("--any", Shape::One));
        assert!(!value("--any", Shape::Many));
        assert!(!value("--name", Shape::One));
    }
}
