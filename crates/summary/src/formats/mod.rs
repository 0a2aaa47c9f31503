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
mod table;
mod traces;

pub(crate) use table::FORMATS;
pub use table::tool_names;
