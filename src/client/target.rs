//! Where a server is: a URL, or a unix socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use hyper::Uri;
use hyper::header::{HeaderValue, InvalidHeaderValue};
use thiserror::Error;

/// What a server calls its socket, in its data directory.
pub const DEFAULT_SOCKET_NAME: &str = "shellyard.sock";

/// A server, and where its MCP endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTarget {
    endpoint: Endpoint,
    path: String,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
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

impl ServerTarget {
    /// Reads `http://host:port/path`, `https://…`, `unix:PATH` or a path. The MCP endpoint is at
    /// `usual_path` where the text does not say.
    ///
    /// # Errors
    /// When the text is none of these, or holds a password: command lines are seen by others.
    pub fn parse(text: &str, default_path: &str) -> Result<Self, TargetError> {
        let bad = |why| TargetError { given: redact_user_info(text), why };
        let socket = |path: &str| match path {
            "" => Err(bad("it is empty")),
            path => Ok(Self::socket(path.into(), default_path)),
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return socket(path.strip_prefix("//").unwrap_or(path));
        }
        match text.split_once("://") {
            Some((scheme, _)) if ["http", "https"].contains(&&*scheme.to_ascii_lowercase()) => {
                Self::from_url(text, default_path).map_err(bad)
            }
            Some(_) => Err(bad("only http and https are spoken")),
            None if looks_like_a_url(text) => Err(bad("http:// is missing")),
            None => socket(text),
        }
    }

    /// The server behind this socket.
    #[must_use]
    pub fn socket(socket: PathBuf, path: &str) -> Self {
        Self { endpoint: Endpoint::Socket(socket), path: path.to_owned() }
    }

    fn from_url(text: &str, default_path: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "the URL cannot be read")?;
        let authority = uri.authority().ok_or("the URL has no host")?;
        if authority.as_str().contains('@') {
            return Err("a secret on the command line is seen by others; use --token FILE");
        }
        if uri.query().is_some() {
            return Err("the URL has a query");
        }
        let host = authority.host();
        let given = authority.as_str().strip_prefix(host).and_then(|rest| rest.strip_prefix(':'));
        let port = given
            .map(|port| port.parse().map_err(|_| "the port is no number up to 65535"))
            .transpose()?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let at = |default| Authority { host, port: port.unwrap_or(default) };
        let endpoint = match uri.scheme_str() {
            Some("https") => Endpoint::Tls(at(443)),
            Some(_) | None => Endpoint::Tcp(at(80)),
        };
        let path = if matches!(uri.path(), "" | "/") { default_path } else { uri.path() };
        Ok(Self { endpoint, path: path.to_owned() })
    }

    /// The same without a slash at the end of its path: no MCP endpoint has one.
    #[must_use]
    pub fn without_final_slash(mut self) -> Self {
        if self.path.len() > 1 && self.path.ends_with('/') {
            self.path.pop();
        }
        self
    }

    /// How it is reached.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where its MCP endpoint is.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The command that starts a server there.
    #[must_use]
    pub fn start_command(&self) -> String {
        match &self.endpoint {
            Endpoint::Tcp(authority) => format!("`shellyard serve --bind {authority}`"),
            Endpoint::Tls(authority) => format!("`shellyard serve` on {}", authority.host),
            Endpoint::Socket(path) => match (path.parent(), path.file_name()) {
                (Some(dir), Some(name)) if name == DEFAULT_SOCKET_NAME && dir.is_absolute() => {
                    format!("`shellyard serve --data-dir {}`", dir.display())
                }
                (Some(_) | None, _) => format!("`shellyard serve --socket {}`", path.display()),
            },
        }
    }

    /// What the `Host` header says. A socket has no host; the name of this machine stands for it.
    pub(super) fn host(&self) -> String {
        match &self.endpoint {
            Endpoint::Tcp(authority) | Endpoint::Tls(authority) => authority.to_string(),
            Endpoint::Socket(_) => "localhost".to_owned(),
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

impl fmt::Display for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp(authority) => write!(f, "http://{authority}{}", self.path),
            Endpoint::Tls(authority) => write!(f, "https://{authority}{}", self.path),
            Endpoint::Socket(path) => write!(f, "the socket {}", path.display()),
        }
    }
}

