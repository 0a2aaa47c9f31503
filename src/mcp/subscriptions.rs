//! Notices of change: a client that follows an output hears when it grew and when it is over, one
//! that has seen the list hears when jobs appear.
//!
//! ```text
//! legacy   resources/subscribe   → Wish → keeper (one task per connection) → one task per output
//! modern   subscriptions/listen  → the call itself, which lasts as long as its stream
//! ```
//!
//! **Invariant:** notices end with their connection: whoever sends them is owned by the keeper,
//! which ends with the handler that holds its sender, or by the call.
//! **Invariant:** a follower has at most one notice on its way, so a client that does not read
//! delays its own notices and nothing else.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::sleep;

use super::resources;
use super::resources::{Address, ByteRange};
use crate::service::{JobHandle, TenantClient};
use crate::spec::Stream;
use crate::telemetry::events;
use crate::telemetry::events::ActiveSubscription;

/// Outputs that one connection may follow at a time.
const MAX_FOLLOWED: usize = 100;
/// Wishes that wait for the keeper, which never waits itself.
const WISHES: usize = 16;

/// What one connection follows.
#[derive(Debug)]
pub(super) struct Subscriptions {
    room: Arc<Semaphore>,
    keeper: OnceLock<mpsc::Sender<Wish>>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_FOLLOWED)), keeper: OnceLock::new() }
    }
}

/// From a legacy connection's calls to its keeper.
#[derive(Debug)]
enum Wish {
    /// Follow this output, instead of following it already.
    Follow(Follower),
    /// Follow the output at this address no longer. The other half is dropped when that holds.
    Forget(String, oneshot::Sender<()>),
    /// Say when jobs appear, if that is not done already.
    FollowList(watch::Receiver<()>, Voice),
}

impl Subscriptions {
    /// From now on a legacy client hears of changes of this output.
    pub(super) async fn follow(
        &self,
        client: &TenantClient,
        uri: &str,
        peer: Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let follower = self.follower(client, uri, Voice::Legacy(peer)).await?;
        self.wish(Wish::Follow(follower)).await;
        Ok(())
    }

    /// From now on it hears of them no longer. That it never did is no mistake.
    pub(super) async fn forget(&self, uri: String) {
        let (done, holds) = oneshot::channel();
        self.wish(Wish::Forget(uri, done)).await;
        // Nothing is sent; its sender is dropped.
        holds.await.ok();
    }

    /// From now on a legacy client hears when jobs appear.
    pub(super) async fn follow_list(&self, client: &TenantClient, peer: Peer<RoleServer>) {
        self.wish(Wish::FollowList(client.watch_new_jobs(), Voice::Legacy(peer))).await;
    }

    /// Sends a modern client what it asked for, until it asks no longer.
    pub(super) async fn listen(
        &self,
        client: &TenantClient,
        context: &SubscriptionContext,
    ) -> Result<(), ErrorData> {
        let voice = Voice::Modern(context.sink().clone());
        let accepted = context.accepted();
        // Dropped at the end of the call, it ends those who are in it.
        let mut followers = JoinSet::new();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            followers.spawn(self.follower(client, uri, voice.clone()).await?.run());
        }
        if accepted.resources_list_changed == Some(true) {
            followers.spawn(follow_list(client.watch_new_jobs(), voice));
        }
        // Also when nothing more can change: the stream is the client's to close.
        context.cancelled().await;
        Ok(())
    }

    async fn follower(
        &self,
        client: &TenantClient,
        uri: &str,
        voice: Voice,
    ) -> Result<Follower, ErrorData> {
        let (address, job) = resources::find(client, uri).await?;
        // Notices carry the address as it was given, which must therefore be the one of all.
        let whole = Address { range: ByteRange::WHOLE, ..address };
        if whole.uri() != uri {
            let message =
                format!("only whole outputs are followed: subscribe to `{}`", whole.uri());
            return Err(ErrorData::invalid_params(message, None));
        }
        let room = Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            let message = format!(
                "{MAX_FOLLOWED} outputs are followed on this connection already; unsubscribe from one first"
            );
            ErrorData::invalid_params(message, None)
        })?;
        Ok(Follower::new(job, address, voice, room))
    }

    async fn wish(&self, wish: Wish) {
        let keeper = self.keeper.get_or_init(|| {
            let (wishes, received) = mpsc::channel(WISHES);
            tokio::spawn(keep(received));
            wishes
        });
        // The keeper lives as long as this sender does.
        keeper.send(wish).await.ok();
    }
}

/// Holds the followers of one legacy connection; they end with it.
async fn keep(mut wishes: mpsc::Receiver<Wish>) {
    let mut followers = JoinSet::new();
    let mut by_uri: HashMap<String, AbortHandle> = HashMap::new();
    let mut leaving: HashMap<Id, oneshot::Sender<()>> = HashMap::new();
    let mut list = None;
    loop {
        let wish = tokio::select! {
            wish = wishes.recv() => wish,
            Some(left) = followers.join_next_with_id() => {
                by_uri.retain(|_, follower| !follower.is_finished());
                // Whoever waits for that hears it by this.
                leaving.remove(&left.map_or_else(|error| error.id(), |(id, ())| id));
                continue;
            }
        };
        match wish {
            Some(Wish::Follow(follower)) => {
                let uri = follower.uri().to_owned();
                let earlier = by_uri.insert(uri, followers.spawn(follower.run()));
                earlier.iter().for_each(AbortHandle::abort);
            }
            Some(Wish::Forget(uri, done)) => {
                if let Some(follower) = by_uri.remove(&uri) {
                    follower.abort();
                    leaving.insert(follower.id(), done);
                }
            }
            Some(Wish::FollowList(appearances, voice)) => {
                list.get_or_insert_with(|| followers.spawn(follow_list(appearances, voice)));
            }
            None => return,
        }
    }
}

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
