//! Events of the server process and its host.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::actors::update_actor_gauges;
use crate::ids::{JobId, TenantId};
use crate::telemetry::labels::{HostResource, key};
use crate::telemetry::logging;
use crate::telemetry::names::{journal, output, process, queue};
use crate::telemetry::process_metrics::{self, DiskSpace, ProcessUsage};

/// Orphaned processes of ended jobs were reaped.
pub fn orphans_reaped(count: u64) {
    tracing::debug!(count, "orphans reaped");
    process::ORPHANS.unlabeled().increment(count);
}

/// The out-of-memory scores of jobs could not be raised, or the score of the server could not be
/// restored. Each failure was logged when it happened.
pub fn oom_scores_failed(count: u64) {
    process::OOM_SCORE_FAILURES.unlabeled().increment(count);
}

/// Processes that belong to no known job were ended, after all jobs that could have started them.
pub fn unattributed_processes_ended(count: u64) {
    tracing::warn!(
        count,
        "processes of unknown origin were ended with the last job that could have started them"
    );
    process::UNATTRIBUTED_ENDED.unlabeled().increment(count);
}

/// The guardian process died and was restarted.
pub fn guardian_restarted() {
    tracing::warn!("guardian process died and was restarted");
    process::GUARDIAN_RESTARTS.unlabeled().increment(1);
}

/// The server no longer notices when child processes exit.
pub fn child_exits_unseen(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "exits of child processes are no longer noticed: processes that jobs leave behind stay until this server restarts"
    );
}

/// The guardian process could not be started.
pub fn guardian_not_started(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "no guardian process: no job starts, and running jobs would survive a kill of this server"
    );
}

/// The spawner process died and was restarted.
pub fn spawner_restarted() {
    tracing::warn!("spawner process died and was restarted");
}

/// The spawner process died and could not be restarted yet.
pub fn spawner_not_started(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "no spawner process: sandboxed jobs cannot start");
}

/// The watchdog thread could not be started.
pub fn watchdog_not_started(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "no watchdog thread: limits on memory, CPU time and processes may not be enforced"
    );
}

/// The record of the jobs' processes cannot be written.
pub fn process_record_not_written(why: &io::Error) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "no process record: if this server is killed, processes that hide which job started them are not ended"
    );
}

/// The directory for the temporary directories of jobs is not usable.
pub fn scratch_dir_unusable(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "no temporary directory: jobs with restricted files cannot start");
}

/// The directory for spill files is not usable.
pub fn spill_dir_unusable(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?path,
        ?why,
        "output beyond memory cannot be stored; set server.data_dir to a writable directory"
    );
}

/// The journal cannot be opened, so jobs end with the server.
pub fn journal_unusable(why: &dyn std::error::Error) {
    let cause = why.source().map(ToString::to_string).unwrap_or_default();
    let why = why.to_string();
    tracing::error!(?why, ?cause, "no journal: jobs end with this server, and are forgotten then");
}

/// The figures of the journal at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalStats {
    pub records: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Records that are neither written nor kept in memory.
    pub lost: u64,
    /// `true` while the journal cannot be written.
    pub is_degraded: bool,
}

/// The journal was measured, for a scrape.
pub fn journal_measured(stats: JournalStats) {
    journal::RECORDS.unlabeled().absolute(stats.records);
    journal::BYTES.unlabeled().absolute(stats.bytes);
    journal::ERRORS.unlabeled().absolute(stats.errors);
    journal::LOST.unlabeled().absolute(stats.lost);
    journal::DEGRADED.set_count(usize::from(stats.is_degraded));
}

/// Lines of the journal are damaged: the jobs that they describe are not known.
pub fn journal_damaged(lines: u64) {
    tracing::error!(
        lines,
        "lines of the journal are damaged: jobs are missing, and output files are kept"
    );
}

/// The journal cannot be written any more.
pub fn journal_degraded(why: &str) {
    tracing::error!(
        ?why,
        "the journal cannot be written: jobs go on, but a crash of the server now would lose them"
    );
}

/// The disk of the journal has little room left.
pub fn journal_low_space() {
    tracing::warn!("the disk of the journal is nearly full; free some room");
}

/// The journal is written again.
pub fn journal_recovered() {
    tracing::info!("the journal is written again");
}

/// Another server is about to take over the jobs of this one.
pub fn handover_begun(program: &Path) {
    tracing::info!(?program, "handing the jobs over to another server");
}

/// All that the next server needs is recorded.
pub fn handover_ready() {
    tracing::info!("jobs handed over");
}

/// An upgrade that a signal requested was refused.
pub fn upgrade_refused(why: &str) {
    tracing::warn!(?why, "not upgraded");
}

/// A job of a previous server cannot be restored from the journal.
pub fn job_not_restored(id: JobId, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(tenant = %id.tenant(), job_id = %id, ?why, "job not restored");
}

/// The keeper held processes that belong to no known job; they were ended.
pub fn unknown_process_ended(name: &str) {
    tracing::warn!(name, "processes of an unknown job ended");
}

/// The data directory cannot be locked, so a second server on it would not be noticed.
pub fn data_dir_not_locked(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(
        ?path,
        ?why,
        "data directory not locked; do not start a second server on it, or set server.data_dir to a writable directory"
    );
}

/// The shutdown took too long; the process exits whatever its threads do.
pub fn shutdown_forced(after: Duration) {
    tracing::error!(
        after_s = after.as_secs(),
        "shutdown took too long and is forced; a thread hangs, check the file systems that the server uses"
    );
}

/// Entries of the audit log could not be written.
pub fn audit_failed(lines: usize, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(lines, ?why, "audit log not written; check its disk and its permissions");
    process::AUDIT_FAILURES.unlabeled().increment(lines as u64);
}

