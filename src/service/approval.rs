//! Approvals: questions that the user must answer before a command runs, and lasting answers.
//!
//! **Invariant:** an approval holds only for the run that the question was about: the same program,
//! directory, variables, input, shell and confinement, of the same tenant, by the same rule. The
//! policy judges the command again when it runs, so a command that is denied by then does not run.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::ids::{JobId, TenantId};
use crate::journal::{Journal, LastingApproval, Record, now_ms};
use crate::policy::rules::RuleReference;
use crate::spec::{JobProgram, JobSpec, Stdin};
use crate::telemetry::ApprovalStep;

/// The time in which a question can be answered.
pub(super) const OPEN_FOR: Duration = Duration::from_secs(15 * 60);
/// The shortest time in which a person can read and dismiss a question.
const READING_TIME: Duration = Duration::from_millis(100);
/// The most open questions of one tenant; a new one replaces the oldest.
const MAX_OPEN: usize = 100;
/// The most lasting approvals of one tenant; beyond that, an approval holds for one run.
const MAX_LASTING: usize = 1000;

/// A question for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalQuestion {
    /// The unguessable id of the question.
    pub id: String,
    /// The whole command, with secrets masked.
    pub command: String,
    /// The directory of the run, with secrets masked.
    pub cwd: String,
    /// The `ask` rules that match, with their places in the settings.
    pub rule: String,
}

/// The scope of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// The command may run now.
    Once,
    /// The command may run now, and again for this tenant: until the server ends, or for good if the
    /// server is durable.
    Tenant,
}

impl Consent {
    /// The text for the audit log.
    pub(super) const fn describe_for_audit(self) -> &'static str {
        match self {
            Self::Once => "approved once",
            Self::Tenant => "approved for the tenant",
        }
    }

    /// The label for the metrics.
    pub(super) const fn metric_step(self) -> ApprovalStep {
        match self {
            Self::Once => ApprovalStep::Once,
            Self::Tenant => ApprovalStep::Tenant,
        }
    }
}

/// A hash of everything in which two runs can differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RunFingerprint([u8; 32]);

impl fmt::Debug for RunFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunFingerprint")
    }
}

impl RunFingerprint {
    /// Hashes the run of this spec in this directory.
    fn new(spec: &JobSpec, cwd: &Path) -> Self {
        let mut hash = Sha256::new();
        let mut add = |text: &[u8]| {
            // The length comes first, so that no two lists of texts hash the same bytes.
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        match &spec.program {
            JobProgram::Shell(text) => [b"shell", text.as_bytes()].iter().for_each(|it| add(it)),
            JobProgram::Direct { program, args } => {
                add(b"direct");
                add(program.as_bytes());
                args.iter().for_each(|arg| add(arg.as_bytes()));
            }
        }
        add(b"in");
        add(cwd.as_os_str().as_encoded_bytes());
        match &spec.stdin {
            Stdin::Text(text) => [b"reads".as_slice(), text.as_bytes()].map(&mut add),
            Stdin::Closed => [b"closed".as_slice(), b""].map(&mut add),
            Stdin::Open | Stdin::Inherited | Stdin::Terminal => {
                [b"open".as_slice(), b""].map(&mut add)
            }
        };
        add(spec.confinement.effective.to_string().as_bytes());
        add(spec.shell_path.as_deref().unwrap_or_default().as_bytes());
        for (name, value) in &spec.env {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        Self(hash.finalize().into())
    }
}

/// The subject of a question: one exact run, and the rules that demand the question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApprovalSubject {
    run: RunFingerprint,
    pub(super) cwd: PathBuf,
    /// The rules with their places in the settings.
    pub(super) rule: String,
}

impl ApprovalSubject {
    pub(super) fn new(spec: &JobSpec, cwd: &Path, rules: &[RuleReference]) -> Self {
        Self {
            run: RunFingerprint::new(spec, cwd),
            cwd: cwd.to_owned(),
            rule: RuleReference::join_ask_rules(rules),
        }
    }

    fn to_record(&self, tenant: TenantId) -> LastingApproval {
        LastingApproval {
            tenant,
            run: HEXLOWER.encode(&self.run.0),
            cwd: self.cwd.clone().into_os_string(),
            rule: self.rule.clone(),
            at_ms: now_ms(),
        }
    }

