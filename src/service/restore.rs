//! The state that outlives a server: its jobs, their numbers, and the secret of their tickets.
//!
//! The next server restores the jobs from the journal and from the processes that the keeper held
//! meanwhile. It must not use a job number again: a client that still means the old job 4 would read or
//! stop another job. So a small file keeps the numbers across restarts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fmt, fs, thread};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tempfile::NamedTempFile;
use tokio::sync::watch;

use super::admission::{AdmissionControl, open_allowed_dir};
use crate::block_in_place;
use crate::ids::{JobId, JobNumber, TenantId};
use crate::job::{self, JobGuard, JobHandle, JobPhase, JobStatus, JobTimes, SharedJobSettings};
use crate::journal::{
    EndedRecords, FreedNote, JobInputs, JournalState, QueuedJob, StoredJson, UnfinishedJob,
    restore_instant,
};
use crate::output::LogName;
use crate::private_files::{Symlinks, read_text};
use crate::process::{KeptProcess, Process};
use crate::spec::JobSpec;
use crate::supervisor::{FreedCause, OnJobEnd, RestoredJob, RestoredJobs, RestoredStage};
use crate::telemetry::audit::AuditedJob;
use crate::telemetry::{LoggedCommand, events};

/// The state that a previous server has left.
#[derive(Debug, Default)]
pub struct PreviousServer {
    /// The jobs by the journal.
    pub jobs: JournalState,
    /// The jobs whose endings are missing in the audit log.
    pub without_ending: HashSet<AuditedJob>,
    /// `true` if the journal was there and whole: output of other jobs can be removed.
    pub knows_all_jobs: bool,
}

impl PreviousServer {
    /// Returns the names of the logs of all known jobs.
    #[must_use]
    pub fn list_log_names(&self) -> HashSet<LogName> {
        let unfinished = self.jobs.unfinished.iter().map(|job| job.accepted.job);
        let finished = self.jobs.finished.iter().map(|job| job.accepted.job);
        unfinished.chain(finished).map(job::log_name).collect()
    }
}

/// Restores all jobs, and ends processes of unknown jobs. Reads the disk only for jobs that had not
/// ended.
pub(super) fn restore_jobs(
    previous: PreviousServer,
    processes: Vec<KeptProcess>,
    admission: &AdmissionControl,
    settings: &Arc<SharedJobSettings>,
) -> RestoredJobs {
    let PreviousServer { jobs, without_ending, .. } = previous;
    let JournalState { unfinished, finished, freed, .. } = jobs;
    let processes =
        processes.into_iter().map(|KeptProcess { name, process }| (name, process)).collect();
    let mut restorer = Restorer { admission, settings, processes, without_ending };
    let finished = finished.into_iter().filter_map(|job| restorer.restore_finished(job));
    let mut jobs: Vec<RestoredJob> = finished.collect();
    let unfinished = unfinished.into_iter().filter_map(|job| restorer.restore_unfinished(job));
    jobs.extend(unfinished);
    restorer.end_unknown_processes();
    RestoredJobs { jobs, freed: freed.into_iter().filter_map(restore_freed).collect() }
}

struct Restorer<'a> {
    admission: &'a AdmissionControl,
    settings: &'a Arc<SharedJobSettings>,
    /// The processes that no job has taken over yet, by the names under which they are kept.
    processes: HashMap<String, Result<Process, String>>,
    without_ending: HashSet<AuditedJob>,
}

