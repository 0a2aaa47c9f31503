//! The token file: changes to it (one writer at a time, all or nothing, and readable by its owner
//! alone), and the tokens that are valid now: the file is read again whenever it changes.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use subtle::{Choice, ConditionallySelectable};
use tempfile::NamedTempFile;
use thiserror::Error;
use tokio::sync::watch;

use super::file_watcher::FileWatcher;
use super::token::{TokenEntry, TokenFile, TokenHash, TokenId, TokenLabel, TokenSecret, UnixTime};
use crate::private_files::{
    BoundedReadError, PrivateDirError, Symlinks, ensure_private_dir, read_text,
};
use crate::service::CallerIdentity;
use crate::telemetry::events;

const OWNER_ONLY: u32 = 0o600;

/// The path of the token file.
#[derive(Debug, Clone)]
pub enum TokenFilePath {
    /// A path from the settings: the file must exist.
    Configured(PathBuf),
    /// The default path: the file may be missing.
    Default(PathBuf),
}

impl TokenFilePath {
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Configured(path) | Self::Default(path) => path,
        }
    }

    /// Follows symlinks that an operator named; the data directory must not contain any.
    pub(super) const fn links(&self) -> Symlinks {
        match self {
            Self::Configured(_) => Symlinks::Follow,
            Self::Default(_) => Symlinks::Refuse,
        }
    }
}

#[derive(Debug)]
pub struct TokenStore {
    place: TokenFilePath,
}

/// The reason why the token file was not read or changed.
#[derive(Debug, Error)]
pub enum TokenStoreError {
    #[error("cannot read the token file `{}`; check its permissions, or name another with --token-file", .path.display())]
    Read { path: PathBuf, source: BoundedReadError },
    #[error("cannot write the token file `{}`, nothing was changed; check its directory, or name another with --token-file", .path.display())]
    Write { path: PathBuf, source: io::Error },
    /// Other users could change the file in its directory.
    #[error("the token file was not changed")]
    NotPrivate(#[from] PrivateDirError),
    #[error("the system has no randomness to make a token of")]
    NoRandomness(#[from] getrandom::Error),
    #[error("no token has the id {id}; `shellyard token list` shows all")]
    NoSuchToken { id: TokenId },
}

impl TokenStoreError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "token_file_unreadable",
            Self::Write { .. } => "token_file_unwritable",
            Self::NotPrivate(error) => error.code(),
            Self::NoRandomness(_) => "no_randomness",
            Self::NoSuchToken { .. } => "no_such_token",
        }
    }
}

impl TokenStore {
    /// Creates a store for this file, which need not exist yet.
    #[must_use]
    pub const fn new(place: TokenFilePath) -> Self {
        Self { place }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Reads the file; empty if it does not exist.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(&self) -> Result<TokenFile, TokenStoreError> {
        match read_text(self.path(), self.place.links()) {
            Ok(text) => Ok(TokenFile::parse(&text)),
            Err(error) if error.is_missing() => Ok(TokenFile::default()),
            Err(source) => Err(TokenStoreError::Read { path: self.path().into(), source }),
        }
    }

    /// Creates a token and stores its hash. The returned secret cannot be retrieved again.
    ///
    /// # Errors
    /// When nothing could be written; then there is no new token.
    pub fn create_token(
        &self,
        identity: CallerIdentity,
        expires: Option<UnixTime>,
        note: Option<String>,
    ) -> Result<(TokenSecret, TokenEntry), TokenStoreError> {
        let _alone = self.lock()?;
        let mut file = self.read()?;
        let mut id = TokenId::random()?;
        while file.has_id(id) {
            id = TokenId::random()?;
        }
        let secret = TokenSecret::random()?;
        let label = TokenLabel::Generated { id, note };
        let entry = TokenEntry { hash: secret.hash(), identity, expires, label };
        file.add(entry.clone());
        self.write(&file)?;
        Ok((secret, entry))
    }

    /// Removes a token: its holder is no longer allowed in.
    ///
    /// # Errors
    /// When there is no such token, or nothing could be written.
    pub fn revoke(&self, id: TokenId) -> Result<(), TokenStoreError> {
        let _alone = self.lock()?;
        let mut file = self.read()?;
        if !file.has_id(id) {
            return Err(TokenStoreError::NoSuchToken { id });
        }
        file.remove(id);
        self.write(&file)
    }

    /// Locks the token file against other writers. The lock is a file beside it, since the file
    /// itself is replaced, and lasts until the returned file is dropped.
    fn lock(&self) -> Result<File, TokenStoreError> {
        let mut path = self.path().as_os_str().to_owned();
        path.push(".lock");
        if let TokenFilePath::Default(_) = self.place {
            ensure_private_dir(self.directory())?;
        }
        let lock = || {
            DirBuilder::new().recursive(true).mode(0o700).create(self.directory())?;
            let mut options = Symlinks::Refuse.options();
            let file = options.create(true).append(true).mode(OWNER_ONLY).open(path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        lock().map_err(|source| self.write_error(source))
    }

    /// Replaces the whole file atomically: a server that reads it meanwhile sees the old or the new
    /// one.
    fn write(&self, file: &TokenFile) -> Result<(), TokenStoreError> {
        let write = || {
            let mut new = NamedTempFile::new_in(self.directory())?;
            new.as_file().set_permissions(Permissions::from_mode(OWNER_ONLY))?;
            new.write_all(file.to_string().as_bytes())?;
            new.as_file().sync_all()?;
            new.persist(self.path())?;
            Ok(())
        };
        write().map_err(|source| self.write_error(source))
    }

    fn directory(&self) -> &Path {
        match self.path().parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            Some(_) | None => Path::new("."),
        }
    }

    fn write_error(&self, source: io::Error) -> TokenStoreError {
        TokenStoreError::Write { path: self.path().into(), source }
    }
}

/// The tokens of a file. Each call sees the current content, or the last known one if the file
/// system does not answer; a change of which the kernel gives no notice is seen within a second.
#[derive(Debug)]
pub(super) struct LiveTokens {
    /// `None`: there is no token file, and there will be none.
    file: Option<Mutex<FileWatcher>>,
    current: watch::Sender<Arc<TokenRequirement>>,
}

/// The token requirement of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenRequirement {
    /// No token file has existed yet.
    NotRequired,
    /// A token of this list is required.
    OneOf(Vec<TokenEntry>),
}

impl LiveTokens {
    /// Creates the tokens of this file, which need not exist yet.
    pub(super) fn new(path: PathBuf, links: Symlinks) -> Self {
        Self { file: Some(Mutex::new(FileWatcher::new(path, links))), ..Self::default() }
    }

