//! The requests of a legacy session that are still in work.
//!
//! rmcp routes answers by the id of their request. A second request with an id that is in use would
//! take the answer of the first, and one of the two would wait for ever: it is refused here. The
//! same knowledge keeps a session alive whose client has hung up while its call goes on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;

/// The requests of one session that are still in work. A clone is of the same session.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<Work>>);

#[derive(Debug, Default)]
struct Work {
    ids: HashSet<RequestId>,
    /// When the last of them was answered.
    answered: Option<Instant>,
}

impl InFlight {
    /// Notes a message of the client.
    ///
    /// # Errors
    /// When it is a request whose id is still in use.
    pub(super) fn admit(&self, message: &ClientJsonRpcMessage) -> Result<(), IdInUse> {
        match message {
            JsonRpcMessage::Request(request) => {
                let is_new = self.work(|work| work.ids.insert(request.id.clone()));
                if is_new { Ok(()) } else { Err(IdInUse(request.id.clone())) }
            }
            JsonRpcMessage::Notification(notification) => {
                // rmcp sends no answer to a request that was cancelled.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.work(|work| work.ids.remove(id));
                }
                Ok(())
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(()),
        }
    }

    /// Notes a message of the server.
    fn note(&self, message: &ServerJsonRpcMessage) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = id {
            self.work(|work| {
                work.ids.remove(id);
                work.answered = Some(Instant::now());
            });
        }
    }

    /// Whether nothing is in work, nor was since then.
    pub(super) fn is_idle_since(&self, then: Instant) -> bool {
        self.work(|work| work.ids.is_empty() && work.answered.is_none_or(|last| last <= then))
    }

    /// Whether nothing is in work.
    pub(super) fn is_empty(&self) -> bool {
        self.work(|work| work.ids.is_empty())
    }

    fn work<T>(&self, look: impl FnOnce(&mut Work) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request with this id is still in work.
#[derive(Debug)]
pub(super) struct IdInUse(RequestId);

impl IdInUse {
    /// What the second request is answered with.
    pub(super) fn answer(self) -> ServerJsonRpcMessage {
        let text = "a request with this id is still in work; use another id";
        ServerJsonRpcMessage::error(ErrorData::invalid_request(text, None), Some(self.0))
    }
}

/// A session's way to its client, by which all answers go.
pub(super) struct Noted<T> {
    transport: T,
    in_flight: InFlight,
}

impl<T> Noted<T> {
    pub(super) const fn new(transport: T, in_flight: InFlight) -> Self {
        Self { transport, in_flight }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Noted<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        // Before it is sent: whoever has read an answer may use its id again.
        self.in_flight.note(&message);
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.transport.receive().await
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
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
        let ping = message(json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 7}});
        let work = InFlight::default();
        let begun = Instant::now();
        work.admit(&ping).unwrap();
        let refused = serde_json::to_value(work.admit(&ping).unwrap_err().answer()).unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32600)));
        assert!(!work.is_idle_since(begun));
        let answer = ServerJsonRpcMessage::error(
            ErrorData::internal_error("no", None),
            Some(RequestId::Number(7)),
        );
        work.note(&answer);
        assert!(work.is_empty() && !work.is_idle_since(begun), "it was answered after that");
        work.admit(&ping).unwrap();
        work.admit(&message(cancel)).unwrap();
        work.admit(&ping).unwrap();
    }
}
