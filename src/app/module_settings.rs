//! Converts the configuration into the settings of each module: no other module reads the configuration.

use std::io::IsTerminal;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::error::AppError;
use super::tenants::ServedTenants;
use super::{rules, tenants};
use crate::client::DEFAULT_SOCKET_NAME;
use crate::config::{self, Environment, Loaded, Settings, TenantSection, ValueOrigin};
use crate::confinement::SandboxPaths;
use crate::exec_gate::{ExecGate, GateSettings};
use crate::http::{HttpServerSettings, JobDetection, SessionKey, SocketPath};
use crate::ids::TenantId;
use crate::mcp::{
    DialectSettings, ExecuteDialectSettings, McpSettings, ServerName, ShellDialectSettings,
};
use crate::output::{Counters, DiskWatch, LogStorage, Quota, QuotaLimits, SpillDir, UnstoredBytes};
use crate::process::{Host, JobConnectionDetector};
use crate::service::{
    AdmissionRules, DEFAULT_LANE, LaneDefaults, LaneLimits, LiveSettings, PreviousServer, PumpGate,
    QueueLimits, Retention, RetentionBounds, ServiceSettings, SharedJobSettings,
    SubmissionDefaults, TenantLimits, Watchdog,
};
use crate::spec::RunLimits;
use crate::telemetry::logging::{LineFormat, LoggingSettings};
use crate::telemetry::{SeriesNames, events};

/// The default log filter of `server shell`: its document prescribes the log lines, so besides them
/// only the server's own problems are logged.
const SHELL_SERVER_FILTER: &str = "warn,rmcp=error";

pub(super) fn logging_settings(loaded: &Loaded, environment: &Environment) -> LoggingSettings {
    let settings = &loaded.settings.log;
    let filter = match (loaded.settings.mcp.server_name, loaded.origin("log.filter")) {
        (ServerName::McpzShell, Some(ValueOrigin::Default)) => SHELL_SERVER_FILTER,
        (ServerName::McpzShell | ServerName::Shellyard, _) => &settings.filter,
    };
    let coloured = std::io::stderr().is_terminal() && !environment.refuses_color();
    let format = match settings.format {
        config::LogFormat::Json => LineFormat::Json,
        config::LogFormat::Human if coloured => LineFormat::Coloured,
        config::LogFormat::Human => LineFormat::Plain,
    };
    LoggingSettings { format, filter: filter.to_owned() }
}

pub(super) fn http_settings(
    settings: &Settings,
    host: Arc<Host>,
) -> Result<HttpServerSettings, AppError> {
    let http = &settings.http;
    Ok(HttpServerSettings {
        bind: http.bind,
        socket: http_socket(settings),
        tls_cert: http.tls_cert.clone(),
        tls_key: http.tls_key.clone(),
        path: http.path.clone(),
        allowed_hosts: http.allowed_hosts.clone(),
        allowed_origins: http.allowed_origins.clone(),
        auth: rules::build_authenticator(settings)?,
        job_detection: new_job_detection(host),
        allow_jobs: http.allow_jobs,
        max_body_bytes: http.max_body,
        max_header_bytes: http.max_headers,
        header_timeout: http.header_timeout,
        body_timeout: http.body_timeout,
        write_timeout: http.write_timeout,
        max_unread_bytes: http.max_unread,
        max_connections: http.max_connections,
        max_connections_per_address: http.max_connections_per_address,
        max_sessions: http.max_sessions,
        session_idle: http.session_idle,
        session_hang_up: http.session_hang_up,
        session_key: open_session_key(settings),
        ..HttpServerSettings::default()
    })
}

/// Returns the key that signs session ids. Without a usable file, sessions end with the server.
fn open_session_key(settings: &Settings) -> Option<SessionKey> {
    let path = settings.server.data_dir.join("session-key");
    SessionKey::load_or_create(&path)
        .inspect_err(|error| events::session_key_unusable(&path, error))
        .ok()
}

fn new_job_detection(host: Arc<Host>) -> JobDetection {
    let callers = Arc::new(JobConnectionDetector::new(host));
    let on_unix = Arc::clone(&callers);
    JobDetection::new(
        move |stream| on_unix.is_job_on_unix(stream),
        move |server, peer| callers.is_job_on_tcp(server, peer),
    )
}

