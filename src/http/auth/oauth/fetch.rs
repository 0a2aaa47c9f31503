//! One small GET, for keys and metadata: bounded in time and size, and without redirects.

use std::error::Error as StdError;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use axum::http::{Method, StatusCode};
use thiserror::Error;
use tokio::time::timeout;

use crate::client::{Client, ClientError, Place, Target, TargetError};

/// The most time that one fetch takes.
const TIME: Duration = Duration::from_secs(5);

/// The largest answer.
const MAX_BYTES: usize = 1024 * 1024;

/// Why nothing was fetched.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Url(#[from] TargetError),
    #[error("`{url}` is not fetched: keys come over https, or over http from loopback")]
    Insecure { url: String },
    #[error("no answer within {} s", TIME.as_secs())]
    Timeout,
    #[error("no answer: {}", cause(.0))]
    Client(#[from] ClientError),
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    #[error("the answer is larger than {MAX_BYTES} bytes")]
    TooLarge,
}

/// What a client says is for people who look for a server of ours; its cause is not.
fn cause(error: &ClientError) -> String {
    error.source().map_or_else(|| error.code().to_owned(), ToString::to_string)
}

/// What is at this URL.
pub(super) async fn fetch(url: &str) -> Result<Bytes, FetchError> {
    let (target, path) = target(url)?;
    let client = Client::new(target, None)?;
    let agent = concat!("shellyard/", env!("CARGO_PKG_VERSION"));
    let headers = HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static(agent)),
    ]);
    let asked = client.request(Method::GET, &path, headers, Bytes::new());
    let answer = timeout(TIME, asked).await.map_err(|_| FetchError::Timeout)??;
    match answer.status {
        StatusCode::OK if answer.body.len() <= MAX_BYTES => Ok(answer.body),
        StatusCode::OK => Err(FetchError::TooLarge),
        status => Err(FetchError::Status(status)),
    }
}

/// Where a URL leads, and what to ask for there.
/// Whether keys may come from this URL.
pub(super) fn is_fetched(url: &str) -> bool {
    target(url).is_ok()
}

fn target(url: &str) -> Result<(Target, String), FetchError> {
    let (address, query) = url.split_once('?').map_or((url, None), |(url, it)| (url, Some(it)));
    let insecure = || FetchError::Insecure { url: url.to_owned() };
    if !address.contains("://") {
        return Err(insecure());
    }
    let target = Target::parse(address, "/")?;
    let is_safe = match target.place() {
        Place::Tls(_) => true,
        Place::Tcp(authority) => authority.loopback().is_some(),
        Place::Socket(_) => false,
    };
    if !is_safe {
        return Err(insecure());
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("{}{query}", target.path());
    Ok((target, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_https_or_from_loopback() {
        for (url, shown, path) in [
            ("https://id.example.org/jwks", "https://id.example.org:443/jwks", "/jwks"),
            ("https://id.example.org:8443/k?a=1", "https://id.example.org:8443/k", "/k?a=1"),
            ("http://127.0.0.1:9000/jwks", "http://127.0.0.1:9000/jwks", "/jwks"),
            ("http://localhost", "http://localhost:80/", "/"),
            ("http://[::1]:9000/jwks", "http://[::1]:9000/jwks", "/jwks"),
        ] {
            let (target, asked) = target(url).unwrap();
            assert_eq!((target.to_string().as_str(), asked.as_str()), (shown, path));
        }
        for url in [
            "http://id.example.org/jwks",
            "http://127.0.0.1.example.org/jwks",
            "http://localhost.example.org/jwks",
            "ftp://127.0.0.1/jwks",
            "/jwks",
            "unix:/jwks",
            "https:///jwks",
            "",
        ] {
            assert!(target(url).is_err(), "{url}");
        }
    }
}
