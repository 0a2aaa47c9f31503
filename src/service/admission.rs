//! Admission: the policy check, the directory check and the audit entry before a submission becomes a job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::admission_error::AdmissionError;
use super::approval::{Approval, ApprovalSubject, Approvals};
use super::confinement::{ConfinementRules, find_redirected_dir};
use super::submission::CallerContext;
use crate::confinement::{Confinement, GrantedConfinement, NetworkAccess, SandboxProfile};
use crate::exec_gate::{EarlyRefusal, ExecGate, GateLevel, GateSettings, variables_of};
use crate::ids::{JobId, TenantId};
use crate::job::{JobVariables, SharedJobSettings};
use crate::outcome::Outcome;
use crate::output::redaction::Redactor;
use crate::policy::gate::{PlainRequest, PlainWordsError, StartRefusalReason};
use crate::policy::rules::{AllowedDirectories, PLAIN_LOCALES, RuleReference};
use crate::policy::{
    self, OnUncertain, Policy, PolicyDecision, PolicyEvaluation, PolicyRefusal, PolicyRequest,
    RequestedCommand,
};
use crate::process::shell::{ShellChoice, ShellDialect, judged_dialect};
use crate::process::{Host, OpenedDir};
use crate::spec::{ApprovedRule, JobProgram, JobSpec, ShellUse, TenantArea};
use crate::supervisor::OnJobEnd;
use crate::telemetry::audit::{AuditDecision, AuditLog, DecisionEntry, EndingEntry, NoteEntry};

/// The variable that sets the locale in which a shell reads its text.
const LOCALE_NAME: &str = "LC_ALL";

/// The rules for admission, which a reload can replace.
#[derive(Debug, Clone)]
pub struct AdmissionRules {
    pub policy: Policy,
    /// The directories in which jobs may run; `None` = anywhere.
    pub directories: Option<AllowedDirectories>,
    /// The settings that list these directories, for error messages.
    pub directory_settings: &'static str,
    /// The users and directories of single tenants.
    pub areas: BTreeMap<TenantId, Arc<TenantArea>>,
    /// Masks secrets in text that leaves the service.
    pub redactor: Arc<Redactor>,
}

impl AdmissionRules {
    /// Returns the user and the directories of this tenant, if the settings name any.
    pub(super) fn area(&self, tenant: TenantId) -> Option<&Arc<TenantArea>> {
        self.areas.get(&tenant)
    }

    fn are_empty(&self) -> bool {
        let Policy { allow, deny, ask, .. } = &self.policy;
        allow.is_none() && deny.is_empty() && ask.is_empty() && self.directories.is_none()
    }
}

/// The audit log, and the reaction to a failed write.
#[derive(Debug, Clone)]
pub struct AuditTrail {
    pub log: AuditLog,
    pub on_failure: OnAuditFailure,
}

/// The reaction to a failed write to the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnAuditFailure {
    /// The failure is counted, and jobs still run.
    Count,
    /// No new job runs until writing works again.
    Refuse,
}

/// Decides whether submissions and file calls are admitted, and records each decision.
#[derive(Debug)]
pub(super) struct AdmissionControl {
    pub(super) host: Arc<Host>,
    pub(super) gate: Arc<ExecGate>,
    environment: Arc<JobVariables>,
    rules: RwLock<Arc<AdmissionRules>>,
    audit: Option<AuditTrail>,
    /// Open questions and lasting approvals.
    pub(super) approvals: Approvals,
}

impl AdmissionControl {
    pub(super) fn new(
        rules: AdmissionRules,
        audit: Option<AuditTrail>,
        approvals: Approvals,
        job: &SharedJobSettings,
    ) -> Self {
        let rules = RwLock::new(Arc::new(rules));
        let (host, gate) = (Arc::clone(&job.host), Arc::clone(&job.gate));
        let environment = Arc::clone(&job.environment);
        Self { host, gate, environment, rules, audit, approvals }
    }

    pub(super) fn rules(&self) -> Arc<AdmissionRules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// `true` if only listed commands may run.
    pub(super) fn has_allow_list(&self) -> bool {
        self.rules().policy.allow.is_some()
    }

