//! The moment from which a record counts as written.

use serde::{Deserialize, Deserializer};

use crate::setting_values::deserialize_word;

/// The moment from which a record counts as written. Every value survives the death of the server; only the last
/// two survive the death of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The kernel has the record.
    #[default]
    Os,
    /// The disk has the record; one `fsync` serves all records that wait.
    Group,
    /// The disk has the record; each record has its own `fsync`.
    Each,
}

impl Durability {
    /// Each value with its name in the settings.
    pub const WORDS: [(&'static str, Self); 3] =
        [("os", Self::Os), ("group", Self::Group), ("each", Self::Each)];
}

impl<'de> Deserialize<'de> for Durability {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        deserialize_word(input, &Self::WORDS)
    }
}
