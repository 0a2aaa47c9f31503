//! Changes to the token file: one writer at a time, all or nothing, and readable by its owner
//! alone.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;
use thiserror::Error;

use super::authenticate::TokenFilePath;
use super::token::UnixTime;
use super::token::{TokenEntry, TokenFile, TokenLabel};
use super::token::{TokenId, TokenSecret};
use crate::bounded_read::{BoundedReadError, read_text};
use crate::private_files::{PrivateDirError, Symlinks, ensure_private_dir};
use crate::service::CallerIdentity;

const OWNER_ONLY: u32 = 0o600;

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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

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
}
