//! Refusals of requests without the right token: 401 and 403 as RFC 6750, RFC 9728 and MCP ask.

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use thiserror::Error;

use super::token::UnixTime;
use crate::ids::TenantError;
use crate::service::CallerRole;

/// Why a request may not come in, and what its client can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenied {
    reason: DenialReason,
    hint: Option<ScopeHint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DenialReason {
    /// It showed no token.
    NoToken,
    /// It showed one that lets nobody in.
    BadToken(BadToken),
    /// Its token lets it in, but not there.
    Role(CallerRole),
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
        at: UnixTime,
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

/// Whose fault a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DenialFault {
    /// The request is not written as it must be.
    Request,
    /// Another token may do.
    Token,
    /// The token holds, but is for nobody here: another one like it will not do.
    Stranger,
    /// It cannot be said whether the token holds.
    Ours,
}

impl DenialFault {
    /// The error of RFC 6750 §3.1, where a client can do something about it.
    const fn word(self) -> Option<&'static str> {
        match self {
            Self::Request => Some("invalid_request"),
            Self::Token => Some("invalid_token"),
            Self::Stranger | Self::Ours => None,
        }
    }
}

impl BadToken {
    const fn fault(&self) -> DenialFault {
        match self {
            Self::Malformed => DenialFault::Request,
            Self::NoKeys => DenialFault::Ours,
            Self::Stranger | Self::Tenant(_) => DenialFault::Stranger,
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

/// Where a client of OAuth finds out how to get a token, and what to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScopeHint {
    pub(super) metadata: String,
    pub(super) scope: String,
}

impl AccessDenied {
    pub(super) const fn new(reason: DenialReason, hint: Option<ScopeHint>) -> Self {
        Self { reason, hint }
    }

    const fn status(&self) -> StatusCode {
        match self.reason {
            DenialReason::NoToken => StatusCode::UNAUTHORIZED,
            DenialReason::BadToken(ref why) => match why.fault() {
                DenialFault::Request => StatusCode::BAD_REQUEST,
                DenialFault::Token => StatusCode::UNAUTHORIZED,
                DenialFault::Stranger => StatusCode::FORBIDDEN,
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
                DenialFault::Stranger | DenialFault::Ours => format!("{why}\n"),
            },
            DenialReason::Role(role) => match &self.hint {
                Some(hint) => format!("this needs a token with the scope {}\n", hint.scope),
                None => format!("this needs a token with the role {}\n", role.word()),
            },
        }
    }

    /// Adds the challenge, if there is one, to an answer that was written elsewhere.
    pub(in crate::http) fn put_challenge(&self, response: &mut Response) {
        let challenge = self.challenge().map(|text| HeaderValue::from_str(&text));
        if let Some(Ok(challenge)) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
    }

    /// The challenge of RFC 6750 §3. A request without a token is told no error, as it asks.
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

    /// Where there is no OAuth, nobody can ask for another role.
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
    use super::*;

    #[test]
    fn each_refusal_has_the_status_and_challenge_of_its_fault() {
        for (why, status, error) in [
            (BadToken::Malformed, 400, Some("invalid_request")),
            (BadToken::Unknown, 401, Some("invalid_token")),
            (BadToken::Stranger, 403, None),
            (BadToken::NoKeys, 503, None),
        ] {
            for hint in [None, Some(ScopeHint { metadata: "m".into(), scope: "s".into() })] {
                let denied = AccessDenied::new(DenialReason::BadToken(why.clone()), hint);
                let response = denied.into_response();
                assert_eq!(response.status().as_u16(), status, "{why}");
                assert_eq!(response.headers().contains_key(RETRY_AFTER), status == 503, "{why}");
                let challenge = response.headers().get(WWW_AUTHENTICATE);
                let told = challenge.map(|text| text.to_str().unwrap().to_owned());
                match error {
                    Some(error) => assert!(told.unwrap().contains(&format!("error=\"{error}\""))),
                    None => assert_eq!(told, None, "{why}"),
                }
            }
        }
    }
}
