//! An issuer for tests: keys of each kind, and tokens signed by them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};

const RSA: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tenants/rsa.pk8"));

/// A key that signs.
pub(super) enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(super) fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::from_pkcs8(RSA).unwrap())
    }

    pub(super) fn p256() -> Self {
        Self::P256(ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING))
    }

    pub(super) fn p384() -> Self {
        Self::P384(ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING))
    }

    pub(super) fn ed() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    /// The public half, under this name.
    pub(super) fn published(&self, name: &str) -> Value {
        match self {
            Self::Rsa(key) => {
                let parts = PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": name, "n": encode(&parts.n), "e": encode(&parts.e)})
            }
            Self::P256(key) => curve(name, "P-256", &key.public_key().as_ref()[1..]),
            Self::P384(key) => curve(name, "P-384", &key.public_key().as_ref()[1..]),
            Self::Ed(key) => {
                let x = encode(key.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": name, "x": x})
            }
        }
    }

    /// A token with this head and these claims.
    pub(super) fn token(&self, head: &Value, claims: &Value) -> String {
        let message = unsigned(head, claims);
        let algorithm = head["alg"].as_str().unwrap_or_default();
        let signature = self.sign(algorithm, message.as_bytes());
        format!("{message}.{}", encode(&signature))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding(algorithm), &random, message, &mut signature).unwrap();
                signature
            }
            Self::P256(key) | Self::P384(key) => {
                key.sign(&random, message).unwrap().as_ref().into()
            }
            Self::Ed(key) => key.sign(message).as_ref().into(),
        }
    }
}

/// A token that a shared secret signed.
pub(super) fn by_secret(secret: &[u8], head: &Value, claims: &Value) -> String {
    let message = unsigned(head, claims);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    format!("{message}.{}", encode(hmac::sign(&key, message.as_bytes()).as_ref()))
}

/// The signed part of a token.
pub(super) fn unsigned(head: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(head.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap()
}

fn curve(name: &str, curve: &str, point: &[u8]) -> Value {
    let (x, y) = point.split_at(point.len() / 2);
    json!({"kty": "EC", "crv": curve, "kid": name, "x": encode(x), "y": encode(y)})
}

fn padding(algorithm: &str) -> &'static dyn RsaEncoding {
    match algorithm {
        "RS384" => &RSA_PKCS1_SHA384,
        "RS512" => &RSA_PKCS1_SHA512,
        "PS256" => &RSA_PSS_SHA256,
        "PS384" => &RSA_PSS_SHA384,
        "PS512" => &RSA_PSS_SHA512,
        _ => &RSA_PKCS1_SHA256,
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