    pub(super) fn replace_rules(&self, rules: AdmissionRules, gate: GateSettings) {
        self.gate.replace_settings(gate, self.environment.search_path());
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Admits a job or refuses it; either way the decision is written to the audit log first. Returns
    /// the directory that was checked, opened: the job must start in that one, even if its path leads
    /// elsewhere by then.
    ///
    /// The job must run below `root`, if the tool is bound to a directory. `confinement_rules` are the
    /// sandboxes of this host, for text that the policy cannot judge. `approval` is that of this
    /// submission, if there is one.
    pub(super) async fn admit(
        &self,
        spec: &mut JobSpec,
        caller: &CallerContext,
        root: Option<&Path>,
        confinement_rules: &ConfinementRules,
        approval: Option<&Approval>,
        next_id: impl FnOnce() -> JobId,
    ) -> Result<(JobId, Option<OpenedDir>), AdmissionError> {
        let rules = self.rules();
        // The area that the directory is judged by is the one that the job gets.
        spec.area = rules.area(caller.tenant).cloned();
        let find_approval =
            |subject: &ApprovalSubject| self.find_approval(subject, caller, approval);
        let decided = self.decide_job(&rules, spec, caller, root, confinement_rules, find_approval);
        // Only an admitted job gets a number.
        let decided = decided.map(|grant| (next_id(), grant));
        if let Ok((_, grant)) = &decided {
            spec.approved.clone_from(&grant.approved);
        }
        if let Ok((_, AdmissionGrant { sandbox: Some(granted), uncertain, .. })) = &decided {
            spec.confinement = *granted;
            spec.doubt = uncertain.as_deref().map(Arc::from);
        }
        let command = spec.program.display();
        let cwd = spec.cwd.to_string_lossy();
        let audited = AuditedRequest {
            caller,
            job: decided.as_ref().ok().map(|(job, _)| *job),
            command: &rules.redactor.mask_text(&command),
            cwd: &rules.redactor.mask_text(&cwd),
            confinement: spec.confinement,
        };
        let written = self.write_decision(&audited, decided.as_ref().map(|(_, grant)| grant)).await;
        let (job, grant) = decided?;
        written?;
        if grant.cwd.is_some() {
            spec.shell = ShellUse::AsJudged;
            if let JobProgram::Shell(_) = spec.program {
                fix_locale(&mut spec.env);
            }
        }
        Ok((job, grant.cwd))
    }

    /// Decides on a job, and opens its directory.
    fn decide_job(
        &self,
        rules: &AdmissionRules,
        spec: &JobSpec,
        caller: &CallerContext,
        root: Option<&Path>,
        confinement_rules: &ConfinementRules,
        find_approval: impl FnOnce(&ApprovalSubject) -> Option<String>,
    ) -> Result<AdmissionGrant, AdmissionError> {
        if rules.are_empty() && root.is_none() && spec.area.is_none() {
            return Ok(AdmissionGrant::default());
        }
        let cwd = open_allowed_dir(&self.host, rules, caller.tenant, &spec.cwd)?;
        if let Some(area) = rules.area(caller.tenant)
            && let Some((path, found)) =
                find_redirected_dir(&self.host, area, spec.confinement.effective.profile)
        {
            return Err(AdmissionError::Redirected { tenant: caller.tenant, path, found });
        }
        if let Some(root) = root {
            let root = self.host.open_dir(root).map_err(AdmissionError::Unreadable)?;
            if !cwd.path().starts_with(root.path()) {
                let cwd = cwd.path().to_owned();
                let root = root.path().to_owned();
                return Err(AdmissionError::OutsideRoot { cwd, root });
            }
        }
        let policy_request = PolicyRequest {
            command: match &spec.program {
                JobProgram::Shell(text) => RequestedCommand::Shell(text),
                JobProgram::Direct { program, args } => RequestedCommand::Direct { program, args },
            },
            environment: &spec.env,
            tenant: caller.tenant.name(),
            lane: &spec.lane,
            shell: spec.shell_path.as_deref().map(detect_shell_syntax),
        };
        let reading = PolicyEvaluation::new(&rules.policy, &policy_request);
        let decided = decide(&reading, rules.policy.uncertain, Some(confinement_rules));
        // A certain refusal comes first.
        if !matches!(decided, Err(AdmissionError::ByPolicy(_))) {
            self.check_allow_list(rules, spec, cwd.path(), &policy_request)?;
        }
        let grant = match decided {
            Err(AdmissionError::NeedsApproval { command, rules: ask_rules, .. }) => {
                let subject = ApprovalSubject::new(spec, cwd.path(), &ask_rules);
                let Some(how) = find_approval(&subject) else {
                    let subject = Some(Box::new(subject));
                    return Err(AdmissionError::NeedsApproval {
                        command,
                        rules: ask_rules,
                        subject,
                    });
                };
                let uncertain = describe_uncertainty(&reading, rules.policy.uncertain);
                AdmissionGrant {
                    rule: Some(how),
                    uncertain,
                    approved: ask_rules
                        .into_iter()
                        .map(|RuleReference { text, location }| ApprovedRule { text, location })
                        .collect(),
                    ..AdmissionGrant::default()
                }
            }
            decided => decided?,
        };
        Ok(AdmissionGrant { cwd: Some(cwd), ..grant })
    }

    /// Refuses a job beside an allow list: with a gate if it would plainly run a program that is not listed,
    /// without one unless its text proves that all are. Nothing of it has run then.
    fn check_allow_list(
        &self,
        rules: &AdmissionRules,
        spec: &JobSpec,
        cwd: &Path,
        request: &PolicyRequest<'_>,
    ) -> Result<(), AdmissionError> {
        if rules.policy.allow.is_none() {
            return Ok(());
        }
        let shell = request.shell.unwrap_or(rules.policy.shell);
        let path = self.environment.search_path();
        let user = spec.area.as_ref().and_then(|area| area.user.as_ref());
        match self.gate.level(user) {
            GateLevel::Gate => match self.gate.find_early_refusal(spec, shell, path) {
                None => Ok(()),
                Some(EarlyRefusal::Program(refusal)) => {
                    Err(AdmissionError::ByPolicy(PolicyRefusal::not_allowed(&refusal)))
                }
                Some(EarlyRefusal::Variable(why)) => Err(AdmissionError::ByVariable(Box::new(why))),
            },
            GateLevel::Text { why } => {
                let variables = variables_of(spec);
                let plain =
                    PlainRequest { command: request.command, shell, cwd, variables: &variables };
                self.gate.check_plain_words(spec, &plain, path).map_err(|error| match error {
                    PlainWordsError::Start(refusal)
                        if refusal.why == StartRefusalReason::NotListed =>
                    {
                        AdmissionError::ByPolicy(PolicyRefusal::not_allowed(&refusal))
                    }
                    error @ (PlainWordsError::Start(_) | PlainWordsError::Construct { .. }) => {
                        AdmissionError::NotPlain { error: Box::new(error), why }
                    }
                })
            }
            GateLevel::Unavailable { why } => Err(AdmissionError::NoGate { why }),
        }
    }

    /// Describes the approval of this subject for the audit log, if there is one.
    fn find_approval(
        &self,
        subject: &ApprovalSubject,
        caller: &CallerContext,
        approval: Option<&Approval>,
    ) -> Option<String> {
        match approval.filter(|approval| approval.subject == *subject) {
            Some(Approval { consent, .. }) => {
                let how = consent.describe_for_audit();
                Some(format!("{}: {how}, asked through {}", subject.rule, caller.client))
            }
            None => {
                let is_approved = self.approvals.is_approved(caller.tenant, subject);
                is_approved.then(|| format!("{}: approved for the tenant earlier", subject.rule))
            }
        }
    }

    /// Writes a decision to the audit log. Fails only if jobs must not run without an entry.
    pub(super) async fn write_decision(
        &self,
        audited: &AuditedRequest<'_>,
        decided: Result<&AdmissionGrant, &AdmissionError>,
    ) -> Result<(), AdmissionError> {
        let Some(trail) = &self.audit else { return Ok(()) };
        let rule = match decided {
            Ok(grant) => grant.rule.clone(),
            Err(refused) => Some(refused.rule()),
        };
        let uncertain = decided.ok().and_then(|grant| grant.uncertain.as_deref());
        let entry = DecisionEntry {
            tenant: audited.caller.tenant.name(),
            client: &audited.caller.client,
            job: audited.job,
            command: audited.command,
            cwd: audited.cwd,
            confinement: audited.confinement,
            verdict: match decided {
                Ok(_) => AuditDecision::Allowed,
                Err(AdmissionError::NeedsApproval { .. }) => AuditDecision::Asked,
                Err(_) => AuditDecision::Refused,
            },
            rule: rule.as_deref(),
            uncertain,
            trace_id: audited.caller.trace.context.trace_id,
        };
        match (trail.log.record_decision(&entry).await, trail.on_failure) {
            (Ok(()), _) | (Err(_), OnAuditFailure::Count) => Ok(()),
            (Err(error), OnAuditFailure::Refuse) => {
                Err(AdmissionError::NoAudit { why: error.to_string() })
            }
        }
    }

    /// Returns the callback that writes the ending of a job to the audit log.
    pub(super) fn audit_at_end(&self) -> Option<OnJobEnd> {
        let AuditTrail { log, .. } = self.audit.clone()?;
        let redactor = Arc::clone(&self.rules().redactor);
        Some(OnJobEnd::new(move |job, ending| {
            log.record_ending(&EndingEntry {
                tenant: job.id().tenant().name(),
                client: &job.spec().client.name,
                job: job.id(),
                outcome: &mask_outcome(ending.outcome.clone(), &redactor),
                elapsed: job.status().elapsed(),
                trace_id: job.spec().trace.context.trace_id,
            });
        }))
    }

    /// Waits until all audit entries are written. Blocks for at most two seconds.
    pub(super) fn finish_audit(&self) {
        if let Some(trail) = &self.audit {
            trail.log.finish();
        }
    }

    /// Writes an audit entry that is not about one job.
    pub(super) fn write_note(&self, what: &str, detail: &str) {
        if let Some(trail) = &self.audit {
            trail.log.record_note(&NoteEntry { what, detail });
        }
    }
}

/// Sets the locale in which the policy has read the text: in other locales a byte of a multi-byte
/// character can be a quote. A plain locale that the caller chose has the same effect, and stays.
fn fix_locale(env: &mut Vec<(String, String)>) {
    let is_plain = |(name, value): &(String, String)| {
        name == LOCALE_NAME && PLAIN_LOCALES.contains(&value.as_str())
    };
    if !env.iter().any(is_plain) {
        env.retain(|(name, _)| name != LOCALE_NAME);
        env.push((LOCALE_NAME.to_owned(), "C.UTF-8".to_owned()));
    }
}

/// The subject of an audit entry about a decision, with secrets masked.
pub(super) struct AuditedRequest<'a> {
    pub(super) caller: &'a CallerContext,
    pub(super) job: Option<JobId>,
    pub(super) command: &'a str,
    pub(super) cwd: &'a str,
    pub(super) confinement: GrantedConfinement,
}