/// Whether this is a URL without its beginning, as `host:port` or `http:/x`. A socket's name has a
/// slash, or ends as they do.
fn looks_like_a_url(text: &str) -> bool {
    let start = text.split('/').next().unwrap_or_default();
    let (host, port) = start.rsplit_once(':').unwrap_or_default();
    let has_port = !host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = text.contains('/') || text.ends_with(".sock") || text.is_empty();
    has_port || !is_name
}

/// A URL as it may be shown: errors end up in logs.
fn redact_user_info(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (Some(_), None) | (None, _) => text.to_owned(),
    }
}

// The secret that lets a client in.

/// A bearer token, ready to be sent. Never shown.
#[derive(Clone)]
pub struct BearerToken(HeaderValue);

impl BearerToken {
    /// The token with this text.
    ///
    /// # Errors
    /// When it cannot be sent: a control character is in it.
    pub fn new(text: &str) -> Result<Self, InvalidHeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {text}"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    pub(super) const fn header(&self) -> &HeaderValue {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parse_and_show(text: &str) -> String {
        ServerTarget::parse(text, "/mcp").unwrap().to_string()
    }

    #[test]
    fn urls_and_sockets_are_told_apart() {
        for (given, meant) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000/mcp"),
            ("http://[::1]:8000/", "http://[::1]:8000/mcp"),
            ("http://yard/x/y", "http://yard:80/x/y"),
            ("https://yard.example/mcp", "https://yard.example:443/mcp"),
            ("/run/yard.sock", "the socket /run/yard.sock"),
            ("HTTP://yard:7/mcp", "http://yard:7/mcp"),
            ("unix:yard.sock", "the socket yard.sock"),
            ("unix:yard", "the socket yard"),
            ("unix:///run/yard", "the socket /run/yard"),
            ("./yard", "the socket ./yard"),
            ("yard.sock", "the socket yard.sock"),
            ("./a:b", "the socket ./a:b"),
        ] {
            assert_eq!(parse_and_show(given), meant);
        }
    }

    #[test]
    fn what_is_no_server_is_refused_in_words() {
        for (given, why) in [
            ("127.0.0.1:8000", "http:// is missing"),
            ("localhost:8000", "http:// is missing"),
            ("yard:8000/mcp", "http:// is missing"),
            ("[::1]:8000", "http:// is missing"),
            ("http:/yard", "http:// is missing"),
            ("https:", "http:// is missing"),
            ("yard", "http:// is missing"),
            ("http://127.0.0.1:99999/mcp", "port"),
            ("http://[::1]:x", "port"),
            ("http://yard:/", "port"),
            ("unix:", "empty"),
            ("unix://", "empty"),
            ("ws://127.0.0.1", "only http and https"),
            ("http://", "cannot be read"),
            ("http://h/mcp?x=1", "query"),
            ("", "empty"),
        ] {
            let error = ServerTarget::parse(given, "/mcp").unwrap_err().to_string();
            assert!(error.contains(why), "{given}: {error}");
        }
        let error = ServerTarget::parse("http://me:hunter2@h/", "/mcp").unwrap_err().to_string();
        assert!(error.contains("--token FILE") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn the_command_that_starts_a_server_has_the_flags_for_it() {
        for (given, command) in [
            ("http://127.0.0.1:7/mcp", "`shellyard serve --bind 127.0.0.1:7`"),
            ("https://yard/mcp", "`shellyard serve` on yard"),
            ("/data/shellyard.sock", "`shellyard serve --data-dir /data`"),
            ("/run/yard.sock", "`shellyard serve --socket /run/yard.sock`"),
        ] {
            assert_eq!(ServerTarget::parse(given, "/mcp").unwrap().start_command(), command);
        }
    }

    #[test]
    fn loopback_is_known_by_its_address() {
        let loopback = |text: &str| match ServerTarget::parse(text, "/mcp").unwrap().endpoint {
            Endpoint::Tcp(authority) | Endpoint::Tls(authority) => authority.loopback(),
            Endpoint::Socket(_) => None,
        };
        assert_eq!(loopback("http://localhost:7"), "127.0.0.1:7".parse().ok());
        assert_eq!(loopback("http://127.1.2.3:7"), "127.1.2.3:7".parse().ok());
        assert_eq!(loopback("http://[::1]:7"), "[::1]:7".parse().ok());
        for other in ["http://10.0.0.1:7", "http://example.org:7", "http://0.0.0.0:7"] {
            assert_eq!(loopback(other), None, "{other}");
        }
    }
}
