//! How to make a search again, or go on with it: a call as a model can copy it.

use std::fmt::Write as _;

use crate::ids::JobId;
use crate::output::search::Select;
use crate::spec::Stream;

/// A longer pattern is not repeated.
const PATTERN_BYTES: usize = 200;

/// What was searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchCall {
    /// The regex as it was given.
    pub(crate) pattern: String,
    /// Which lines are found.
    pub(crate) select: Select,
    /// Lines around each of them.
    pub(crate) context: usize,
}

impl SearchCall {
    /// The same search in one job, from the start or from an offset on.
    pub(super) fn on(&self, job: JobId, stream: Option<Stream>, cursor: Option<u64>) -> String {
        let mut call = format!("read_output(job={job}, grep={}", self.quoted());
        // Writing to a string cannot fail.
        if self.context > 0 {
            write!(call, ", context={}", self.context).ok();
        }
        match self.select {
            Select::Matching => {}
            Select::Others => call.push_str(", invert=true"),
        }
        if let Some(stream) = stream {
            write!(call, ", stream=\"{}\"", stream.name()).ok();
        }
        if let Some(offset) = cursor {
            write!(call, ", cursor=\"bytes:{offset}\"").ok();
        }
        call + ")"
    }

    fn quoted(&self) -> String {
        let quoted = serde_json::Value::from(self.pattern.as_str()).to_string();
        if quoted.len() > PATTERN_BYTES { "\"…\"".to_owned() } else { quoted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_all_that_the_search_had() {
        let plain =
            SearchCall { pattern: r#"a "b"\d"#.to_owned(), select: Select::Matching, context: 0 };
        assert_eq!(
            plain.on(JobId::local(7), None, Some(9)),
            r#"read_output(job=7, grep="a \"b\"\\d", cursor="bytes:9")"#
        );
        let others = SearchCall { select: Select::Others, context: 2, ..plain };
        assert_eq!(
            others.on(JobId::local(7), Some(Stream::Stderr), None),
            r#"read_output(job=7, grep="a \"b\"\\d", context=2, invert=true, stream="stderr")"#
        );
        let long = SearchCall { pattern: "x".repeat(100_000), ..others };
        assert!(long.on(JobId::local(7), None, None).len() < 300);
    }
}
