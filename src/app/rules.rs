//! Converts the settings into admission rules, environment rules, the audit log and authentication.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::AppError;
use crate::config::{self, Environment, Loaded, Settings};
use crate::environment::{EnvironmentRules, JobEnvironment, NamePattern, select_variables};
use crate::http::auth::{
    AuthSettings, Authenticator, OauthConfig, OauthKeySource, OauthScopes, TokenFilePath,
};
use crate::ids::TenantId;
use crate::output::redaction::Redactor;
use crate::policy::command::ShellSyntax;
use crate::policy::directories::AllowedDirectories;
use crate::policy::rules::{self, CoreTools, PolicyRule, RuleError};
use crate::policy::{OnUncertain, Policy};
use crate::process::shell::{ShellChoice, ShellDialect, judged_dialect};
use crate::service::{AdmissionRules, AuditTrail, DEFAULT_LANE, JobVariables, OnAuditFailure};
use crate::telemetry::audit::{AuditLog, AuditLogSettings};
use crate::telemetry::events;

const POLICY_DIRECTORIES: &str = "policy.allowed_directories";
const SHELL_TOOL_DIRECTORIES: &str = "shell_tool.allowed_directories";

/// Builds the admission rules. An error names the setting with the mistake.
pub(super) fn admission_rules(
    loaded: &Loaded,
    shell: &ShellChoice,
) -> Result<AdmissionRules, AppError> {
    let settings = &loaded.settings;
    Ok(AdmissionRules {
        policy: build_policy_with_tool_rules(settings, shell).map_err(|error| AppError::Rule {
            origin: describe_origin(loaded, error.location()),
            source: error,
        })?,
        directories: resolve_allowed_directories(loaded)?,
        directory_settings: name_directory_settings(settings),
        redactor: Arc::new(build_redactor(loaded)?),
    })
}

/// Checks every rule in the settings that can keep a server from starting, whatever its host is.
pub(super) fn check_rules(loaded: &Loaded) -> Result<(), AppError> {
    admission_rules(loaded, &loaded.settings.job.shell)?;
    parse_environment_rules(loaded)?;
    build_oauth_config(&loaded.settings)?;
    Ok(())
}

fn build_policy_with_tool_rules(
    settings: &Settings,
    shell: &ShellChoice,
) -> Result<Policy, RuleError> {
    let mut policy = build_policy(&settings.policy, shell)?;
    policy.deny.extend(parse_blocked_commands(
        "shell_tool.blocked_commands",
        &settings.shell_tool.blocked_commands,
    )?);
    check_lanes(&policy, &settings.queue)?;
    Ok(policy)
}

fn build_policy(
    settings: &config::PolicySection,
    shell: &ShellChoice,
) -> Result<Policy, RuleError> {
    let mut allow = parse_rules("policy.allow", &settings.allow)?;
    let mut allows_all = settings.allow.is_empty();
    if !settings.core_tools.is_empty() {
        match rules::parse_core_tools(settings.core_tools.iter().map(String::as_str))? {
            CoreTools::Everything => allows_all = true,
            CoreTools::Only(prefixes) => {
                allows_all = false;
                allow.extend(prefixes);
            }
        }
    }
    let mut deny = parse_rules("policy.deny", &settings.deny)?;
    deny.extend(rules::parse_exclude_tools(settings.exclude_tools.iter().map(String::as_str))?);
    deny.extend(parse_blocked_commands("policy.blocked_commands", &settings.blocked_commands)?);
    Ok(Policy {
        allow: (!allows_all).then_some(allow),
        deny,
        ask: parse_rules("policy.ask", &settings.ask)?,
        uncertain: match settings.uncertain {
            config::UncertainPolicy::Refuse => OnUncertain::Refuse,
            config::UncertainPolicy::Confine => OnUncertain::Confine,
            config::UncertainPolicy::Allow => OnUncertain::Allow,
        },
        shell: match judged_dialect(shell) {
            ShellDialect::Bash => ShellSyntax::Bash,
            ShellDialect::Posix => ShellSyntax::Posix,
        },
        ..Policy::default()
    })
}

fn parse_rules(key: &str, texts: &[String]) -> Result<Vec<PolicyRule>, RuleError> {
    let rule = |(index, text): (usize, &String)| PolicyRule::parse(text, format!("{key}[{index}]"));
    texts.iter().enumerate().map(rule).collect()
}

fn parse_blocked_commands(key: &str, texts: &[String]) -> Result<Vec<PolicyRule>, RuleError> {
    rules::parse_patterns(key, texts.iter().map(String::as_str))
}

