//! Submissions: the request of a caller, checked and completed to a job specification; and the
//! callers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::admission_error::AdmissionError;
use super::confinement::{ConfineError, ConfinementRules, ConfinementTerms};
use crate::ids::{CallerSession, TenantId};
use crate::spec::{
    CallMode, DEFAULT_LANE, JobClient, JobKind, JobProgram, JobSpec, LargeOutput, NO_TIMEOUT,
    Priority, RunLimits, ShellUse, Stdin, StreamMode, TerminalSize,
};
use crate::supervisor::SubmitRefusal;
use crate::telemetry::RejectionReason;
use crate::trace::CallTrace;

/// A caller's request to run a job. Fields that are `None` get the configured default.
#[derive(Debug, Clone)]
pub struct Submission {
    pub program: JobProgram,
    /// The working directory; a relative path starts at the default directory.
    pub cwd: Option<PathBuf>,
    /// Variables to add to the job's environment.
    pub env: Vec<(String, String)>,
    pub stdin: Stdin,
    /// The size of the terminal at the start, if the job has one; `None` = the usual size.
    pub terminal_size: Option<TerminalSize>,
    /// The pipes of the output. A terminal merges both streams, whatever this says.
    pub streams: Option<StreamMode>,
    pub timeout: Option<Duration>,
    pub on_large_output: Option<LargeOutput>,
    /// The caller's description of the job, shown in lists.
    pub description: Option<String>,
    pub lane: Option<String>,
    /// The priority among the waiting jobs of the same tenant.
    pub priority: Option<Priority>,
    pub call_mode: CallMode,
    pub kind: JobKind,
    /// The sandbox and the resource limits that the call asks for; they can only be tighter than the
    /// tenant's.
    pub confinement: ConfinementTerms,
    /// The idempotency key: a key that is known returns the job that it named before.
    pub key: Option<String>,
    /// The path of the shell for shell text; `None` = the configured one.
    pub shell: Option<String>,
    /// The directories that are allowed, besides the admission rules.
    pub within: DirectoryScope,
    /// The longest wait for the last output after the leader has ended, while its children still
    /// hold the pipes open; `None` = as configured.
    pub drain_max: Option<Duration>,
    pub logged: CommandLogging,
}

/// The directories in which a submission may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryScope {
    Anywhere,
    /// The default directory and those below it, with links followed.
    DefaultDirectory,
}

/// The logging of a command in the server's log. The audit log has it in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandLogging {
    Yes,
    /// Only the job's number is logged.
    No,
}

/// The identity of a caller, as its transport has authenticated it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The tenant whose jobs the caller sees.
    pub tenant: TenantId,
    pub role: CallerRole,
}

impl CallerIdentity {
    /// A user of this machine without a token. It is an admin, since it could do the same without the
    /// server.
    pub const LOCAL: Self = Self { tenant: TenantId::LOCAL, role: CallerRole::Admin };
}

/// The permissions of a caller. Each role includes those before it, except that `Read` and `Run` do not
/// include `Metrics`, whose figures are about all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallerRole {
    /// Reads metrics and nothing else: no job of any tenant.
    Metrics,
    /// Reads its tenant's jobs.
    Read,
    /// Runs and stops its tenant's jobs, and sends input to them.
    Run,
    /// Sees and controls the jobs of all tenants, and the server.
    Admin,
}

impl CallerRole {
    /// Each role with its name in token files and on the command line.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("metrics", Self::Metrics),
        ("read-only", Self::Read),
        ("run", Self::Run),
        ("admin", Self::Admin),
    ];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Read => "read-only",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }

    /// `true` if the role may read the metrics of the server.
    #[must_use]
    pub const fn can_read_metrics(self) -> bool {
        match self {
            Self::Metrics | Self::Admin => true,
            Self::Read | Self::Run => false,
        }
    }

    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, role)| *role)
    }
}

/// The caller of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerContext {
    pub tenant: TenantId,
    pub role: CallerRole,
    /// The name of the calling program, as it names itself.
    pub client: String,
    /// The version of the calling program, as it names it.
    pub client_version: Option<String>,
    /// The directory in which the calling program was started, if it is known: the default directory
    /// of its jobs, instead of the service's.
    pub directory: Option<Arc<Path>>,
    pub session: CallerSession,
    /// The trace of the current call.
    pub trace: CallTrace,
}

impl CallerContext {
    /// Returns the calling program as the jobs that it submits name it.
    #[must_use]
    pub fn job_client(&self) -> JobClient {
        JobClient {
            name: self.client.clone(),
            version: self.client_version.clone(),
            directory: self.directory.clone(),
        }
    }
}

