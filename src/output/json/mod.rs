//! JSON that is parsed and queried in little memory, which is counted.
//!
//! A JMESPath interpreter that holds each value as an allocation of its own needs about 30 times the
//! size of the text. Here a [`Document`] is one array of 16 bytes for each value and each key, strings
//! stay in the text, and what a query makes of it refers to the document. `jmespath` parses the
//! expressions; everything that is held is charged to a [`Meter`].

mod document;
mod evaluate;
mod functions;
mod meter;
mod text;
mod value;

pub(super) use document::Document;
pub(super) use evaluate::evaluate;
pub(super) use meter::{Charge, Meter};
pub(super) use text::JsonText;
pub(super) use value::{List, Value};

/// The reason why a JSON text was not parsed or an expression not evaluated.
#[derive(Debug)]
pub(super) enum Error {
    /// The query would hold more memory than it may.
    TooLarge,
    /// The time of the query is over, or nobody waits for it any more.
    TimeOver,
    /// The text is not JSON.
    NotJson(serde_json::Error),
    /// The expression cannot be applied to these values.
    NoFit(Box<jmespath::JmespathError>),
}

#[cfg(test)]
mod tests;