/// Masks secrets in the error of a job that failed to start: its texts may contain some.
fn mask_outcome(outcome: Outcome, redactor: &Redactor) -> Outcome {
    match outcome {
        Outcome::FailedToStart(why) => {
            Outcome::FailedToStart(why.with_texts(|text| redactor.mask_text(&text).into_owned()))
        }
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::NotRun { .. }
        | Outcome::Limit { .. }
        | Outcome::Lost { .. } => outcome,
    }
}

/// The result of a successful admission.
#[derive(Default)]
pub(super) struct AdmissionGrant {
    /// The rules of the allow list that matched, or the approval, for the audit log.
    rule: Option<String>,
    /// The part that the policy could not judge, and that `policy.uncertain` lets run.
    uncertain: Option<String>,
    /// The sandbox for text that the policy cannot judge.
    sandbox: Option<GrantedConfinement>,
    /// The rules that somebody has approved.
    approved: Vec<ApprovedRule>,
    /// The directory that was checked; `None` if there are no rules.
    cwd: Option<OpenedDir>,
}

/// Asks the policy. The directory is not checked here. `confinement_rules` is `None` if no process is run.
pub(super) fn decide(
    reading: &PolicyEvaluation<'_>,
    on_uncertain: OnUncertain,
    confinement_rules: Option<&ConfinementRules>,
) -> Result<AdmissionGrant, AdmissionError> {
    match reading.decision() {
        PolicyDecision::Allow => Ok(AdmissionGrant {
            rule: list_matched_allow_rules(reading),
            uncertain: describe_uncertainty(reading, on_uncertain),
            ..AdmissionGrant::default()
        }),
        PolicyDecision::Confine { doubt } => admit_sandboxed(confinement_rules, doubt),
        PolicyDecision::Ask { command, rules } => {
            Err(AdmissionError::NeedsApproval { command, rules, subject: None })
        }
        PolicyDecision::Deny(refusal) => Err(AdmissionError::ByPolicy(refusal)),
    }
}

