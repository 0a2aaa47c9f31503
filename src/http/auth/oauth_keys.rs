//! The issuer's keys: found, fetched, kept and refreshed.

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

use super::live_tokens::Watched;
use super::oauth::KeySource;
use super::oauth_verify::ACCEPTED;
use crate::bounded_read::BoundedReadError;
use crate::client::{Client, ClientError, Place as TargetPlace, Target, TargetError};
use crate::private_files::Links;
use crate::telemetry::events;

/// The least time between two fetches, whatever tokens say.
const AT_MOST_EVERY: Duration = Duration::from_secs(10);

/// Keys of an issuer. A cheap clone.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    /// In a file, read again when it changed.
    File(Arc<FileKeys>),
    /// At a URL.
    Remote(Arc<RemoteKeys>),
}

/// Why there are no new keys; the old ones are kept.
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

impl Keys {
    /// The keys of `issuer`; none are read or fetched yet.
    pub(super) fn new(source: KeySource, issuer: &str, refresh: Duration) -> Self {
        let place = match source {
            KeySource::File(path) => {
                let file = StdMutex::new((Watched::new(path, Links::Follow), None));
                return Self::File(Arc::new(FileKeys { file }));
            }
            KeySource::Url(url) => Place::Url(url),
            KeySource::Issuer => Place::Issuer(issuer.to_owned()),
        };
        let current = watch::Sender::new(None);
        Self::Remote(Arc::new(RemoteKeys { place, refresh, tried: Mutex::new(None), current }))
    }

    /// The keys as they are, if there are any; a refresh that is due goes on by itself.
    pub(super) async fn now(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::File(file) => file.now(),
            Self::Remote(remote) => remote.now().await,
        }
    }

    /// The keys after a token named one that is not among them.
    pub(super) async fn renewed(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::File(file) => file.now(),
            Self::Remote(remote) => {
                Box::pin(remote.fetch_if(Wish::Unknown)).await;
                remote.kept()
            }
        }
    }
}

/// Keys in a file.
#[derive(Debug)]
pub(super) struct FileKeys {
    file: StdMutex<(Watched, Option<Arc<KeySet>>)>,
}

impl FileKeys {
    fn now(&self) -> Option<Arc<KeySet>> {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, keys) = &mut *guard;
        if let Some(text) = file.changed() {
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

/// Keys at a URL.
#[derive(Debug)]
pub(super) struct RemoteKeys {
    place: Place,
    refresh: Duration,
    /// When they were fetched last, with or without success; held while they are fetched.
    tried: Mutex<Option<Instant>>,
    current: watch::Sender<Option<Kept>>,
}

#[derive(Debug)]
enum Place {
    Url(String),
    /// Where this issuer's metadata says.
    Issuer(String),
}

#[derive(Debug)]
struct Kept {
    keys: Arc<KeySet>,
    since: Instant,
}

/// Why keys are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// To know them at all, or to know them anew after a while.
    Usual,
    /// A token names a key that is not known.
    Unknown,
}

impl RemoteKeys {
    async fn now(self: &Arc<Self>) -> Option<Arc<KeySet>> {
        match self.age(Instant::now()) {
            // Boxed, here and below: whoever asks would else be as large as a fetch, which is rare.
            None => Box::pin(self.fetch_if(Wish::Usual)).await,
            // Nobody waits for what is only a precaution.
            Some(age) if age >= self.refresh => {
                let keys = Arc::clone(self);
                tokio::spawn(async move { keys.fetch_if(Wish::Usual).await });
            }
            Some(_) => {}
        }
        self.kept()
    }

    fn kept(&self) -> Option<Arc<KeySet>> {
        self.current.borrow().as_ref().map(|kept| Arc::clone(&kept.keys))
    }

    fn age(&self, now: Instant) -> Option<Duration> {
        self.current.borrow().as_ref().map(|kept| now.saturating_duration_since(kept.since))
    }

    /// Fetches the keys if that is due; who comes meanwhile waits for the same fetch.
    async fn fetch_if(&self, wish: Wish) {
        let mut tried = self.tried.lock().await;
        let now = Instant::now();
        let since_try = tried.map(|tried| now.saturating_duration_since(tried));
        if !is_due(wish, since_try, self.age(now), self.refresh) {
            return;
        }
        *tried = Some(now);
        match self.fetch().await {
            Ok(keys) => {
                self.current.send_replace(Some(Kept { keys: Arc::new(keys), since: now }));
            }
            Err(error) => events::oauth_keys_not_refreshed(&error),
        }
    }

    async fn fetch(&self) -> Result<KeySet, KeysError> {
        let json = match &self.place {
            Place::Url(url) => fetch(url).await?,
            Place::Issuer(issuer) => fetch(&keys_url(issuer).await?).await?,
        };
        Ok(KeySet::parse(&json)?)
    }
}

/// Whether keys of this age, tried for so long ago, are to be fetched.
fn is_due(
    wish: Wish,
    since_try: Option<Duration>,
    age: Option<Duration>,
    refresh: Duration,
) -> bool {
    let may = since_try.is_none_or(|since| since >= AT_MOST_EVERY);
    let should = match wish {
        Wish::Usual => age.is_none_or(|age| age >= refresh),
        Wish::Unknown => true,
    };
    may && should
}

/// Public keys, each with the algorithms that it may check.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    name: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// Why a text is no set of keys.
#[derive(Debug, Error)]
pub(super) enum KeySetError {
    #[error("it is no JSON Web Key Set")]
    Unreadable(#[from] serde_json::Error),
    #[error("it holds no key that can check a signature")]
    Empty,
}

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a key set. Keys of kinds that we do not know are none of ours and are passed over.
    pub(super) fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        let published: Published = serde_json::from_slice(json)?;
        let keys: Vec<Key> = published.keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self { keys }) }
    }

    /// The keys that may have made a signature of this algorithm: those of that name, or all when
    /// the token names none.
    pub(super) fn find(
        &self,
        name: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &DecodingKey> {
        let is_meant = move |key: &&Key| {
            key.algorithms.contains(&algorithm) && (name.is_none() || key.name.as_deref() == name)
        };
        self.keys.iter().filter(is_meant).map(|key| &key.key)
    }
}

