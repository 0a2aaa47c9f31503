//! The reply of a dialect's tool: in the words of its document, whatever ours would be.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::Value;

use super::answer::{mask, mask_value};
use crate::output::redact::Redactor;

/// The reply of a dialect's tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Foreign {
    /// What clients show.
    pub(crate) text: Words,
    /// What they show below it, as a block of its own.
    pub(crate) detail: Option<Words>,
    /// The same as fields, where the document has any.
    pub(crate) structured: Option<JsonObject>,
    /// What goes beside the content.
    pub(crate) meta: Option<JsonObject>,
    /// Whether the document calls it an error.
    pub(crate) is_error: bool,
}

/// The text of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Words {
    /// As it is.
    Plain(String),
    /// The structured form, as one line of JSON.
    Structured,
    /// These fields, as JSON that people read easily.
    Pretty(JsonObject),
}

impl Foreign {
    /// A reply of text alone.
    pub(crate) const fn text(text: String) -> Self {
        Self {
            text: Words::Plain(text),
            detail: None,
            structured: None,
            meta: None,
            is_error: false,
        }
    }

    /// An error of text alone.
    pub(crate) const fn failure(text: String) -> Self {
        Self {
            text: Words::Plain(text),
            detail: None,
            structured: None,
            meta: None,
            is_error: true,
        }
    }

    /// Fields, and the same as one line of JSON.
    pub(crate) const fn fields(fields: JsonObject) -> Self {
        Self {
            text: Words::Structured,
            detail: None,
            structured: Some(fields),
            meta: None,
            is_error: false,
        }
    }

    /// Fields as readable JSON text alone.
    pub(crate) const fn pretty(fields: JsonObject) -> Self {
        Self {
            text: Words::Pretty(fields),
            detail: None,
            structured: None,
            meta: None,
            is_error: false,
        }
    }

    /// The same with every secret masked. Fields are masked before they become JSON, which
    /// therefore stays JSON.
    pub(crate) fn masked(mut self, redactor: &Redactor) -> Self {
        for words in [Some(&mut self.text), self.detail.as_mut()].into_iter().flatten() {
            match words {
                Words::Plain(text) => mask(text, redactor),
                Words::Structured => {}
                Words::Pretty(fields) => mask_fields(fields, redactor),
            }
        }
        for fields in [&mut self.structured, &mut self.meta].into_iter().flatten() {
            mask_fields(fields, redactor);
        }
        self
    }

    /// All of its text, block by block.
    fn texts(&self) -> impl Iterator<Item = String> {
        [Some(&self.text), self.detail.as_ref()].into_iter().flatten().map(|words| match words {
            Words::Plain(text) => text.clone(),
            Words::Structured => json(self.structured.clone().unwrap_or_default()).to_string(),
            Words::Pretty(fields) => format!("{:#}", json(fields.clone())),
        })
    }

    /// All of its text.
    pub(crate) fn whole_text(&self) -> String {
        self.texts().collect::<Vec<_>>().join("\n")
    }

    /// The result on the wire.
    pub(crate) fn into_result(self) -> CallToolResult {
        let content = self.texts().map(ContentBlock::text).collect();
        let mut result = if self.is_error {
            CallToolResult::error(content)
        } else {
            CallToolResult::success(content)
        };
        result.structured_content = self.structured.map(json);
        result.meta = self.meta.map(MetaObject);
        result
    }
}

const fn json(fields: JsonObject) -> Value {
    Value::Object(fields)
}

fn mask_fields(fields: &mut JsonObject, redactor: &Redactor) {
    fields.values_mut().for_each(|value| mask_value(value, redactor));
}
