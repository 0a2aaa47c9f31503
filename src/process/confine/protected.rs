//! What in a workspace runs by itself later, outside of any job: a job must not write it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::placeholder::{Place, Placeholder};

/// In every workspace.
const HOOKS: &str = ".git/hooks";
const CLIENT_SETTINGS: &str = ".mcp.json";

/// In a home directory that can be written: what shells read when they start or end.
const START_UP: [&str; 12] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".config/fish/config.fish",
    ".config/fish/conf.d",
];

/// What must stay as it is while a job runs. Where nothing is, an empty directory is put, which is
/// removed after the last job that needs it.
#[derive(Debug)]
pub(in crate::process) struct Guarded {
    names: Vec<PathBuf>,
    /// Only held: each is released when this is dropped.
    placeholders: Vec<Placeholder>,
}

impl Guarded {
    /// Each of them: files, directories and symlinks, all of which exist.
    ///
    /// What a symlink leads to is one of them as well, since a link is only as constant as that.
    pub(in crate::process) fn names(&self) -> &[PathBuf] {
        &self.names
    }
}

/// Finds what is to be guarded in these workspaces, given the home directory of the server's user.
///
/// Hooks are guarded where there is a repository, and only in the workspace itself: a job may make
/// repositories with hooks of their own, which nobody has used before.
///
/// # Errors
/// When nothing is in one of the places, something could be put there, and we cannot prevent it:
/// a full disk, or a directory of ours that is not writable at the moment.
pub(in crate::process) fn guard(roots: &[PathBuf], home: Option<&Path>) -> io::Result<Guarded> {
    let mut guarded = Guarded { names: Vec::new(), placeholders: Vec::new() };
    for root in roots {
        let git = root.join(".git").symlink_metadata();
        if git.is_ok_and(|found| found.is_dir()) {
            guarded.add(root, HOOKS, roots)?;
        }
        guarded.add(root, CLIENT_SETTINGS, roots)?;
    }
    let home = home.and_then(|home| home.canonicalize().ok());
    if let Some(home) = home.filter(|home| roots.iter().any(|root| home.starts_with(root))) {
        START_UP.iter().try_for_each(|name| guarded.add(&home, name, roots))?;
    }
    Ok(guarded)
}

/// Those of these places that exist, as full paths without symlinks: what [`super::mounts::plan`] hides.
pub(in crate::process) fn hidden(places: &[PathBuf]) -> Vec<PathBuf> {
    places.iter().filter_map(|place| place.canonicalize().ok()).collect()
}

impl Guarded {
    /// Guards `name` below `base`, or the first directory on the way to it that is missing.
    ///
    /// A symlink on the way is followed and can still be replaced: nothing can be mounted on it
    /// through which a directory is seen.
    fn add(&mut self, base: &Path, name: &str, roots: &[PathBuf]) -> io::Result<()> {
        let mut path = base.to_owned();
        let mut parts = Path::new(name).iter().peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            let found = match Place::look(&path)? {
                Place::Taken(found) => FileType::from_raw_mode(found.st_mode),
                Place::Kept(placeholder) => {
                    self.placeholders.push(placeholder);
                    break;
                }
                Place::OutOfReach => return Ok(()),
            };
            match (found, path.canonicalize(), parts.peek()) {
                (FileType::Directory, ..) => {}
                (FileType::Symlink, Ok(target), Some(_)) if target.is_dir() => path = target,
                (FileType::Symlink, Ok(target), None) => self.names.push(target),
                _ => break,
            }
            if !roots.iter().any(|root| path.starts_with(root)) {
                return Ok(());
            }
        }
        self.names.push(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn place() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        (root, path)
    }

    /// All that is there, as sorted paths.
    fn all(path: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let below = |path: PathBuf| {
            let deeper = if path.is_dir() && !path.is_symlink() { all(&path) } else { Vec::new() };
            [path].into_iter().chain(deeper)
        };
        let mut found: Vec<PathBuf> = entries.flat_map(below).collect();
        found.sort();
        found
    }

