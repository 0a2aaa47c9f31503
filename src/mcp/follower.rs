//! Follows one output, or the list of jobs, and says when it changed.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use super::address::Address;
use crate::spec::Stream;
use crate::telemetry::events::{self, ActiveSubscription};
use crate::yard::JobHandle;

/// From one notice about the same thing to the next, however often it changes.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest time between the word that a client listens and our first look.
const FRESH: Duration = Duration::from_secs(2);

/// The way to a client.
#[derive(Debug, Clone)]
pub(super) enum Voice {
    Legacy(Peer<RoleServer>),
    Modern(SubscriptionSink),
}

/// The client is gone, or no longer listens.
#[derive(Debug)]
struct Gone;

impl Voice {
    async fn updated(&self, uri: &str) -> Result<(), Gone> {
        match self {
            Self::Legacy(peer) => {
                let params = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(params).await.map_err(|_| Gone)
            }
            Self::Modern(sink) => sink.notify_resource_updated(uri).await.map_err(|_| Gone),
        }
    }

    async fn list_changed(&self) -> Result<(), Gone> {
        match self {
            Self::Legacy(peer) => peer.notify_resource_list_changed().await.map_err(|_| Gone),
            Self::Modern(sink) => sink.notify_resource_list_changed().await.map_err(|_| Gone),
        }
    }
}

/// Says that jobs have appeared, at most once a second, until the client is gone.
pub(super) async fn follow_list(mut appearances: watch::Receiver<()>, voice: Voice) {
    while appearances.changed().await.is_ok() && voice.list_changed().await.is_ok() {
        sleep(PAUSE).await;
    }
}

/// Follows one output.
#[derive(Debug)]
pub(super) struct Follower {
    job: JobHandle,
    stream: Option<Stream>,
    uri: String,
    voice: Voice,
    /// What the client need not be told.
    known: Seen,
    _room: OwnedSemaphorePermit,
    _counted: ActiveSubscription,
}

impl Follower {
    /// Follows the output of `job` at `address`; `room` is its share of what a connection may.
    pub(super) fn new(
        job: JobHandle,
        address: Address,
        voice: Voice,
        room: OwnedSemaphorePermit,
    ) -> Self {
        let stream = address.stream;
        let now = look(&job, stream);
        let known = match &voice {
            Voice::Legacy(_) => now,
            // It was told that it listens a moment before: what came since must not be missed.
            Voice::Modern(_) if is_fresh(&job) => Seen { bytes: 0, total_bytes: 0, ..now },
            Voice::Modern(_) => now,
        };
        Self {
            job,
            stream,
            uri: address.uri(),
            voice,
            known,
            _room: room,
            _counted: events::subscription_opened(),
        }
    }

    /// The address that it follows.
    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Says when the output grew, at most once a second, and, always, that the job has ended; of
    /// a job that has ended already, at once. Returns when no more can come, or the client is gone.
    pub(super) async fn run(self) {
        let mut told = Seen { finished: false, closed: false, ..self.known };
        while !told.is_over() {
            self.change(told).await;
            let now = look(&self.job, self.stream);
            if now.is_news_after(told) && self.voice.updated(&self.uri).await.is_err() {
                return;
            }
            told = now;
            sleep(PAUSE).await;
        }
    }

    /// Returns once something may have changed.
    async fn change(&self, told: Seen) {
        tokio::select! {
            () = self.job.output().wait_past(told.total_bytes), if !told.closed => {}
            _ = self.job.finished(), if !told.finished => {}
        }
    }
}

fn look(job: &JobHandle, stream: Option<Stream>) -> Seen {
    // The status first: a job that is seen as finished has written what is seen after.
    let finished = job.status().ending().is_some();
    let progress = job.output().progress();
    Seen {
        bytes: progress.bytes_of(stream),
        total_bytes: progress.total_bytes,
        finished,
        closed: progress.closed,
    }
}

/// Whether it wrote something only just.
fn is_fresh(job: &JobHandle) -> bool {
    job.output().progress().last_output.is_some_and(|at| at.elapsed() < FRESH)
}

/// What was seen of an output at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// Of what is followed.
    bytes: u64,
    /// Of both streams.
    total_bytes: u64,
    finished: bool,
    /// Nothing will be written any more: processes that outlived the job have ended as well.
    closed: bool,
}

impl Seen {
    const fn is_news_after(self, told: Self) -> bool {
        self.bytes != told.bytes || self.finished != told.finished
    }

    const fn is_over(self) -> bool {
        self.finished && self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_and_the_end_are_news_and_the_other_stream_is_none() {
        let seen = Seen { bytes: 5, total_bytes: 9, finished: false, closed: false };
        assert!(!Seen { total_bytes: 12, ..seen }.is_news_after(seen));
        assert!(!Seen { closed: true, ..seen }.is_news_after(seen));
        assert!(Seen { bytes: 6, ..seen }.is_news_after(seen));
        assert!(Seen { finished: true, ..seen }.is_news_after(seen));
        assert!(!Seen { finished: true, ..seen }.is_over(), "survivors may still write");
        assert!(Seen { finished: true, closed: true, ..seen }.is_over());
    }
}
