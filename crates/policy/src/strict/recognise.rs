//! The recogniser: shell constructs whose meaning is certain.

use crate::command::{Shell, SimpleCommand, Uncertain};

/// The commands that a text starts, each of them and no other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proof {
    /// In the order in which they stand.
    pub(crate) commands: Vec<SimpleCommand>,
}

/// Proves which programs a text starts.
///
/// # Errors
/// Names the first construct whose meaning is not certain.
pub(crate) fn recognise(_text: &str, _shell: Shell) -> Result<Proof, Uncertain> {
    Ok(Proof::default())
}
