//! Converts the settings into the rules for jobs (admission, environment, confinement), the audit log and
//! authentication.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::AppError;
use super::tenants;
use crate::config::{self, Environment, Loaded, Settings, SocketSetting};
use crate::confinement::{SandboxPaths, SandboxProfile};
use crate::environment::{EnvironmentRules, JobEnvironment, NamePattern, select_variables};
use crate::http::auth::{
    AuthSettings, Authenticator, OauthConfig, OauthKeySource, OauthScopes, TokenFilePath,
};
use crate::ids::TenantId;
use crate::output::redaction::Redactor;
use crate::policy::command::ShellSyntax;
use crate::policy::rules::{self, AllowedDirectories, CoreTools, PolicyRule, RuleError};
use crate::policy::{OnUncertain, Policy};
use crate::process::Host;
use crate::process::shell::{ShellChoice, ShellDialect, judged_dialect};
use crate::service::{
    AdmissionRules, AuditTrail, ConfinementRules, ConfinementTerms, DEFAULT_LANE, JobVariables,
    OnAuditFailure,
};
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
    let directories = resolve_allowed_directories(loaded)?;
    Ok(AdmissionRules {
        policy: build_policy_with_tool_rules(settings, shell).map_err(|error| AppError::Rule {
            origin: describe_origin(loaded, error.location()),
            source: error,
        })?,
        areas: tenants::resolve_areas(loaded, directories.as_ref())?,
        directories,
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

/// Returns the variables of this process that jobs inherit, and those that were left out. A client sends
/// them to its server, which selects among them by its own rules.
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

/// Files and directories with credentials, below the user's home directory.
const CREDENTIALS: [&str; 17] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
];

/// Sockets of services that act on behalf of any client: a socket accepts connections even if its
/// directory is read-only. Jobs in namespaces have their own `/run`, and do not see those below it.
const SERVICES: [&str; 9] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/var/lib/lxd",
    "/var/lib/incus",
    "/var/snap/lxd",
    "/var/spool",
    "/mnt/wslg",
];

/// Returns the configured confinement, and fails if the host does not support it.
pub(super) fn supported_confinement(
    loaded: &Loaded,
    host: &Host,
) -> Result<ConfinementRules, AppError> {
    let rules = configured_confinement(&loaded.settings, host)?;
    let key = if loaded.settings.shell_tool.confine_directories {
        "shell_tool.confine_directories"
    } else {
        "confinement.profile"
    };
    let keys = std::iter::once((key.to_owned(), ConfinementTerms::NOTHING));
    let tenants = rules.tenants.iter();
    let tenants = tenants.map(|(name, terms)| (format!("tenants.{name}.confinement"), *terms));
    let lanes = rules.lanes.iter();
    let lanes = lanes.map(|(name, terms)| (format!("queue.lanes.{name}.confinement"), *terms));
    for (key, terms) in keys.chain(tenants).chain(lanes) {
        if let Err(source) = rules.grant_terms(terms) {
            return Err(AppError::Confinement {
                origin: describe_origin(loaded, &key),
                key,
                source,
            });
        }
    }
    Ok(rules)
}

/// Returns the configured confinement without checking whether the host supports it.
pub(super) fn configured_confinement(
    settings: &Settings,
    host: &Host,
) -> Result<ConfinementRules, AppError> {
    let general = &settings.confinement;
    let at_least = if settings.shell_tool.confine_directories {
        SandboxProfile::WorkspaceWrite
    } else {
        SandboxProfile::None
    };
    let own_terms = |terms: ConfinementTerms| ConfinementTerms {
        profile: terms.profile.map(|profile| profile.max(at_least)),
        ..terms
    };
    let tenants = settings.tenants.iter();
    let tenants =
        tenants.map(|(name, own)| Ok((TenantId::parse(name)?, own_terms(own.confinement_terms))));
    let lanes = settings.queue.lanes.iter();
    Ok(ConfinementRules {
        all: ConfinementTerms {
            profile: Some(general.profile.max(at_least)),
            network: Some(general.network),
            limits: settings.limits,
        },
        tenants: tenants.collect::<Result<_, AppError>>()?,
        lanes: lanes
            .map(|(name, lane)| (name.clone(), own_terms(lane.confinement_terms)))
            .collect(),
        support: host.sandbox_support().clone().limited_to(general.backend),
        on_unavailable: general.on_unavailable,
    })
}

/// Returns the paths that confined jobs may write, and those that are hidden from them.
pub(super) fn sandbox_paths(
    settings: &Settings,
    environment: &Environment,
    scratch: &Path,
) -> SandboxPaths {
    let home = environment.home();
    let credentials = home.iter().flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
    let own = [&settings.http.token_file, &settings.http.tls_key, &settings.audit.file];
    let socket = match &settings.http.socket {
        SocketSetting::At(path) => Some(path),
        SocketSetting::Default | SocketSetting::Off => None,
    };
    // A socket with a long path is not found in the kernel's list of sockets.
    let own = own.into_iter().flatten().chain([&settings.server.data_dir]).chain(socket).cloned();
    let session_dir = format!("/run/user/{}", environment.user_id()).into();
    let services = SERVICES.map(PathBuf::from).into_iter().chain([session_dir]);
    let hidden =
        credentials.chain(own).chain(services).chain(settings.confinement.hide.iter().cloned());
    let shown = settings.confinement.show.iter();
    let shown = shown.filter_map(|path| match (path.strip_prefix("~"), &home) {
        (Err(_), _) => Some(path.clone()),
        (Ok(name), Some(home)) => Some(home.join(name)),
        (Ok(_), None) => None,
    });
    SandboxPaths {
        workspace: list_workspace_dirs(settings),
        hidden: hidden.filter(|path| path.is_absolute()).collect(),
        shown: shown.collect(),
        protected: settings.confinement.protect.clone(),
        home,
        scratch: scratch.to_owned(),
    }
}

/// Returns the directories that confined jobs may write; empty = the directory of the job.
fn list_workspace_dirs(settings: &Settings) -> Vec<PathBuf> {
    let allowed = [&settings.policy.allowed_directories, &settings.shell_tool.allowed_directories];
    let allowed: Vec<PathBuf> = allowed.into_iter().flatten().cloned().collect();
    if settings.shell_tool.confine_directories && !allowed.is_empty() {
        allowed
    } else {
        settings.confinement.workspace.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_sockets_of_services_are_hidden() {
        let environment = Environment::from_pairs([("HOME", "/home/me")]);
        let file = Some("/dev/null".into());
        let sources =
            config::ConfigSources { file, environment: environment.clone(), flags: Vec::new() };
        let loaded = config::load(sources).unwrap();
        let places = sandbox_paths(&loaded.settings, &environment, Path::new("/tmp/s"));
        for path in ["/home/me/.ssh", "/run/user/0", "/run/docker.sock", "/run/podman"] {
            assert!(places.hidden.contains(&path.into()), "{path} in {places:?}");
        }
        for path in ["/home/me/.cargo", "/home/me/.local/bin", "/run/current-system"] {
            assert!(places.shown.contains(&path.into()), "{path} in {places:?}");
        }
        for name in [".git/config", ".vscode/", "~/.config/fish/"] {
            assert!(places.protected.contains(&name.into()), "{name} in {places:?}");
        }
    }
}
