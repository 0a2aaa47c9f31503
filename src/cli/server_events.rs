//! Reads server-sent events: the pieces of a response become events with a position and JSON.

use serde_json::Value;

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
    /// Returns the events that end in these bytes. Comments, and events without JSON, are left out.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ServerEvent> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(line.trim_ascii_end()));
            }
        }
        events
    }

    /// Takes one line, and returns the event that it ends.
    fn end_line(&mut self, line: &[u8]) -> Option<ServerEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Some(event).filter(|event| !event.name.is_empty() && !event.data.is_null());
        }
        let field = |name: &[u8]| line.strip_prefix(name).map(<[u8]>::trim_ascii_start);
        if let Some(data) = field(b"data:") {
            self.event.data = serde_json::from_slice(data).unwrap_or_default();
        } else if let Some(name) = field(b"event:") {
            self.event.name = String::from_utf8_lossy(name).into_owned();
        } else if let Some(id) = field(b"id:") {
            self.event.id = Some(String::from_utf8_lossy(id).into_owned());
        }
        None
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
            let events: Vec<ServerEvent> =
                text.as_bytes().chunks(size).flat_map(|piece| parser.push(piece)).collect();
            assert_eq!(events, expected, "{size}");
        }
    }
}
