//! A running server: its transports and its shutdown.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::durable::{self, DurableState, KeeperLink};
use super::error::AppError;
use super::module_settings::{self, OutputFiles};
use super::reload::{ReloadTargets, Reloader, report_ignored_keys};
use super::runtime::{ShutdownTrigger, exit_without_cleanup, run_on_signal, shutdown_grace};
use super::server_lock::ServerLock;
use super::tenants::{self, ServedTenants};
use crate::cli::greeting::{self, ServedAt};
use crate::client::{private_socket, private_socket_dir, remove_stale_sockets};
use crate::config::{Changes, ConfigSources, Loaded, LogFormat, Settings};
use crate::http::{
    ApiProcess, HttpServerSettings, HttpServices, MetricsRenderer, OfferedRoutes, Readiness,
    ReloadedSettings, Server, ServerControl, ServerKind, SocketPath, UpgradeControl,
};
use crate::journal::Journal;
use crate::lines;
use crate::mcp::{Handler, ServerName};
use crate::output::SpillDir;
use crate::private_files::ensure_private_dir;
use crate::process::ScratchRoot;
use crate::process::{Host, KeeperNotice, UPGRADE_EXIT_CODE, trim_memory};
use crate::service::{AfterDrain, CallerIdentity, JobService, PumpGate, ServiceSettings};
use crate::telemetry::{Exporter, LogFilter, QueueGauges, events};

/// The interval at which histograms are folded into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// The time between the notice of a shutdown to proxies and the first refused call. Calls that proxies
/// hold back after the notice run on the next server.
const PROXY_NOTICE_TIME: Duration = Duration::from_millis(50);

/// The longest time for the removal of output files at the end of the server.
const REMOVAL_TIME: Duration = Duration::from_secs(1);

/// The longest time for each step of a hand-over to another server.
const HANDOVER_TIME: Duration = Duration::from_secs(2);

/// The interval at which a draining server checks whether all jobs have ended.
const DRAIN_CHECK_PERIOD: Duration = Duration::from_millis(200);

/// A running job service, and the parts that maintain it.
pub(super) struct App {
    host: Arc<Host>,
    settings: Settings,
    service: JobService,
    gauges: Arc<QueueGauges>,
    reloader: Reloader,
    log_filter: LogFilter,
    spill: SpillDir,
    /// The state that another server needs to take over the jobs; `None` if it cannot.
    durable: Option<DurableJobs>,
    _scratch: JobScratch,
}

/// The journal and the pumps of the jobs of a durable server.
struct DurableJobs {
    journal: Journal,
    pumps: PumpGate,
}

impl App {
    /// Starts everything but the transports, and takes over the jobs of the previous server. After an
    /// error these go on, and the next server takes them over.
    pub(super) async fn start(
        host: Arc<Host>,
        loaded: Loaded,
        sources: ConfigSources,
        durable: DurableState,
        log_filter: LogFilter,
        served: ServedTenants,
    ) -> Result<Self, AppError> {
        report_ignored_keys(&loaded);
        tenants::check_switching(&loaded, served)?;
        let scratch = JobScratch::create(&host);
        let DurableState { numbers, tickets, journal, unstored, previous } = durable;
        let mut settings = module_settings::service_settings(
            &loaded,
            &host,
            &sources.environment,
            scratch.path(),
            journal.as_ref().map_or(OutputFiles::OfThisServer, |journal| OutputFiles::Named {
                disk: journal.disk().clone(),
                unstored,
            }),
        )?;
        settings.job.journal = journal.clone();
        let pumps = settings.job.pumps.clone();
        let spill = settings.job.log.spill_dir.clone();
        durable::prepare_output_dir(&spill, &previous);
        events::read_memory_limit_set(loaded.settings.output.read_memory as u64);
        tokio::spawn(settings.job.quota.read_memory().clone().trim_after_reads(trim_memory));
        let settings = ServiceSettings { numbers, tickets, previous, ..settings };
        let service = JobService::open(settings).await?;
        // Reading the journal takes memory that is not needed any more.
        spawn_blocking(trim_memory);
        let pressure = watch::Sender::new(loaded.settings.pressure);
        service.watch_pressure(pressure.subscribe());
        let gauges =
            Arc::new(QueueGauges::install(module_settings::series_names(&loaded.settings)));
        let settings = loaded.settings.clone();
        let targets = ReloadTargets {
            host: Arc::clone(&host),
            service: service.clone(),
            pressure,
            gauges: Arc::clone(&gauges),
            log_filter: log_filter.clone(),
            served,
        };
        let reloader = Reloader::new(targets, sources, loaded);
        let on_signal = reloader.clone();
        let on_hangup =
            run_on_signal(SignalKind::hangup(), move || on_signal.clone().reload_on_hangup());
        tokio::spawn(on_hangup.map_err(AppError::Signals)?);
        if let Some(journal) = &journal {
            tokio::spawn(durable::watch_journal(journal.health()));
        }
        let durable = journal.map(|journal| DurableJobs { journal, pumps });
        Ok(Self {
            host,
            settings,
            service,
            gauges,
            reloader,
            log_filter,
            spill,
            durable,
            _scratch: scratch,
        })
    }

