//! From what a caller asks for to a complete, checked spec.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::admission::AdmissionError;
use super::confinement::{ConfineError, ConfinementRules, ConfinementTerms};
use super::tenancy::CallerRole;
use crate::ids::TenantId;
use crate::spec::{
    DEFAULT_LANE, JobProgram, JobSpec, LargeOutput, Priority, RunLimits, ShellUse, Stdin,
};
use crate::supervisor::SubmitRefusal;
use crate::telemetry::RejectionReason;
use crate::trace::CallTrace;

/// What a caller asks for; what it leaves out gets the configured default.
#[derive(Debug, Clone)]
pub struct Submission {
    /// What to run.
    pub program: JobProgram,
    /// Where; relative paths start at the default directory.
    pub cwd: Option<PathBuf>,
    /// Variables to add.
    pub env: Vec<(String, String)>,
    /// What it reads.
    pub stdin: Stdin,
    /// The longest it may run.
    pub timeout: Option<Duration>,
    /// What becomes of it when it writes a lot.
    pub on_large_output: Option<LargeOutput>,
    /// The caller's own words for it.
    pub description: Option<String>,
    /// The lane to queue in.
    pub lane: Option<String>,
    /// Its priority among its tenant's jobs.
    pub priority: Option<Priority>,
    /// How far it is to be shut in, and what it may use up: never more than its tenant's jobs may.
    pub confinement: ConfinementTerms,
    /// A name for this wish: the same key never runs twice.
    pub key: Option<String>,
    /// The shell for shell text, by its path; `None`: the configured one.
    pub shell: Option<String>,
    /// Which directories it may run in, beside what the rules say.
    pub within: DirectoryScope,
    /// How long last bytes are waited for at most, once the leader has ended and its children hold
    /// its output open; `None`: as configured.
    pub drain_max: Option<Duration>,
    /// Whether the command may stand in the log; the audit log has it in any case.
    pub logged: CommandLogging,
}

/// Which directories a submission may run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryScope {
    /// Any.
    Anywhere,
    /// The directory of jobs that name none, and those below it, links followed.
    DefaultDirectory,
}

/// Whether a command may stand in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandLogging {
    /// It is logged.
    Yes,
    /// Only the job's number is.
    No,
}

/// Who submits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerContext {
    /// Whose jobs these are.
    pub tenant: TenantId,
    /// What it may do.
    pub role: CallerRole,
    /// The program that speaks for them, by its own account.
    pub client: String,
    /// The call that it speaks in.
    pub trace: CallTrace,
}

/// What fills the gaps of a submission, and what bounds it.
#[derive(Debug, Clone)]
pub struct SubmissionDefaults {
    /// The directory of jobs that name none.
    pub cwd: PathBuf,
    /// Limits of jobs that name none.
    pub limits: RunLimits,
    /// What becomes of a job that writes a lot and does not say.
    pub on_large_output: LargeOutput,
    /// The largest timeout that can be asked for.
    pub max_timeout: Duration,
    /// Variables that a tenant's jobs get, unless the caller says otherwise.
    pub environment: BTreeMap<TenantId, Vec<(String, String)>>,
    /// The lanes there are, beside the default one.
    pub lanes: BTreeMap<String, LaneDefaults>,
    /// How far jobs are shut in, and what they may use up.
    pub confining: ConfinementRules,
}

/// What a lane's jobs have that do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneDefaults {
    /// The longest they may run; `None` = as in every lane.
    pub timeout: Option<Duration>,
    /// Their priority.
    pub priority: Priority,
}

