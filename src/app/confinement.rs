//! Converts the settings into the confinement of jobs.

use std::path::{Path, PathBuf};

use super::error::AppError;
use super::rules;
use crate::config::{Environment, Loaded, Settings, SocketSetting};
use crate::confinement::{SandboxPaths, SandboxProfile};
use crate::ids::TenantId;
use crate::process::Host;
use crate::service::{ConfinementRules, ConfinementTerms};

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
pub(super) fn supported_rules(loaded: &Loaded, host: &Host) -> Result<ConfinementRules, AppError> {
    let rules = configured_rules(&loaded.settings, host)?;
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
                origin: rules::describe_origin(loaded, &key),
                key,
                source,
            });
        }
    }
    Ok(rules)
}

/// Returns the configured confinement without checking whether the host supports it.
pub(super) fn configured_rules(
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
        let sources = crate::config::ConfigSources {
            file,
            environment: environment.clone(),
            flags: Vec::new(),
        };
        let loaded = crate::config::load(sources).unwrap();
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
