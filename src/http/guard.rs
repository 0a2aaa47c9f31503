//! Where requests may come from: checked before every route, on the request's head alone. Who
//! sends them is `auth`'s to find out.
//!
//! A browser that was lured to a hostile page can reach loopback too; it then sends that
//! page's `Origin`, or, after DNS rebinding, that page's `Host`. Both are therefore checked
//! against lists even where no token is asked for.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::arrival::Arrival;
use super::settings::HttpSettings;
use crate::telemetry;

/// Who may come in.
#[derive(Debug)]
pub(super) struct Guard {
    hosts: Vec<AllowedHost>,
    origins: Vec<String>,
    max_header_bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum AllowedHost {
    Any,
    Name(String),
    NameAndPort(String, u16),
}

/// Why a request was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A head that is too large.
    Headers,
    /// No usable `Host`.
    NoHost,
    /// A `Host` that is not ours.
    Host,
    /// An `Origin` that is not allowed.
    Origin,
}

impl Guard {
    /// The guard of a server that listens on `bound`.
    pub(super) fn new(settings: &HttpSettings, bound: Option<SocketAddr>) -> Self {
        Self {
            hosts: allowed_hosts(settings, bound)
                .iter()
                .map(|host| AllowedHost::new(host))
                .collect(),
            origins: allowed_origins(settings, bound),
            max_header_bytes: settings.max_header_bytes,
        }
    }

    /// Whether a request with these headers comes from where it should. Over the unix socket it
    /// may have any `Host`, since no page reaches a socket.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        arrival: Option<Arrival>,
    ) -> Result<(), Refusal> {
        if !matches!(arrival, Some(Arrival::Unix { .. })) {
            self.check_host(headers)?;
        }
        self.check_origin(headers)
    }

    /// Whether a head is small enough, its first line included. hyper bounds its buffer, which may
    /// hold more than one head.
    pub(super) fn check_size(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
        let first = method.as_str().len() + target + " HTTP/1.1\r\n".len() + 1;
        let line =
            |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
        let size: usize = headers.iter().map(line).sum();
        if first + size > self.max_header_bytes { Err(Refusal::Headers) } else { Ok(()) }
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        // An authority may name a user; a `Host` may not (RFC 9110 §7.2).
        let host = single(headers, &HOST).filter(|host| !host.contains('@'));
        let host: Authority = host.and_then(|host| host.parse().ok()).ok_or(Refusal::NoHost)?;
        let name = plain_name(host.host());
        let allowed = |allowed: &AllowedHost| allowed.matches(&name, host.port_u16());
        if self.hosts.iter().any(allowed) { Ok(()) } else { Err(Refusal::Host) }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let origin = single(headers, &ORIGIN).ok_or(Refusal::Origin)?;
        let allowed = |allowed: &String| allowed.eq_ignore_ascii_case(origin);
        if self.origins.iter().any(allowed) { Ok(()) } else { Err(Refusal::Origin) }
    }
}

impl AllowedHost {
    fn new(text: &str) -> Self {
        if text == "*" {
            return Self::Any;
        }
        match text.parse::<Authority>() {
            Ok(authority) => match authority.port_u16() {
                Some(port) => Self::NameAndPort(plain_name(authority.host()), port),
                None => Self::Name(plain_name(authority.host())),
            },
            // A bare IPv6 address is no authority, but it is a host.
            Err(_) => Self::Name(plain_name(text)),
        }
    }

    fn matches(&self, name: &str, port: Option<u16>) -> bool {
        match self {
            Self::Any => true,
            Self::Name(allowed) => allowed == name,
            Self::NameAndPort(allowed, exact) => allowed == name && port == Some(*exact),
        }
    }
}

/// Hosts that a server on `bound` answers to, with any port unless one is named.
fn allowed_hosts(settings: &HttpSettings, bound: Option<SocketAddr>) -> Vec<String> {
    let mut hosts: Vec<String> = LOOPBACK.map(str::to_owned).to_vec();
    if let Some(bound) = bound.filter(|bound| !bound.ip().is_unspecified()) {
        hosts.push(bound.ip().to_string());
    }
    hosts.extend(settings.allowed_hosts.iter().cloned());
    hosts
}

