//! The keys of the token issuer: discovery, fetching, caching and refresh.

use std::error::Error as _;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use axum::http::{Method, StatusCode};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use super::file_watcher::FileWatcher;
use super::oauth::{ACCEPTED_ALGORITHMS, OauthKeySource};
use crate::client::{ClientError, Endpoint, ServerClient, ServerTarget, TargetError};
use crate::private_files::{BoundedReadError, Symlinks};
use crate::telemetry::events;

/// The shortest interval between two fetches, whatever tokens say.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);

/// The keys of an issuer. Clones are cheap.
#[derive(Debug, Clone)]
pub(super) enum IssuerKeys {
    /// Keys in a file, which is read again when it changes.
    File(Arc<FileKeys>),
    Remote(Arc<RemoteKeys>),
}

/// The reason why there are no new keys; the old ones stay in use.
#[derive(Debug, Error)]
enum KeysError {
    #[error("the file cannot be read")]
    File(#[from] BoundedReadError),
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error("the keys cannot be fetched")]
    Fetch(#[from] FetchError),
    #[error("the keys cannot be used")]
    KeySet(#[from] KeySetError),
}

impl IssuerKeys {
    /// Creates the keys of `issuer`; nothing is read or fetched yet.
    pub(super) fn new(source: OauthKeySource, issuer: &str, refresh: Duration) -> Self {
        let location = match source {
            OauthKeySource::File(path) => {
                let file = StdMutex::new((FileWatcher::new(path, Symlinks::Follow), None));
                return Self::File(Arc::new(FileKeys { file }));
            }
            OauthKeySource::Url(url) => KeysLocation::Url(url),
            OauthKeySource::Issuer => KeysLocation::Issuer(issuer.to_owned()),
        };
        let current = watch::Sender::new(None);
        Self::Remote(Arc::new(RemoteKeys { location, refresh, tried: Mutex::new(None), current }))
    }

    /// Returns the current keys, if there are any. A refresh that is due runs in the background.
    pub(super) async fn current(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::File(file) => file.current(),
            Self::Remote(remote) => remote.current().await,
        }
    }

    /// Returns the keys after a new fetch, because a token named a key that is not among them.
    pub(super) async fn refetch(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::File(file) => file.current(),
            Self::Remote(remote) => {
                Box::pin(remote.fetch_if_due(FetchReason::UnknownKey)).await;
                remote.fetched()
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct FileKeys {
    file: StdMutex<(FileWatcher, Option<Arc<KeySet>>)>,
}

impl FileKeys {
    fn current(&self) -> Option<Arc<KeySet>> {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, keys) = &mut *guard;
        if let Some(text) = file.read_if_changed() {
            let read = text.map_err(KeysError::from);
            match read.and_then(|text| Ok(KeySet::parse(text.as_bytes())?)) {
                Ok(new) => *keys = Some(Arc::new(new)),
                Err(error) => {
                    let cause = error.source().map(|cause| format!(": {cause}"));
                    events::oauth_keys_not_refreshed(&format!(
                        "{error}{}",
                        cause.unwrap_or_default()
                    ));
                }
            }
        }
        keys.clone()
    }
}

#[derive(Debug)]
pub(super) struct RemoteKeys {
    location: KeysLocation,
    refresh: Duration,
    /// The time of the last fetch, successful or not. Locked while a fetch runs.
    tried: Mutex<Option<Instant>>,
    current: watch::Sender<Option<FetchedKeys>>,
}

#[derive(Debug)]
enum KeysLocation {
    Url(String),
    /// The URL that the metadata of this issuer names.
    Issuer(String),
}

#[derive(Debug)]
struct FetchedKeys {
    keys: Arc<KeySet>,
    since: Instant,
}

/// The reason for a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchReason {
    /// The keys are missing or old.
    Refresh,
    UnknownKey,
}

impl RemoteKeys {
    async fn current(self: &Arc<Self>) -> Option<Arc<KeySet>> {
        match self.age(Instant::now()) {
            // Boxed, here and below: otherwise every caller would be as large as a fetch, which is
            // rare.
            None => Box::pin(self.fetch_if_due(FetchReason::Refresh)).await,
            // Nobody waits for a refresh, which is only a precaution.
            Some(age) if age >= self.refresh => {
                let keys = Arc::clone(self);
                tokio::spawn(async move { keys.fetch_if_due(FetchReason::Refresh).await });
            }
            Some(_) => {}
        }
        self.fetched()
    }

    fn fetched(&self) -> Option<Arc<KeySet>> {
        self.current.borrow().as_ref().map(|fetched| Arc::clone(&fetched.keys))
    }

    fn age(&self, now: Instant) -> Option<Duration> {
        self.current.borrow().as_ref().map(|fetched| now.saturating_duration_since(fetched.since))
    }

    /// Fetches the keys if a fetch is due. Concurrent callers wait for the same fetch.
    async fn fetch_if_due(&self, reason: FetchReason) {
        let mut tried = self.tried.lock().await;
        let now = Instant::now();
        let since_try = tried.map(|tried| now.saturating_duration_since(tried));
        if !is_due(reason, since_try, self.age(now), self.refresh) {
            return;
        }
        *tried = Some(now);
        match self.fetch().await {
            Ok(keys) => {
                self.current.send_replace(Some(FetchedKeys { keys: Arc::new(keys), since: now }));
            }
            Err(error) => events::oauth_keys_not_refreshed(&error),
        }
    }

    async fn fetch(&self) -> Result<KeySet, KeysError> {
        let json = match &self.location {
            KeysLocation::Url(url) => fetch(url).await?,
            KeysLocation::Issuer(issuer) => fetch(&keys_url(issuer).await?).await?,
        };
        Ok(KeySet::parse(&json)?)
    }
}

/// `true` if keys of this age, last tried `since_try` ago, must be fetched.
fn is_due(
    reason: FetchReason,
    since_try: Option<Duration>,
    age: Option<Duration>,
    refresh: Duration,
) -> bool {
    let may = since_try.is_none_or(|since| since >= MIN_FETCH_INTERVAL);
    let should = match reason {
        FetchReason::Refresh => age.is_none_or(|age| age >= refresh),
        FetchReason::UnknownKey => true,
    };
    may && should
}

/// Public keys, each with the algorithms that it may verify.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<VerificationKey>,
}

#[derive(Debug)]
struct VerificationKey {
    name: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// The reason why a text is not a usable key set.
#[derive(Debug, Error)]
pub(super) enum KeySetError {
    #[error("it is not a JSON Web Key Set")]
    Unreadable(#[from] serde_json::Error),
    #[error("it holds no key that can check a signature")]
    Empty,
}

#[derive(Deserialize)]
struct PublishedKeySet {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses a key set. Keys of unsupported kinds are skipped.
    pub(super) fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        let published: PublishedKeySet = serde_json::from_slice(json)?;
        let keys: Vec<VerificationKey> =
            published.keys.into_iter().filter_map(VerificationKey::from_jwk).collect();
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self { keys }) }
    }

