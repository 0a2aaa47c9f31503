//! How a request came in.

use std::net::{IpAddr, SocketAddr};

use crate::mcp::Network;

/// How a request came in: stands in the extensions of each one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Over the network, from this address.
    Tcp(SocketAddr),
    /// Over the unix socket, from a process of the server's own user, or root.
    Unix {
        /// Which kind of process.
        peer: Peer,
    },
}

impl Arrival {
    /// What carries it.
    pub(super) const fn network(&self) -> Network {
        match self {
            Self::Tcp(_) => Network::Tcp,
            Self::Unix { .. } => Network::Unix,
        }
    }
}

/// A process of the server's own user, or root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// One that a job started: some tenant's, and nobody can say whose.
    Job,
    /// Any other.
    User,
}

/// Whose connections are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// This machine, by whichever of its loopback addresses.
    Loopback,
    /// One IPv4 address.
    V4([u8; 4]),
    /// The /64 of an IPv6 address: whoever has one of them has them all.
    V6([u16; 4]),
    /// The unix socket, whose users are the server's own.
    Socket,
}

impl From<Arrival> for Source {
    fn from(arrival: Arrival) -> Self {
        let Arrival::Tcp(address) = arrival else { return Self::Socket };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> Source {
        Source::from(Arrival::Tcp(address.parse().unwrap()))
    }

    #[test]
    fn one_host_is_one_source() {
        assert_eq!(source("127.0.0.1:1"), source("127.0.0.2:9"));
        assert_eq!(source("127.0.0.1:1"), source("[::1]:1"));
        assert_eq!(source("127.0.0.1:1"), source("[::ffff:127.0.0.1]:1"));
        assert_eq!(source("192.0.2.1:1"), source("[::ffff:192.0.2.1]:2"));
        assert_eq!(source("[2001:db8:0:1::1]:1"), source("[2001:db8:0:1:ffff::9]:1"));
        assert_ne!(source("[2001:db8:0:1::1]:1"), source("[2001:db8:0:2::1]:1"));
        assert_ne!(source("192.0.2.1:1"), source("192.0.2.2:1"));
        assert_eq!(Source::from(Arrival::Unix { peer: Peer::User }), Source::Socket);
    }
}
