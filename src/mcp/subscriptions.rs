//! Change notifications: a client that follows an output is notified when it grows and when it is
//! over; a client that has read the list is notified when jobs appear.
//!
//! ```text
//! legacy   resources/subscribe   → command → manager (one per connection) → one task per output
//! modern   subscriptions/listen  → the call itself, which lasts as long as its stream
//! ```
//!
//! **Invariant:** notifications end with their connection: the manager, which ends with the handler
//! that holds its sender, or the `listen` call owns every task that sends them.
//! **Invariant:** a follower has at most one notification in flight, so a client that does not read
//! delays only its own notifications.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::{
    ResourceListChangedNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
    ServerNotification,
};
use rmcp::service::{Peer, RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::sleep;

use super::resources;
use super::resources::{ByteRange, OutputUri};
use crate::service::{JobHandle, TenantClient};
use crate::spec::Stream;
use crate::telemetry::events;
use crate::telemetry::events::ActiveSubscription;

/// The most outputs that one connection may follow.
const MAX_FOLLOWED: usize = 100;
/// Commands that wait for the manager, which never blocks.
const COMMAND_QUEUE: usize = 16;

/// The subscriptions of one connection.
#[derive(Debug)]
pub(super) struct Subscriptions {
    permits: Arc<Semaphore>,
    manager: OnceLock<mpsc::Sender<SubscriptionCommand>>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_FOLLOWED)), manager: OnceLock::new() }
    }
}

/// Commands from a legacy connection's calls to its manager.
#[derive(Debug)]
enum SubscriptionCommand {
    /// Follow this output; replaces an earlier follower of the same URI. Boxed: the queue of commands
    /// has room for many, and each connection has one.
    Follow(Box<OutputFollower>),
    /// Stop following the output at this URI. The sender is dropped once that is done.
    Unfollow(String, oneshot::Sender<()>),
    /// Notify when jobs appear, if that is not done already.
    FollowList(watch::Receiver<()>, Notifier),
}

impl Subscriptions {
    /// Starts to notify a legacy client about this output.
    pub(super) async fn follow(
        &self,
        client: &TenantClient,
        uri: &str,
        notifier: Notifier,
    ) -> Result<(), ErrorData> {
        let follower = self.create_follower(client, uri, notifier).await?;
        self.send(SubscriptionCommand::Follow(Box::new(follower))).await;
        Ok(())
    }

    /// Stops the notifications about an output. An unknown URI is not an error.
    pub(super) async fn unfollow(&self, uri: String) {
        let (done, stopped) = oneshot::channel();
        self.send(SubscriptionCommand::Unfollow(uri, done)).await;
        // Nothing is sent; the sender is dropped.
        stopped.await.ok();
    }

    /// Starts to notify a legacy client when jobs appear.
    pub(super) async fn follow_list(&self, client: &TenantClient, notifier: Notifier) {
        self.send(SubscriptionCommand::FollowList(client.watch_new_jobs(), notifier)).await;
    }

    /// Sends a modern client the notifications that it asked for, until it closes the stream.
    pub(super) async fn listen(
        &self,
        client: &TenantClient,
        context: &SubscriptionContext,
    ) -> Result<(), ErrorData> {
        let notifier = Notifier::Modern(context.sink().clone());
        let accepted = context.accepted();
        // Dropping the set at the end of the call ends its tasks.
        let mut followers = JoinSet::new();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            followers.spawn(self.create_follower(client, uri, notifier.clone()).await?.run());
        }
        if accepted.resources_list_changed == Some(true) {
            followers.spawn(follow_list(client.watch_new_jobs(), notifier));
        }
        // Even if nothing more can change, the client closes the stream.
        context.cancelled().await;
        Ok(())
    }

    async fn create_follower(
        &self,
        client: &TenantClient,
        uri: &str,
        notifier: Notifier,
    ) -> Result<OutputFollower, ErrorData> {
        let (parsed_uri, job) = resources::find(client, uri).await?;
        // Notifications carry the URI as the client gave it, so it must name a whole output.
        let whole = OutputUri { range: ByteRange::WHOLE, ..parsed_uri };
        if whole.uri() != uri {
            let message =
                format!("only whole outputs are followed: subscribe to `{}`", whole.uri());
            return Err(ErrorData::invalid_params(message, None));
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            let message = format!(
                "{MAX_FOLLOWED} outputs are followed on this connection already; unsubscribe from one first"
            );
            ErrorData::invalid_params(message, None)
        })?;
        Ok(OutputFollower::new(job, parsed_uri, notifier, permit))
    }

    async fn send(&self, command: SubscriptionCommand) {
        let manager = self.manager.get_or_init(|| {
            let (commands, received) = mpsc::channel(COMMAND_QUEUE);
            tokio::spawn(run_manager(received));
            commands
        });
        // The manager lives as long as this sender.
        manager.send(command).await.ok();
    }
}

