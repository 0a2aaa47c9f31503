//! Reads the output of programs line by line and reports what matters in it.
//!
//! ```text
//! line → templates (how often was a line like it seen?) → severity → formats (rules of each tool)
//!                                                                  → Summary
//! ```
//!
//! The crate is pure: it reads text and knows no logs, jobs or processes.

#![forbid(unsafe_code)]

mod engine;
mod failures;
mod format_state;
mod formats;
mod open_failure;
mod rules;
mod severity;
mod summary;
mod templates;

pub use engine::Summarizer;
pub use formats::tool_names;
pub use severity::{is_error_line, is_progress_line};
pub use summary::{
    Counts, Failure, FoundLines, LineGroup, LineGroups, MAX_FAILURES, NumberedLine, Summary,
    SummaryText, ToolReport,
};
pub use templates::{TemplateEntry, TemplateTable};

/// Runs the example in the README as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
