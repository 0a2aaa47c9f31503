//! The stream to a client, with a time limit for writes.
//!
//! Nothing else would end a response that nobody reads: it would hold its buffers, and in a legacy
//! session everything behind it, for as long as the client keeps the connection open.
//!
//! While a request is answered, the stream also checks whether the client has ended its side, which
//! hyper does not do (see [`HalfClose`]).

use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::connection_table::BusyGuard;
use crate::telemetry::{HttpRefusalReason, events};

/// Keeps a connection busy after its response has been produced. Clones are cheap: the stream and
/// the responses share one.
#[derive(Debug, Clone, Default)]
pub(super) struct BusyHold(Arc<Mutex<HeldGuard>>);

#[derive(Debug, Default)]
enum HeldGuard {
    #[default]
    Nothing,
    /// A response whose last bytes are not yet written.
    UntilFlushed { _busy: BusyGuard },
    /// An upgraded stream, which lives on after HTTP.
    UntilClosed { _busy: BusyGuard },
}

impl BusyHold {
    /// Keeps the connection busy until everything has been written.
    pub(super) fn hold_until_flushed(&self, busy: BusyGuard) {
        self.replace(HeldGuard::UntilFlushed { _busy: busy });
    }

    /// Keeps the connection busy until the stream is closed.
    pub(super) fn hold_until_closed(&self, busy: BusyGuard) {
        self.replace(HeldGuard::UntilClosed { _busy: busy });
    }

    fn release_flushed(&self) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let HeldGuard::UntilFlushed { .. } = *held {
            *held = HeldGuard::Nothing;
        }
    }

    fn replace(&self, new: HeldGuard) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

/// A stream whose writes fail once the client has read nothing for `write_timeout`.
#[derive(Debug)]
pub(super) struct ClientStream<S> {
    inner: S,
    write_timeout: Duration,
    /// Runs while a write is blocked.
    waiting: Option<Pin<Box<Sleep>>>,
    busy_hold: BusyHold,
    half_close: HalfClose,
    input: PeekedInput,
}

/// The input that the stream has read ahead of hyper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeekedInput {
    Unknown,
    /// The next byte of the input, which must be read before all others.
    Byte(u8),
    Ended,
}

impl<S> ClientStream<S> {
    /// Wraps a stream; any single write may block for at most `write_timeout`.
    pub(super) const fn new(
        inner: S,
        write_timeout: Duration,
        busy_hold: BusyHold,
        half_close: HalfClose,
    ) -> Self {
        Self {
            inner,
            write_timeout,
            waiting: None,
            busy_hold,
            half_close,
            input: PeekedInput::Unknown,
        }
    }

    /// Returns the result of a write, or an error if writes have been blocked for too long.
    fn check_timeout<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.waiting = None;
            return write;
        }
        let write_timeout = self.write_timeout;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(write_timeout)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        events::connection_refused(HttpRefusalReason::Unread);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read what is sent to it",
        )))
    }
}

