//! What is counted for each tenant alone: its job numbers, and that a job of it was accepted.
//!
//! A server that is started again must not give a number to another job: whoever still speaks of
//! job 4 would read or stop somebody else's. So numbers go on where they were, by a small file.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, fs, thread};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tempfile::NamedTempFile;
use tokio::sync::watch;

use crate::block_in_place;
use crate::bounded_read::read_text;
use crate::ids::{JobId, JobNumber, TenantId};
use crate::private_files::Symlinks;
use crate::telemetry::events;

/// Numbers that are set aside at once, so that the file is rarely written. After a crash those
/// that were not used are never used.
const BLOCK: u64 = 100;
/// The time that the disk gets to keep them before a job starts without that.
const WRITE_TIME: Duration = Duration::from_millis(500);

/// All tenants that ever submitted or listened. Their number is bounded by that of tenants.
#[derive(Debug, Default)]
pub(super) struct Tenancy {
    /// Where numbers are kept, if anywhere.
    file: Option<NumbersFile>,
    tenants: Mutex<HashMap<TenantId, Books>>,
}

#[derive(Debug, Default)]
struct Books {
    /// The last number that was given out.
    last: u64,
    /// The last number that the file says may be given out.
    reserved: u64,
    /// Says that a job was accepted.
    appeared: watch::Sender<()>,
}

impl Tenancy {
    /// With numbers that go on after those in the file, which may be missing.
    pub(super) fn open(file: Option<PathBuf>) -> Self {
        let kept = file.as_deref().map(read).unwrap_or_default();
        let books = |last| Books { last, reserved: last, appeared: watch::Sender::default() };
        let tenants = kept.into_iter().map(|(tenant, last)| (tenant, books(last))).collect();
        Self { file: file.map(NumbersFile::new), tenants: Mutex::new(tenants) }
    }

    /// The next job of a tenant.
    pub(super) fn next_job(&self, tenant: TenantId) -> JobId {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let books = tenants.entry(tenant).or_default();
        books.last += 1;
        let number = books.last;
        if number > books.reserved {
            books.reserved = number + BLOCK - 1;
            let writing = self.keep(&tenants);
            drop(tenants);
            self.wait_for(writing);
        }
        JobNumber::new(number).for_tenant(tenant)
    }

    /// The job was not accepted after all: its number is free, unless a later one was given out.
    pub(super) fn give_back(&self, job: JobId) {
        self.books(job.tenant(), |books| {
            if books.last == job.number() {
                books.last -= 1;
            }
        });
    }

    /// No number will be given out any more: those that were set aside are free.
    pub(super) fn close(&self) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        for books in tenants.values_mut() {
            books.reserved = books.last;
        }
        let writing = self.keep(&tenants);
        drop(tenants);
        self.wait_for(writing);
    }

    /// A job of this tenant was accepted.
    pub(super) fn appeared(&self, tenant: TenantId) {
        self.books(tenant, |books| books.appeared.send_replace(()));
    }

    /// Changes whenever a job of this tenant was accepted.
    pub(super) fn watch_new_jobs(&self, tenant: TenantId) -> watch::Receiver<()> {
        self.books(tenant, |books| books.appeared.subscribe())
    }

    fn books<T>(&self, tenant: TenantId, look: impl FnOnce(&mut Books) -> T) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        look(tenants.entry(tenant).or_default())
    }

    /// Has the file written. What it says is kept once the receiver has its end.
    fn keep(&self, tenants: &HashMap<TenantId, Books>) -> Option<Receiver<()>> {
        let used = tenants.iter().filter(|(_, books)| books.reserved > 0);
        let lines = used.map(|(tenant, books)| format!("{} {tenant}\n", books.reserved)).collect();
        self.file.as_ref()?.write(lines)
    }

    /// Waits for a small file once in many jobs, and not for long: a disk that does not answer must
    /// not keep jobs from starting.
    fn wait_for(&self, writing: Option<Receiver<()>>) {
        let (Some(file), Some(writing)) = (&self.file, writing) else { return };
        if block_in_place(|| writing.recv_timeout(WRITE_TIME)) == Err(RecvTimeoutError::Timeout) {
            events::job_numbers_not_saved(&file.path, &"the disk does not answer");
        }
    }
}

/// The file with the numbers, which a thread of its own writes.
#[derive(Debug)]
struct NumbersFile {
    path: PathBuf,
    /// Texts in the order in which they are to be written. Dropping the second value says that it
    /// was tried.
    texts: Option<Sender<(String, Sender<()>)>>,
}

impl NumbersFile {
    fn new(path: PathBuf) -> Self {
        let (texts, asked) = mpsc::channel::<(String, Sender<()>)>();
        let place = path.clone();
        let write = move || asked.iter().for_each(|(text, _done)| keep_text(&place, &text));
        let thread = thread::Builder::new().name("job-numbers".to_owned()).spawn(write);
        Self { path, texts: thread.is_ok().then_some(texts) }
    }

    fn write(&self, text: String) -> Option<Receiver<()>> {
        let (done, is_done) = mpsc::channel();
        match &self.texts {
            Some(texts) => texts.send((text, done)).is_ok().then_some(is_done),
            None => {
                keep_text(&self.path, &text);
                None
            }
        }
    }
}

fn keep_text(path: &Path, text: &str) {
    if let Err(error) = replace(path, text) {
        events::job_numbers_not_saved(path, &error);
    }
}