    pub(super) const fn service(&self) -> &JobService {
        &self.service
    }

    pub(super) const fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    pub(super) async fn serve_http(
        self,
        server: Server,
        exporter: Exporter,
        shutdown_trigger: &mut ShutdownTrigger,
        lock: ServerLock,
        link: KeeperLink,
    ) -> Result<(), AppError> {
        tokio::spawn(exporter.clone().run_upkeep(UPKEEP));
        let (after_drain, drain_end) = watch::channel(AfterDrain::Stay);
        let (readiness, ready) = watch::channel(Readiness::Ready);
        let services = HttpServices {
            service: self.service.clone(),
            handler: self.new_handler(),
            metrics: self.new_metrics_renderer(exporter),
            readiness: ready,
            control: self.new_control(after_drain, link.upgrade_control(&self.reloader)),
            process: describe_process(ServerKind::Serve),
        };
        self.announce_start(&server, &link);
        let (settings, host) = (self.settings.clone(), Arc::clone(&self.host));
        spawn_blocking(move || {
            let sharing = tenants::list_sharing_root(&settings, &host);
            if !sharing.is_empty() {
                events::tenants_share_root(&sharing);
            }
        });
        let data_dir = self.settings.server.data_dir.clone();
        spawn_blocking(move || remove_stale_private_sockets(&data_dir));
        let shutdown = CancellationToken::new();
        let mut serving = tokio::spawn(server.serve(services, shutdown.clone()));
        let result = tokio::select! {
            () = shutdown_trigger.signals.wait_for_end() => Ok(()),
            () = self.wait_until_drained(drain_end) => Ok(()),
            () = self.service.wait_until_failed() => Err(AppError::SupervisorFailed),
            () = link.wait_until_gone() => Err(AppError::KeeperDied),
            program = link.wait_for_upgrade() => {
                readiness.send_replace(Readiness::Replaced);
                sleep(PROXY_NOTICE_TIME).await;
                self.service.begin_handover().await;
                shutdown.cancel();
                self.hand_over(&program, &link, &mut serving).await
            }
        };
        link.refuse_upgrades();
        link.notify(KeeperNotice::Stopping);
        shutdown_trigger.begin();
        readiness.send_replace(Readiness::Draining);
        sleep(PROXY_NOTICE_TIME).await;
        let drain = match &result {
            // Nobody would end the jobs if this server were killed meanwhile.
            Err(AppError::KeeperDied) => Duration::ZERO,
            Ok(()) | Err(_) => self.settings.server.drain,
        };
        self.drain(drain, shutdown_trigger).await;
        // Before the socket closes: a client that finds it closed may start the next server at once.
        lock.end(&result);
        shutdown.cancel();
        // A panic of that task is logged, and there is nothing left to save.
        serving.await.ok();
        events::server_stopped();
        result
    }

    /// Tells a person at a terminal how to go on, and the log that the server has started otherwise.
    fn announce_start(&self, server: &Server, link: &KeeperLink) {
        let served_at = ServedAt {
            address: server.local_addr(),
            socket: server.socket_path(),
            path: &self.settings.http.path,
            is_tls: self.settings.http.tls_cert.is_some(),
            needs_token: server.requires_token(),
        };
        let is_for_people = link.is_first_server() && self.settings.log.format == LogFormat::Human;
        if !is_for_people || !greeting::greet_on_serve(&served_at) {
            events::server_started(server.local_addr(), server.socket_path());
        }
    }

