//! An OAuth 2.1 resource server: accepts access tokens that an authorization server signed.
//!
//! ```text
//! token ─▶ ResourceServer::verify ─▶ IssuerKeys (file, URL or discovery; cached)
//!                    │                  └▶ KeySet ─▶ verify (pure: signature, claims)
//!                    └────────────────────────────▶ AccessGrant { tenant, role, until }
//! ```
//!
//! **Invariant:** only signatures by public keys are accepted, never `none` or a shared secret,
//! whatever a token or a key claims.
//! **Invariant:** at most one fetch of keys runs at a time, and at most one starts in ten seconds,
//! however many tokens name unknown keys.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::response::{IntoResponse, Response};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{self, Error as JwtError, ErrorKind};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, Header, Validation, decode, decode_header,
};
use ring::signature as ring_signature;
use ring::signature::{RsaParameters, VerificationAlgorithm};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::authenticate::{BadToken, ScopeHint};
use super::oauth_keys::{IssuerKeys, KeySet, is_allowed_keys_url};
use super::token::UnixTime;
use crate::ids::TenantId;
use crate::private_files::{BoundedReadError, Symlinks, read_text};
use crate::service::CallerRole;

/// Verifies the access tokens of one issuer.
#[derive(Debug)]
pub(super) struct ResourceServer {
    config: OauthConfig,
    keys: IssuerKeys,
}

impl ResourceServer {
    /// Creates a resource server; the keys are loaded when the first token arrives.
    pub(super) fn new(config: OauthConfig) -> Self {
        install_crypto_provider();
        let keys = IssuerKeys::new(config.keys.clone(), &config.issuer, config.refresh);
        Self { config, keys }
    }

    /// Verifies a token and returns its rights. An unknown key may be a new one, so the keys are
    /// then fetched again.
    pub(super) async fn verify(&self, token: &str) -> Result<AccessGrant, BadToken> {
        let token = UnverifiedToken::read(token)?;
        let known = self.keys.current().await.filter(|keys| token.has_known_key(keys));
        let keys = match known {
            Some(keys) => keys,
            None => self.keys.refetch().await.ok_or(BadToken::NoKeys)?,
        };
        token.verify(&keys, &self.config)
    }

    /// Tells a client that lacks this role where and with which scope to get a token.
    pub(super) fn scope_hint(&self, role: CallerRole, headers: &HeaderMap) -> ScopeHint {
        ScopeHint {
            metadata: metadata_url(&resource_url(&self.config, headers)),
            scope: self.config.scopes.scope_for(role).to_owned(),
        }
    }

    /// The path at which clients that know the configured resource look for the metadata.
    pub(super) fn metadata_path(&self) -> Option<String> {
        metadata_path(&self.config)
    }

    /// The metadata response of RFC 9728.
    pub(super) fn metadata(&self, headers: &HeaderMap) -> Response {
        metadata_response(&self.config, headers)
    }
}

/// The issuer whose access tokens are accepted, and how they map to tenants and roles.
#[derive(Debug, Clone)]
pub struct OauthConfig {
    /// The issuer, compared character by character.
    pub issuer: String,
    /// The public URL of the MCP endpoint; `None`: the URL that the client uses.
    pub resource: Option<String>,
    /// The audience that tokens must have.
    pub audience: String,
    /// The location of the issuer's keys.
    pub keys: OauthKeySource,
    /// The age after which keys are fetched again.
    pub refresh: Duration,
    pub tenant_claim: String,
    /// The tenants by value of that claim; if the map is not empty, no other value is accepted.
    pub tenants: HashMap<String, TenantId>,
    /// The scope of each role.
    pub scopes: OauthScopes,
    /// The tolerated difference between clocks.
    pub leeway: Duration,
    /// The scheme in URLs of this server if no resource is configured: `http` or `https`.
    pub scheme: &'static str,
    pub path: String,
}

/// The reason why the OAuth settings cannot be used. Each text says what to do about it.
#[derive(Debug, Error)]
pub enum OauthConfigError {
    /// Keys over plain HTTP: an attacker in between could replace them.
    #[error("oauth.{key} cannot be `{url}`: give an https URL, or an http URL on loopback")]
    Url { key: &'static str, url: String },
    #[error("cannot read the keys in `{}`; name a readable file in oauth.jwks", .path.display())]
    KeyFile { path: PathBuf, source: BoundedReadError },
    #[error("oauth.{key} cannot be `{scope}`: a scope is one word without spaces")]
    Scope { key: &'static str, scope: String },
    /// Two roles with one scope: holders of the lower role would get the higher one.
    #[error(
        "`{scope}` stands for two roles; give oauth.metrics_scope, read_scope, run_scope and admin_scope a word each"
    )]
    SameScope { scope: String },
}

