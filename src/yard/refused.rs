//! Why a rule let something not run.

use std::path::PathBuf;

use thiserror::Error;

use super::approval::{Matter, NoConsent};
use crate::confinement::Profile;
use crate::ids::Tenant;
use crate::outcome::StartError;
use crate::policy::{AskRule, Refusal};

/// Why a submission was refused by rule. Nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refused {
    /// The policy says no.
    #[error("{0}")]
    ByPolicy(Refusal),
    /// The policy says that somebody must agree, and there is nobody to ask.
    #[error(
        "`{command}` matches {} and needs somebody's yes, which cannot be asked for here; to let it run, take the rule out of policy.ask",
        AskRule::listed(.rules)
    )]
    NeedsApproval {
        /// The first command that somebody must agree to.
        command: String,
        /// The rules.
        rules: Vec<AskRule>,
        /// What somebody would have to agree to; `None`: it cannot be asked.
        matter: Option<Box<Matter>>,
    },
    /// Somebody was asked, and did not say yes.
    #[error("{rule} needs somebody's yes, and {why}")]
    NotApproved {
        /// The rule, and where it is written.
        rule: String,
        /// Why there is none.
        why: NoConsent,
    },
    /// The directory is not one of those that are allowed.
    #[error("`{}` is outside the allowed directories {} (policy.allowed_directories)", .cwd.display(), .allowed.join(", "))]
    Directory {
        /// What the directory really is, links followed.
        cwd: PathBuf,
        /// The directories that are allowed.
        allowed: Vec<String>,
    },
    /// The directory does not lie in the one that the caller is bound to.
    #[error("`{}` is outside the project root `{}`; give a directory below it", .cwd.display(), .root.display())]
    OutsideRoot {
        /// What the directory really is, links followed.
        cwd: PathBuf,
        /// Where it would have to lie.
        root: PathBuf,
    },
    /// Files may not be written there, by jobs or by us.
    #[error(
        "`{}` may not be written to: jobs of tenant {tenant} have confinement {}, and so has this", .path.display(), .profile.word()
    )]
    Confined {
        /// Whose jobs.
        tenant: Tenant,
        /// What they have.
        profile: Profile,
        /// The file, or the directory in which nothing may be written.
        path: PathBuf,
    },
    /// The directory cannot be looked at.
    #[error(transparent)]
    Unreadable(StartError),
    /// The decision could not be written down.
    #[error(
        "the audit log cannot be written, and nothing runs without it (audit.on_failure): {why}"
    )]
    NoAudit {
        /// What the system said.
        why: String,
    },
}

impl Refused {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ByPolicy(refusal) => refusal.code(),
            Self::NeedsApproval { .. } => "needs_approval",
            Self::NotApproved { .. } => "not_approved",
            Self::Directory { .. } | Self::OutsideRoot { .. } => "outside_directories",
            Self::Confined { .. } => "confined",
            Self::Unreadable(error) => error.code(),
            Self::NoAudit { .. } => "no_audit",
        }
    }

    /// The rule that was decisive, for the audit log.
    pub(super) fn rule(&self) -> String {
        match self {
            Self::ByPolicy(Refusal::Denied { place, .. } | Refusal::MayBeDenied { place, .. }) => {
                place.clone()
            }
            Self::NeedsApproval { rules, .. } => {
                rules.iter().map(|it| it.place.as_str()).collect::<Vec<_>>().join(", ")
            }
            Self::NotApproved { rule, .. } => rule.clone(),
            Self::ByPolicy(refusal) => refusal.code().to_owned(),
            Self::Directory { .. } => "policy.allowed_directories".to_owned(),
            Self::OutsideRoot { .. } | Self::Confined { .. } => self.code().to_owned(),
            Self::Unreadable(error) => error.code().to_owned(),
            Self::NoAudit { .. } => "audit.on_failure".to_owned(),
        }
    }
}
