//! Keep-alive comments for calls that take long.
//!
//! In the modern era a response has no status until its handler produces something, so a quiet call
//! looks like a dead server to clients and proxies. A response that does not come at once is
//! therefore started as an event stream, with comments until there is an answer. The call lives
//! inside the response: a client that hangs up drops both. A client that has ended its input may
//! wait for the answer, or be gone. Comments show which: writing them fails if nobody reads them.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use tokio::time::{Interval, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

const EVENT_STREAM: &str = "text/event-stream";
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The pause between the first two comments to a client that has ended its input. Each later pause
/// is twice as long. If nobody reads the first comment, only the write of the second one fails.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The largest response that is turned into an event. Responses of rmcp are far smaller.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// A response that is still being computed. Boxed because the future is large.
pub(super) type PendingResponse = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The times after which a silent call sends something.
#[derive(Debug, Clone)]
pub(super) struct KeepAliveTiming {
    /// The time before the response is started as an event stream.
    pub(super) before_stream: Duration,
    pub(super) between_comments: Duration,
    /// Cancelled when the client has ended its input.
    pub(super) input_ended: CancellationToken,
}

/// Returns the response if it comes soon, else an event stream that ends with it.
pub(super) async fn respond_in_time(
    mut answer: PendingResponse,
    timing: KeepAliveTiming,
) -> Response {
    let probes = HangUpProbes { input_ended: timing.input_ended, pause: Duration::ZERO };
    match timeout(timing.before_stream, &mut answer).await {
        Ok(response) if is_event_stream(response.headers()) => response
            .map(|events| staged_body(StreamStage::Forwarding(events.into_data_stream(), probes))),
        Ok(response) => response,
        Err(_) => begin_stream(answer, interval(timing.between_comments), probes),
    }
}

/// `true` if a response with these headers is an event stream.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM.as_bytes()))
}

/// The state of an event stream that has started.
enum StreamStage {
    Waiting(PendingResponse, Interval, HangUpProbes),
    Forwarding(BodyDataStream, HangUpProbes),
    Ended,
}

/// Comments to a client that has ended its input.
struct HangUpProbes {
    input_ended: CancellationToken,
    pause: Duration,
}

impl HangUpProbes {
    /// Waits until the next comment is due. Never returns while the input is open. Cancel-safe.
    async fn due(&mut self) {
        self.input_ended.cancelled().await;
        sleep(self.pause).await;
        self.pause = (2 * self.pause).max(FIRST_PAUSE);
    }
}

fn staged_body(start: StreamStage) -> Body {
    Body::from_stream(stream::unfold(start, next).map(Ok::<_, Infallible>))
}

fn begin_stream(answer: PendingResponse, comments: Interval, probes: HangUpProbes) -> Response {
    let mut response = Response::new(staged_body(StreamStage::Waiting(answer, comments, probes)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next(stage: StreamStage) -> Option<(Bytes, StreamStage)> {
    match stage {
        StreamStage::Waiting(mut answer, mut comments, mut probes) => {
            tokio::select! {
                response = &mut answer => return finish_stream(response, probes).await,
                _ = comments.tick() => {}
                () = probes.due() => {}
            }
            Some((COMMENT, StreamStage::Waiting(answer, comments, probes)))
        }
        StreamStage::Forwarding(events, probes) => forward_event(events, probes).await,
        StreamStage::Ended => None,
    }
}

async fn finish_stream(response: Response, probes: HangUpProbes) -> Option<(Bytes, StreamStage)> {
    if is_event_stream(response.headers()) {
        return forward_event(response.into_body().into_data_stream(), probes).await;
    }
    // One JSON message becomes one event. Its status is lost: 200 has already been sent.
    let message = axum::body::to_bytes(response.into_body(), MAX_EVENT_BYTES).await.ok()?;
    Some((event(&message), StreamStage::Ended))
}

/// Forwards one chunk of an event stream. Each chunk is a whole event, so a comment may stand
/// between two.
async fn forward_event(
    mut events: BodyDataStream,
    mut probes: HangUpProbes,
) -> Option<(Bytes, StreamStage)> {
    let chunk = tokio::select! {
        chunk = events.next() => chunk?.ok()?,
        () = probes.due() => COMMENT,
    };
    Some((chunk, StreamStage::Forwarding(events, probes)))
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

    fn timing() -> KeepAliveTiming {
        let input_ended = CancellationToken::new();
        let before_stream = MOMENT;
        let between_comments = MOMENT;
        KeepAliveTiming { before_stream, between_comments, input_ended }
    }

    const MOMENT: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(3600);

    async fn text(body: Body) -> String {
        String::from_utf8(axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_quick_response_is_unchanged() {
        let answer = async { (axum::http::StatusCode::NOT_FOUND, "{}").into_response() };
        let response = respond_in_time(Box::pin(answer), timing()).await;
        assert_eq!(response.status(), axum::http::StatusCode::NOT_FOUND);
        assert_eq!(text(response.into_body()).await, "{}");
    }

    /// Returns what a client receives of a response that is ready only after the first comment,
    /// without the comments.
    async fn late(answer: Response) -> String {
        let (send, late) = oneshot::channel::<Response>();
        let response = respond_in_time(Box::pin(async { late.await.unwrap() }), timing()).await;
        assert_eq!(response.headers()[CONTENT_TYPE], EVENT_STREAM);
        let mut events = response.into_body().into_data_stream();
        assert_eq!(events.next().await.unwrap().unwrap(), COMMENT);
        send.send(answer).unwrap();
        let rest = text(Body::from_stream(events)).await;
        rest.replace(std::str::from_utf8(&COMMENT).unwrap(), "")
    }

    #[tokio::test]
    async fn a_late_response_comes_as_an_event_after_comments() {
        assert_eq!(late("{\"id\":1}".into_response()).await, "data: {\"id\":1}\n\n");
    }

    #[tokio::test]
    async fn a_late_stream_is_forwarded_unchanged() {
        let stream = ([(CONTENT_TYPE, EVENT_STREAM)], "data: {}\n\n").into_response();
        assert_eq!(late(stream).await, "data: {}\n\n");
    }

    #[tokio::test]
    async fn a_client_that_has_ended_its_input_is_sent_comments_at_once() {
        let stream = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let begun = ([(CONTENT_TYPE, EVENT_STREAM)], stream).into_response();
        let pending = Box::pin(std::future::pending());
        let answers: [PendingResponse; 2] = [pending, Box::pin(async { begun })];
        for answer in answers {
            let input_ended = CancellationToken::new();
            let timing = KeepAliveTiming {
                between_comments: LONG,
                input_ended: input_ended.clone(),
                ..timing()
            };
            let response = respond_in_time(answer, timing).await;
            let mut events = response.into_body().into_data_stream();
            // Skips the first comment of a stream that was started early, if there is one.
            drop(timeout(MOMENT, events.next()).await);
            timeout(MOMENT, events.next()).await.expect_err("its input is open");
            input_ended.cancel();
            for _ in 0..3 {
                let comment = timeout(Duration::from_secs(60), events.next()).await;
                assert_eq!(comment.expect("in time").unwrap().unwrap(), COMMENT);
            }
        }
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
        let response = respond_in_time(Box::pin(never), timing()).await;
        assert!(!dropped.load(Ordering::SeqCst));
        drop(response);
        assert!(dropped.load(Ordering::SeqCst));
    }
}
