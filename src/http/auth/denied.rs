//! Refusals of requests without the right token: 401 and 403 as RFC 6750, RFC 9728 and MCP require.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use thiserror::Error;

use super::token::UnixTime;
use crate::ids::TenantError;
use crate::service::CallerRole;

/// A refused request, and what its client can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenied {
    reason: DenialReason,
    hint: Option<ScopeHint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DenialReason {
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
    pub(super) const fn new(reason: DenialReason, hint: Option<ScopeHint>) -> Self {
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
    use super::*;

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