    fn names(guarded: &Guarded, root: &Path) -> Vec<String> {
        let names = guarded.names().iter().map(|name| name.strip_prefix(root).unwrap());
        names.map(|name| name.display().to_string()).collect()
    }

    #[test]
    fn hooks_are_guarded_where_there_is_a_repository_and_settings_everywhere() {
        let (_root, root) = place();
        let roots = [root.clone()];
        let guarded = guard(&roots, None).unwrap();
        assert_eq!(names(&guarded, &root), [".mcp.json"]);
        drop(guarded);
        fs::write(root.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(names(&guard(&roots, None).unwrap(), &root), [".mcp.json"]);
        fs::remove_file(root.join(".git")).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        let before = all(&root);
        let guarded = guard(&roots, None).unwrap();
        assert_eq!(names(&guarded, &root), [".git/hooks", ".mcp.json"]);
        assert!(guarded.names().iter().all(|name| name.is_dir()));
        drop(guarded);
        assert_eq!(all(&root), before);
    }

    #[test]
    fn what_shells_read_is_guarded_where_the_home_can_be_written() {
        let (_root, above) = place();
        let home = above.join("me");
        fs::create_dir_all(home.join("work")).unwrap();
        fs::create_dir(home.join(".config")).unwrap();
        fs::write(home.join(".bashrc"), "mine").unwrap();
        let before = all(&above);
        for root in [&home, &above] {
            let guarded = guard(std::slice::from_ref(root), Some(&home)).unwrap();
            for name in [".bashrc", ".zshenv", ".profile", ".config/fish"] {
                assert!(guarded.names().contains(&home.join(name)), "{name}");
            }
            assert_eq!(fs::read_to_string(home.join(".bashrc")).unwrap(), "mine");
            drop(guarded);
            assert_eq!(all(&above), before);
        }
        let work = guard(&[home.join("work")], Some(&home)).unwrap();
        assert_eq!(names(&work, &home), ["work/.mcp.json"]);
    }

    #[test]
    fn a_symlink_is_guarded_with_what_it_leads_to() {
        let (_root, root) = place();
        fs::create_dir_all(root.join("dots/fish")).unwrap();
        fs::create_dir(root.join("settings")).unwrap();
        fs::write(root.join("settings/mcp"), "{}").unwrap();
        symlink("settings/mcp", root.join(".mcp.json")).unwrap();
        symlink("dots", root.join(".config")).unwrap();
        symlink("nowhere", root.join(".zshrc")).unwrap();
        let before = all(&root);
        let guarded = guard(std::slice::from_ref(&root), Some(&root)).unwrap();
        for name in [".mcp.json", "settings/mcp", ".zshrc", "dots/fish/conf.d"] {
            assert!(guarded.names().contains(&root.join(name)), "{name}: {guarded:?}");
        }
        drop(guarded);
        assert_eq!(all(&root), before);
    }

    #[test]
    fn nothing_is_made_outside_of_the_workspace() {
        let (_root, root) = place();
        let work = root.join("work");
        fs::create_dir_all(root.join("outside")).unwrap();
        fs::create_dir(&work).unwrap();
        symlink("../outside", work.join(".config")).unwrap();
        let guarded = guard(std::slice::from_ref(&work), Some(&work)).unwrap();
        assert_eq!(all(&root.join("outside")), [] as [PathBuf; 0]);
        drop(guarded);
    }

    #[test]
    fn only_hidden_places_that_exist_are_hidden_where_they_really_are() {
        let (_root, root) = place();
        fs::create_dir(root.join("keys")).unwrap();
        symlink("keys", root.join(".ssh")).unwrap();
        assert_eq!(hidden(&[root.join(".ssh"), root.join(".aws")]), [root.join("keys")]);
    }
}
