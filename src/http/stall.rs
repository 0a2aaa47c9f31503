//! The stream to a client, which does not wait for ever for the client to read.
//!
//! Nothing else would end a response that nobody takes: it would hold its buffers, and in a
//! legacy session everything behind it, for as long as the client keeps the connection open.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connections::Busy;
use crate::telemetry::{Refusal, events};

/// What keeps a connection busy although its response has no more to say. A cheap clone, one
/// with the stream and one with the responses.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Keeping>>);

#[derive(Debug, Default)]
enum Keeping {
    #[default]
    Nothing,
    /// A response whose end has still to be written.
    UntilFlushed { _busy: Busy },
    /// An upgrade: the stream outlives its HTTP.
    UntilClosed { _busy: Busy },
}

impl Kept {
    /// Busy until everything has been written.
    pub(super) fn until_flushed(&self, busy: Busy) {
        self.replace(Keeping::UntilFlushed { _busy: busy });
    }

    /// Busy until the stream is closed.
    pub(super) fn until_closed(&self, busy: Busy) {
        self.replace(Keeping::UntilClosed { _busy: busy });
    }

    fn flushed(&self) {
        let mut keeping = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Keeping::UntilFlushed { .. } = *keeping {
            *keeping = Keeping::Nothing;
        }
    }

    fn replace(&self, new: Keeping) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

/// A stream whose writes fail once the other side has taken nothing for a while.
#[derive(Debug)]
pub(super) struct Stall<S> {
    inner: S,
    patience: Duration,
    /// Runs while a write has to wait.
    waiting: Option<Pin<Box<Sleep>>>,
    kept: Kept,
}

impl<S> Stall<S> {
    /// The same stream, which waits no longer than `patience` for any one write.
    pub(super) const fn new(inner: S, patience: Duration, kept: Kept) -> Self {
        Self { inner, patience, waiting: None, kept }
    }

    /// What a write came to, unless it has had to wait for too long.
    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.waiting = None;
            return write;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        events::connection_refused(Refusal::Unread);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read what is sent to it",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.judge(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.judge(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.inner).poll_flush(cx);
        if flush.is_ready() {
            // hyper flushes once its own buffer is empty.
            self.kept.flushed();
        }
        self.judge(cx, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, shutdown)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_write_that_nobody_takes_fails() {
        let (near, _far) = duplex(16);
        let mut stalled = Stall::new(near, Duration::from_millis(10), Kept::default());
        let error = stalled.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_but_reads_is_waited_for() {
        let (near, mut far) = duplex(1);
        let mut stalled = Stall::new(near, Duration::from_secs(3600), Kept::default());
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
        let mut stream = Stall::new(near, Duration::from_millis(1), Kept::default());
        let read = tokio::spawn(async move { stream.read_u8().await });
        sleep(Duration::from_millis(20)).await;
        far.write_u8(9).await.unwrap();
        assert_eq!(read.await.unwrap().unwrap(), 9);
    }
}