/// Admits text that the policy cannot judge in a read-only sandbox without network. Refuses it if the
/// host cannot provide that in full, or if no process is run.
fn admit_sandboxed(
    confinement_rules: Option<&ConfinementRules>,
    doubt: PolicyRefusal,
) -> Result<AdmissionGrant, AdmissionError> {
    let wanted = Confinement { profile: SandboxProfile::ReadOnly, network: NetworkAccess::Off };
    let granted = confinement_rules
        .and_then(|confinement_rules| confinement_rules.grant_in_full(wanted).ok());
    match granted {
        Some(granted) => Ok(AdmissionGrant {
            uncertain: Some(doubt.reason()),
            sandbox: Some(granted),
            ..AdmissionGrant::default()
        }),
        None => Err(AdmissionError::ByPolicy(doubt)),
    }
}

/// Returns the syntax in which the shell at this path reads its text.
fn detect_shell_syntax(path: &str) -> policy::command::ShellSyntax {
    match judged_dialect(&ShellChoice::Path(path.to_owned())) {
        ShellDialect::Bash => policy::command::ShellSyntax::Bash,
        ShellDialect::Posix => policy::command::ShellSyntax::Posix,
    }
}

/// Lists the allow rules that matched, by their place in the settings; `None` without an allow list.
fn list_matched_allow_rules(reading: &PolicyEvaluation<'_>) -> Option<String> {
    let places: Vec<&str> = reading.allow_rule_locations().into_iter().collect();
    (!places.is_empty()).then(|| places.join(", "))
}

