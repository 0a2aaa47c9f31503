//! The reasons why a submission or a file call is not admitted.

use std::path::PathBuf;

use thiserror::Error;

use super::approval::{ApprovalSubject, NoConsent};
use crate::confinement::SandboxProfile;
use crate::ids::TenantId;
use crate::outcome::StartError;
use crate::policy::PolicyRefusal;
use crate::policy::gate::{PlainWordsError, StartRefusalReason};
use crate::policy::rules::RuleReference;

/// The reason why a submission or a file call was not admitted. Nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdmissionError {
    #[error("{0}")]
    ByPolicy(PolicyRefusal),
    /// An `ask` rule matches, and the command was not approved.
    #[error(
        "`{command}` matches {} and needs somebody's yes, which cannot be asked for here; to let it run, take the rule out of policy.ask",
        RuleReference::join_ask_rules(.rules)
    )]
    NeedsApproval {
        /// The first command that needs approval.
        command: String,
        rules: Vec<RuleReference>,
        /// The subject of the question to ask; `None` if nobody can be asked.
        subject: Option<Box<ApprovalSubject>>,
    },
    /// The user was asked, and did not approve.
    #[error("{rule} needs somebody's yes, and {why}")]
    NotApproved {
        /// The rule with its place in the settings.
        rule: String,
        why: NoConsent,
    },
    #[error("`{}` is outside the allowed directories {} ({settings})", .cwd.display(), .allowed.join(", "))]
    Directory {
        /// The directory with links followed.
        cwd: PathBuf,
        allowed: Vec<String>,
        /// The settings that list the allowed ones.
        settings: String,
    },
    /// A directory of the tenant is a symlink now, or in one.
    #[error(
        "`{}`, a directory of tenant {tenant}, leads to `{}` now; put the directory back, or change the settings of the tenant and reload them", .path.display(), .found.display()
    )]
    Redirected { tenant: TenantId, path: PathBuf, found: PathBuf },
    /// The directory is not below the one that the tool is bound to.
    #[error("`{}` is outside the project root `{}`; give a directory below it", .cwd.display(), .root.display())]
    OutsideRoot {
        /// The directory with links followed.
        cwd: PathBuf,
        root: PathBuf,
    },
    /// The sandbox profile of the tenant's jobs forbids the write, and file calls keep to it.
    #[error(
        "`{}` may not be written to: jobs of tenant {tenant} have confinement {}, and so has this", .path.display(), .profile.word()
    )]
    Confined {
        tenant: TenantId,
        profile: SandboxProfile,
        /// The file, or the directory in which no file may be written.
        path: PathBuf,
    },
    /// The directory cannot be opened.
    #[error(transparent)]
    Unreadable(StartError),
    /// A variable of the call can run code in every program.
    #[error("{0}")]
    ByVariable(Box<StartRefusalReason>),
    /// There is no exec gate, and the text is not made of plain words.
    #[error("{error} ({why})")]
    NotPlain { error: Box<PlainWordsError>, why: String },
    /// The settings require the exec gate, which the host cannot have.
    #[error(
        "policy.enforce is \"require\", and this host cannot judge programs as they start: {why}"
    )]
    NoGate { why: String },
    /// The audit entry could not be written.
    #[error(
        "the audit log cannot be written, and nothing runs without it (audit.on_failure): {why}"
    )]
    NoAudit { why: String },
}

impl AdmissionError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ByPolicy(refusal) => refusal.code(),
            Self::NeedsApproval { .. } => "needs_approval",
            Self::NotApproved { .. } => "not_approved",
            Self::Directory { .. } | Self::Redirected { .. } | Self::OutsideRoot { .. } => {
                "outside_directories"
            }
            Self::Confined { .. } => "confined",
            Self::Unreadable(error) => error.code(),
            Self::ByVariable(why) => why.code(),
            Self::NotPlain { error, .. } => error.code(),
            Self::NoGate { .. } => "no_gate",
            Self::NoAudit { .. } => "no_audit",
        }
    }

    /// The decisive rule, for the audit log.
    pub(super) fn rule(&self) -> String {
        match self {
            Self::ByPolicy(
                PolicyRefusal::Denied { rule, .. } | PolicyRefusal::MayBeDenied { rule, .. },
            ) => rule.location.clone(),
            Self::NeedsApproval { rules, .. } => {
                rules.iter().map(|it| it.location.as_str()).collect::<Vec<_>>().join(", ")
            }
            Self::NotApproved { rule, .. } => rule.clone(),
            Self::ByPolicy(refusal) => refusal.code().to_owned(),
            Self::Directory { settings, .. } => settings.clone(),
            Self::Redirected { tenant, .. } => format!("tenants.{tenant}"),
            Self::OutsideRoot { .. } | Self::Confined { .. } => self.code().to_owned(),
            Self::Unreadable(error) => error.code().to_owned(),
            Self::ByVariable(why) => why.code().to_owned(),
            Self::NotPlain { error, .. } => error.code().to_owned(),
            Self::NoGate { .. } => "policy.enforce".to_owned(),
            Self::NoAudit { .. } => "audit.on_failure".to_owned(),
        }
    }
}