fn read(path: &Path) -> Vec<(TenantId, u64)> {
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

/// In one step: whoever reads it meanwhile finds all or nothing of it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

// JobTickets: unguessable names of jobs, for addresses that leave the tenant's sight.

/// Bytes of a ticket that cannot be guessed.
const PROOF_BYTES: usize = 16;

/// Makes and checks tickets. They follow from a secret that only this server has: nothing is
/// kept for them, and they end with the server.
pub(super) struct JobTickets {
    secret: [u8; 32],
}

impl fmt::Debug for JobTickets {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobTickets").finish_non_exhaustive()
    }
}

impl JobTickets {
    /// With a fresh secret.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret })
    }

    /// The ticket of a job: digits, a `-` and hexadecimal digits.
    pub(super) fn issue(&self, job: JobId) -> String {
        format!("{job}-{}", self.proof(job, None))
    }

    /// A ticket that carries two numbers along, which nobody can change: three numbers with a `-`
    /// between, and the proof.
    pub(super) fn issue_with_numbers(&self, job: JobId, numbers: [u64; 2]) -> String {
        let [first, second] = numbers;
        format!("{job}-{first}-{second}-{}", self.proof(job, Some(numbers)))
    }

    /// The job of this tenant that a ticket names; nothing where it is none of its own.
    pub(super) fn verify(&self, tenant: TenantId, ticket: &str) -> Option<JobId> {
        let (job, proof) = ticket.split_once('-')?;
        let job = job.parse::<JobNumber>().ok()?.for_tenant(tenant);
        bool::from(self.proof(job, None).as_bytes().ct_eq(proof.as_bytes())).then_some(job)
    }

    /// The same of a ticket that carries numbers, and those.
    pub(super) fn verify_with_numbers(
        &self,
        tenant: TenantId,
        ticket: &str,
    ) -> Option<(JobId, [u64; 2])> {
        let mut parts = ticket.split('-');
        let job = parts.next()?.parse::<JobNumber>().ok()?.for_tenant(tenant);
        let numbers = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
        // As it was given out: other ways to write the same numbers are no tickets.
        let is_ours =
            bool::from(self.issue_with_numbers(job, numbers).as_bytes().ct_eq(ticket.as_bytes()));
        is_ours.then_some((job, numbers))
    }

    fn proof(&self, job: JobId, numbers: Option<[u64; 2]>) -> String {
        // All but the last have a fixed length, so that no two tickets hash the same text.
        let hash = Sha256::new().chain_update(self.secret).chain_update(job.number().to_be_bytes());
        let hash = hash.chain_update([u8::from(numbers.is_some())]);
        let [first, second] = numbers.unwrap_or_default().map(u64::to_be_bytes);
        let hash = hash.chain_update(first).chain_update(second);
        let hash = hash.chain_update(job.tenant().name());
        HEXLOWER.encode(&hash.finalize()[..PROOF_BYTES])
    }
}

// The identity and role of a caller.

/// Who calls: what a transport found out before it let the caller in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerIdentity {
    /// Whose jobs it sees.
    pub tenant: TenantId,
    /// What it may do.
    pub role: CallerRole,
}

impl CallerIdentity {
    /// Whoever uses this machine without a token: what it can do here it can do without us.
    pub const LOCAL: Self = Self { tenant: TenantId::LOCAL, role: CallerRole::Admin };
}

/// What a caller may do; each may also do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallerRole {
    /// Look at its tenant's jobs.
    Read,
    /// Run, type into and stop its tenant's jobs.
    Run,
    /// See what concerns all tenants, and change it.
    Admin,
}

impl CallerRole {
    /// Each with the word for it in files and on the command line.
    pub const WORDS: [(&'static str, Self); 3] =
        [("read-only", Self::Read), ("run", Self::Run), ("admin", Self::Admin)];

    /// That word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read-only",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }

    /// The role with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, role)| *role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(tenancy: &Tenancy, tenant: TenantId, count: usize) -> Vec<u64> {
        (0..count).map(|_| tenancy.next_job(tenant).number()).collect()
    }

    #[test]
    fn each_tenant_counts_from_one_and_a_refused_job_takes_no_number() {
        let other = TenantId::parse("tenancy-other").unwrap();
        let tenancy = Tenancy::open(None);
        assert_eq!(numbers(&tenancy, TenantId::LOCAL, 2), [1, 2]);
        assert_eq!(numbers(&tenancy, other, 1), [1]);
        let [refused, later] = [(); 2].map(|()| tenancy.next_job(other));
        tenancy.give_back(refused);
        assert_eq!(later.number(), 3, "a number that others have passed stays unused");
        tenancy.give_back(later);
        assert_eq!(numbers(&tenancy, other, 1), [3]);
    }

    #[test]
    fn no_number_is_given_to_two_jobs_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let file = || Some(folder.path().join("new/numbers"));
        let first = Tenancy::open(file());
        assert_eq!(numbers(&first, TenantId::LOCAL, 3), [1, 2, 3]);
        // It was killed: what it had set aside is lost.
        let second = Tenancy::open(file());
        assert_eq!(numbers(&second, TenantId::LOCAL, 2), [101, 102]);
        second.close();
        let third = Tenancy::open(file());
        assert_eq!(numbers(&third, TenantId::LOCAL, 1), [103]);
        assert_eq!(numbers(&third, TenantId::parse("tenancy-new").unwrap(), 1), [1]);
    }
}

#[cfg(test)]
mod ticket_tests {
    use super::*;

    #[test]
    fn numbers_travel_with_their_job_and_cannot_be_changed() {
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
    fn a_ticket_names_its_job_and_no_other_text_does() {
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
}
