//! A body that is read while it is sent: one block at a time, when the connection wants it.

use std::io;

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;

use super::coding::Encoder;
use crate::ids::JobId;
use crate::telemetry::events;
use crate::yard::RawReader;

/// Bytes on their way to a client.
pub(super) struct Sending {
    pub(super) job: JobId,
    pub(super) blocks: RawReader,
    pub(super) encoder: Encoder,
    /// Held while an encoder is.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Sending {
    /// The body. Nothing is read ahead and no thread is held between two blocks: a slow reader
    /// costs one block, and one that hangs up ends the reading. A read that fails breaks the
    /// connection, so that no client takes a part for the whole.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(stream::try_unfold(self, next))
    }

    /// The next bytes to send. Blocks while the disk does.
    fn advance(mut self) -> io::Result<Option<(Bytes, Self)>> {
        while let Some(block) = self.blocks.next_block()? {
            let ready = self.encoder.push(block)?;
            if !ready.is_empty() {
                return Ok(Some((ready.into(), self)));
            }
        }
        let rest = self.encoder.finish()?;
        Ok((!rest.is_empty()).then_some((rest.into(), self)))
    }
}

async fn next(sending: Sending) -> io::Result<Option<(Bytes, Sending)>> {
    let job = sending.job;
    let read = spawn_blocking(move || sending.advance()).await;
    let read = read.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
    read.inspect_err(|error| events::output_unreadable(job, error))
}
