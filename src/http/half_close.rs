//! Clients that end their side of a connection before they are answered, as `nc -N` does.
//!
//! The end of the input does not end a call: hyper is told so (`half_close`), and looks at the input
//! no more while it answers. Over TCP, though, a client that is gone altogether looks the same until
//! something is sent to it. The stream to the client therefore looks for that end itself
//! ([`super::stall`]), and responses that are streams send comments then ([`super::keep_alive`]): a
//! write that fails ends the connection.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio_util::sync::CancellationToken;

/// The meaning of the end of a connection's input. A cheap clone, shared by the stream, the requests
/// and the responses of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct HalfClose(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    phase: Mutex<Phase>,
    input_ended: CancellationToken,
}

/// The state of a connection as far as the end of its input matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// A request is read, or none: hyper sees the end of the input itself.
    #[default]
    Reading,
    /// A whole request is answered: the client may wait for it.
    Answering,
    /// The response is a stream without an end, which nobody waits for.
    Streaming,
}

impl HalfClose {
    pub(super) fn enter(&self, phase: Phase) {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    pub(super) fn phase(&self) -> Phase {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input has ended.
    ///
    /// # Errors
    /// When the connection is to end with its input.
    pub(super) fn note_end(&self) -> io::Result<()> {
        match self.phase() {
            Phase::Reading => Ok(()),
            Phase::Answering => {
                self.0.input_ended.cancel();
                Ok(())
            }
            Phase::Streaming => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Fires when the input has ended before the answer: the client may be gone.
    pub(super) fn input_ended(&self) -> CancellationToken {
        self.0.input_ended.clone()
    }
}

/// The body of a request, which notes when all of it has been read.
#[derive(Debug)]
pub(super) struct RequestBody {
    body: Incoming,
    half_close: HalfClose,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, half_close: HalfClose) -> Self {
        if body.is_end_stream() {
            half_close.enter(Phase::Answering);
        }
        Self { body, half_close }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.half_close.enter(Phase::Answering);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_input_is_told_to_an_answer_and_ends_a_stream() {
        let half_close = HalfClose::default();
        half_close.note_end().expect("hyper sees it");
        assert!(!half_close.input_ended().is_cancelled());
        half_close.enter(Phase::Streaming);
        half_close.note_end().unwrap_err();
        assert!(!half_close.input_ended().is_cancelled());
        half_close.enter(Phase::Answering);
        half_close.note_end().unwrap();
        assert!(half_close.input_ended().is_cancelled());
    }
}
