//! Which directories a job may write to.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::shared_places::{self, SharedPlace};
use crate::confinement::ConfinedPlaces;

/// Why a job has no workspace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkspaceError {
    /// Nobody chose one, and the job's directory holds far more than one.
    #[error(
        "the job's directory `{}` is too wide to be its workspace: set confinement.workspace, or run the job in a directory below it",
        .0.display()
    )]
    TooWide(PathBuf),
    /// Nobody chose one, and jobs shall not even read the job's directory.
    #[error(
        "the job's directory `{}` is hidden from confined jobs: set confinement.workspace, or run the job elsewhere",
        .0.display()
    )]
    Hidden(PathBuf),
    /// Whatever is confined to this is not confined.
    #[error("`/` cannot be a workspace: set confinement.workspace to directories below it")]
    Everything,
    /// It is not there, or not a directory, and there is no other.
    #[error("the workspace `{}` cannot be used: {why}; create it or change confinement.workspace", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// What is the matter with it.
        why: String,
    },
}

/// The directories to which a job in `cwd` may write: full paths without symlinks, in order, none
/// twice. One may lie in another: something between the two may be hidden.
///
/// These are the workspaces of the settings that exist, or else `cwd`.
///
/// # Errors
/// When there is none, or when nobody chose one and `cwd` is no place for it: `/`, the home
/// directory, `/tmp` or another place that programs share, what is above them, or what is hidden.
pub(crate) fn roots(
    places: &ConfinedPlaces,
    shared: &[SharedPlace],
    cwd: &Path,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    if places.workspace.is_empty() {
        let cwd = directory(cwd)?;
        let home = places.home.as_deref().map(real);
        let wide: Vec<&Path> =
            home.as_deref().into_iter().chain(shared.iter().map(|it| it.path.as_path())).collect();
        let hidden: Vec<PathBuf> = places.hidden.iter().map(|path| real(path)).collect();
        return fit(&cwd, &wide, &hidden).map(|()| vec![cwd]);
    }
    let found = places.workspace.iter().map(|path| directory(path));
    let (found, mut missing): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    let found: BTreeSet<PathBuf> = found.into_iter().flatten().collect();
    if found.contains(Path::new("/")) {
        return Err(WorkspaceError::Everything);
    }
    if found.is_empty()
        && let Some(Err(error)) = missing.drain(..).next()
    {
        return Err(error);
    }
    Ok(found.into_iter().collect())
}

/// The directories that a job in `cwd` sees although they lie in a place of which it has its own:
/// the workspaces of the settings that exist, and `cwd`.
///
/// # Errors
/// When `cwd` is such a place itself and nobody chose it: with it, all of the host's would be seen.
pub(crate) fn readable(
    places: &ConfinedPlaces,
    shared: &[SharedPlace],
    cwd: &Path,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    let chosen = places.workspace.iter().filter_map(|path| directory(path).ok());
    let mut readable: BTreeSet<PathBuf> = chosen.collect();
    let cwd = directory(cwd)?;
    let is_chosen = readable.iter().any(|root| cwd.starts_with(root));
    if !is_chosen && shared.iter().any(|place| place.path == cwd) {
        return Err(WorkspaceError::TooWide(cwd));
    }
    if !is_chosen && shared_places::holds(shared, &cwd) {
        readable.insert(cwd);
    }
    Ok(readable.into_iter().collect())
}

/// Checks that the directory of a job can be its workspace without anybody having said so: it is
/// around none of these wide places.
fn fit(cwd: &Path, wide: &[&Path], hidden: &[PathBuf]) -> Result<(), WorkspaceError> {
    let is_too_wide = cwd == Path::new("/") || wide.iter().any(|place| place.starts_with(cwd));
    if is_too_wide {
        return Err(WorkspaceError::TooWide(cwd.to_owned()));
    }
    if hidden.iter().any(|place| cwd.starts_with(place)) {
        return Err(WorkspaceError::Hidden(cwd.to_owned()));
    }
    Ok(())
}

