//! The table of all formats.

use super::{go, images, javascript, jvm, native, python, ruby_php, rust, shell, traces};
use crate::rules::{Format, FormatKind};

/// All formats, family by family.
pub(crate) const FORMATS: &[&[Format]] = &[
    python::FORMATS,
    javascript::FORMATS,
    jvm::FORMATS,
    ruby_php::FORMATS,
    images::FORMATS,
    rust::FORMATS,
    go::FORMATS,
    shell::FORMATS,
    native::FORMATS,
    traces::FORMATS,
    javascript::COMMON_FORMATS,
];

/// The names that a [`ToolReport`](crate::ToolReport) can have, each once, in alphabetical order.
#[must_use]
pub fn tool_names() -> Vec<&'static str> {
    let formats = FORMATS.iter().copied().flatten();
    let tools = formats.filter(|format| !matches!(format.kind, FormatKind::Trace(_)));
    let mut names: Vec<&str> = tools.map(|format| format.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}