    /// Hands the jobs over to another server, and exits. Calls in flight answer with what they know;
    /// their clients find the next server at the same listeners. Returns only if the keeper is gone.
    async fn hand_over(
        &self,
        program: &Path,
        link: &KeeperLink,
        serving: &mut JoinHandle<()>,
    ) -> Result<(), AppError> {
        events::handover_begun(program);
        link.notify(KeeperNotice::Reloading);
        // Responses in progress get their time; what is still open then is closed with the process.
        timeout(HANDOVER_TIME, serving).await.ok();
        if let Some(DurableJobs { journal, pumps }) = &self.durable {
            // A pump that waits for a disk is as good as one that a crash has stopped.
            timeout(HANDOVER_TIME, pumps.close()).await.ok();
            // What a shim tells from now on, the next server hears.
            self.host.keeper().begin_handover();
            let journal = journal.clone();
            spawn_blocking(move || journal.close(HANDOVER_TIME)).await.ok();
        }
        timeout(HANDOVER_TIME, self.service.finish_records()).await.ok();
        match link.announce_upgrade(program) {
            Ok(()) => events::handover_ready(),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(AppError::KeeperDied);
            }
            // The keeper starts the present program again, which goes on with the jobs.
            Err(error) => events::upgrade_refused(&error.to_string()),
        }
        exit_without_cleanup(UPGRADE_EXIT_CODE)
    }

    fn new_control(
        &self,
        after_drain: watch::Sender<AfterDrain>,
        upgrade: Option<UpgradeControl>,
    ) -> ServerControl {
        let reloader = self.reloader.clone();
        let reload = move |by| -> BoxFuture<'static, _> {
            let reloader = reloader.clone();
            Box::pin(async move {
                let Changes { live, restart } = reloader.reload(by).await?;
                Ok(ReloadedSettings { live, restart })
            })
        };
        ServerControl::new(reload, after_drain, self.log_filter.clone(), upgrade)
    }

    /// Waits until an operator has asked for a drain with exit, and no job waits or runs any more.
    async fn wait_until_drained(&self, mut drain_end: watch::Receiver<AfterDrain>) {
        // Checked each time: the operator can undo the drain.
        while drain_end.wait_for(|after| *after == AfterDrain::Exit).await.is_ok() {
            let queue = self.service.queue_overview().await;
            if queue.draining && queue.running + queue.idle + queue.queued == 0 {
                return;
            }
            sleep(DRAIN_CHECK_PERIOD).await;
        }
        // The sender is gone, so no operator can ask any more.
        std::future::pending().await
    }

    pub(super) async fn serve_stdio(
        self,
        shutdown_trigger: &mut ShutdownTrigger,
    ) -> Result<(), AppError> {
        let grace = match self.settings.mcp.server_name {
            ServerName::Shellyard => lines::INPUT_END_GRACE,
            ServerName::McpzShell => {
                events::shell_server_started();
                // The input of a piped session ends before its last command does.
                self.settings.execute_command.timeout
                    + self.settings.job.grace
                    + lines::INPUT_END_GRACE
            }
        };
        let shutdown = CancellationToken::new();
        let handler = self.new_handler();
        let own_handler = handler.for_caller(CallerIdentity::LOCAL);
        let (after_drain, drain_end) = watch::channel(AfterDrain::Stay);
        let (readiness, ready) = watch::channel(Readiness::Ready);
        let services = HttpServices {
            service: self.service.clone(),
            handler,
            metrics: MetricsRenderer::new(async || String::new()),
            readiness: ready,
            control: self.new_control(after_drain, None),
            process: describe_process(ServerKind::Stdio),
        };
        let socket = PrivateSocket::open(&self.settings, Arc::clone(&self.host), services);
        let result = tokio::select! {
            () = lines::serve_stdio(own_handler, shutdown.clone(), grace) => Ok(()),
            () = self.wait_until_drained(drain_end) => Ok(()),
            () = shutdown_trigger.signals.wait_for_end() => Ok(()),
            () = self.service.wait_until_failed() => Err(AppError::SupervisorFailed),
        };
        shutdown_trigger.begin();
        shutdown.cancel();
        readiness.send_replace(Readiness::Draining);
        self.drain(Duration::ZERO, shutdown_trigger).await;
        socket.close().await;
        events::server_stopped();
        result
    }

    /// Ends all jobs, after they had the time `drain`. A second signal cuts the wait short.
    async fn drain(&self, drain: Duration, shutdown_trigger: &mut ShutdownTrigger) {
        let grace = shutdown_grace(self.settings.job.grace, drain);
        tokio::select! {
            () = self.service.drain(drain, grace) => {}
            () = shutdown_trigger.signals.wait_for_end() => self.service.drain(Duration::ZERO, Duration::ZERO).await,
        }
        self.end_everything().await;
    }

    /// Ends everything that is left of jobs, and removes the output files.
    pub(super) async fn end_everything(&self) {
        let host = Arc::clone(&self.host);
        let spill = self.spill.clone();
        let sweep = move || {
            let left = host.end_everything();
            host.cgroups().clean_up();
            spill.remove_everything(REMOVAL_TIME);
            left
        };
        // A process that is still alive cannot be killed now; its shim goes on trying.
        spawn_blocking(sweep).await.ok();
    }

    /// Returns the source of the metrics text. Each scrape asks the queue for its figures.
    fn new_metrics_renderer(&self, exporter: Exporter) -> MetricsRenderer {
        let service = self.service.clone();
        let gauges = Arc::clone(&self.gauges);
        let journal = self.durable.as_ref().map(|durable| durable.journal.clone());
        let is_durable = self.settings.server.durability.is_some();
        let exporter = exporter
            .with_data_dir(self.settings.server.data_dir.clone())
            .with_output_counters(Arc::clone(self.spill.counters()));
        MetricsRenderer::new(move || {
            let service = service.clone();
            let gauges = Arc::clone(&gauges);
            let exporter = exporter.clone();
            if is_durable {
                events::journal_measured(durable::measure_journal(journal.as_ref()));
            }
            async move {
                if let Some(stats) = service.queue_stats().await {
                    gauges.update(&stats);
                }
                exporter.render().await
            }
        })
    }

    fn new_handler(&self) -> Handler {
        Handler::new(self.service.clone(), module_settings::mcp_settings(&self.settings))
    }
}

