//! The reply of a tool call.

use std::ops::Index;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The whole JSON-RPC answer to a `tools/call`.
#[derive(Debug, Clone)]
pub(crate) struct Reply(pub(crate) Value);

impl Reply {
    /// The text blocks, joined.
    pub(crate) fn text(&self) -> String {
        let blocks = self.0["result"]["content"].as_array().cloned().unwrap_or_default();
        blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The first line of the text: the verdict.
    pub(crate) fn verdict(&self) -> String {
        self.text().lines().next().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn structured(&self) -> &Value {
        let structured = &self.0["result"]["structuredContent"];
        assert!(structured.is_object(), "no structured content in {}", self.0);
        structured
    }

    /// The one entry of `jobs`, where the tool answers with a list.
    #[track_caller]
    pub(crate) fn only_job(&self) -> &Value {
        let jobs = self["jobs"].as_array().expect("a list of jobs");
        assert_eq!(jobs.len(), 1, "one job in {}", self.0);
        &jobs[0]
    }

    /// The job's number, from whichever form there is.
    #[track_caller]
    pub(crate) fn job(&self) -> u64 {
        if let Some(job) = self.0["result"]["structuredContent"]["job"].as_u64() {
            return job;
        }
        let verdict = self.verdict();
        let number = verdict
            .split("job ")
            .nth(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        number
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("no job number in {}", self.0))
    }

    /// `true` if the call failed, in either of the two ways of MCP.
    pub(crate) fn is_error(&self) -> bool {
        self.0.get("error").is_some() || self.0["result"]["isError"] == true
    }

    /// The error text of a call, which must have failed.
    #[track_caller]
    pub(crate) fn error_text(&self) -> String {
        assert!(self.is_error(), "an error was due, not {}", self.0);
        match self.0["error"]["message"].as_str() {
            Some(message) => message.to_owned(),
            None => self.text(),
        }
    }

    /// The reply itself, after checking that the call worked.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(!self.is_error(), "the call failed: {}", self.0);
        self
    }
}

impl Index<&str> for Reply {
    type Output = Value;

    /// A field of the structured form; null where it is absent.
    #[track_caller]
    fn index(&self, field: &str) -> &Value {
        &self.structured()[field]
    }
}

/// The bytes of a raw page.
#[track_caller]
pub(crate) fn bytes_of(page: &Value) -> Vec<u8> {
    assert_eq!(page["encoding"], "base64", "a raw page is base64: {page}");
    let text = page["output"].as_str().expect("a page has output");
    STANDARD.decode(text).expect("valid base64")
}

/// Checks that no value anywhere inside is null: absent means not applicable.
#[track_caller]
pub(crate) fn assert_nothing_null(value: &Value) {
    match value {
        Value::Null => panic!("a null in a structured reply"),
        Value::Array(items) => items.iter().for_each(assert_nothing_null),
        Value::Object(fields) => fields.values().for_each(assert_nothing_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
