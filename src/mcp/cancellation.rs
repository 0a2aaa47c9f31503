//! Cancelled calls: why a client ended a call, which decides whether the job of that call ends too.
//!
//! ```text
//! notifications/cancelled ─▶ transport sets the CancelNotice of the call ─▶ rmcp cancels the token
//! a closed connection     ─────────────────────────────────────────────▶ rmcp cancels the token
//! ```
//!
//! A user who cancels wants the work to end. A client that has waited for as long as it can, or
//! whose connection breaks, only stops waiting: the work would be lost without anybody wanting
//! that. Clients send the same notification for both, so its reason decides.

use std::sync::{Arc, OnceLock};

use rmcp::RoleServer;
use rmcp::service::RequestContext;

use crate::service::ReportTo;

/// The reason why a client ended a call before its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelIntent {
    /// The user wants the work to end.
    UserCancel,
    /// The client stopped waiting, and its connection is still open.
    ClientGaveUp,
    /// The client closed its connection, or lost it.
    ClientHungUp,
}

impl CancelIntent {
    /// The sessions in which the client is told about a job that goes on.
    pub(crate) const fn report_to(self) -> ReportTo {
        match self {
            Self::UserCancel | Self::ClientGaveUp => ReportTo::SameSession,
            Self::ClientHungUp => ReportTo::AnySession,
        }
    }
}

/// The notification that cancelled a call, if there was one. A transport puts it into the
/// extensions of each call, and sets it before rmcp cancels the call's token. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelNotice(Arc<OnceLock<CancelReason>>);

/// The reason in a cancel notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CancelReason {
    Given(String),
    /// The notification gives no reason.
    NotGiven,
}

impl From<Option<String>> for CancelReason {
    fn from(reason: Option<String>) -> Self {
        reason.map_or(Self::NotGiven, Self::Given)
    }
}

impl CancelNotice {
    /// Records the notification, with the reason in it.
    pub(crate) fn set(&self, reason: CancelReason) {
        // A second notification for the same call changes nothing.
        self.0.set(reason).ok();
    }

    /// Returns the reason in the notification; `None` if no notification came.
    pub(crate) fn reason(&self) -> Option<&CancelReason> {
        self.0.get()
    }

    /// Returns why this cancelled request was cancelled. Without a notification its connection was
    /// closed.
    pub(crate) fn intent(context: &RequestContext<RoleServer>) -> CancelIntent {
        match context.extensions.get::<Self>().and_then(Self::reason) {
            Some(reason) => classify_reason(reason),
            None => CancelIntent::ClientHungUp,
        }
    }
}

/// Words in the reasons of clients that stopped waiting. Reasons that were seen:
/// "McpError: MCP error -32001: Request timed out" (TypeScript SDK), "timed out after 5s" (Python
/// SDK), "request timeout" (Rust SDK), "context deadline exceeded" (Go), "TimeoutError: The operation
/// was aborted due to timeout" (`AbortSignal.timeout`), "MCP response future dropped" (Codex).
const GAVE_UP: [&str; 7] = [
    "timed out",
    "request timeout",
    "client timeout",
    "due to timeout",
    "timeouterror",
    "deadline exceeded",
    "response future dropped",
];

/// Returns the intent behind a cancel notification with this reason. Every other reason is a user's
/// cancel ("AbortError: This operation was aborted", "caller cancelled", a person's own words), and
/// so is none at all: clients without a limit of their own send that when a user presses stop, and a
/// command that goes on after a person stopped it would be worse than one that has to run again.
fn classify_reason(reason: &CancelReason) -> CancelIntent {
    let CancelReason::Given(text) = reason else { return CancelIntent::UserCancel };
    let text = text.to_lowercase();
    if GAVE_UP.iter().any(|words| text.contains(words)) {
        CancelIntent::ClientGaveUp
    } else {
        CancelIntent::UserCancel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_and_a_dropped_call_are_no_cancel_by_a_user() {
        for reason in [
            "McpError: MCP error -32001: Request timed out",
            "Request timed out",
            "timed out after 5s",
            "request timeout",
            "client timeout",
            "context deadline exceeded",
            "TimeoutError: The operation was aborted due to timeout",
            "MCP response future dropped",
        ] {
            let given = CancelReason::Given(reason.to_owned());
            assert_eq!(classify_reason(&given), CancelIntent::ClientGaveUp, "{reason}");
        }
    }

    #[test]
    fn any_other_reason_and_none_is_a_users_cancel() {
        for reason in [
            None,
            Some(""),
            Some("AbortError: This operation was aborted"),
            Some("AbortError: user-cancel"),
            Some("The operation was aborted"),
            Some("context canceled"),
            Some("caller cancelled"),
            Some("User requested cancellation"),
            Some("enough"),
        ] {
            let reason = CancelReason::from(reason.map(str::to_owned));
            assert_eq!(classify_reason(&reason), CancelIntent::UserCancel, "{reason:?}");
        }
    }
}
