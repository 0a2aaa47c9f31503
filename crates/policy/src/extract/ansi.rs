//! `$'…'`: the escapes of ANSI C.

use super::walker::{Walk, Walker};
use super::word::Draft;
use crate::command::Reason;

impl Walker<'_, '_> {
    /// The string at the quote that follows the `$`.
    pub(super) fn ansi_quoted(&mut self, draft: &mut Draft) -> Walk<()> {
        self.pos += 1;
        let mut value = String::new();
        // To a shell that has no `$'`, the string ends at its first escaped quote.
        let mut ended = None;
        loop {
            let Some(next) = self.text.get(self.pos..).and_then(|rest| rest.chars().next()) else {
                return self.syntax("a quote without its end");
            };
            self.pos += next.len_utf8();
            match next {
                '\'' => break,
                '\\' => {
                    if self.raw(self.pos) == Some(b'\'') {
                        ended.get_or_insert(self.pos + 1);
                    }
                    value.push(self.escape()?);
                }
                other => value.push(other),
            }
        }
        let rest = ended.map_or("", |start| self.since(start));
        if rest.contains([';', '&', '|', '(', ')', '<', '>', '`', '$', '\n']) {
            return self.fail(Reason::Dialect("an operator after an escaped quote in `$'`"));
        }
        draft.push_quoted(&value);
        Ok(())
    }

    fn escape(&mut self) -> Walk<char> {
        let Some(kind) = self.raw(self.pos) else {
            return self.syntax("a quote without its end");
        };
        self.pos += 1;
        let value = match kind {
            b'a' => '\x07',
            b'b' => '\x08',
            b'e' | b'E' => '\x1b',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\x0b',
            b'\\' => '\\',
            b'"' => '"',
            b'?' => '?',
            b'\'' => '\'',
            b'x' => return self.number(16, 2),
            b'u' => return self.number(16, 4),
            b'U' => return self.number(16, 8),
            b'0'..=b'7' => {
                self.pos -= 1;
                return self.number(8, 3);
            }
            _ => return self.syntax("an unknown escape in `$'`"),
        };
        Ok(value)
    }

    /// Up to `most` digits: an ASCII character, since others depend on the locale.
    fn number(&mut self, radix: u32, most: usize) -> Walk<char> {
        let mut value = 0_u32;
        let mut count = 0;
        while count < most
            && let Some(digit) =
                self.raw(self.pos).and_then(|byte| char::from(byte).to_digit(radix))
        {
            value = value.saturating_mul(radix).saturating_add(digit);
            self.pos += 1;
            count += 1;
        }
        match u8::try_from(value) {
            Ok(byte) if count > 0 && byte.is_ascii() && byte != 0 => Ok(char::from(byte)),
            Ok(_) | Err(_) => self.syntax("an escape in `$'` that is no ASCII character"),
        }
    }
}
