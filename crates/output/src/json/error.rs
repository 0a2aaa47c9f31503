//! Why a JSON text or an expression gave no value.

/// The reason why a JSON text was not parsed or an expression not evaluated.
#[derive(Debug)]
pub(crate) enum Error {
    /// The query would hold more memory than it may.
    TooLarge,
    /// The time of the query is over, or nobody waits for it any more.
    TimeOver,
    /// The text is not JSON.
    NotJson(serde_json::Error),
    /// The expression cannot be applied to these values.
    NoFit(Box<jmespath::JmespathError>),
}
