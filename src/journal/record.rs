//! The records of the journal, and its errors.
//!
//! A record is written as an object with one field, whose name is the kind of the record:
//! `{"started":{"job":{"tenant":"local","number":12},"at_ms":1760000000000,"pid":4711}}`. Names of kinds and
//! fields never change their meaning. A reader skips fields and kinds that it does not know.
//!
//! Times are milliseconds of the wall clock since 1970, for people. Nothing is decided by comparing them: the
//! order of events is the order of their records.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::ids::{JobId, TenantId};
use crate::outcome::{JobEnding, KillNote, LivingProcesses, Outcome, ResourceUsage};

use crate::spec::{JobKey, JobSpec, Stdin, byte_text};

/// An event that the next server must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A job has its number. Written before its caller learns the number.
    Accepted(AcceptedJob),
    /// A job waits for a slot. Written only for jobs that do not start at once.
    Queued(QueuedJob),
    /// A process is about to be created. Written before that, so that nothing is started twice.
    Starting(StartingJob),
    /// The job's first process exists.
    Started(StartedJob),
    /// The job has ended. A second record of the same job replaces the first.
    Ended(EndedJob),
    /// A finished job was removed.
    Freed(FreedNote),
    /// The user approved a command for a tenant.
    Approval(LastingApproval),
    /// A tenant's next job number, if it is larger than the records of its jobs say.
    Number(NextNumber),
}

/// A job that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedJob {
    pub job: JobId,
    pub at_ms: u64,
    /// The [`JobSpec`], without the values of variables and without the text of the standard input.
    pub spec: StoredJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JobKey>,
    /// The command for logs and lists, with secrets masked.
    pub command: String,
}

/// The inputs of a job that waits for a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedJob {
    pub job: JobId,
    pub inputs: JobInputs,
}

/// The parts of a job's specification that may be secret. They are forgotten when the job starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobInputs {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// The text of the standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The environment of the client; `None` if the job inherits the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited: Option<Vec<InheritedVariable>>,
    /// The names of variables that the client itself withholds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
}

/// A variable of a client's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedVariable {
    #[serde(with = "byte_text")]
    pub name: OsString,
    #[serde(with = "byte_text")]
    pub value: OsString,
}

impl JobInputs {
    /// Returns the inputs of a job that inherits the server's own environment.
    #[must_use]
    pub fn from_spec(spec: &JobSpec) -> Self {
        let stdin = match &spec.stdin {
            Stdin::Text(text) => Some(text.clone()),
            Stdin::Closed | Stdin::Open | Stdin::Inherited | Stdin::Terminal => None,
        };
        Self { env: spec.env.clone(), stdin, ..Self::default() }
    }

    /// Puts the inputs into a specification that was read from the journal.
    pub fn restore_into(self, spec: &mut JobSpec) {
        spec.env = self.env;
        if let (Stdin::Text(text), Some(stdin)) = (&mut spec.stdin, self.stdin) {
            *text = stdin;
        }
    }
}

/// A job whose first process is about to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartingJob {
    pub job: JobId,
    pub at_ms: u64,
}

/// A job whose first process exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedJob {
    pub job: JobId,
    pub at_ms: u64,
    /// For people; 0 if it was not known.
    pub pid: u32,
}

/// A job that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedJob {
    pub job: JobId,
    pub at_ms: u64,
    /// The time of the start; `None` if the job never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    /// The time from the start to the end by a clock that does not jump.
    #[serde(default)]
    pub elapsed_ms: u64,
    pub ending: StoredEnding,
    /// The closed log, in the form of the module that stores logs; `None` if the job has no output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<StoredJson>,
}

/// A [`JobEnding`] without its moment, which has no meaning in another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEnding {
    pub outcome: Outcome,
    #[serde(default)]
    pub usage: ResourceUsage,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipeline: Vec<i32>,
    #[serde(default, skip_serializing_if = "LivingProcesses::is_empty")]
    pub survivors: LivingProcesses,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<KillNote>,
}

impl From<&JobEnding> for StoredEnding {
    fn from(ending: &JobEnding) -> Self {
        let JobEnding { outcome, at: _, usage, pipeline, survivors, kill } = ending.clone();
        Self { outcome, usage, pipeline, survivors, kill }
    }
}

