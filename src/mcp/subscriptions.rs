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

use rmcp::service::{Peer, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinSet};

use super::address::{Address, ByteRange};
use super::follower::{Follower, Voice, follow_list};
use super::resources;
use crate::yard::Desk;

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
        desk: &Desk,
        uri: &str,
        peer: Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let follower = self.follower(desk, uri, Voice::Legacy(peer)).await?;
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
    pub(super) async fn follow_list(&self, desk: &Desk, peer: Peer<RoleServer>) {
        self.wish(Wish::FollowList(desk.appearances(), Voice::Legacy(peer))).await;
    }

    /// Sends a modern client what it asked for, until it asks no longer.
    pub(super) async fn listen(
        &self,
        desk: &Desk,
        context: &SubscriptionContext,
    ) -> Result<(), ErrorData> {
        let voice = Voice::Modern(context.sink().clone());
        let accepted = context.accepted();
        // Dropped at the end of the call, it ends those who are in it.
        let mut followers = JoinSet::new();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            followers.spawn(self.follower(desk, uri, voice.clone()).await?.run());
        }
        if accepted.resources_list_changed == Some(true) {
            followers.spawn(follow_list(desk.appearances(), voice));
        }
        // Also when nothing more can change: the stream is the client's to close.
        context.cancelled().await;
        Ok(())
    }

    async fn follower(&self, desk: &Desk, uri: &str, voice: Voice) -> Result<Follower, ErrorData> {
        let (address, job) = resources::find(desk, uri).await?;
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
