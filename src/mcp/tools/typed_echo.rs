//! The echo of typed text in the output of a job with a terminal. Pure.
//!
//! A terminal echoes text as soon as it is typed. A line editor does so itself, line by line, each
//! after its prompt and with terminal codes between. So lines are compared by their visible
//! characters, in the order in which they were typed.

use std::ops::Range;

use crate::service::EchoMode;

/// Prompts for the next line of an unfinished statement, in shells and REPLs.
const CONTINUATIONS: [&str; 6] = ["...", ">", "...:", "...>", "->", "|"];

/// The echo to expect after some text was typed.
#[derive(Debug, Default)]
pub(super) struct TypedEcho {
    mode: EchoMode,
    /// The visible characters of the lines that were typed with a newline.
    lines: Vec<String>,
    /// The visible characters of the text after the last newline.
    unfinished: String,
    /// The visible characters of the prompt at which the text was typed.
    prompt: String,
}

impl TypedEcho {
    /// Creates the echo of `typed`. `prompt` is the unfinished line of output before it.
    pub(super) fn new(typed: &[u8], mode: EchoMode, prompt: &str) -> Self {
        if mode == EchoMode::Off {
            return Self::default();
        }
        let text = String::from_utf8_lossy(typed);
        let mut lines: Vec<String> = text.split(['\n', '\r']).map(visible_keys).collect();
        let unfinished = lines.pop().unwrap_or_default();
        Self { mode, lines, unfinished, prompt: visible(prompt) }
    }

    /// Returns the length of the echo with which the output begins. `output` begins where it ended
    /// when the text was typed.
    pub(super) fn leading_bytes(&self, output: &str) -> usize {
        leading_bytes(&self.find_in(output))
    }

    /// Returns the visible characters of the lines of the echo that come after other output.
    pub(super) fn later_lines(&self, output: &str) -> Vec<String> {
        let found = self.find_in(output);
        let leading = leading_bytes(&found);
        let later = found.into_iter().filter(|echo| echo.start >= leading && leading < echo.end);
        later.map(|echo| visible(&output[echo])).collect()
    }

    /// `true` if there is more in the output than the echo.
    pub(super) fn has_more_in(&self, output: &str) -> bool {
        let mut at = 0;
        let mut places = self.find_in(output);
        places.push(output.len()..output.len());
        places.into_iter().any(|echo| {
            let between = &output[at..echo.start];
            at = echo.end;
            !visible(between).is_empty()
        })
    }

    /// `true` if the last line of the output, finished or not, is part of the echo.
    pub(super) fn ends(&self, output: &str) -> bool {
        let found = self.find_in(&format!("{output}\n"));
        if found.last().is_some_and(|echo| echo.end > output.len()) {
            return true;
        }
        // A part of the next line to be echoed.
        let next = self.lines.get(found.len()).unwrap_or(&self.unfinished);
        let last = visible(output.rsplit('\n').next().unwrap_or_default());
        let is_part = |part: &str| !part.is_empty() && next.starts_with(part);
        let mut prompts = CONTINUATIONS.into_iter().chain([self.prompt.as_str()]);
        is_part(&last) || prompts.any(|prompt| last.strip_prefix(prompt).is_some_and(is_part))
    }

    /// Returns the places of the echo, in order: whole lines, and the unfinished text at the end.
    fn find_in(&self, output: &str) -> Vec<Range<usize>> {
        let last = visible(output.rsplit('\n').next().unwrap_or_default());
        let prompts = [self.prompt.as_str(), last.as_str()];
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        for (index, typed) in self.lines.iter().enumerate() {
            // The terminal echoes everything at once; a line editor shows its prompt between.
            let can_be_alone = self.mode == EchoMode::Terminal || index == 0;
            let line = finished_lines(output, at).find(|line| {
                let text = visible(&output[line.clone()]);
                line.start == at && can_be_alone && text == *typed
                    || is_prompted(&text, typed, &prompts)
            });
            if let Some(line) = line {
                at = line.end;
                found.push(line);
            }
        }
        if self.mode == EchoMode::Terminal {
            found.extend(self.find_again(output, at, &prompts));
        }
        let is_complete = found.last().is_none_or(|line| line.end == at);
        if is_complete && !self.unfinished.is_empty() {
            found.extend(self.find_unfinished(output, at));
        }
        found
    }

