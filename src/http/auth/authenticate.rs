//! Authentication: turns the headers of a request into a credential or a refusal (401 and 403 as
//! RFC 6750, RFC 9728 and MCP require).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use thiserror::Error;

use super::oauth::{AccessGrant, OauthConfig, OauthConfigError, ResourceServer};
use super::token::{TokenEntry, TokenFile, TokenHash, TokenLineError, UnixTime};
use super::token_file::{LiveTokens, TokenFilePath, TokenRequirement};
use crate::ids::TenantError;
use crate::private_files::{BoundedReadError, Symlinks, read_text};
use crate::service::{CallerIdentity, CallerRole};

/// The sources of credentials.
#[derive(Debug)]
pub struct AuthSettings {
    /// The path of the token file.
    pub token_file: TokenFilePath,
    /// The issuer of OAuth access tokens, if OAuth is used.
    pub oauth: Option<OauthConfig>,
}

/// The reason why the tokens cannot be used. Each text says what to do about it.
#[derive(Debug, Error)]
pub enum AuthError {
    #[error("cannot read the token file `{}`; make one with `shellyard token new NAME`, or name another", .path.display())]
    Unreadable { path: PathBuf, source: BoundedReadError },
    #[error("{}:{line}: this is not a valid line of a token file", .path.display())]
    BadLine {
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        source: TokenLineError,
    },
    #[error(transparent)]
    Oauth(#[from] OauthConfigError),
    #[error("the token file `{}` holds no token; make one with `shellyard token new NAME`, or remove the file", .path.display())]
    NoToken { path: PathBuf },
}

impl AuthError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "token_file_unreadable",
            Self::BadLine { .. } => "bad_token_line",
            Self::NoToken { .. } => "no_token",
            Self::Oauth(_) => "bad_oauth",
        }
    }
}

/// Identifies callers. Clones are cheap.
#[derive(Debug, Clone, Default)]
pub struct Authenticator(Arc<AuthSources>);

#[derive(Debug, Default)]
struct AuthSources {
    tokens: LiveTokens,
    oauth: Option<ResourceServer>,
}

impl Authenticator {
    /// Creates an authenticator with these settings.
    ///
    /// # Errors
    /// When the token file contains a mistake or no token, or the OAuth settings are unusable.
    pub fn open(settings: AuthSettings) -> Result<Self, AuthError> {
        let links = settings.token_file.links();
        let path = match settings.token_file {
            TokenFilePath::Configured(path) => {
                check_token_file(&path, links)?;
                path
            }
            TokenFilePath::Default(path) => {
                // A dangling symlink counts as existing too.
                if path.symlink_metadata().is_ok() {
                    check_token_file(&path, links)?;
                }
                path
            }
        };
        if let Some(oauth) = &settings.oauth {
            oauth.check()?;
        }
        let oauth = settings.oauth.map(ResourceServer::new);
        Ok(Self(Arc::new(AuthSources { tokens: LiveTokens::new(path, links), oauth })))
    }

    /// `true` if every caller needs a token.
    #[must_use]
    pub fn requires_token(&self) -> bool {
        self.0.oauth.is_some() || *self.0.tokens.current() != TokenRequirement::NotRequired
    }

    /// Identifies the caller of a request with these headers.
    ///
    /// # Errors
    /// The refusal if the caller is not allowed in.
    pub async fn identify(&self, headers: &HeaderMap) -> Result<Credential, AccessDenied> {
        let requirement = self.0.tokens.current();
        // Clients may send tokens to a server that requires none.
        if *requirement == TokenRequirement::NotRequired && self.0.oauth.is_none() {
            return Ok(self.new_credential(CallerIdentity::LOCAL, CredentialProof::NotRequired));
        }
        match parse_authorization(headers) {
            AuthorizationHeader::Missing | AuthorizationHeader::OtherScheme => {
                Err(self.denied(DenialReason::NoToken, headers))
            }
            AuthorizationHeader::Malformed => {
                Err(self.denied(DenialReason::BadToken(BadToken::Malformed), headers))
            }
            AuthorizationHeader::Bearer(token) => {
                self.identify_token(token, &requirement, headers).await
            }
        }
    }

    /// The credential of a peer that the kernel reports as our own user. Such a process could do
    /// the same without the server.
    #[must_use]
    pub fn same_user_credential(&self) -> Credential {
        self.new_credential(CallerIdentity::LOCAL, CredentialProof::SameUser)
    }

