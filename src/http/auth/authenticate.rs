//! Authentication: a request's headers in, a credential or a refusal out.

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
use super::oauth::{OauthConfig, OauthConfigError, ResourceServer};
use super::oauth_verify::AccessGrant;
use super::token::TokenHash;
use super::token::UnixTime;
use super::token::{TokenEntry, TokenFile, TokenLineError};
use crate::bounded_read::{BoundedReadError, read_text};
use crate::private_files::Symlinks;
use crate::service::{CallerIdentity, CallerRole};

/// What lets somebody in.
#[derive(Debug)]
pub struct AuthSettings {
    /// Where tokens are.
    pub token_file: TokenFilePath,
    /// Whose access tokens are good, if anybody's.
    pub oauth: Option<OauthConfig>,
}

/// Where tokens are.
#[derive(Debug, Clone)]
pub enum TokenFilePath {
    /// In this file, which somebody named: it must be there.
    Configured(PathBuf),
    /// In this file, if it is there.
    Default(PathBuf),
}

impl TokenFilePath {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Configured(path) | Self::Default(path) => path,
        }
    }

    /// An operator may name a link; in the data directory nobody puts one.
    pub(super) const fn links(&self) -> Symlinks {
        match self {
            Self::Configured(_) => Symlinks::Follow,
            Self::Default(_) => Symlinks::Refuse,
        }
    }
}

/// Why the tokens cannot be used. Each text says what to do about it.
#[derive(Debug, Error)]
pub enum AuthError {
    /// The file cannot be read.
    #[error("cannot read the token file `{}`; make one with `shellyard token new NAME`, or name another", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: BoundedReadError,
    },
    /// A line of it is none.
    #[error("{}:{line}: this is no line of a token file", .path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        source: TokenLineError,
    },
    /// The settings of OAuth cannot be used.
    #[error(transparent)]
    Oauth(#[from] OauthConfigError),
    /// There is nothing in it.
    #[error("the token file `{}` holds no token; make one with `shellyard token new NAME`, or remove the file", .path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
    },
}

