//! Events of the server process, its host and its actors: live actors, messages in mailboxes, and
//! restarts of the supervisor.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::ids::{JobId, TenantId};
use crate::telemetry::labels::{ActorKind, HostResource, key};
use crate::telemetry::names::{actors, journal, process, queue};

/// The watchdog thread could not be started.
pub fn watchdog_not_started(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "no watchdog thread: limits on memory, CPU time and processes may not be enforced"
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

/// Jobs of these tenants run as root, beside those of other tenants.
pub fn tenants_share_root(tenants: &[String]) {
    let tenants = tenants.join(", ");
    tracing::warn!(
        ?tenants,
        "jobs of several tenants run as root and can read and change each other's files; set tenants.NAME.user, or tenants.NAME.workspace and a file profile"
    );
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

/// The counts of one kind of actor. They become gauges at each scrape, so counting costs only an
/// addition.
#[derive(Debug)]
struct ActorCounts {
    alive: AtomicUsize,
    waiting: AtomicUsize,
}

static SUPERVISOR: ActorCounts = ActorCounts::new();
static JOB: ActorCounts = ActorCounts::new();

impl ActorCounts {
    const fn new() -> Self {
        Self { alive: AtomicUsize::new(0), waiting: AtomicUsize::new(0) }
    }

    const fn of_kind(actor: ActorKind) -> &'static Self {
        match actor {
            ActorKind::Supervisor => &SUPERVISOR,
            ActorKind::Job => &JOB,
        }
    }
}

/// Adds one to a count for as long as it exists.
#[derive(Debug)]
struct CountGuard(&'static AtomicUsize);

impl CountGuard {
    fn add_to(count: &'static AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A live actor. Dropping it counts the actor as gone, on every path.
#[derive(Debug)]
pub struct LiveActor {
    _alive: CountGuard,
}

/// An actor has started. Its state keeps the returned guard.
#[must_use = "dropping the guard counts the actor as gone"]
pub fn actor_started(actor: ActorKind) -> LiveActor {
    LiveActor { _alive: CountGuard::add_to(&ActorCounts::of_kind(actor).alive) }
}

/// A message to an actor that counts as waiting. The count ends when the actor takes the message out,
/// when the mailbox is dropped, or when the mailbox refuses the message.
#[derive(Debug)]
pub struct CountedMessage<M> {
    message: M,
    _waiting: CountGuard,
}

impl<M> CountedMessage<M> {
    /// Wraps a message to an actor of this kind.
    pub fn new(actor: ActorKind, message: M) -> Self {
        Self::counted_by(&ActorCounts::of_kind(actor).waiting, message)
    }

    fn counted_by(count: &'static AtomicUsize, message: M) -> Self {
        Self { message, _waiting: CountGuard::add_to(count) }
    }

    /// Returns the message, which no longer counts as waiting.
    pub fn into_inner(self) -> M {
        self.message
    }
}

/// An actor ended with an error or a panic.
pub fn actor_failed(actor: ActorKind, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(actor = actor.word(), ?why, "actor failed");
    actors::FAILURES.with_label((key::ACTOR, actor.word())).increment(1);
}

/// The supervisor failed and a new one has taken over.
pub fn supervisor_restarted() {
    tracing::error!("supervisor restarted; queued and running jobs are lost");
    actors::RESTARTS.with_label((key::ACTOR, ActorKind::Supervisor.word())).increment(1);
}

/// The supervisor failed too often and is not restarted again.
pub fn supervisor_abandoned() {
    tracing::error!("supervisor failed too often and is not restarted; the server shuts down");
}

/// Sets the gauges to the current counts, for a scrape.
pub(crate) fn update_actor_gauges() {
    for actor in ActorKind::ALL {
        let counts = ActorCounts::of_kind(actor);
        let label = (key::ACTOR, actor.word());
        let value = |count: &AtomicUsize| count.load(Ordering::Relaxed) as f64;
        actors::ALIVE.with_label(label).set(value(&counts.alive));
        actors::MAILBOX.with_label(label).set(value(&counts.waiting));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use proptest::prelude::*;

    use super::*;

    /// A step in the life of a message.
    #[derive(Debug, Clone, Copy)]
    enum MessageStep {
        Sent,
        Taken,
        MailboxDropped,
    }

    proptest! {
        #[test]
        fn the_count_of_waiting_messages_is_right_after_every_step(
            steps in prop::collection::vec(
                prop_oneof![
                    4 => Just(MessageStep::Sent),
                    3 => Just(MessageStep::Taken),
                    1 => Just(MessageStep::MailboxDropped),
                ],
                0..200,
            ),
        ) {
            // Each case has its own count, since other tests run at the same time.
            let counts: &'static ActorCounts = Box::leak(Box::new(ActorCounts::new()));
            let waiting = || counts.waiting.load(Ordering::Relaxed);
            let (mut sender, mut mailbox) = mpsc::channel();
            let mut is_gone = false;
            let mut expected = 0;
            for step in steps {
                match step {
                    MessageStep::Sent => {
                        let sent = sender.send(CountedMessage::counted_by(&counts.waiting, ()));
                        prop_assert_eq!(sent.is_err(), is_gone);
                        expected += usize::from(!is_gone);
                    }
                    MessageStep::Taken => {
                        if mailbox.try_recv().map(CountedMessage::into_inner).is_ok() {
                            expected -= 1;
                        }
                    }
                    MessageStep::MailboxDropped => {
                        mailbox = mpsc::channel().1;
                        is_gone = true;
                        expected = 0;
                    }
                }
                prop_assert_eq!(waiting(), expected);
            }
            sender = mpsc::channel().0;
            drop((sender, mailbox));
            prop_assert_eq!(waiting(), 0);
        }
    }
}
