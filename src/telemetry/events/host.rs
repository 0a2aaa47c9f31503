//! The host, and the server as a part of it.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::ids::TenantId;
use crate::telemetry::labels::{ActorKind, HostResource, key};
use crate::telemetry::names::{actors, output, process, queue};
use crate::telemetry::process_metrics::{DiskRoom, ProcessUsage};
use crate::telemetry::{logging, process_metrics as own};

/// Stray processes of ended jobs were reaped.
pub fn orphans_reaped(count: u64) {
    tracing::debug!(count, "orphans reaped");
    process::ORPHANS.unlabeled().increment(count);
}

/// Out-of-memory scores of jobs could not be raised, or that of the server could not be restored; each
/// was logged when it happened.
pub fn oom_scores_failed(count: u64) {
    process::OOM_SCORE_FAILURES.unlabeled().increment(count);
}

/// Processes were ended that shed all signs of their job, after all jobs that they could have come from.
pub fn unattributed_processes_ended(count: u64) {
    tracing::warn!(
        count,
        "processes of unknown origin were ended with the last job that could have started them"
    );
    process::UNATTRIBUTED_ENDED.unlabeled().increment(count);
}

/// The guardian had died; there is a new one.
pub fn guardian_restarted() {
    tracing::warn!("the guardian process had died; a new one was started");
    process::GUARDIAN_RESTARTS.unlabeled().increment(1);
}

/// The system does not tell any more when children end.
pub fn child_exits_unseen(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "ends of processes are not seen any more: what jobs leave behind stays until this server is started again"
    );
}

/// There is no guardian, although one is wanted.
pub fn guardian_not_started(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "no guardian process: jobs that run would outlive a kill of this server, and none starts"
    );
}

/// The process that creates confined jobs had died; there is a new one.
pub fn spawner_restarted() {
    tracing::warn!("the process that creates jobs had died; a new one was started");
}

/// The process that creates confined jobs has died, and there is no new one yet.
pub fn spawner_not_started(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "no process that creates jobs: confined jobs cannot start");
}

/// Nobody watches over what jobs use up.
pub fn watchdog_not_started(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "no watchdog thread: limits on memory, CPU time and processes may not hold"
    );
}

/// The processes of jobs cannot be written down.
pub fn process_record_not_written(why: &io::Error) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "no record of processes: should this server be killed, those that shed all signs of their job are not ended"
    );
}

/// There is no place for the temporary directories of jobs.
pub fn scratch_dir_unusable(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "no temporary directory: jobs whose files are limited cannot start");
}

/// The place for spill files cannot be used.
pub fn data_dir_unusable(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?path,
        ?why,
        "output beyond memory cannot be kept; set server.data_dir to a directory that can be written"
    );
}

/// The data directory cannot be locked, so that a second server on it would not be noticed.
pub fn data_dir_not_locked(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(
        ?path,
        ?why,
        "the data directory is not locked; start no second server on it, or set server.data_dir to a directory that can be written"
    );
}

/// The server did not end in time and is ended now, with whatever its threads are at.
pub fn shutdown_forced(after: Duration) {
    tracing::error!(
        after_s = after.as_secs(),
        "the server did not end in time and is ended now; a thread hangs, check the file systems that it uses"
    );
}

/// Lines of the audit log could not be written.
pub fn audit_failed(lines: usize, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(lines, ?why, "audit log cannot be written; check its disk and its permissions");
    process::AUDIT_FAILURES.unlabeled().increment(lines as u64);
}

/// So many lines of the audit log are not written yet.
pub fn audit_queued(lines: usize) {
    process::AUDIT_QUEUED.set_count(lines);
}

/// The audit log does not answer, and calls go on without it.
pub fn audit_stalled() {
    tracing::warn!(
        "the audit log does not answer: another process holds its lock, or its disk is stuck; its lines wait in memory"
    );
}

/// The audit log answers again, and no line waits for it.
pub fn audit_recovered() {
    tracing::info!("no line of the audit log waits any more");
}

