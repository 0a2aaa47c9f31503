//! The users and the directories of tenants: `[tenants.NAME] user`, `workspace`, `allowed_directories`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::error::AppError;
use super::rules;
use crate::config::{Loaded, Settings, TenantSection};
use crate::http::auth::TokenStore;
use crate::ids::TenantId;
use crate::policy::rules::AllowedDirectories;
use crate::process::JobUser;
use crate::spec::TenantArea;

/// The reason why a setting of a tenant cannot be used.
#[derive(Debug, Error)]
pub(super) enum TenantAreaError {
    #[error("this host has no user `{name}`; create it (useradd), or correct the name")]
    NoUser { name: String },
    #[error("the users of this host cannot be read")]
    UserDatabase(#[source] io::Error),
    #[error(
        "a server without the rights of root cannot run jobs as another user; start it as root, or remove the setting"
    )]
    CannotSwitch,
    #[error(
        "`{}`, the home directory of `{user}`, cannot be the workspace of its tenant; set workspace to a directory that exists", .path.display()
    )]
    NoHome { user: String, path: PathBuf, source: io::Error },
    #[error("`{}` cannot be used; give a directory that exists", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error(
        "`{}` is too wide: it belongs to the system or to many users; set workspace to a directory of this tenant alone", .path.display()
    )]
    TooWide { path: PathBuf },
    #[error(
        "`{}` is not in policy.allowed_directories, so no job could run there; add it, or choose another", .path.display()
    )]
    NotAllowed { path: PathBuf },
}

/// Directories that are no tenant's alone.
const SHARED: [&str; 9] =
    ["/", "/home", "/media", "/mnt", "/opt", "/srv", "/tmp", "/var", "/var/tmp"];

/// Directories of the system: neither they nor what is in them can be a workspace.
const SYSTEM: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];

/// Returns the users and directories of all tenants for which the settings name any. Symlinks are
/// resolved once, now. `allowed` are the directories in which jobs of all tenants may run.
///
/// # Errors
/// Names the setting with the mistake.
pub(super) fn resolve_areas(
    loaded: &Loaded,
    allowed: Option<&AllowedDirectories>,
) -> Result<BTreeMap<TenantId, Arc<TenantArea>>, AppError> {
    let mut areas = BTreeMap::new();
    for (name, section) in loaded.settings.tenants.iter().filter(|(_, own)| is_separated(own)) {
        let area = resolve_area(section, allowed);
        let area = area.map_err(|(key, source)| new_error(loaded, name, key, source))?;
        areas.insert(TenantId::parse(name)?, area);
    }
    let all = areas.clone();
    for (tenant, area) in &mut areas {
        let others = all.iter().filter(|(other, _)| *other != tenant);
        let others = others.flat_map(|(_, area)| &area.directories);
        let hidden: BTreeSet<&PathBuf> =
            others.filter(|path| !area.directories.contains(path)).collect();
        area.hidden = hidden.into_iter().cloned().collect();
    }
    Ok(areas.into_iter().map(|(tenant, area)| (tenant, Arc::new(area))).collect())
}

/// The tenants whose jobs a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServedTenants {
    All,
    /// The tenant of local callers: a server of one program has no other.
    Local,
}

/// Checks that this process may run jobs as the users that the settings name for these tenants.
///
/// # Errors
/// Names the first setting that it cannot carry out.
pub(super) fn check_switching(loaded: &Loaded, served: ServedTenants) -> Result<(), AppError> {
    let is_meant = |name: &str| match served {
        ServedTenants::All => true,
        ServedTenants::Local => name == TenantId::LOCAL.name(),
    };
    let mut tenants = loaded.settings.tenants.iter();
    match tenants.find(|(name, own)| own.user.is_some() && is_meant(name)) {
        Some((name, _)) if !JobUser::can_switch() => {
            Err(new_error(loaded, name, USER, TenantAreaError::CannotSwitch))
        }
        Some(_) | None => Ok(()),
    }
}

const USER: &str = "user";
const WORKSPACE: &str = "workspace";
const DIRECTORIES: &str = "allowed_directories";

