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

    /// Reads and encodes the next bytes to send.
    async fn advance(mut self) -> io::Result<Option<(Bytes, Self)>> {
        while let Some(block) = self.blocks.next_block().await? {
            let (ready, sending) = self.encode(move |encoder| encoder.push(block)).await?;
            self = sending;
            if !ready.is_empty() {
                return Ok(Some((ready.into(), self)));
            }
        }
        let (rest, sending) = self.encode(Encoder::finish).await?;
        Ok((!rest.is_empty()).then_some((rest.into(), sending)))
    }

    /// Uses the encoder, off the runtime where it compresses.
    async fn encode(
        mut self,
        act: impl FnOnce(&mut Encoder) -> io::Result<Vec<u8>> + Send + 'static,
    ) -> io::Result<(Vec<u8>, Self)> {
        let is_cheap = match &self.encoder {
            Encoder::Identity | Encoder::Ended => true,
            Encoder::Gzip(_) | Encoder::Zstd(_) => false,
        };
        let run = move || Ok((act(&mut self.encoder)?, self));
        if is_cheap { run() } else { spawn_blocking(run).await.map_err(io::Error::other)? }
    }
}

async fn next(sending: Sending) -> io::Result<Option<(Bytes, Sending)>> {
    let job = sending.job;
    sending.advance().await.inspect_err(|error| events::output_unreadable(job, error))
}
