//! Searching several logs, one after the other, with one patience.

use std::io;

use super::blocking_reader::BlockingReader;
use super::patience::Patience;
use super::search::{Found, SearchRequest, search};

/// Searches each log in turn until patience is over: what was found in those that were begun.
///
/// What is listed of all of them together stays within a few times the request's bytes: the
/// more logs have had matches, the less is listed of the next one, down to its first match.
pub fn search_each(
    readers: &[BlockingReader],
    request: &SearchRequest<'_>,
    patience: &Patience,
) -> Vec<io::Result<Found>> {
    let mut matching = 0;
    let begun = readers.iter().enumerate().map_while(|(index, reader)| {
        if index > 0 && patience.is_over() {
            return None;
        }
        let max_bytes = request.max_bytes / (matching + 1);
        let found = search(reader, &SearchRequest { max_bytes, ..*request }, patience);
        matching += usize::from(found.as_ref().is_ok_and(|found| found.matches > 0));
        Some(found)
    });
    begun.collect()
}
