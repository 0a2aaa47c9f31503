//! The tokens that may come in right now: the file, read again whenever it changed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use subtle::{Choice, ConditionallySelectable};
use tokio::sync::watch;

use super::token::TokenHash;
use super::token_file::{TokenEntry, TokenFile};
use super::watched::Watched;
use crate::bounded_read::BoundedReadError;
use crate::private_files::Links;
use crate::telemetry::events;

/// The tokens of a file. Whoever asks gets what the file says at that moment.
#[derive(Debug)]
pub(super) struct LiveTokens {
    /// `None`: there are none, and there will be none.
    file: Option<Mutex<Watched>>,
    current: watch::Sender<Arc<Asked>>,
}

/// Whether a token is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Asked {
    /// No: there has been no token file yet.
    No,
    /// Yes, for one of these.
    For(Vec<TokenEntry>),
}

impl LiveTokens {
    /// The tokens of this file, which need not be there yet.
    pub(super) fn new(path: PathBuf, links: Links) -> Self {
        Self { file: Some(Mutex::new(Watched::new(path, links))), ..Self::default() }
    }

    /// What the file says now.
    pub(super) fn now(&self) -> Arc<Asked> {
        self.refresh();
        Arc::clone(&self.current.borrow())
    }

    /// Hears of every change that anybody notices.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Asked>> {
        self.current.subscribe()
    }

    /// Looks at the file's metadata, and reads it when that has changed.
    fn refresh(&self) {
        let Some(file) = &self.file else { return };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(text) = file.changed() else { return };
        let read = text.map(|text| TokenFile::parse(&text));
        let next = self.current.borrow().after(&read);
        if next != Asked::No {
            tell(file.path(), &read);
        }
        // Still under the lock, so that an older reading never replaces a newer one.
        self.current.send_if_modified(|current| {
            let is_new = **current != next;
            if is_new {
                *current = Arc::new(next);
            }
            is_new
        });
    }
}

impl Default for LiveTokens {
    fn default() -> Self {
        Self { file: None, current: watch::Sender::new(Arc::new(Asked::No)) }
    }
}

impl Asked {
    /// What follows from what was found in the file. A file that is there asks for tokens, even
    /// if none can be read in it, and what asked once goes on asking. Tokens that were read hold
    /// while something stands in the file's place that could block its readers.
    fn after(&self, read: &Result<TokenFile, BoundedReadError>) -> Self {
        match (self, read) {
            (Self::No, Err(error)) if error.is_missing() => Self::No,
            (Self::For(entries), Err(error)) if error.would_block() => Self::For(entries.clone()),
            (Self::No | Self::For(_), Err(_)) => Self::For(Vec::new()),
            (Self::No | Self::For(_), Ok(file)) => Self::For(file.entries().cloned().collect()),
        }
    }

    /// The token with this hash.
    pub(super) fn find(&self, hash: &TokenHash) -> Option<&TokenEntry> {
        let Self::For(entries) = self else { return None };
        // Every one is compared, so that the time does not tell which one is near.
        let mut found = u64::MAX;
        for (entry, place) in entries.iter().zip(0_u64..) {
            let is_same: Choice = entry.hash.equals(hash);
            found.conditional_assign(&place, is_same);
        }
        entries.get(usize::try_from(found).ok()?)
    }
}

/// Tells the operator what the file cannot do any more.
fn tell(path: &Path, read: &Result<TokenFile, BoundedReadError>) {
    match read {
        Ok(file) => {
            for (line, mistake) in file.mistakes() {
                events::token_line_ignored(path, line, mistake);
            }
            events::tokens_read(path, file.entries().count());
        }
        Err(error) if error.would_block() => events::token_file_blocks(path, error),
        Err(error) => events::token_file_unreadable(path, error),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::*;

    fn read(text: &str) -> Result<TokenFile, BoundedReadError> {
        Ok(TokenFile::parse(text))
    }

    fn failed(kind: io::ErrorKind) -> Result<TokenFile, BoundedReadError> {
        Err(io::Error::from(kind).into())
    }

    fn count(asked: &Asked) -> Option<usize> {
        match asked {
            Asked::No => None,
            Asked::For(entries) => Some(entries.len()),
        }
    }

    #[test]
    fn what_asked_once_goes_on_asking() {
        assert_eq!(Asked::No.after(&failed(io::ErrorKind::NotFound)), Asked::No);
        let asked = Asked::No.after(&read("alpha\nbeta\n"));
        assert_eq!(count(&asked), Some(2));
        let (missing, closed) = (io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied);
        for gone in [failed(missing), failed(closed), read("")] {
            assert_eq!(count(&asked.after(&gone)), Some(0));
        }
        assert_eq!(count(&Asked::No.after(&read("# nothing\n"))), Some(0));
        assert_eq!(count(&Asked::No.after(&failed(closed))), Some(0));
    }

    #[test]
    fn tokens_hold_while_their_file_could_block() {
        let asked = Asked::No.after(&read("alpha\nbeta\n"));
        let blocking = [
            Err(BoundedReadError::NotRegular { kind: "a FIFO" }),
            Err(BoundedReadError::timeout()),
            failed(io::ErrorKind::WouldBlock),
        ];
        for read in blocking {
            assert_eq!(asked.after(&read), asked);
            assert_eq!(count(&Asked::No.after(&read)), Some(0), "nobody comes in unasked");
        }
    }

    #[test]
    fn of_a_file_with_a_mistake_the_other_lines_count() {
        let asked = Asked::No.after(&read("alpha\nsha256:zz tenant=x\nbeta\n"));
        assert_eq!(count(&asked), Some(2));
        assert!(asked.find(&TokenHash::of("sha256:zz tenant=x")).is_none());
    }

    #[test]
    fn each_of_many_is_found_and_nothing_else() {
        let text: String = (0..100).map(|number| format!("token-{number}\n")).collect();
        let asked = Asked::No.after(&read(&text));
        for number in 0..100 {
            let hash = TokenHash::of(&format!("token-{number}"));
            assert_eq!(asked.find(&hash).unwrap().hash, hash);
        }
        for odd in ["", "token-", "token-100", "token-1 "] {
            assert!(asked.find(&TokenHash::of(odd)).is_none(), "{odd}");
        }
        assert!(Asked::No.find(&TokenHash::of("token-1")).is_none());
    }

    #[test]
    fn the_file_is_followed_and_its_followers_hear_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let tokens = LiveTokens::new(path.clone(), Links::Refuse);
        let changes = tokens.changes();
        assert_eq!(*tokens.now(), Asked::No);
        fs::write(&path, "alpha\n").unwrap();
        assert_eq!(count(&tokens.now()), Some(1));
        assert!(changes.has_changed().unwrap());
        fs::remove_file(&path).unwrap();
        assert_eq!(count(&tokens.now()), Some(0));
    }
}
