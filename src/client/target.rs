//! The location of a server: a URL or a unix socket; and the private sockets of servers on standard input
//! and output, one for each in the data directory.
//!
//! A private socket that nobody listens on is stale: its server was killed. Servers remove such files
//! when they start, and programs that meet one may do so, too.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use hyper::Uri;
use hyper::header::{HeaderValue, InvalidHeaderValue};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use thiserror::Error;

use crate::private_files::SocketAddress;

/// The default name of the socket in the data directory.
pub const DEFAULT_SOCKET_NAME: &str = "shellyard.sock";

/// The endpoint of a server and the path of its MCP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTarget {
    endpoint: Endpoint,
    path: String,
}

/// The transport and the address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Tcp(Authority),
    Tls(Authority),
    /// A unix socket on this machine.
    Socket(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
}

/// The reason why a text does not name a server.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "`{given}` does not name a server: {why}; give http://HOST:PORT/PATH, https://…, or the path of a socket"
)]
pub struct TargetError {
    given: String,
    why: &'static str,
}

impl ServerTarget {
    /// Parses `http://host:port/path`, `https://…`, `unix:PATH` or a path. The MCP endpoint is at
    /// `default_path` unless the text names a path.
    ///
    /// # Errors
    /// When the text is none of these, or contains a password: other users can see command lines.
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
            Some(_) => Err(bad("only http and https are supported")),
            None if looks_like_a_url(text) => Err(bad("http:// is missing")),
            None => socket(text),
        }
    }

    /// Creates the target of a server on this socket.
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
            .map(|port| port.parse().map_err(|_| "the port is not a number up to 65535"))
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

    /// Removes a slash at the end of the path: no MCP endpoint has one.
    #[must_use]
    pub fn without_final_slash(mut self) -> Self {
        if self.path.len() > 1 && self.path.ends_with('/') {
            self.path.pop();
        }
        self
    }

    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// `true` if the address itself says that the server runs on this machine: a socket, or a loopback
    /// host. Names are not looked up.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match &self.endpoint {
            Endpoint::Tcp(authority) | Endpoint::Tls(authority) => authority.loopback().is_some(),
            Endpoint::Socket(_) => true,
        }
    }

    /// The path of the MCP endpoint.
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

    /// The value of the `Host` header; `localhost` for a socket, which has no host.
    pub(super) fn host(&self) -> String {
        match &self.endpoint {
            Endpoint::Tcp(authority) | Endpoint::Tls(authority) => authority.to_string(),
            Endpoint::Socket(_) => "localhost".to_owned(),
        }
    }
}

impl Authority {
    /// The loopback address, if the host is this machine.
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

/// `true` if the text looks like a URL without its beginning, such as `host:port` or `http:/x`. The
/// name of a socket contains a slash or ends with `.sock`.
fn looks_like_a_url(text: &str) -> bool {
    let start = text.split('/').next().unwrap_or_default();
    let (host, port) = start.rsplit_once(':').unwrap_or_default();
    let has_port = !host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = text.contains('/') || text.ends_with(".sock") || text.is_empty();
    has_port || !is_name
}

/// Removes user and password from a URL: errors end up in logs.
fn redact_user_info(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (Some(_), None) | (None, _) => text.to_owned(),
    }
}

/// A bearer token, ready to be sent. Its text never appears in debug output.
#[derive(Clone)]
pub struct BearerToken(HeaderValue);

impl BearerToken {
    /// Creates a token from its text.
    ///
    /// # Errors
    /// When it contains a control character and so cannot be sent.
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
        f.write_str("BearerToken(…)")
    }
}

// Private sockets.

/// The directory of the private sockets, below the data directory.
const PRIVATE_SOCKET_DIR: &str = "servers";

const SOCKET_ENDING: &str = "sock";

/// Returns the directory of the private sockets.
#[must_use]
pub fn private_socket_dir(data_dir: &Path) -> PathBuf {
    data_dir.join(PRIVATE_SOCKET_DIR)
}

/// Returns the private socket of the server with this process id.
#[must_use]
pub fn private_socket(data_dir: &Path, pid: u32) -> PathBuf {
    private_socket_dir(data_dir).join(format!("{pid}.{SOCKET_ENDING}"))
}

/// Lists the private sockets with the process ids of their servers, stale ones included, in the order of
/// the process ids.
///
/// # Errors
/// If the directory cannot be read; a directory that does not exist is empty.
pub fn list_private_sockets(data_dir: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let entries = match fs::read_dir(private_socket_dir(data_dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut sockets = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if let Some(pid) = parse_pid(&path)
            && entry.file_type()?.is_socket()
        {
            sockets.push((pid, path));
        }
    }
    sockets.sort_unstable();
    Ok(sockets)
}

fn parse_pid(path: &Path) -> Option<u32> {
    let is_socket_name = path.extension().is_some_and(|ending| ending == SOCKET_ENDING);
    path.file_stem().filter(|_| is_socket_name)?.to_str()?.parse().ok()
}

/// Removes the sockets that nobody listens on, and returns their number. Blocks for a short time.
///
/// # Errors
/// If the directory cannot be locked or read, or a file not removed.
pub fn remove_stale_sockets(data_dir: &Path) -> io::Result<usize> {
    let directory = match File::open(private_socket_dir(data_dir)) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    // A server that starts holds this lock until it listens: before that its socket looks stale.
    directory.lock()?;
    let mut removed = 0;
    for (_, path) in list_private_sockets(data_dir)? {
        if is_stale(&path) {
            match fs::remove_file(&path) {
                // Another process of the user has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => {
                    result?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

/// `true` if nobody listens on this socket. Does not block: a server that is too busy to accept lives.
fn is_stale(path: &Path) -> bool {
    let Ok(address) = SocketAddress::new(path) else { return false };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let connected =
        socket.and_then(|socket| connect(&socket, &SocketAddrUnix::new(address.path())?));
    connected == Err(Errno::CONNREFUSED)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[track_caller]
    fn parse_and_show(text: &str) -> String {
        ServerTarget::parse(text, "/mcp").unwrap().to_string()
    }

    #[test]
    fn urls_and_sockets_are_distinguished() {
        for (given, expected) in [
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
            assert_eq!(parse_and_show(given), expected);
        }
    }

    #[test]
    fn a_text_that_names_no_server_is_refused_with_a_reason() {
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
    fn the_start_command_has_the_flags_of_its_target() {
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
    fn a_loopback_target_is_recognized_by_its_address() {
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

    #[test]
    fn only_sockets_that_nobody_listens_on_are_removed() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        assert_eq!(list_private_sockets(data).unwrap(), []);
        assert_eq!(remove_stale_sockets(data).unwrap(), 0);
        fs::create_dir(private_socket_dir(data)).unwrap();
        let live = UnixListener::bind(private_socket(data, 20)).unwrap();
        let dead = UnixListener::bind(private_socket(data, 3)).unwrap();
        // A child process that another test is starting may hold a copy of the socket.
        rustix::net::shutdown(&dead, rustix::net::Shutdown::Both).unwrap();
        drop(dead);
        let other = private_socket_dir(data).join("7.sock");
        fs::write(&other, "a file").unwrap();
        let both = [3, 20].map(|pid| (pid, private_socket(data, pid)));
        assert_eq!(list_private_sockets(data).unwrap(), both);
        assert_eq!(remove_stale_sockets(data).unwrap(), 1);
        assert_eq!(list_private_sockets(data).unwrap(), both[1..]);
        assert!(other.exists());
        drop(live);
    }
}