/// The defaults and limits of submissions.
#[derive(Debug, Clone)]
pub struct SubmissionDefaults {
    pub cwd: PathBuf,
    pub limits: RunLimits,
    pub streams: StreamMode,
    pub on_large_output: LargeOutput,
    /// The longest timeout that a caller can ask for.
    pub max_timeout: Duration,
    /// Variables of a tenant's jobs; a caller can override them.
    pub environment: BTreeMap<TenantId, Vec<(String, String)>>,
    /// The lanes besides the default one.
    pub lanes: BTreeMap<String, LaneDefaults>,
    pub confinement_rules: ConfinementRules,
}

/// The defaults for the jobs of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneDefaults {
    /// `None` = the default of all lanes.
    pub timeout: Option<Duration>,
    pub priority: Priority,
}

/// The reason why a submission was not accepted. Nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitError {
    #[error("the command is empty; give the command line to run, such as \"cargo test\"")]
    EmptyCommand,
    /// The texts are larger than the arguments that a program can get.
    #[error(
        "the command is too long: {bytes} bytes of command, arguments, environment and description, at most {MAX_BYTES} can be given; write the text to a file, or pass it on stdin"
    )]
    TooLong { bytes: usize },
    #[error("a timeout of {}s cannot be given; it must be above 0 and at most {}s", .given.as_secs_f64(), .max.as_secs())]
    Timeout { given: Duration, max: Duration },
    #[error(
        "`{name}` cannot be the name of an environment variable; names are not empty and hold no `=`"
    )]
    EnvName { name: String },
    #[error(
        "there is no lane `{given}`; the lanes are {}. A lane limits how many of its jobs run at one time; leave it out if that does not matter",
        .known.join(", ")
    )]
    UnknownLane { given: String, known: Vec<String> },
    #[error(transparent)]
    Confinement(#[from] ConfineError),
    /// The submission was not admitted.
    #[error("{0}")]
    Rules(#[from] AdmissionError),
    /// The queue refused the job.
    #[error(transparent)]
    Refused(#[from] SubmitRefusal),
}

impl SubmitError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EmptyCommand => "empty_command",
            Self::TooLong { .. } => "too_long",
            Self::Timeout { .. } => "bad_timeout",
            Self::EnvName { .. } => "bad_env",
            Self::UnknownLane { .. } => "unknown_lane",
            Self::Confinement(error) => error.code(),
            Self::Rules(refused) => refused.code(),
            Self::Refused(refusal) => refusal.code(),
        }
    }

    /// The label for the metrics.
    pub(super) const fn rejection_reason(&self) -> RejectionReason {
        match self {
            Self::EmptyCommand => RejectionReason::EmptyCommand,
            Self::TooLong { .. } => RejectionReason::TooLong,
            Self::Timeout { .. } => RejectionReason::Timeout,
            Self::EnvName { .. } => RejectionReason::Environment,
            Self::UnknownLane { .. } => RejectionReason::UnknownLane,
            Self::Confinement(_) => RejectionReason::Confinement,
            Self::Rules(_) => RejectionReason::Policy,
            Self::Refused(SubmitRefusal::QueueFull { .. }) => RejectionReason::QueueFull,
            Self::Refused(SubmitRefusal::TenantLimit { .. }) => RejectionReason::TenantLimit,
            Self::Refused(SubmitRefusal::RateLimited { .. }) => RejectionReason::RateLimited,
            Self::Refused(SubmitRefusal::KeyConflict { .. }) => RejectionReason::KeyConflict,
            Self::Refused(SubmitRefusal::Draining | SubmitRefusal::Closed) => {
                RejectionReason::Draining
            }
            Self::Refused(SubmitRefusal::Interrupted) => RejectionReason::Interrupted,
        }
    }

    /// The time after which a retry may succeed, if that is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after(),
            Self::EmptyCommand
            | Self::TooLong { .. }
            | Self::Timeout { .. }
            | Self::EnvName { .. }
            | Self::UnknownLane { .. }
            | Self::Confinement(_)
            | Self::Rules(_) => None,
        }
    }
}

impl Submission {
    /// Creates a submission with nothing but defaults.
    #[must_use]
    pub const fn new(program: JobProgram) -> Self {
        Self {
            program,
            cwd: None,
            env: Vec::new(),
            stdin: Stdin::Closed,
            terminal_size: None,
            streams: None,
            timeout: None,
            on_large_output: None,
            description: None,
            lane: None,
            priority: None,
            call_mode: CallMode::Foreground,
            kind: JobKind::Command,
            confinement: ConfinementTerms::NOTHING,
            key: None,
            shell: None,
            within: DirectoryScope::Anywhere,
            drain_max: None,
            logged: CommandLogging::Yes,
        }
    }

