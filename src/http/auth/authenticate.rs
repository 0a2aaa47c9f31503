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

use super::denied::{BadToken, Denied, Help, Reason};
use super::live_tokens::{Asked, LiveTokens};
use super::oauth::{OauthMistake, OauthSettings, ResourceServer};
use super::oauth_verify::Grant;
use super::token::Moment;
use super::token::TokenHash;
use super::token::{LineError, TokenEntry, TokenFile};
use crate::bounded_read::{BoundedReadError, read_text};
use crate::private_files::Links;
use crate::service::{CallerIdentity, CallerRole};

/// What lets somebody in.
#[derive(Debug)]
pub struct AuthSettings {
    /// Where tokens are.
    pub token_file: TokenPlace,
    /// Whose access tokens are good, if anybody's.
    pub oauth: Option<OauthSettings>,
}

/// Where tokens are.
#[derive(Debug, Clone)]
pub enum TokenPlace {
    /// In this file, which somebody named: it must be there.
    Named(PathBuf),
    /// In this file, if it is there.
    Usual(PathBuf),
}

impl TokenPlace {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Usual(path) => path,
        }
    }

    /// An operator may name a link; in the data directory nobody puts one.
    pub(super) const fn links(&self) -> Links {
        match self {
            Self::Named(_) => Links::Follow,
            Self::Usual(_) => Links::Refuse,
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
        source: LineError,
    },
    /// The settings of OAuth cannot be used.
    #[error(transparent)]
    Oauth(#[from] OauthMistake),
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
pub struct Auth(Arc<Ways>);

#[derive(Debug, Default)]
struct Ways {
    tokens: LiveTokens,
    oauth: Option<ResourceServer>,
}

impl Auth {
    /// Lets in whom these settings say.
    ///
    /// # Errors
    /// When there is a token file with a mistake in it, or with nothing in it, or OAuth cannot be
    /// meant as it is set.
    pub fn open(settings: AuthSettings) -> Result<Self, AuthError> {
        let links = settings.token_file.links();
        let path = match settings.token_file {
            TokenPlace::Named(path) => {
                check(&path, links)?;
                path
            }
            TokenPlace::Usual(path) => {
                // Also a link that leads nowhere.
                if path.symlink_metadata().is_ok() {
                    check(&path, links)?;
                }
                path
            }
        };
        if let Some(oauth) = &settings.oauth {
            oauth.check()?;
        }
        let oauth = settings.oauth.map(ResourceServer::new);
        Ok(Self(Arc::new(Ways { tokens: LiveTokens::new(path, links), oauth })))
    }

    /// Whether nobody comes in without a token.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.0.oauth.is_some() || *self.0.tokens.now() != Asked::No
    }

    /// Who calls with these headers.
    ///
    /// # Errors
    /// What to answer when nobody does that may come in.
    pub async fn identify(&self, headers: &HeaderMap) -> Result<Credential, Denied> {
        let asked = self.0.tokens.now();
        // Clients may send tokens to a server that asks for none.
        if *asked == Asked::No && self.0.oauth.is_none() {
            return Ok(self.credential(CallerIdentity::LOCAL, Proof::NotAsked));
        }
        match shown(headers) {
            Shown::Nothing | Shown::OtherScheme => Err(self.denied(Reason::NoToken, headers)),
            Shown::Malformed => Err(self.denied(Reason::BadToken(BadToken::Malformed), headers)),
            Shown::Bearer(token) => self.identify_token(token, &asked, headers).await,
        }
    }

    /// The credential of a peer that the system says is our own user: what it can do through us
    /// it can do without us.
    #[must_use]
    pub fn same_user(&self) -> Credential {
        self.credential(CallerIdentity::LOCAL, Proof::SameUser)
    }

    async fn identify_token(
        &self,
        token: &str,
        asked: &Asked,
        headers: &HeaderMap,
    ) -> Result<Credential, Denied> {
        let bad = |why| self.denied(Reason::BadToken(why), headers);
        if let Some(entry) = asked.find(&TokenHash::of(token)) {
            check_expiry(entry, Moment::now()).map_err(bad)?;
            return Ok(self.credential(entry.identity, Proof::Token(entry.hash)));
        }
        let Some(oauth) = &self.0.oauth else { return Err(bad(BadToken::Unknown)) };
        let Grant { tenant, role, until } = oauth.verify(token).await.map_err(bad)?;
        match role {
            Some(role) => {
                Ok(self.credential(CallerIdentity { tenant, role }, Proof::Access { until }))
            }
            None => Err(self.lacks_scope(CallerRole::Run, headers)),
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
    pub(super) fn lacks(
        &self,
        role: CallerRole,
        credential: &Credential,
        headers: &HeaderMap,
    ) -> Denied {
        if credential.has_scopes() {
            self.lacks_scope(role, headers)
        } else {
            Denied::new(Reason::Role(role), None)
        }
    }

    fn lacks_scope(&self, role: CallerRole, headers: &HeaderMap) -> Denied {
        Denied::new(Reason::Role(role), self.help(role, headers))
    }

    /// How long a credential still lets somebody in; `None`: no more.
    pub(super) fn remaining(&self, credential: &Credential, now: Moment) -> Option<Duration> {
        let left = |until: Option<Moment>| match until {
            Some(until) => Some(until.remaining(now)).filter(|left| !left.is_zero()),
            None => Some(Duration::MAX),
        };
        match credential.proof {
            Proof::NotAsked => (!self.asks()).then_some(Duration::MAX),
            Proof::SameUser => left(None),
            Proof::Token(hash) => {
                let asked = self.0.tokens.now();
                let entry = asked.find(&hash)?;
                // With other rights it is another credential.
                if entry.identity == credential.identity { left(entry.expires) } else { None }
            }
            Proof::Access { until } => left(Some(until)),
        }
    }

    /// Hears of changes of the token file.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Asked>> {
        self.0.tokens.changes()
    }

    fn credential(&self, identity: CallerIdentity, proof: Proof) -> Credential {
        Credential { identity, proof, auth: self.clone() }
    }

    fn denied(&self, reason: Reason, headers: &HeaderMap) -> Denied {
        Denied::new(reason, self.help(CallerRole::Run, headers))
    }

    fn help(&self, role: CallerRole, headers: &HeaderMap) -> Option<Help> {
        self.0.oauth.as_ref().map(|oauth| oauth.help(role, headers))
    }
}

/// Everything that is wrong with a token file, before anybody relies on it.
fn check(path: &Path, links: Links) -> Result<(), AuthError> {
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

fn check_expiry(entry: &TokenEntry, now: Moment) -> Result<(), BadToken> {
    match entry.expires {
        Some(at) if at <= now => Err(BadToken::Expired { at }),
        Some(_) | None => Ok(()),
    }
}

/// How often an open stream looks whether its token still stands in the file: a file tells
/// nobody that it changed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Who somebody proved to be. It stands in the extensions of each request that came in.
#[derive(Clone)]
pub struct Credential {
    /// Who it is.
    pub identity: CallerIdentity,
    pub(super) proof: Proof,
    pub(super) auth: Auth,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Proof {
    /// Nobody asked for a token.
    NotAsked,
    /// By reaching us where only our own user can.
    SameUser,
    /// By a token of the file.
    Token(TokenHash),
    /// By an access token that is good until then.
    Access { until: Moment },
}

impl Credential {
    /// Whether a client of it can get more rights by asking for another scope.
    #[must_use]
    pub const fn has_scopes(&self) -> bool {
        match self.proof {
            Proof::NotAsked | Proof::SameUser | Proof::Token(_) => false,
            Proof::Access { .. } => true,
        }
    }

    /// Whether it may do what takes this role.
    ///
    /// # Errors
    /// What to answer to a request with these headers when it may not.
    pub fn require(&self, role: CallerRole, headers: &HeaderMap) -> Result<(), Denied> {
        if self.identity.role >= role {
            return Ok(());
        }
        Err(self.auth.lacks(role, self, headers))
    }

    /// Returns `true` while it lets its holder in: not expired, not revoked, and with the same rights.
    /// Looks at the token file, so that a change is seen at once; to be asked before each message.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.auth.remaining(self, Moment::now()).is_some()
    }

    /// Comes back when it lets nobody in any more: expired, revoked, or no longer enough. That is
    /// noticed within seconds.
    pub async fn ended(&self) {
        let mut changes = self.auth.changes();
        loop {
            let Some(left) = self.auth.remaining(self, Moment::now()) else { return };
            tokio::select! {
                () = tokio::time::sleep(left.min(LOOK_AGAIN)) => {}
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
pub(super) enum Shown<'a> {
    Nothing,
    /// A bearer token.
    Bearer(&'a str),
    /// A credential of another scheme.
    OtherScheme,
    /// Something that is no single credential.
    Malformed,
}

/// What these headers show; two of a kind are as suspicious as something else.
pub(super) fn shown(headers: &HeaderMap) -> Shown<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => Shown::Nothing,
        (Some(value), None) => value.to_str().map_or(Shown::Malformed, credential),
        (Some(_), Some(_)) => Shown::Malformed,
    }
}

fn credential(value: &str) -> Shown<'_> {
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    match token.trim() {
        _ if scheme.is_empty() => Shown::Malformed,
        _ if !scheme.eq_ignore_ascii_case("bearer") => Shown::OtherScheme,
        "" => Shown::Malformed,
        token => Shown::Bearer(token),
    }
}

/// The response, whose body breaks off when `caller` may no longer have it. It breaks, instead of
/// coming to an end, so that half an output is not taken for the whole.
pub(in crate::http) fn until_it_ends(response: Response, caller: Credential) -> Response {
    // What is whole already is sent at once.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::from_stream(cut(body, caller)))
}

fn cut(body: Body, caller: Credential) -> impl stream::Stream<Item = Result<Bytes, axum::Error>> {
    let ending = caller.clone();
    let ended = Box::pin(async move { ending.ended().await });
    let parts = (body.into_data_stream(), ended, caller);
    stream::unfold(parts, async |(mut chunks, mut ended, caller)| {
        let next = tokio::select! {
            biased;
            () = &mut ended => Err(cut_off()),
            chunk = chunks.next() => still_allowed(chunk?, &caller),
        };
        Some((next, (chunks, ended, caller)))
    })
}

/// The chunk, unless its reader lost the right to it since the last one.
fn still_allowed(
    chunk: Result<Bytes, axum::Error>,
    caller: &Credential,
) -> Result<Bytes, axum::Error> {
    if caller.is_valid() { chunk } else { Err(cut_off()) }
}

fn cut_off() -> axum::Error {
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
        let token_file = TokenPlace::Usual(path.clone());
        let auth = Auth::open(AuthSettings { token_file, oauth: None }).unwrap();
        let anybody = auth.identify(&HeaderMap::new()).await.unwrap();
        let same_user = auth.same_user();
        assert_eq!(
            (anybody.identity, same_user.identity),
            (CallerIdentity::LOCAL, CallerIdentity::LOCAL)
        );
        fs::write(&path, "alpha\n").unwrap();
        anybody.ended().await;
        assert!(auth.identify(&HeaderMap::new()).await.is_err());
        let alpha = HeaderMap::from_iter([(AUTHORIZATION, "Bearer alpha".parse().unwrap())]);
        let holder = auth.identify(&alpha).await.unwrap();
        assert!(auth.remaining(&holder, Moment::now()).is_some());
        fs::write(&path, "beta\n").unwrap();
        holder.ended().await;
        assert!(auth.remaining(&same_user, Moment::now()).is_some());
    }

    #[test]
    fn a_file_that_is_there_must_be_usable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let open = |token_file| Auth::open(AuthSettings { token_file, oauth: None });
        assert!(!open(TokenPlace::Usual(path.clone())).unwrap().asks());
        let missing = open(TokenPlace::Named(path.clone())).unwrap_err();
        assert_eq!(missing.code(), "token_file_unreadable");
        for (text, code) in [("# none\n", "no_token"), ("two words\n", "bad_token_line")] {
            fs::write(&path, text).unwrap();
            for place in [TokenPlace::Named(path.clone()), TokenPlace::Usual(path.clone())] {
                assert_eq!(open(place).unwrap_err().code(), code);
            }
        }
    }

    #[track_caller]
    fn check(values: &[&str], expected: Shown<'_>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        assert_eq!(shown(&headers), expected, "{values:?}");
    }

    #[test]
    fn only_one_bearer_token_is_one() {
        check(&[], Shown::Nothing);
        for value in ["Bearer alpha", "bearer alpha", "BEARER  alpha "] {
            check(&[value], Shown::Bearer("alpha"));
        }
        for value in ["Basic alpha", "Digest", "alpha"] {
            check(&[value], Shown::OtherScheme);
        }
        for value in ["Bearer", "Bearer ", ""] {
            check(&[value], Shown::Malformed);
        }
        check(&["Bearer alpha", "Bearer alpha"], Shown::Malformed);
    }
}
