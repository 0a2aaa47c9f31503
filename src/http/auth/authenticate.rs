//! Authentication: turns the headers of a request into a credential or a refusal.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use thiserror::Error;
use tokio::sync::watch;

use super::denied::{AccessDenied, BadToken, DenialReason, ScopeHint};
use super::live_tokens::{LiveTokens, TokenRequirement};
use super::oauth::AccessGrant;
use super::oauth::{OauthConfig, OauthConfigError, ResourceServer};
use super::token::TokenHash;
use super::token::UnixTime;
use super::token::{TokenEntry, TokenFile, TokenLineError};
use crate::bounded_read::{BoundedReadError, read_text};
use crate::private_files::Symlinks;
use crate::service::{CallerIdentity, CallerRole};

/// The sources of credentials.
#[derive(Debug)]
pub struct AuthSettings {
    /// The path of the token file.
    pub token_file: TokenFilePath,
    /// The issuer of OAuth access tokens, if OAuth is used.
    pub oauth: Option<OauthConfig>,
}

/// The path of the token file.
#[derive(Debug, Clone)]
pub enum TokenFilePath {
    /// A path from the settings: the file must exist.
    Configured(PathBuf),
    /// The default path: the file may be missing.
    Default(PathBuf),
}

impl TokenFilePath {
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Configured(path) | Self::Default(path) => path,
        }
    }

    /// Follows symlinks that an operator named; the data directory must not contain any.
    pub(super) const fn links(&self) -> Symlinks {
        match self {
            Self::Configured(_) => Symlinks::Follow,
            Self::Default(_) => Symlinks::Refuse,
        }
    }
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
    pub(super) fn missing_role(
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
    pub(super) fn remaining(&self, credential: &Credential, now: UnixTime) -> Option<Duration> {
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

    /// Returns a receiver that is notified of changes of the token file.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<TokenRequirement>> {
        self.0.tokens.changes()
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
    pub(super) proof: CredentialProof,
    pub(super) auth: Authenticator,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum CredentialProof {
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
        let mut changes = self.auth.changes();
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
pub(super) enum AuthorizationHeader<'a> {
    Missing,
    Bearer(&'a str),
    OtherScheme,
    /// Anything that is not a single credential.
    Malformed,
}

/// Parses the `Authorization` header. Two headers are malformed.
pub(super) fn parse_authorization(headers: &HeaderMap) -> AuthorizationHeader<'_> {
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

/// Returns the response with a body that fails when the credential of `caller` ends. It fails
/// instead of ending, so that half an output is not taken for the whole.
pub(in crate::http) fn cut_when_revoked(response: Response, caller: Credential) -> Response {
    // A complete body is sent at once.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::from_stream(cut_stream(body, caller)))
}

fn cut_stream(
    body: Body,
    caller: Credential,
) -> impl stream::Stream<Item = Result<Bytes, axum::Error>> {
    let ending = caller.clone();
    let ended = Box::pin(async move { ending.ended().await });
    let parts = (body.into_data_stream(), ended, caller);
    stream::unfold(parts, async |(mut chunks, mut ended, caller)| {
        let next = tokio::select! {
            biased;
            () = &mut ended => Err(revoked_error()),
            chunk = chunks.next() => check_still_valid(chunk?, &caller),
        };
        Some((next, (chunks, ended, caller)))
    })
}

/// Returns the chunk, unless the credential has ended since the last one.
fn check_still_valid(
    chunk: Result<Bytes, axum::Error>,
    caller: &Credential,
) -> Result<Bytes, axum::Error> {
    if caller.is_valid() { chunk } else { Err(revoked_error()) }
}

fn revoked_error() -> axum::Error {
    axum::Error::new(io::Error::other("the credential of this stream has ended"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use axum::http::header::AUTHORIZATION;

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
    fn check_token_file(values: &[&str], expected: AuthorizationHeader<'_>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        assert_eq!(parse_authorization(&headers), expected, "{values:?}");
    }

    #[test]
    fn only_a_single_bearer_token_is_accepted() {
        check_token_file(&[], AuthorizationHeader::Missing);
        for value in ["Bearer alpha", "bearer alpha", "BEARER  alpha "] {
            check_token_file(&[value], AuthorizationHeader::Bearer("alpha"));
        }
        for value in ["Basic alpha", "Digest", "alpha"] {
            check_token_file(&[value], AuthorizationHeader::OtherScheme);
        }
        for value in ["Bearer", "Bearer ", ""] {
            check_token_file(&[value], AuthorizationHeader::Malformed);
        }
        check_token_file(&["Bearer alpha", "Bearer alpha"], AuthorizationHeader::Malformed);
    }
}
