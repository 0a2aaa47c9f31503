//! The TLS certificate and its key, which are read again when their files change.

use std::error::Error as _;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use crate::bounded_read::{BoundedReadError, read_text};
use crate::private_files::Symlinks;
use crate::telemetry::events;

/// The shortest interval between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a certificate cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error(
        "{given} is set and {missing} is not; TLS needs both: set {missing} as well, or neither"
    )]
    Half { given: &'static str, missing: &'static str },
    #[error("cannot read `{}`; give a PEM file that the server's user may read", .path.display())]
    Unreadable { path: PathBuf, source: BoundedReadError },
    #[error("cannot use `{}`; give a PEM file of a certificate chain, or of its key", .path.display())]
    Pem { path: PathBuf, source: pem::Error },
    /// The certificate and the key do not match, or rustls does not support their kind.
    #[error("the certificate `{}` and the key `{}` cannot be used together; give a certificate chain and its own key", .cert.display(), .key.display())]
    Pair { cert: PathBuf, key: PathBuf, source: rustls::Error },
}

/// The files of a certificate chain and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
}

impl TlsFiles {
    /// Returns both paths, or `None` if neither is set.
    pub(super) fn from_paths(
        cert: Option<&Path>,
        key: Option<&Path>,
    ) -> Result<Option<Self>, TlsError> {
        const CERT: &str = "http.tls_cert";
        const KEY: &str = "http.tls_key";
        match (cert, key) {
            (Some(cert), Some(key)) => Ok(Some(Self { cert: cert.into(), key: key.into() })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(TlsError::Half { given: CERT, missing: KEY }),
            (None, Some(_)) => Err(TlsError::Half { given: KEY, missing: CERT }),
        }
    }

    fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let no_pem = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Pem { path, source }
        };
        let cert = read(&self.cert)?;
        let key = read(&self.key)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert.as_bytes()).collect();
        let chain = chain.map_err(no_pem(&self.cert))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(no_pem(&self.key))?;
        let unusable =
            |source| TlsError::Pair { cert: self.cert.clone(), key: self.key.clone(), source };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn stamps(&self) -> io::Result<[CertFileStamp; 2]> {
        Ok([CertFileStamp::from_path(&self.cert)?, CertFileStamp::from_path(&self.key)?])
    }
}

fn read(path: &Path) -> Result<String, TlsError> {
    read_text(path, Symlinks::Follow)
        .map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

/// The properties of a file that change when it is replaced or rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CertFileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl CertFileStamp {
    fn from_path(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        let modified = (file.mtime(), file.mtime_nsec());
        Ok(Self { inode: file.ino(), size: file.size(), modified })
    }
}

/// The certificate and key in use.
#[derive(Debug)]
pub(super) struct Certificates {
    files: TlsFiles,
    current: Mutex<LoadedCertificate>,
}

#[derive(Debug)]
struct LoadedCertificate {
    config: Arc<ServerConfig>,
    /// The state of the files when they were last read, whether that succeeded or not; `None` while
    /// one is missing.
    stamps: Option<[CertFileStamp; 2]>,
    checked_at: Instant,
    /// `true` while a check of the files runs.
    is_checking: bool,
}

impl Certificates {
    pub(super) fn load(files: TlsFiles) -> Result<Self, TlsError> {
        // Taken before the files are read: a change during the read is then noticed by the next
        // check.
        let stamps = files.stamps().ok();
        let config = files.load()?;
        let current =
            LoadedCertificate { config, stamps, checked_at: Instant::now(), is_checking: false };
        Ok(Self { files, current: Mutex::new(current) })
    }

    /// Returns an acceptor with the newest usable pair of the last check. An unusable pair is
    /// logged once, and the pair before it stays in use. If a check is due, it starts in the
    /// background, since files can block: later connections get its result.
    pub(super) fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        let mut current = self.lock();
        if !current.is_checking && current.checked_at.elapsed() >= CHECK_INTERVAL {
            current.is_checking = true;
            let certificates = Arc::clone(self);
            tokio::task::spawn_blocking(move || certificates.reload_if_changed());
        }
        TlsAcceptor::from(Arc::clone(&current.config))
    }

    /// Reads the files if they have changed. Blocks, but holds no lock meanwhile.
    fn reload_if_changed(&self) {
        let known = self.lock().stamps;
        let stamps = self.files.stamps().ok();
        let loaded = (stamps != known).then(|| self.files.load());
        let mut current = self.lock();
        current.stamps = stamps;
        current.checked_at = Instant::now();
        current.is_checking = false;
        match loaded {
            Some(Ok(config)) => {
                current.config = config;
                events::certificate_replaced();
            }
            Some(Err(error)) => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                events::certificate_refused(&format!("{error}{cause}"));
            }
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, LoadedCertificate> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn write_pair(dir: &TempDir, name: &str) -> TlsFiles {
        let pair = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let files = TlsFiles { cert: dir.path().join("cert"), key: dir.path().join("key") };
        fs::write(&files.cert, pair.cert.pem()).unwrap();
        fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
        files
    }

    /// Checks the files now, whenever the last check was.
    fn config_after_check(certificates: &Certificates) -> Arc<ServerConfig> {
        certificates.reload_if_changed();
        Arc::clone(&certificates.lock().config)
    }

    #[test]
    fn one_file_without_the_other_is_an_error_that_names_both() {
        let some = Some(Path::new("x"));
        for (cert, key) in [(some, None), (None, some)] {
            let error = TlsFiles::from_paths(cert, key).unwrap_err().to_string();
            assert!(error.contains("tls_cert") && error.contains("tls_key"), "{error}");
        }
        assert_eq!(TlsFiles::from_paths(None, None).unwrap(), None);
    }

    #[test]
    fn a_new_certificate_is_used_and_a_broken_one_is_not() {
        let dir = TempDir::new().unwrap();
        let files = write_pair(&dir, "a.example");
        let certificates = Certificates::load(files.clone()).unwrap();
        let first = config_after_check(&certificates);
        assert!(Arc::ptr_eq(&first, &config_after_check(&certificates)), "nothing has changed");
        fs::write(&files.key, "no key").unwrap();
        assert!(Arc::ptr_eq(&first, &config_after_check(&certificates)));
        fs::remove_file(&files.key).unwrap();
        assert!(Arc::ptr_eq(&first, &config_after_check(&certificates)));
        write_pair(&dir, "b.example");
        assert!(!Arc::ptr_eq(&first, &config_after_check(&certificates)));
    }

    #[test]
    fn an_unusable_certificate_is_refused_by_name() {
        let dir = TempDir::new().unwrap();
        let files = write_pair(&dir, "a.example");
        let other = rcgen::KeyPair::generate().unwrap();
        fs::write(&files.key, other.serialize_pem()).unwrap();
        let error = Certificates::load(files.clone()).unwrap_err();
        assert!(matches!(error, TlsError::Pair { .. }), "{error}");
        fs::write(&files.cert, "").unwrap();
        let error = Certificates::load(files).unwrap_err().to_string();
        assert!(error.contains("cert"), "{error}");
    }
}
