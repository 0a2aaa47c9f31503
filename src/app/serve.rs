//! A server that runs: its transports, its end, and the reload of its rules.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::children::follow_children;
use super::data_dir::ServerLock;
use super::error::AppError;
use super::runtime::{self, EndWatchdog, Signals};
use super::values;
use crate::bounded_read::{SPILL_CHECK_TIMEOUT, run_with_timeout};
use crate::cli::terminal;
use crate::config::{Changes, ConfigSources, Loaded, Settings, load};
use crate::http::{
    HttpServices, MetricsRenderer, Readiness, ReloadedSettings, Server, ServerControl,
};
use crate::mcp::{Handler, ServerName};
use crate::output::SpillDir;
use crate::process::sandbox::scratch::ScratchRoot;
use crate::process::{Host, ProcessRecord, trim_memory};
use crate::service::{
    AfterDrain, CallerIdentity, JobService, LiveSettings, PressureWatch, ServiceSettings,
};
use crate::telemetry::{Exporter, LogFilter, QueueGauges, events};
use crate::{lines, stdio};

/// The interval at which histograms are folded into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// The longest grace of jobs whose client has hung up: clients send SIGKILL soon after.
const HUNG_UP_GRACE: Duration = Duration::from_secs(1);

/// The time in which proxies hear of the end before calls are refused: calls that they hold back
/// then run on the next server.
const NEWS_TIME: Duration = Duration::from_millis(50);

/// The time that the end of the server may take to remove the files with output.
const REMOVAL_TIME: Duration = Duration::from_secs(1);

/// The interval at which a server that is to end checks whether it is empty.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A yard that runs, and what keeps it in order.
pub(super) struct App {
    host: Arc<Host>,
    settings: Settings,
    service: JobService,
    gauges: Arc<QueueGauges>,
    reload: Reload,
    log: LogFilter,
    spill: SpillDir,
    /// The directory for files of jobs, which is removed when this is dropped.
    _scratch: Option<ScratchRoot>,
}

/// The signals and the watchdog that end a running server.
#[derive(Debug)]
pub(super) struct Ending {
    signals: Signals,
    watchdog: EndWatchdog,
}

impl Ending {
    /// Listens to signals from now on. Running jobs get `drain` at the end.
    pub(super) fn listen(
        settings: &Settings,
        host: Arc<Host>,
        drain: Duration,
    ) -> Result<Self, AppError> {
        let grace = end_grace(settings.job.grace, drain);
        let watchdog = EndWatchdog::start(host, drain + grace).map_err(AppError::no_thread)?;
        Ok(Self { signals: Signals::listen()?, watchdog })
    }
}

impl App {
    /// Starts everything but the transports. With a file of numbers, job numbers go on after a
    /// restart.
    pub(super) async fn start(
        host: Arc<Host>,
        loaded: Loaded,
        sources: ConfigSources,
        numbers: Option<PathBuf>,
        log: LogFilter,
    ) -> Result<Self, AppError> {
        let scratch = host.make_scratch_root(&std::env::temp_dir());
        let scratch = scratch.inspect_err(|error| events::scratch_dir_unusable(error)).ok();
        let record =
            scratch.as_ref().map(|scratch| ProcessRecord::begin(scratch.path(), &host.tag()));
        let record =
            record.and_then(|record| record.inspect_err(events::process_record_not_written).ok());
        follow_children(Arc::clone(&host), record).map_err(AppError::no_thread)?;
        host.guardian().enable(scratch.as_ref().map(ScratchRoot::path));
        let place = scratch.as_ref().map_or(Path::new(""), ScratchRoot::path);
        let service = values::service(&loaded, &host, &sources.environment, place)?;
        let spill = service.job.log.spill_dir.clone();
        let checked = spill.clone();
        if let Err(error) = run_with_timeout(SPILL_CHECK_TIMEOUT, move || checked.check()).flatten()
        {
            events::data_dir_unusable(spill.root(), &error);
        }
        spill.remove_leftovers();
        events::read_memory_limit_set(loaded.settings.output.read_memory as u64);
        tokio::spawn(service.job.quota.read_memory().clone().trim_after_reads(trim_memory));
        let service = JobService::open(ServiceSettings { numbers, ..service }).await?;
        let pressure = watch::Sender::new(loaded.settings.pressure);
        service.watch_pressure(pressure.subscribe());
        let gauges = Arc::new(QueueGauges::install(values::known_names(&loaded.settings)));
        let settings = loaded.settings.clone();
        let live = Live {
            host: Arc::clone(&host),
            service: service.clone(),
            pressure,
            gauges: Arc::clone(&gauges),
            log: log.clone(),
        };
        let reload = Reload::new(live, sources, loaded);
        let hangup = reload.clone();
        let on_hangup = runtime::on_hangup(move || hangup.clone().on_hangup());
        tokio::spawn(on_hangup.map_err(AppError::Signals)?);
        let guarded = Arc::clone(&host);
        spawn_blocking(move || start_guardian(&guarded));
        Ok(Self { host, settings, service, gauges, reload, log, spill, _scratch: scratch })
    }

