//! Bytes as a reply holds them: text where they are text, else base64.

use anstream::adapter::strip_str;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::output::redact::Redactor;

/// How text is changed on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) escapes: Escapes,
    pub(crate) newline: Newline,
}

/// What becomes of escape codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    Strip,
    Keep,
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newline {
    Lf,
    CrLf,
    Keep,
}

impl Style {
    /// Every byte as it was written.
    pub(crate) const AS_WRITTEN: Self = Self { escapes: Escapes::Keep, newline: Newline::Keep };

    fn apply(self, text: String) -> String {
        let text = match self.escapes {
            Escapes::Strip if text.contains('\x1b') => without_escapes(&text),
            Escapes::Strip | Escapes::Keep => text,
        };
        match self.newline {
            Newline::Lf if text.contains('\r') => text.replace("\r\n", "\n"),
            Newline::CrLf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            Newline::Lf | Newline::Keep => text,
        }
    }
}

/// Bytes as a reply holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chunk {
    Text(String),
    Base64(String),
}

impl Chunk {
    /// Text is masked with the whole reply; what is hidden by base64 is masked here.
    pub(crate) fn of(bytes: Vec<u8>, style: Style, redactor: &Redactor) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(style.apply(text)),
            Err(error) => Self::base64(&redactor.mask_bytes(error.as_bytes())),
        }
    }

    /// Bytes that are no text.
    pub(crate) fn base64(bytes: &[u8]) -> Self {
        Self::Base64(STANDARD.encode(bytes))
    }

    /// The word for it, where it is not simply text.
    pub(crate) const fn encoding(&self) -> Option<&'static str> {
        match self {
            Self::Text(_) => None,
            Self::Base64(_) => Some("base64"),
        }
    }

    /// What a reply holds.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Base64(text) => text,
        }
    }
}

/// Text without its escape codes. By line: a code that never ends must not hide what follows.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\r', '\n']);
        plain.extend(strip_str(content));
        plain.push_str(&line[content.len()..]);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(escapes: Escapes, newline: Newline, given: &str, expected: &str) {
        assert_eq!(Style { escapes, newline }.apply(given.to_owned()), expected, "{given:?}");
    }

    #[test]
    fn colours_go_and_lines_end_as_wished() {
        let given = "\x1b[31mred\x1b[0m\r\nb\tc\rd\0\n";
        check(Escapes::Strip, Newline::Lf, "a\r\nb\0\rc\n", "a\nb\0\rc\n");
        check(Escapes::Keep, Newline::Keep, given, given);
        check(Escapes::Keep, Newline::CrLf, "a\r\nb\n", "a\r\nb\r\n");
        check(Escapes::Strip, Newline::Keep, "\x1b[31mred\x1b[0m\r\nb\n", "red\r\nb\n");
        check(Escapes::Strip, Newline::Lf, "a\x1b]0;no end\r\nb\n", "a\nb\n");
    }

    #[test]
    fn what_is_no_text_is_base64_without_its_secrets() {
        let redactor = Redactor::new(&["hush".to_owned()]).unwrap();
        let chunk = Chunk::of(b"\xffhush".to_vec(), Style::AS_WRITTEN, &redactor);
        assert_eq!(chunk, Chunk::base64(b"\xff[redacted]"));
        assert_eq!(chunk.encoding(), Some("base64"));
    }
}
