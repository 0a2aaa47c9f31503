//! What a submission must pass before it becomes a job, and what is written down about it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;

use super::approval::{Approval, ApprovalSubject, Approvals, NoConsent};
use super::confinement::ConfinementRules;
use super::submission::CallerContext;
use crate::confinement::{Confinement, GrantedConfinement, NetworkAccess, SandboxProfile};
use crate::ids::{JobId, TenantId};
use crate::outcome::{Outcome, StartError};
use crate::output::redaction::Redactor;
use crate::policy::directories::AllowedDirectories;
use crate::policy::rules::{PLAIN_LOCALES, RuleReference};
use crate::policy::{
    self, OnUncertain, Policy, PolicyDecision, PolicyEvaluation, PolicyRefusal, PolicyRequest,
    RequestedCommand,
};
use crate::process::shell::{ShellChoice, ShellDialect, judged_dialect};
use crate::process::{Host, OpenedDir};
use crate::spec::{JobProgram, JobSpec, ShellUse};
use crate::supervisor::OnJobEnd;
use crate::telemetry::audit::{AuditLog, AuditVerdict, DecisionEntry, EndingEntry, NoteEntry};

/// The variable that decides in which locale a shell reads its text.
const LOCALE_NAME: &str = "LC_ALL";

/// Everything that may change while the server runs.
#[derive(Debug, Clone)]
pub struct AdmissionRules {
    /// What may run.
    pub policy: Policy,
    /// Where; anywhere when there is no list.
    pub directories: Option<AllowedDirectories>,
    /// What is masked in text that leaves the yard.
    pub redactor: Arc<Redactor>,
}

impl AdmissionRules {
    fn are_unset(&self) -> bool {
        let Policy { allow, deny, ask, .. } = &self.policy;
        allow.is_none() && deny.is_empty() && ask.is_empty() && self.directories.is_none()
    }
}

/// Where decisions are written down, and what it means when they cannot be.
#[derive(Debug, Clone)]
pub struct AuditTrail {
    /// The log.
    pub log: AuditLog,
    /// What a failed write leads to.
    pub on_failure: OnAuditFailure,
}

/// What a failed write to the audit log leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnAuditFailure {
    /// It is counted, and work goes on.
    Count,
    /// Nothing new is run until writing works again.
    Refuse,
}

/// The gate itself.
#[derive(Debug)]
pub(super) struct Gate {
    /// Opens the directories of jobs.
    pub(super) host: Arc<Host>,
    rules: RwLock<Arc<AdmissionRules>>,
    audit: Option<AuditTrail>,
    /// What somebody is asked, and has agreed to.
    pub(super) approvals: Approvals,
}

/// What wants to pass.
#[derive(Debug)]
pub(super) struct Passing<'a> {
    pub(super) spec: &'a mut JobSpec,
    pub(super) caller: &'a CallerContext,
    /// Where there is one, the directory must lie in it.
    pub(super) root: Option<&'a Path>,
    /// The sandboxes of this host, for text that cannot be judged.
    pub(super) confining: &'a ConfinementRules,
    /// What somebody has just agreed to.
    pub(super) approval: Option<&'a Approval>,
}

impl Gate {
    pub(super) fn new(rules: AdmissionRules, audit: Option<AuditTrail>, host: Arc<Host>) -> Self {
        let rules = RwLock::new(Arc::new(rules));
        Self { host, rules, audit, approvals: Approvals::default() }
    }

