//! The users and the directories of tenants: `[tenants.NAME] user`, `workspace`, `allowed_directories`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::error::AppError;
use super::rules;
use crate::config::{Loaded, Settings, TenantSection};
use crate::confinement::SandboxProfile;
use crate::http::auth::{TokenEntry, TokenStore};
use crate::ids::TenantId;
use crate::policy::rules::AllowedDirectories;
use crate::process::{Host, JobUser};
use crate::service::CallerRole;
use crate::spec::{DEFAULT_LANE, TenantArea};

/// The reason why a setting of a tenant cannot be used.
#[derive(Debug, Error)]
pub(super) enum TenantAreaError {
    #[error(
        "`{name}` is root, whose jobs no right of this host keeps from anything; name an ordinary user, or remove the setting"
    )]
    RootUser { name: String },
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
        "jobs in `{}` could read and change `{}`, which belongs to root or to the server; set workspace to a directory of this tenant alone", .path.display(), .own.display()
    )]
    HoldsOwn { path: PathBuf, own: PathBuf },
    #[error(
        "`{}` leads to `{}` by a symlink in a directory of a tenant, whose jobs can change it; give the directory without symlinks, or remove the symlink", .path.display(), .found.display()
    )]
    Redirected { path: PathBuf, found: PathBuf },
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
    let own = OwnPaths::find(&loaded.settings);
    let sections = || loaded.settings.tenants.iter().filter(|(_, section)| has_area(section));
    for (name, section) in sections() {
        let area = resolve_area(section, allowed, &own);
        let area = area.map_err(|(key, source)| new_error(loaded, name, key, source))?;
        areas.insert(TenantId::parse(name)?, area);
    }
    let all = areas.clone();
    let places: BTreeSet<&PathBuf> = all.values().flat_map(|area| &area.directories).collect();
    for (name, section) in sections() {
        check_links(section, &places)
            .map_err(|(key, source)| new_error(loaded, name, key, source))?;
    }
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
fn has_area(section: &TenantSection) -> bool {
    let TenantSection { user, workspace, allowed_directories, .. } = section;
    user.is_some() || workspace.is_some() || !allowed_directories.is_empty()
}

fn resolve_area(
    section: &TenantSection,
    allowed: Option<&AllowedDirectories>,
    own: &OwnPaths,
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
    own.check_width(&workspace).map_err(|error| (key, error))?;
    for path in &directories {
        own.check_width(path).map_err(|error| (DIRECTORIES, error))?;
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
    let name = name.to_owned();
    match found {
        None => Err(TenantAreaError::NoUser { name }),
        Some(user) if user.uid == 0 => Err(TenantAreaError::RootUser { name }),
        Some(user) => Ok(user),
    }
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

/// Paths of the server and of root that no directory of a tenant may contain. What a sandbox makes
/// writable for a job is not hidden from it.
struct OwnPaths {
    /// The data directory. No tenant's directory is in it either.
    data_dir: PathBuf,
    /// Files with secrets or records, and the home directory of root.
    others: Vec<PathBuf>,
}

impl OwnPaths {
    fn find(settings: &Settings) -> Self {
        let resolve = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let files = [&settings.http.token_file, &settings.http.tls_key, &settings.audit.file];
        // A host without an entry for root has its home directory at the usual place.
        let root = JobUser::find("root").ok().flatten().map(|root| root.home);
        let homes = root.into_iter().chain([PathBuf::from("/root")]);
        let others = files.into_iter().flatten().cloned().chain(homes);
        Self {
            data_dir: resolve(&settings.server.data_dir),
            others: others.map(|path| resolve(&path)).collect(),
        }
    }

    /// Checks that a directory can be that of a tenant.
    fn check_width(&self, path: &Path) -> Result<(), TenantAreaError> {
        let is_wide = SHARED.iter().any(|shared| path == Path::new(shared))
            || SYSTEM.iter().any(|system| path.starts_with(system));
        if is_wide {
            return Err(TenantAreaError::TooWide { path: path.to_owned() });
        }
        let data_dir = Some(&self.data_dir).filter(|dir| path.starts_with(dir));
        let mut all = self.others.iter().chain([&self.data_dir]);
        match data_dir.or_else(|| all.find(|own| own.starts_with(path))) {
            Some(own) => Err(TenantAreaError::HoldsOwn { path: path.to_owned(), own: own.clone() }),
            None => Ok(()),
        }
    }
}

/// Checks that no symlink in one of these directories of tenants leads to another directory: jobs
/// would choose their own directories by it.
fn check_links(section: &TenantSection, places: &BTreeSet<&PathBuf>) -> Result<(), Mistake> {
    let workspace = section.workspace.iter().map(|path| (WORKSPACE, path));
    let all = workspace.chain(section.allowed_directories.iter().map(|path| (DIRECTORIES, path)));
    for (key, path) in all {
        let Ok(found) = path.canonicalize() else { continue };
        let is_redirected = |above: &Path| {
            let Ok(start) = above.canonicalize() else { return false };
            let below = path.strip_prefix(above).unwrap_or(path);
            places.iter().any(|place| start.starts_with(place)) && start.join(below) != found
        };
        if path.ancestors().skip(1).any(is_redirected) {
            return Err((key, TenantAreaError::Redirected { path: path.clone(), found }));
        }
    }
    Ok(())
}

/// The tenant of callers that are not named in the settings, in a list of tenants.
const UNNAMED: &str = "every tenant of [oauth]";

/// Returns the tenants whose jobs have the server's user and can change the files of others, if the
/// server is root. Empty if only one tenant runs jobs.
#[must_use]
pub(super) fn list_sharing_root(settings: &Settings, host: &Host) -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let mut known: BTreeSet<String> = settings.tenants.keys().cloned().collect();
    // A file that cannot be read is reported elsewhere.
    if let Ok(tokens) = TokenStore::new(rules::token_file(settings)).read() {
        let runs_jobs = |token: &&TokenEntry| match token.identity.role {
            CallerRole::Metrics | CallerRole::Read => false,
            CallerRole::Run | CallerRole::Admin => true,
        };
        let names = tokens.entries().filter(runs_jobs).map(|token| token.identity.tenant.name());
        known.extend(names.map(str::to_owned));
    }
    let oauth = &settings.oauth;
    let mapped = oauth.tenants.iter().filter_map(|entry| entry.rsplit_once('='));
    known.extend(mapped.map(|(_, tenant)| tenant.to_owned()));
    let has_unnamed = !oauth.issuer.is_empty() && oauth.tenants.is_empty();
    if known.len() < 2 && !has_unnamed {
        return Vec::new();
    }
    // Names and rules that are not valid are reported elsewhere.
    let confinement = rules::configured_confinement(settings, host).ok();
    let is_apart = |name: &String| {
        let Some(section) = settings.tenants.get(name) else { return false };
        let limits_files = || {
            let tenant = TenantId::parse(name).ok();
            let profile = confinement.as_ref().zip(tenant);
            profile.is_some_and(|(rules, tenant)| {
                limits_files(rules.confinement(tenant, DEFAULT_LANE).profile)
            })
        };
        section.user.is_some() || has_area(section) && limits_files()
    };
    let mut sharing: Vec<String> = known.into_iter().filter(|name| !is_apart(name)).collect();
    if has_unnamed {
        sharing.push(UNNAMED.to_owned());
    }
    sharing
}

/// `true` if jobs with this profile see and change some files only.
fn limits_files(profile: SandboxProfile) -> bool {
    match profile {
        SandboxProfile::None | SandboxProfile::Default => false,
        SandboxProfile::WorkspaceWrite | SandboxProfile::ReadOnly => true,
    }
}
