//! The requests of one client that are in flight.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};

use crate::mcp::{CancelNotice, CancelReason};

/// The requests of one client that are in flight. Clones share their state.
///
/// rmcp routes replies by the id of their request. A second request with an id in use would take
/// the reply of the first, and one of the two would wait forever, so it is refused here. The same
/// knowledge keeps a session alive whose client has hung up while its call continues.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlightRequests(Arc<Mutex<RequestTable>>);

#[derive(Debug, Default)]
struct RequestTable {
    /// The requests without a reply, each with the notice that tells its call why it was cancelled.
    requests: HashMap<RequestId, CancelNotice>,
    /// The number of replies that are being written. Their ids are free: a client that has read its
    /// reply may reuse the id before the server knows that it was read.
    replies: usize,
    /// The time of the last reply.
    answered: Option<Instant>,
}

impl InFlightRequests {
    /// Records a message of the client. A call of a tool gets its [`CancelNotice`], which the
    /// notification that cancels it sets.
    ///
    /// # Errors
    /// When it is a request whose id is in use, or `max_requests` requests are in flight.
    pub(crate) fn admit(
        &self,
        message: &mut ClientJsonRpcMessage,
        max_requests: usize,
    ) -> Result<(), ErrorData> {
        match message {
            JsonRpcMessage::Request(request) => self.with(|now| {
                if now.requests.len() + now.replies >= max_requests {
                    let text =
                        format!("{max_requests} requests are in progress; wait for an answer");
                    return Err(ErrorData::internal_error(text, None));
                }
                let Entry::Vacant(entry) = now.requests.entry(request.id.clone()) else {
                    let text = "a request with this id is still in progress; use another id";
                    return Err(ErrorData::invalid_request(text, None));
                };
                let notice = entry.insert(CancelNotice::default());
                if let ClientRequest::CallToolRequest(call) = &mut request.request {
                    call.extensions.insert(notice.clone());
                }
                Ok(())
            }),
            JsonRpcMessage::Notification(notification) => {
                // rmcp sends no reply to a cancelled request.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    let notice = self.with(|now| now.requests.remove(id));
                    if let Some(notice) = notice {
                        notice.set(CancelReason::from(cancelled.params.reason.clone()));
                    }
                }
                Ok(())
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(()),
        }
    }

    /// Records a message of the server before it is sent: a client that has read a reply may reuse
    /// its id. A reply counts as in flight until the returned value is dropped.
    pub(crate) fn begin_reply(&self, message: &ServerJsonRpcMessage) -> Option<ReplyInFlight> {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        }?;
        self.with(|now| {
            now.requests.remove(id);
            now.replies += 1;
            now.answered = Some(Instant::now());
        });
        Some(ReplyInFlight(self.clone()))
    }

    /// `true` if no request is in flight, and none has been since `then`.
    pub(crate) fn is_idle_since(&self, then: Instant) -> bool {
        self.with(|now| now.requests.is_empty() && now.answered.is_none_or(|last| last <= then))
    }

    /// `true` if no request is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.with(|now| now.requests.is_empty())
    }

    fn with<T>(&self, change: impl FnOnce(&mut RequestTable) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A reply that is being written.
#[derive(Debug)]
pub(crate) struct ReplyInFlight(InFlightRequests);

impl Drop for ReplyInFlight {
    fn drop(&mut self) {
        self.0.with(|now| now.replies -= 1);
    }
}

/// The id of a request; `None` for any other message.
pub(crate) fn find_request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        JsonRpcMessage::Response(_)
        | JsonRpcMessage::Notification(_)
        | JsonRpcMessage::Error(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(value: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_id_is_in_use_until_its_request_is_answered_or_cancelled() {
        let mut ping = message(json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 7}});
        let work = InFlightRequests::default();
        let begun = Instant::now();
        work.admit(&mut ping, 9).unwrap();
        assert_eq!(work.admit(&mut ping, 9).unwrap_err().code.0, -32600);
        assert_eq!(find_request_id(&ping), Some(RequestId::Number(7)));
        assert!(!work.is_idle_since(begun));
        let answer = ServerJsonRpcMessage::error(
            ErrorData::internal_error("no", None),
            Some(RequestId::Number(7)),
        );
        drop(work.begin_reply(&answer));
        assert!(work.is_empty() && !work.is_idle_since(begun), "it was answered after that");
        work.admit(&mut ping, 9).unwrap();
        work.admit(&mut message(cancel), 9).unwrap();
        work.admit(&mut ping, 9).unwrap();
    }

    #[test]
    fn a_cancelled_call_learns_the_reason() {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": "run_command"}});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 7, "reason": "Request timed out"}});
        let work = InFlightRequests::default();
        let mut call = message(call);
        work.admit(&mut call, 9).unwrap();
        let JsonRpcMessage::Request(request) = call else { panic!("a request") };
        let ClientRequest::CallToolRequest(call) = request.request else { panic!("a call") };
        let notice = call.extensions.get::<CancelNotice>().expect("a notice").clone();
        assert_eq!(notice.reason(), None);
        work.admit(&mut message(cancel), 9).unwrap();
        let reason = CancelReason::Given("Request timed out".to_owned());
        assert_eq!(notice.reason(), Some(&reason));
    }
}