/// The server ends, and lines of the audit log are not written.
pub fn audit_lines_lost(lines: usize) {
    tracing::error!(
        lines,
        "lines of the audit log are lost: another process holds its lock, or its disk is stuck"
    );
    process::AUDIT_FAILURES.unlabeled().increment(lines as u64);
}

/// The file that stops a workflow could not be written.
pub fn abort_file_failed(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, ?why, "abort file not written; check shell_tool.abort_file");
}

/// A directory that jobs may run in does not exist.
pub fn allowed_directory_missing(path: &Path) {
    tracing::warn!(?path, "shell_tool.allowed_directories names a directory that is not there");
}

/// Settings were read again: these keys hold from now on, these take a restart.
pub fn settings_reloaded(live: &[String], restart: &[String]) {
    let live = live.join(", ");
    let restart = restart.join(", ");
    tracing::info!(?live, needs_restart = ?restart, "settings reloaded");
}

/// An operator changed what concerns all tenants.
pub fn operator_action(what: &str, detail: &str, by: TenantId) {
    tracing::info!(what, ?detail, ?by, "operator");
}

/// The time of a log filter that somebody chose is over: this one holds again.
pub fn log_filter_restored(filter: &str) {
    tracing::info!(?filter, "the configured log filter holds again");
}

/// Spans cannot be handed over. Told once, until they can again.
pub fn span_export_failed(why: &str) {
    tracing::warn!(
        ?why,
        "spans are lost: the collector does not take them; check trace.otlp_endpoint and what listens there"
    );
}

/// Spans are handed over again.
pub fn span_export_recovered() {
    tracing::info!("the collector takes spans again");
}

/// New rules could not be read; the old ones hold.
pub fn reload_refused(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "reload refused, the old settings hold; correct the file and send SIGHUP again"
    );
}

/// From this share on, in percent, starts are held back; `None`: whatever it is.
pub fn pressure_limit_set(resource: HostResource, percent: Option<u8>) {
    let ratio = f64::from(percent.unwrap_or(0)) / 100.0;
    queue::PRESSURE_LIMIT.with_label((key::RESOURCE, resource.word())).set(ratio);
}

/// The system stalls for this share of the time, in percent.
pub fn pressure_measured(resource: HostResource, percent: u8) {
    let ratio = f64::from(percent) / 100.0;
    queue::PRESSURE.with_label((key::RESOURCE, resource.word())).set(ratio);
}

/// Pressure shall hold starts back and cannot be measured.
pub fn pressure_unavailable(why: &dyn Display, fix: &'static str) {
    let why = why.to_string();
    tracing::warn!(?why, fix, "pressure is not watched, starts are not held back");
}

/// The system stalls: from now on no further job starts while one runs.
pub fn starts_held(resource: HostResource, percent: u8) {
    tracing::warn!(resource = resource.word(), percent, "starts are held back by pressure");
    queue::STARTS_HELD.set_flag(true);
}

/// The system stalls no longer, or that no longer matters: jobs start again.
pub fn starts_resumed() {
    tracing::info!("starts go on, no pressure holds them back");
    queue::STARTS_HELD.set_flag(false);
}

/// Somebody asks for the metrics: measures what this process uses, and the disk that it uses.
pub(in crate::telemetry) fn update_process_metrics(room: Option<DiskRoom>) {
    update_actor_gauges();
    if let Some(ProcessUsage { cpu, threads, virtual_bytes, resident_bytes }) = own::usage() {
        process::CPU.unlabeled().absolute(cpu.as_secs());
        process::THREADS.unlabeled().set(threads as f64);
        process::VIRTUAL.unlabeled().set(virtual_bytes as f64);
        process::RESIDENT.unlabeled().set(resident_bytes as f64);
    }
    if let Some(open) = own::open_fds() {
        process::OPEN_FDS.set_count(open);
    }
    if let Some(most) = own::max_fds() {
        process::MAX_FDS.unlabeled().set(most as f64);
    }
    if let Some(room) = room {
        output::DISK_FREE.unlabeled().set(room.free as f64);
        output::DISK_SIZE.unlabeled().set(room.size as f64);
    }
    process::LOG_DROPPED.unlabeled().absolute(logging::dropped_lines());
}

