//! Questions that somebody must answer before a command runs, and the yeses that hold on.
//!
//! **Invariant:** a yes is good for what was asked about and for nothing else: the same program,
//! directory, variables, input, shell and confinement, of the same tenant, by the same rule. It is
//! judged anew when it runs, so that what is denied by then does not run.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::ids::{JobId, TenantId};
use crate::policy::rules::RuleReference;
use crate::spec::{JobProgram, JobSpec, Stdin};
use crate::telemetry::ApprovalStep;

/// How long a question can be answered.
pub(super) const OPEN_FOR: Duration = Duration::from_secs(15 * 60);
/// Open questions of one tenant; the oldest one makes room.
const MAX_OPEN: usize = 100;
/// Yeses of one tenant that hold on; further ones hold once.
const MAX_LASTING: usize = 1000;

/// What somebody is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalQuestion {
    /// Its name, which nobody can guess.
    pub id: String,
    /// The whole command, secrets masked.
    pub command: String,
    /// Where it would run, secrets masked.
    pub cwd: String,
    /// The rules that want it to be asked, and where they are written.
    pub rule: String,
}

/// What somebody said to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// It may run now.
    Once,
    /// It may run now, and again for this tenant until the server ends.
    Tenant,
}

impl Consent {
    /// As the audit log says it.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Once => "approved once",
            Self::Tenant => "approved for the tenant",
        }
    }

    /// As it is counted.
    pub(super) const fn counted(self) -> ApprovalStep {
        match self {
            Self::Once => ApprovalStep::Once,
            Self::Tenant => ApprovalStep::Tenant,
        }
    }
}

/// Everything by which two runs could differ, as one short text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Fingerprint([u8; 32]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint")
    }
}

impl Fingerprint {
    /// Of what this spec would run in this directory.
    fn of(spec: &JobSpec, cwd: &Path) -> Self {
        let mut hash = Sha256::new();
        let mut add = |text: &[u8]| {
            // With its length, so that no two lists of texts read the same.
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

/// Something that a rule wants to be asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApprovalSubject {
    run: Fingerprint,
    /// Where it would run.
    pub(super) cwd: PathBuf,
    /// The rules, and where they are written.
    pub(super) rule: String,
}

impl ApprovalSubject {
    /// That this spec would run in this directory, which these rules want to be asked.
    pub(super) fn of(spec: &JobSpec, cwd: &Path, rules: &[RuleReference]) -> Self {
        Self {
            run: Fingerprint::of(spec, cwd),
            cwd: cwd.to_owned(),
            rule: RuleReference::join_ask_rules(rules),
        }
    }
}

/// Why there is no yes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoConsent {
    /// Somebody said no.
    #[error("it was declined")]
    Declined,
    /// Nobody said anything.
    #[error("nobody answered in time; call again to ask again")]
    NoAnswer,
    /// Whoever wanted it wants it no longer.
    #[error("it was taken back before anybody answered")]
    Withdrawn,
    /// The client could not ask.
    #[error("the client could not ask for it: {why}")]
    CannotAsk {
        /// What it said.
        why: String,
    },
    /// The answer is to another question, or to none.
    #[error(
        "the answer is to no open question: it was answered already, is too old, or was about something else; call again to ask again"
    )]
    NotAsked,
}

impl NoConsent {
    /// As it is counted.
    pub(super) const fn counted(&self) -> ApprovalStep {
        match self {
            Self::Declined => ApprovalStep::Declined,
            Self::NoAnswer => ApprovalStep::NoAnswer,
            Self::Withdrawn => ApprovalStep::Withdrawn,
            Self::CannotAsk { .. } => ApprovalStep::CannotAsk,
            Self::NotAsked => ApprovalStep::NotAsked,
        }
    }
}

/// A yes to a matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Approval {
    pub(super) matter: ApprovalSubject,
    pub(super) consent: Consent,
    /// The job that it is, where that is known already.
    pub(super) job: Option<JobId>,
}

