//! The exec gate of jobs: the rules by which the shim of a job judges each program that starts in it.
//!
//! A gate is set up beside an allow list. The rules are made when a job starts, from the policy in
//! force. A name in them stands for the files that it led to when the policy was read: a file that a
//! job puts in their place is another program.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde::Deserialize;

use crate::block_in_place;
use crate::ids::{JobId, TenantId};
use crate::outcome::StartError;
use crate::output::redaction::Redactor;
use crate::policy::command::ShellSyntax;
use crate::policy::gate::{
    Gate, GateRule, GateRules, GateScope, KnownFile, PlainRequest, PlainWordsError, ProgramLookup,
    StartRefusal, StartRefusalReason, StartedFile, find_env_interpreter,
};
use crate::policy::rules::PolicyRule;
use crate::policy::{Policy, RequestedCommand};
use crate::process::{GateSupport, Host, JobUser, find_known_files, resolve_rule_path};
use crate::spec::{DEFAULT_LANE, JobProgram, JobSpec};
use crate::telemetry::audit::{AuditDecision, AuditLog, DecisionEntry};
use crate::telemetry::{GateLabel, events};

/// The search path of jobs that have none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The enforcement of an allow list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforcement {
    /// By the gate where this host can have one, else by the text of the command.
    #[default]
    Auto,
    /// By the gate. Where the host cannot have one, no command runs.
    Require,
    /// By the text of the command.
    Off,
}

/// The settings of the gate, and the policy in force.
#[derive(Debug, Clone)]
pub struct GateSettings {
    pub policy: Policy,
    pub enforcement: Enforcement,
    /// Names of programs that may start anything, if an allow rule names them.
    pub opens: Vec<String>,
    /// The directory that relative paths in rules start from.
    pub directory: PathBuf,
    /// Masks secrets in commands that are logged.
    pub redactor: Arc<Redactor>,
}

/// The level at which an allow list is enforced for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateLevel {
    /// Each start of a program is judged.
    Gate,
    /// The text of the command decides, for this reason.
    Text { why: String },
    /// The settings require a gate, which this host cannot have for this reason.
    Unavailable { why: String },
}

/// The reason why a job beside a gate is refused before anything has run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlyRefusal {
    /// A program of its text is plainly not listed.
    Program(StartRefusal),
    /// A variable of the call can run code in every program.
    Variable(StartRefusalReason),
}

impl GateSettings {
    fn select_rules(&self, tenant: &str, lane: &str, directory: &Path) -> Option<GateRules> {
        let scope = GateScope { tenant, lane, directory, opens: &self.opens };
        self.policy.gate_rules(&scope, &follow_links).filter(|rules| rules.allow.is_some())
    }

    /// Returns the first program of a text that is plainly not listed for the tenant `local` in the default
    /// lane, with programs looked up along this path now.
    #[must_use]
    pub fn find_plainly_unlisted(&self, text: &str, path: Option<&OsStr>) -> Option<StartRefusal> {
        let tenant = TenantId::LOCAL.name();
        let mut rules = self.select_rules(tenant, DEFAULT_LANE, &self.directory)?;
        rules.files = find_files(&rules.lookup(), path.unwrap_or(OsStr::new(DEFAULT_PATH)));
        // Rules that do not compile were refused when the settings were read.
        let gate = Gate::new(rules).ok()?;
        find_plainly_unlisted(&gate, text, self.policy.shell, path)
    }
}

/// The names that were looked up, and the search path.
type LookupKey = (ProgramLookup, OsString);

/// Gives each job its gate.
#[derive(Debug)]
pub struct ExecGate {
    host: Arc<Host>,
    audit: Option<AuditLog>,
    settings: RwLock<Arc<GateSettings>>,
    /// The files that names stand for, looked up along a search path.
    known: Mutex<HashMap<LookupKey, Arc<Vec<KnownFile>>>>,
    /// The probes, one for each user that jobs run as.
    support: Mutex<HashMap<Option<u32>, GateSupport>>,
}

