//! Where clients come in: an address, with TLS or without, and a unix socket.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::timeout;

use super::arrival::Arrival;
use super::error::{HttpError, SocketError};
use super::settings::{HttpSettings, SocketAt};
use super::socket::SocketListener;
use super::tls::{Certificates, TlsFiles};
use crate::telemetry::events;

/// One way in.
#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<Certificates>),
    Unix(SocketListener),
}

impl Listener {
    /// The next connection. Loses none when it is dropped.
    async fn accept(&self) -> io::Result<(Incoming, Arrival)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Incoming::Tcp(stream), Arrival::Tcp(from)))
            }
            Self::Tls(listener, certificates) => {
                let (stream, from) = listener.accept().await?;
                Ok((Incoming::Tls(stream, Arc::clone(certificates)), Arrival::Tcp(from)))
            }
            Self::Unix(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Incoming::Unix(stream), Arrival::Unix { peer }))
            }
        }
    }
}

/// All ways in; at least one.
#[derive(Debug)]
pub(super) struct Listeners {
    address: Option<Listener>,
    socket: Option<Listener>,
    bound: Option<SocketAddr>,
}

impl Listeners {
    /// Listens wherever the settings say.
    pub(super) async fn bind(settings: &HttpSettings) -> Result<Self, HttpError> {
        let files = TlsFiles::both(settings.tls_cert.as_deref(), settings.tls_key.as_deref())?;
        let certificates = files.map(Certificates::load).transpose()?.map(Arc::new);
        let (address, bound) = match settings.bind {
            Some(bind) => {
                let (listener, bound) = listen_at(bind, certificates).await?;
                (Some(listener), Some(bound))
            }
            None => (None, None),
        };
        let socket = listen_on(settings, bound).await?;
        if address.is_none() && socket.is_none() {
            return Err(HttpError::NoListener);
        }
        Ok(Self { address, socket, bound })
    }

    /// The address; its port is the real one, also where 0 was asked for.
    pub(super) const fn bound(&self) -> Option<SocketAddr> {
        self.bound
    }

    /// The unix socket.
    pub(super) fn socket_path(&self) -> Option<&Path> {
        match &self.socket {
            Some(Listener::Unix(socket)) => Some(socket.path()),
            Some(Listener::Tcp(_) | Listener::Tls(..)) | None => None,
        }
    }

    /// The next connection from anywhere. A rush at one door does not shut the other: which of
    /// two that are ready comes first is left to chance.
    pub(super) async fn accept(&self) -> io::Result<(Incoming, Arrival)> {
        tokio::select! {
            accepted = accept_at(self.address.as_ref()) => accepted,
            accepted = accept_at(self.socket.as_ref()) => accepted,
        }
    }
}

async fn accept_at(listener: Option<&Listener>) -> io::Result<(Incoming, Arrival)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => pending().await,
    }
}

async fn listen_at(
    bind: SocketAddr,
    certificates: Option<Arc<Certificates>>,
) -> Result<(Listener, SocketAddr), HttpError> {
    let failed = |source| HttpError::Bind { bind, source };
    let listener = TcpListener::bind(bind).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    if certificates.is_none() && !bound.ip().to_canonical().is_loopback() {
        events::clear_text(bound);
    }
    let listener = match certificates {
        Some(certificates) => Listener::Tls(listener, certificates),
        None => Listener::Tcp(listener),
    };
    Ok((listener, bound))
}

/// The unix socket. The usual one may be missing where there is an address as well: a second
/// server beside the first is no mistake.
async fn listen_on(
    settings: &HttpSettings,
    bound: Option<SocketAddr>,
) -> Result<Option<Listener>, SocketError> {
    let Some(socket) = &settings.socket else { return Ok(None) };
    match (SocketListener::bind(socket.path(), settings.job_detection.clone()).await, socket) {
        (Ok(listener), _) => Ok(Some(Listener::Unix(listener))),
        (Err(error), SocketAt::Usual(path)) if bound.is_some() => {
            events::socket_missing(path, &error);
            Ok(None)
        }
        (Err(error), SocketAt::Usual(_) | SocketAt::Given(_)) => Err(error),
    }
}

/// A connection that was accepted, and not a word said.
#[derive(Debug)]
pub(super) enum Incoming {
    Tcp(TcpStream),
    Tls(TcpStream, Arc<Certificates>),
    Unix(UnixStream),
}

/// Bytes both ways, whatever carries them.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

impl Incoming {
    /// The address that accepted the connection, if it came over TCP and is still open.
    pub(super) fn server_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// The stream, once hands are shaken, which may take as long as `patience`.
    pub(super) async fn open(self, patience: Duration) -> io::Result<Box<dyn Duplex>> {
        Ok(match self {
            Self::Tcp(stream) => Box::new(prompt(stream)),
            Self::Unix(stream) => Box::new(stream),
            Self::Tls(stream, certificates) => {
                let shaken = certificates.acceptor().accept(prompt(stream));
                Box::new(timeout(patience, shaken).await.map_err(io::Error::from)??)
            }
        })
    }
}

/// Small events must not wait for each other: 40 ms per call otherwise.
fn prompt(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    stream
}