    fn from_record(record: LastingApproval) -> Option<Self> {
        let run = HEXLOWER.decode(record.run.as_bytes()).ok()?;
        let run = RunFingerprint(run.try_into().ok()?);
        Some(Self { run, cwd: record.cwd.into(), rule: record.rule })
    }
}

/// The reason why a command was not approved.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoConsent {
    /// The user chose not to run the command.
    #[error("it was declined")]
    Declined,
    /// The question was declined as a whole.
    #[error("it was declined")]
    QuestionDeclined,
    /// The question was closed without an answer.
    #[error("it was dismissed")]
    Dismissed,
    /// The question was accepted without one of its choices.
    #[error("the answer had no choice; call again to ask again")]
    NoChoice,
    /// The question was dismissed faster than a person can read it.
    #[error(
        "nobody was asked: the client dismissed the question within {} ms; use a client that shows such questions, or take the rule out of policy.ask",
        READING_TIME.as_millis()
    )]
    NobodyAsked,
    #[error("nobody answered in time; call again to ask again")]
    NoAnswer,
    /// The caller cancelled the submission.
    #[error("it was taken back before anybody answered")]
    Withdrawn,
    #[error("the client could not ask for it: {why}")]
    CannotAsk { why: String },
    /// The answer belongs to another question, or to none.
    #[error(
        "the answer is to no open question: it was answered already, is too old, or was about something else; call again to ask again"
    )]
    NotAsked,
}

impl NoConsent {
    /// Returns the reason, given the time between the question and its answer.
    pub(super) fn after(self, time: Duration) -> Self {
        match self {
            Self::QuestionDeclined | Self::Dismissed if time < READING_TIME => Self::NobodyAsked,
            Self::QuestionDeclined
            | Self::Dismissed
            | Self::NoChoice
            | Self::Declined
            | Self::NobodyAsked
            | Self::NoAnswer
            | Self::Withdrawn
            | Self::CannotAsk { .. }
            | Self::NotAsked => self,
        }
    }

    /// The label for the metrics.
    pub(super) const fn metric_step(&self) -> ApprovalStep {
        match self {
            Self::Declined | Self::QuestionDeclined | Self::Dismissed | Self::NoChoice => {
                ApprovalStep::Declined
            }
            Self::NoAnswer => ApprovalStep::NoAnswer,
            Self::Withdrawn => ApprovalStep::Withdrawn,
            Self::NobodyAsked | Self::CannotAsk { .. } => ApprovalStep::CannotAsk,
            Self::NotAsked => ApprovalStep::NotAsked,
        }
    }
}

/// An approval of one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Approval {
    pub(super) subject: ApprovalSubject,
    pub(super) consent: Consent,
    /// The job that the submission becomes, if it has its number already.
    pub(super) job: Option<JobId>,
}

/// The open questions and lasting approvals of each tenant.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    tenants: Mutex<HashMap<TenantId, TenantApprovals>>,
    /// The journal of a durable server, which keeps lasting approvals.
    journal: Option<Journal>,
}

#[derive(Debug, Default)]
struct TenantApprovals {
    /// Open questions, oldest first.
    open: VecDeque<OpenQuestion>,
    lasting: HashSet<ApprovalSubject>,
}

#[derive(Debug)]
struct OpenQuestion {
    id: String,
    subject: ApprovalSubject,
    since: Instant,
}

/// A question that was answered.
#[derive(Debug)]
pub(super) struct ClosedQuestion {
    pub(super) subject: ApprovalSubject,
    /// The time for which the question was open.
    pub(super) open_for: Duration,
}

impl Approvals {
    /// Creates the approvals with those that a previous server recorded.
    pub(super) fn restore(journal: Option<Journal>, recorded: Vec<LastingApproval>) -> Self {
        let mut tenants: HashMap<TenantId, TenantApprovals> = HashMap::new();
        for approval in recorded {
            let tenant = approval.tenant;
            if let Some(subject) = ApprovalSubject::from_record(approval) {
                tenants.entry(tenant).or_default().lasting.insert(subject);
            }
        }
        Self { tenants: Mutex::new(tenants), journal }
    }

