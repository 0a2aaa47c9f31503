//! TLS towards a server, trusted as this machine trusts.

use std::io;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Trusts what the system trusts, or what `SSL_CERT_FILE` names: a server of this kind is mostly
/// behind a company's own certificate, which no list that is compiled in would have.
pub(super) fn connector() -> io::Result<TlsConnector> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        return Err(found.errors.into_iter().next().map_or_else(
            || io::Error::other("the system has no trusted certificates"),
            io::Error::other,
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
