//! Signatures by public keys, checked with ring, which TLS brings along anyway: the crates behind
//! jsonwebtoken's own providers would double the cryptography in the program.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{self as ring_signature, RsaParameters, VerificationAlgorithm};

/// What is accepted: signatures by a public key, and nothing that a shared secret could make.
pub(super) const ACCEPTED: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory,
    verifier_factory,
    // For keys that are made or shown, which we do neither of.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes jsonwebtoken check signatures with ring, in the whole process.
pub(super) fn install() {
    // Whoever was first installed the same one.
    PROVIDER.install_default().ok();
}

fn signer_factory(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier_factory(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let scheme = Scheme::of(*algorithm).ok_or(ErrorKind::UnsupportedAlgorithm)?;
    Ok(Box::new(PublicKey { algorithm: *algorithm, scheme, key: key.clone() }))
}

enum Scheme {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

impl Scheme {
    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not named here is not accepted")]
    fn of(algorithm: Algorithm) -> Option<Self> {
        Some(match algorithm {
            Algorithm::RS256 => Self::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Self::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Self::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Self::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Self::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Self::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => Self::Other(&ring_signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Self::Other(&ring_signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Self::Other(&ring_signature::ED25519),
            _ => return None,
        })
    }
}

struct PublicKey {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

impl JwtVerifier for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for PublicKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let checked = match (&self.scheme, self.key.kind()) {
            (Scheme::Rsa(scheme), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = ring_signature::RsaPublicKeyComponents { n, e };
                key.verify(scheme, message, signature)
            }
            (Scheme::Other(scheme), DecodingKeyKind::SecretOrDer(key)) => {
                let key = ring_signature::UnparsedPublicKey::new(*scheme, key);
                key.verify(message, signature)
            }
            (Scheme::Rsa(_), DecodingKeyKind::SecretOrDer(_))
            | (Scheme::Other(_), DecodingKeyKind::RsaModulusExponent { .. }) => {
                return Err(Error::new());
            }
        };
        checked.map_err(|_| Error::new())
    }
}