impl Restorer<'_> {
    fn restore_finished(&mut self, job: EndedRecords) -> Option<RestoredJob> {
        let EndedRecords { accepted, ended } = job;
        let id = accepted.job;
        let spec: JobSpec = read_spec(id, &accepted.spec)?;
        let at = restore_instant(ended.at_ms);
        let elapsed = Duration::from_millis(ended.elapsed_ms);
        let started = ended.started_at_ms.map(|_| at.checked_sub(elapsed).unwrap_or(at));
        let submitted = restore_instant(accepted.at_ms).min(started.unwrap_or(at));
        let phase = JobPhase::Finished(ended.ending.restore(at));
        let times = JobTimes {
            submitted_ms: accepted.at_ms,
            started_ms: ended.started_at_ms,
            finished_ms: Some(ended.at_ms),
        };
        let status = JobStatus { phase, submitted, started, times };
        // Processes that cannot be followed are ended, and the job has its outcome. So are those of a
        // job that was stopped before its start was known.
        let process = self.processes.remove(&job::keep_name(id)).and_then(Result::ok);
        let process = process.filter(|_| started.is_some());
        let log = ended.log.and_then(|log| log.read().ok());
        let (handle, stage) = match (log, process) {
            (Some(log), None) => {
                let handle = job::restore_finished_job(id, spec, status, &log, self.settings);
                (handle, RestoredStage::Finished)
            }
            // Processes outlived the job, or the server ended before the log was recorded.
            (_, process) => self.restore_open(id, spec, status, process),
        };
        let on_end = self.audit_at_end(&handle);
        Some(RestoredJob { handle, key: accepted.key, on_end, stage })
    }

    /// Returns the callback that writes the ending of a finished job to the audit log, if it is
    /// missing there.
    fn audit_at_end(&self, job: &JobHandle) -> Option<OnJobEnd> {
        let audited = AuditedJob {
            tenant: job.id().tenant().name().to_owned(),
            number: job.id().number(),
            trace_id: job.spec().trace.context.trace_id.to_string(),
        };
        self.admission.audit_at_end().filter(|_| self.without_ending.contains(&audited))
    }

    /// Restores a job whose log may grow or was not recorded when it was closed.
    fn restore_open(
        &self,
        id: JobId,
        spec: JobSpec,
        status: JobStatus,
        process: Option<Process>,
    ) -> (JobHandle, RestoredStage) {
        let (guard, handle) = match self.open_job(id, spec, status) {
            Ok(opened) => opened,
            Err(handle) => {
                if let Some(process) = process {
                    // Processes that are left even then are ended with the server.
                    let _is_over = process.tree.kill();
                    process.tree.release();
                }
                return (handle, RestoredStage::Finished);
            }
        };
        let Some(process) = process else {
            // Closes the log.
            drop(guard);
            self.record_log(&handle);
            return (handle, RestoredStage::Finished);
        };
        (handle, RestoredStage::Running(guard, Box::new(process)))
    }

    /// Opens the log of a job again. If that fails, returns the job as lost, without its output.
    fn open_job(
        &self,
        id: JobId,
        spec: JobSpec,
        status: JobStatus,
    ) -> Result<(JobGuard, JobHandle), JobHandle> {
        let restored = job::restore_open_job(id, spec.clone(), status, self.settings);
        restored.map_err(|error| {
            events::job_not_restored(id, &error);
            let (guard, handle) = job::create_job(id, spec, None, None, self.settings);
            guard.finish_lost(format!("its output cannot be read: {error}"));
            handle
        })
    }

    /// Records the log of a finished job whose server ended before it could.
    fn record_log(&self, job: &JobHandle) {
        let status = job.status();
        if let (Some(journal), Some(ending), Some(log)) =
            (&self.settings.journal, status.ending(), job.output().closed_state())
        {
            drop(journal.append(&job::ended_record(job.id(), status.started, ending, Some(&log))));
        }
    }

    fn restore_unfinished(&mut self, job: UnfinishedJob) -> Option<RestoredJob> {
        let UnfinishedJob { accepted, queued, starting, started } = job;
        let id = accepted.job;
        let spec: JobSpec = read_spec(id, &accepted.spec)?;
        let submitted = restore_instant(accepted.at_ms);
        let started_record = started;
        let started_ms = started.map(|it| it.at_ms).or(starting.map(|it| it.at_ms));
        let started_at = started_ms.map(|at| restore_instant(at).max(submitted));
        let times = JobTimes { submitted_ms: accepted.at_ms, started_ms, finished_ms: None };
        let status = |phase| JobStatus { phase, submitted, started: started_at, times };
        let process = self.processes.remove(&job::keep_name(id));
        let (handle, mut stage) = match (process, started_at, queued) {
            (Some(Err(why)), _, _) => {
                let why =
                    format!("its processes could not be taken over and are being ended: {why}");
                self.restore_lost(id, spec, status(JobPhase::Running), &why)
            }
            (Some(Ok(process)), started, _) => {
                let started = Some(started.unwrap_or_else(Instant::now));
                let status = JobStatus { started, ..status(JobPhase::Running) };
                self.restore_open(id, spec, status, Some(process))
            }
            (None, None, Some(QueuedJob { inputs, .. })) => {
                self.restore_queued(id, spec, status(JobPhase::Queued), inputs)
            }
            (None, None, None) => {
                let why = "the server ended while this job was being accepted; if it had begun, it ended with its keeper";
                self.restore_lost(id, spec, status(JobPhase::Queued), why)
            }
            (None, Some(_), _) => {
                let why = if started_record.is_some() {
                    "the server and its keeper ended while this job ran; it ended with its keeper, and its own ending is unknown"
                } else {
                    "the server ended while this job was being started; it may have run, and its ending is unknown"
                };
                self.restore_lost(id, spec, status(JobPhase::Running), why)
            }
        };
        if let RestoredStage::Queued(guard) | RestoredStage::Running(guard, _) = &mut stage {
            guard.set_logged_command(LoggedCommand::new(&accepted.command));
        }
        let on_end = self.admission.audit_at_end();
        Some(RestoredJob { handle, key: accepted.key, on_end, stage })
    }

    /// Restores a job that waits for its turn. It runs in its directory only if the rules of this
    /// server allow that.
    fn restore_queued(
        &self,
        id: JobId,
        mut spec: JobSpec,
        status: JobStatus,
        mut inputs: JobInputs,
    ) -> (JobHandle, RestoredStage) {
        let variables = inputs.inherited.take().map(|inherited| {
            let pairs = inherited.into_iter().map(|variable| (variable.name, variable.value));
            let withheld = std::mem::take(&mut inputs.withheld);
            Arc::new(self.settings.environment.for_client(pairs.collect(), withheld))
        });
        inputs.restore_into(&mut spec);
        let rules = self.admission.rules();
        spec.area = rules.area(id.tenant()).cloned();
        let cwd = open_allowed_dir(&self.admission.host, &rules, id.tenant(), &spec.cwd);
        let refusal = cwd.as_ref().err().map(ToString::to_string);
        let (guard, handle) = job::create_job(id, spec, cwd.ok(), variables, self.settings);
        guard.set_submitted(status.submitted, status.times.submitted_ms);
        let stage = match refusal {
            None => RestoredStage::Queued(guard),
            Some(why) => {
                guard
                    .finish_lost(format!("nothing was run after the restart of the server: {why}"));
                RestoredStage::Finished
            }
        };
        (handle, stage)
    }

    fn restore_lost(
        &self,
        id: JobId,
        spec: JobSpec,
        status: JobStatus,
        why: &str,
    ) -> (JobHandle, RestoredStage) {
        let handle = match self.open_job(id, spec, status) {
            Ok((guard, handle)) => {
                guard.finish_lost(why.to_owned());
                handle
            }
            Err(handle) => handle,
        };
        (handle, RestoredStage::Finished)
    }

    /// Ends the processes that belong to no known job.
    fn end_unknown_processes(self) {
        for (name, process) in self.processes {
            events::unknown_process_ended(&name);
            let Ok(process) = process else { continue };
            // Processes that are left even then are ended with the server.
            let _is_over = process.tree.kill();
            process.tree.release();
        }
    }
}

