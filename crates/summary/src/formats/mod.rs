//! The formats of all tools. A line can begin only one failure: formats that come first win.

mod go;
mod images;
mod javascript;
mod jvm;
mod native;
mod python;
mod ruby_php;
mod rust;
mod shell;
mod traces;

use crate::rules::Format;

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
