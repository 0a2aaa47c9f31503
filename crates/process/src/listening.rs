//! Which TCP ports of this host are listened on.

use std::fs::File;
use std::io::{BufRead, BufReader};

/// What the kernel knows of TCP sockets, those of both families.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// How a table calls a socket that listens.
const LISTEN: &str = "0A";

/// Whether anybody on this host listens on this TCP port, on whatever address. It looks and
/// connects to nothing: a connection would be served, logged, or taken for the one client that
/// somebody waits for. Blocks for as long as the kernel takes to list who listens.
#[must_use]
pub fn is_listened_on(port: u16) -> bool {
    let lists_it = |file| lists(BufReader::new(file), port);
    TABLES.iter().any(|table| File::open(table).is_ok_and(lists_it))
}

fn lists(table: impl BufRead, port: u16) -> bool {
    // Those that listen stand before all connections: however many there are of those, none of
    // them is read.
    let sockets = table.lines().skip(1).map_while(Result::ok);
    sockets.map_while(|socket| listening_port(&socket)).any(|listening| listening == port)
}

/// The port of a socket that listens.
fn listening_port(socket: &str) -> Option<u16> {
    let mut words = socket.split_ascii_whitespace().skip(1);
    let (local, _remote, state) = (words.next()?, words.next()?, words.next()?);
    let (_, port) = local.rsplit_once(':').filter(|_| state == LISTEN)?;
    u16::from_str_radix(port, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0100007F:0050 0100007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 3
";

    #[test]
    fn only_those_that_listen_count() {
        for (port, expected) in [(8080, true), (22, true), (80, false), (8081, false)] {
            assert_eq!(lists(TABLE.as_bytes(), port), expected, "{port}");
        }
    }

    #[test]
    fn a_port_is_listened_on_from_the_bind_to_the_close_in_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert!(is_listened_on(port), "{address}");
            // A child of another test that is being born may hold a copy.
            rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
            drop(listener);
            assert!(!is_listened_on(port), "{address}");
        }
    }
}
