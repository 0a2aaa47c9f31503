//! The keys that detach from a job: they are typed in a row, and do not reach the job.

/// A sequence of keys, such as `ctrl-p,ctrl-q`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachKeys(Vec<u8>);

/// Parses keys such as `ctrl-p,ctrl-q`, `ctrl-]` or `~,.`.
pub(super) fn parse_detach_keys(text: &str) -> Result<DetachKeys, String> {
    let bad = || {
        format!("`{text}` is not a list of keys; give some such as ctrl-p,ctrl-q or ctrl-] or ~,.")
    };
    let keys: Option<Vec<u8>> = text.split(',').map(parse_key).collect();
    keys.map(DetachKeys).ok_or_else(bad)
}

fn parse_key(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte @ b' '..=b'~'] => Some(*byte),
        _ => match text.strip_prefix("ctrl-")?.as_bytes() {
            [byte @ (b'a'..=b'z' | b'@' | b'['..=b'_')] => Some(byte & 0x1f),
            _ => None,
        },
    }
}

/// The search for detach keys in what the user types.
#[derive(Debug)]
pub(super) struct DetachSearch {
    keys: Vec<u8>,
    /// The number of keys that were typed so far; they are held back.
    typed: usize,
}

/// The typed bytes for the job, and the end of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypedBytes {
    pub(super) forward: Vec<u8>,
    pub(super) has_detached: bool,
}

impl DetachSearch {
    pub(super) fn new(keys: &DetachKeys) -> Self {
        Self { keys: keys.0.clone(), typed: 0 }
    }

    /// Takes typed bytes, and returns those for the job. Bytes after the detach keys are dropped.
    pub(super) fn push(&mut self, bytes: &[u8]) -> TypedBytes {
        let mut forward = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if self.keys.get(self.typed) != Some(byte) {
                forward.extend_from_slice(&self.keys[..self.typed]);
                self.typed = 0;
            }
            if self.keys.get(self.typed) != Some(byte) {
                forward.push(*byte);
                continue;
            }
            self.typed += 1;
            if self.typed == self.keys.len() {
                return TypedBytes { forward, has_detached: true };
            }
        }
        TypedBytes { forward, has_detached: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keys: &str, typed: &[&[u8]], forward: &[u8], has_detached: bool) {
        let mut search = DetachSearch::new(&parse_detach_keys(keys).unwrap());
        let mut all = TypedBytes { forward: Vec::new(), has_detached: false };
        for bytes in typed {
            let now = search.push(bytes);
            all.forward.extend(now.forward);
            all.has_detached |= now.has_detached;
        }
        assert_eq!(all, TypedBytes { forward: forward.to_vec(), has_detached }, "{keys} {typed:?}");
    }

    #[test]
    fn the_keys_detach_in_a_row_and_reach_the_job_otherwise() {
        let keys = "ctrl-p,ctrl-q";
        check(keys, &[b"ls\x10\x11rest"], b"ls", true);
        check(keys, &[b"\x10", b"\x11"], b"", true);
        check(keys, &[b"\x10", b"x"], b"\x10x", false);
        check(keys, &[b"\x10\x10\x11"], b"\x10", true);
        check(keys, &[b"\x11\x10"], b"\x11", false);
        check("ctrl-]", &[b"a\x1db"], b"a", true);
        check("~,.", &[b"~~."], b"~", true);
    }

    #[test]
    fn keys_that_cannot_be_typed_are_refused() {
        for text in ["", "ctrl-", "ctrl-p,", "ctrl-é", "f1", "ctrl-1"] {
            assert!(parse_detach_keys(text).is_err_and(|why| why.contains("ctrl-p")), "{text}");
        }
    }
}