impl ExecGate {
    #[must_use]
    pub fn new(host: Arc<Host>, settings: GateSettings, audit: Option<AuditLog>) -> Self {
        let settings = RwLock::new(Arc::new(settings));
        Self { host, audit, settings, known: Mutex::default(), support: Mutex::default() }
    }

    /// Creates one that lets every program start.
    #[cfg(test)]
    pub(crate) fn open_to_all(host: Arc<Host>) -> Self {
        let redactor = Redactor::new(&[]).expect("there is no expression");
        let settings = GateSettings {
            policy: Policy::default(),
            enforcement: Enforcement::Auto,
            opens: Vec::new(),
            directory: PathBuf::from("/"),
            redactor: Arc::new(redactor),
        };
        Self::new(host, settings, None)
    }

    /// Puts other settings in force, for jobs that start from now on, and looks all programs up again. Blocks.
    pub fn replace_settings(&self, settings: GateSettings, path: Option<&OsStr>) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        lock(&self.known).clear();
        self.begin(path);
    }

    /// Looks all programs up, and reports the level. Blocks.
    pub fn begin(&self, path: Option<&OsStr>) {
        self.look_up_programs(path);
        self.report_level();
    }

    /// Reports the level for jobs of the server's user. Probes the host if an allow list is set.
    fn report_level(&self) {
        if self.settings().policy.allow.is_none() {
            return events::exec_gate_set(GateLabel::Unused, None);
        }
        match self.level(None) {
            GateLevel::Gate => events::exec_gate_set(GateLabel::Gate, None),
            GateLevel::Text { why } => events::exec_gate_set(GateLabel::Text, Some(&why)),
            GateLevel::Unavailable { why } => {
                events::exec_gate_set(GateLabel::Unavailable, Some(&why));
            }
        }
    }

    /// Returns the level for jobs of this user. Probes the host the first time.
    #[must_use]
    pub fn level(&self, user: Option<&JobUser>) -> GateLevel {
        let enforcement = self.settings().enforcement;
        if enforcement == Enforcement::Off {
            return GateLevel::Text { why: "policy.enforce is off".to_owned() };
        }
        match (self.check_support(user), enforcement) {
            (Ok(()), _) => GateLevel::Gate,
            (Err(why), Enforcement::Require) => GateLevel::Unavailable { why },
            (Err(why), Enforcement::Auto | Enforcement::Off) => GateLevel::Text { why },
        }
    }

    fn check_support(&self, user: Option<&JobUser>) -> Result<(), String> {
        let mut probes = lock(&self.support);
        let known = probes.get(&user.map(|user| user.uid)).cloned();
        let support = known.clone().unwrap_or_else(|| {
            let new = GateSupport::new(self.host.keeper().clone(), user.cloned());
            probes.insert(user.map(|user| user.uid), new.clone());
            new
        });
        drop(probes);
        // The first check starts processes.
        let check = || support.check().map_err(str::to_owned);
        if known.is_some() { check() } else { block_in_place(check) }
    }

    /// Returns the rules for a job that starts now, with this search path; `None` if it needs no gate. The
    /// rules and the level may be others than when the job was admitted. Blocks while files are looked up.
    ///
    /// # Errors
    /// The job may not run: there is a list and no gate, and its text is not enough.
    pub fn rules_for(
        &self,
        spec: &JobSpec,
        path: Option<&OsStr>,
    ) -> Result<Option<GateRules>, StartError> {
        let settings = self.settings();
        // Without a list the host is not probed.
        if settings.policy.allow.is_none() {
            return Ok(None);
        }
        match self.level(user_of(spec)) {
            GateLevel::Gate => Ok(self.select_approved_rules(spec, path)),
            GateLevel::Unavailable { why } => Err(StartError::Refused { why }),
            GateLevel::Text { why } => {
                let request = PlainRequest {
                    command: match &spec.program {
                        JobProgram::Shell(text) => RequestedCommand::Shell(text),
                        JobProgram::Direct { program, args } => {
                            RequestedCommand::Direct { program, args }
                        }
                    },
                    shell: settings.policy.shell,
                    cwd: &spec.cwd,
                    variables: &variables_of(spec),
                };
                let checked = self.check_plain_words(spec, &request, path);
                checked
                    .map(|()| None)
                    .map_err(|error| StartError::Refused { why: format!("{error} ({why})") })
            }
        }
    }

    /// Returns the rules that apply to a job; those that ask allow what somebody has approved.
    fn select_approved_rules(&self, spec: &JobSpec, path: Option<&OsStr>) -> Option<GateRules> {
        let mut rules = self.select_rules(spec, path)?;
        let approved = |rule: &GateRule| {
            spec.approved.iter().any(|approved| {
                // A regular expression has a mark in the rules of a gate.
                approved.location == rule.location && rule.text.ends_with(&approved.text)
            })
        };
        rules.allow.as_mut()?.extend(rules.ask.drain(..).filter(approved));
        Some(rules)
    }

    /// Looks up all programs that the rules name, for every tenant and lane that they name, so that a job
    /// of one cannot put others in their place before the first job of another.
    fn look_up_programs(&self, path: Option<&OsStr>) {
        let settings = self.settings();
        let policy = &settings.policy;
        let scopes = || {
            let rules = policy.allow.iter().flatten().chain(&policy.deny).chain(&policy.ask);
            rules.map(PolicyRule::scope)
        };
        let tenants = scopes().flat_map(|scope| &scope.tenants).map(String::as_str);
        let tenants: BTreeSet<&str> = tenants.chain([TenantId::LOCAL.name()]).collect();
        let lanes = scopes().flat_map(|scope| &scope.lanes).map(String::as_str);
        let lanes: BTreeSet<&str> = lanes.chain([DEFAULT_LANE]).collect();
        for (tenant, lane) in tenants.iter().flat_map(|it| lanes.iter().map(move |lane| (it, lane)))
        {
            if let Some(rules) = settings.select_rules(tenant, lane, &settings.directory) {
                self.known_files(rules.lookup(), path);
            }
        }
    }

    /// Returns the rules that apply to a job, with those that ask.
    fn select_rules(&self, spec: &JobSpec, path: Option<&OsStr>) -> Option<GateRules> {
        let settings = self.settings();
        let area = spec.area.as_deref();
        let directory = area.map_or(&settings.directory, |area| &area.workspace);
        let mut rules = settings.select_rules(spec.tenant.name(), &spec.lane, directory)?;
        rules.files = self.known_files(rules.lookup(), path).to_vec();
        rules.given = spec.env.iter().map(|(name, _)| name.clone()).collect();
        Some(rules)
    }

    /// Returns the reason for refusing a job before anything has run: a program that is plainly not listed,
    /// or a variable of the call that can run code in every program.
    #[must_use]
    pub fn find_early_refusal(
        &self,
        spec: &JobSpec,
        shell: ShellSyntax,
        path: Option<&OsStr>,
    ) -> Option<EarlyRefusal> {
        let rules = self.select_rules(spec, path)?;
        let variables = variables_of(spec);
        // Rules that do not compile were refused when the settings were read.
        let gate = Gate::new(rules).ok()?;
        if let Some(name) = gate.find_unsafe_variable(&variables) {
            return Some(EarlyRefusal::Variable(StartRefusalReason::Variable { name }));
        }
        find_plainly_unlisted(&gate, &spec.program.shell_text(), shell, path)
            .map(EarlyRefusal::Program)
    }

    /// Judges a job by its text, on a host without a gate.
    ///
    /// # Errors
    /// The text is not made of plain words, or starts a program that is not listed.
    pub fn check_plain_words(
        &self,
        spec: &JobSpec,
        request: &PlainRequest<'_>,
        path: Option<&OsStr>,
    ) -> Result<(), PlainWordsError> {
        let rules = self.select_rules(spec, path).map(Gate::new);
        // Rules that do not compile were refused when the settings were read.
        rules.and_then(Result::ok).map_or(Ok(()), |gate| gate.check_plain_words(request))
    }

    /// Logs a program that the gate of a job refused, and records it in the audit log.
    pub fn report_refusal(&self, job: JobId, spec: &JobSpec, refusal: &StartRefusal) {
        let settings = self.settings();
        events::start_refused(job, &settings.redactor.mask_text(&refusal.to_string()));
        if let Some(audit) = &self.audit {
            audit.record_refused_start(&DecisionEntry {
                tenant: spec.tenant.name(),
                client: &spec.client.name,
                job: Some(job),
                command: &settings.redactor.mask_text(&refusal.command),
                cwd: &settings.redactor.mask_text(&spec.cwd.to_string_lossy()),
                confinement: spec.confinement,
                verdict: AuditDecision::Refused,
                rule: Some(find_rule(refusal)),
                uncertain: None,
                trace_id: spec.trace.context.trace_id,
            });
        }
    }

    fn known_files(&self, lookup: ProgramLookup, path: Option<&OsStr>) -> Arc<Vec<KnownFile>> {
        let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
        let mut known = lock(&self.known);
        let key = (lookup, path.to_owned());
        if let Some(files) = known.get(&key) {
            return Arc::clone(files);
        }
        let files = Arc::new(block_in_place(|| find_files(&key.0, &key.1)));
        known.insert(key, Arc::clone(&files));
        files
    }

    fn settings(&self) -> Arc<GateSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the variables of the call.
