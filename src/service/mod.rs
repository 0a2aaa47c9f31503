//! The API that transports and tools use: submit, find, list, stop and drain jobs, and read and write
//! files. It hides the actors.
//!
//! [`JobService`] is the handle of the whole service; a [`TenantClient`] is the view of one caller.

mod admission;
mod admission_error;
mod approval;
mod awaiting_approval;
mod caller_history;
mod confinement;
mod file_admission;
mod files;
mod handle;
mod output;
mod restore;
mod submission;
mod tenant_client;
#[cfg(test)]
mod tests;

pub use admission::{AdmissionRules, AuditTrail, OnAuditFailure};
pub use admission_error::AdmissionError;
pub use approval::{ApprovalQuestion, ApprovalSubject, Consent, NoConsent};
pub use awaiting_approval::{ParkedState, ParkedSubmission, SubmitOutcome};
pub use caller_history::{ReportTo, SeenOutput};
pub use confinement::{
    Bound, ConfineError, ConfinementRules, ConfinementTerms, LimitSetting, LimitTerms, NetworkRule,
};
pub use files::{DirectoryEntry, DirectoryListing, FileError, FileKind, FilePage, WriteOutcome};
pub use handle::{AfterDrain, ForeignAccess, JobService, LiveSettings, ServiceSettings};
pub use output::{ContentKind, FollowError, JobOutput, JobOutputReader, OutputPiece};
pub use restore::PreviousServer;
pub use submission::{
    CallerContext, CallerIdentity, CallerRole, CommandLogging, DirectoryScope, LaneDefaults,
    Submission, SubmissionDefaults, SubmitError,
};
pub use tenant_client::{MissingCommand, TenantClient};

pub use crate::job::{
    InputError, InputReceipt, JobHandle, JobInput, JobPhase, JobStatus, JobTimes, JobVariables,
    KeyPress, Liveness, PromptRule, PumpGate, RefusedStarts, SharedJobSettings, StdinEnd,
    StopRequest, StreamError, Watchdog,
};
pub use crate::output::{Hole, LostBytes, RawReader, StartAt};
pub use crate::process::{ConfinementUnavailable, OnUnavailable, SandboxSupport};
pub use crate::process::{EchoMode, ProcessInfo, TerminalSize};
pub use crate::spec::DEFAULT_LANE;
pub use crate::supervisor::{
    FindError, HoldingJobs, HostResource, LaneLimits, LaneOverview, Pressure, PressureLevels,
    PressureWatch, QueueLimits, QueueOverview, QueuePosition, Retention, RetentionBounds,
    SubmitRefusal, TenantLimits, TenantOverview, UnknownLane, WaitsFor,
};
pub use crate::telemetry::QueueStats;
