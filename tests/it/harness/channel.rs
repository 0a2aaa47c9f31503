//! The transport of an HTTP request.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::wait::DEADLINE;

#[derive(Debug)]
pub(crate) enum Channel {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Channel {
    #[track_caller]
    pub(super) fn tcp(address: &str) -> Self {
        Self::Tcp(connect(address))
    }

    #[track_caller]
    pub(super) fn unix(path: &Path) -> Self {
        Self::Unix(UnixStream::connect(path).expect("the server listens"))
    }

    #[track_caller]
    pub(super) fn tls(address: &str, trust: &Trust) -> Option<Self> {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut hands = ClientConnection::new(Arc::clone(&trust.0), name).expect("a client");
        let mut stream = connect(address);
        stream.set_read_timeout(Some(DEADLINE)).expect("a TCP socket");
        while hands.is_handshaking() {
            hands.complete_io(&mut stream).ok()?;
        }
        Some(Self::Tls(Box::new(StreamOwned::new(hands, stream))))
    }

    /// Ends our side, as `shutdown(SHUT_WR)` does; what the server sends can still be read.
    pub(super) fn end_input(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()?;
                stream.sock.shutdown(Shutdown::Write)
            }
        }
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tls(stream) => stream.sock.set_read_timeout(timeout),
        }
    }
}

#[track_caller]
fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("a TCP socket");
    stream
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// The one certificate that a TLS client trusts.
#[derive(Debug, Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Trusts the certificate in this PEM text and no other.
    pub(crate) fn only(pem: &str) -> Self {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
        roots.add(certificate).expect("a certificate that can be trusted");
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(Arc::new(config))
    }
}
