//! A minimal authorization server: keys, metadata, and signed tokens.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

/// The audience of all tokens.
pub(super) const AUDIENCE: &str = "https://yard.example.org/mcp";

/// An issuer on a loopback port, for as long as the test runs.
#[derive(Debug)]
pub(super) struct Issuer {
    url: String,
    pages: Pages,
}

type Pages = Arc<Mutex<HashMap<String, String>>>;

impl Issuer {
    /// Creates an issuer without any pages; its URL has this path.
    pub(super) fn new(path: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}{path}", listener.local_addr().expect("it is bound"));
        let pages = Pages::default();
        let served = Arc::clone(&pages);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                answer(stream, &served);
            }
        });
        Self { url, pages }
    }

    /// Creates an issuer that publishes its metadata as in RFC 8414, and these keys.
    pub(super) fn with_keys(keys: &[Value]) -> Self {
        let issuer = Self::new("");
        issuer.describe("/.well-known/oauth-authorization-server");
        issuer.publish(keys);
        issuer
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn keys_url(&self) -> String {
        let host = self.url.split('/').nth(2).expect("a host");
        format!("http://{host}/keys")
    }

    /// Publishes its metadata at this path.
    pub(super) fn describe(&self, path: &str) {
        let metadata = json!({"issuer": self.url, "jwks_uri": self.keys_url()});
        self.say(path, &metadata.to_string());
    }

    /// Publishes these keys, and no others.
    pub(super) fn publish(&self, keys: &[Value]) {
        self.say("/keys", &json!({ "keys": keys }).to_string());
    }

    /// Serves this text at this path.
    pub(super) fn say(&self, path: &str, text: &str) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.insert(path.to_owned(), text.to_owned());
    }

    /// The claims of a good token.
    pub(super) fn claims(&self, scope: &str) -> Value {
        json!({
            "iss": self.url,
            "aud": [AUDIENCE, "https://other.example.org"],
            "sub": "alice",
            "exp": seconds_from_now(600),
            "scope": scope,
        })
    }
}

/// Returns the time this many seconds from now, in seconds since 1970.
pub(super) fn seconds_from_now(seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    now.as_secs() + seconds
}

fn answer(mut stream: TcpStream, pages: &Pages) {
    let mut lines = BufReader::new(&stream).lines();
    let Some(Ok(first)) = lines.next() else { return };
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    let page = pages.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
    let (status, text) = page.map_or(("404 Not Found", String::new()), |text| ("200 OK", text));
    let length = text.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + &text).as_bytes()).ok();
}

/// A key that signs tokens.
pub(super) enum SigningKey {
    Rsa(&'static str, RsaKeyPair),
    Ec(&'static str, EcdsaKeyPair),
}

impl SigningKey {
    /// Returns the RSA key, always the same one: generating a key takes long.
    pub(super) fn rsa(name: &'static str) -> Self {
        Self::Rsa(name, RsaKeyPair::from_pkcs8(include_bytes!("rsa.pk8")).expect("a key"))
    }

    pub(super) fn ec(name: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        Self::Ec(name, EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key"))
    }

    /// The public key as a JWK.
    pub(super) fn public(&self) -> Value {
        match self {
            Self::Rsa(name, key) => {
                let parts = PublicKeyComponents::<Vec<u8>>::from(key.public());
                let (n, e) = (encode(&parts.n), encode(&parts.e));
                json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": name, "n": n, "e": e})
            }
            Self::Ec(name, key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": name, "x": encode(x), "y": encode(y)})
            }
        }
    }

    /// A token with these claims.
    pub(super) fn token(&self, claims: &Value) -> String {
        let (algorithm, name) = match self {
            Self::Rsa(name, _) => ("RS256", name),
            Self::Ec(name, _) => ("ES256", name),
        };
        let head = json!({"alg": algorithm, "kid": name, "typ": "at+jwt"}).to_string();
        let message =
            format!("{}.{}", encode(head.as_bytes()), encode(claims.to_string().as_bytes()));
        format!("{message}.{}", encode(&self.sign(message.as_bytes())))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(_, key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).expect("a signature");
                signature
            }
            Self::Ec(_, key) => key.sign(&random, message).expect("a signature").as_ref().to_vec(),
        }
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