/// Job numbers cannot be kept: after a restart they begin anew.
pub fn job_numbers_not_saved(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(?path, ?why, "job numbers not kept; after a restart they may repeat");
}

// Figures in the form that logs take.

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

// Actors: how many are alive, what waits for them, and which was started again.

/// What there is of one class of actors. Shown at each scrape, so that to count costs an addition.
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

/// One more in a count, for as long as it is there.
#[derive(Debug)]
struct CountGuard(&'static AtomicUsize);

impl CountGuard {
    fn by(count: &'static AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An actor that is alive. Dropping it counts the actor as gone, on every way out.
#[derive(Debug)]
pub struct LiveActor {
    _alive: CountGuard,
}

/// An actor of this class has begun; its state keeps what this gives.
#[must_use = "dropping the guard counts the actor as gone"]
pub fn actor_started(actor: ActorKind) -> LiveActor {
    LiveActor { _alive: CountGuard::by(&ActorCounts::of_kind(actor).alive) }
}

/// A message on its way to an actor. It counts as waiting until it is opened, or thrown away
/// with its mailbox, or was never taken by one.
#[derive(Debug)]
pub struct CountedMessage<M> {
    message: M,
    _waiting: CountGuard,
}

impl<M> CountedMessage<M> {
    /// A message to an actor of this class.
    pub fn new(actor: ActorKind, message: M) -> Self {
        Self::counted_by(&ActorCounts::of_kind(actor).waiting, message)
    }

    fn counted_by(count: &'static AtomicUsize, message: M) -> Self {
        Self { message, _waiting: CountGuard::by(count) }
    }

    /// The message, which no longer waits.
    pub fn into_inner(self) -> M {
        self.message
    }
}

/// The supervisor failed, and a new one has taken over.
pub fn supervisor_restarted() {
    tracing::error!("the supervisor was started again; jobs that waited or ran are lost");
    actors::RESTARTS.with_label((key::ACTOR, ActorKind::Supervisor.word())).increment(1);
}

/// The supervisor fails too often; there will be no new one.
pub fn supervisor_abandoned() {
    tracing::error!(
        "the supervisor fails again and again and is not started any more; the server ends"
    );
}

/// Sets the gauges to what there is now.
pub(crate) fn update_actor_gauges() {
    for actor in ActorKind::ALL {
        let tally = ActorCounts::of_kind(actor);
        let label = (key::ACTOR, actor.word());
        let show = |count: &AtomicUsize| count.load(Ordering::Relaxed) as f64;
        actors::ALIVE.with_label(label).set(show(&tally.alive));
        actors::MAILBOX.with_label(label).set(show(&tally.waiting));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use proptest::prelude::*;

    use super::*;

    /// What can become of a letter.
    #[derive(Debug, Clone, Copy)]
    enum MessageStep {
        Sent,
        Opened,
        MailboxGone,
    }

    proptest! {
        #[test]
        fn what_waits_is_counted_whatever_becomes_of_it(
            fates in prop::collection::vec(
                prop_oneof![4 => Just(MessageStep::Sent), 3 => Just(MessageStep::Opened), 1 => Just(MessageStep::MailboxGone)],
                0..200,
            ),
        ) {
            // One count for each case: they run at the same time as other tests.
            let tally: &'static ActorCounts = Box::leak(Box::new(ActorCounts::new()));
            let waiting = || tally.waiting.load(Ordering::Relaxed);
            let (mut sender, mut mailbox) = mpsc::channel();
            let mut is_gone = false;
            let mut expected = 0;
            for fate in fates {
                match fate {
                    MessageStep::Sent => {
                        let sent = sender.send(CountedMessage::counted_by(&tally.waiting, ()));
                        prop_assert_eq!(sent.is_err(), is_gone);
                        expected += usize::from(!is_gone);
                    }
                    MessageStep::Opened => {
                        if mailbox.try_recv().map(CountedMessage::into_inner).is_ok() {
                            expected -= 1;
                        }
                    }
                    MessageStep::MailboxGone => {
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