/// Returns the detection of jobs for a private socket: jobs of other servers count, too.
pub(super) fn new_private_job_detection(host: Arc<Host>) -> JobDetection {
    let callers = JobConnectionDetector::new(host);
    JobDetection::new(move |stream| callers.is_any_job_on_unix(stream), |_, _| true)
}

fn http_socket(settings: &Settings) -> Option<SocketPath> {
    let path = socket_path(settings)?;
    Some(match &settings.http.socket {
        config::SocketSetting::Default | config::SocketSetting::Off => SocketPath::Default(path),
        config::SocketSetting::At(_) => SocketPath::Configured(path),
    })
}

/// Returns the path of the unix socket, if there is one.
pub(super) fn socket_path(settings: &Settings) -> Option<PathBuf> {
    match &settings.http.socket {
        config::SocketSetting::Default => Some(settings.server.data_dir.join(DEFAULT_SOCKET_NAME)),
        config::SocketSetting::At(path) => Some(path.clone()),
        config::SocketSetting::Off => None,
    }
}

pub(super) fn mcp_settings(all: &Settings) -> McpSettings {
    McpSettings {
        dialect: dialect_settings(all),
        search_time: all.output.search,
        ..all.mcp.clone()
    }
}

fn dialect_settings(all: &Settings) -> DialectSettings {
    let Settings { shell_tool, execute, run_shell_command, execute_command, .. } = all;
    DialectSettings {
        shell: ShellDialectSettings {
            default_timeout: shell_tool.default_timeout.min(all.job.max_timeout),
            max_timeout: shell_tool.max_timeout.min(all.job.max_timeout),
            max_output: shell_tool.max_output_size,
            log_commands: shell_tool.log_commands,
            abort_file: shell_tool.abort_file.clone(),
        },
        execute: ExecuteDialectSettings {
            max_output: execute.max_output_bytes,
            logged: if execute.log_full_output {
                execute.max_output_bytes
            } else {
                execute.log_output_bytes
            },
        },
        run_shell_command: run_shell_command.clone(),
        execute_command: execute_command.clone(),
    }
}

pub(super) fn service_settings(
    loaded: &Loaded,
    host: &Arc<Host>,
    environment: &Environment,
    scratch: &Path,
    files: OutputFiles,
) -> Result<ServiceSettings, AppError> {
    let settings = &loaded.settings;
    let rules = rules::admission_rules(loaded, &settings.job.shell)?;
    let audit = rules::open_audit(settings)?;
    let log = audit.as_ref().map(|trail| trail.log.clone());
    let gate = ExecGate::new(Arc::clone(host), gate_settings(loaded, &rules)?, log);
    Ok(ServiceSettings {
        defaults: submission_defaults(loaded, host)?,
        queue: queue_limits(settings)?,
        retention: retention_settings(&settings.retention),
        compress_from: settings.output.compress_from,
        job: job_settings(
            loaded,
            host,
            rules::sandbox_paths(settings, environment, scratch),
            environment,
            files,
            gate,
        )?,
        rules,
        audit,
        numbers: None,
        tickets: None,
        previous: PreviousServer::default(),
    })
}

/// Returns the settings that a running service for these tenants can apply.
pub(super) fn live_settings(
    loaded: &Loaded,
    host: &Host,
    served: ServedTenants,
) -> Result<LiveSettings, AppError> {
    let settings = &loaded.settings;
    tenants::check_switching(loaded, served)?;
    let rules = rules::admission_rules(loaded, &settings.job.shell)?;
    Ok(LiveSettings {
        gate: gate_settings(loaded, &rules)?,
        rules,
        defaults: submission_defaults(loaded, host)?,
        queue: queue_limits(settings)?,
        quota: quota_limits(settings),
    })
}

