//! Reads server-sent events: the pieces of a response become events with a position and JSON.

use serde_json::Value;
use thiserror::Error;

/// The longest line. Events of servers are shorter: the longest has a command of 2 MiB, of which each
/// byte may take six in JSON.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The defect of a stream that is not one of this program's servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum EventError {
    #[error("an event is not JSON")]
    NotJson,
    #[error("an event is longer than 16 MiB")]
    TooLong,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ServerEvent {
    pub(super) name: String,
    /// The text with which a reader resumes after this event.
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

/// Puts events together from pieces of any size.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    /// The start of a line that is not complete.
    line: Vec<u8>,
    event: ServerEvent,
}

impl EventParser {
    /// Returns the events that end in these bytes. Comments, and events without data, are left out.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Result<ServerEvent, EventError>> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() > MAX_LINE_BYTES {
                events.push(Err(EventError::TooLong));
                return events;
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(line.trim_ascii_end()).transpose());
            }
        }
        events
    }

    /// Takes one line, and returns the event that it ends.
    fn end_line(&mut self, line: &[u8]) -> Result<Option<ServerEvent>, EventError> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Ok(Some(event).filter(|event| !event.name.is_empty() && !event.data.is_null()));
        }
        let field = |name: &[u8]| line.strip_prefix(name).map(<[u8]>::trim_ascii_start);
        if let Some(data) = field(b"data:") {
            self.event.data = serde_json::from_slice(data).map_err(|_| EventError::NotJson)?;
        } else if let Some(name) = field(b"event:") {
            self.event.name = String::from_utf8_lossy(name).into_owned();
        } else if let Some(id) = field(b"id:") {
            self.event.id = Some(String::from_utf8_lossy(id).into_owned());
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_the_same_in_pieces_of_any_size() {
        let text = "event: state\nid: 0\ndata: {\"job\":1}\n\n: keep-alive\n\n\
                    event: output\nid: 6\ndata: {\"text\":\"h\\u00e9é\\n\"}\n\nevent: end\nid: 6\n";
        let expected = [
            ServerEvent { name: "state".into(), id: Some("0".into()), data: json!({"job": 1}) },
            ServerEvent {
                name: "output".into(),
                id: Some("6".into()),
                data: json!({"text": "héé\n"}),
            },
        ];
        for size in 1..text.len() {
            let mut parser = EventParser::default();
            let events: Result<Vec<ServerEvent>, EventError> =
                text.as_bytes().chunks(size).flat_map(|piece| parser.push(piece)).collect();
            assert_eq!(events.unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn what_is_no_event_is_an_error_after_the_events_before_it() {
        let text = b"event: state\ndata: {}\n\nevent: output\ndata: {\"text\"\n\n";
        let events = EventParser::default().push(text);
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!((events[0].is_ok(), &events[1]), (true, &Err(EventError::NotJson)));
        let mut parser = EventParser::default();
        assert_eq!(parser.push(&vec![b'x'; MAX_LINE_BYTES]), []);
        assert_eq!(parser.push(b"x"), [Err(EventError::TooLong)]);
    }
}