impl AuthError {
    /// The stable word that callers may match on.
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

/// Finds out who calls. A cheap clone.
#[derive(Debug, Clone, Default)]
pub struct Authenticator(Arc<AuthSources>);

#[derive(Debug, Default)]
struct AuthSources {
    tokens: LiveTokens,
    oauth: Option<ResourceServer>,
}

impl Authenticator {
    /// Lets in whom these settings say.
    ///
    /// # Errors
    /// When there is a token file with a mistake in it, or with nothing in it, or OAuth cannot be
    /// meant as it is set.
    pub fn open(settings: AuthSettings) -> Result<Self, AuthError> {
        let links = settings.token_file.links();
        let path = match settings.token_file {
            TokenFilePath::Configured(path) => {
                check_token_file(&path, links)?;
                path
            }
            TokenFilePath::Default(path) => {
                // Also a link that leads nowhere.
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

    /// Whether nobody comes in without a token.
    #[must_use]
    pub fn requires_token(&self) -> bool {
        self.0.oauth.is_some() || *self.0.tokens.now() != TokenRequirement::NotRequired
    }

    /// Who calls with these headers.
    ///
    /// # Errors
    /// What to answer when nobody does that may come in.
    pub async fn identify(&self, headers: &HeaderMap) -> Result<Credential, AccessDenied> {
        let requirement = self.0.tokens.now();
        // Clients may send tokens to a server that asks for none.
        if *requirement == TokenRequirement::NotRequired && self.0.oauth.is_none() {
            return Ok(self.parse_scheme(CallerIdentity::LOCAL, CredentialProof::NotRequired));
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

    /// The credential of a peer that the system says is our own user: what it can do through us
    /// it can do without us.
    #[must_use]
    pub fn same_user_credential(&self) -> Credential {
        self.parse_scheme(CallerIdentity::LOCAL, CredentialProof::SameUser)
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
            return Ok(self.parse_scheme(entry.identity, CredentialProof::Token(entry.hash)));
        }
        let Some(oauth) = &self.0.oauth else { return Err(bad(BadToken::Unknown)) };
        let AccessGrant { tenant, role, until } = oauth.verify(token).await.map_err(bad)?;
        match role {
            Some(role) => Ok(self.parse_scheme(
                CallerIdentity { tenant, role },
                CredentialProof::AccessToken { until },
            )),
            None => Err(self.missing_scope(CallerRole::Run, headers)),
        }
    }

    /// The metadata of RFC 9728, where there is OAuth.
    pub(in crate::http) fn metadata(&self, headers: &HeaderMap) -> Option<Response> {
        self.0.oauth.as_ref().map(|oauth| oauth.metadata(headers))
    }

    /// Where clients look for it that know the configured resource.
    pub(in crate::http) fn metadata_path(&self) -> Option<String> {
        self.0.oauth.as_ref()?.metadata_path()
    }

    /// The refusal of a credential that is not enough.
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

    /// How long a credential still lets somebody in; `None`: no more.
    pub(super) fn remaining(&self, credential: &Credential, now: UnixTime) -> Option<Duration> {
        let left = |until: Option<UnixTime>| match until {
            Some(until) => Some(until.remaining(now)).filter(|left| !left.is_zero()),
            None => Some(Duration::MAX),
        };
        match credential.proof {
            CredentialProof::NotRequired => (!self.requires_token()).then_some(Duration::MAX),
            CredentialProof::SameUser => left(None),
            CredentialProof::Token(hash) => {
                let requirement = self.0.tokens.now();
                let entry = requirement.find(&hash)?;
                // With other rights it is another credential.
                if entry.identity == credential.identity { left(entry.expires) } else { None }
            }
            CredentialProof::AccessToken { until } => left(Some(until)),
        }
    }

    /// Hears of changes of the token file.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<TokenRequirement>> {
        self.0.tokens.changes()
    }

    fn parse_scheme(&self, identity: CallerIdentity, proof: CredentialProof) -> Credential {
        Credential { identity, proof, auth: self.clone() }
    }

    fn denied(&self, reason: DenialReason, headers: &HeaderMap) -> AccessDenied {
        AccessDenied::new(reason, self.scope_hint(CallerRole::Run, headers))
    }

    fn scope_hint(&self, role: CallerRole, headers: &HeaderMap) -> Option<ScopeHint> {
        self.0.oauth.as_ref().map(|oauth| oauth.scope_hint(role, headers))
    }
}

/// Everything that is wrong with a token file, before anybody relies on it.
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

/// How often an open stream looks whether its token still stands in the file: a file tells
/// nobody that it changed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Who somebody proved to be. It stands in the extensions of each request that came in.
#[derive(Clone)]
pub struct Credential {
    /// Who it is.
    pub identity: CallerIdentity,
    pub(super) proof: CredentialProof,
    pub(super) auth: Authenticator,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum CredentialProof {
    /// Nobody asked for a token.
    NotRequired,
    /// By reaching us where only our own user can.
    SameUser,
    /// By a token of the file.
    Token(TokenHash),
    /// By an access token that is good until then.
    AccessToken { until: UnixTime },
}

impl Credential {
    /// Whether a client of it can get more rights by asking for another scope.
    #[must_use]
    pub const fn has_scopes(&self) -> bool {
        match self.proof {
            CredentialProof::NotRequired
            | CredentialProof::SameUser
            | CredentialProof::Token(_) => false,
            CredentialProof::AccessToken { .. } => true,
        }
    }

    /// Whether it may do what takes this role.
    ///
    /// # Errors
    /// What to answer to a request with these headers when it may not.
    pub fn require(&self, role: CallerRole, headers: &HeaderMap) -> Result<(), AccessDenied> {
        if self.identity.role >= role {
            return Ok(());
        }
        Err(self.auth.missing_role(role, self, headers))
    }

    /// Returns `true` while it lets its holder in: not expired, not revoked, and with the same rights.
    /// Looks at the token file, so that a change is seen at once; to be asked before each message.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.auth.remaining(self, UnixTime::now()).is_some()
    }

    /// Comes back when it lets nobody in any more: expired, revoked, or no longer enough. That is
    /// noticed within seconds.
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

/// What a request shows to come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthorizationHeader<'a> {
    Missing,
    /// A bearer token.
    Bearer(&'a str),
    /// A credential of another scheme.
    OtherScheme,
    /// Something that is no single credential.
    Malformed,
}

/// What these headers show; two of a kind are as suspicious as something else.
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

/// The response, whose body breaks off when `caller` may no longer have it. It breaks, instead of
/// coming to an end, so that half an output is not taken for the whole.
pub(in crate::http) fn cut_when_revoked(response: Response, caller: Credential) -> Response {
    // What is whole already is sent at once.
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

/// The chunk, unless its reader lost the right to it since the last one.
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
    async fn credentials_last_as_long_as_what_proves_them() {
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
    fn a_file_that_is_there_must_be_usable() {
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
    fn only_one_bearer_token_is_one() {
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
