//! Verifies the signature and the claims of access tokens with keys that are already loaded.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{self, Error, ErrorKind};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, Header, Validation, decode, decode_header,
};
use ring::signature as ring_signature;
use ring::signature::{RsaParameters, VerificationAlgorithm};
use serde_json::{Map, Value};

use super::denied::BadToken;
use super::oauth::OauthConfig;
use super::oauth_keys::KeySet;
use super::token::UnixTime;
use crate::ids::TenantId;
use crate::service::CallerRole;

/// The rights that a valid access token grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AccessGrant {
    pub(super) tenant: TenantId,
    /// The role that the scopes grant; `None`: no role here.
    pub(super) role: Option<CallerRole>,
    /// The expiry, including the leeway.
    pub(super) until: UnixTime,
}

type Claims = Map<String, Value>;

/// A token whose header has been parsed and of which nothing is verified yet.
#[derive(Debug)]
pub(super) struct UnverifiedToken<'a> {
    token: &'a str,
    algorithm: Algorithm,
    key: Option<String>,
}

impl<'a> UnverifiedToken<'a> {
    /// Parses the header of a token.
    pub(super) fn read(token: &'a str) -> Result<Self, BadToken> {
        let header = decode_header(token).map_err(|error| unreadable(&error))?;
        if !ACCEPTED_ALGORITHMS.contains(&header.alg) {
            return Err(BadToken::Algorithm);
        }
        // RFC 7515 §4.1.11: a critical extension that is not understood must not pass.
        if header.crit.is_some() || !is_access_token(&header) {
            return Err(BadToken::Unreadable);
        }
        Ok(Self { token, algorithm: header.alg, key: header.kid })
    }

    /// `true` if one of these keys may have signed the token.
    pub(super) fn has_known_key(&self, keys: &KeySet) -> bool {
        keys.find(self.key.as_deref(), self.algorithm).next().is_some()
    }

    /// Returns the rights of the token if one of these keys signed it and all claims are valid.
    pub(super) fn verify(
        &self,
        keys: &KeySet,
        config: &OauthConfig,
    ) -> Result<AccessGrant, BadToken> {
        let mut refused = BadToken::Key;
        for key in keys.find(self.key.as_deref(), self.algorithm) {
            match self.claims(key, config) {
                Ok(claims) => return grant(&claims, config),
                Err(why) => refused = why,
            }
            if refused != BadToken::Signature {
                break;
            }
        }
        Err(refused)
    }

    fn claims(&self, key: &DecodingKey, config: &OauthConfig) -> Result<Claims, BadToken> {
        let mut validation = Validation::new(self.algorithm);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&config.issuer]);
        validation.set_audience(&[&config.audience]);
        validation.leeway = config.leeway.as_secs();
        validation.validate_nbf = true;
        match decode::<Claims>(self.token, key, &validation) {
            Ok(decoded) => Ok(decoded.claims),
            Err(error) => Err(self.refusal(&error)),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "another crate's enum, which may grow")]
    fn refusal(&self, error: &Error) -> BadToken {
        match error.kind() {
            ErrorKind::InvalidSignature => BadToken::Signature,
            ErrorKind::InvalidIssuer => BadToken::Issuer,
            ErrorKind::InvalidAudience => BadToken::Audience,
            ErrorKind::ImmatureSignature => BadToken::NotYet,
            ErrorKind::ExpiredSignature => BadToken::Expired { at: self.expiry() },
            ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
                BadToken::Claim { claim: claim.clone() }
            }
            ErrorKind::InvalidAlgorithm => BadToken::Algorithm,
            _ => BadToken::Unreadable,
        }
    }

    /// The expiry that the token claims, unverified, for the text of a refusal only.
    fn expiry(&self) -> UnixTime {
        let claims = jsonwebtoken::dangerous::insecure_decode_claims::<Claims>(self.token);
        claims.ok().and_then(|claims| expiry(&claims)).unwrap_or(UnixTime::from_unix(0))
    }
}

/// A token that does not have the form of a JWT is some other token; `alg: none` cannot even be
/// parsed.
fn unreadable(error: &Error) -> BadToken {
    let is_other = matches!(error.kind(), ErrorKind::InvalidToken);
    if is_other { BadToken::Unknown } else { BadToken::Unreadable }
}