    /// The keys that may have made a signature with this algorithm: those with this name, or all if
    /// the token names none.
    pub(super) fn find(
        &self,
        name: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &DecodingKey> {
        let is_meant = move |key: &&VerificationKey| {
            key.algorithms.contains(&algorithm) && (name.is_none() || key.name.as_deref() == name)
        };
        self.keys.iter().filter(is_meant).map(|key| &key.key)
    }
}

impl VerificationKey {
    fn from_jwk(published: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(published).ok()?;
        let common = &jwk.common;
        if common.public_key_use.as_ref().is_some_and(|it| *it != PublicKeyUse::Signature) {
            return None;
        }
        let mut algorithms = usable_algorithms(&jwk.algorithm);
        if let Some(only) = common.key_algorithm {
            algorithms.retain(|algorithm| KeyAlgorithm::from(*algorithm) == only);
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        let name = jwk.common.key_id;
        (!algorithms.is_empty()).then_some(Self { name, algorithms, key })
    }
}

/// The accepted algorithms that a key of this kind can verify; none for a shared secret.
#[expect(clippy::wildcard_enum_match_arm, reason = "what is not named here is not accepted")]
fn usable_algorithms(kind: &AlgorithmParameters) -> Vec<Algorithm> {
    let is_rsa = |algorithm: &Algorithm| algorithm.family() == AlgorithmFamily::Rsa;
    match kind {
        AlgorithmParameters::RSA(_) => ACCEPTED_ALGORITHMS.into_iter().filter(is_rsa).collect(),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => vec![Algorithm::ES256],
            EllipticCurve::P384 => vec![Algorithm::ES384],
            _ => Vec::new(),
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        _ => Vec::new(),
    }
}

/// The parts of the issuer's metadata that are used.
#[derive(Debug, Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

/// The reason why the URL of the keys is unknown.
#[derive(Debug, Error)]
enum DiscoverError {
    #[error("the issuer's metadata cannot be fetched ({url}); set oauth.jwks if it has none")]
    Fetch { url: String, source: FetchError },
    #[error("the issuer's metadata cannot be read ({url})")]
    Unreadable { url: String, source: serde_json::Error },
    #[error("the metadata at {url} is that of another issuer; check oauth.issuer")]
    OtherIssuer { url: String },
}

/// Discovers the URL of the issuer's keys.
async fn keys_url(issuer: &str) -> Result<String, DiscoverError> {
    let [first, others @ ..] = metadata_urls(issuer);
    let mut found = try_metadata_url(issuer, first).await;
    for location in others {
        if found.is_ok() {
            break;
        }
        // The first error is reported: the other URLs are other spellings of the same place.
        found = try_metadata_url(issuer, location).await.or(found);
    }
    found
}

async fn try_metadata_url(issuer: &str, url: String) -> Result<String, DiscoverError> {
    match fetch(&url).await {
        Ok(json) => parse_metadata(issuer, url, &json),
        Err(source) => Err(DiscoverError::Fetch { url, source }),
    }
}

/// Parses metadata. RFC 8414 §3.3: metadata of another issuer must not be used.
fn parse_metadata(issuer: &str, url: String, json: &Bytes) -> Result<String, DiscoverError> {
    let metadata: IssuerMetadata = match serde_json::from_slice(json) {
        Ok(metadata) => metadata,
        Err(source) => return Err(DiscoverError::Unreadable { url, source }),
    };
    if metadata.issuer == issuer {
        Ok(metadata.jwks_uri)
    } else {
        Err(DiscoverError::OtherIssuer { url })
    }
}

/// The URLs where metadata may be, in the order in which MCP asks clients to try them: between host
/// and path (RFC 8414 for both kinds), then behind the path (OpenID).
fn metadata_urls(issuer: &str) -> [String; 3] {
    let issuer = issuer.trim_end_matches('/');
    let host = issuer.find("://").map_or(0, |at| at + "://".len());
    let path = issuer[host..].find('/').map_or(issuer.len(), |at| host + at);
    let (origin, path) = issuer.split_at(path);
    [
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
        format!("{origin}{path}/.well-known/openid-configuration"),
    ]
}

/// The time limit of one fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest accepted response.
const MAX_BYTES: usize = 1024 * 1024;

/// The reason why a fetch failed.
#[derive(Debug, Error)]
enum FetchError {
    #[error(transparent)]
    Url(#[from] TargetError),
    #[error("`{url}` is not fetched: keys come over https, or over http from loopback")]
    Insecure { url: String },
    #[error("no answer within {} s", FETCH_TIMEOUT.as_secs())]
    Timeout,
    #[error("no answer: {}", cause(.0))]
    Client(#[from] ClientError),
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    #[error("the answer is larger than {MAX_BYTES} bytes")]
    TooLarge,
}

/// The cause of a client error. The text of the error itself addresses users who look for a
/// Shellyard server.
fn cause(error: &ClientError) -> String {
    error.source().map_or_else(|| error.code().to_owned(), ToString::to_string)
}

/// Fetches the content of a URL.
async fn fetch(url: &str) -> Result<Bytes, FetchError> {
    let (target, path) = parse_keys_url(url)?;
    let client = ServerClient::new(target, None)?;
    let agent = concat!("shellyard/", env!("CARGO_PKG_VERSION"));
    let headers = HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static(agent)),
    ]);
    let response = client.request(Method::GET, &path, headers, Bytes::new());
    let response = timeout(FETCH_TIMEOUT, response).await.map_err(|_| FetchError::Timeout)??;
    match response.status {
        StatusCode::OK if response.body.len() <= MAX_BYTES => Ok(response.body),
        StatusCode::OK => Err(FetchError::TooLarge),
        status => Err(FetchError::Status(status)),
    }
}

/// `true` if keys may be fetched from this URL.
pub(super) fn is_allowed_keys_url(url: &str) -> bool {
    parse_keys_url(url).is_ok()
}

fn parse_keys_url(url: &str) -> Result<(ServerTarget, String), FetchError> {
    let (address, query) = url.split_once('?').map_or((url, None), |(url, it)| (url, Some(it)));
    let insecure = || FetchError::Insecure { url: url.to_owned() };
    if !address.contains("://") {
        return Err(insecure());
    }
    let target = ServerTarget::parse(address, "/")?;
    let is_safe = match target.endpoint() {
        Endpoint::Tls(_) => true,
        Endpoint::Tcp(authority) => authority.loopback().is_some(),
        Endpoint::Socket(_) => false,
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
    fn keys_are_fetched_when_due_and_never_too_often() {
        let s = Duration::from_secs;
        for (reason, since_try, age, expected) in [
            (FetchReason::Refresh, None, None, true),
            (FetchReason::Refresh, Some(s(9)), None, false),
            (FetchReason::Refresh, Some(s(10)), None, true),
            (FetchReason::Refresh, Some(s(299)), Some(s(299)), false),
            (FetchReason::Refresh, Some(s(300)), Some(s(300)), true),
            // The last attempt failed.
            (FetchReason::Refresh, Some(s(5)), Some(s(305)), false),
            (FetchReason::UnknownKey, Some(s(9)), Some(s(9)), false),
            (FetchReason::UnknownKey, Some(s(10)), Some(s(10)), true),
            (FetchReason::UnknownKey, None, None, true),
        ] {
            let due = is_due(reason, since_try, age, s(300));
            assert_eq!(due, expected, "{reason:?} {since_try:?} {age:?}");
        }
    }

    #[test]
    fn metadata_is_searched_at_the_urls_of_both_standards() {
        for issuer in ["https://id.example.org", "https://id.example.org/"] {
            assert_eq!(
                metadata_urls(issuer),
                [
                    "https://id.example.org/.well-known/oauth-authorization-server",
                    "https://id.example.org/.well-known/openid-configuration",
                    "https://id.example.org/.well-known/openid-configuration",
                ]
            );
        }
        assert_eq!(
            metadata_urls("https://id.example.org:8443/realms/a"),
            [
                "https://id.example.org:8443/.well-known/oauth-authorization-server/realms/a",
                "https://id.example.org:8443/.well-known/openid-configuration/realms/a",
                "https://id.example.org:8443/realms/a/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn metadata_of_another_issuer_is_refused() {
        let read = |json: &'static str| {
            parse_metadata(
                "https://a.example",
                "https://x".to_owned(),
                &Bytes::from_static(json.as_bytes()),
            )
        };
        let own = r#"{"issuer": "https://a.example", "jwks_uri": "https://a.example/k", "x": 1}"#;
        assert_eq!(read(own).unwrap(), "https://a.example/k");
        let other = r#"{"issuer": "https://a.example/", "jwks_uri": "https://a.example/k"}"#;
        assert!(matches!(read(other), Err(DiscoverError::OtherIssuer { .. })));
        for odd in ["", "[]", r#"{"issuer": "https://a.example"}"#] {
            assert!(matches!(read(odd), Err(DiscoverError::Unreadable { .. })), "{odd}");
        }
    }

    #[test]
    fn keys_come_over_https_or_from_loopback() {
        for (url, expected, path) in [
            ("https://id.example.org/jwks", "https://id.example.org:443/jwks", "/jwks"),
            ("https://id.example.org:8443/k?a=1", "https://id.example.org:8443/k", "/k?a=1"),
            ("http://127.0.0.1:9000/jwks", "http://127.0.0.1:9000/jwks", "/jwks"),
            ("http://localhost", "http://localhost:80/", "/"),
            ("http://[::1]:9000/jwks", "http://[::1]:9000/jwks", "/jwks"),
        ] {
            let (target, response) = parse_keys_url(url).unwrap();
            assert_eq!((target.to_string().as_str(), response.as_str()), (expected, path));
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
            assert!(parse_keys_url(url).is_err(), "{url}");
        }
    }
}
