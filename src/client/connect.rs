//! From a target to an HTTP connection.

use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustix::process::{Uid, geteuid};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::error::ClientError;
use super::target::{Authority, Place, Target};

/// What a server gets to accept a connection, its TLS included.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// A connection on which one request can be sent.
pub(super) type Sender = SendRequest<Full<Bytes>>;

/// Connects, or says why not. Ends with the sender, or lives on as what it is upgraded to.
pub(super) async fn connect(
    target: &Target,
    tls: Option<&TlsConnector>,
) -> Result<Sender, ClientError> {
    let after = CONNECT_TIME;
    let connected = timeout(after, open(target, tls)).await;
    connected.unwrap_or_else(|_| Err(ClientError::TimedOut { target: target.to_string(), after }))
}

async fn open(target: &Target, tls: Option<&TlsConnector>) -> Result<Sender, ClientError> {
    let failed = |source| not_connected(target, source);
    match (target.place(), tls) {
        (Place::Socket(path), _) => {
            let stream = UnixStream::connect(path).await.map_err(failed)?;
            check_listener(target, &stream)?;
            shake_hands(target, stream).await
        }
        (Place::Tls(authority), Some(tls)) => {
            let stream = dial(authority).await.map_err(failed)?;
            let wrap = async {
                let name =
                    ServerName::try_from(authority.host.clone()).map_err(io::Error::other)?;
                tls.connect(name, stream).await
            };
            let failed = |source| ClientError::Tls { target: target.to_string(), source };
            shake_hands(target, wrap.await.map_err(failed)?).await
        }
        (Place::Tcp(authority), _) | (Place::Tls(authority), None) => {
            shake_hands(target, dial(authority).await.map_err(failed)?).await
        }
    }
}

/// Checks that our own user, or root, listens on the socket, as the kernel says. Another user who may
/// create files beside the socket could put one in its place and would be shown the token.
fn check_listener(target: &Target, stream: &UnixStream) -> Result<(), ClientError> {
    let uid = stream.peer_cred().map_err(|source| not_connected(target, source))?.uid();
    if uid == geteuid().as_raw() || uid == Uid::ROOT.as_raw() {
        return Ok(());
    }
    Err(ClientError::OtherUser { target: target.to_string(), uid })
}

async fn dial(authority: &Authority) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((authority.host.as_str(), authority.port)).await?;
    // Small messages must not wait for each other.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn shake_hands<S>(target: &Target, stream: S) -> Result<Sender, ClientError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let shaken = handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| ClientError::Broken {
        target: target.to_string(),
        source: error.into(),
    })?;
    // Its trouble is told to whoever waits for an answer.
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

fn not_connected(place: &Target, source: io::Error) -> ClientError {
    let target = place.to_string();
    let unusable = |source, next| ClientError::Unusable { target: target.clone(), next, source };
    match (source.kind(), place.place()) {
        (ErrorKind::NotFound | ErrorKind::ConnectionRefused, _) => {
            ClientError::Nobody { target, start: place.start_command(), source }
        }
        (ErrorKind::InvalidInput, Place::Socket(_)) => unusable(source, TOO_LONG),
        (ErrorKind::NotADirectory, _) => unusable(source, NO_DIRECTORY),
        (ErrorKind::PermissionDenied, Place::Socket(_)) => unusable(source, OTHER_USER),
        (ErrorKind::InvalidInput | ErrorKind::PermissionDenied, _) => unusable(source, NO_ADDRESS),
        _ => ClientError::Connect { target, source },
    }
}

const TOO_LONG: &str = "its path is too long for a socket; name a shorter one with \
                        --connect /SHORTER.sock or --data-dir DIR";
const NO_DIRECTORY: &str = "a part of its path is no directory; name another one with \
                            --connect /PATH.sock or --data-dir DIR";
const OTHER_USER: &str = "it belongs to another user; ask as that user, or name a socket of yours \
                          with --connect /PATH.sock or --data-dir DIR";
const NO_ADDRESS: &str = "this machine allows no connection to that address; check it";
