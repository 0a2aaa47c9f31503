//! A sign of life for calls that take long.
//!
//! In the modern era a response has no status until its handler has something to say, so a
//! quiet call looks like a dead server to clients and proxies. Unless it comes at once, the
//! response is therefore begun as an event stream, with comments until there is an answer.
//! The call lives inside the response: a client that hangs up drops both.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use tokio::time::{Interval, interval, timeout};

const EVENT_STREAM: &str = "text/event-stream";
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The largest answer that is turned into an event; rmcp's own are far below.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// An answer in the making. Boxed: it is large.
pub(super) type PendingAnswer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// How long to be silent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Before the response is begun.
    pub(super) before_stream: Duration,
    /// Between two comments.
    pub(super) between_comments: Duration,
}

/// The answer, if it comes soon; else a stream that ends with it.
pub(super) async fn answer_in_time(mut answer: PendingAnswer, patience: Patience) -> Response {
    match timeout(patience.before_stream, &mut answer).await {
        Ok(response) => response,
        Err(_) => begin_stream(answer, patience.between_comments),
    }
}

/// Where a begun stream is.
enum Stage {
    Waiting(PendingAnswer, Interval),
    Passing(BodyDataStream),
    Ended,
}

fn begin_stream(answer: PendingAnswer, between_comments: Duration) -> Response {
    let start = Stage::Waiting(answer, interval(between_comments));
    let events = stream::unfold(start, next).map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next(stage: Stage) -> Option<(Bytes, Stage)> {
    match stage {
        Stage::Waiting(mut answer, mut comments) => {
            tokio::select! {
                response = &mut answer => arrived(response).await,
                _ = comments.tick() => Some((COMMENT, Stage::Waiting(answer, comments))),
            }
        }
        Stage::Passing(events) => pass_on(events).await,
        Stage::Ended => None,
    }
}

async fn arrived(response: Response) -> Option<(Bytes, Stage)> {
    let streams = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM.as_bytes()));
    if streams {
        return pass_on(response.into_body().into_data_stream()).await;
    }
    // One JSON message, as one event. Its status is lost: 200 has been sent already.
    let message = axum::body::to_bytes(response.into_body(), MAX_EVENT_BYTES).await.ok()?;
    Some((event(&message), Stage::Ended))
}

async fn pass_on(mut events: BodyDataStream) -> Option<(Bytes, Stage)> {
    let chunk = events.next().await?.ok()?;
    Some((chunk, Stage::Passing(events)))
}

fn event(message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 16);
    for line in message.split(|byte| *byte == b'\n') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::response::IntoResponse;
    use tokio::sync::oneshot;

    use super::*;

    const PATIENCE: Patience = Patience {
        before_stream: Duration::from_millis(10),
        between_comments: Duration::from_millis(10),
    };

    async fn text(body: Body) -> String {
        String::from_utf8(axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_quick_answer_passes_untouched() {
        let answer = async { (axum::http::StatusCode::NOT_FOUND, "{}").into_response() };
        let response = answer_in_time(Box::pin(answer), PATIENCE).await;
        assert_eq!(response.status(), axum::http::StatusCode::NOT_FOUND);
        assert_eq!(text(response.into_body()).await, "{}");
    }

    /// What a client gets of an answer that is there only after the first comment: all but
    /// the comments.
    async fn late(answer: Response) -> String {
        let (send, late) = oneshot::channel::<Response>();
        let response = answer_in_time(Box::pin(async { late.await.unwrap() }), PATIENCE).await;
        assert_eq!(response.headers()[CONTENT_TYPE], EVENT_STREAM);
        let mut events = response.into_body().into_data_stream();
        assert_eq!(events.next().await.unwrap().unwrap(), COMMENT);
        send.send(answer).unwrap();
        let rest = text(Body::from_stream(events)).await;
        rest.replace(std::str::from_utf8(&COMMENT).unwrap(), "")
    }

    #[tokio::test]
    async fn a_late_answer_comes_as_an_event_after_comments() {
        assert_eq!(late("{\"id\":1}".into_response()).await, "data: {\"id\":1}\n\n");
    }

    #[tokio::test]
    async fn a_late_stream_is_passed_on_as_it_is() {
        let stream = ([(CONTENT_TYPE, EVENT_STREAM)], "data: {}\n\n").into_response();
        assert_eq!(late(stream).await, "data: {}\n\n");
    }

    #[tokio::test]
    async fn hanging_up_drops_the_call() {
        struct OnDrop(Arc<AtomicBool>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let guard = OnDrop(Arc::clone(&dropped));
        let never = async move {
            let _guard = guard;
            std::future::pending::<Response>().await
        };
        let response = answer_in_time(Box::pin(never), PATIENCE).await;
        assert!(!dropped.load(Ordering::SeqCst));
        drop(response);
        assert!(dropped.load(Ordering::SeqCst));
    }
}