fn read_spec(id: JobId, stored: &StoredJson) -> Option<JobSpec> {
    stored.read().inspect_err(|error| events::job_not_restored(id, error)).ok()
}

fn restore_freed(note: FreedNote) -> Option<(JobId, SystemTime, FreedCause)> {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(note.at_ms))?;
    Some((note.job, at, note.why.read().ok()?))
}

// Job numbers, and announcements of new jobs.

/// The count of numbers that are reserved at once, so that the file is rarely written. After a crash
/// the unused ones are skipped.
const BLOCK: u64 = 100;
/// The longest wait for the disk to store a reservation; after it, the job starts without.
const WRITE_TIME: Duration = Duration::from_millis(500);

/// The job numbers of all tenants, and a notification for each new job. One entry for each tenant that
/// has ever submitted or listened; [`TenantId`] bounds their number.
#[derive(Debug, Default)]
pub(super) struct JobNumbers {
    /// The file that keeps the numbers across restarts, if any.
    file: Option<NumbersFile>,
    tenants: Mutex<HashMap<TenantId, TenantNumbers>>,
}

#[derive(Debug, Default)]
struct TenantNumbers {
    /// The last number that was used.
    last: u64,
    /// The last number that the file reserves.
    reserved: u64,
    /// Notifies of each accepted job.
    new_jobs: watch::Sender<()>,
}