    pub(super) const fn service(&self) -> &JobService {
        &self.service
    }

    pub(super) async fn serve_http(
        self,
        server: Server,
        exporter: Exporter,
        ending: &mut Ending,
        lock: ServerLock,
    ) -> Result<(), AppError> {
        tokio::spawn(exporter.clone().run_upkeep(UPKEEP));
        let (after_drain, wishes) = watch::channel(AfterDrain::Stay);
        let (readiness, ready) = watch::channel(Readiness::Ready);
        let services = HttpServices {
            service: self.service.clone(),
            handler: self.handler(),
            metrics: self.metrics(exporter),
            readiness: ready,
            control: self.control(after_drain),
        };
        events::server_started(server.local_addr(), server.socket_path());
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(server.serve(services, shutdown.clone()));
        let end = tokio::select! {
            () = ending.signals.wish_to_end() => Ok(()),
            () = self.emptied(wishes) => Ok(()),
            () = self.service.wait_until_failed() => Err(AppError::SupervisorFails),
        };
        ending.watchdog.begin();
        readiness.send_replace(Readiness::Draining);
        tokio::time::sleep(NEWS_TIME).await;
        self.drain(self.settings.server.drain, ending).await;
        // Before the socket closes: whoever finds it closed may start the next server at once.
        drop(lock);
        shutdown.cancel();
        // A panic in there is logged by itself; there is nothing left to save.
        serving.await.ok();
        events::server_stopped();
        end
    }

    fn control(&self, after_drain: watch::Sender<AfterDrain>) -> ServerControl {
        let reload = self.reload.clone();
        let now = move |by| -> BoxFuture<'static, _> {
            let reload = reload.clone();
            Box::pin(async move {
                let Changes { live, restart } = reload.now(by).await?;
                Ok(ReloadedSettings { live, restart })
            })
        };
        ServerControl::new(now, after_drain, self.log.clone())
    }

    /// Returns once somebody wished that the server ends, and nothing waits or runs any more.
    async fn emptied(&self, mut wishes: watch::Receiver<AfterDrain>) {
        // Asked each time: whoever undid the drain no longer wants the end.
        while wishes.wait_for(|wish| *wish == AfterDrain::Exit).await.is_ok() {
            let queue = self.service.queue_overview().await;
            if queue.draining && queue.running + queue.queued == 0 {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        // Nobody is left who could wish for it.
        std::future::pending().await
    }

    pub(super) async fn serve_stdio(self, ending: &mut Ending) -> Result<(), AppError> {
        let patience = match self.settings.mcp.server_name {
            ServerName::Shellyard => lines::INPUT_END_GRACE,
            ServerName::McpzShell => {
                events::shell_server_started();
                // A session that is piped in ends before its last command does.
                self.settings.execute_command.timeout
                    + self.settings.job.grace
                    + lines::INPUT_END_GRACE
            }
        };
        let shutdown = CancellationToken::new();
        let end = tokio::select! {
            () = stdio::serve(self.handler().for_caller(CallerIdentity::LOCAL), shutdown.clone(), patience) => Ok(()),
            () = ending.signals.wish_to_end() => Ok(()),
            () = self.service.wait_until_failed() => Err(AppError::SupervisorFails),
        };
        ending.watchdog.begin();
        shutdown.cancel();
        self.drain(Duration::ZERO, ending).await;
        events::server_stopped();
        end
    }

    /// Ends all work. A second wish to end cuts the patience short.
    async fn drain(&self, patience: Duration, ending: &mut Ending) {
        let grace = end_grace(self.settings.job.grace, patience);
        tokio::select! {
            () = self.service.drain(patience, grace) => {}
            () = ending.signals.wish_to_end() => self.service.drain(Duration::ZERO, Duration::ZERO).await,
        }
        self.end_everything().await;
    }

    /// Ends every process that no job could claim, and removes the files with output.
    pub(super) async fn end_everything(&self) {
        let (host, spill) = (Arc::clone(&self.host), self.spill.clone());
        let sweep = move || {
            let left = host.end_everything();
            host.cgroups().clean_up();
            spill.remove_everything(REMOVAL_TIME);
            left
        };
        // What is alive even so is beyond anybody's reach; the guardian tries once more.
        spawn_blocking(sweep).await.ok();
    }

    /// Returns the text of all metrics, for which each scrape asks the queue for its figures.
    fn metrics(&self, exporter: Exporter) -> MetricsRenderer {
        let service = self.service.clone();
        let gauges = Arc::clone(&self.gauges);
        let exporter = exporter
            .with_data_dir(values::spill_dir(&self.settings))
            .with_output_counters(Arc::clone(self.spill.counters()));
        MetricsRenderer::new(move || {
            let service = service.clone();
            let gauges = Arc::clone(&gauges);
            let exporter = exporter.clone();
            async move {
                if let Some(figures) = service.figures().await {
                    gauges.update(&figures);
                }
                exporter.render().await
            }
        })
    }

    fn handler(&self) -> Handler {
        Handler::new(self.service.clone(), values::mcp(&self.settings))
    }
}

/// The time between the two signals that end a job at the end of a server whose jobs had `drain`.
fn end_grace(configured: Duration, drain: Duration) -> Duration {
    if drain.is_zero() { configured.min(HUNG_UP_GRACE) } else { configured }
}

/// Starts the process that jobs need beside them, so that the first job need not: clients are
/// answered meanwhile. Where it is missing, the first job tries again, and says so if that fails.
fn start_guardian(host: &Host) {
    if let Err(error) = host.guardian().ensure_running() {
        events::guardian_not_started(&error);
    }
}

// New settings from the same sources, while the server runs.

/// The time for the file and the directories that the settings name.
const READ_TIME: Duration = Duration::from_secs(15);

/// What takes new settings over.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) host: Arc<Host>,
    pub(super) service: JobService,
    pub(super) pressure: watch::Sender<PressureWatch>,
    pub(super) gauges: Arc<QueueGauges>,
    pub(super) log: LogFilter,
}