    async fn identify_token(
        &self,
        token: &str,
        requirement: &TokenRequirement,
        headers: &HeaderMap,
    ) -> Result<Credential, AccessDenied> {
        let bad = |why| self.denied(DenialReason::BadToken(why), headers);
        if let Some(entry) = requirement.find(&TokenHash::from_token(token)) {
            check_expiry(entry, UnixTime::now()).map_err(bad)?;
            return Ok(self.new_credential(entry.identity, CredentialProof::Token(entry.hash)));
        }
        let Some(oauth) = &self.0.oauth else { return Err(bad(BadToken::Unknown)) };
        let AccessGrant { tenant, role, until } = oauth.verify(token).await.map_err(bad)?;
        match role {
            Some(role) => Ok(self.new_credential(
                CallerIdentity { tenant, role },
                CredentialProof::AccessToken { until },
            )),
            None => Err(self.missing_scope(CallerRole::Run, headers)),
        }
    }

    /// The OAuth metadata response of RFC 9728, if OAuth is used.
    pub(in crate::http) fn metadata(&self, headers: &HeaderMap) -> Option<Response> {
        self.0.oauth.as_ref().map(|oauth| oauth.metadata(headers))
    }

    /// The path at which clients that know the configured resource look for the OAuth metadata.
    pub(in crate::http) fn metadata_path(&self) -> Option<String> {
        self.0.oauth.as_ref()?.metadata_path()
    }

    /// The refusal of a credential whose role is too low.
    fn missing_role(
        &self,
        role: CallerRole,
        credential: &Credential,
        headers: &HeaderMap,
    ) -> AccessDenied {
        if credential.has_scopes() {
            self.missing_scope(role, headers)
        } else {
            AccessDenied::new(DenialReason::Role(role), None)
        }
    }

    fn missing_scope(&self, role: CallerRole, headers: &HeaderMap) -> AccessDenied {
        AccessDenied::new(DenialReason::Role(role), self.scope_hint(role, headers))
    }

    /// The time for which a credential stays valid; `None` if it is no longer valid.
    fn remaining(&self, credential: &Credential, now: UnixTime) -> Option<Duration> {
        let left = |until: Option<UnixTime>| match until {
            Some(until) => Some(until.remaining(now)).filter(|left| !left.is_zero()),
            None => Some(Duration::MAX),
        };
        match credential.proof {
            CredentialProof::NotRequired => (!self.requires_token()).then_some(Duration::MAX),
            CredentialProof::SameUser => left(None),
            CredentialProof::Token(hash) => {
                let requirement = self.0.tokens.current();
                let entry = requirement.find(&hash)?;
                // With other rights it would be another credential.
                if entry.identity == credential.identity { left(entry.expires) } else { None }
            }
            CredentialProof::AccessToken { until } => left(Some(until)),
        }
    }

    fn new_credential(&self, identity: CallerIdentity, proof: CredentialProof) -> Credential {
        Credential { identity, proof, auth: self.clone() }
    }

    fn denied(&self, reason: DenialReason, headers: &HeaderMap) -> AccessDenied {
        AccessDenied::new(reason, self.scope_hint(CallerRole::Run, headers))
    }

    fn scope_hint(&self, role: CallerRole, headers: &HeaderMap) -> Option<ScopeHint> {
        self.0.oauth.as_ref().map(|oauth| oauth.scope_hint(role, headers))
    }
}

/// Checks a token file before the server relies on it.
fn check_token_file(path: &Path, links: Symlinks) -> Result<(), AuthError> {
    let text = read_text(path, links)
        .map_err(|source| AuthError::Unreadable { path: path.into(), source })?;
    let file = TokenFile::parse(&text);
    if let Some((line, mistake)) = file.mistakes().next() {
        return Err(AuthError::BadLine { path: path.into(), line, source: mistake.clone() });
    }
    match file.entries().next() {
        Some(_) => Ok(()),
        None => Err(AuthError::NoToken { path: path.into() }),
    }
}

fn check_expiry(entry: &TokenEntry, now: UnixTime) -> Result<(), BadToken> {
    match entry.expires {
        Some(at) if at <= now => Err(BadToken::Expired { at }),
        Some(_) | None => Ok(()),
    }
}

/// The interval at which an open stream checks whether its token is still in the file: the file
/// does not signal changes.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A proven identity. Each accepted request carries one in its extensions.
#[derive(Clone)]
pub struct Credential {
    pub identity: CallerIdentity,
    proof: CredentialProof,
    auth: Authenticator,
}

#[derive(Debug, Clone, Copy)]
enum CredentialProof {
    /// The server requires no token.
    NotRequired,
    /// The caller connected over the unix socket as our own user.
    SameUser,
    /// A token of the token file.
    Token(TokenHash),
    /// An OAuth access token with this expiry.
    AccessToken { until: UnixTime },
}