fn describe_uncertainty(
    reading: &PolicyEvaluation<'_>,
    on_uncertain: OnUncertain,
) -> Option<String> {
    match on_uncertain {
        OnUncertain::Refuse | OnUncertain::Confine => None,
        OnUncertain::Allow => reading.extraction().uncertain.as_ref().map(ToString::to_string),
    }
}

/// Opens a directory, and fails if it is not an allowed one. Opening follows links, so the directory
/// that is checked is the one that is used.
pub(super) fn open_allowed_dir(
    host: &Host,
    rules: &AdmissionRules,
    tenant: TenantId,
    path: &Path,
) -> Result<OpenedDir, AdmissionError> {
    let opened = host.open_dir(path).map_err(AdmissionError::Unreadable)?;
    let refused = |allowed: &[PathBuf], settings: String| AdmissionError::Directory {
        cwd: opened.path().to_owned(),
        allowed: to_texts(allowed),
        settings,
    };
    match (rules.area(tenant), &rules.directories) {
        (Some(area), _) if !area.contains(opened.path()) => {
            let section = format!("tenants.{tenant}");
            let settings = format!("{section}.workspace and {section}.allowed_directories");
            Err(refused(&area.directories, settings))
        }
        (_, Some(allowed)) if !allowed.contains(opened.path()) => {
            Err(refused(allowed.roots(), rules.directory_settings.to_owned()))
        }
        _ => Ok(opened),
    }
}

fn to_texts(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}