/// Takes over what changed. A cheap clone.
#[derive(Debug, Clone)]
pub(super) struct Reload {
    live: Arc<Live>,
    sources: ConfigSources,
    /// What the server was started with: what takes a restart differs from that, however often
    /// it is read again.
    started: Arc<Loaded>,
    /// What was read last. Held while a reload is under way, so that two never mix.
    last: Arc<Mutex<Loaded>>,
}

impl Reload {
    pub(super) fn new(live: Live, sources: ConfigSources, loaded: Loaded) -> Self {
        let started = Arc::new(loaded.clone());
        Self { live: Arc::new(live), sources, started, last: Arc::new(Mutex::new(loaded)) }
    }

    /// What SIGHUP asks for.
    pub(super) async fn on_hangup(self) {
        // Whether it could be done is logged.
        self.now(CallerIdentity::LOCAL).await.ok();
    }

    /// Either everything new that a running server can take over holds from now on, or nothing
    /// does. Says which settings changed, or why none did.
    pub(super) async fn now(&self, by: CallerIdentity) -> Result<Changes, String> {
        let mut last = self.last.lock().await;
        let (loaded, tuning) = match self.read_in_time().await {
            Ok(read) => read,
            Err(error) => {
                let why = terminal::message_with_causes(&error);
                self.live.service.record_refused_reload(&why, by);
                events::reload_refused(&why);
                return Err(why);
            }
        };
        let changes = Changes {
            live: Changes::between(&last, &loaded).live,
            restart: Changes::between(&self.started, &loaded).restart,
        };
        self.live.service.apply_settings(tuning, by, &changes.live).await;
        self.live.pressure.send_replace(loaded.settings.pressure);
        self.live.gauges.add_names(values::known_names(&loaded.settings));
        self.filter_log(&changes, &loaded);
        *last = loaded;
        events::settings_reloaded(&changes.live, &changes.restart);
        Ok(changes)
    }

    /// A filter that somebody chose meanwhile stays, unless the configured one has changed.
    fn filter_log(&self, changes: &Changes, loaded: &Loaded) {
        if changes.live.iter().any(|key| key == "log.filter") {
            // The settings let nothing else through.
            self.live.log.set_configured(&loaded.settings.log.filter).ok();
        }
    }

    /// Reads the sources where waiting for a file system holds nobody up.
    async fn read_in_time(&self) -> Result<(Loaded, LiveSettings), AppError> {
        let reload = self.clone();
        match timeout(READ_TIME, spawn_blocking(move || reload.read())).await {
            Ok(Ok(read)) => read,
            Ok(Err(failed)) => Err(AppError::ReloadFails(failed)),
            Err(_) => Err(AppError::ReloadHangs { after: READ_TIME }),
        }
    }

    fn read(&self) -> Result<(Loaded, LiveSettings), AppError> {
        let loaded = load(self.sources.clone())?;
        let tuning = values::tuning(&loaded, &self.live.host)?;
        Ok((loaded, tuning))
    }
}
