//! The bytes that a server took from a job and has in memory alone, by log.
//!
//! A terminal's bytes, and bytes in which secrets are masked, pass through the memory of the server on
//! their way to a file. A server that is killed on that way loses them. So the writer of a log notes
//! their number before it takes them, and takes the note back once the file has them. The notes are in
//! a file in memory that somebody else holds open: they outlive the server, and need no disk. A log
//! without a note lost nothing.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::server_dir::{LogName, MAX_NAME};

/// The bytes of one note: a number, the length of a name, and the name. A note never crosses a page of
/// memory, so that a killed server leaves a whole one.
const NOTE_BYTES: usize = 256;
/// The place of the length of the name.
const NAME_LENGTH: usize = 8;

const _: () = assert!(NAME_LENGTH + 1 + MAX_NAME <= NOTE_BYTES && 4096 % NOTE_BYTES == 0);

/// The notes of all durable logs of a server. Clones are cheap and share them.
#[derive(Debug, Clone)]
pub struct UnstoredBytes {
    notes: Arc<Notes>,
}

#[derive(Debug)]
struct Notes {
    file: File,
    places: Mutex<Places>,
}

/// The use of the file.
#[derive(Debug, Default)]
struct Places {
    /// The number of places that were ever used.
    count: u64,
    free: Vec<u64>,
    /// The notes of an earlier server that no log has taken over yet: their places and bytes.
    left: HashMap<LogName, (u64, u64)>,
}

impl UnstoredBytes {
    /// Creates a file without notes.
    ///
    /// # Errors
    /// The system's error.
    pub fn create() -> io::Result<Self> {
        Self::open(memfd_create("unstored-output", MemfdFlags::CLOEXEC)?)
    }

    /// Goes on with the file of an earlier server.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        let count = file.metadata()?.len() / NOTE_BYTES as u64;
        let mut places = Places { count, ..Places::default() };
        let mut note = [0; NOTE_BYTES];
        for place in 0..count {
            file.read_exact_at(&mut note, place * NOTE_BYTES as u64)?;
            match decode(&note) {
                Some((log, bytes)) => drop(places.left.insert(log, (place, bytes))),
                None => places.free.push(place),
            }
        }
        Ok(Self { notes: Arc::new(Notes { file, places: Mutex::new(places) }) })
    }

    /// The note of a log, which takes over that of an earlier server.
    pub(crate) fn note_of(&self, log: &LogName) -> UnstoredNote {
        let left = self.notes.lock().left.remove(log);
        UnstoredNote {
            notes: Arc::clone(&self.notes),
            place: left.map(|(place, _)| place),
            noted: left.map_or(0, |(_, bytes)| bytes),
            unrecorded: 0,
        }
    }
}

impl AsFd for UnstoredBytes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notes.file.as_fd()
    }
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a note. A write to memory that the file has already does not fail; if there is no memory
    /// for a new place, the bytes go without a note.
    fn write(&self, place: u64, note: &[u8]) {
        self.file.write_all_at(note, place * NOTE_BYTES as u64).ok();
    }
}

/// The log and the bytes of a note; `None` if it notes nothing.
fn decode(note: &[u8; NOTE_BYTES]) -> Option<(LogName, u64)> {
    let (bytes, rest) = note.split_first_chunk::<8>()?;
    let bytes = Some(u64::from_le_bytes(*bytes)).filter(|bytes| *bytes > 0)?;
    let (length, rest) = rest.split_first()?;
    let name = str::from_utf8(rest.get(..usize::from(*length))?).ok()?;
    Some((LogName::new(name).ok()?, bytes))
}

/// The note of one log. It has a place in the file from its first bytes on. Dropping it gives the place
/// back, unless bytes are noted: then they are lost, and the next server says so.
#[derive(Debug)]
pub(crate) struct UnstoredNote {
    notes: Arc<Notes>,
    place: Option<u64>,
    noted: u64,
    /// Bytes that an earlier server lost, while the log has no record of that on the disk.
    unrecorded: u64,
}

impl UnstoredNote {
    /// The bytes that are noted.
    pub(crate) const fn bytes(&self) -> u64 {
        self.noted
    }