    /// Returns the places of lines that a line editor echoes after the terminal has: they were typed
    /// before it was ready.
    fn find_again(&self, output: &str, from: usize, prompts: &[&str]) -> Vec<Range<usize>> {
        let mut at = from;
        let typed = self.lines.iter().filter(|typed| !typed.is_empty());
        let found = typed.filter_map(|typed| {
            let mut lines = finished_lines(output, at);
            let line =
                lines.find(|line| is_prompted(&visible(&output[line.clone()]), typed, prompts))?;
            at = line.end;
            Some(line)
        });
        found.collect()
    }

    /// Returns the place of the text after the last newline. A program that shows other text after
    /// a key has not echoed the key.
    fn find_unfinished(&self, output: &str, at: usize) -> Option<Range<usize>> {
        let rest = output.get(at..)?;
        let mut ends = rest.char_indices().map(|(start, found)| start + found.len_utf8());
        let end = ends.find(|end| visible(&rest[..*end]).len() >= self.unfinished.len())?;
        let line = rest.split('\n').next().unwrap_or_default();
        let is_alone = visible(line) == self.unfinished;
        let is_echo = visible(&rest[..end]) == self.unfinished
            && (is_alone || self.mode == EchoMode::Terminal);
        is_echo.then_some(at..at + end)
    }
}

/// Returns the length of the output that these places cover from its start on.
fn leading_bytes(places: &[Range<usize>]) -> usize {
    places.iter().fold(0, |end, echo| if echo.start == end { echo.end } else { end })
}

/// Returns the text without these lines, given by their visible characters in order.
pub(super) fn remove_lines(text: &str, lines: &[String]) -> String {
    let mut lines = lines.iter().peekable();
    let kept = text
        .split_inclusive('\n')
        .filter(|line| lines.next_if(|echo| !echo.is_empty() && **echo == visible(line)).is_none());
    kept.collect()
}

/// `true` if a line is a prompt and this text.
fn is_prompted(line: &str, typed: &str, prompts: &[&str]) -> bool {
    let is_known = |found: &str| {
        let is_like = |prompt: &&str| {
            // Prompts may contain a number, or other signs for an unfinished statement.
            let letters = letters(prompt);
            *prompt == found || !letters.is_empty() && letters == self::letters(found)
        };
        !found.is_empty() && (CONTINUATIONS.contains(&found) || prompts.iter().any(is_like))
    };
    line.strip_suffix(typed).is_some_and(is_known)
}

/// Returns the places of the finished lines from `at` on, with their newlines.
fn finished_lines(output: &str, at: usize) -> impl Iterator<Item = Range<usize>> {
    let rest = output.get(at..).unwrap_or_default();
    let lines = rest.split_inclusive('\n').scan(at, |next, line| {
        let place = *next..*next + line.len();
        *next = place.end;
        Some((place, line.ends_with('\n')))
    });
    lines.filter(|(_, is_finished)| *is_finished).map(|(place, _)| place)
}

/// Returns the visible characters of typed keys: a terminal shows a control key as `^C`.
fn visible_keys(typed: &str) -> String {
    let mut shown = String::new();
    for key in typed.chars() {
        match key {
            // The end of input and erased characters leave nothing.
            '\u{4}' | '\u{7f}' | '\t' => {}
            '\u{1}'..='\u{1f}' => {
                shown.push('^');
                shown.extend(char::from_u32(u32::from(key) + 0x40));
            }
            key if key.is_whitespace() => {}
            key => shown.push(key),
        }
    }
    shown
}

/// Returns the visible characters of output, without spaces: a line editor adds some where a line
/// is full.
fn visible(output: &str) -> String {
    let mut shown = String::new();
    let mut chars = output.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '\u{1b}' => match chars.next() {
                Some('[') => while chars.next_if(|code| !matches!(code, '@'..='~')).is_some() {},
                Some(']') => while chars.next_if(|code| *code != '\u{7}').is_some() {},
                _ => continue,
            },
            next if next.is_whitespace() || next.is_control() => continue,
            next => {
                shown.push(next);
                continue;
            }
        }
        // The last character of the code.
        chars.next();
    }
    shown
}

