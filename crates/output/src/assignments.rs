//! Values that stand behind a name such as `password=`. Pure.
//!
//! Such a name alone proves little: most lines that hold one are source code, help texts and
//! messages. So the value decides, together with how it is written. In doubt a password is masked
//! where it is written like a setting, and shown where it is written like code.

use std::ops::Range;

/// The shortest key, token or secret that is masked behind its name alone.
const KEY_BYTES: usize = 16;
/// The shortest password behind a colon, or behind an equals sign with blanks around it.
const PASSWORD_BYTES: usize = 6;
/// The shortest password in quotes.
const QUOTED_BYTES: usize = 4;

/// Words that stand where a password would, and are none.
const PLACEHOLDERS: [&str; 28] = [
    "any",
    "bool",
    "char",
    "empty",
    "false",
    "hidden",
    "int",
    "key",
    "nil",
    "no",
    "none",
    "null",
    "optional",
    "pass",
    "passwd",
    "password",
    "prompt",
    "pwd",
    "required",
    "secret",
    "self",
    "str",
    "string",
    "text",
    "token",
    "true",
    "undefined",
    "value",
];

/// The kind of value that the name in front of it announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// A password can be any text.
    Password,
    /// A key, token or secret is long and has letters and digits.
    Key,
}

/// The way in which a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `name=value`.
    Equals,
    /// `name = value`.
    SpacedEquals,
    /// `name: value`.
    Colon,
    /// `--name value`.
    Option,
}

/// A value with what stands around it.
#[derive(Debug)]
struct Value<'l> {
    text: &'l [u8],
    is_quoted: bool,
    /// The byte behind it, and behind its quotes; `None` at the end of the line.
    after: Option<u8>,
    at: Range<usize>,
}

/// The secret behind a name and a separator that were found in a line.
pub(super) fn assigned_secret(line: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    let head = line.get(found.clone())?;
    let end = head.iter().rposition(|byte| byte.is_ascii_alphanumeric())? + 1;
    let (name, separator) = head.split_at(end);
    let style = match separator.iter().find(|byte| matches!(byte, b'=' | b':')) {
        Some(b':') if !separator.contains(&b'=') => Style::Colon,
        _ if separator.contains(&b' ') || separator.contains(&b'\t') => Style::SpacedEquals,
        _ => Style::Equals,
    };
    let value = value_at(line, found.end)?;
    is_secret(&value, named(name), style).then_some(value.at)
}

/// The secret behind `password` and a blank: an option's value, or an entry of `.netrc`.
pub(super) fn spaced_secret(line: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    let before = line.get(..found.start)?;
    let value = value_at(line, found.end)?;
    let words: Vec<&[u8]> =
        before.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let is_entry = match words.as_slice() {
        [.., b"login" | b"account", _] => true,
        [] => value.after.is_none() && has_digit(value.text),
        _ => false,
    };
    let is_option = before.ends_with(b"--") && is_secret(&value, Named::Password, Style::Option);
    (is_entry || is_option).then_some(value.at)
}

/// The secret part of a Telegram token, which stands behind the number of its bot.
pub(super) fn bot_secret(line: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    let before = line.get(..found.start)?;
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    (8..=10).contains(&digits).then_some(found.start + 1..found.end)
}

fn named(name: &[u8]) -> Named {
    let name = name.to_ascii_lowercase();
    let is_password =
        [b"pass".as_slice(), b"pwd"].iter().any(|it| memchr::memmem::find(&name, it).is_some());
    if is_password { Named::Password } else { Named::Key }
}