pub fn variables_of(spec: &JobSpec) -> Vec<(Vec<u8>, Vec<u8>)> {
    let bytes =
        |(name, value): &(String, String)| (name.clone().into_bytes(), value.clone().into_bytes());
    spec.env.iter().map(bytes).collect()
}

fn user_of(spec: &JobSpec) -> Option<&JobUser> {
    spec.area.as_ref()?.user.as_ref()
}

fn find_plainly_unlisted(
    gate: &Gate,
    text: &str,
    shell: ShellSyntax,
    path: Option<&OsStr>,
) -> Option<StartRefusal> {
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let find_file = |name: &str| {
        let KnownFile { path, device, inode, changed, .. } =
            find_known_files([name], path).into_iter().next()?;
        Some(StartedFile { path, device, inode, changed })
    };
    gate.find_plainly_unlisted(text, shell, &find_file)
}

/// Looks up the files that names stand for, and the interpreters of those that are scripts.
fn find_files(lookup: &ProgramLookup, path: &OsStr) -> Vec<KnownFile> {
    let all = lookup.all.then(|| "*".to_owned());
    let helpers = lookup.directories.iter().map(|directory| format!("{}/*", directory.name));
    let patterns: Vec<String> = all.into_iter().chain(helpers).collect();
    let names = || lookup.names.iter().chain(&lookup.patterns).chain(&patterns).map(String::as_str);
    let found = find_known_files(names(), path);
    let interpreters: BTreeSet<String> =
        found.iter().filter_map(|file| find_env_interpreter(&read_head(&file.path)?)).collect();
    if interpreters.is_empty() {
        return found;
    }
    find_known_files(names().chain(interpreters.iter().map(String::as_str)), path)
}

/// Reads the beginning of a file, which has the line that names its interpreter.
fn read_head(path: &Path) -> Option<Vec<u8>> {
    const HEAD: u64 = 256;
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    Some(head)
}

/// Follows the links in the path of a rule, as far as it exists.
fn follow_links(path: &Path) -> PathBuf {
    let resolved = path.to_str().and_then(|text| resolve_rule_path(text, Path::new("/")));
    resolved.unwrap_or_else(|| path.to_owned())
}

/// Returns the place of the rule that decided, or else the word for the reason.
fn find_rule(refusal: &StartRefusal) -> &str {
    match &refusal.why {
        StartRefusalReason::Denied(rule) => &rule.location,
        why @ (StartRefusalReason::NotListed
        | StartRefusalReason::Changed
        | StartRefusalReason::OtherFile { .. }
        | StartRefusalReason::Variable { .. }
        | StartRefusalReason::Mismatch
        | StartRefusalReason::Unreadable { .. }) => why.code(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