fn submission_defaults(loaded: &Loaded, host: &Host) -> Result<SubmissionDefaults, AppError> {
    let settings = &loaded.settings;
    let lanes = settings.queue.lanes.iter();
    let environment = settings.tenants.iter();
    let environment = environment.map(|(name, own)| {
        let pairs = own.environment.iter().filter_map(|text| text.split_once('='));
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok((TenantId::parse(name)?, pairs.collect()))
    });
    Ok(SubmissionDefaults {
        cwd: default_cwd(settings)?,
        limits: run_limits(settings),
        streams: settings.job.streams,
        on_large_output: settings.output.on_large_output,
        max_timeout: settings.job.max_timeout,
        lanes: lanes.map(|(name, lane)| (name.clone(), lane_defaults(lane, settings))).collect(),
        environment: environment.collect::<Result<_, AppError>>()?,
        confinement_rules: rules::supported_confinement(loaded, host)?,
    })
}

/// The lifetime of the files with output.
#[derive(Debug)]
pub(super) enum OutputFiles {
    /// The files end with this server.
    OfThisServer,
    /// The files have the names of their jobs, and the next server finds them. They are on the disk
    /// of the journal, and the next server is told of bytes that they do not have.
    Named { disk: DiskWatch, unstored: Option<UnstoredBytes> },
}

fn job_settings(
    loaded: &Loaded,
    host: &Arc<Host>,
    places: SandboxPaths,
    environment: &Environment,
    files: OutputFiles,
    gate: ExecGate,
) -> Result<SharedJobSettings, AppError> {
    let settings = &loaded.settings;
    let counters = Arc::new(Counters::default());
    Ok(SharedJobSettings {
        shell: settings.job.shell.clone(),
        environment: Arc::new(rules::job_variables(loaded, environment)?),
        host: Arc::clone(host),
        log: LogStorage {
            memory_bytes: settings.output.memory,
            spill_dir: match files {
                OutputFiles::OfThisServer => {
                    SpillDir::new(spill_dir(settings), Arc::clone(&counters))
                }
                OutputFiles::Named { disk, unstored } => {
                    let directory = settings.server.data_dir.join("output");
                    SpillDir::open_durable(directory, Arc::clone(&counters), disk, unstored)
                }
            },
        },
        quota: Quota::new(quota_limits(settings), settings.output.read_memory, counters),
        mask: rules::write_redactor(loaded)?,
        drain_quiet: settings.job.drain_quiet,
        drain_max: settings.job.drain_max,
        places: Arc::new(places),
        journal: None,
        pumps: PumpGate::default(),
        watchdog: Watchdog::default(),
        gate: Arc::new(gate),
    })
}

fn lane_defaults(lane: &config::LaneSection, settings: &Settings) -> LaneDefaults {
    LaneDefaults {
        timeout: lane.timeout.map(|timeout| timeout.min(settings.job.max_timeout)),
        priority: lane.priority.unwrap_or_default(),
    }
}

/// Returns the limits on stored output.
fn quota_limits(settings: &Settings) -> QuotaLimits {
    let own = settings.tenants.iter();
    QuotaLimits {
        store_bytes: settings.output.max_store,
        tenant_bytes: settings.output.max_tenant,
        tenants: own
            .filter_map(|(name, tenant)| Some((name.clone(), tenant.max_stored?)))
            .collect(),
    }
}

/// Returns the lanes and tenants that have metric series of their own.
pub(super) fn series_names(settings: &Settings) -> SeriesNames {
    let lanes = settings.queue.lanes.keys().cloned();
    let tenants = settings.tenants.keys().cloned();
    SeriesNames {
        lanes: lanes.chain([DEFAULT_LANE.to_owned()]).collect(),
        tenants: tenants.chain([TenantId::LOCAL.name().to_owned()]).collect(),
    }
}

fn retention_settings(settings: &config::RetentionSection) -> Retention {
    let tenant_finished = settings.tenant_max_finished;
    Retention {
        all: RetentionBounds {
            finished: Some(settings.max_finished),
            age: settings.max_age,
            bytes: settings.max_bytes,
        },
        tenant: RetentionBounds {
            finished: tenant_finished.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
            age: settings.tenant_max_age,
            bytes: settings.tenant_max_bytes,
        },
    }
}

/// Returns the directory for output that does not fit into memory.
pub(super) fn spill_dir(settings: &Settings) -> PathBuf {
    settings.server.data_dir.join("spill")
}

