//! Where a server is: a URL, or a unix socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use hyper::Uri;
use thiserror::Error;

/// A server, and where its MCP endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    place: Place,
    path: String,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In plain text, over TCP.
    Tcp(Authority),
    /// Over TLS.
    Tls(Authority),
    /// Through a unix socket of this machine.
    Socket(PathBuf),
}

/// A host and a port of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Why a text names no server.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "`{given}` is no server: {why}; give http://HOST:PORT/PATH, https://…, or the path of a socket"
)]
pub struct TargetError {
    given: String,
    why: &'static str,
}

impl Target {
    /// Reads `http://host:port/path`, `https://…`, `unix:PATH` or a path. The MCP endpoint is at
    /// `usual_path` where the text does not say.
    ///
    /// # Errors
    /// When the text is none of these, or holds a password: command lines are seen by others.
    pub fn parse(text: &str, usual_path: &str) -> Result<Self, TargetError> {
        let bad = |why| TargetError { given: without_secret(text), why };
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::socket(path.into(), usual_path));
        }
        match text.split_once("://") {
            Some(("http" | "https", _)) => Self::of_url(text, usual_path).map_err(bad),
            Some(_) => Err(bad("only http and https are spoken")),
            None if text.is_empty() => Err(bad("it is empty")),
            None if text.parse::<SocketAddr>().is_ok() || text.starts_with("localhost:") => {
                Err(bad("http:// is missing"))
            }
            None => Ok(Self::socket(text.into(), usual_path)),
        }
    }

    /// The server behind this socket.
    #[must_use]
    pub fn socket(socket: PathBuf, path: &str) -> Self {
        Self { place: Place::Socket(socket), path: path.to_owned() }
    }

    fn of_url(text: &str, usual_path: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "the URL cannot be read")?;
        let authority = uri.authority().ok_or("the URL has no host")?;
        if authority.as_str().contains('@') {
            return Err("a secret on the command line is seen by others; use --token FILE");
        }
        if uri.query().is_some() {
            return Err("the URL has a query");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let at = |usual| Authority { host, port: authority.port_u16().unwrap_or(usual) };
        let place = match uri.scheme_str() {
            Some("https") => Place::Tls(at(443)),
            Some(_) | None => Place::Tcp(at(80)),
        };
        let path = if matches!(uri.path(), "" | "/") { usual_path } else { uri.path() };
        Ok(Self { place, path: path.to_owned() })
    }

    /// How it is reached.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Where its MCP endpoint is.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What the `Host` header says. A socket has no host; the name of this machine stands for it.
    pub(super) fn host(&self) -> String {
        match &self.place {
            Place::Tcp(authority) | Place::Tls(authority) => authority.to_string(),
            Place::Socket(_) => "localhost".to_owned(),
        }
    }
}

impl Authority {
    /// The address on this machine's loopback, where it is one.
    #[must_use]
    pub fn loopback(&self) -> Option<SocketAddr> {
        let host = if self.host == "localhost" { "127.0.0.1" } else { &self.host };
        let ip: IpAddr = host.parse().ok()?;
        ip.to_canonical().is_loopback().then(|| SocketAddr::new(ip, self.port))
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(authority) => write!(f, "http://{authority}{}", self.path),
            Place::Tls(authority) => write!(f, "https://{authority}{}", self.path),
            Place::Socket(path) => write!(f, "the socket {}", path.display()),
        }
    }
}

/// A URL as it may be shown: errors end up in logs.
fn without_secret(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (Some(_), None) | (None, _) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shown(text: &str) -> String {
        Target::parse(text, "/mcp").unwrap().to_string()
    }

    #[test]
    fn urls_and_sockets_are_told_apart() {
        for (given, meant) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000/mcp"),
            ("http://[::1]:8000/", "http://[::1]:8000/mcp"),
            ("http://yard/x/y", "http://yard:80/x/y"),
            ("https://yard.example/mcp", "https://yard.example:443/mcp"),
            ("/run/yard.sock", "the socket /run/yard.sock"),
            ("unix:yard.sock", "the socket yard.sock"),
            ("yard.sock", "the socket yard.sock"),
            ("./a:b", "the socket ./a:b"),
        ] {
            assert_eq!(shown(given), meant);
        }
    }

    #[test]
    fn what_is_no_server_is_refused_in_words() {
        for (given, why) in [
            ("127.0.0.1:8000", "http:// is missing"),
            ("localhost:8000", "http:// is missing"),
            ("ws://127.0.0.1", "only http and https"),
            ("http://", "cannot be read"),
            ("http://h/mcp?x=1", "query"),
            ("", "empty"),
        ] {
            let error = Target::parse(given, "/mcp").unwrap_err().to_string();
            assert!(error.contains(why), "{given}: {error}");
        }
        let error = Target::parse("http://me:hunter2@h/", "/mcp").unwrap_err().to_string();
        assert!(error.contains("--token FILE") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn loopback_is_known_by_its_address() {
        let loopback = |text: &str| match Target::parse(text, "/mcp").unwrap().place {
            Place::Tcp(authority) | Place::Tls(authority) => authority.loopback(),
            Place::Socket(_) => None,
        };
        assert_eq!(loopback("http://localhost:7"), "127.0.0.1:7".parse().ok());
        assert_eq!(loopback("http://127.1.2.3:7"), "127.1.2.3:7".parse().ok());
        assert_eq!(loopback("http://[::1]:7"), "[::1]:7".parse().ok());
        for other in ["http://10.0.0.1:7", "http://example.org:7", "http://0.0.0.0:7"] {
            assert_eq!(loopback(other), None, "{other}");
        }
    }
}
