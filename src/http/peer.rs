//! The client side of a connection: its address, and whether it is a job of this server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::mcp::NetworkTransport;

/// The address of a client. Each request carries it in its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerAddress {
    Tcp(SocketAddr),
    /// A process of the server's own user or of root, over the unix socket.
    Unix {
        peer: PeerKind,
    },
}

impl PeerAddress {
    pub(super) const fn network(&self) -> NetworkTransport {
        match self {
            Self::Tcp(_) => NetworkTransport::Tcp,
            Self::Unix { .. } => NetworkTransport::Unix,
        }
    }
}

/// The kind of process that opened a connection over the unix socket or from this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerKind {
    /// A process that a job started. It belongs to some tenant, but to which one is unknown.
    Job,
    User,
}

/// The unit by which connections are counted: the connections of one group share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum AddressGroup {
    /// This machine, by any of its loopback addresses.
    Loopback,
    V4([u8; 4]),
    /// The /64 of an IPv6 address: its holder can use every address in it.
    V6([u16; 4]),
    /// The unix socket, whose clients are the server's own user and root.
    Socket,
}

impl From<PeerAddress> for AddressGroup {
    fn from(peer_address: PeerAddress) -> Self {
        let PeerAddress::Tcp(address) = peer_address else { return Self::Socket };
        match address.ip().to_canonical() {
            ip if ip.is_loopback() => Self::Loopback,
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

type UnixCheck = dyn Fn(&UnixStream) -> bool + Send + Sync;
type TcpCheck = dyn Fn(SocketAddr, SocketAddr) -> bool + Send + Sync;

/// Tells connections of this server's jobs from all others.
///
/// A job that may call its server can start further jobs on looser terms than its own, so jobs are
/// turned away unless `http.allow_jobs` is set. The process at the other end does not change while
/// a connection is open: each connection is examined once, however many requests it carries and
/// whatever it is upgraded to.
#[derive(Clone)]
pub struct JobDetection {
    on_unix: Arc<UnixCheck>,
    on_tcp: Arc<TcpCheck>,
}

impl JobDetection {
    /// Creates a detection. `on_unix` receives an accepted socket. `on_tcp` receives the address
    /// that accepted a connection and the address that it came from, and may block for
    /// milliseconds. Both return `true` for a job.
    pub fn new(
        on_unix: impl Fn(&UnixStream) -> bool + Send + Sync + 'static,
        on_tcp: impl Fn(SocketAddr, SocketAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { on_unix: Arc::new(on_unix), on_tcp: Arc::new(on_tcp) }
    }

    /// Creates a detection that takes no connection for a job's, for a server that runs none.
    #[must_use]
    pub fn off() -> Self {
        Self::new(|_| false, |_, _| false)
    }

    pub(super) fn peer_on_unix(&self, stream: &UnixStream) -> PeerKind {
        if (self.on_unix)(stream) { PeerKind::Job } else { PeerKind::User }
    }
}

impl fmt::Debug for JobDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobDetection").finish_non_exhaustive()
    }
}

/// The process at the other end of one connection. All requests of a connection share it.
#[derive(Debug, Clone)]
pub(super) struct ConnectionPeer(Arc<PeerState>);

#[derive(Debug)]
struct PeerState {
    peer_address: PeerAddress,
    /// The local address of the connection, over TCP.
    server: Option<SocketAddr>,
    detection: JobDetection,
    found: OnceCell<PeerKind>,
}

impl ConnectionPeer {
    pub(super) fn new(
        peer_address: PeerAddress,
        server: Option<SocketAddr>,
        detection: JobDetection,
    ) -> Self {
        Self(Arc::new(PeerState { peer_address, server, detection, found: OnceCell::new() }))
    }

    /// Returns the kind of process. Over TCP the first request detects it, so connections without a
    /// request cost nothing.
    pub(super) async fn get(&self) -> PeerKind {
        let from = match self.0.peer_address {
            PeerAddress::Unix { peer } => return peer,
            PeerAddress::Tcp(from) => from,
        };
        *self.0.found.get_or_init(|| self.detect(from)).await
    }

    async fn detect(&self, from: SocketAddr) -> PeerKind {
        // A connection without a local address is closed, so nobody receives the answer.
        let Some(server) = self.0.server else { return PeerKind::Job };
        let check = Arc::clone(&self.0.detection.on_tcp);
        match spawn_blocking(move || check(server, from)).await {
            Ok(false) => PeerKind::User,
            Ok(true) | Err(_) => PeerKind::Job,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn group(address: &str) -> AddressGroup {
        AddressGroup::from(PeerAddress::Tcp(address.parse().unwrap()))
    }

    #[test]
    fn all_addresses_of_one_host_are_one_group() {
        assert_eq!(group("127.0.0.1:1"), group("127.0.0.2:9"));
        assert_eq!(group("127.0.0.1:1"), group("[::1]:1"));
        assert_eq!(group("127.0.0.1:1"), group("[::ffff:127.0.0.1]:1"));
        assert_eq!(group("192.0.2.1:1"), group("[::ffff:192.0.2.1]:2"));
        assert_eq!(group("[2001:db8:0:1::1]:1"), group("[2001:db8:0:1:ffff::9]:1"));
        assert_ne!(group("[2001:db8:0:1::1]:1"), group("[2001:db8:0:2::1]:1"));
        assert_ne!(group("192.0.2.1:1"), group("192.0.2.2:1"));
        assert_eq!(
            AddressGroup::from(PeerAddress::Unix { peer: PeerKind::User }),
            AddressGroup::Socket
        );
    }

    #[tokio::test]
    async fn a_connection_is_examined_once_and_only_on_demand() {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let on_tcp = move |_, from: SocketAddr| {
            counter.fetch_add(1, Ordering::Relaxed);
            from.port() == 7
        };
        let detection = JobDetection::new(|_| false, on_tcp);
        for (port, expected) in [(7, PeerKind::Job), (8, PeerKind::User)] {
            let from = SocketAddr::from(([127, 0, 0, 1], port));
            let peer = ConnectionPeer::new(PeerAddress::Tcp(from), Some(from), detection.clone());
            let before = count.load(Ordering::Relaxed);
            for _ in 0..3 {
                assert_eq!(peer.clone().get().await, expected);
            }
            assert_eq!(count.load(Ordering::Relaxed), before + 1);
        }
        let from = SocketAddr::from(([127, 0, 0, 1], 8));
        let closed = ConnectionPeer::new(PeerAddress::Tcp(from), None, detection);
        assert_eq!(closed.get().await, PeerKind::Job);
    }
}