fn run_limits(settings: &Settings) -> RunLimits {
    let job = &settings.job;
    RunLimits {
        timeout: job.timeout,
        grace: job.grace,
        output_bytes: job.max_output,
        output_lines: job.max_lines.unwrap_or(u64::MAX),
        large_bytes: settings.output.large,
    }
}

fn default_cwd(settings: &Settings) -> Result<PathBuf, AppError> {
    match &settings.job.cwd {
        Some(cwd) => Ok(cwd.clone()),
        None => std::env::current_dir().map_err(AppError::Cwd),
    }
}

/// Returns the settings of the exec gate, beside these rules.
pub(super) fn gate_settings(
    loaded: &Loaded,
    rules: &AdmissionRules,
) -> Result<GateSettings, AppError> {
    let policy = &loaded.settings.policy;
    Ok(GateSettings {
        policy: rules.policy.clone(),
        enforcement: policy.enforce,
        opens: policy.opens.clone(),
        directory: default_cwd(&loaded.settings)?,
        redactor: Arc::clone(&rules.redactor),
    })
}

/// Returns the limits of the queue, its lanes and the tenants.
fn queue_limits(settings: &Settings) -> Result<QueueLimits, AppError> {
    let queue = &settings.queue;
    let cores = available_parallelism().map_or(1, usize::from);
    let lanes = queue.lanes.iter().map(|(name, lane)| {
        (name.clone(), LaneLimits { slots: lane.slots, max_queued: lane.max_queued })
    });
    let quota = settings.quota;
    let tenants = settings.tenants.iter();
    let tenants =
        tenants.map(|(name, own)| Ok((TenantId::parse(name)?, tenant_limits(own, &quota))));
    Ok(QueueLimits {
        slots: queue.slots_for(cores),
        max_queued: queue.max_queued,
        idle_after: queue.idle_after,
        max_idle: queue.max_idle,
        lanes: lanes.collect(),
        quota,
        tenants: tenants.collect::<Result<_, AppError>>()?,
    })
}

/// Returns the limits of a tenant: its own section first, then the quota of every tenant.
fn tenant_limits(own: &TenantSection, quota: &TenantLimits) -> TenantLimits {
    TenantLimits {
        weight: own.weight.and_then(NonZeroU32::new).unwrap_or(quota.weight),
        max_running: own.max_running.map_or(quota.max_running, to_job_limit),
        max_queued: own.max_queued.map_or(quota.max_queued, to_job_limit),
        starts_per_minute: own.starts_per_minute.map_or(quota.starts_per_minute, to_start_limit),
        cpu_per_hour: own.cpu_s_per_hour.map_or(quota.cpu_per_hour, to_cpu_limit),
    }
}

// In the next three functions, 0 means no limit.

fn to_job_limit(count: u64) -> Option<usize> {
    (count > 0).then(|| usize::try_from(count).unwrap_or(usize::MAX))
}

fn to_start_limit(count: u64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(count).unwrap_or(u32::MAX))
}

fn to_cpu_limit(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::ConfinementTerms;

    const UNSET: TenantSection = TenantSection {
        weight: None,
        max_running: None,
        max_queued: None,
        starts_per_minute: None,
        cpu_s_per_hour: None,
        max_stored: None,
        environment: Vec::new(),
        user: None,
        workspace: None,
        allowed_directories: Vec::new(),
        confinement_terms: ConfinementTerms::NOTHING,
    };

    #[test]
    fn a_tenants_own_limits_replace_the_quota_of_every_tenant() {
        let quota = TenantLimits {
            max_running: Some(4),
            max_queued: Some(10),
            starts_per_minute: NonZeroU32::new(60),
            ..TenantLimits::default()
        };
        assert_eq!(tenant_limits(&UNSET, &quota), quota);
        let own = TenantSection {
            weight: Some(3),
            max_queued: Some(0),
            starts_per_minute: Some(5),
            cpu_s_per_hour: Some(7),
            ..UNSET
        };
        let expected = TenantLimits {
            weight: NonZeroU32::new(3).unwrap(),
            max_running: Some(4),
            max_queued: None,
            starts_per_minute: NonZeroU32::new(5),
            cpu_per_hour: Some(Duration::from_secs(7)),
        };
        assert_eq!(tenant_limits(&own, &quota), expected);
    }
}