/// `true` if the type is that of an access token. An ID token or a logout token by the same issuer
/// is not one (RFC 9068 §2.1). Many issuers write plain `JWT`, or nothing.
fn is_access_token(header: &Header) -> bool {
    let Some(kind) = &header.typ else { return true };
    let kind = kind.to_ascii_lowercase();
    matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
}

fn grant(claims: &Claims, config: &OauthConfig) -> Result<AccessGrant, BadToken> {
    // jsonwebtoken also accepts a list of issuers; RFC 7519 does not.
    if claims.get("iss").and_then(Value::as_str) != Some(&config.issuer) {
        return Err(BadToken::Issuer);
    }
    let at = expiry(claims).ok_or_else(|| BadToken::Claim { claim: "exp".to_owned() })?;
    let until = at.after(config.leeway);
    // jsonwebtoken also accepts a token in its last second; RFC 7519 §4.1.4 does not.
    if until <= UnixTime::now() {
        return Err(BadToken::Expired { at });
    }
    let granted = granted_scopes(claims)?;
    Ok(AccessGrant { tenant: tenant(claims, config)?, role: config.scopes.role(&granted), until })
}

fn expiry(claims: &Claims) -> Option<UnixTime> {
    let exp = claims.get("exp")?;
    // Fractions are allowed; jsonwebtoken has checked that the claim is a number from 0.
    let seconds = exp.as_u64().or_else(|| exp.as_f64().map(|seconds| seconds as u64))?;
    Some(UnixTime::from_unix(seconds))
}

/// The granted scopes: words in `scope` (RFC 9068), or a list in `scp`, as some issuers write it.
fn granted_scopes(claims: &Claims) -> Result<Vec<&str>, BadToken> {
    let odd = |claim: &str| BadToken::Claim { claim: claim.to_owned() };
    match (claims.get("scope"), claims.get("scp")) {
        (Some(Value::String(words)), _) | (None, Some(Value::String(words))) => {
            Ok(words.split(' ').filter(|word| !word.is_empty()).collect())
        }
        (Some(_), _) => Err(odd("scope")),
        (None, Some(Value::Array(list))) => {
            list.iter().map(|word| word.as_str().ok_or_else(|| odd("scp"))).collect()
        }
        (None, Some(_)) => Err(odd("scp")),
        (None, None) => Ok(Vec::new()),
    }
}

fn tenant(claims: &Claims, config: &OauthConfig) -> Result<TenantId, BadToken> {
    let claim = &config.tenant_claim;
    let name = claims
        .get(claim)
        .and_then(Value::as_str)
        .ok_or_else(|| BadToken::Claim { claim: claim.clone() })?;
    if !config.tenants.is_empty() {
        return config.tenants.get(name).copied().ok_or(BadToken::Stranger);
    }
    match TenantId::parse(name)? {
        // Nobody may claim the operator's own jobs.
        TenantId::LOCAL => Err(BadToken::Stranger),
        tenant => Ok(tenant),
    }
}

