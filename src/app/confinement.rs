//! From settings to the confinement of jobs.

use std::path::{Path, PathBuf};

use super::error::AppError;
use super::rules;
use crate::config::{Environment, Loaded, Settings};
use crate::confinement::SandboxPaths;
use crate::ids::TenantId;
use crate::process::Host;
use crate::service::{ConfinementRules, ConfinementTerms};

/// Where users keep what gives access to something, below their home directory.
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

/// Where services listen that act for whoever connects: a socket takes connections although its
/// place is read-only. Jobs with namespaces have a `/run` of their own, and see none of those there.
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

/// What is said about the confinement of jobs, once it is known that this host can give it.
pub(super) fn confining(loaded: &Loaded, host: &Host) -> Result<ConfinementRules, AppError> {
    let confining = wished(&loaded.settings, host)?;
    let keys = std::iter::once(("confinement.profile".to_owned(), ConfinementTerms::NOTHING));
    let tenants = confining.tenants.iter();
    let tenants = tenants.map(|(name, said)| (format!("tenants.{name}.confinement"), *said));
    let lanes = confining.lanes.iter();
    let lanes = lanes.map(|(name, said)| (format!("queue.lanes.{name}.confinement"), *said));
    for (key, said) in keys.chain(tenants).chain(lanes) {
        if let Err(source) = confining.grant_terms(said) {
            return Err(AppError::Confinement { origin: rules::origin(loaded, &key), key, source });
        }
    }
    Ok(confining)
}

/// What is said, whether this host can give it or not: that is not tried out here.
pub(super) fn wished(settings: &Settings, host: &Host) -> Result<ConfinementRules, AppError> {
    let general = &settings.confinement;
    let tenants = settings.tenants.iter();
    let tenants = tenants.map(|(name, own)| Ok((TenantId::parse(name)?, own.confining)));
    let lanes = settings.queue.lanes.iter();
    Ok(ConfinementRules {
        all: ConfinementTerms {
            profile: Some(general.profile),
            network: Some(general.network),
            limits: settings.limits,
        },
        tenants: tenants.collect::<Result<_, AppError>>()?,
        lanes: lanes.map(|(name, lane)| (name.clone(), lane.confining)).collect(),
        offer: host.sandbox_support().clone().limited_to(general.backend),
        on_unavailable: general.on_unavailable,
    })
}

/// Where confined jobs may write, and what is hidden from them.
pub(super) fn places(
    settings: &Settings,
    environment: &Environment,
    scratch: &Path,
) -> SandboxPaths {
    let home = environment.home();
    let usual = home.iter().flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
    let own = [&settings.http.token_file, &settings.http.tls_key, &settings.audit.file];
    let own = own.into_iter().flatten().chain([&settings.server.data_dir]).cloned();
    let of_session = format!("/run/user/{}", environment.user()).into();
    let services = SERVICES.map(PathBuf::from).into_iter().chain([of_session]);
    let hidden = usual.chain(own).chain(services).chain(settings.confinement.hide.iter().cloned());
    let shown = settings.confinement.show.iter();
    let shown = shown.filter_map(|path| match (path.strip_prefix("~"), &home) {
        (Err(_), _) => Some(path.clone()),
        (Ok(name), Some(home)) => Some(home.join(name)),
        (Ok(_), None) => None,
    });
    SandboxPaths {
        workspace: settings.confinement.workspace.clone(),
        hidden: hidden.filter(|path| path.is_absolute()).collect(),
        shown: shown.collect(),
        protected: settings.confinement.protect.clone(),
        home,
        scratch: scratch.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_doors_of_services_are_hidden() {
        let environment = Environment::from_pairs([("HOME", "/home/me")]);
        let file = Some("/dev/null".into());
        let sources = crate::config::ConfigSources {
            file,
            environment: environment.clone(),
            flags: Vec::new(),
        };
        let loaded = crate::config::load(sources).unwrap();
        let places = places(&loaded.settings, &environment, Path::new("/tmp/s"));
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