impl StoredEnding {
    /// Returns the ending with its moment by this process's clock, see [`restore_instant`].
    #[must_use]
    pub fn restore(self, at: Instant) -> JobEnding {
        let Self { outcome, usage, pipeline, survivors, kill } = self;
        JobEnding { outcome, at, usage, pipeline, survivors, kill }
    }
}

/// A note about a job that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedNote {
    pub job: JobId,
    pub at_ms: u64,
    /// The cause, in the form of the module that frees jobs.
    pub why: StoredJson,
}

/// An approval that holds for every further run of the same command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LastingApproval {
    pub tenant: TenantId,
    /// The hash of the approved run, in hexadecimal digits.
    pub run: String,
    #[serde(with = "byte_text")]
    pub cwd: OsString,
    /// The rules that demanded the approval, with their places in the settings.
    pub rule: String,
    pub at_ms: u64,
}

/// The next number of a tenant's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextNumber {
    pub tenant: TenantId,
    pub next: u64,
}

/// A value as JSON text. It is parsed only when it is needed: most of what a journal holds is never read
/// again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredJson(Box<RawValue>);

impl PartialEq for StoredJson {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for StoredJson {}

impl StoredJson {
    /// Encodes a value.
    ///
    /// # Errors
    /// If the value has no JSON form.
    pub fn new(value: &impl Serialize) -> Result<Self, JournalError> {
        serde_json::value::to_raw_value(value).map(Self).map_err(JournalError::encode)
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// If the text is not a value of this type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JournalError> {
        serde_json::from_str(self.0.get())
            .map_err(|source| JournalError::Decode { source: Arc::new(source) })
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

/// Returns the wall clock's time as records store it.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a moment of this process's clock, which is not in the future, as records store it.
#[must_use]
pub fn wall_ms_of(at: Instant) -> u64 {
    let ago = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
    now_ms().saturating_sub(ago)
}

/// Returns the moment of this process's clock that is as long ago as a stored time. A time in the future, after
/// a jump of the wall clock, is now; a time before this host was started is as early as the clock can say.
#[must_use]
pub fn restore_instant(at_ms: u64) -> Instant {
    let mut ago = Duration::from_millis(now_ms().saturating_sub(at_ms));
    let now = Instant::now();
    loop {
        match now.checked_sub(ago) {
            Some(then) => return then,
            None => ago /= 2,
        }
    }
}

/// The reason why the journal could not be opened, or a record could not be written.
#[derive(Debug, Clone, Error)]
pub enum JournalError {
    #[error("the journal `{}` cannot be used; check its permissions and the room on its disk", .path.display())]
    Unusable { path: PathBuf, source: Arc<io::Error> },
    #[error(
        "the journal `{}` has format {found}, and this version reads formats up to {known}; use the version that wrote it, or a later one", .path.display()
    )]
    NewerFormat { path: PathBuf, found: u32, known: u32 },
    /// The record is not on disk. If `is_kept`, it is in memory, and is written when the journal works again.
    #[error("the journal cannot be written: {why}; free some room on its disk, or repair it")]
    Degraded { why: Arc<str>, is_kept: bool },
    /// More records wait for the disk than are kept in memory.
    #[error("too many records wait for the journal's disk; try again when it answers")]
    QueueFull,
    /// The record is written as soon as the disk answers.
    #[error("the journal's disk does not answer")]
    Slow,
    /// The journal is closed, or its thread has ended.
    #[error("the journal is closed")]
    Closed,
    #[error("a record has no JSON form")]
    Encode { source: Arc<serde_json::Error> },
    #[error("a record of the journal cannot be read")]
    Decode { source: Arc<serde_json::Error> },
}

impl JournalError {
    pub(super) fn unusable(path: &Path, source: io::Error) -> Self {
        Self::Unusable { path: path.to_owned(), source: Arc::new(source) }
    }

    pub(super) fn encode(source: serde_json::Error) -> Self {
        Self::Encode { source: Arc::new(source) }
    }

    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "journal_unusable",
            Self::NewerFormat { .. } => "journal_newer_format",
            Self::Degraded { .. } => "journal_degraded",
            Self::QueueFull => "journal_queue_full",
            Self::Slow => "journal_slow",
            Self::Closed => "journal_closed",
            Self::Encode { .. } => "journal_encode",
            Self::Decode { .. } => "journal_decode",
        }
    }
}