impl JobNumbers {
    /// Continues after the numbers in the file, which may be missing, and after those of known jobs:
    /// `next` is the next number of each tenant by their records.
    pub(super) fn open(file: Option<PathBuf>, next: &BTreeMap<TenantId, u64>) -> Self {
        let stored = file.as_deref().map(read_numbers).unwrap_or_default();
        let numbers =
            |last| TenantNumbers { last, reserved: last, new_jobs: watch::Sender::default() };
        let mut tenants: HashMap<TenantId, TenantNumbers> =
            stored.into_iter().map(|(tenant, last)| (tenant, numbers(last))).collect();
        for (tenant, next) in next {
            let known = tenants.entry(*tenant).or_insert_with(|| numbers(0));
            let last = known.last.max(next.saturating_sub(1));
            (known.last, known.reserved) = (last, last);
        }
        Self { file: file.map(NumbersFile::new), tenants: Mutex::new(tenants) }
    }

    /// Takes the next job number of a tenant.
    pub(super) fn next_job(&self, tenant: TenantId) -> JobId {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = tenants.entry(tenant).or_default();
        numbers.last += 1;
        let number = numbers.last;
        if number > numbers.reserved {
            numbers.reserved = number + BLOCK - 1;
            let writing = self.start_write(&tenants);
            drop(tenants);
            self.wait_for_write(writing);
        }
        JobNumber::new(number).for_tenant(tenant)
    }

    /// Frees the number of a job that was not accepted, unless a later number is already in use.
    pub(super) fn give_back(&self, job: JobId) {
        self.with_tenant(job.tenant(), |numbers| {
            if numbers.last == job.number() {
                numbers.last -= 1;
            }
        });
    }

    /// Frees the reserved numbers at the end of the server, when no more numbers are needed.
    pub(super) fn close(&self) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        for numbers in tenants.values_mut() {
            numbers.reserved = numbers.last;
        }
        let writing = self.start_write(&tenants);
        drop(tenants);
        self.wait_for_write(writing);
    }

    /// Notifies listeners that a job of this tenant was accepted.
    pub(super) fn announce_job(&self, tenant: TenantId) {
        self.with_tenant(tenant, |numbers| numbers.new_jobs.send_replace(()));
    }

    /// Returns a receiver that changes whenever a job of this tenant is accepted.
    pub(super) fn watch_new_jobs(&self, tenant: TenantId) -> watch::Receiver<()> {
        self.with_tenant(tenant, |numbers| numbers.new_jobs.subscribe())
    }

    fn with_tenant<T>(&self, tenant: TenantId, act: impl FnOnce(&mut TenantNumbers) -> T) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        act(tenants.entry(tenant).or_default())
    }

    /// Starts to write the file. The receiver is disconnected once the write is done.
    fn start_write(&self, tenants: &HashMap<TenantId, TenantNumbers>) -> Option<Receiver<()>> {
        let used = tenants.iter().filter(|(_, numbers)| numbers.reserved > 0);
        let lines =
            used.map(|(tenant, numbers)| format!("{} {tenant}\n", numbers.reserved)).collect();
        self.file.as_ref()?.write(lines)
    }

    /// Waits for a write, but not for long: a disk that does not answer must not keep jobs from
    /// starting. Only one job in [`BLOCK`] waits.
    fn wait_for_write(&self, writing: Option<Receiver<()>>) {
        let (Some(file), Some(writing)) = (&self.file, writing) else { return };
        if block_in_place(|| writing.recv_timeout(WRITE_TIME)) == Err(RecvTimeoutError::Timeout) {
            events::job_numbers_not_saved(&file.path, &"the disk does not answer");
        }
    }
}

/// The file with the numbers. A dedicated thread writes the texts that are handed over to it.
#[derive(Debug)]
struct NumbersFile {
    path: PathBuf,
    /// The texts to write, in order. The thread drops the second value after the attempt. `None` if the
    /// thread could not be started: then the caller writes.
    texts: Option<Sender<(String, Sender<()>)>>,
}

impl NumbersFile {
    fn new(path: PathBuf) -> Self {
        let (texts, requests) = mpsc::channel::<(String, Sender<()>)>();
        let file = path.clone();
        let write = move || requests.iter().for_each(|(text, _done)| store(&file, &text));
        let thread = thread::Builder::new().name("job-numbers".to_owned()).spawn(write);
        Self { path, texts: thread.is_ok().then_some(texts) }
    }

    fn write(&self, text: String) -> Option<Receiver<()>> {
        let (done, finished) = mpsc::channel();
        match &self.texts {
            Some(texts) => texts.send((text, done)).is_ok().then_some(finished),
            None => {
                store(&self.path, &text);
                None
            }
        }
    }
}