/// Why a command was not accepted. Nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// There is nothing to run.
    #[error("the command is empty; give the command line to run, such as \"cargo test\"")]
    EmptyCommand,
    /// More text than any program can be given.
    #[error(
        "the command is too long: {bytes} bytes of command, arguments, environment and description, at most {MAX_BYTES} can be given; write the text to a file, or pass it on stdin"
    )]
    TooLong {
        /// How much was given.
        bytes: usize,
    },
    /// A timeout that cannot be given.
    #[error("a timeout of {}s cannot be given; it must be above 0 and at most {}s", .given.as_secs_f64(), .max.as_secs())]
    Timeout {
        /// What was asked for.
        given: Duration,
        /// The largest that can be given.
        max: Duration,
    },
    /// A name of a variable that no program can be given.
    #[error(
        "`{name}` cannot be the name of an environment variable; names are not empty and hold no `=`"
    )]
    EnvName {
        /// What was asked for.
        name: String,
    },
    /// No such lane.
    #[error("there is no lane `{given}`; the lanes are {}", .known.join(", "))]
    UnknownLane {
        /// What was asked for.
        given: String,
        /// The lanes there are.
        known: Vec<String>,
    },
    /// It cannot be confined as asked.
    #[error(transparent)]
    Confinement(#[from] ConfineError),
    /// A rule says no.
    #[error("{0}")]
    Rules(#[from] AdmissionError),
    /// The queue would not take it.
    #[error(transparent)]
    Refused(#[from] SubmitRefusal),
}

impl SubmitError {
    /// The stable word that clients may match on.
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

    /// The word under which it is counted.
    pub(super) const fn rejection(&self) -> RejectionReason {
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
            Self::Refused(SubmitRefusal::Draining | SubmitRefusal::Closed) => {
                RejectionReason::Draining
            }
            Self::Refused(SubmitRefusal::Interrupted) => RejectionReason::Interrupted,
        }
    }

    /// When it may be worth trying again, where that is known.
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
    /// A command with nothing but defaults.
    #[must_use]
    pub const fn new(program: JobProgram) -> Self {
        Self {
            program,
            cwd: None,
            env: Vec::new(),
            stdin: Stdin::Closed,
            timeout: None,
            on_large_output: None,
            description: None,
            lane: None,
            priority: None,
            confinement: ConfinementTerms::NOTHING,
            key: None,
            shell: None,
            within: DirectoryScope::Anywhere,
            drain_max: None,
            logged: CommandLogging::Yes,
        }
    }

    /// Checks what was asked for and fills in the rest.
    pub(super) fn complete(
        self,
        defaults: &SubmissionDefaults,
        caller: &CallerContext,
    ) -> Result<JobSpec, SubmitError> {
        check_program(&self.program)?;
        check_env(&self.env)?;
        self.check_size()?;
        let lane = check_lane(self.lane, defaults)?;
        let of_lane = defaults.lanes.get(&lane).copied().unwrap_or_default();
        let timeout = match self.timeout {
            None => of_lane.timeout.unwrap_or(defaults.limits.timeout),
            Some(asked) => check_timeout(asked, defaults)?,
        };
        let (confinement, resources) =
            defaults.confining.decide(caller.tenant, &lane, &self.confinement)?;
        Ok(JobSpec {
            program: self.program,
            cwd: self.cwd.map_or_else(|| defaults.cwd.clone(), |cwd| defaults.cwd.join(cwd)),
            env: with_own(defaults.environment.get(&caller.tenant), self.env),
            stdin: self.stdin,
            limits: RunLimits { timeout, ..defaults.limits },
            resources,
            confinement,
            doubt: None,
            on_large_output: self.on_large_output.unwrap_or(defaults.on_large_output),
            description: self.description,
            lane,
            priority: self.priority.unwrap_or(of_lane.priority),
            shell: ShellUse::Configured,
            shell_path: self.shell,
            tenant: caller.tenant,
            drain_max: self.drain_max,
            trace: caller.trace.clone(),
        })
    }
}

/// The tenant's own variables, and what the caller says over them.
fn with_own(
    own: Option<&Vec<(String, String)>>,
    given: Vec<(String, String)>,
) -> Vec<(String, String)> {
    let is_given = |name: &String| given.iter().any(|(given, _)| given == name);
    let own = own.into_iter().flatten().filter(|(name, _)| !is_given(name)).cloned();
    let mut all: Vec<_> = own.collect();
    all.extend(given);
    all
}

/// What Linux takes as arguments and environment of one program; a job that is known keeps it all.
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
            on_large_output: LargeOutput::Spill,
            max_timeout: Duration::from_secs(100),
            environment: BTreeMap::new(),
            lanes: BTreeMap::from([("build".to_owned(), BUILD)]),
            confining: ConfinementRules::of_nothing(),
        }
    }

    fn shell(text: &str) -> Submission {
        Submission::new(JobProgram::Shell(text.to_owned()))
    }

    fn caller() -> CallerContext {
        let (tenant, role, client) = (TenantId::LOCAL, CallerRole::Run, "test".to_owned());
        CallerContext { tenant, role, client, trace: CallTrace::own() }
    }

    #[track_caller]
    fn refused(submission: Submission, code: &str) {
        assert_eq!(submission.complete(&defaults(), &caller()).unwrap_err().code(), code);
    }

    #[test]
    fn what_is_left_out_gets_the_default() {
        let spec = shell("ls").complete(&defaults(), &caller()).unwrap();
        assert_eq!(spec.cwd, PathBuf::from("/srv"));
        assert_eq!(spec.limits.timeout, Duration::from_secs(60));
        assert_eq!(spec.lane, DEFAULT_LANE);
    }

    #[test]
    fn a_lane_fills_in_what_the_caller_leaves_out() {
        let build = || Submission { lane: Some("build".to_owned()), ..shell("ls") };
        let spec = build().complete(&defaults(), &caller()).unwrap();
        assert_eq!((spec.limits.timeout, spec.priority), (Duration::from_secs(90), Priority::Low));
        let asked = Duration::from_secs(10);
        let said = Submission { timeout: Some(asked), priority: Some(Priority::High), ..build() };
        let spec = said.complete(&defaults(), &caller()).unwrap();
        assert_eq!((spec.limits.timeout, spec.priority), (asked, Priority::High));
        let spec = shell("ls").complete(&defaults(), &caller()).unwrap();
        assert_eq!(spec.priority, Priority::Normal);
    }

    #[test]
    fn a_relative_directory_starts_at_the_default_one() {
        let spec = Submission { cwd: Some("app".into()), ..shell("ls") };
        assert_eq!(spec.complete(&defaults(), &caller()).unwrap().cwd, PathBuf::from("/srv/app"));
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        refused(shell(" \n"), "empty_command");
        refused(Submission { timeout: Some(Duration::ZERO), ..shell("ls") }, "bad_timeout");
        refused(
            Submission { timeout: Some(Duration::from_secs(101)), ..shell("ls") },
            "bad_timeout",
        );
        refused(shell(&"x".repeat(MAX_BYTES + 1)), "too_long");
        refused(Submission { lane: Some("fast".to_owned()), ..shell("ls") }, "unknown_lane");
        refused(
            Submission { env: vec![("A=B".to_owned(), String::new())], ..shell("ls") },
            "bad_env",
        );
    }
}