fn directory(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let unusable = |why: String| WorkspaceError::Unusable { path: path.to_owned(), why };
    match path.canonicalize() {
        Ok(found) if found.is_dir() => Ok(found),
        Ok(_) => Err(unusable("not a directory".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(unusable("no such directory".to_owned()))
        }
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// Where it really is, as far as can be told.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_directory_that_nobody_chose_must_be_narrow_and_in_sight() {
        let home = &[Path::new("/home/me"), Path::new("/var/tmp")][..];
        let hidden = [PathBuf::from("/home/me/.ssh"), PathBuf::from("/srv/data")];
        let too_wide = |cwd: &str| Err(WorkspaceError::TooWide(cwd.into()));
        let out_of_sight = |cwd: &str| Err(WorkspaceError::Hidden(cwd.into()));
        for (cwd, home, expected) in [
            ("/", home, too_wide("/")),
            ("/", &[], too_wide("/")),
            ("/home", home, too_wide("/home")),
            ("/home/me", home, too_wide("/home/me")),
            ("/home/me", &[], Ok(())),
            ("/var/tmp", home, too_wide("/var/tmp")),
            ("/var", home, too_wide("/var")),
            ("/var/tmp/x", home, Ok(())),
            ("/home/me/work", home, Ok(())),
            ("/home/mend", home, Ok(())),
            ("/srv", home, Ok(())),
            ("/srv/data", home, out_of_sight("/srv/data")),
            ("/home/me/.ssh/deep", home, out_of_sight("/home/me/.ssh/deep")),
            ("/home/me/.sshd", home, Ok(())),
        ] {
            assert_eq!(fit(Path::new(cwd), home, &hidden), expected, "{cwd}");
        }
    }

    /// A home with a workspace, a file and a link to the workspace in it.
    fn home() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("work/deep")).unwrap();
        fs::write(home.join("file"), "").unwrap();
        symlink("work", home.join("link")).unwrap();
        (root, home)
    }

    fn places(home: &Path, workspace: &[&str]) -> ConfinedPlaces {
        let workspace = workspace.iter().map(|name| home.join(name)).collect();
        ConfinedPlaces { workspace, home: Some(home.to_owned()), ..ConfinedPlaces::default() }
    }

    #[test]
    fn without_a_setting_the_directory_of_the_job_is_its_workspace() {
        let (_root, home) = home();
        let places = places(&home, &[]);
        assert_eq!(roots(&places, &[], &home.join("link")), Ok(vec![home.join("work")]));
        assert_eq!(roots(&places, &[], &home), Err(WorkspaceError::TooWide(home.clone())));
        let link = ConfinedPlaces { home: Some(home.join("link")), ..places };
        assert_eq!(
            roots(&link, &[], &home.join("work")),
            Err(WorkspaceError::TooWide(home.join("work")))
        );
        let hidden = ConfinedPlaces { home: None, hidden: vec![home.join("link")], ..link };
        let deep = home.join("work/deep");
        assert_eq!(roots(&hidden, &[], &deep), Err(WorkspaceError::Hidden(deep)));
    }

    #[test]
    fn what_is_set_is_used_as_far_as_it_exists() {
        let (_root, home) = home();
        let found = |names: &[&str]| roots(&places(&home, names), &[], Path::new("/"));
        let nested = ["work", "work/deep"].map(|name| home.join(name)).to_vec();
        assert_eq!(found(&["work/deep", "none", "link", "work"]), Ok(nested));
        assert_eq!(found(&["."]), Ok(vec![home.clone()]));
        assert_eq!(found(&["work", "/"]), Err(WorkspaceError::Everything));
        for (names, why) in
            [(["none", "file"], "no such directory"), (["file", "none"], "not a directory")]
        {
            let told = found(&names).unwrap_err().to_string();
            assert!(told.contains(names[0]) && told.contains(why), "{told}");
        }
    }

    #[test]
    fn what_is_read_in_a_private_place_is_chosen_or_is_where_the_job_runs() {
        let (_root, home) = home();
        let shared = [SharedPlace { path: home.clone(), own: "home" }];
        let [work, deep] = ["work", "work/deep"].map(|name| home.join(name));
        let readable = |names: &[&str], cwd: &Path| readable(&places(&home, names), &shared, cwd);
        assert_eq!(readable(&[], Path::new("/")), Ok(Vec::new()));
        assert_eq!(readable(&[], &home), Err(WorkspaceError::TooWide(home.clone())));
        assert_eq!(readable(&["."], &home), Ok(vec![home.clone()]));
        assert_eq!(readable(&[], &home.join("link")), Ok(vec![work.clone()]));
        assert_eq!(readable(&["work", "none"], &deep), Ok(vec![work.clone()]));
        assert_eq!(readable(&["work/deep"], &work), Ok(vec![work.clone(), deep]));
    }
}
