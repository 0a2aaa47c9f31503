//! The bytes of one segment of a durable log.

use std::sync::Arc;

use crate::spill::SpillFile;

/// The bytes of one segment of a durable log: in a file with a name from the first byte on, and in
/// memory as well while they are few.
///
/// Invariant: `copy` is there while the file does not hold all bytes of the segment.
#[derive(Debug)]
pub(crate) struct DurableBytes {
    /// The file, unless there are no bytes or it could not be created.
    pub(crate) file: Option<Arc<SpillFile>>,
    pub(crate) copy: Option<Box<MemoryCopy>>,
}

/// All bytes of a segment.
#[derive(Debug, Default)]
pub(crate) struct MemoryCopy {
    pub(crate) bytes: Vec<u8>,
    /// Bytes that the file holds as well, from the segment's start.
    pub(crate) in_file: u64,
}

impl DurableBytes {
    /// A store without bytes.
    pub(crate) fn new() -> Self {
        Self { file: None, copy: Some(Box::default()) }
    }

    /// `true` if only memory holds some of the bytes.
    pub(crate) fn has_unstored(&self) -> bool {
        self.copy.as_ref().is_some_and(|copy| copy.in_file < copy.bytes.len() as u64)
    }

    /// `true` if the file holds all of the segment's bytes; `bytes` is their number.
    pub(crate) fn is_in_file(&self, bytes: u64) -> bool {
        self.copy.as_ref().is_none_or(|copy| copy.in_file == bytes)
    }

    /// Adds bytes that the file holds already. Drops the copy if it would be larger than `limit`.
    pub(crate) fn add_written(&mut self, bytes: &[u8], limit: usize) {
        match &mut self.copy {
            Some(copy) if copy.bytes.len() + bytes.len() <= limit => {
                push_bounded(&mut copy.bytes, bytes, limit);
                copy.in_file += bytes.len() as u64;
            }
            Some(_) | None => self.copy = None,
        }
    }
}

/// Appends to a memory store without growing its buffer past `limit`, as doubling alone would.
pub(crate) fn push_bounded(memory: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let needed = memory.len() + bytes.len();
    if needed > memory.capacity() {
        let capacity = (needed * 2).min(limit).max(needed);
        memory.reserve_exact(capacity - memory.len());
    }
    memory.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_store_never_reserves_more_than_its_limit() {
        let mut memory = Vec::new();
        for _ in 0..100 {
            push_bounded(&mut memory, &[7; 10], 1000);
            assert!(memory.capacity() <= 1000, "{}", memory.capacity());
        }
        assert_eq!(memory, vec![7; 1000]);
    }
}