/// The value that begins at a place of a line.
fn value_at(line: &[u8], start: usize) -> Option<Value<'_>> {
    let rest = line.get(start..)?;
    let rest = rest.split(|byte| matches!(byte, b'\n' | b'\r')).next()?;
    // `\"value\"` inside of a JSON text, and `b"value"` of Python.
    let skipped = rest.iter().take_while(|byte| matches!(byte, b'\\' | b'b' | b'r')).count();
    if let Some(quote @ (b'"' | b'\'' | b'`')) = rest.get(skipped) {
        let inner = rest.get(skipped + 1..)?;
        let length = inner.iter().position(|byte| byte == quote)?;
        let text = inner.get(..length)?;
        let text = text.strip_suffix(b"\\").unwrap_or(text);
        let at = start + skipped + 1;
        let after = inner.get(length + 1).copied();
        return Some(Value { text, is_quoted: true, after, at: at..at + text.len() });
    }
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;&|()<>{}[]".contains(byte);
    let length = rest.iter().position(ends).unwrap_or(rest.len());
    let text = rest.get(..length)?;
    let at = start..start + text.len();
    Some(Value { text, is_quoted: false, after: rest.get(text.len()).copied(), at })
}

fn is_secret(value: &Value<'_>, named: Named, style: Style) -> bool {
    let text = value.text;
    let is_whole = !text.iter().any(u8::is_ascii_whitespace);
    is_whole
        && !is_placeholder(text)
        && (value.is_quoted || !is_code(value))
        && match named {
            Named::Key => is_key(text),
            Named::Password => is_password(value, style),
        }
}

/// A key: long, of letters and digits, and nothing that only names one.
fn is_key(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_.~%-".contains(byte);
    text.len() >= KEY_BYTES
        && text.iter().all(is_part)
        && has_digit(text)
        && text.iter().any(u8::is_ascii_alphabetic)
        && !has_word(text, &["key", "token", "secret", "env"])
}

fn is_password(value: &Value<'_>, style: Style) -> bool {
    let text = value.text;
    let is_word = text.iter().all(|byte| byte.is_ascii_alphabetic() || b"_-.".contains(byte));
    let is_last = value.after.is_none_or(|byte| byte.is_ascii_whitespace());
    // A path is where a password is kept.
    if text.starts_with(b"/") || text.starts_with(b"./") || text.starts_with(b"~/") {
        return false;
    }
    match (value.is_quoted, style) {
        (true, Style::Equals | Style::SpacedEquals | Style::Option) => text.len() >= QUOTED_BYTES,
        (true, Style::Colon) => text.len() >= QUOTED_BYTES && !is_word,
        // Behind an argument of a call stands `,` or `)`, behind a setting an end or a blank.
        (false, Style::Equals) => !is_word || !matches!(value.after, Some(b',' | b')')),
        (false, Style::SpacedEquals) => {
            text.len() >= PASSWORD_BYTES && has_digit(text) && value.after.is_none()
        }
        (false, Style::Colon) => text.len() >= PASSWORD_BYTES && has_digit(text) && is_last,
        (false, Style::Option) => text.len() >= QUOTED_BYTES && !is_word,
    }
}

fn has_digit(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit)
}

/// A word that stands for a value, one that was masked already, and a variable inside of quotes.
fn is_placeholder(text: &[u8]) -> bool {
    let Some((first, rest)) = text.split_first() else { return true };
    let word = String::from_utf8_lossy(text).to_ascii_lowercase();
    rest.iter().all(|byte| byte == first)
        || b"$%{<[(*&=".contains(first)
        || PLACEHOLDERS.contains(&word.as_str())
}

/// Code instead of a value: a call, a field, a variable that is named after what it holds.
fn is_code(value: &Value<'_>) -> bool {
    let text = value.text;
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_name = |part: &[u8]| {
        part.iter().all(in_name) && part.first().is_some_and(|byte| !byte.is_ascii_digit())
    };
    let is_path = text.contains(&b'.') && text.split(|byte| *byte == b'.').all(is_name);
    matches!(value.after, Some(b'(' | b'[' | b'{' | b'<'))
        || text.starts_with(b"-")
        || is_path
        || (is_name(text) && has_word(text, &["password", "passwd", "pwd", "passphrase"]))
        || text.ends_with(b"Password")
}

/// `true` if one of the words of a name is among these: it names a secret, and is none.
fn has_word(text: &[u8], words: &[&str]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    text.split(['_', '-', '.']).any(|part| words.contains(&part))
}