    /// The rules that hold now.
    pub(super) fn rules(&self) -> Arc<AdmissionRules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on these rules hold.
    pub(super) fn replace(&self, rules: AdmissionRules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Lets a spec pass, or says why not; either way it is written down first. Gives the directory
    /// that was judged: the job must start in that one, whatever its path leads to by then.
    pub(super) async fn pass(
        &self,
        passing: Passing<'_>,
        next_id: impl FnOnce() -> JobId,
    ) -> Result<(JobId, Option<OpenedDir>), AdmissionError> {
        let rules = self.rules();
        let agreed =
            |matter: &ApprovalSubject| self.agreed(matter, passing.caller, passing.approval);
        // Only what may run gets a number.
        let decided = judge(&self.host, &rules, &passing, agreed).map(|passed| (next_id(), passed));
        let Passing { spec, caller, .. } = passing;
        if let Ok((_, Passed { sandbox: Some(granted), uncertain, .. })) = &decided {
            spec.confinement = *granted;
            spec.doubt = uncertain.as_deref().map(Arc::from);
        }
        let command = spec.program.display();
        let cwd = spec.cwd.to_string_lossy();
        let note = Note {
            caller,
            job: decided.as_ref().ok().map(|(job, _)| *job),
            command: &rules.redactor.mask_text(&command),
            cwd: &rules.redactor.mask_text(&cwd),
            confinement: spec.confinement,
        };
        let written = self.write_decision(&note, decided.as_ref().map(|(_, passed)| passed)).await;
        let (job, passed) = decided?;
        written?;
        if passed.cwd.is_some() {
            spec.shell = ShellUse::AsJudged;
            if let JobProgram::Shell(_) = spec.program {
                fix_locale(&mut spec.env);
            }
        }
        Ok((job, passed.cwd))
    }

    /// How somebody has agreed to this, if somebody has.
    fn agreed(
        &self,
        matter: &ApprovalSubject,
        caller: &CallerContext,
        approval: Option<&Approval>,
    ) -> Option<String> {
        match approval.filter(|approval| approval.matter == *matter) {
            Some(Approval { consent, .. }) => {
                let how = consent.words();
                Some(format!("{}: {how}, asked through {}", matter.rule, caller.client))
            }
            None => {
                let holds = self.approvals.holds(caller.tenant, matter);
                holds.then(|| format!("{}: approved for the tenant earlier", matter.rule))
            }
        }
    }

    /// Writes a decision down; an error where nothing may happen without that.
    pub(super) async fn write_decision(
        &self,
        note: &Note<'_>,
        decided: Result<&Passed, &AdmissionError>,
    ) -> Result<(), AdmissionError> {
        let Some(trail) = &self.audit else { return Ok(()) };
        let rule = match decided {
            Ok(passed) => passed.rule.clone(),
            Err(refused) => Some(refused.rule()),
        };
        let uncertain = decided.ok().and_then(|passed| passed.uncertain.as_deref());
        let entry = DecisionEntry {
            tenant: note.caller.tenant.name(),
            client: &note.caller.client,
            job: note.job,
            command: note.command,
            cwd: note.cwd,
            confinement: note.confinement,
            verdict: match decided {
                Ok(_) => AuditVerdict::Allowed,
                Err(AdmissionError::NeedsApproval { .. }) => AuditVerdict::Asked,
                Err(_) => AuditVerdict::Refused,
            },
            rule: rule.as_deref(),
            uncertain,
            trace_id: note.caller.trace.context.trace_id,
        };
        match (trail.log.decision(&entry).await, trail.on_failure) {
            (Ok(()), _) | (Err(_), OnAuditFailure::Count) => Ok(()),
            (Err(error), OnAuditFailure::Refuse) => {
                Err(AdmissionError::NoAudit { why: error.to_string() })
            }
        }
    }

    /// What writes the ending of a job down that this caller asked for.
    pub(super) fn write_at_end(&self, caller: &CallerContext) -> Option<OnJobEnd> {
        let AuditTrail { log, .. } = self.audit.clone()?;
        let caller = caller.clone();
        let redactor = Arc::clone(&self.rules().redactor);
        Some(OnJobEnd::new(move |job, ending| {
            log.ending(&EndingEntry {
                tenant: caller.tenant.name(),
                client: &caller.client,
                job: job.id(),
                outcome: &masked(ending.outcome.clone(), &redactor),
                elapsed: job.status().elapsed(),
                trace_id: caller.trace.context.trace_id,
            });
        }))
    }

    /// Waits until the audit log is written. Blocks for two seconds at most.
    pub(super) fn finish_audit(&self) {
        if let Some(trail) = &self.audit {
            trail.log.finish();
        }
    }

    /// Writes down something that concerns no single job.
    pub(super) fn note(&self, what: &str, detail: &str) {
        if let Some(trail) = &self.audit {
            trail.log.note(&NoteEntry { what, detail });
        }
    }
}

/// Has the shell read a text in the locale in which it was judged: in others a byte of a character
/// can be a quote. A plain locale that the caller chose reads it alike.
fn fix_locale(env: &mut Vec<(String, String)>) {
    let is_plain = |(name, value): &(String, String)| {
        name == LOCALE_NAME && PLAIN_LOCALES.contains(&value.as_str())
    };
    if !env.iter().any(is_plain) {
        env.retain(|(name, _)| name != LOCALE_NAME);
        env.push((LOCALE_NAME.to_owned(), "C.UTF-8".to_owned()));
    }
}

/// What is written down beside a decision, secrets masked.
pub(super) struct Note<'a> {
    pub(super) caller: &'a CallerContext,
    pub(super) job: Option<JobId>,
    pub(super) command: &'a str,
    pub(super) cwd: &'a str,
    pub(super) confinement: GrantedConfinement,
}