impl<S: AsyncRead + Unpin> ClientStream<S> {
    /// Checks for the end of the input while a request is answered. Any byte that comes instead
    /// belongs to the next request; one byte is enough to know.
    ///
    /// # Errors
    /// When the input cannot be read, or when the connection must end with it.
    fn peek_input(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.half_close.phase() == ConnectionPhase::Reading {
            return Ok(());
        }
        if self.input == PeekedInput::Unknown {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            self.input = match Pin::new(&mut self.inner).poll_read(cx, &mut buffer)? {
                Poll::Pending => PeekedInput::Unknown,
                Poll::Ready(()) => {
                    buffer.filled().first().copied().map_or(PeekedInput::Ended, PeekedInput::Byte)
                }
            };
        }
        match self.input {
            PeekedInput::Ended => self.half_close.note_input_end(),
            PeekedInput::Unknown | PeekedInput::Byte(_) => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let PeekedInput::Byte(byte) = self.input {
            self.input = PeekedInput::Unknown;
            buffer.put_slice(&[byte]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.check_timeout(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.check_timeout(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes whenever something has happened on the connection.
        self.peek_input(cx)?;
        let flush = Pin::new(&mut self.inner).poll_flush(cx);
        if flush.is_ready() {
            // hyper flushes once its own buffer is empty.
            self.busy_hold.release_flushed();
        }
        self.check_timeout(cx, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.check_timeout(cx, shutdown)
    }
}

/// The effect of the end of a connection's input. Clones are cheap; the stream, the requests and
/// the responses of one connection share one.
///
/// Clients may end their side of a connection before they receive the response, as `nc -N` does.
/// The end of the input does not end a call: `half_close` tells hyper so, and hyper then ignores
/// the input while it answers. Over TCP, however, a client that is gone looks the same until
/// something is sent to it. So [`ClientStream`] checks for the end of the input itself, and
/// responses that are event streams then send comments ([`super::keep_alive`]): a write that fails
/// ends the connection.
#[derive(Debug, Clone, Default)]
pub(super) struct HalfClose(Arc<HalfCloseState>);

#[derive(Debug, Default)]
struct HalfCloseState {
    phase: Mutex<ConnectionPhase>,
    input_ended: CancellationToken,
}

/// The phase of a connection, which decides what the end of its input means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// No request, or one that is being read: hyper sees the end of the input itself.
    #[default]
    Reading,
    /// A complete request is being answered: the client may wait for the response.
    Answering,
    /// The response is an endless event stream, for whose end no client waits.
    Streaming,
}

impl HalfClose {
    pub(super) fn enter(&self, phase: ConnectionPhase) {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    pub(super) fn phase(&self) -> ConnectionPhase {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the input has ended.
    ///
    /// # Errors
    /// When the connection must end with its input.
    pub(super) fn note_input_end(&self) -> io::Result<()> {
        match self.phase() {
            ConnectionPhase::Reading => Ok(()),
            ConnectionPhase::Answering => {
                self.0.input_ended.cancel();
                Ok(())
            }
            ConnectionPhase::Streaming => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Cancelled when the input ends before the response: the client may be gone.
    pub(super) fn input_ended(&self) -> CancellationToken {
        self.0.input_ended.clone()
    }
}

/// The body of a request; it records when it has been read completely.
#[derive(Debug)]
pub(super) struct RequestBody {
    body: Incoming,
    half_close: HalfClose,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, half_close: HalfClose) -> Self {
        if body.is_end_stream() {
            half_close.enter(ConnectionPhase::Answering);
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
            self.half_close.enter(ConnectionPhase::Answering);
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
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn stall<S>(inner: S, write_timeout: Duration) -> ClientStream<S> {
        ClientStream::new(inner, write_timeout, BusyHold::default(), HalfClose::default())
    }

    #[tokio::test]
    async fn a_look_ahead_takes_nothing_and_tells_of_the_end() {
        let (near, mut far) = duplex(16);
        let mut stream = stall(near, Duration::from_secs(3600));
        let half_close = stream.half_close.clone();
        half_close.enter(ConnectionPhase::Answering);
        stream.flush().await.unwrap();
        far.write_all(b"next").await.unwrap();
        stream.flush().await.unwrap();
        stream.flush().await.unwrap();
        let mut next = [0; 4];
        stream.read_exact(&mut next).await.unwrap();
        assert_eq!(&next, b"next");
        drop(far);
        assert!(!half_close.input_ended().is_cancelled());
        // An in-memory stream has no half-close. It only matters that the end was seen.
        stream.flush().await.ok();
        assert!(half_close.input_ended().is_cancelled());
        half_close.enter(ConnectionPhase::Streaming);
        stream.flush().await.unwrap_err();
    }

    #[tokio::test]
    async fn a_write_that_nobody_takes_fails() {
        let (near, _far) = duplex(16);
        let mut stalled = stall(near, Duration::from_millis(10));
        let error = stalled.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_but_reads_is_waited_for() {
        let (near, mut far) = duplex(1);
        let mut stalled = stall(near, Duration::from_secs(3600));
        for byte in 0..3 {
            stalled.write_u8(byte).now_or_never().expect("there is room").unwrap();
            assert!(stalled.waiting.is_none(), "what was taken ends the wait");
            assert!(stalled.write_u8(99).now_or_never().is_none(), "it is full");
            assert!(stalled.waiting.is_some());
            assert_eq!(far.read_u8().await.unwrap(), byte);
        }
    }

    #[tokio::test]
    async fn reading_is_not_limited() {
        let (near, mut far) = duplex(16);
        let mut stream = stall(near, Duration::from_millis(1));
        let read = tokio::spawn(async move { stream.read_u8().await });
        sleep(Duration::from_millis(20)).await;
        far.write_u8(9).await.unwrap();
        assert_eq!(read.await.unwrap().unwrap(), 9);
    }

    #[test]
    fn the_end_of_the_input_is_told_to_an_answer_and_ends_a_stream() {
        let half_close = HalfClose::default();
        half_close.note_input_end().expect("hyper sees it");
        assert!(!half_close.input_ended().is_cancelled());
        half_close.enter(ConnectionPhase::Streaming);
        half_close.note_input_end().unwrap_err();
        assert!(!half_close.input_ended().is_cancelled());
        half_close.enter(ConnectionPhase::Answering);
        half_close.note_input_end().unwrap();
        assert!(half_close.input_ended().is_cancelled());
    }
}