/// Describes this process, which has just started to serve.
fn describe_process(kind: ServerKind) -> ApiProcess {
    ApiProcess { kind, pid: std::process::id(), started: SystemTime::now() }
}

/// The directory for temporary files of jobs. Dropping it removes the directory, unless jobs of the
/// previous server were not taken over: their files are in it.
struct JobScratch {
    root: Option<ScratchRoot>,
    host: Arc<Host>,
}

impl JobScratch {
    fn create(host: &Arc<Host>) -> Self {
        let root = host.make_scratch_root(&std::env::temp_dir());
        let root = root.inspect_err(|error| events::scratch_dir_unusable(error)).ok();
        Self { root, host: Arc::clone(host) }
    }

    fn path(&self) -> &Path {
        self.root.as_ref().map_or(Path::new(""), ScratchRoot::path)
    }
}

impl Drop for JobScratch {
    fn drop(&mut self) {
        if self.host.keeper().has_untaken_jobs() {
            mem::forget(self.root.take());
        }
    }
}

/// The longest wait for a client before the socket is opened.
const CLIENT_TIME: Duration = Duration::from_secs(1);

/// The time for the answer to a client that has introduced itself, before the socket is opened.
const ANSWER_TIME: Duration = Duration::from_millis(50);

/// The longest wait for the removal of the socket at the end of the server.
const CLOSE_TIME: Duration = Duration::from_millis(500);

/// The private socket of a server on standard input and output, through which its own user sees and stops
/// its jobs. The server behind it is a task of its own.
struct PrivateSocket {
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl PrivateSocket {
    /// Opens the socket in the background, once the client has its first answer: it neither delays
    /// that nor keeps the server from starting. A log line says why, if it cannot be opened.
    pub(super) fn open(settings: &Settings, host: Arc<Host>, services: HttpServices) -> Self {
        let data_dir = settings.server.data_dir.clone();
        let path = private_socket(&data_dir, std::process::id());
        let http = HttpServerSettings {
            bind: None,
            socket: Some(SocketPath::Configured(path.clone())),
            job_detection: module_settings::new_private_job_detection(host),
            allow_jobs: settings.http.allow_jobs,
            routes: OfferedRoutes::ApiOnly,
            ..HttpServerSettings::default()
        };
        let shutdown = CancellationToken::new();
        let end = shutdown.clone();
        let handler = services.handler.clone();
        let serving = tokio::spawn(async move {
            if end.run_until_cancelled(wait_for_first_answer(handler)).await.is_none() {
                return;
            }
            match bind_private_socket(http, data_dir.clone()).await {
                Ok(server) => {
                    spawn_blocking(move || remove_stale_private_sockets(&data_dir));
                    server.serve(services, end).await;
                }
                Err(why) => events::private_socket_unavailable(&path, &why),
            }
        });
        Self { shutdown, serving }
    }

    /// Closes the socket and removes its file.
    async fn close(self) {
        self.shutdown.cancel();
        // A disk that does not answer must not hold up the exit; the next server removes the file.
        timeout(CLOSE_TIME, self.serving).await.ok();
    }
}

/// Waits until the client has introduced itself and probably has its answer, or makes no move to.
async fn wait_for_first_answer(handler: Handler) {
    // A client that says nothing may be a person who looks for the server.
    timeout(CLIENT_TIME, handler.wait_for_client()).await.ok();
    sleep(ANSWER_TIME).await;
}

/// Binds the socket on a thread that may wait for the disk.
async fn bind_private_socket(
    http: HttpServerSettings,
    data_dir: PathBuf,
) -> Result<Server, String> {
    let runtime = tokio::runtime::Handle::current();
    let bind = move || {
        ensure_private_dir(&private_socket_dir(&data_dir)).map_err(|error| error.to_string())?;
        runtime.block_on(Server::bind(http)).map_err(|error| error.to_string())
    };
    spawn_blocking(bind).await.map_err(|error| error.to_string())?
}

/// Removes the sockets of servers that were killed.
fn remove_stale_private_sockets(data_dir: &Path) {
    if let Err(error) = remove_stale_sockets(data_dir) {
        events::stale_sockets_not_removed(&private_socket_dir(data_dir), &error);
    }
}