    /// Returns the current content of the file.
    pub(super) fn current(&self) -> Arc<TokenRequirement> {
        self.refresh();
        Arc::clone(&self.current.borrow())
    }

    /// Returns a receiver that is notified of every change that any caller notices.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<TokenRequirement>> {
        self.current.subscribe()
    }

    /// Checks the file's metadata and reads the file if it has changed.
    fn refresh(&self) {
        let Some(file) = &self.file else { return };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(text) = file.read_if_changed() else { return };
        let read = text.map(|text| TokenFile::parse(&text));
        let next = self.current.borrow().next(&read);
        if next != TokenRequirement::NotRequired {
            log_read_result(file.path(), &read);
        }
        // Sent while the lock is held, so that an older result never replaces a newer one.
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
        Self { file: None, current: watch::Sender::new(Arc::new(TokenRequirement::NotRequired)) }
    }
}

impl TokenRequirement {
    /// Returns the requirement that follows from a read of the file. A file that exists requires
    /// tokens, even if no token in it can be parsed, and once tokens are required they stay
    /// required. Tokens that were read stay valid while something is in place of the file that
    /// could block its readers.
    fn next(&self, read: &Result<TokenFile, BoundedReadError>) -> Self {
        match (self, read) {
            (Self::NotRequired, Err(error)) if error.is_missing() => Self::NotRequired,
            (Self::OneOf(entries), Err(error)) if error.would_block() => {
                Self::OneOf(entries.clone())
            }
            (Self::NotRequired | Self::OneOf(_), Err(_)) => Self::OneOf(Vec::new()),
            (Self::NotRequired | Self::OneOf(_), Ok(file)) => {
                Self::OneOf(file.entries().cloned().collect())
            }
        }
    }

    /// Finds the token with this hash.
    pub(super) fn find(&self, hash: &TokenHash) -> Option<&TokenEntry> {
        let Self::OneOf(entries) = self else { return None };
        // All entries are compared, so that the time does not reveal which one is close.
        let mut found = u64::MAX;
        for (entry, place) in entries.iter().zip(0_u64..) {
            let is_same: Choice = entry.hash.ct_equals(hash);
            found.conditional_assign(&place, is_same);
        }
        entries.get(usize::try_from(found).ok()?)
    }
}

