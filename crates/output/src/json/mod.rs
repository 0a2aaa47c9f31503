//! JSON that is parsed and queried in little memory, which is counted.
//!
//! A JMESPath interpreter that holds each value as an allocation of its own needs about 30 times the
//! size of the text. Here a [`Document`] is one array of 16 bytes for each value and each key, strings
//! stay in the text, and what a query makes of it refers to the document. `jmespath` parses the
//! expressions; everything that is held is charged to a [`Meter`].

mod document;
mod evaluate;
mod functions;
mod value;

pub(crate) use document::{Charge, Document, Error, Meter};
pub(crate) use evaluate::evaluate;
pub(crate) use value::{JsonText, List, Value};