    /// Checks the submission, and fills in the defaults. `start` is the default directory of the
    /// caller's jobs.
    pub(super) fn complete(
        self,
        defaults: &SubmissionDefaults,
        start: &Path,
        caller: &CallerContext,
    ) -> Result<JobSpec, SubmitError> {
        check_program(&self.program)?;
        check_env(&self.env)?;
        self.check_size()?;
        let lane = check_lane(self.lane, defaults)?;
        let lane_defaults = defaults.lanes.get(&lane).copied().unwrap_or_default();
        let timeout = match (self.timeout, self.kind) {
            (Some(asked), _) => check_timeout(asked, defaults)?,
            (None, JobKind::Command) => lane_defaults.timeout.unwrap_or(defaults.limits.timeout),
            (None, JobKind::Service) => NO_TIMEOUT,
        };
        let (confinement, resources) =
            defaults.confinement_rules.decide(caller.tenant, &lane, &self.confinement)?;
        let streams = match self.stdin {
            Stdin::Terminal => StreamMode::Merged,
            Stdin::Closed | Stdin::Text(_) | Stdin::Open | Stdin::Inherited => {
                self.streams.unwrap_or(defaults.streams)
            }
        };
        Ok(JobSpec {
            program: self.program,
            cwd: self.cwd.map_or_else(|| start.to_owned(), |cwd| start.join(cwd)),
            env: merge_variables(defaults.environment.get(&caller.tenant), self.env),
            stdin: self.stdin,
            terminal_size: self.terminal_size,
            streams,
            limits: RunLimits { timeout, ..defaults.limits },
            resources,
            confinement,
            doubt: None,
            approved: Vec::new(),
            on_large_output: self.on_large_output.unwrap_or(defaults.on_large_output),
            description: self.description,
            lane,
            priority: self.priority.unwrap_or(lane_defaults.priority),
            call_mode: self.call_mode,
            kind: self.kind,
            shell: ShellUse::Configured,
            shell_path: self.shell,
            tenant: caller.tenant,
            client: caller.job_client(),
            session: caller.session.clone(),
            drain_max: self.drain_max,
            key: self.key,
            trace: caller.trace.clone(),
            area: None,
        })
    }
}

/// Merges the variables of the tenant with those of the caller, which win.
fn merge_variables(
    own: Option<&Vec<(String, String)>>,
    given: Vec<(String, String)>,
) -> Vec<(String, String)> {
    let is_given = |name: &String| given.iter().any(|(given, _)| given == name);
    let own = own.into_iter().flatten().filter(|(name, _)| !is_given(name)).cloned();
    let mut all: Vec<_> = own.collect();
    all.extend(given);
    all
}

/// The most bytes of a submission's texts: the size that Linux allows for the arguments and the
/// environment of a program. The server keeps the texts for as long as it knows the job.
const MAX_BYTES: usize = 2 * 1024 * 1024;

impl Submission {
    fn check_size(&self) -> Result<(), SubmitError> {
        let program = match &self.program {
            JobProgram::Shell(text) => text.len(),
            JobProgram::Direct { program, args } => {
                program.len() + args.iter().map(String::len).sum::<usize>()
            }
        };
        let env: usize = self.env.iter().map(|(name, value)| name.len() + value.len()).sum();
        let words = [&self.description, &self.key, &self.lane];
        let words: usize = words.into_iter().flatten().map(String::len).sum();
        let bytes = program + env + words;
        if bytes > MAX_BYTES { Err(SubmitError::TooLong { bytes }) } else { Ok(()) }
    }
}

fn check_program(program: &JobProgram) -> Result<(), SubmitError> {
    let text = match program {
        JobProgram::Shell(text) => text,
        JobProgram::Direct { program, .. } => program,
    };
    if text.trim().is_empty() { Err(SubmitError::EmptyCommand) } else { Ok(()) }
}

fn check_env(env: &[(String, String)]) -> Result<(), SubmitError> {
    match env.iter().find(|(name, _)| name.is_empty() || name.contains('=')) {
        Some((name, _)) => Err(SubmitError::EnvName { name: name.clone() }),
        None => Ok(()),
    }
}

fn check_timeout(given: Duration, defaults: &SubmissionDefaults) -> Result<Duration, SubmitError> {
    let max = defaults.max_timeout;
    if given.is_zero() || given > max {
        Err(SubmitError::Timeout { given, max })
    } else {
        Ok(given)
    }
}

