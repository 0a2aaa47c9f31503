//! The stream to a client, which does not wait for ever for the client to read.
//!
//! Nothing else would end a response that nobody takes: it would hold its buffers, and in a
//! legacy session everything behind it, for as long as the client keeps the connection open.
//!
//! While a request is answered, the stream also looks whether the client has ended its side: hyper
//! does not (see [`HalfClose`]).

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

/// What keeps a connection busy although its response has no more to say. A cheap clone, one
/// with the stream and one with the responses.
#[derive(Debug, Clone, Default)]
pub(super) struct BusyHold(Arc<Mutex<HeldGuard>>);

#[derive(Debug, Default)]
enum HeldGuard {
    #[default]
    Nothing,
    /// A response whose end has still to be written.
    UntilFlushed { _busy: BusyGuard },
    /// An upgrade: the stream outlives its HTTP.
    UntilClosed { _busy: BusyGuard },
}

impl BusyHold {
    /// Busy until everything has been written.
    pub(super) fn hold_until_flushed(&self, busy: BusyGuard) {
        self.replace(HeldGuard::UntilFlushed { _busy: busy });
    }

    /// Busy until the stream is closed.
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

/// A stream whose writes fail once the other side has taken nothing for a while.
#[derive(Debug)]
pub(super) struct ClientStream<S> {
    inner: S,
    write_timeout: Duration,
    /// Runs while a write has to wait.
    waiting: Option<Pin<Box<Sleep>>>,
    busy_hold: BusyHold,
    half_close: HalfClose,
    input: PeekedInput,
}

/// What the stream knows of the input that hyper has not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeekedInput {
    Unknown,
    /// The first byte of it, to be read before all others.
    Byte(u8),
    Ended,
}

impl<S> ClientStream<S> {
    /// The same stream, which waits no longer than `patience` for any one write.
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

    /// What a write came to, unless it has had to wait for too long.
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
    /// Looks for the end of the input while a request is answered. What comes instead of it is the
    /// next request, of which one byte is enough to know.
    ///
    /// # Errors
    /// When the input cannot be read, or when the connection is to end with it.
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

/// The meaning of the end of a connection's input. A cheap clone, shared by the stream, the requests
/// and the responses of one connection.
///
/// Clients may end their side of a connection before they are answered, as `nc -N` does.
/// The end of the input does not end a call: hyper is told so (`half_close`), and looks at the input
/// no more while it answers. Over TCP, though, a client that is gone altogether looks the same until
/// something is sent to it. The stream to the client therefore looks for that end itself
/// ([`ClientStream`]), and responses that are streams send comments then ([`super::keep_alive`]): a write that
/// fails ends the connection.
#[derive(Debug, Clone, Default)]
pub(super) struct HalfClose(Arc<HalfCloseState>);

#[derive(Debug, Default)]
struct HalfCloseState {
    phase: Mutex<ConnectionPhase>,
    input_ended: CancellationToken,
}

/// The state of a connection as far as the end of its input matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// A request is read, or none: hyper sees the end of the input itself.
    #[default]
    Reading,
    /// A whole request is answered: the client may wait for it.
    Answering,
    /// The response is a stream without an end, which nobody waits for.
    Streaming,
}

impl HalfClose {
    pub(super) fn enter(&self, phase: ConnectionPhase) {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    pub(super) fn phase(&self) -> ConnectionPhase {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input has ended.
    ///
    /// # Errors
    /// When the connection is to end with its input.
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
        // A stream in memory has no half: what matters is that the end was seen.
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