/// Refuses a rule for an unknown lane: it would never match.
fn check_lanes(policy: &Policy, queue: &config::QueueSection) -> Result<(), RuleError> {
    let known = || std::iter::once(DEFAULT_LANE).chain(queue.lanes.keys().map(String::as_str));
    let rules = policy.allow.iter().flatten().chain(&policy.deny).chain(&policy.ask);
    for (rule, lane) in rules.flat_map(|rule| rule.scope().lanes.iter().map(move |it| (rule, it))) {
        if !known().any(|known| known == lane) {
            let location = rule.location().to_owned();
            let lane = lane.clone();
            let known = known().map(str::to_owned).collect();
            return Err(RuleError::UnknownLane { location, lane, known });
        }
    }
    Ok(())
}

/// Describes the origin of the setting at a location such as `policy.deny[2]`.
pub(super) fn describe_origin(loaded: &Loaded, location: &str) -> String {
    let key = location.split('[').next().unwrap_or(location);
    loaded.origin(key).map_or_else(|| "settings".to_owned(), ToString::to_string)
}

/// Names the settings that list allowed directories.
const fn name_directory_settings(settings: &Settings) -> &'static str {
    let is_listed_by_policy = !settings.policy.allowed_directories.is_empty();
    match (is_listed_by_policy, settings.shell_tool.allowed_directories.is_empty()) {
        (true, false) => "policy.allowed_directories and shell_tool.allowed_directories",
        (false, false) => SHELL_TOOL_DIRECTORIES,
        (_, true) => POLICY_DIRECTORIES,
    }
}

/// Returns the allowed directories. Links in their paths are resolved once, now.
fn resolve_allowed_directories(loaded: &Loaded) -> Result<Option<AllowedDirectories>, AppError> {
    let settings = &loaded.settings;
    let lists = [
        (POLICY_DIRECTORIES, &settings.policy.allowed_directories),
        (SHELL_TOOL_DIRECTORIES, &settings.shell_tool.allowed_directories),
    ];
    let mut resolved = Vec::new();
    for (key, path) in lists.iter().flat_map(|(key, list)| list.iter().map(move |it| (*key, it))) {
        resolved.push(match path.canonicalize() {
            Ok(path) => path,
            // The example in the documentation of this tool names directories that few hosts have. A
            // directory that does not exist allows nothing.
            Err(error) if key == SHELL_TOOL_DIRECTORIES && error.kind() == ErrorKind::NotFound => {
                events::allowed_directory_missing(path);
                path.clone()
            }
            Err(source) => {
                let origin = describe_origin(loaded, key);
                let path = path.clone();
                return Err(AppError::AllowedDirectory { origin, path, source });
            }
        });
    }
    if resolved.is_empty() {
        return Ok(None);
    }
    Ok(Some(AllowedDirectories::new(resolved)?))
}

fn build_redactor(loaded: &Loaded) -> Result<Redactor, AppError> {
    let settings = &loaded.settings.redact;
    let redactor = if settings.builtin {
        Redactor::with_known_secrets(&settings.patterns)
    } else {
        Redactor::new(&settings.patterns)
    };
    redactor.map_err(|source| AppError::Redact {
        origin: describe_origin(loaded, "redact.patterns"),
        source,
    })
}

/// Returns the redactor that masks output before it is stored, if `redact.at_write` is on.
pub(super) fn write_redactor(loaded: &Loaded) -> Result<Option<Arc<Redactor>>, AppError> {
    let is_enabled = loaded.settings.redact.at_write;
    is_enabled.then(|| build_redactor(loaded).map(Arc::new)).transpose()
}

/// Returns the environment of jobs, and the variables that were left out.
pub(super) fn job_environment(
    loaded: &Loaded,
    environment: &Environment,
) -> Result<JobEnvironment, AppError> {
    Ok(select_variables(&environment.pairs(), &parse_environment_rules(loaded)?))
}

/// Returns the environment of jobs. The rules are checked now, and applied when the first job starts.
pub(super) fn job_variables(
    loaded: &Loaded,
    environment: &Environment,
) -> Result<JobVariables, AppError> {
    let rules = parse_environment_rules(loaded)?;
    let select = move |given: &[_]| select_variables(given, &rules);
    Ok(JobVariables::new_lazy(environment.pairs(), select))
}

/// Returns the variables of this process that its jobs on another server may inherit. That server
/// selects among them by its own rules.
pub(super) fn select_client_variables(
    loaded: &Loaded,
    environment: &Environment,
) -> Result<JobEnvironment, AppError> {
    Ok(select_variables(&environment.pairs(), &parse_environment_rules(loaded)?))
}