impl OauthConfig {
    /// Checks for settings that would admit nobody or the wrong callers.
    pub(super) fn check(&self) -> Result<(), OauthConfigError> {
        match &self.keys {
            OauthKeySource::File(path) => read_text(path, Symlinks::Follow)
                .map(drop)
                .map_err(|source| OauthConfigError::KeyFile { path: path.clone(), source })?,
            OauthKeySource::Url(url) => check_url("jwks", url)?,
            OauthKeySource::Issuer => check_url("issuer", &self.issuer)?,
        }
        if self.issuer.starts_with("http://") {
            check_url("issuer", &self.issuer)?;
        }
        self.scopes.check()
    }
}

fn check_url(key: &'static str, url: &str) -> Result<(), OauthConfigError> {
    let is_safe = is_allowed_keys_url(url);
    if is_safe { Ok(()) } else { Err(OauthConfigError::Url { key, url: url.to_owned() }) }
}

/// The location of the issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OauthKeySource {
    File(PathBuf),
    Url(String),
    /// The URL that the issuer's metadata names.
    Issuer,
}

/// The scope of each role.
#[derive(Debug, Clone)]
pub struct OauthScopes {
    pub metrics: String,
    pub read: String,
    pub run: String,
    pub admin: String,
}

impl OauthScopes {
    fn check(&self) -> Result<(), OauthConfigError> {
        let named = [
            ("metrics_scope", &self.metrics),
            ("read_scope", &self.read),
            ("run_scope", &self.run),
            ("admin_scope", &self.admin),
        ];
        for (key, scope) in named {
            if scope.is_empty() || scope.contains(char::is_whitespace) {
                return Err(OauthConfigError::Scope { key, scope: scope.clone() });
            }
        }
        let is_twice =
            |scope: &&&String| named.iter().filter(|(_, other)| other == *scope).count() > 1;
        match [&self.metrics, &self.read, &self.run].iter().find(is_twice) {
            Some(scope) => Err(OauthConfigError::SameScope { scope: (*scope).clone() }),
            None => Ok(()),
        }
    }

    /// The scope that grants a role.
    fn scope_for(&self, role: CallerRole) -> &str {
        match role {
            CallerRole::Metrics => &self.metrics,
            CallerRole::Read => &self.read,
            CallerRole::Run => &self.run,
            CallerRole::Admin => &self.admin,
        }
    }

    /// Returns the highest role that these scopes grant.
    pub(super) fn role(&self, granted: &[&str]) -> Option<CallerRole> {
        let roles = [CallerRole::Admin, CallerRole::Run, CallerRole::Read, CallerRole::Metrics];
        roles.into_iter().find(|role| granted.contains(&self.scope_for(*role)))
    }
}

/// The path prefix of the metadata, in front of the path of the resource.
pub(in crate::http) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The URL of the MCP endpoint: as configured, or as the client calls it. The guard has checked
/// that its `Host` is one of ours.
fn resource_url(config: &OauthConfig, headers: &HeaderMap) -> String {
    if let Some(resource) = &config.resource {
        return resource.clone();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    format!("{}://{host}{}", config.scheme, config.path)
}

/// The URL of the metadata of a resource: between its host and its path (RFC 9728 §3.1).
fn metadata_url(resource: &str) -> String {
    let host = resource.find("://").map_or(0, |at| at + "://".len());
    let path = resource[host..].find('/').map_or(resource.len(), |at| host + at);
    let (origin, path) = resource.split_at(path);
    format!("{origin}{WELL_KNOWN}{}", if path == "/" { "" } else { path })
}

/// The path of the metadata of the configured resource, as it appears in a request.
fn metadata_path(config: &OauthConfig) -> Option<String> {
    let address = metadata_url(config.resource.as_ref()?);
    let path = address.get(address.find(WELL_KNOWN)?..)?;
    Some(path.split(['?', '#']).next()?.to_owned())
}

fn metadata_response(config: &OauthConfig, headers: &HeaderMap) -> Response {
    let kind = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "max-age=300")];
    (kind, metadata_document(config, headers).to_string()).into_response()
}

