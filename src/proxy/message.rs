//! What a line says, as far as a proxy needs to know. The rest of it is carried as it is.

use rmcp::model::{ErrorData, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::lines::{CLOSING, Decoded, LineRead, content};

/// A line of the client.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClientLine {
    /// It wants an answer.
    Request(Request),
    /// The legacy opening is complete.
    Initialized(Vec<u8>),
    /// The answer to this request is not wanted any more.
    Cancelled { id: RequestId, line: Vec<u8> },
    /// Another notification, or an answer.
    Other(Vec<u8>),
    /// No message: what is to be answered.
    Faulty(Vec<u8>),
}

/// A request of the client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) wish: Wish,
    pub(super) line: Vec<u8>,
}

/// What a request means for the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// The legacy opening.
    Open,
    /// To hear of changes, as only legacy clients ask for it.
    Follow(Followed),
    /// To hear of no more changes of this resource.
    Unfollow(String),
    /// Nothing that outlives its answer.
    Answer,
}

/// What a legacy client hears of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Followed {
    /// Jobs that appear: whoever looked at the list hears of them.
    List,
    /// One resource.
    Resource(String),
}

/// A line of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ServerLine {
    /// The answer to a request.
    Answer { id: RequestId, verdict: Verdict, line: Vec<u8> },
    /// It takes no further work, and will be gone soon.
    Closing,
    /// A notification.
    Other(Vec<u8>),
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Result,
    Error,
}

/// The few fields that matter. All else is skipped over without being kept.
#[derive(Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
    error: Option<IgnoredAny>,
}

impl ClientLine {
    /// What a line says; `None` where it says nothing.
    pub(super) fn of(read: LineRead) -> Option<Self> {
        let said = match &read {
            LineRead::Whole(line) => Self::of_content(content(line)),
            LineRead::TooLong(_) => None,
        };
        said.or_else(|| match read.decode() {
            Decoded::Faulty(error, id) => Some(Self::Faulty(refusal(id.as_ref(), &error))),
            Decoded::Message(_) | Decoded::Nothing => None,
        })
    }

    fn of_content(line: &[u8]) -> Option<Self> {
        let envelope: Envelope = serde_json::from_slice(line).ok()?;
        let owned = || line.to_vec();
        Some(match (envelope.method, envelope.id) {
            (Some(method), Some(id)) => {
                Self::Request(Request { id, wish: Wish::of(&method, line), line: owned() })
            }
            (Some(method), None) => match method.as_str() {
                "notifications/initialized" | "initialized" => Self::Initialized(owned()),
                "notifications/cancelled" => match cancelled(line) {
                    Some(id) => Self::Cancelled { id, line: owned() },
                    None => Self::Other(owned()),
                },
                _ => Self::Other(owned()),
            },
            (None, Some(_)) => Self::Other(owned()),
            (None, None) => return None,
        })
    }
}

impl Wish {
    fn of(method: &str, line: &[u8]) -> Self {
        let uri = || field(line, "uri").and_then(|uri| Some(uri.as_str()?.to_owned()));
        match method {
            "initialize" => Self::Open,
            "resources/list" => Self::Follow(Followed::List),
            "resources/subscribe" => {
                uri().map_or(Self::Answer, |uri| Self::Follow(Followed::Resource(uri)))
            }
            "resources/unsubscribe" => uri().map_or(Self::Answer, Self::Unfollow),
            _ => Self::Answer,
        }
    }
}

impl ServerLine {
    /// What a line says; `None` where it says nothing that a client would understand.
    pub(super) fn of(read: LineRead) -> Option<Self> {
        match read {
            LineRead::Whole(line) => {
                let envelope: Envelope = serde_json::from_slice(&line).ok()?;
                let verdict =
                    if envelope.error.is_some() { Verdict::Error } else { Verdict::Result };
                Some(match (envelope.method.as_deref(), envelope.id) {
                    (None, Some(id)) => Self::Answer { id, verdict, line },
                    (Some(CLOSING), _) => Self::Closing,
                    (Some(_), _) | (None, None) => Self::Other(line),
                })
            }
            LineRead::TooLong(ends) => {
                let id = ends.id()?;
                let line = refusal(Some(&id), &ErrorData::internal_error(TOO_LARGE, None));
                Some(Self::Answer { id, verdict: Verdict::Error, line })
            }
        }
    }
}

const TOO_LARGE: &str = "the answer is too large to be passed on; ask for less of it";

/// One of the params of a message.
fn field(line: &[u8], name: &str) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    Some(message.get_mut("params")?.get_mut(name)?.take())
}

fn cancelled(line: &[u8]) -> Option<RequestId> {
    serde_json::from_value(field(line, "requestId")?).ok()
}

/// An error as a line.
pub(super) fn refusal(id: Option<&RequestId>, error: &ErrorData) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<ClientLine> {
        ClientLine::of(LineRead::Whole(line.as_bytes().to_vec()))
    }

    fn wish(line: &str) -> Wish {
        match said(line) {
            Some(ClientLine::Request(request)) => request.wish,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_told_apart_by_what_outlives_them() {
        let uri = || "shellyard://jobs/1/output".to_owned();
        for (line, expected) in [
            (r#"{"id":1,"method":"initialize","params":{}}"#, Wish::Open),
            (r#"{"id":"a","method":"tools/call","params":{"uri":"x"}}"#, Wish::Answer),
            (r#"{"id":1,"method":"resources/list"}"#, Wish::Follow(Followed::List)),
            (
                r#"{"method":"resources/subscribe","params":{"uri":"shellyard://jobs/1/output"},"id":1}"#,
                Wish::Follow(Followed::Resource(uri())),
            ),
            (
                r#"{"id":1,"method":"resources/unsubscribe","params":{"uri":"shellyard://jobs/1/output"}}"#,
                Wish::Unfollow(uri()),
            ),
            (r#"{"id":1,"method":"resources/subscribe","params":[]}"#, Wish::Answer),
        ] {
            assert_eq!(wish(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_no_message_is_answered_as_on_stdio() {
        for (line, code) in [("{bad", -32700), ("[]", -32600), (r#"{"id":{}}"#, -32600)] {
            let Some(ClientLine::Faulty(answer)) = said(line) else { panic!("{line}") };
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["error"]["code"], code, "{line}");
            assert_eq!(answer.get("id"), Some(&Value::Null));
        }
        for line in ["", "  ", "# comment"] {
            assert_eq!(said(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_message_is_carried_without_what_stands_around_it() {
        let line = r#"{"method":"x"}"#;
        let carried = Some(ClientLine::Other(line.as_bytes().to_vec()));
        assert_eq!(said(&format!("\u{feff} {line}\r")), carried);
    }

    #[test]
    fn the_news_of_the_end_is_for_the_proxy_alone() {
        let line = |method: &str| LineRead::Whole(json!({"method": method}).to_string().into());
        assert_eq!(ServerLine::of(line(CLOSING)), Some(ServerLine::Closing));
        let other = ServerLine::of(line("notifications/message"));
        assert!(matches!(other, Some(ServerLine::Other(_))), "{other:?}");
    }

    #[test]
    fn a_cancellation_names_its_request() {
        let line = r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#;
        let Some(ClientLine::Cancelled { id, .. }) = said(line) else { panic!() };
        assert_eq!(id, RequestId::Number(7));
        let nothing = r#"{"method":"notifications/cancelled"}"#;
        assert!(matches!(said(nothing), Some(ClientLine::Other(_))));
    }
}