fn letters(text: &str) -> String {
    text.chars().filter(|found| found.is_alphabetic()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_is_removed_and_nothing_else() {
        use EchoMode::{Off, Program, Terminal};
        for (mode, typed, prompt, output, expected) in [
            (Program, "1/0\n", ">>> ", "1/0\r\nTraceback\r\n>>> ", "Traceback\r\n>>> "),
            (Terminal, "hello\n", "", "hello\r\nhello\r\n", "hello\r\n"),
            (Terminal, "a\nb\n", "", "a\r\nb\r\na\r\nb\r\n", "a\r\nb\r\n"),
            (Terminal, "5\n", "Enter: ", "5\r\nYou entered: 5\r\n", "You entered: 5\r\n"),
            (Program, "5\n5\n", ">>> ", "5\r\n5\r\n>>> 5\r\n5\r\n>>> ", "5\r\n5\r\n>>> "),
            (
                Program,
                "5\n5\n",
                "(1)> ",
                "5\r\n=> 5\r\n(2)> 5\r\n=> 5\r\n(2)> ",
                "=> 5\r\n=> 5\r\n(2)> ",
            ),
            // A block, with prompts of its own.
            (
                Program,
                "for i in range(2):\n    print(i)\n\n",
                ">>> ",
                "for i in range(2):\r\n...     print(i)\r\n... \r\n0\r\n1\r\n>>> ",
                "0\r\n1\r\n>>> ",
            ),
            // Output between the lines.
            (
                Program,
                "print(7)\nprint(8)\n",
                ">>> ",
                "print(7)\r\n7\r\n>>> print(8)\r\n8\r\n>>> ",
                "7\r\n8\r\n>>> ",
            ),
            // The prompt is written again with each key.
            (Program, "1+1\n", "> ", "\u{1b}[1G\u{1b}[0J> 1+1\u{1b}[6G\r\n2\r\n> ", "2\r\n> "),
            (Program, "ls\n", "root@vm:/# ", "ls\r\n\u{1b}[?2004l\ra\r\n", "\u{1b}[?2004l\ra\r\n"),
            // Typed ahead: the terminal echoes, and then the line editor.
            (Terminal, "ls\n", "", "ls\r\nvm# ls\r\na\r\nvm# ", "a\r\nvm# "),
            // A line editor wraps a long line.
            (Program, "aaaa bbbb\n", "> ", "aaaa \rbbbb\r\nok\r\n", "ok\r\n"),
            (Terminal, "\u{3}", "", "^Ccaught\r\n", "caught\r\n"),
            (Program, "y", "Sure? ", "y\r\nDone\r\n", "\r\nDone\r\n"),
            (Program, "y", "Sure? ", "yes\r\n", "yes\r\n"),
            (Terminal, "\n", "", "\r\nnext\r\n", "next\r\n"),
            (Program, "print(5)\n\n", ">>> ", "print(5)\r\n5\r\n>>> \r\n>>> ", "5\r\n>>> "),
            (Program, "q", "", "other\r\n", "other\r\n"),
            (Off, "hello\n", "", "hello\r\n", "hello\r\n"),
        ] {
            let echo = TypedEcho::new(typed.as_bytes(), mode, prompt);
            let rest = &output[echo.leading_bytes(output)..];
            let rest = remove_lines(rest, &echo.later_lines(output));
            assert_eq!(rest, expected, "{typed:?} {output:?}");
        }
    }

    #[test]
    fn the_leading_echo_has_a_length() {
        let echo = TypedEcho::new(b"a\nb\n", EchoMode::Terminal, "");
        assert_eq!(echo.leading_bytes("a\r\nb\r\nrest"), 6);
        assert_eq!(echo.leading_bytes("a\r\nother\r\n> b\r\n"), 3);
        assert_eq!(echo.leading_bytes("other\r\n"), 0);
    }

    #[test]
    fn only_more_than_the_echo_is_a_reaction() {
        let echo = TypedEcho::new(b"sleep 1\n", EchoMode::Program, "$ ");
        assert!(!echo.has_more_in("sleep 1\r\n\u{1b}[?2004l\r"));
        assert!(echo.has_more_in("sleep 1\r\n\u{1b}[?2004l\r$ "));
        assert!(TypedEcho::default().has_more_in("x"));
    }

    #[test]
    fn a_line_that_is_echoed_is_recognised_before_it_is_complete() {
        let echo = TypedEcho::new(b"print('ready')\n", EchoMode::Program, ">>> ");
        for output in ["p", "print('rea", "print('ready')", "print('ready')\r"] {
            assert!(echo.ends(output), "{output}");
        }
        for output in ["", "other", "print('ready')\r\nready", "print('ready')\r\nprint('ready')"] {
            assert!(!echo.ends(output), "{output}");
        }
    }
}
