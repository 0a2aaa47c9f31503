//! The kernel's table of TCP sockets: who owns the socket at the other end of a connection.
//!
//! `sock_diag` answers for one pair of addresses at once, however many sockets there are. Where the
//! kernel does not offer it, the tables in /proc/net are read from the beginning.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// A socket, as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketEntry {
    /// The user that created the socket.
    pub(super) uid: u32,
    /// The number of the socket among open files; 0 once its last holder has closed it.
    pub(super) inode: u64,
}

/// The kernel's answer about a pair of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// This socket has them.
    Found(SocketEntry),
    /// No socket of this machine has them.
    Missing,
    /// The kernel offers no table at all.
    Unsupported,
}

/// Finds the socket that is bound to `local` and connected to `remote`.
///
/// # Errors
/// When the system is short of descriptors or memory: then nothing is known.
pub(super) fn find(local: SocketAddr, remote: SocketAddr) -> io::Result<Lookup> {
    let (local, remote) = (canonical(local), canonical(remote));
    match query(local, remote) {
        Ok(Some(entry)) => Ok(Lookup::Found(entry)),
        // A kernel without the module for TCP answers so as well.
        Ok(None) if may_be_local(local, remote) => find_in_tables(local, remote),
        Ok(None) => Ok(Lookup::Missing),
        Err(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::OPNOTSUPP) => {
            find_in_tables(local, remote)
        }
        Err(Errno::PERM | Errno::ACCESS) => find_in_tables(local, remote),
        Err(error) => Err(error.into()),
    }
}

fn may_be_local(local: SocketAddr, remote: SocketAddr) -> bool {
    local.ip().is_loopback() || local.ip() == remote.ip()
}

/// An IPv4 address that is written as an IPv6 one names the same socket.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Sizes and values of `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
const LISTEN: u8 = 10;
/// Offsets in the answer: `inet_diag_msg` begins with family and state, and ends with these.
const UID_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = HEADER_BYTES + 68;

/// Asks `sock_diag` for exactly one socket.
fn query(local: SocketAddr, remote: SocketAddr) -> Result<Option<SocketEntry>, Errno> {
    let netlink = AddressFamily::NETLINK;
    let socket = socket_with(netlink, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(local, remote), SendFlags::empty(), &kernel)?;
    let mut answer = [0_u8; 4096];
    // The kernel answers within the send.
    let (_, length) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    read_answer(answer.get(..length).unwrap_or_default())
}

fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port: there is one question and one answer.
    bytes.extend([0; 8]);
    bytes.extend([family.as_raw().to_le_bytes()[0], TCP, 0, 0]);
    // Every state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        match address.ip() {
            IpAddr::V4(ip) => {
                bytes.extend(ip.octets());
                bytes.extend([0; 12]);
            }
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
    }
    // Any interface, and no cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

fn read_answer(answer: &[u8]) -> Result<Option<SocketEntry>, Errno> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(NLMSG_ERROR) => {
            let code = word_at(answer, HEADER_BYTES).unwrap_or_default().cast_signed();
            match Errno::from_raw_os_error(code.wrapping_neg()) {
                Errno::NOENT => Ok(None),
                error => Err(error),
            }
        }
        Some(SOCK_DIAG_BY_FAMILY) => {
            let state = answer.get(HEADER_BYTES + 1).copied();
            let entry = word_at(answer, UID_AT).zip(word_at(answer, INODE_AT));
            let entry = entry.map(|(uid, inode)| SocketEntry { uid, inode: inode.into() });
            // Where no connection has the addresses, the kernel finds who listens there.
            Ok(entry.filter(|_| state != Some(LISTEN)))
        }
        Some(_) | None => Err(Errno::BADMSG),
    }
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Both tables list a connection between two IPv4 addresses: it depends on the socket's family.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

fn find_in_tables(local: SocketAddr, remote: SocketAddr) -> io::Result<Lookup> {
    let mut found = Lookup::Unsupported;
    for table in TABLES {
        let file = match File::open(table) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => continue,
            Err(error) => return Err(error),
        };
        match find_in(BufReader::new(file), local, remote)? {
            Some(entry) => return Ok(Lookup::Found(entry)),
            None => found = Lookup::Missing,
        }
    }
    Ok(found)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

fn find_in(
    table: impl BufRead,
    local: SocketAddr,
    remote: SocketAddr,
) -> io::Result<Option<SocketEntry>> {
    for line in table.lines().skip(1) {
        if let Some((addresses, entry)) = read_row(&line?)
            && addresses == (local, remote)
        {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn read_row(row: &str) -> Option<((SocketAddr, SocketAddr), SocketEntry)> {
    let words: Vec<&str> = row.split_ascii_whitespace().collect();
    let addresses = (read_address(words.get(1)?)?, read_address(words.get(2)?)?);
    let entry =
        SocketEntry { uid: words.get(7)?.parse().ok()?, inode: words.get(9)?.parse().ok()? };
    Some((addresses, entry))
}

/// Reads an address as /proc writes it: words of four bytes in the byte order of the machine.
fn read_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words = (0..ip.len() / 8).map(|n| u32::from_str_radix(ip.get(n * 8..n * 8 + 8)?, 16).ok());
    let bytes: Vec<u8> =
        words.collect::<Option<Vec<_>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = match *bytes.as_slice() {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some(canonical(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    fn inode_of(stream: &TcpStream) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        let text = link.to_string_lossy().into_owned();
        text.trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn the_socket_at_the_other_end_is_found_in_both_families_and_both_ways() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            let expected =
                SocketEntry { uid: rustix::process::geteuid().as_raw(), inode: inode_of(&client) };
            assert_eq!(find(peer, local).unwrap(), Lookup::Found(expected), "{address}");
            let (peer, local) = (canonical(peer), canonical(local));
            assert_eq!(find_in_tables(peer, local).unwrap(), Lookup::Found(expected), "{address}");
            // Who closes its end while the other is open holds nothing any more. A child that
            // another test is just creating may hold a copy for a moment longer.
            drop(client);
            let deadline = Instant::now() + Duration::from_secs(10);
            let is_closed = || match find(peer, local).unwrap() {
                Lookup::Found(entry) => entry.inode == 0,
                Lookup::Missing => true,
                Lookup::Unsupported => panic!("{address}"),
            };
            while !is_closed() {
                assert!(Instant::now() < deadline, "{address}");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn whoever_listens_is_no_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert_eq!(find(listener.local_addr().unwrap(), nobody).unwrap(), Lookup::Missing);
        let elsewhere = "192.0.2.1:7".parse().unwrap();
        assert_eq!(find(elsewhere, listener.local_addr().unwrap()).unwrap(), Lookup::Missing);
    }

    #[test]
    fn half_an_answer_is_an_error() {
        assert_eq!(read_answer(&[]), Err(Errno::BADMSG));
        assert_eq!(read_answer(&[0; 16]), Err(Errno::BADMSG));
    }
}
