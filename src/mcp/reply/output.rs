//! The output that one answer shows: there once, in whatever form the answer is written.

use std::sync::OnceLock;

use rmcp::model::JsonObject;

use super::answer::mask;
use super::budget::escaped_len;
use super::shown::{Form, Shown};
use crate::output::redact::Redactor;

/// The output that stands for a range of bytes. A page may be large: nothing here copies it.
#[derive(Debug)]
pub(super) struct Output {
    field: &'static str,
    text: String,
    masking: Masking,
    /// Its size inside JSON, once somebody asked.
    escaped: OnceLock<usize>,
}

/// Whether secrets are still to be hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Masking {
    Due,
    /// They are, or the bytes were asked for as they are.
    Done,
}

impl Output {
    /// What is shown of a range of bytes.
    pub(super) fn of(shown: Shown) -> Self {
        let masking = if shown.is_encoded() { Masking::Done } else { Masking::Due };
        let (field, is_base64) = (shown.field(), matches!(shown.form, Form::Base64));
        let text = shown.into_head();
        // There is nothing in base64 that JSON escapes.
        let escaped = if is_base64 { OnceLock::from(text.len()) } else { OnceLock::new() };
        Self { field, text, masking, escaped }
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Hides secrets in it; once is enough.
    pub(super) fn mask(&mut self, redactor: &Redactor) {
        if self.masking == Masking::Due {
            mask(&mut self.text, redactor);
            self.masking = Masking::Done;
            self.escaped = OnceLock::new();
        }
    }

    /// What it adds to the structured form of an answer that has other fields.
    pub(super) fn json_size(&self) -> usize {
        let escaped = self.escaped.get_or_init(|| escaped_len(&self.text));
        self.field.len() + escaped + r#""":"","#.len()
    }

    /// Becomes a field of the structured form.
    pub(super) fn put_into(self, fields: &mut JsonObject) {
        fields.insert(self.field.to_owned(), self.text.into());
    }
}
