//! The id of a message that is too long to be taken, so that its sender can be answered.

use std::fmt;

use memchr::memmem;
use rmcp::model::RequestId;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// So much of each end of the line is kept to look for its id.
const KEPT_BYTES: usize = 64 * 1024;

/// So many places in the last part are tried, so that no line costs much.
const MAX_TRIED: usize = 64;

/// The two ends of a line that is too long.
#[derive(Debug)]
pub struct Oversize {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Oversize {
    /// Begins with all that was read of the line so far.
    pub(super) fn new(line: &[u8]) -> Self {
        let head = line[..line.len().min(KEPT_BYTES)].to_vec();
        Self { head, tail: last(line).to_vec() }
    }

    /// Takes the next part of the line. Keeps no more than twice of what it needs.
    pub(super) fn push(&mut self, part: &[u8]) {
        self.tail.extend_from_slice(last(part));
        if self.tail.len() > 2 * KEPT_BYTES {
            self.tail = last(&self.tail).to_vec();
        }
    }

    /// The id of the message, where it stands near one of its ends.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        id_in_head(&self.head).or_else(|| id_in_tail(&self.tail))
    }
}

fn last(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(KEPT_BYTES)..]
}

/// The top-level `id` of an object of which only the beginning is there.
fn id_in_head(head: &[u8]) -> Option<RequestId> {
    let mut found = None;
    // The object breaks off sooner or later: what counts is what was found before.
    FindId(&mut found).deserialize(&mut serde_json::Deserializer::from_slice(head)).ok();
    found
}

struct FindId<'a>(&'a mut Option<RequestId>);

impl<'de> DeserializeSeed<'de> for FindId<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FindId<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key != "id" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let id = map.next_value()?;
            // A number at the very end may have been cut in two: something must follow it.
            map.next_key::<IgnoredAny>()?;
            *self.0 = Some(id);
            return Ok(());
        }
        Ok(())
    }
}

/// The top-level `id` of an object of which only the end is there: from it on, the rest must
/// be the rest of one object.
fn id_in_tail(tail: &[u8]) -> Option<RequestId> {
    let places = memmem::rfind_iter(tail, b"\"id\"").take(MAX_TRIED);
    places.filter(|place| *place == 0 || tail[place - 1] != b'\\').find_map(|place| {
        let rest = [b"{", &tail[place..]].concat();
        let mut rest: Value = serde_json::from_slice(&rest).ok()?;
        serde_json::from_value(rest.get_mut("id")?.take()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(line: &str) -> Option<RequestId> {
        let mut oversize = Oversize::new(&line.as_bytes()[..line.len() / 3]);
        line.as_bytes()[line.len() / 3..].chunks(8 * 1024).for_each(|part| oversize.push(part));
        assert!(oversize.head.len() + oversize.tail.len() <= 3 * KEPT_BYTES);
        oversize.id()
    }

    fn number(id: i64) -> Option<RequestId> {
        Some(RequestId::Number(id))
    }

    #[test]
    fn an_id_is_found_near_either_end() {
        let long = "x".repeat(10 * KEPT_BYTES);
        let params = format!(r#""params":{{"id":5,"a":"{long}","b":{{"id":6}}}}"#);
        assert_eq!(id_of(&format!(r#"{{"jsonrpc":"2.0","id":7,{params}}}"#)), number(7));
        assert_eq!(id_of(&format!(r#"{{{params}, "id" : 8 ,"method":"x"}}"#)), number(8));
        let text = RequestId::String("nine".into());
        assert_eq!(id_of(&format!(r#"{{"id":"nine",{params}}}"#)), Some(text));
    }

    #[test]
    fn an_id_inside_of_params_is_not_that_of_the_message() {
        let long = "x".repeat(10 * KEPT_BYTES);
        assert_eq!(id_of(&format!(r#"{{"params":{{"id":5,"a":"{long}","b":{{"id":6}}}}}}"#)), None);
        assert_eq!(id_of(&format!(r#"{{"params":{{"a":"{long}\"id\":5}}"}}}}"#)), None);
        assert_eq!(id_of(&format!(r#"{{"a":["{long}","id"]}}"#)), None);
        assert_eq!(id_of(&long), None);
    }

    #[test]
    fn an_id_that_is_cut_in_two_is_none() {
        let head = format!(r#"{{"a":"{}","id":12"#, "x".repeat(100));
        assert_eq!(id_in_head(head.as_bytes()), None);
        assert_eq!(id_in_head(format!("{head},\"b\":1").as_bytes()), number(12));
    }
}