/// What is open and what was said, for each tenant that was ever asked.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    tenants: Mutex<HashMap<TenantId, Book>>,
}

#[derive(Debug, Default)]
struct Book {
    /// The oldest first.
    open: VecDeque<Open>,
    lasting: HashSet<ApprovalSubject>,
}

#[derive(Debug)]
struct Open {
    id: String,
    matter: ApprovalSubject,
    since: Instant,
}

impl Approvals {
    /// Opens a question, and names it.
    pub(super) fn ask(
        &self,
        tenant: TenantId,
        matter: ApprovalSubject,
    ) -> Result<String, getrandom::Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        let id = HEXLOWER.encode(&secret);
        let open = Open { id: id.clone(), matter, since: Instant::now() };
        self.book(tenant, |book| {
            if book.open.len() == MAX_OPEN {
                book.open.pop_front();
            }
            book.open.push_back(open);
        });
        Ok(id)
    }

    /// What a question was about, which is closed by this: it is answered once.
    pub(super) fn close(&self, tenant: TenantId, id: &str) -> Option<ApprovalSubject> {
        self.book(tenant, |book| {
            book.open.retain(|open| open.since.elapsed() < OPEN_FOR);
            let at = book.open.iter().position(|open| open.id == id)?;
            book.open.remove(at).map(|open| open.matter)
        })
    }

    /// From now on this needs no asking for its tenant.
    pub(super) fn keep(&self, tenant: TenantId, matter: ApprovalSubject) {
        self.book(tenant, |book| {
            if book.lasting.len() < MAX_LASTING {
                book.lasting.insert(matter);
            }
        });
    }

    /// Whether somebody said so earlier.
    pub(super) fn holds(&self, tenant: TenantId, matter: &ApprovalSubject) -> bool {
        self.book(tenant, |book| book.lasting.contains(matter))
    }

    fn book<T>(&self, tenant: TenantId, look: impl FnOnce(&mut Book) -> T) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        look(tenants.entry(tenant).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matter(number: u8) -> ApprovalSubject {
        ApprovalSubject {
            run: Fingerprint([number; 32]),
            cwd: "/srv".into(),
            rule: "policy.ask[0]".to_owned(),
        }
    }

    #[test]
    fn a_question_is_answered_once_and_by_its_own_tenant() {
        let approvals = Approvals::default();
        let other = TenantId::parse("approvals-other").unwrap();
        let id = approvals.ask(TenantId::LOCAL, matter(1)).unwrap();
        assert_eq!(approvals.close(other, &id), None);
        assert_eq!(approvals.close(TenantId::LOCAL, &id[1..]), None);
        assert_eq!(approvals.close(TenantId::LOCAL, &id), Some(matter(1)));
        assert_eq!(approvals.close(TenantId::LOCAL, &id), None);
    }

    #[test]
    fn questions_are_bounded_and_the_oldest_makes_room() {
        let approvals = Approvals::default();
        let ids: Vec<String> =
            (0..=MAX_OPEN).map(|_| approvals.ask(TenantId::LOCAL, matter(1)).unwrap()).collect();
        assert_eq!(approvals.close(TenantId::LOCAL, &ids[0]), None);
        assert!(approvals.close(TenantId::LOCAL, &ids[1]).is_some());
    }

    #[test]
    fn a_lasting_yes_is_good_for_its_tenant_and_matter_alone() {
        let approvals = Approvals::default();
        let other = TenantId::parse("approvals-lasting").unwrap();
        approvals.keep(TenantId::LOCAL, matter(1));
        assert!(approvals.holds(TenantId::LOCAL, &matter(1)));
        assert!(!approvals.holds(other, &matter(1)));
        assert!(!approvals.holds(TenantId::LOCAL, &matter(2)));
        let moved = ApprovalSubject { rule: "policy.ask[1]".to_owned(), ..matter(1) };
        assert!(!approvals.holds(TenantId::LOCAL, &moved));
    }
}
