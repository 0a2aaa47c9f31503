//! What jobs write.

use super::words::words;

/// Values of [`key::STREAM`](super::key::STREAM).
pub(in crate::telemetry) const STREAMS: [&str; 2] = ["stdout", "stderr"];

words! {
    /// Why a finished job was freed.
    pub enum FreedReason {
        /// It had ended too long ago.
        Age = "age",
        /// Finished jobs stored too much.
        Bytes = "bytes",
        /// Too many had finished.
        Count = "count",
        /// Room was needed for what jobs write now.
        Room = "room",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Stream;

    #[test]
    fn the_list_holds_exactly_the_words() {
        assert_eq!([Stream::Stdout, Stream::Stderr].map(Stream::name), STREAMS);
    }
}
