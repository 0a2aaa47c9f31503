//! The formats of all tools. A line can begin only one failure: formats that come first win.

mod compiled;
mod javascript;
mod native;
mod rule_set;
mod scripts;
mod tools;
mod traces;

pub use rule_set::tool_names;
pub(crate) use rule_set::{FORMATS, RuleSet};