fn check_lane(asked: Option<String>, defaults: &SubmissionDefaults) -> Result<String, SubmitError> {
    let given = asked.unwrap_or_else(|| DEFAULT_LANE.to_owned());
    if given == DEFAULT_LANE || defaults.lanes.contains_key(&given) {
        return Ok(given);
    }
    let lanes = defaults.lanes.keys().cloned();
    let known = std::iter::once(DEFAULT_LANE.to_owned()).chain(lanes).collect();
    Err(SubmitError::UnknownLane { given, known })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: LaneDefaults =
        LaneDefaults { timeout: Some(Duration::from_secs(90)), priority: Priority::Low };

    fn defaults() -> SubmissionDefaults {
        let limits = RunLimits {
            timeout: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            output_bytes: 1000,
            output_lines: 1000,
            large_bytes: 1000,
        };
        SubmissionDefaults {
            cwd: "/srv".into(),
            limits,
            streams: StreamMode::Merged,
            on_large_output: LargeOutput::Spill,
            max_timeout: Duration::from_secs(100),
            environment: BTreeMap::new(),
            lanes: BTreeMap::from([("build".to_owned(), BUILD)]),
            confinement_rules: ConfinementRules::unset(),
        }
    }

    fn shell(text: &str) -> Submission {
        Submission::new(JobProgram::Shell(text.to_owned()))
    }

    fn caller() -> CallerContext {
        CallerContext {
            tenant: TenantId::LOCAL,
            role: CallerRole::Run,
            client: "test".to_owned(),
            client_version: None,
            directory: None,
            session: CallerSession::Connection(1),
            trace: CallTrace::start(),
        }
    }

    #[track_caller]
    fn assert_refused(submission: Submission, code: &str) {
        assert_eq!(
            submission.complete(&defaults(), Path::new("/srv"), &caller()).unwrap_err().code(),
            code
        );
    }

    #[test]
    fn missing_values_get_the_defaults() {
        let spec = shell("ls").complete(&defaults(), Path::new("/srv"), &caller()).unwrap();
        assert_eq!(spec.cwd, PathBuf::from("/srv"));
        assert_eq!(spec.limits.timeout, Duration::from_secs(60));
        assert_eq!(spec.lane, DEFAULT_LANE);
    }

    #[test]
    fn a_lane_provides_defaults_for_its_jobs() {
        let build = || Submission { lane: Some("build".to_owned()), ..shell("ls") };
        let spec = build().complete(&defaults(), Path::new("/srv"), &caller()).unwrap();
        assert_eq!((spec.limits.timeout, spec.priority), (Duration::from_secs(90), Priority::Low));
        let asked = Duration::from_secs(10);
        let explicit =
            Submission { timeout: Some(asked), priority: Some(Priority::High), ..build() };
        let spec = explicit.complete(&defaults(), Path::new("/srv"), &caller()).unwrap();
        assert_eq!((spec.limits.timeout, spec.priority), (asked, Priority::High));
        let spec = shell("ls").complete(&defaults(), Path::new("/srv"), &caller()).unwrap();
        assert_eq!(spec.priority, Priority::Normal);
    }

    #[test]
    fn a_terminal_merges_the_streams_and_otherwise_the_caller_decides() {
        let streams_of = |stdin, streams| {
            let submission = Submission { stdin, streams, ..shell("ls") };
            submission.complete(&defaults(), Path::new("/srv"), &caller()).unwrap().streams
        };
        assert_eq!(streams_of(Stdin::Closed, None), defaults().streams);
        for mode in [StreamMode::Merged, StreamMode::Separate] {
            assert_eq!(streams_of(Stdin::Open, Some(mode)), mode);
            assert_eq!(streams_of(Stdin::Terminal, Some(mode)), StreamMode::Merged);
        }
    }

    #[test]
    fn a_relative_directory_starts_at_the_default_directory() {
        let spec = Submission { cwd: Some("app".into()), ..shell("ls") };
        assert_eq!(
            spec.complete(&defaults(), Path::new("/srv"), &caller()).unwrap().cwd,
            PathBuf::from("/srv/app")
        );
    }

    #[test]
    fn invalid_submissions_are_refused_with_their_code() {
        assert_refused(shell(" \n"), "empty_command");
        assert_refused(Submission { timeout: Some(Duration::ZERO), ..shell("ls") }, "bad_timeout");
        assert_refused(
            Submission { timeout: Some(Duration::from_secs(101)), ..shell("ls") },
            "bad_timeout",
        );
        assert_refused(shell(&"x".repeat(MAX_BYTES + 1)), "too_long");
        assert_refused(Submission { lane: Some("fast".to_owned()), ..shell("ls") }, "unknown_lane");
        assert_refused(
            Submission { env: vec![("A=B".to_owned(), String::new())], ..shell("ls") },
            "bad_env",
        );
    }
}