impl Credential {
    /// `true` if the caller is the server's own user, connected over the unix socket.
    #[must_use]
    pub const fn is_own_user(&self) -> bool {
        matches!(self.proof, CredentialProof::SameUser)
    }

    /// `true` if the client can get more rights by requesting another scope.
    #[must_use]
    pub const fn has_scopes(&self) -> bool {
        match self.proof {
            CredentialProof::NotRequired
            | CredentialProof::SameUser
            | CredentialProof::Token(_) => false,
            CredentialProof::AccessToken { .. } => true,
        }
    }

    /// Checks that the credential has at least this role.
    ///
    /// # Errors
    /// The refusal of a request with these headers.
    pub fn require(&self, role: CallerRole, headers: &HeaderMap) -> Result<(), AccessDenied> {
        if self.identity.role >= role {
            return Ok(());
        }
        Err(self.auth.missing_role(role, self, headers))
    }

    /// Checks that the credential may read metrics.
    ///
    /// # Errors
    /// The refusal of a request with these headers.
    pub fn require_metrics(&self, headers: &HeaderMap) -> Result<(), AccessDenied> {
        if self.identity.role.can_read_metrics() {
            return Ok(());
        }
        // The highest scope counts, so the scope for metrics would not help a token that has another.
        let needed = if self.has_scopes() { CallerRole::Admin } else { CallerRole::Metrics };
        Err(self.auth.missing_role(needed, self, headers))
    }

    /// `true` while the credential is valid: not expired, not revoked, and with the same rights.
    /// Reads the token file if it has changed, so a change takes effect at once. Called before each
    /// message.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.auth.remaining(self, UnixTime::now()).is_some()
    }

    /// Waits until the credential is no longer valid: expired, revoked, or with fewer rights.
    /// Notices that within seconds.
    pub async fn ended(&self) {
        let mut changes = self.auth.0.tokens.changes();
        loop {
            let Some(left) = self.auth.remaining(self, UnixTime::now()) else { return };
            tokio::select! {
                () = tokio::time::sleep(left.min(RECHECK_INTERVAL)) => {}
                _ = changes.changed() => {}
            }
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The content of the `Authorization` header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuthorizationHeader<'a> {
    Missing,
    Bearer(&'a str),
    OtherScheme,
    /// Anything that is not a single credential.
    Malformed,
}

/// Parses the `Authorization` header. Two headers are malformed.
fn parse_authorization(headers: &HeaderMap) -> AuthorizationHeader<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => AuthorizationHeader::Missing,
        (Some(value), None) => value.to_str().map_or(AuthorizationHeader::Malformed, parse_scheme),
        (Some(_), Some(_)) => AuthorizationHeader::Malformed,
    }
}

fn parse_scheme(value: &str) -> AuthorizationHeader<'_> {
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    match token.trim() {
        _ if scheme.is_empty() => AuthorizationHeader::Malformed,
        _ if !scheme.eq_ignore_ascii_case("bearer") => AuthorizationHeader::OtherScheme,
        "" => AuthorizationHeader::Malformed,
        token => AuthorizationHeader::Bearer(token),
    }
}

/// A refused request, and what its client can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenied {
    reason: DenialReason,
    hint: Option<ScopeHint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum DenialReason {
    NoToken,
    BadToken(BadToken),
    /// The token is valid, but its role is too low for the route.
    Role(CallerRole),
}

/// The reason why a token is not accepted. The texts reveal nothing about valid tokens.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadToken {
    #[error("send one header of the form: Authorization: Bearer TOKEN")]
    Malformed,
    #[error("this token is not known here")]
    Unknown,
    #[error("this token expired at {at}")]
    Expired { at: UnixTime },
    #[error("this token is not valid yet")]
    NotYet,
    #[error("this token is not a JWT access token that can be read")]
    Unreadable,
    #[error("this token is not signed by an accepted algorithm")]
    Algorithm,
    #[error("this token is signed by a key that the issuer does not publish")]
    Key,
    #[error("the issuer's keys are not available right now; try again later")]
    NoKeys,
    #[error("the signature of this token is not valid")]
    Signature,
    #[error("this token is from another issuer")]
    Issuer,
    #[error("this token is for another audience")]
    Audience,
    /// A claim is missing or has the wrong type.
    #[error("this token has no usable claim {claim}")]
    Claim { claim: String },
    /// The tenant of the token is not allowed here.
    #[error("the tenant of this token is not allowed here")]
    UnknownTenant,
    /// The token names an invalid tenant.
    #[error("this token's tenant is not a valid tenant name")]
    Tenant(#[from] TenantError),
}