/// Owns the followers of one legacy connection; they end with it.
async fn run_manager(mut commands: mpsc::Receiver<SubscriptionCommand>) {
    let mut followers = JoinSet::new();
    let mut by_uri: HashMap<String, AbortHandle> = HashMap::new();
    let mut leaving: HashMap<Id, oneshot::Sender<()>> = HashMap::new();
    let mut list = None;
    loop {
        let command = tokio::select! {
            command = commands.recv() => command,
            Some(left) = followers.join_next_with_id() => {
                by_uri.retain(|_, follower| !follower.is_finished());
                // Dropping the sender tells the caller that the follower has ended.
                leaving.remove(&left.map_or_else(|error| error.id(), |(id, ())| id));
                continue;
            }
        };
        match command {
            Some(SubscriptionCommand::Follow(follower)) => {
                let uri = follower.uri.clone();
                let earlier = by_uri.insert(uri, followers.spawn(follower.run()));
                earlier.iter().for_each(AbortHandle::abort);
            }
            Some(SubscriptionCommand::Unfollow(uri, done)) => {
                if let Some(follower) = by_uri.remove(&uri) {
                    follower.abort();
                    leaving.insert(follower.id(), done);
                }
            }
            Some(SubscriptionCommand::FollowList(new_jobs, notifier)) => {
                list.get_or_insert_with(|| followers.spawn(follow_list(new_jobs, notifier)));
            }
            None => return,
        }
    }
}

/// The pause between two notifications about the same resource, however often it changes.
const NOTIFY_INTERVAL: Duration = Duration::from_secs(1);

/// The pause between two notifications about the list of jobs. Clients read the whole list again
/// after each one.
const LIST_NOTIFY_INTERVAL: Duration = Duration::from_secs(10);

/// The longest time between the acknowledgement to a client and the first observation.
const RECENT: Duration = Duration::from_secs(2);

/// The connection over which a client is notified.
#[derive(Debug, Clone)]
pub(super) enum Notifier {
    /// A connection with one service for all calls.
    Legacy(Peer<RoleServer>),
    /// An HTTP session, whose services end with their calls.
    Session(SessionNotifier),
    Modern(SubscriptionSink),
}

/// Notifies the client of an HTTP session. Each request of the session carries one in its
/// extensions.
#[derive(Clone)]
pub(crate) struct SessionNotifier(Arc<dyn Fn(ServerNotification) -> bool + Send + Sync>);

impl SessionNotifier {
    /// Creates a notifier from a function that returns `false` once the session has ended.
    pub(crate) fn new(send: impl Fn(ServerNotification) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    fn notify(&self, notification: ServerNotification) -> Result<(), ClientGone> {
        if (self.0)(notification) { Ok(()) } else { Err(ClientGone) }
    }
}

impl fmt::Debug for SessionNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionNotifier").finish_non_exhaustive()
    }
}

/// The error for a client that is gone or no longer listens.
#[derive(Debug)]
struct ClientGone;

impl Notifier {
    /// Returns the way to notify the legacy client of a request after its call.
    pub(super) fn for_legacy(context: &RequestContext<RoleServer>) -> Self {
        match context.extensions.get::<SessionNotifier>() {
            Some(session) => Self::Session(session.clone()),
            None => Self::Legacy(context.peer.clone()),
        }
    }

    async fn notify_updated(&self, uri: &str) -> Result<(), ClientGone> {
        match self {
            Self::Legacy(peer) => {
                let params = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(params).await.map_err(|_| ClientGone)
            }
            Self::Session(session) => {
                let params = ResourceUpdatedNotificationParam::new(uri);
                session.notify(ResourceUpdatedNotification::new(params).into())
            }
            Self::Modern(sink) => sink.notify_resource_updated(uri).await.map_err(|_| ClientGone),
        }
    }

