//! New settings from the same sources, while the server runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::error::AppError;
use super::values;
use crate::cli::talk;
use crate::config::{Changes, Loaded, Sources, load};
use crate::telemetry::{LogFilter, QueueGauges, events};
use crate::yard::{Identity, PressureWatch, Tuning, Yard};

/// The time for the file and the directories that the settings name.
const READ_TIME: Duration = Duration::from_secs(15);

/// What takes new settings over.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) yard: Yard,
    pub(super) pressure: watch::Sender<PressureWatch>,
    pub(super) gauges: Arc<QueueGauges>,
    pub(super) log: LogFilter,
}

/// Takes over what changed. A cheap clone.
#[derive(Debug, Clone)]
pub(super) struct Reload {
    live: Arc<Live>,
    sources: Sources,
    /// What the server was started with: what takes a restart differs from that, however often
    /// it is read again.
    started: Arc<Loaded>,
    /// What was read last. Held while a reload is under way, so that two never mix.
    last: Arc<Mutex<Loaded>>,
}

impl Reload {
    pub(super) fn new(live: Live, sources: Sources, loaded: Loaded) -> Self {
        let started = Arc::new(loaded.clone());
        Self { live: Arc::new(live), sources, started, last: Arc::new(Mutex::new(loaded)) }
    }

    /// What SIGHUP asks for.
    pub(super) async fn on_hangup(self) {
        // Whether it could be done is logged.
        self.now(Identity::LOCAL).await.ok();
    }

    /// Either everything new that a running server can take over holds from now on, or nothing
    /// does. Says which settings changed, or why none did.
    pub(super) async fn now(&self, by: Identity) -> Result<Changes, String> {
        let mut last = self.last.lock().await;
        let (loaded, tuning) = match self.read_in_time().await {
            Ok(read) => read,
            Err(error) => {
                let why = talk::with_causes(&error);
                self.live.yard.keep_tuning(&why, by);
                events::reload_refused(&why);
                return Err(why);
            }
        };
        let changes = Changes {
            live: Changes::between(&last, &loaded).live,
            restart: Changes::between(&self.started, &loaded).restart,
        };
        self.live.yard.tune(tuning, by, &changes.live).await;
        self.live.pressure.send_replace(values::pressure(&loaded.settings));
        self.live.gauges.learn(values::known_names(&loaded.settings));
        self.filter_log(&changes, &loaded);
        *last = loaded;
        events::reloaded(&changes.live, &changes.restart);
        Ok(changes)
    }

    /// A filter that somebody chose meanwhile stays, unless the configured one has changed.
    fn filter_log(&self, changes: &Changes, loaded: &Loaded) {
        if changes.live.iter().any(|key| key == "log.filter") {
            // The settings let nothing else through.
            self.live.log.configure(&loaded.settings.log.filter).ok();
        }
    }

    /// Reads the sources where waiting for a file system holds nobody up.
    async fn read_in_time(&self) -> Result<(Loaded, Tuning), AppError> {
        let reload = self.clone();
        match timeout(READ_TIME, spawn_blocking(move || reload.read())).await {
            Ok(Ok(read)) => read,
            Ok(Err(failed)) => Err(AppError::ReloadFails(failed)),
            Err(_) => Err(AppError::ReloadHangs { after: READ_TIME }),
        }
    }

    fn read(&self) -> Result<(Loaded, Tuning), AppError> {
        let loaded = load(self.sources.clone())?;
        let tuning = values::tuning(&loaded)?;
        Ok((loaded, tuning))
    }
}