fn store(path: &Path, text: &str) {
    if let Err(error) = replace_file(path, text) {
        events::job_numbers_not_saved(path, &error);
    }
}

fn read_numbers(path: &Path) -> Vec<(TenantId, u64)> {
    let text = match read_text(path, Symlinks::Refuse) {
        Ok(text) => text,
        Err(error) if error.is_missing() => return Vec::new(),
        Err(error) => {
            events::job_numbers_not_saved(path, &error);
            return Vec::new();
        }
    };
    let line = |line: &str| {
        let (number, tenant) = line.split_once(' ')?;
        Some((TenantId::parse(tenant).ok()?, number.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Replaces the file atomically: a reader sees the old text or the new one.
fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

// Tickets.

/// The number of unguessable bytes of a ticket.
const PROOF_BYTES: usize = 16;

/// Issues and verifies tickets: unguessable names of jobs, for URLs that others may see. A ticket is a
/// hash with a secret of this server. The server stores nothing for it, and it is valid for as long
/// as the secret exists: until the server ends, or across restarts if the secret is in a file.
pub(super) struct JobTickets {
    secret: [u8; 32],
}

impl fmt::Debug for JobTickets {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobTickets").finish_non_exhaustive()
    }
}

impl JobTickets {
    /// Creates a new secret.
    fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret })
    }

    /// Reads the secret from the file, or creates both. If the file can be neither read nor written,
    /// the tickets are valid until this server ends.
    pub(super) fn open(file: Option<&Path>) -> Result<Self, getrandom::Error> {
        let Some(path) = file else { return Self::new() };
        let stored = read_text(path, Symlinks::Refuse).ok();
        let stored = stored.and_then(|text| HEXLOWER.decode(text.trim().as_bytes()).ok());
        if let Some(secret) = stored.and_then(|bytes| bytes.try_into().ok()) {
            return Ok(Self { secret });
        }
        let tickets = Self::new()?;
        if let Err(error) = replace_file(path, &HEXLOWER.encode(&tickets.secret)) {
            events::ticket_secret_not_saved(path, &error);
        }
        Ok(tickets)
    }

    /// Returns the ticket of a job: digits, a `-` and hexadecimal digits.
    pub(super) fn issue(&self, job: JobId) -> String {
        format!("{job}-{}", self.compute_proof(job, None))
    }

    /// Returns a ticket that also carries two numbers, which nobody can change: the job's number, the
    /// two numbers and the proof, separated by `-`.
    pub(super) fn issue_with_numbers(&self, job: JobId, numbers: [u64; 2]) -> String {
        let [first, second] = numbers;
        format!("{job}-{first}-{second}-{}", self.compute_proof(job, Some(numbers)))
    }

    /// Returns the job of this tenant that a ticket names; `None` if the ticket is not valid.
    pub(super) fn verify(&self, tenant: TenantId, ticket: &str) -> Option<JobId> {
        let (job, proof) = ticket.split_once('-')?;
        let job = job.parse::<JobNumber>().ok()?.for_tenant(tenant);
        bool::from(self.compute_proof(job, None).as_bytes().ct_eq(proof.as_bytes())).then_some(job)
    }

    /// Returns the job and the numbers of a ticket with numbers; `None` if the ticket is not valid.
    pub(super) fn verify_with_numbers(
        &self,
        tenant: TenantId,
        ticket: &str,
    ) -> Option<(JobId, [u64; 2])> {
        let mut parts = ticket.split('-');
        let job = parts.next()?.parse::<JobNumber>().ok()?.for_tenant(tenant);
        let numbers = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
        // Compared with the exact text: other spellings of the same numbers are not valid.
        let is_ours =
            bool::from(self.issue_with_numbers(job, numbers).as_bytes().ct_eq(ticket.as_bytes()));
        is_ours.then_some((job, numbers))
    }

    fn compute_proof(&self, job: JobId, numbers: Option<[u64; 2]>) -> String {
        // All fields but the last have a fixed length, so that no two tickets hash the same bytes.
        let hash = Sha256::new().chain_update(self.secret).chain_update(job.number().to_be_bytes());
        let hash = hash.chain_update([u8::from(numbers.is_some())]);
        let [first, second] = numbers.unwrap_or_default().map(u64::to_be_bytes);
        let hash = hash.chain_update(first).chain_update(second);
        let hash = hash.chain_update(job.tenant().name());
        HEXLOWER.encode(&hash.finalize()[..PROOF_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(numbers: &JobNumbers, tenant: TenantId, count: usize) -> Vec<u64> {
        (0..count).map(|_| numbers.next_job(tenant).number()).collect()
    }

    #[test]
    fn each_tenant_counts_from_one_and_a_refused_job_uses_no_number() {
        let other = TenantId::parse("tenancy-other").unwrap();
        let numbers = JobNumbers::open(None, &BTreeMap::new());
        assert_eq!(take(&numbers, TenantId::LOCAL, 2), [1, 2]);
        assert_eq!(take(&numbers, other, 1), [1]);
        let [refused, later] = [(); 2].map(|()| numbers.next_job(other));
        numbers.give_back(refused);
        assert_eq!(later.number(), 3, "a freed number below the last one stays unused");
        numbers.give_back(later);
        assert_eq!(take(&numbers, other, 1), [3]);
    }

    #[test]
    fn no_number_is_used_twice_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let file = || Some(folder.path().join("new/numbers"));
        let first = JobNumbers::open(file(), &BTreeMap::new());
        assert_eq!(take(&first, TenantId::LOCAL, 3), [1, 2, 3]);
        // The server was killed: its reserved numbers are skipped.
        let second = JobNumbers::open(file(), &BTreeMap::new());
        assert_eq!(take(&second, TenantId::LOCAL, 2), [101, 102]);
        second.close();
        let third = JobNumbers::open(file(), &BTreeMap::new());
        assert_eq!(take(&third, TenantId::LOCAL, 1), [103]);
        assert_eq!(take(&third, TenantId::parse("tenancy-new").unwrap(), 1), [1]);
        let journalled = BTreeMap::from([(TenantId::LOCAL, 501)]);
        let fourth = JobNumbers::open(None, &journalled);
        assert_eq!(take(&fourth, TenantId::LOCAL, 1), [501], "the file was lost");
    }

    #[test]
    fn the_numbers_of_a_ticket_cannot_be_changed() {
        let tickets = JobTickets::new().unwrap();
        let job = JobId::local(12);
        let ticket = tickets.issue_with_numbers(job, [8000, 7]);
        assert_eq!(tickets.verify_with_numbers(TenantId::LOCAL, &ticket), Some((job, [8000, 7])));
        let other = TenantId::parse("tickets-carried").unwrap();
        assert_eq!(tickets.verify_with_numbers(other, &ticket), None, "of another tenant");
        assert_eq!(tickets.verify(TenantId::LOCAL, &ticket), None, "a ticket of another kind");
        let (changed, padded) =
            (ticket.replace("-8000-", "-8001-"), ticket.replace("-8000-", "-08000-"));
        let moved = ticket.replacen("12-", "13-", 1);
        let later = ticket.replace("-7-", "-8-");
        let plain = tickets.issue(job);
        for forged in ["", "12-8000-7-", "---", &changed, &padded, &moved, &later, &plain] {
            assert_eq!(tickets.verify_with_numbers(TenantId::LOCAL, forged), None, "{forged}");
        }
    }

    #[test]
    fn only_the_issued_ticket_names_its_job() {
        let tickets = JobTickets::new().unwrap();
        let job = JobId::local(12);
        let ticket = tickets.issue(job);
        assert_eq!(tickets.verify(TenantId::LOCAL, &ticket), Some(job));
        let other = TenantId::parse("tickets-other").unwrap();
        assert_eq!(tickets.verify(other, &ticket), None, "of another tenant");
        assert_eq!(ticket.len(), "12-".len() + 2 * PROOF_BYTES);
        let other_job = ticket.replacen("12-", "13-", 1);
        let cut = &ticket[..ticket.len() - 1];
        for forged in ["", "12", "12-", "-", &other_job, cut, "x-y"] {
            assert_eq!(tickets.verify(TenantId::LOCAL, forged), None, "{forged}");
        }
        assert_eq!(
            JobTickets::new().unwrap().verify(TenantId::LOCAL, &ticket),
            None,
            "of another server"
        );
    }

    #[test]
    fn tickets_stay_valid_as_long_as_the_file_with_their_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tickets.key");
        let ticket = JobTickets::open(Some(&file)).unwrap().issue(JobId::local(12));
        let verify = || JobTickets::open(Some(&file)).unwrap().verify(TenantId::LOCAL, &ticket);
        assert_eq!(verify(), Some(JobId::local(12)));
        fs::write(&file, "no secret").unwrap();
        assert_eq!(verify(), None);
    }
}