impl Key {
    fn read(published: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(published).ok()?;
        let common = &jwk.common;
        if common.public_key_use.as_ref().is_some_and(|it| *it != PublicKeyUse::Signature) {
            return None;
        }
        let mut algorithms = algorithms_of(&jwk.algorithm);
        if let Some(only) = common.key_algorithm {
            algorithms.retain(|algorithm| KeyAlgorithm::from(*algorithm) == only);
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        let name = jwk.common.key_id;
        (!algorithms.is_empty()).then_some(Self { name, algorithms, key })
    }
}

/// What a key of this kind can check; nothing where it is a shared secret.
#[expect(clippy::wildcard_enum_match_arm, reason = "what is not named here is not accepted")]
fn algorithms_of(kind: &AlgorithmParameters) -> Vec<Algorithm> {
    let is_rsa = |algorithm: &Algorithm| algorithm.family() == AlgorithmFamily::Rsa;
    match kind {
        AlgorithmParameters::RSA(_) => ACCEPTED.into_iter().filter(is_rsa).collect(),
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

/// What an issuer says of itself, as far as we ask.
#[derive(Debug, Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

/// Why it is not known where the keys are.
#[derive(Debug, Error)]
pub(super) enum DiscoverError {
    #[error("the issuer's metadata cannot be fetched ({url}); set oauth.jwks if it has none")]
    Fetch { url: String, source: FetchError },
    #[error("the issuer's metadata cannot be read ({url})")]
    Unreadable { url: String, source: serde_json::Error },
    #[error("the metadata at {url} is that of another issuer; check oauth.issuer")]
    OtherIssuer { url: String },
}

/// The URL of the issuer's keys.
pub(super) async fn keys_url(issuer: &str) -> Result<String, DiscoverError> {
    let [first, others @ ..] = places(issuer);
    let mut found = try_place(issuer, first).await;
    for place in others {
        if found.is_ok() {
            break;
        }
        // The first refusal is told: the others are ways to write the same thing.
        found = try_place(issuer, place).await.or(found);
    }
    found
}

async fn try_place(issuer: &str, url: String) -> Result<String, DiscoverError> {
    match fetch(&url).await {
        Ok(json) => read(issuer, url, &json),
        Err(source) => Err(DiscoverError::Fetch { url, source }),
    }
}

/// RFC 8414 §3.3: metadata of another issuer must not be used.
fn read(issuer: &str, url: String, json: &Bytes) -> Result<String, DiscoverError> {
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

/// Where metadata may be, in the order in which MCP asks clients to try: between host and path
/// (RFC 8414 for both kinds), then behind the path (OpenID).
fn places(issuer: &str) -> [String; 3] {
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
        TargetPlace::Tls(_) => true,
        TargetPlace::Tcp(authority) => authority.loopback().is_some(),
        TargetPlace::Socket(_) => false,
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
        for (wish, since_try, age, expected) in [
            (Wish::Usual, None, None, true),
            (Wish::Usual, Some(s(9)), None, false),
            (Wish::Usual, Some(s(10)), None, true),
            (Wish::Usual, Some(s(299)), Some(s(299)), false),
            (Wish::Usual, Some(s(300)), Some(s(300)), true),
            // The last try failed.
            (Wish::Usual, Some(s(5)), Some(s(305)), false),
            (Wish::Unknown, Some(s(9)), Some(s(9)), false),
            (Wish::Unknown, Some(s(10)), Some(s(10)), true),
            (Wish::Unknown, None, None, true),
        ] {
            let due = is_due(wish, since_try, age, s(300));
            assert_eq!(due, expected, "{wish:?} {since_try:?} {age:?}");
        }
    }

    #[test]
    fn metadata_is_looked_for_where_both_standards_put_it() {
        for issuer in ["https://id.example.org", "https://id.example.org/"] {
            assert_eq!(
                places(issuer),
                [
                    "https://id.example.org/.well-known/oauth-authorization-server",
                    "https://id.example.org/.well-known/openid-configuration",
                    "https://id.example.org/.well-known/openid-configuration",
                ]
            );
        }
        assert_eq!(
            places("https://id.example.org:8443/realms/a"),
            [
                "https://id.example.org:8443/.well-known/oauth-authorization-server/realms/a",
                "https://id.example.org:8443/.well-known/openid-configuration/realms/a",
                "https://id.example.org:8443/realms/a/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn only_the_issuers_own_metadata_counts() {
        let read = |json: &'static str| {
            read("https://a.example", "https://x".to_owned(), &Bytes::from_static(json.as_bytes()))
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