    async fn notify_list_changed(&self) -> Result<(), ClientGone> {
        match self {
            Self::Legacy(peer) => peer.notify_resource_list_changed().await.map_err(|_| ClientGone),
            Self::Session(session) => {
                session.notify(ResourceListChangedNotification::default().into())
            }
            Self::Modern(sink) => sink.notify_resource_list_changed().await.map_err(|_| ClientGone),
        }
    }
}

/// Notifies that jobs have appeared, at most once in ten seconds, until the client is gone.
async fn follow_list(mut new_jobs: watch::Receiver<()>, notifier: Notifier) {
    while new_jobs.changed().await.is_ok() && notifier.notify_list_changed().await.is_ok() {
        sleep(LIST_NOTIFY_INTERVAL).await;
    }
}

/// A follower of one output.
#[derive(Debug)]
struct OutputFollower {
    job: JobHandle,
    stream: Option<Stream>,
    uri: String,
    notifier: Notifier,
    /// The state that the client already knows.
    known: OutputObservation,
    _permit: OwnedSemaphorePermit,
    _active: ActiveSubscription,
}

impl OutputFollower {
    /// Creates a follower; `permit` is its share of the connection's limit.
    fn new(
        job: JobHandle,
        parsed_uri: OutputUri,
        notifier: Notifier,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let stream = parsed_uri.stream;
        let now = observe(&job, stream);
        let known = match &notifier {
            Notifier::Legacy(_) | Notifier::Session(_) => now,
            // The client was acknowledged a moment ago: output since then must not be missed.
            Notifier::Modern(_) if has_written_recently(&job) => {
                OutputObservation { bytes: 0, total_bytes: 0, ..now }
            }
            Notifier::Modern(_) => now,
        };
        Self {
            job,
            stream,
            uri: parsed_uri.uri(),
            notifier,
            known,
            _permit: permit,
            _active: events::subscription_opened(),
        }
    }

    /// Notifies when the output grew, at most once a second, and always that the job has ended; for
    /// a job that has already ended, at once. Returns when nothing more can come, or the client is
    /// gone.
    async fn run(self) {
        let mut reported = OutputObservation { finished: false, closed: false, ..self.known };
        while !reported.is_over() {
            self.wait_for_change(reported).await;
            let now = observe(&self.job, self.stream);
            if now.is_change_from(reported)
                && self.notifier.notify_updated(&self.uri).await.is_err()
            {
                return;
            }
            reported = now;
            sleep(NOTIFY_INTERVAL).await;
        }
    }

    /// Returns once something may have changed.
    async fn wait_for_change(&self, reported: OutputObservation) {
        tokio::select! {
            () = self.job.output().wait_past(reported.total_bytes), if !reported.closed => {}
            _ = self.job.finished(), if !reported.finished => {}
        }
    }
}

fn observe(job: &JobHandle, stream: Option<Stream>) -> OutputObservation {
    // Read the status first: a job seen as finished has written the output that is observed after.
    let finished = job.status().ending().is_some();
    let progress = job.output().progress();
    OutputObservation {
        bytes: progress.bytes_of(stream),
        total_bytes: progress.total_bytes,
        finished,
        closed: progress.closed,
    }
}

/// `true` if the job wrote within the last [`RECENT`].
fn has_written_recently(job: &JobHandle) -> bool {
    job.output().progress().last_output.is_some_and(|at| at.elapsed() < RECENT)
}

/// The state of an output at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OutputObservation {
    /// Bytes of the followed stream, or of both.
    bytes: u64,
    /// Bytes of both streams.
    total_bytes: u64,
    finished: bool,
    /// No more output can come: the job's surviving processes have ended too.
    closed: bool,
}

impl OutputObservation {
    const fn is_change_from(self, reported: Self) -> bool {
        self.bytes != reported.bytes || self.finished != reported.finished
    }

    const fn is_over(self) -> bool {
        self.finished && self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_and_the_end_are_reported_and_the_other_stream_is_not() {
        let seen = OutputObservation { bytes: 5, total_bytes: 9, finished: false, closed: false };
        assert!(!OutputObservation { total_bytes: 12, ..seen }.is_change_from(seen));
        assert!(!OutputObservation { closed: true, ..seen }.is_change_from(seen));
        assert!(OutputObservation { bytes: 6, ..seen }.is_change_from(seen));
        assert!(OutputObservation { finished: true, ..seen }.is_change_from(seen));
        assert!(
            !OutputObservation { finished: true, ..seen }.is_over(),
            "survivors may still write"
        );
        assert!(OutputObservation { finished: true, closed: true, ..seen }.is_over());
    }
}
