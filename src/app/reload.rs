//! The reload of the settings, and the check whether another server could start with them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use super::durable::ProgramOrigin;
use super::error::AppError;
use super::module_settings;
use super::runtime::{BlockingError, BlockingSlot};
use super::tenants::ServedTenants;
use crate::cli::terminal;
use crate::config::{Changes, ConfigSources, Loaded, UnknownNames, load_with_unknown_names};
use crate::process::Host;
use crate::service::{CallerIdentity, JobService, LiveSettings, PressureWatch};
use crate::telemetry::{LogFilter, QueueGauges, events};

/// The time limit of a reload for reading the file and the directories that the settings name.
const RELOAD_READ_TIMEOUT: Duration = Duration::from_secs(15);

/// The parts of the server that take over new settings.
#[derive(Debug)]
pub(super) struct ReloadTargets {
    pub(super) host: Arc<Host>,
    pub(super) service: JobService,
    pub(super) pressure: watch::Sender<PressureWatch>,
    pub(super) gauges: Arc<QueueGauges>,
    pub(super) log_filter: LogFilter,
    pub(super) served: ServedTenants,
}

/// Reads the settings again from the same sources, and applies the changes. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Reloader {
    targets: Arc<ReloadTargets>,
    sources: ConfigSources,
    /// The settings at the start. Changes that need a restart are relative to these, however often the
    /// settings are read again.
    started: Arc<Loaded>,
    /// The settings that were read last. Locked during a reload, so that two reloads never mix.
    last: Arc<Mutex<Loaded>>,
    /// The thread that reads the settings.
    read_slot: BlockingSlot,
}

impl Reloader {
    pub(super) fn new(targets: ReloadTargets, sources: ConfigSources, loaded: Loaded) -> Self {
        let started = Arc::new(loaded.clone());
        let last = Arc::new(Mutex::new(loaded));
        let read_slot = BlockingSlot::default();
        Self { targets: Arc::new(targets), sources, started, last, read_slot }
    }

    /// Checks that this program could start with the settings as they are now. Another version may
    /// know keys and variables that this one does not.
    pub(super) async fn check(&self, program: ProgramOrigin) -> Result<(), String> {
        let unknown_names = match program {
            ProgramOrigin::Same => UnknownNames::Refused,
            ProgramOrigin::Other => UnknownNames::LeftOut,
        };
        let read = self.read_in_time(unknown_names).await;
        read.map(drop).map_err(|error| terminal::format_with_causes(&error))
    }

    /// Reloads after SIGHUP.
    pub(super) async fn reload_on_hangup(self) {
        // The result is logged.
        self.reload(CallerIdentity::LOCAL).await.ok();
    }

    /// Applies all changed settings that a running server can apply, or none of them. Returns the
    /// keys that changed, or the reason why the new settings were refused.
    pub(super) async fn reload(&self, by: CallerIdentity) -> Result<Changes, String> {
        let mut last = self.last.lock().await;
        let (loaded, live) = match self.read_in_time(UnknownNames::Refused).await {
            Ok(read) => read,
            Err(error) => {
                let why = terminal::format_with_causes(&error);
                self.targets.service.record_refused_reload(&why, by);
                events::reload_refused(&why);
                return Err(why);
            }
        };
        let changes = Changes {
            live: Changes::between(&last, &loaded).live,
            restart: Changes::between(&self.started, &loaded).restart,
        };
        self.targets.service.apply_settings(live, by, &changes.live).await;
        self.targets.pressure.send_replace(loaded.settings.pressure);
        self.targets.gauges.add_names(module_settings::series_names(&loaded.settings));
        self.apply_log_filter(&changes, &loaded);
        report_ignored_keys(&loaded);
        *last = loaded;
        events::settings_reloaded(&changes.live, &changes.restart);
        Ok(changes)
    }

    /// Applies a changed `log.filter`. A filter that an operator has set at run time stays otherwise.
    fn apply_log_filter(&self, changes: &Changes, loaded: &Loaded) {
        if changes.live.iter().any(|key| key == "log.filter") {
            // Loading has already checked the filter.
            self.targets.log_filter.set_configured(&loaded.settings.log.filter).ok();
        }
    }

    /// Reads the sources on a blocking thread, with a time limit: a file system may not answer.
    async fn read_in_time(
        &self,
        unknown_names: UnknownNames,
    ) -> Result<(Loaded, LiveSettings), AppError> {
        let reloader = self.clone();
        let read = move || reloader.read(unknown_names);
        self.read_slot.run(RELOAD_READ_TIMEOUT, read).await.unwrap_or_else(|error| match error {
            BlockingError::SlotBusy | BlockingError::NotInTime => {
                Err(AppError::ReloadTimeout { after: RELOAD_READ_TIMEOUT })
            }
            BlockingError::Failed(failed) => Err(AppError::ReloadFailed(failed)),
        })
    }

    fn read(&self, unknown_names: UnknownNames) -> Result<(Loaded, LiveSettings), AppError> {
        let loaded = load_with_unknown_names(self.sources.clone(), unknown_names)?;
        let live =
            module_settings::live_settings(&loaded, &self.targets.host, self.targets.served)?;
        Ok((loaded, live))
    }
}

/// Logs the keys of a `settings.json` that have no meaning here.
pub(super) fn report_ignored_keys(loaded: &Loaded) {
    if !loaded.ignored.is_empty() {
        events::settings_ignored(loaded.file.as_deref(), &loaded.ignored);
    }
}