/// The key of a setting in the section of a tenant, and its mistake.
type Mistake = (&'static str, TenantAreaError);

fn new_error(loaded: &Loaded, name: &str, key: &str, source: TenantAreaError) -> AppError {
    let key = format!("tenants.{name}.{key}");
    let origin = rules::describe_origin(loaded, &key);
    AppError::TenantArea { key, origin, source }
}

/// `true` if a tenant has a user or a directory of its own.
fn is_separated(section: &TenantSection) -> bool {
    let TenantSection { user, workspace, allowed_directories, .. } = section;
    user.is_some() || workspace.is_some() || !allowed_directories.is_empty()
}

fn resolve_area(
    section: &TenantSection,
    allowed: Option<&AllowedDirectories>,
) -> Result<TenantArea, Mistake> {
    let user = section.user.as_deref().map(find_user).transpose();
    let user = user.map_err(|error| (USER, error))?;
    let unusable = |path: &Path| {
        let path = path.to_owned();
        move |source| TenantAreaError::Unusable { path, source }
    };
    let mut directories = Vec::new();
    for path in &section.allowed_directories {
        let found = resolve_directory(path).map_err(unusable(path));
        directories.push(found.map_err(|error| (DIRECTORIES, error))?);
    }
    let (key, workspace) = match (&section.workspace, &user) {
        (Some(path), _) => (WORKSPACE, resolve_directory(path).map_err(unusable(path))),
        (None, Some(user)) => {
            let no_home = |source| TenantAreaError::NoHome {
                user: user.name.clone(),
                path: user.home.clone(),
                source,
            };
            (USER, resolve_directory(&user.home).map_err(no_home))
        }
        // One of the three settings is there.
        (None, None) => (DIRECTORIES, Ok(directories.first().cloned().unwrap_or_default())),
    };
    let workspace = workspace.map_err(|error| (key, error))?;
    check_width(&workspace).map_err(|error| (key, error))?;
    for path in &directories {
        check_width(path).map_err(|error| (DIRECTORIES, error))?;
    }
    if allowed.is_some_and(|allowed| !allowed.contains(&workspace)) {
        return Err((key, TenantAreaError::NotAllowed { path: workspace }));
    }
    if !directories.contains(&workspace) {
        directories.insert(0, workspace.clone());
    }
    Ok(TenantArea { user, workspace, directories, hidden: Vec::new() })
}

fn find_user(name: &str) -> Result<JobUser, TenantAreaError> {
    let found = JobUser::find(name).map_err(TenantAreaError::UserDatabase)?;
    found.ok_or_else(|| TenantAreaError::NoUser { name: name.to_owned() })
}

fn resolve_directory(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Ok(found) if found.is_dir() => Ok(found),
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
        // A program of an ordinary user reads the settings of the root server of its host: it runs no
        // job of that tenant.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !JobUser::can_switch() => {
            Ok(path.to_owned())
        }
        Err(error) => Err(error),
    }
}

fn check_width(path: &Path) -> Result<(), TenantAreaError> {
    let is_wide = SHARED.iter().any(|shared| path == Path::new(shared))
        || SYSTEM.iter().any(|system| path.starts_with(system));
    if is_wide { Err(TenantAreaError::TooWide { path: path.to_owned() }) } else { Ok(()) }
}

/// The tenant of callers that are not named in the settings, in a list of tenants.
const UNNAMED: &str = "every tenant of [oauth]";

/// Returns the tenants whose jobs share the server's user and its directories with those of others,
/// if the server is root. Empty if it has only one tenant.
#[must_use]
pub(super) fn list_sharing_root(settings: &Settings) -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let mut known: BTreeSet<String> = settings.tenants.keys().cloned().collect();
    // A file that cannot be read is reported elsewhere.
    if let Ok(tokens) = TokenStore::new(rules::token_file(settings)).read() {
        known.extend(tokens.entries().map(|token| token.identity.tenant.name().to_owned()));
    }
    let oauth = &settings.oauth;
    let mapped = oauth.tenants.iter().filter_map(|entry| entry.rsplit_once('='));
    known.extend(mapped.map(|(_, tenant)| tenant.to_owned()));
    let has_unnamed = !oauth.issuer.is_empty() && oauth.tenants.is_empty();
    if known.len() < 2 && !has_unnamed {
        return Vec::new();
    }
    let is_separated = |name: &String| settings.tenants.get(name).is_some_and(is_separated);
    let mut sharing: Vec<String> = known.into_iter().filter(|name| !is_separated(name)).collect();
    if has_unnamed {
        sharing.push(UNNAMED.to_owned());
    }
    sharing
}
