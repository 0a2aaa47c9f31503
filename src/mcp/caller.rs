//! Who calls: what the transport found out, which travels beside each request.

use axum::http::request::Parts;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use crate::yard::Identity;

/// Where a handler learns who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callers {
    /// All requests of this connection come from one.
    One(Identity),
    /// The HTTP guard left it beside each request.
    Each,
}

impl Callers {
    /// Who sent this request; an error where nobody said, since guessing would open a door.
    pub(super) fn of(self, context: &RequestContext<RoleServer>) -> Result<Identity, ErrorData> {
        match self {
            Self::One(identity) => Ok(identity),
            Self::Each => {
                let parts = context.extensions.get::<Parts>();
                let identity = parts.and_then(|parts| parts.extensions.get::<Identity>());
                identity.copied().ok_or_else(|| {
                    ErrorData::internal_error("the caller of this request is not known", None)
                })
            }
        }
    }
}