/// The accepted algorithms: only signatures by a public key, nothing that a shared secret could
/// make.
pub(super) const ACCEPTED_ALGORITHMS: [Algorithm; 9] = [
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
    // Only needed to create or export keys, which this server does not do.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes jsonwebtoken verify signatures with ring, in the whole process. TLS needs ring anyway; the
/// crates behind jsonwebtoken's own providers would double the cryptography in the program.
pub(super) fn install_crypto_provider() {
    // An earlier call has installed the same provider.
    PROVIDER.install_default().ok();
}

fn signer_factory(_: &Algorithm, _: &EncodingKey) -> errors::Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier_factory(
    algorithm: &Algorithm,
    key: &DecodingKey,
) -> errors::Result<Box<dyn JwtVerifier>> {
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let scheme =
        SignatureScheme::from_algorithm(*algorithm).ok_or(ErrorKind::UnsupportedAlgorithm)?;
    Ok(Box::new(PublicKey { algorithm: *algorithm, scheme, key: key.clone() }))
}

enum SignatureScheme {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

impl SignatureScheme {
    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not named here is not accepted")]
    fn from_algorithm(algorithm: Algorithm) -> Option<Self> {
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
    scheme: SignatureScheme,
    key: DecodingKey,
}

impl JwtVerifier for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for PublicKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let checked = match (&self.scheme, self.key.kind()) {
            (SignatureScheme::Rsa(scheme), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = ring_signature::RsaPublicKeyComponents { n, e };
                key.verify(scheme, message, signature)
            }
            (SignatureScheme::Other(scheme), DecodingKeyKind::SecretOrDer(key)) => {
                let key = ring_signature::UnparsedPublicKey::new(*scheme, key);
                key.verify(message, signature)
            }
            (SignatureScheme::Rsa(_), DecodingKeyKind::SecretOrDer(_))
            | (SignatureScheme::Other(_), DecodingKeyKind::RsaModulusExponent { .. }) => {
                return Err(SignatureError::new());
            }
        };
        checked.map_err(|_| SignatureError::new())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

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
    use serde_json::json;

    use super::*;
    use crate::http::auth::{OauthKeySource, OauthScopes};

    fn config() -> OauthConfig {
        OauthConfig {
            issuer: "https://id.example".into(),
            resource: None,
            audience: "https://yard.example/mcp".into(),
            keys: OauthKeySource::Issuer,
            refresh: Duration::from_secs(300),
            tenant_claim: "sub".into(),
            tenants: HashMap::new(),
            scopes: OauthScopes {
                read: "y:read".into(),
                run: "y:run".into(),
                admin: "y:admin".into(),
            },
            leeway: Duration::from_secs(30),
            scheme: "http",
            path: "/mcp".into(),
        }
    }

    fn seconds_from_now(seconds: i64) -> u64 {
        jsonwebtoken::get_current_timestamp().checked_add_signed(seconds).unwrap()
    }

    fn claims() -> Value {
        json!({
            "iss": "https://id.example",
            "aud": "https://yard.example/mcp",
            "sub": "oauth-alice",
            "exp": seconds_from_now(600),
            "scope": "openid y:run",
        })
    }

    fn keys(published: &[Value]) -> KeySet {
        KeySet::parse(json!({ "keys": published }).to_string().as_bytes()).unwrap()
    }

    fn verify(token: &str, keys: &KeySet, config: &OauthConfig) -> Result<AccessGrant, BadToken> {
        install_crypto_provider();
        UnverifiedToken::read(token)?.verify(keys, config)
    }

    /// Verifies a valid token after `change`.
    fn after(
        change: impl FnOnce(&mut Value, &mut Value, &mut OauthConfig),
    ) -> Result<AccessGrant, BadToken> {
        let signer = Signer::p256();
        let (mut head, mut claims, mut config) =
            (json!({"alg": "ES256", "kid": "a"}), claims(), config());
        change(&mut head, &mut claims, &mut config);
        verify(&signer.token(&head, &claims), &keys(&[signer.published("a")]), &config)
    }

    #[test]
    fn every_accepted_algorithm_holds() {
        let table = [
            (Signer::rsa(), &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..]),
            (Signer::p256(), &["ES256"]),
            (Signer::p384(), &["ES384"]),
            (Signer::ed(), &["EdDSA"]),
        ];
        for (signer, algorithms) in table {
            let keys = keys(&[signer.published("a")]);
            for algorithm in algorithms {
                let token = signer
                    .token(&json!({"alg": algorithm, "kid": "a", "typ": "at+jwt"}), &claims());
                let grant = verify(&token, &keys, &config()).unwrap();
                assert_eq!(grant.tenant, TenantId::parse("oauth-alice").unwrap(), "{algorithm}");
                assert_eq!(grant.role, Some(CallerRole::Run));
            }
        }
    }

    #[test]
    fn nothing_but_a_public_key_can_sign() {
        let signer = Signer::rsa();
        let published = signer.published("a");
        let secret = published["n"].as_str().unwrap().as_bytes();
        let head = |algorithm: &str| json!({"alg": algorithm, "kid": "a"});
        let keys = keys(std::slice::from_ref(&published));
        let check = |token: &str, expected| {
            assert_eq!(verify(token, &keys, &config()), Err(expected), "{token}");
        };
        check(&format!("{}.", unsigned(&head("none"), &claims())), BadToken::Unreadable);
        check(&format!("{}.", unsigned(&head("None"), &claims())), BadToken::Unreadable);
        check(&by_secret(secret, &head("HS256"), &claims()), BadToken::Algorithm);
        // The algorithm of another kind of key, under the name of this key.
        check(&Signer::p256().token(&head("ES256"), &claims()), BadToken::Key);
        let oct = json!({"kty": "oct", "kid": "s", "k": "c2VjcmV0", "alg": "HS256"});
        assert!(KeySet::parse(json!({"keys": [oct]}).to_string().as_bytes()).is_err());
    }

    #[test]
    fn a_token_of_another_key_or_a_changed_one_does_not_hold() {
        let [ours, other] = [Signer::p256(), Signer::p256()];
        let keys = keys(&[ours.published("a")]);
        let head = json!({"alg": "ES256", "kid": "a"});
        assert_eq!(
            verify(&other.token(&head, &claims()), &keys, &config()),
            Err(BadToken::Signature)
        );
        let unknown = ours.token(&json!({"alg": "ES256", "kid": "b"}), &claims());
        assert!(!UnverifiedToken::read(&unknown).unwrap().has_known_key(&keys));
        assert_eq!(verify(&unknown, &keys, &config()), Err(BadToken::Key));
        let token = ours.token(&head, &claims());
        let (message, signature) = token.rsplit_once('.').unwrap();
        let mut better = claims();
        better["scope"] = json!("y:admin");
        let forged = format!("{}.{signature}", unsigned(&head, &better));
        assert_eq!(verify(&forged, &keys, &config()), Err(BadToken::Signature));
        assert_eq!(verify(&format!("{message}."), &keys, &config()), Err(BadToken::Signature));
        for odd in ["", "x", "a.b", "a.b.c", "a.b.c.d", "....", &token.replace('.', "")] {
            assert!(verify(odd, &keys, &config()).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_token_without_a_key_name_is_tried_with_all_keys_that_fit() {
        let [first, second, third] = [Signer::p256(), Signer::p256(), Signer::p256()];
        let keys =
            keys(&[Signer::rsa().published("r"), first.published("a"), second.published("b")]);
        let head = json!({"alg": "ES256"});
        assert!(verify(&second.token(&head, &claims()), &keys, &config()).is_ok());
        assert_eq!(
            verify(&third.token(&head, &claims()), &keys, &config()),
            Err(BadToken::Signature)
        );
    }

    #[test]
    fn keys_for_something_else_are_not_used() {
        let signer = Signer::rsa();
        let token = signer.token(&json!({"alg": "RS256", "kid": "a"}), &claims());
        for (field, value, fits) in [
            ("use", "sig", true),
            ("use", "enc", false),
            ("alg", "RS256", true),
            ("alg", "PS256", false),
        ] {
            let mut published = signer.published("a");
            published[field] = json!(value);
            let keys = keys(&[published, json!({"kty": "new"}), Signer::ed().published("e")]);
            assert_eq!(verify(&token, &keys, &config()).is_ok(), fits, "{field} {value}");
        }
    }

    #[test]
    fn every_claim_that_must_hold_is_checked() {
        let claim = |name: &str| BadToken::Claim { claim: name.to_owned() };
        let gone = Value::Null;
        for (name, value, expected) in [
            ("iss", json!("https://id.example/"), BadToken::Issuer),
            ("iss", json!(["https://id.example"]), BadToken::Issuer),
            ("iss", json!(7), claim("iss")),
            ("iss", gone.clone(), claim("iss")),
            ("aud", json!("https://other.example/mcp"), BadToken::Audience),
            ("aud", json!(["https://other.example/mcp", "x"]), BadToken::Audience),
            ("aud", json!([]), BadToken::Audience),
            ("aud", json!(7), claim("aud")),
            ("aud", gone.clone(), claim("aud")),
            ("exp", json!("2099"), claim("exp")),
            ("exp", json!(-1), claim("exp")),
            ("exp", gone.clone(), claim("exp")),
            ("nbf", json!(seconds_from_now(60)), BadToken::NotYet),
            ("nbf", json!("soon"), claim("nbf")),
            ("sub", gone.clone(), claim("sub")),
            ("sub", json!(["oauth-alice"]), BadToken::Unreadable),
            ("sub", json!(7), claim("sub")),
            ("sub", json!("local"), BadToken::Stranger),
            ("scope", json!(["y:run"]), claim("scope")),
            ("scope", json!(7), claim("scope")),
        ] {
            let answer = after(|_, claims, _| claims[name] = value.clone());
            assert_eq!(answer, Err(expected), "{name} = {value}");
        }
        let odd = after(|_, claims, _| claims["sub"] = json!("a b"));
        assert!(matches!(odd, Err(BadToken::Tenant(_))), "{odd:?}");
        let over = after(|_, claims, _| claims["exp"] = json!(1_000_000_000));
        assert_eq!(over, Err(BadToken::Expired { at: UnixTime::from_unix(1_000_000_000) }));
        assert_eq!(
            after(|_, claims, _| *claims = json!(["no", "object"])),
            Err(BadToken::Unreadable)
        );
    }

    #[test]
    fn clocks_may_differ_by_the_leeway_and_no_more() {
        let exp = seconds_from_now(-10);
        let grant = after(|_, claims, _| claims["exp"] = json!(exp)).unwrap();
        assert_eq!(grant.until, UnixTime::from_unix(exp + 30));
        assert!(after(|_, claims, _| claims["nbf"] = json!(seconds_from_now(10))).is_ok());
        let strict = after(|_, claims, config| {
            claims["exp"] = json!(exp);
            config.leeway = Duration::ZERO;
        });
        assert!(matches!(strict, Err(BadToken::Expired { .. })), "{strict:?}");
        assert!(after(|_, claims, _| claims["exp"] = json!(exp as f64 + 600.5)).is_ok());
    }

    #[test]
    fn only_access_tokens_whose_head_is_understood_are_read() {
        for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
            assert!(after(|head, _, _| head["typ"] = json!(typ)).is_ok(), "{typ}");
        }
        for (field, value) in
            [("typ", json!("logout+jwt")), ("typ", json!("dpop+jwt")), ("crit", json!(["exp"]))]
        {
            let answer = after(|head, _, _| head[field] = value.clone());
            assert_eq!(answer, Err(BadToken::Unreadable), "{field} = {value}");
        }
    }

    #[test]
    fn the_highest_scope_is_the_role() {
        for (scopes, role) in [
            ("y:read", Some(CallerRole::Read)),
            ("y:run y:read", Some(CallerRole::Run)),
            ("y:read  y:admin", Some(CallerRole::Admin)),
            ("openid y:runs xy:run Y:RUN", None),
            ("", None),
        ] {
            let grant = after(|_, claims, _| claims["scope"] = json!(scopes)).unwrap();
            assert_eq!(grant.role, role, "{scopes}");
            let listed = after(|_, claims, _| {
                claims.as_object_mut().unwrap().remove("scope");
                claims["scp"] = json!(scopes.split(' ').collect::<Vec<_>>());
            });
            assert_eq!(listed.unwrap().role, role, "{scopes}");
        }
    }

    #[test]
    fn a_tenant_is_the_claim_or_what_the_map_makes_of_it() {
        let named = |name: &str| TenantId::parse(name).unwrap();
        let map = || {
            HashMap::from([
                ("u=1".to_owned(), named("oauth-one")),
                ("me".to_owned(), TenantId::LOCAL),
            ])
        };
        for (value, expected) in [
            ("u=1", Ok(named("oauth-one"))),
            ("me", Ok(TenantId::LOCAL)),
            ("local", Err(BadToken::Stranger)),
            ("oauth-one", Err(BadToken::Stranger)),
        ] {
            let answer = after(|_, claims, config| {
                claims["org"] = json!(value);
                config.tenant_claim = "org".into();
                config.tenants = map();
            });
            assert_eq!(answer.map(|grant| grant.tenant), expected, "{value}");
        }
        let listed = after(|_, claims, config| {
            claims["org"] = json!(["me"]);
            config.tenant_claim = "org".into();
            config.tenants = map();
        });
        assert_eq!(listed, Err(BadToken::Claim { claim: "org".into() }));
    }

    const RSA: &[u8] =
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tenants/rsa.pk8"));

    /// A key pair that signs test tokens.
    enum Signer {
        Rsa(RsaKeyPair),
        P256(EcdsaKeyPair),
        P384(EcdsaKeyPair),
        Ed(Ed25519KeyPair),
    }

    impl Signer {
        fn rsa() -> Self {
            Self::Rsa(RsaKeyPair::from_pkcs8(RSA).unwrap())
        }

        fn p256() -> Self {
            Self::P256(ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING))
        }

        fn p384() -> Self {
            Self::P384(ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING))
        }

        fn ed() -> Self {
            let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
            Self::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
        }

        /// The public key as a JWK with this name.
        fn published(&self, name: &str) -> Value {
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

        /// Returns a signed token with this header and these claims.
        fn token(&self, head: &Value, claims: &Value) -> String {
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

    /// Returns a token that is signed with a shared secret.
    fn by_secret(secret: &[u8], head: &Value, claims: &Value) -> String {
        let message = unsigned(head, claims);
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        format!("{message}.{}", encode(hmac::sign(&key, message.as_bytes()).as_ref()))
    }

    fn unsigned(head: &Value, claims: &Value) -> String {
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
}