/// The party at fault for a refusal, which decides the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DenialFault {
    /// The request is malformed.
    Request,
    /// Another token may be accepted.
    Token,
    /// The token is valid but belongs to nobody who is known here, so a similar token will not
    /// help.
    UnknownTenant,
    /// The server cannot determine whether the token is valid.
    Ours,
}

impl DenialFault {
    /// The error code of RFC 6750 §3.1, if the client can do something about it.
    const fn word(self) -> Option<&'static str> {
        match self {
            Self::Request => Some("invalid_request"),
            Self::Token => Some("invalid_token"),
            Self::UnknownTenant | Self::Ours => None,
        }
    }
}

impl BadToken {
    const fn fault(&self) -> DenialFault {
        match self {
            Self::Malformed => DenialFault::Request,
            Self::NoKeys => DenialFault::Ours,
            Self::UnknownTenant | Self::Tenant(_) => DenialFault::UnknownTenant,
            Self::Unknown
            | Self::Expired { .. }
            | Self::NotYet
            | Self::Unreadable
            | Self::Algorithm
            | Self::Key
            | Self::Signature
            | Self::Issuer
            | Self::Audience
            | Self::Claim { .. } => DenialFault::Token,
        }
    }
}

/// The metadata URL and the scope that an OAuth client needs to get a suitable token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScopeHint {
    pub(super) metadata: String,
    pub(super) scope: String,
}

impl AccessDenied {
    const fn new(reason: DenialReason, hint: Option<ScopeHint>) -> Self {
        Self { reason, hint }
    }

    const fn status(&self) -> StatusCode {
        match self.reason {
            DenialReason::NoToken => StatusCode::UNAUTHORIZED,
            DenialReason::BadToken(ref why) => match why.fault() {
                DenialFault::Request => StatusCode::BAD_REQUEST,
                DenialFault::Token => StatusCode::UNAUTHORIZED,
                DenialFault::UnknownTenant => StatusCode::FORBIDDEN,
                DenialFault::Ours => StatusCode::SERVICE_UNAVAILABLE,
            },
            DenialReason::Role(_) => StatusCode::FORBIDDEN,
        }
    }

    fn text(&self) -> String {
        match &self.reason {
            DenialReason::NoToken => {
                "a valid token is required: send `Authorization: Bearer TOKEN`\n".to_owned()
            }
            DenialReason::BadToken(why) => match why.fault() {
                DenialFault::Request | DenialFault::Token => {
                    format!("a valid token is required: {why}\n")
                }
                DenialFault::UnknownTenant | DenialFault::Ours => format!("{why}\n"),
            },
            DenialReason::Role(role) => match &self.hint {
                Some(hint) => format!("this needs a token with the scope {}\n", hint.scope),
                None => format!("this needs a token with the role {}\n", describe_role(*role)),
            },
        }
    }

    /// The refusal as the API writes it: in JSON, with a code word.
    pub(in crate::http) fn to_api_response(&self) -> Response {
        let code = match self.status() {
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::SERVICE_UNAVAILABLE => "unavailable",
            _ => "forbidden",
        };
        let body = json!({"error": {"code": code, "message": self.text().trim_end()}});
        let kind = [(CONTENT_TYPE, "application/json")];
        let mut response = (self.status(), kind, body.to_string()).into_response();
        self.put_challenge(&mut response);
        response
    }

    /// Adds the challenge, if there is one, to a response that was created elsewhere.
    pub(in crate::http) fn put_challenge(&self, response: &mut Response) {
        let challenge = self.challenge().map(|text| HeaderValue::from_str(&text));
        if let Some(Ok(challenge)) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
    }

    /// The challenge of RFC 6750 §3. As the RFC requires, a request without a token gets no error
    /// code.
    fn challenge(&self) -> Option<String> {
        let Some(ScopeHint { metadata, scope }) = &self.hint else { return self.plain_challenge() };
        Some(match &self.reason {
            DenialReason::NoToken => {
                format!("{REALM}, resource_metadata=\"{metadata}\", scope=\"{scope}\"")
            }
            DenialReason::BadToken(why) => format!(
                "{REALM}, resource_metadata=\"{metadata}\", scope=\"{scope}\", error=\"{}\", error_description=\"{why}\"",
                why.fault().word()?
            ),
            DenialReason::Role(_) => format!(
                "{REALM}, error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{metadata}\""
            ),
        })
    }