/// What a job could not start with may name a secret.
fn masked(outcome: Outcome, redactor: &Redactor) -> Outcome {
    match outcome {
        Outcome::FailedToStart(why) => {
            Outcome::FailedToStart(why.with_texts(|text| redactor.mask_text(&text).into_owned()))
        }
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::Lost { .. } => outcome,
    }
}

/// What is to be known about a spec that may run.
pub(super) struct Passed {
    /// The rules of the allow list that let it run.
    rule: Option<String>,
    /// What could not be judged, and was let pass by setting.
    uncertain: Option<String>,
    /// The sandbox for text that cannot be judged.
    sandbox: Option<GrantedConfinement>,
    /// The directory that was judged, where there are rules.
    cwd: Option<OpenedDir>,
}

fn judge(
    host: &Host,
    rules: &AdmissionRules,
    passing: &Passing<'_>,
    agreed: impl FnOnce(&ApprovalSubject) -> Option<String>,
) -> Result<Passed, AdmissionError> {
    let Passing { spec, caller, root, .. } = passing;
    if rules.are_unset() && root.is_none() {
        return Ok(Passed { rule: None, uncertain: None, sandbox: None, cwd: None });
    }
    let cwd = opened(host, rules, &spec.cwd)?;
    if let Some(root) = *root {
        let root = host.open_dir(root).map_err(AdmissionError::Unreadable)?;
        if !cwd.path().starts_with(root.path()) {
            let cwd = cwd.path().to_owned();
            let root = root.path().to_owned();
            return Err(AdmissionError::OutsideRoot { cwd, root });
        }
    }
    let request = PolicyRequest {
        command: match &spec.program {
            JobProgram::Shell(text) => RequestedCommand::Shell(text),
            JobProgram::Direct { program, args } => RequestedCommand::Direct { program, args },
        },
        environment: &spec.env,
        cwd: &cwd.path().to_string_lossy(),
        writable: &roots(rules),
        tenant: caller.tenant.name(),
        lane: &spec.lane,
        shell: spec.shell_path.as_deref().map(read_by),
    };
    let reading = PolicyEvaluation::new(&rules.policy, &request);
    let passed = match decide(&reading, rules.policy.uncertain, Some(passing.confining)) {
        Err(AdmissionError::NeedsApproval { command, rules: asking, .. }) => {
            let matter = ApprovalSubject::of(spec, cwd.path(), &asking);
            let Some(how) = agreed(&matter) else {
                let matter = Some(Box::new(matter));
                return Err(AdmissionError::NeedsApproval { command, rules: asking, matter });
            };
            check_links(&reading)?;
            let uncertain = uncertain(&reading, rules.policy.uncertain);
            Passed { rule: Some(how), uncertain, sandbox: None, cwd: None }
        }
        decided => decided?,
    };
    Ok(Passed { cwd: Some(cwd), ..passed })
}

/// Asks the policy; the directory is not part of it. `confining` is there if something is run.
pub(super) fn decide(
    reading: &PolicyEvaluation<'_>,
    on_uncertain: OnUncertain,
    confining: Option<&ConfinementRules>,
) -> Result<Passed, AdmissionError> {
    match reading.decision() {
        PolicyDecision::Allow => {
            check_links(reading)?;
            Ok(Passed {
                rule: allowed_by(reading),
                uncertain: uncertain(reading, on_uncertain),
                sandbox: None,
                cwd: None,
            })
        }
        PolicyDecision::Confine { doubt } => sandboxed(confining, doubt),
        PolicyDecision::Ask { command, rules } => {
            Err(AdmissionError::NeedsApproval { command, rules, matter: None })
        }
        PolicyDecision::Deny(refusal) => Err(AdmissionError::ByPolicy(refusal)),
    }
}

/// Lets text that cannot be judged run read-only and without network; refuses it where that cannot
/// be had in full, or where nothing is run.
fn sandboxed(
    confining: Option<&ConfinementRules>,
    doubt: PolicyRefusal,
) -> Result<Passed, AdmissionError> {
    let asked = Confinement { profile: SandboxProfile::ReadOnly, network: NetworkAccess::Off };
    let granted = confining.and_then(|confining| confining.grant_whole(asked).ok());
    match granted {
        Some(granted) => Ok(Passed {
            rule: None,
            uncertain: Some(doubt.reason()),
            sandbox: Some(granted),
            cwd: None,
        }),
        None => Err(AdmissionError::ByPolicy(doubt)),
    }
}

