//! Who somebody proved to be, and for how long.

use std::fmt;
use std::time::Duration;

use axum::http::HeaderMap;

use super::denied::Denied;
use super::door::Auth;
use super::moment::Moment;
use super::token::TokenHash;
use crate::yard::{Identity, Role};

/// How often an open stream looks whether its token still stands in the file: a file tells
/// nobody that it changed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Who somebody proved to be. It stands in the extensions of each request that came in.
#[derive(Clone)]
pub struct Credential {
    /// Who it is.
    pub identity: Identity,
    pub(super) proof: Proof,
    pub(super) auth: Auth,
}

/// How somebody proved it.
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
    pub fn require(&self, role: Role, headers: &HeaderMap) -> Result<(), Denied> {
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
