//! The issuer's keys, kept, and fetched again in time.

use std::error::Error as _;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::{Mutex, watch};

use super::discover::{DiscoverError, keys_url};
use super::fetch::{FetchError, fetch};
use super::key_set::{KeySet, KeySetError};
use super::settings::KeySource;
use crate::bounded_read::BoundedReadError;
use crate::http::auth::watched::Watched;
use crate::private_files::Links;
use crate::telemetry::events;

/// The least time between two fetches, whatever tokens say.
const AT_MOST_EVERY: Duration = Duration::from_secs(10);

/// Keys of an issuer. A cheap clone.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    /// In a file, read again when it changed.
    File(Arc<FileKeys>),
    /// At a URL.
    Remote(Arc<RemoteKeys>),
}

/// Why there are no new keys; the old ones are kept.
#[derive(Debug, Error)]
enum KeysError {
    #[error("the file cannot be read")]
    File(#[from] BoundedReadError),
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error("the keys cannot be fetched")]
    Fetch(#[from] FetchError),
    #[error("the keys cannot be used")]
    KeySet(#[from] KeySetError),
}

impl Keys {
    /// The keys of `issuer`; none are read or fetched yet.
    pub(super) fn new(source: KeySource, issuer: &str, refresh: Duration) -> Self {
        let place = match source {
            KeySource::File(path) => {
                let file = StdMutex::new((Watched::new(path, Links::Follow), None));
                return Self::File(Arc::new(FileKeys { file }));
            }
            KeySource::Url(url) => Place::Url(url),
            KeySource::Issuer => Place::Issuer(issuer.to_owned()),
        };
        let current = watch::Sender::new(None);
        Self::Remote(Arc::new(RemoteKeys { place, refresh, tried: Mutex::new(None), current }))
    }

    /// The keys as they are, if there are any; a refresh that is due goes on by itself.
    pub(super) async fn now(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::File(file) => file.now(),
            Self::Remote(remote) => remote.now().await,
        }
    }

    /// The keys after a token named one that is not among them.
    pub(super) async fn renewed(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::File(file) => file.now(),
            Self::Remote(remote) => {
                Box::pin(remote.fetch_if(Wish::Unknown)).await;
                remote.kept()
            }
        }
    }
}

/// Keys in a file.
#[derive(Debug)]
pub(super) struct FileKeys {
    file: StdMutex<(Watched, Option<Arc<KeySet>>)>,
}

impl FileKeys {
    fn now(&self) -> Option<Arc<KeySet>> {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, keys) = &mut *guard;
        if let Some(text) = file.changed() {
            let read = text.map_err(KeysError::from);
            match read.and_then(|text| Ok(KeySet::parse(text.as_bytes())?)) {
                Ok(new) => *keys = Some(Arc::new(new)),
                Err(error) => {
                    let cause = error.source().map(|cause| format!(": {cause}"));
                    events::keys_not_renewed(&format!("{error}{}", cause.unwrap_or_default()));
                }
            }
        }
        keys.clone()
    }
}

/// Keys at a URL.
#[derive(Debug)]
pub(super) struct RemoteKeys {
    place: Place,
    refresh: Duration,
    /// When they were fetched last, with or without success; held while they are fetched.
    tried: Mutex<Option<Instant>>,
    current: watch::Sender<Option<Kept>>,
}

#[derive(Debug)]
enum Place {
    Url(String),
    /// Where this issuer's metadata says.
    Issuer(String),
}

#[derive(Debug)]
struct Kept {
    keys: Arc<KeySet>,
    since: Instant,
}

/// Why keys are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// To know them at all, or to know them anew after a while.
    Usual,
    /// A token names a key that is not known.
    Unknown,
}

impl RemoteKeys {
    async fn now(self: &Arc<Self>) -> Option<Arc<KeySet>> {
        match self.age(Instant::now()) {
            // Boxed, here and below: whoever asks would else be as large as a fetch, which is rare.
            None => Box::pin(self.fetch_if(Wish::Usual)).await,
            // Nobody waits for what is only a precaution.
            Some(age) if age >= self.refresh => {
                let keys = Arc::clone(self);
                tokio::spawn(async move { keys.fetch_if(Wish::Usual).await });
            }
            Some(_) => {}
        }
        self.kept()
    }

    fn kept(&self) -> Option<Arc<KeySet>> {
        self.current.borrow().as_ref().map(|kept| Arc::clone(&kept.keys))
    }

    fn age(&self, now: Instant) -> Option<Duration> {
        self.current.borrow().as_ref().map(|kept| now.saturating_duration_since(kept.since))
    }

    /// Fetches the keys if that is due; who comes meanwhile waits for the same fetch.
    async fn fetch_if(&self, wish: Wish) {
        let mut tried = self.tried.lock().await;
        let now = Instant::now();
        let since_try = tried.map(|tried| now.saturating_duration_since(tried));
        if !is_due(wish, since_try, self.age(now), self.refresh) {
            return;
        }
        *tried = Some(now);
        match self.fetch().await {
            Ok(keys) => {
                self.current.send_replace(Some(Kept { keys: Arc::new(keys), since: now }));
            }
            Err(error) => events::keys_not_renewed(&error),
        }
    }

    async fn fetch(&self) -> Result<KeySet, KeysError> {
        let json = match &self.place {
            Place::Url(url) => fetch(url).await?,
            Place::Issuer(issuer) => fetch(&keys_url(issuer).await?).await?,
        };
        Ok(KeySet::parse(&json)?)
    }
}

/// Whether keys of this age, tried for so long ago, are to be fetched.
fn is_due(
    wish: Wish,
    since_try: Option<Duration>,
    age: Option<Duration>,
    refresh: Duration,
) -> bool {
    let may = since_try.is_none_or(|since| since >= AT_MOST_EVERY);
    let should = match wish {
        Wish::Usual => age.is_none_or(|age| age >= refresh),
        Wish::Unknown => true,
    };
    may && should
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fetched_when_due_and_never_too_often() {
        let s = Duration::from_secs;
        for (wish, since_try, age, expected) in [
            (Wish::Usual, None, None, true),
            (Wish::Usual, Some(s(9)), None, false),
            (Wish::Usual, Some(s(10)), None, true),
            (Wish::Usual, Some(s(299)), Some(s(299)), false),
            (Wish::Usual, Some(s(300)), Some(s(300)), true),
            // The last try failed.
            (Wish::Usual, Some(s(5)), Some(s(305)), false),
            (Wish::Unknown, Some(s(9)), Some(s(9)), false),
            (Wish::Unknown, Some(s(10)), Some(s(10)), true),
            (Wish::Unknown, None, None, true),
        ] {
            let due = is_due(wish, since_try, age, s(300));
            assert_eq!(due, expected, "{wish:?} {since_try:?} {age:?}");
        }
    }
}
