//! The formats of all tools. A line can begin only one failure: formats that come first win.

mod python;

use crate::rules::Format;

/// All formats, family by family.
pub(crate) const FORMATS: &[&[Format]] = &[python::FORMATS];