/// Origins that a server on `bound` answers: its own pages, and what was configured.
pub(super) fn allowed_origins(settings: &HttpSettings, bound: Option<SocketAddr>) -> Vec<String> {
    let configured =
        settings.allowed_origins.iter().map(|origin| origin.trim_end_matches('/').to_owned());
    // No page comes from a socket.
    let Some(bound) = bound else { return configured.collect() };
    let mut hosts: Vec<String> = vec!["localhost".into(), "127.0.0.1".into(), "[::1]".into()];
    match bound.ip() {
        IpAddr::V4(ip) if !ip.is_unspecified() => hosts.push(ip.to_string()),
        IpAddr::V6(ip) if !ip.is_unspecified() => hosts.push(format!("[{ip}]")),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    let port = bound.port();
    let (scheme, usual) = if settings.tls_cert.is_some() { ("https", 443) } else { ("http", 80) };
    // Browsers leave the default port out.
    let own = |host: String| {
        if port == usual {
            format!("{scheme}://{host}")
        } else {
            format!("{scheme}://{host}:{port}")
        }
    };
    hosts.into_iter().map(own).chain(configured).collect()
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The one value of a header; two are as suspicious as none.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

fn plain_name(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

impl Refusal {
    /// The word under which it is counted.
    pub(super) const fn counted_as(self) -> telemetry::Refusal {
        match self {
            Self::Headers => telemetry::Refusal::Headers,
            Self::NoHost | Self::Host => telemetry::Refusal::Host,
            Self::Origin => telemetry::Refusal::Origin,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Headers => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the request line and headers are larger than http.max_headers\n",
            ),
            Self::NoHost => (StatusCode::BAD_REQUEST, "a single valid Host header is required\n"),
            Self::Host => (
                StatusCode::FORBIDDEN,
                "this Host is not allowed; add it to http.allowed_hosts if it is yours\n",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "this Origin is not allowed; add it to http.allowed_origins if it is yours\n",
            ),
        };
        (status, text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrival::Peer;
    use super::*;

    fn settings() -> HttpSettings {
        HttpSettings {
            allowed_hosts: vec!["yard.example".into(), "lab.example:9000".into()],
            allowed_origins: vec!["https://app.example".into()],
            ..HttpSettings::default()
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &str)], expected: Result<(), Refusal>) {
        let guard = Guard::new(&settings(), "127.0.0.1:8000".parse().ok());
        assert_eq!(guard.check(&headers(pairs), None), expected, "{pairs:?}");
    }

    #[test]
    fn only_our_own_hosts_are_answered_to() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "localhost.:8000",
            "127.0.0.1:8000",
            "[::1]:8000",
            "yard.example",
            "Yard.Example:443",
            "lab.example:9000",
        ] {
            check(&[("host", host)], Ok(()));
        }
        for host in ["evil.example", "localhost.evil.example", "lab.example", "127.0.0.1.nip.io"] {
            check(&[("host", host)], Err(Refusal::Host));
        }
        check(&[], Err(Refusal::NoHost));
        check(&[("host", "a b")], Err(Refusal::NoHost));
        check(&[("host", "evil.example@localhost")], Err(Refusal::NoHost));
        check(&[("host", "localhost"), ("host", "evil.example")], Err(Refusal::NoHost));
    }

    #[test]
    fn a_head_is_counted_with_its_first_line() {
        let settings = HttpSettings { max_header_bytes: 100, ..settings() };
        let guard = Guard::new(&settings, None);
        let ask = |target: &str, value: &str| {
            let headers = headers(&[("x", value)]);
            guard.check_size(&Method::GET, &target.parse().unwrap(), &headers)
        };
        assert_eq!(ask("/", &"v".repeat(50)), Ok(()));
        assert_eq!(ask("/", &"v".repeat(100)), Err(Refusal::Headers));
        assert_eq!(ask(&format!("/?{}", "q".repeat(50)), "v"), Ok(()));
        assert_eq!(ask(&format!("/?{}", "q".repeat(100)), "v"), Err(Refusal::Headers));
    }

    #[test]
    fn an_origin_may_be_absent_or_ours_or_configured() {
        for origin in [
            "http://localhost:8000",
            "http://127.0.0.1:8000",
            "http://[::1]:8000",
            "https://app.example",
        ] {
            check(&[("host", "localhost"), ("origin", origin)], Ok(()));
        }
        for origin in [
            "null",
            "http://localhost:3000",
            "https://localhost:8000",
            "http://evil.example",
            "https://app.example.evil.example",
            "",
        ] {
            check(&[("host", "localhost"), ("origin", origin)], Err(Refusal::Origin));
        }
    }

    #[test]
    fn an_open_address_brings_no_host_of_its_own() {
        let guard = Guard::new(&settings(), "0.0.0.0:8000".parse().ok());
        assert_eq!(guard.check(&headers(&[("host", "0.0.0.0:8000")]), None), Err(Refusal::Host));
        let guard = Guard::new(&settings(), "10.1.2.3:8000".parse().ok());
        assert_eq!(guard.check(&headers(&[("host", "10.1.2.3:8000")]), None), Ok(()));
    }

    #[test]
    fn the_socket_needs_no_host_and_still_no_page_comes_in() {
        let guard = Guard::new(&settings(), None);
        let ask = |pairs: &[(&'static str, &str)]| {
            guard.check(&headers(pairs), Some(Arrival::Unix { peer: Peer::User }))
        };
        assert_eq!(ask(&[]), Ok(()));
        assert_eq!(ask(&[("host", "whatever")]), Ok(()));
        assert_eq!(ask(&[("origin", "http://evil.example")]), Err(Refusal::Origin));
        assert_eq!(ask(&[("origin", "http://localhost:8000")]), Err(Refusal::Origin));
    }

    #[test]
    fn under_tls_our_own_pages_are_those_with_https() {
        let settings =
            HttpSettings { tls_cert: Some("cert.pem".into()), ..HttpSettings::default() };
        let origins = allowed_origins(&settings, "127.0.0.1:8000".parse().ok());
        assert!(origins.contains(&"https://localhost:8000".to_owned()), "{origins:?}");
        assert!(origins.iter().all(|origin| origin.starts_with("https://")), "{origins:?}");
        let origins = allowed_origins(&settings, "127.0.0.1:443".parse().ok());
        assert!(origins.contains(&"https://localhost".to_owned()), "{origins:?}");
    }
}
