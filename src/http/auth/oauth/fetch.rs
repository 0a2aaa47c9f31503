//! One small GET, for keys and metadata: bounded in time and size, and without redirects.
//!
//! The system's own roots are trusted, not a list that is compiled in: issuers in companies are
//! often signed by the company's own authority.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, HOST, USER_AGENT};
use axum::http::uri::{InvalidUri, Uri};
use axum::http::{Request, Response, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error as TlsError, RootCertStore};

/// The most time that one fetch takes.
const TIME: Duration = Duration::from_secs(5);

/// The largest answer.
const MAX_BYTES: usize = 1024 * 1024;

/// Why nothing was fetched.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    #[error("`{url}` is no URL")]
    Url { url: String, source: InvalidUri },
    #[error("`{url}` is not fetched: keys come over https, or over http from loopback")]
    Insecure { url: String },
    #[error("`{url}` names no host")]
    Host { url: String, source: InvalidDnsNameError },
    #[error("no answer within {} s", TIME.as_secs())]
    Timeout,
    #[error("no connection")]
    Connect(#[from] io::Error),
    #[error("no TLS connection can be set up")]
    Tls(#[from] TlsError),
    #[error("no whole answer")]
    Http(#[from] hyper::Error),
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    #[error("the answer is larger than {MAX_BYTES} bytes, or broke off")]
    Body(#[from] axum::Error),
    #[error("the request cannot be written")]
    Request(#[from] axum::http::Error),
}

/// Where to connect, and how.
#[derive(Debug)]
struct Target {
    host: String,
    port: u16,
    /// `None`: plain HTTP.
    tls: Option<ServerName<'static>>,
    uri: Uri,
}

/// What is at this URL.
pub(super) async fn fetch(url: &str) -> Result<Bytes, FetchError> {
    let target = Target::of(url)?;
    timeout(TIME, get(target)).await.unwrap_or(Err(FetchError::Timeout))
}

impl Target {
    fn of(url: &str) -> Result<Self, FetchError> {
        let owned = || url.to_owned();
        let uri: Uri = url.parse().map_err(|source| FetchError::Url { url: owned(), source })?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (tls, usual) = match uri.scheme_str() {
            Some("https") => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|source| FetchError::Host { url: owned(), source })?;
                (Some(name), 443)
            }
            Some("http") if is_loopback(&host) => (None, 80),
            Some(_) | None => return Err(FetchError::Insecure { url: owned() }),
        };
        Ok(Self { host, port: uri.port_u16().unwrap_or(usual), tls, uri })
    }

    fn request(&self) -> Result<Request<Body>, axum::http::Error> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        Request::get(path)
            .header(HOST, host)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("shellyard/", env!("CARGO_PKG_VERSION")))
            .body(Body::empty())
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

async fn get(target: Target) -> Result<Bytes, FetchError> {
    let request = target.request()?;
    let stream = TcpStream::connect((target.host.as_str(), target.port)).await?;
    let response = match target.tls {
        None => exchange(stream, request).await?,
        Some(name) => exchange(connector()?.connect(name, stream).await?, request).await?,
    };
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status(response.status()));
    }
    Ok(axum::body::to_bytes(response.into_body(), MAX_BYTES).await?)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Body>,
) -> Result<Response<Body>, FetchError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the body, or when that is dropped.
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?.map(Body::new))
}

fn connector() -> Result<TlsConnector, TlsError> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is one fewer; without any the handshake fails and says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_https_or_from_loopback() {
        for (url, host, port) in [
            ("https://id.example.org/jwks", "id.example.org", 443),
            ("https://id.example.org:8443/jwks", "id.example.org", 8443),
            ("http://127.0.0.1:9000/jwks", "127.0.0.1", 9000),
            ("http://localhost/jwks", "localhost", 80),
            ("http://[::1]:9000/jwks", "::1", 9000),
        ] {
            let target = Target::of(url).unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{url}");
            assert_eq!(target.tls.is_some(), url.starts_with("https"), "{url}");
            assert_eq!(target.request().unwrap().uri().path(), target.uri.path());
        }
        for url in [
            "http://id.example.org/jwks",
            "http://127.0.0.1.example.org/jwks",
            "http://localhost.example.org/jwks",
            "ftp://127.0.0.1/jwks",
            "/jwks",
            "https:///jwks",
            "",
        ] {
            assert!(Target::of(url).is_err(), "{url}");
        }
    }
}