fn parse_environment_rules(loaded: &Loaded) -> Result<EnvironmentRules, AppError> {
    let settings = &loaded.settings.environment;
    let patterns = |key: &'static str, texts: &[String]| {
        let parsed = texts.iter().map(|text| NamePattern::parse(text)).collect::<Result<_, _>>();
        parsed.map_err(|source| AppError::Variable {
            key,
            origin: describe_origin(loaded, key),
            source,
        })
    };
    Ok(EnvironmentRules {
        inherit: settings.inherit,
        pass: patterns("environment.pass", &settings.pass)?,
        drop: patterns("environment.drop", &settings.drop)?,
        set: settings
            .set
            .iter()
            .filter_map(|text| text.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    })
}

/// Opens the audit log, if it is enabled.
pub(super) fn open_audit(settings: &Settings) -> Result<Option<AuditTrail>, AppError> {
    let audit = &settings.audit;
    let Some(path) = audit_file(settings) else { return Ok(None) };
    let config::AuditSection { max_bytes, keep, max_queued, .. } = *audit;
    let max_queued = usize::try_from(max_queued).unwrap_or(usize::MAX);
    let settings = AuditLogSettings { path, max_bytes, keep, max_queued };
    let log = match (AuditLog::open(settings.clone()), audit.on_failure) {
        (Ok(log), _) => log,
        (Err(error), OnAuditFailure::Refuse) => return Err(error.into()),
        (Err(error), OnAuditFailure::Count) => {
            events::audit_failed(1, &error);
            AuditLog::open_later(settings)?
        }
    };
    Ok(Some(AuditTrail { log, on_failure: audit.on_failure }))
}

/// Returns the path of the audit log; `None` if there is none.
pub(super) fn audit_file(settings: &Settings) -> Option<PathBuf> {
    let audit = &settings.audit;
    let default = || settings.server.data_dir.join("audit.jsonl");
    audit.enabled.then(|| audit.file.clone().unwrap_or_else(default))
}

/// Builds the authentication of HTTP callers.
pub(super) fn build_authenticator(settings: &Settings) -> Result<Authenticator, AppError> {
    Ok(Authenticator::open(AuthSettings {
        token_file: token_file(settings),
        oauth: build_oauth_config(settings)?,
    })?)
}

/// Returns the place of the token file.
pub(super) fn token_file(settings: &Settings) -> TokenFilePath {
    match &settings.http.token_file {
        Some(path) => TokenFilePath::Configured(path.clone()),
        None => TokenFilePath::Default(settings.server.data_dir.join("tokens")),
    }
}

fn build_oauth_config(settings: &Settings) -> Result<Option<OauthConfig>, AppError> {
    let oauth = &settings.oauth;
    let Some(issuer) = non_empty(&oauth.issuer) else { return check_no_oauth(oauth) };
    let resource = non_empty(&oauth.resource);
    let audience = non_empty(&oauth.audience).or_else(|| resource.clone());
    Ok(Some(OauthConfig {
        issuer,
        audience: audience.ok_or(AppError::NoAudience)?,
        resource,
        keys: parse_key_source(&oauth.jwks),
        refresh: oauth.jwks_refresh,
        tenant_claim: oauth.tenant_claim.clone(),
        tenants: parse_tenant_map(oauth)?,
        scopes: OauthScopes {
            metrics: oauth.metrics_scope.clone(),
            read: oauth.read_scope.clone(),
            run: oauth.run_scope.clone(),
            admin: oauth.admin_scope.clone(),
        },
        leeway: oauth.leeway,
        scheme: if settings.http.tls_cert.is_some() { "https" } else { "http" },
        path: settings.http.path.clone(),
    }))
}

/// Returns no OAuth settings. Fails if other OAuth settings show that the user expects OAuth.
fn check_no_oauth(oauth: &config::OauthSection) -> Result<Option<OauthConfig>, AppError> {
    let dependent = [
        ("resource", !oauth.resource.is_empty()),
        ("audience", !oauth.audience.is_empty()),
        ("jwks", !oauth.jwks.is_empty()),
        ("tenants", !oauth.tenants.is_empty()),
    ];
    match dependent.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(AppError::NoIssuer { key }),
        None => Ok(None),
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn parse_key_source(jwks: &str) -> OauthKeySource {
    if jwks.is_empty() {
        OauthKeySource::Issuer
    } else if jwks.contains("://") {
        OauthKeySource::Url(jwks.to_owned())
    } else {
        OauthKeySource::File(jwks.into())
    }
}

/// Parses the entries `VALUE=TENANT`. A value may contain `=`, the name of a tenant cannot.
fn parse_tenant_map(oauth: &config::OauthSection) -> Result<HashMap<String, TenantId>, AppError> {
    let tenant = |entry: &String| {
        let (value, name) = entry.rsplit_once('=').unwrap_or((entry, ""));
        let tenant = TenantId::parse(name);
        let tenant =
            tenant.map_err(|source| AppError::OauthTenant { entry: entry.clone(), source })?;
        Ok((value.to_owned(), tenant))
    };
    oauth.tenants.iter().map(tenant).collect()
}