    /// Keeps what is noted until [`Self::forget_unrecorded`], beside anything that is set.
    pub(crate) const fn keep_unrecorded(&mut self) {
        self.unrecorded = self.noted;
    }

    pub(crate) const fn forget_unrecorded(&mut self) {
        self.unrecorded = 0;
    }

    /// Notes that up to this many bytes are in no file yet.
    pub(crate) fn set(&mut self, log: &LogName, bytes: u64) {
        let bytes = bytes.saturating_add(self.unrecorded);
        if bytes == self.noted {
            return;
        }
        self.noted = bytes;
        match self.place {
            Some(place) => self.notes.write(place, &bytes.to_le_bytes()),
            None => {
                let mut places = self.notes.lock();
                let place = places.free.pop().unwrap_or(places.count);
                places.count = places.count.max(place + 1);
                drop(places);
                self.place = Some(place);
                self.notes.write(place, &encode(log, bytes));
            }
        }
    }
}

fn encode(log: &LogName, bytes: u64) -> [u8; NOTE_BYTES] {
    let mut note = [0; NOTE_BYTES];
    note[..NAME_LENGTH].copy_from_slice(&bytes.to_le_bytes());
    let name = log.as_str().as_bytes();
    note[NAME_LENGTH] = u8::try_from(name.len()).unwrap_or(u8::MAX);
    note[NAME_LENGTH + 1..][..name.len()].copy_from_slice(name);
    note
}

impl Drop for UnstoredNote {
    fn drop(&mut self) {
        if self.noted == 0
            && let Some(place) = self.place
        {
            self.notes.lock().free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> LogName {
        LogName::new(name).unwrap()
    }

    /// The notes as the next server finds them.
    fn restart(notes: &UnstoredBytes) -> UnstoredBytes {
        UnstoredBytes::open(notes.as_fd().try_clone_to_owned().unwrap()).unwrap()
    }

    #[test]
    fn a_note_outlives_its_server_until_it_is_taken_back() {
        let first = UnstoredBytes::create().unwrap();
        let [a, b] = [log("a-1"), log(&"b".repeat(MAX_NAME))];
        let [mut of_a, mut of_b] = [first.note_of(&a), first.note_of(&b)];
        assert_eq!(restart(&first).note_of(&a).bytes(), 0);
        of_a.set(&a, 7);
        of_b.set(&b, 70_000);
        let next = restart(&first);
        assert_eq!((next.note_of(&a).bytes(), next.note_of(&b).bytes()), (7, 70_000));
        of_a.set(&a, 0);
        let next = restart(&first);
        assert_eq!((next.note_of(&a).bytes(), next.note_of(&b).bytes()), (0, 70_000));
    }

    #[test]
    fn a_loss_is_kept_until_it_is_recorded() {
        let first = UnstoredBytes::create().unwrap();
        let a = log("a-1");
        first.note_of(&a).set(&a, 7);
        let second = restart(&first);
        let mut note = second.note_of(&a);
        note.keep_unrecorded();
        note.set(&a, 5);
        assert_eq!(restart(&first).note_of(&a).bytes(), 12);
        note.set(&a, 0);
        assert_eq!(restart(&first).note_of(&a).bytes(), 7);
        note.forget_unrecorded();
        note.set(&a, 0);
        assert_eq!(restart(&first).note_of(&a).bytes(), 0);
    }

    #[test]
    fn a_place_is_used_again_once_nothing_is_noted_in_it() {
        let notes = UnstoredBytes::create().unwrap();
        let length = || notes.notes.file.metadata().unwrap().len();
        for number in 0..10 {
            let name = log(&format!("a-{number}"));
            let mut note = notes.note_of(&name);
            note.set(&name, 1);
            note.set(&name, 0);
        }
        assert_eq!(length(), NOTE_BYTES as u64);
        let lost = log("lost");
        notes.note_of(&lost).set(&lost, 3);
        let other = log("other");
        notes.note_of(&other).set(&other, 4);
        assert_eq!(length(), 2 * NOTE_BYTES as u64);
        let next = restart(&notes);
        assert_eq!((next.note_of(&lost).bytes(), next.note_of(&other).bytes()), (3, 4));
    }
}