/// The number of queued entries of the audit log changed.
pub fn audit_queued(lines: usize) {
    process::AUDIT_QUEUED.set_count(lines);
}

/// The audit log does not answer; calls no longer wait for it.
pub fn audit_stalled() {
    tracing::warn!(
        "audit log does not answer: another process holds its lock, or its disk is stuck; entries are queued in memory"
    );
}

/// The audit log answers again and its queue is empty.
pub fn audit_recovered() {
    tracing::info!("audit log answers again; no entry is queued");
}

/// The server shuts down although entries of the audit log are not written.
pub fn audit_lines_lost(lines: usize) {
    tracing::error!(
        lines,
        "audit log entries lost: another process holds its lock, or its disk is stuck"
    );
    process::AUDIT_FAILURES.unlabeled().increment(lines as u64);
}

/// The abort file, which stops a workflow, could not be written.
pub fn abort_file_failed(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, ?why, "abort file not written; check shell_tool.abort_file");
}

/// A directory that jobs may run in does not exist.
pub fn allowed_directory_missing(path: &Path) {
    tracing::warn!(?path, "shell_tool.allowed_directories names a missing directory");
}

/// A `settings.json` has keys that have no meaning here.
pub fn settings_ignored(file: Option<&Path>, keys: &[String]) {
    let keys = keys.join(", ");
    tracing::info!(
        ?file,
        ?keys,
        "ignored keys of settings.json; coreTools and excludeTools are read"
    );
}

/// The settings were reloaded: the keys in `live` apply now, those in `restart` after a restart.
pub fn settings_reloaded(live: &[String], restart: &[String]) {
    let live = live.join(", ");
    let restart = restart.join(", ");
    tracing::info!(?live, needs_restart = ?restart, "settings reloaded");
}

/// An operator changed something that concerns all tenants.
pub fn operator_action(what: &str, detail: &str, by: TenantId) {
    tracing::info!(what, ?detail, ?by, "operator action");
}

/// The time of a log filter override is over; the configured filter is active again.
pub fn log_filter_restored(filter: &str) {
    tracing::info!(?filter, "configured log filter restored");
}

/// The collector does not accept spans. The exporter reports this once, until it recovers.
pub fn span_export_failed(why: &str) {
    tracing::warn!(
        ?why,
        "spans lost: the collector does not accept them; check trace.otlp_endpoint and the collector"
    );
}

/// The collector accepts spans again.
pub fn span_export_recovered() {
    tracing::info!("collector accepts spans again");
}

/// A reload failed; the old settings stay in force.
pub fn reload_refused(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "reload refused, the old settings stay in force; correct the file and send SIGHUP again"
    );
}

/// The pressure limit of a resource was set, in percent; `None` = starts are never held back.
pub fn pressure_limit_set(resource: HostResource, percent: Option<u8>) {
    let ratio = f64::from(percent.unwrap_or(0)) / 100.0;
    queue::PRESSURE_LIMIT.with_label((key::RESOURCE, resource.word())).set(ratio);
}

/// The pressure of a resource was measured, in percent of the time.
pub fn pressure_measured(resource: HostResource, percent: u8) {
    let ratio = f64::from(percent) / 100.0;
    queue::PRESSURE.with_label((key::RESOURCE, resource.word())).set(ratio);
}

/// A pressure limit is configured, but the pressure cannot be measured.
pub fn pressure_unavailable(why: &dyn Display, fix: &'static str) {
    let why = why.to_string();
    tracing::warn!(?why, fix, "pressure cannot be measured, starts are not held back");
}

/// Pressure is above its limit: from now on no job starts while another runs.
pub fn starts_held(resource: HostResource, percent: u8) {
    tracing::warn!(resource = resource.word(), percent, "starts are held back by pressure");
    queue::STARTS_HELD.set_flag(true);
}

/// Pressure is below its limit again, or has no limit any more: jobs start again.
pub fn starts_resumed() {
    tracing::info!("starts no longer held back by pressure");
    queue::STARTS_HELD.set_flag(false);
}

/// Sets the metrics of this process and its disk, for a scrape.
pub(in crate::telemetry) fn update_process_metrics(disk_space: Option<DiskSpace>) {
    update_actor_gauges();
    if let Some(usage) = process_metrics::read_usage() {
        let ProcessUsage { cpu, threads, virtual_bytes, resident_bytes } = usage;
        process::CPU.unlabeled().absolute(cpu.as_secs());
        process::THREADS.unlabeled().set(threads as f64);
        process::VIRTUAL.unlabeled().set(virtual_bytes as f64);
        process::RESIDENT.unlabeled().set(resident_bytes as f64);
    }
    if let Some(open) = process_metrics::count_open_fds() {
        process::OPEN_FDS.set_count(open);
    }
    if let Some(limit) = process_metrics::read_max_fds() {
        process::MAX_FDS.unlabeled().set(limit as f64);
    }
    if let Some(space) = disk_space {
        output::DISK_FREE.unlabeled().set(space.free as f64);
        output::DISK_SIZE.unlabeled().set(space.size as f64);
    }
    process::LOG_DROPPED.unlabeled().absolute(logging::count_dropped_lines());
}

/// The secret of tickets cannot be saved, so tickets end with this server.
pub fn ticket_secret_not_saved(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(?path, ?why, "secret of tickets not saved; tickets end with this server");
}

/// The next job number cannot be saved, so numbers may repeat after a restart.
pub fn job_numbers_not_saved(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(?path, ?why, "job numbers not saved; they may repeat after a restart");
}

/// The key that signs the ids of MCP sessions cannot be used.
pub fn session_key_unusable(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(
        ?path,
        ?why,
        "session key unusable; clients have to initialize again after a restart"
    );
}

/// Converts a duration to whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