fn metadata_document(config: &OauthConfig, headers: &HeaderMap) -> Value {
    let scopes = &config.scopes;
    json!({
        "resource": resource_url(config, headers),
        "authorization_servers": [config.issuer],
        "scopes_supported": [scopes.metrics, scopes.read, scopes.run, scopes.admin],
        "bearer_methods_supported": ["header"],
        "resource_name": "Shellyard",
    })
}

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
struct UnverifiedToken<'a> {
    token: &'a str,
    algorithm: Algorithm,
    key: Option<String>,
}

impl<'a> UnverifiedToken<'a> {
    /// Parses the header of a token.
    fn read(token: &'a str) -> Result<Self, BadToken> {
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
    fn has_known_key(&self, keys: &KeySet) -> bool {
        keys.find(self.key.as_deref(), self.algorithm).next().is_some()
    }

    /// Returns the rights of the token if one of these keys signed it and all claims are valid.
    fn verify(&self, keys: &KeySet, config: &OauthConfig) -> Result<AccessGrant, BadToken> {
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
    fn refusal(&self, error: &JwtError) -> BadToken {
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
fn unreadable(error: &JwtError) -> BadToken {
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
        return config.tenants.get(name).copied().ok_or(BadToken::UnknownTenant);
    }
    match TenantId::parse(name)? {
        // Nobody may claim the operator's own jobs.
        TenantId::LOCAL => Err(BadToken::UnknownTenant),
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
fn install_crypto_provider() {
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
    use super::*;

    fn checked(issuer: &str, keys: OauthKeySource, [read, run, admin]: [&str; 3]) -> String {
        let scopes = OauthScopes {
            metrics: "m".into(),
            read: read.into(),
            run: run.into(),
            admin: admin.into(),
        };
        let settings = OauthConfig {
            issuer: issuer.into(),
            resource: None,
            audience: "a".into(),
            keys,
            refresh: Duration::from_secs(300),
            tenant_claim: "sub".into(),
            tenants: HashMap::new(),
            scopes,
            leeway: Duration::ZERO,
            scheme: "http",
            path: "/mcp".into(),
        };
        settings.check().map_or_else(|mistake| mistake.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn oauth_settings_that_would_admit_the_wrong_callers_are_refused() {
        const SCOPES: [&str; 3] = ["r", "w", "a"];
        let url = |url: &str| OauthKeySource::Url(url.into());
        let https = "https://id.example";
        for (issuer, keys, scopes, word) in [
            (https, OauthKeySource::Issuer, SCOPES, "fine"),
            ("http://127.0.0.1:9", OauthKeySource::Issuer, SCOPES, "fine"),
            ("http://id.example", OauthKeySource::Issuer, SCOPES, "oauth.issuer"),
            ("http://id.example", url("https://id.example/k"), SCOPES, "oauth.issuer"),
            (https, url("http://id.example/k"), SCOPES, "oauth.jwks"),
            (https, OauthKeySource::File("/nowhere/keys".into()), SCOPES, "/nowhere/keys"),
            (https, OauthKeySource::Issuer, ["", "w", "a"], "oauth.read_scope"),
            (https, OauthKeySource::Issuer, ["r", "w x", "a"], "oauth.run_scope"),
            (https, OauthKeySource::Issuer, ["r", "a", "a"], "two roles"),
            (https, OauthKeySource::Issuer, ["a", "w", "a"], "two roles"),
        ] {
            let message = checked(issuer, keys, scopes);
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn the_metadata_path_is_inserted_between_host_and_path() {
        for (resource, expected) in [
            ("https://a.example/mcp", "https://a.example/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
            ("http://[::1]:1/x/y", "http://[::1]:1/.well-known/oauth-protected-resource/x/y"),
        ] {
            assert_eq!(metadata_url(resource), expected);
        }
    }
}

#[cfg(test)]
mod verify_tests {
    use super::*;
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
                metrics: "y:metrics".into(),
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
    fn every_accepted_algorithm_verifies() {
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
    fn only_signatures_by_public_keys_are_accepted() {
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
    fn a_token_of_another_key_or_a_changed_token_is_refused() {
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
    fn a_token_without_a_key_id_is_tried_with_all_suitable_keys() {
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
    fn keys_for_another_use_or_algorithm_are_not_used() {
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
    fn every_required_claim_is_checked() {
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
            ("sub", json!("local"), BadToken::UnknownTenant),
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
    fn only_access_tokens_with_a_known_header_are_accepted() {
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
            ("y:metrics", Some(CallerRole::Metrics)),
            ("y:metrics y:read", Some(CallerRole::Read)),
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
    fn a_tenant_is_the_claim_or_its_mapped_value() {
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
            ("local", Err(BadToken::UnknownTenant)),
            ("oauth-one", Err(BadToken::UnknownTenant)),
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