    /// The challenge without OAuth, where nobody can request another role.
    fn plain_challenge(&self) -> Option<String> {
        match &self.reason {
            DenialReason::NoToken => Some(REALM.to_owned()),
            DenialReason::BadToken(why) => {
                let word = why.fault().word()?;
                Some(format!("{REALM}, error=\"{word}\", error_description=\"{why}\""))
            }
            DenialReason::Role(_) => None,
        }
    }
}

/// Returns the roles that would do.
const fn describe_role(needed: CallerRole) -> &'static str {
    match needed {
        CallerRole::Metrics => "metrics or admin",
        CallerRole::Read | CallerRole::Run | CallerRole::Admin => needed.word(),
    }
}

const REALM: &str = "Bearer realm=\"shellyard\"";

impl IntoResponse for AccessDenied {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.text()).into_response();
        self.put_challenge(&mut response);
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn credentials_end_with_their_proof() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let token_file = TokenFilePath::Default(path.clone());
        let auth = Authenticator::open(AuthSettings { token_file, oauth: None }).unwrap();
        let anybody = auth.identify(&HeaderMap::new()).await.unwrap();
        let same_user = auth.same_user_credential();
        assert_eq!(
            (anybody.identity, same_user.identity),
            (CallerIdentity::LOCAL, CallerIdentity::LOCAL)
        );
        fs::write(&path, "alpha\n").unwrap();
        anybody.ended().await;
        assert!(auth.identify(&HeaderMap::new()).await.is_err());
        let alpha = HeaderMap::from_iter([(AUTHORIZATION, "Bearer alpha".parse().unwrap())]);
        let holder = auth.identify(&alpha).await.unwrap();
        assert!(auth.remaining(&holder, UnixTime::now()).is_some());
        fs::write(&path, "beta\n").unwrap();
        holder.ended().await;
        assert!(auth.remaining(&same_user, UnixTime::now()).is_some());
    }

    #[test]
    fn an_existing_token_file_must_be_usable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let open = |token_file| Authenticator::open(AuthSettings { token_file, oauth: None });
        assert!(!open(TokenFilePath::Default(path.clone())).unwrap().requires_token());
        let missing = open(TokenFilePath::Configured(path.clone())).unwrap_err();
        assert_eq!(missing.code(), "token_file_unreadable");
        for (text, code) in [("# none\n", "no_token"), ("two words\n", "bad_token_line")] {
            fs::write(&path, text).unwrap();
            for place in
                [TokenFilePath::Configured(path.clone()), TokenFilePath::Default(path.clone())]
            {
                assert_eq!(open(place).unwrap_err().code(), code);
            }
        }
    }

    #[track_caller]
    fn check_header(values: &[&str], expected: AuthorizationHeader<'_>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        assert_eq!(parse_authorization(&headers), expected, "{values:?}");
    }

    #[test]
    fn only_a_single_bearer_token_is_accepted() {
        check_header(&[], AuthorizationHeader::Missing);
        for value in ["Bearer alpha", "bearer alpha", "BEARER  alpha "] {
            check_header(&[value], AuthorizationHeader::Bearer("alpha"));
        }
        for value in ["Basic alpha", "Digest", "alpha"] {
            check_header(&[value], AuthorizationHeader::OtherScheme);
        }
        for value in ["Bearer", "Bearer ", ""] {
            check_header(&[value], AuthorizationHeader::Malformed);
        }
        check_header(&["Bearer alpha", "Bearer alpha"], AuthorizationHeader::Malformed);
    }

    #[test]
    fn each_refusal_has_the_status_and_challenge_of_its_fault() {
        for (why, status, error) in [
            (BadToken::Malformed, 400, Some("invalid_request")),
            (BadToken::Unknown, 401, Some("invalid_token")),
            (BadToken::UnknownTenant, 403, None),
            (BadToken::NoKeys, 503, None),
        ] {
            for hint in [None, Some(ScopeHint { metadata: "m".into(), scope: "s".into() })] {
                let denied = AccessDenied::new(DenialReason::BadToken(why.clone()), hint);
                let response = denied.into_response();
                assert_eq!(response.status().as_u16(), status, "{why}");
                assert_eq!(response.headers().contains_key(RETRY_AFTER), status == 503, "{why}");
                let challenge = response.headers().get(WWW_AUTHENTICATE);
                let challenge_text = challenge.map(|text| text.to_str().unwrap().to_owned());
                match error {
                    Some(error) => {
                        assert!(challenge_text.unwrap().contains(&format!("error=\"{error}\"")))
                    }
                    None => assert_eq!(challenge_text, None, "{why}"),
                }
            }
        }
    }
}
