//! What somebody is told who may not come in: 401 and 403 as RFC 6750, RFC 9728 and MCP ask.

use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use thiserror::Error;

use super::moment::Moment;
use crate::ids::TenantError;
use crate::yard::Role;

/// Why a request may not come in, and what its client can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    reason: Reason,
    help: Option<Help>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// It showed no token.
    NoToken,
    /// It showed one that lets nobody in.
    BadToken(BadToken),
    /// Its token lets it in, but not there.
    Role(Role),
}

/// What is wrong with a token. Texts tell nothing about tokens that are good.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadToken {
    /// The header holds no single bearer token.
    #[error("send one header of the form: Authorization: Bearer TOKEN")]
    Malformed,
    /// It is none of ours.
    #[error("this token is not known here")]
    Unknown,
    /// It was good until then.
    #[error("this token expired at {at}")]
    Expired {
        /// When it ended.
        at: Moment,
    },
    /// It will be good later.
    #[error("this token is not valid yet")]
    NotYet,
    /// It is no JWT that we can read.
    #[error("this token is not a JWT access token that can be read")]
    Unreadable,
    /// Its signature is of a kind that is not accepted.
    #[error("this token is not signed by an accepted algorithm")]
    Algorithm,
    /// None of the issuer's keys has its name.
    #[error("this token is signed by a key that the issuer does not publish")]
    Key,
    /// The issuer's keys could not be had.
    #[error("the keys of the issuer cannot be had at present; try again later")]
    NoKeys,
    /// Its signature does not hold.
    #[error("the signature of this token does not hold")]
    Signature,
    /// Somebody else made it.
    #[error("this token is from another issuer")]
    Issuer,
    /// It is meant for somebody else.
    #[error("this token is for another audience")]
    Audience,
    /// Something must be in it and is not, or is of another type.
    #[error("this token has no usable claim {claim}")]
    Claim {
        /// The claim.
        claim: String,
    },
    /// Nobody with its tenant may come in.
    #[error("this token is for nobody who is known here")]
    Stranger,
    /// Its tenant cannot be one.
    #[error("this token names no possible tenant")]
    Tenant(#[from] TenantError),
}

/// Where a client of OAuth finds out how to get a token, and what to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Help {
    pub(super) metadata: String,
    pub(super) scope: String,
}

impl Denied {
    pub(super) const fn new(reason: Reason, help: Option<Help>) -> Self {
        Self { reason, help }
    }

    const fn status(&self) -> StatusCode {
        match self.reason {
            Reason::NoToken | Reason::BadToken(_) => StatusCode::UNAUTHORIZED,
            Reason::Role(_) => StatusCode::FORBIDDEN,
        }
    }

    fn text(&self) -> String {
        match &self.reason {
            Reason::NoToken => {
                "a valid token is required: send `Authorization: Bearer TOKEN`\n".to_owned()
            }
            Reason::BadToken(why) => format!("a valid token is required: {why}\n"),
            Reason::Role(role) => match &self.help {
                Some(help) => format!("this needs a token with the scope {}\n", help.scope),
                None => format!("this needs a token with the role {}\n", role.word()),
            },
        }
    }

    /// The challenge of RFC 6750 §3. A request without a token is told no error, as it asks.
    fn challenge(&self) -> Option<String> {
        let Some(Help { metadata, scope }) = &self.help else { return self.plain_challenge() };
        Some(match &self.reason {
            Reason::NoToken => {
                format!("{REALM}, resource_metadata=\"{metadata}\", scope=\"{scope}\"")
            }
            Reason::BadToken(why) => format!(
                "{REALM}, resource_metadata=\"{metadata}\", scope=\"{scope}\", error=\"invalid_token\", error_description=\"{why}\""
            ),
            Reason::Role(_) => format!(
                "{REALM}, error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{metadata}\""
            ),
        })
    }

    /// Where there is no OAuth, nobody can ask for another role.
    fn plain_challenge(&self) -> Option<String> {
        match &self.reason {
            Reason::NoToken => Some(REALM.to_owned()),
            Reason::BadToken(why) => {
                Some(format!("{REALM}, error=\"invalid_token\", error_description=\"{why}\""))
            }
            Reason::Role(_) => None,
        }
    }
}

const REALM: &str = "Bearer realm=\"shellyard\"";

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.text()).into_response();
        let challenge = self.challenge().map(|text| HeaderValue::from_str(&text));
        if let Some(Ok(challenge)) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
