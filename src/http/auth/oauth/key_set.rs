//! The keys that an issuer publishes (RFC 7517), as far as they can check a signature.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::signatures::ACCEPTED;

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
