//! JSON that is parsed and queried in little memory, which is counted.
//!
//! A JMESPath interpreter that holds each value as an allocation of its own needs about 30 times the
//! size of the text. Here a [`Document`] is one array of 16 bytes for each value and each key, strings
//! stay in the text, and what a query makes of it refers to the document. `jmespath` parses the
//! expressions; everything that is held is charged to a [`Meter`].

mod document;
mod error;
mod evaluate;
mod functions;
mod meter;
mod text;
mod value;

pub(super) use document::Document;
pub(super) use error::Error;
pub(super) use evaluate::evaluate;
pub(super) use meter::{Charge, Meter};
pub(super) use text::JsonText;
pub(super) use value::{List, Value};

#[cfg(test)]
mod tests;