/// Refuses a file that a line writes if a link leads from it to one that it may not write.
///
/// Links that something else makes between this look and the write are not seen.
fn check_links(reading: &PolicyEvaluation<'_>) -> Result<(), AdmissionError> {
    for path in reading.written_files() {
        check_link(reading, Path::new(&path))?;
    }
    Ok(())
}

/// The same for one file.
pub(super) fn check_link(
    reading: &PolicyEvaluation<'_>,
    path: &Path,
) -> Result<(), AdmissionError> {
    let target = resolve(path);
    let refusal = reading.write_refusal(&target.to_string_lossy());
    refusal.map_or(Ok(()), |refusal| Err(AdmissionError::ByPolicy(refusal)))
}

/// The path with the links in it followed, as far as it exists.
pub(super) fn resolve(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    // A link whose target is missing is written through, too.
    if let Ok(target) = path.read_link() {
        let target = path.parent().unwrap_or(path).join(target);
        return match (target.parent().and_then(|it| it.canonicalize().ok()), target.file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => target,
        };
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve(parent).join(name),
        _ => path.to_owned(),
    }
}

/// How the shell at this path reads its text.
fn read_by(path: &str) -> policy::command::ShellSyntax {
    match judged_dialect(&ShellChoice::Path(path.to_owned())) {
        ShellDialect::Bash => policy::command::ShellSyntax::Bash,
        ShellDialect::Posix => policy::command::ShellSyntax::Posix,
    }
}

/// The places of the allow rules that let a request run, where there is an allow list.
fn allowed_by(reading: &PolicyEvaluation<'_>) -> Option<String> {
    let places: Vec<&str> = reading.allow_rule_locations().into_iter().collect();
    (!places.is_empty()).then(|| places.join(", "))
}

fn uncertain(reading: &PolicyEvaluation<'_>, on_uncertain: OnUncertain) -> Option<String> {
    match on_uncertain {
        OnUncertain::Refuse | OnUncertain::Confine => None,
        OnUncertain::Allow => reading.extraction().uncertain.as_ref().map(ToString::to_string),
    }
}

/// The directory, opened; an error where it is none, or none of those that are allowed. Links are
/// followed by the opening itself, so what is judged is what will be used.
pub(super) fn opened(
    host: &Host,
    rules: &AdmissionRules,
    path: &Path,
) -> Result<OpenedDir, AdmissionError> {
    let opened = host.open_dir(path).map_err(AdmissionError::Unreadable)?;
    match &rules.directories {
        Some(allowed) if !allowed.contains(opened.path()) => {
            Err(AdmissionError::Directory { cwd: opened.path().to_owned(), allowed: roots(rules) })
        }
        Some(_) | None => Ok(opened),
    }
}

/// The allowed directories, as text.
pub(super) fn roots(rules: &AdmissionRules) -> Vec<String> {
    let roots = rules.directories.iter().flat_map(AllowedDirectories::roots);
    roots.map(|root| root.to_string_lossy().into_owned()).collect()
}

// Refusals by a rule.

/// Why a submission was refused by rule. Nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdmissionError {
    /// The policy says no.
    #[error("{0}")]
    ByPolicy(PolicyRefusal),
    /// The policy says that somebody must agree, and there is nobody to ask.
    #[error(
        "`{command}` matches {} and needs somebody's yes, which cannot be asked for here; to let it run, take the rule out of policy.ask",
        RuleReference::join_ask_rules(.rules)
    )]
    NeedsApproval {
        /// The first command that somebody must agree to.
        command: String,
        /// The rules.
        rules: Vec<RuleReference>,
        /// What somebody would have to agree to; `None`: it cannot be asked.
        matter: Option<Box<ApprovalSubject>>,
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
        tenant: TenantId,
        /// What they have.
        profile: SandboxProfile,
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

impl AdmissionError {
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
            Self::ByPolicy(
                PolicyRefusal::Denied { rule, .. } | PolicyRefusal::MayBeDenied { rule, .. },
            ) => rule.location.clone(),
            Self::NeedsApproval { rules, .. } => {
                rules.iter().map(|it| it.location.as_str()).collect::<Vec<_>>().join(", ")
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