    /// Opens a question, and returns its id.
    pub(super) fn open_question(
        &self,
        tenant: TenantId,
        subject: ApprovalSubject,
    ) -> Result<String, getrandom::Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        let id = HEXLOWER.encode(&secret);
        let open = OpenQuestion { id: id.clone(), subject, since: Instant::now() };
        self.with_tenant(tenant, |approvals| {
            if approvals.open.len() == MAX_OPEN {
                approvals.open.pop_front();
            }
            approvals.open.push_back(open);
        });
        Ok(id)
    }

    /// Closes a question. A question can be closed once, by its own tenant.
    pub(super) fn close_question(&self, tenant: TenantId, id: &str) -> Option<ClosedQuestion> {
        self.with_tenant(tenant, |approvals| {
            approvals.open.retain(|open| open.since.elapsed() < OPEN_FOR);
            let at = approvals.open.iter().position(|open| open.id == id)?;
            let OpenQuestion { subject, since, .. } = approvals.open.remove(at)?;
            Some(ClosedQuestion { subject, open_for: since.elapsed() })
        })
    }

    /// Approves the subject for its tenant until the server ends, or for good if the server is
    /// durable.
    pub(super) fn approve_lasting(&self, tenant: TenantId, subject: ApprovalSubject) {
        let record = subject.to_record(tenant);
        let is_new = self.with_tenant(tenant, |approvals| {
            approvals.lasting.len() < MAX_LASTING && approvals.lasting.insert(subject)
        });
        if let Some(journal) = self.journal.as_ref().filter(|_| is_new) {
            drop(journal.append(&Record::Approval(record)));
        }
    }

    /// `true` if the subject has a lasting approval.
    pub(super) fn is_approved(&self, tenant: TenantId, subject: &ApprovalSubject) -> bool {
        self.with_tenant(tenant, |approvals| approvals.lasting.contains(subject))
    }

    fn with_tenant<T>(&self, tenant: TenantId, act: impl FnOnce(&mut TenantApprovals) -> T) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        act(tenants.entry(tenant).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(number: u8) -> ApprovalSubject {
        ApprovalSubject {
            run: RunFingerprint([number; 32]),
            cwd: "/srv".into(),
            rule: "policy.ask[0]".to_owned(),
        }
    }

    #[test]
    fn a_question_can_be_closed_once_and_by_its_own_tenant() {
        let approvals = Approvals::default();
        let other = TenantId::parse("approvals-other").unwrap();
        let id = approvals.open_question(TenantId::LOCAL, subject(1)).unwrap();
        let close = |tenant, id: &str| approvals.close_question(tenant, id).map(|it| it.subject);
        assert_eq!(close(other, &id), None);
        assert_eq!(close(TenantId::LOCAL, &id[1..]), None);
        assert_eq!(close(TenantId::LOCAL, &id), Some(subject(1)));
        assert_eq!(close(TenantId::LOCAL, &id), None);
    }

    #[test]
    fn a_question_dismissed_at_once_was_not_shown() {
        let soon = Duration::from_millis(99);
        for closed in [NoConsent::Dismissed, NoConsent::QuestionDeclined] {
            assert_eq!(closed.clone().after(soon), NoConsent::NobodyAsked);
            assert_eq!(closed.clone().after(READING_TIME), closed);
        }
        for chosen in [NoConsent::Declined, NoConsent::NoChoice, NoConsent::Withdrawn] {
            assert_eq!(chosen.clone().after(soon), chosen);
        }
        let text = NoConsent::NobodyAsked.to_string();
        assert!(
            text.starts_with("nobody was asked: the client dismissed the question within 100 ms")
        );
    }

    #[test]
    fn open_questions_are_bounded_and_a_new_one_replaces_the_oldest() {
        let approvals = Approvals::default();
        let ids: Vec<String> = (0..=MAX_OPEN)
            .map(|_| approvals.open_question(TenantId::LOCAL, subject(1)).unwrap())
            .collect();
        assert!(approvals.close_question(TenantId::LOCAL, &ids[0]).is_none());
        assert!(approvals.close_question(TenantId::LOCAL, &ids[1]).is_some());
    }

    #[test]
    fn a_lasting_approval_holds_for_its_tenant_and_subject_alone() {
        let approvals = Approvals::default();
        let other = TenantId::parse("approvals-lasting").unwrap();
        approvals.approve_lasting(TenantId::LOCAL, subject(1));
        assert!(approvals.is_approved(TenantId::LOCAL, &subject(1)));
        assert!(!approvals.is_approved(other, &subject(1)));
        assert!(!approvals.is_approved(TenantId::LOCAL, &subject(2)));
        let moved = ApprovalSubject { rule: "policy.ask[1]".to_owned(), ..subject(1) };
        assert!(!approvals.is_approved(TenantId::LOCAL, &moved));
    }

    #[test]
    fn a_recorded_approval_holds_for_the_next_server() {
        let record = subject(1).to_record(TenantId::LOCAL);
        let damaged = LastingApproval { run: "zz".to_owned(), ..record.clone() };
        let approvals = Approvals::restore(None, vec![record, damaged]);
        assert!(approvals.is_approved(TenantId::LOCAL, &subject(1)));
        assert!(!approvals.is_approved(TenantId::LOCAL, &subject(2)));
    }
}