/// Logs the result of a read for the operator.
fn log_read_result(path: &Path, read: &Result<TokenFile, BoundedReadError>) {
    match read {
        Ok(file) => {
            for (line, mistake) in file.mistakes() {
                events::token_line_ignored(path, line, mistake);
            }
            events::tokens_read(path, file.entries().count());
        }
        Err(error) if error.would_block() => events::token_file_not_read(path, error),
        Err(error) => events::token_file_unreadable(path, error),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    fn store(directory: &Path) -> TokenStore {
        TokenStore::new(TokenFilePath::Default(directory.join("deep/tokens")))
    }

    #[test]
    fn a_token_is_stored_as_its_hash_and_existing_lines_stay() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        ensure_private_dir(&directory.path().join("deep")).unwrap();
        fs::write(store.path(), "# mine\n\nplain-secret\nsha256:odd").unwrap();
        let (secret, entry) =
            store.create_token(CallerIdentity::LOCAL, None, Some("a note".into())).unwrap();
        let text = fs::read_to_string(store.path()).unwrap();
        assert!(text.starts_with("# mine\n\nplain-secret\nsha256:odd\nsha256:"), "{text}");
        assert!(!text.contains(secret.reveal()));
        let file = store.read().unwrap();
        assert_eq!(file.entries().last(), Some(&entry));
        let mode = fs::metadata(store.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, OWNER_ONLY);
        let TokenLabel::Generated { id, .. } = entry.label else { panic!("{entry:?}") };
        store.revoke(id).unwrap();
        assert_eq!(
            fs::read_to_string(store.path()).unwrap(),
            "# mine\n\nplain-secret\nsha256:odd\n"
        );
        assert_eq!(store.revoke(id).unwrap_err().code(), "no_such_token");
    }

    #[test]
    fn concurrent_writers_lose_no_token() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let some = || {
            (0..5)
                .for_each(|_| drop(store.create_token(CallerIdentity::LOCAL, None, None).unwrap()))
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(some))));
        assert_eq!(store.read().unwrap().entries().count(), 20);
    }

    fn read(text: &str) -> Result<TokenFile, BoundedReadError> {
        Ok(TokenFile::parse(text))
    }

    fn failed(kind: io::ErrorKind) -> Result<TokenFile, BoundedReadError> {
        Err(io::Error::from(kind).into())
    }

    fn count(requirement: &TokenRequirement) -> Option<usize> {
        match requirement {
            TokenRequirement::NotRequired => None,
            TokenRequirement::OneOf(entries) => Some(entries.len()),
        }
    }

    #[test]
    fn tokens_that_were_required_once_stay_required() {
        assert_eq!(
            TokenRequirement::NotRequired.next(&failed(io::ErrorKind::NotFound)),
            TokenRequirement::NotRequired
        );
        let requirement = TokenRequirement::NotRequired.next(&read("alpha\nbeta\n"));
        assert_eq!(count(&requirement), Some(2));
        let missing = io::ErrorKind::NotFound;
        let closed = io::ErrorKind::PermissionDenied;
        for gone in [failed(missing), failed(closed), read("")] {
            assert_eq!(count(&requirement.next(&gone)), Some(0));
        }
        assert_eq!(count(&TokenRequirement::NotRequired.next(&read("# nothing\n"))), Some(0));
        assert_eq!(count(&TokenRequirement::NotRequired.next(&failed(closed))), Some(0));
    }

    #[test]
    fn tokens_stay_valid_while_their_file_could_block() {
        let requirement = TokenRequirement::NotRequired.next(&read("alpha\nbeta\n"));
        let blocking = [
            Err(BoundedReadError::NotRegular { kind: "a FIFO" }),
            Err(BoundedReadError::new_timeout()),
            failed(io::ErrorKind::WouldBlock),
        ];
        for read in blocking {
            assert_eq!(requirement.next(&read), requirement);
            assert_eq!(
                count(&TokenRequirement::NotRequired.next(&read)),
                Some(0),
                "nobody comes in unasked"
            );
        }
    }

    #[test]
    fn a_mistake_in_one_line_leaves_the_other_tokens_valid() {
        let requirement =
            TokenRequirement::NotRequired.next(&read("alpha\nsha256:zz tenant=x\nbeta\n"));
        assert_eq!(count(&requirement), Some(2));
        assert!(requirement.find(&TokenHash::from_token("sha256:zz tenant=x")).is_none());
    }

    #[test]
    fn every_token_is_found_and_nothing_else() {
        let text: String = (0..100).map(|number| format!("token-{number}\n")).collect();
        let requirement = TokenRequirement::NotRequired.next(&read(&text));
        for number in 0..100 {
            let hash = TokenHash::from_token(&format!("token-{number}"));
            assert_eq!(requirement.find(&hash).unwrap().hash, hash);
        }
        for odd in ["", "token-", "token-100", "token-1 "] {
            assert!(requirement.find(&TokenHash::from_token(odd)).is_none(), "{odd}");
        }
        assert!(TokenRequirement::NotRequired.find(&TokenHash::from_token("token-1")).is_none());
    }

    #[test]
    fn changes_of_the_token_file_are_read_and_signalled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let tokens = LiveTokens::new(path.clone(), Symlinks::Refuse);
        let changes = tokens.changes();
        assert_eq!(*tokens.current(), TokenRequirement::NotRequired);
        fs::write(&path, "alpha\n").unwrap();
        assert_eq!(count(&tokens.current()), Some(1));
        assert!(changes.has_changed().unwrap());
        fs::remove_file(&path).unwrap();
        assert_eq!(count(&tokens.current()), Some(0));
    }
}
