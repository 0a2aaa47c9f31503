//! The file calls of the yard.

use std::path::Path;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::error::FileError;
use super::list::{self, Listing};
use super::pass::{WRITE_FILE, pass};
use super::place::Place;
use super::read::{self, FilePage};
use super::write::{self, Written};
use crate::confinement::Profile;
use crate::yard::gate::resolve;
use crate::yard::{DEFAULT_LANE, Desk, Refused};

/// How long a file system may take to answer; a dead network drive never does.
const PATIENCE: Duration = Duration::from_secs(30);

impl Desk {
    /// At most `most` bytes of a file beneath the working directory, from `from` on.
    ///
    /// # Errors
    /// When a rule says no, or there is no such file beneath the working directory.
    pub async fn read_file(
        &self,
        path: &str,
        from: u64,
        most: usize,
    ) -> Result<FilePage, FileError> {
        let act = move |place: &Place| read::page(place, from, most);
        self.with_file(["read_file", path], |_, _, _| Ok(()), act).await
    }

    /// Gives a file beneath the working directory this content, in one step. Its directory must
    /// be there.
    ///
    /// # Errors
    /// When a rule says no, or no regular file can be at this path.
    pub async fn write_file(&self, path: &str, content: String) -> Result<Written, FileError> {
        let act = move |place: &Place| write::replace(place, content.as_bytes());
        self.with_file([WRITE_FILE, path], Self::may_write, act).await
    }

    /// At most `most` things in a directory: the working directory, or one beneath it.
    ///
    /// # Errors
    /// When a rule says no, or there is no such directory beneath the working directory.
    pub async fn list_directory(&self, path: &str, most: usize) -> Result<Listing, FileError> {
        let act = move |place: &Place| list::list(place, most);
        self.with_file(["list_directory", path], |_, _, _| Ok(()), act).await
    }

    /// Refuses to write a file that a job of this caller may not write.
    fn may_write(&self, root: &Path, path: &str) -> Result<(), Refused> {
        let tenant = self.caller.tenant;
        let profile = self.yard.defaults().confining.confinement(tenant, DEFAULT_LANE).profile;
        let workspace = &self.yard.places.workspace;
        let is_protected = || {
            let file = resolve(&root.join(path));
            let is_here = |place: &Path| self.yard.places.protects(place, &file);
            is_here(root) || workspace.iter().any(|place| is_here(place))
        };
        let refused = match profile {
            Profile::None | Profile::Default => None,
            Profile::WorkspaceWrite => {
                let is_inside = workspace.iter().any(|place| root.starts_with(place));
                if !workspace.is_empty() && !is_inside {
                    Some(root.to_owned())
                } else {
                    is_protected().then(|| root.join(path))
                }
            }
            Profile::ReadOnly => Some(root.to_owned()),
        };
        refused.map_or(Ok(()), |path| Err(Refused::Confined { tenant, profile, path }))
    }

    /// Passes the gate and acts, on a thread that may block.
    async fn with_file<T: Send + 'static>(
        &self,
        [tool, path]: [&str; 2],
        confined: fn(&Self, &Path, &str) -> Result<(), Refused>,
        act: impl FnOnce(&Place) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let (desk, tool, given) = (self.clone(), tool.to_owned(), path.to_owned());
        let work = move || {
            let cwd = &desk.yard.defaults().cwd;
            let confined = |root: &Path| confined(&desk, root, &given);
            let root = pass(&desk.yard.gate, [&tool, &given], cwd, &desk.caller, confined)?;
            act(&Place::new(root, cwd, &given)?)
        };
        let path = path.to_owned();
        match timeout(PATIENCE, spawn_blocking(work)).await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => Err(FileError::System { path, source: panic.into() }),
            Err(_) => Err(FileError::Slow { path, patience: PATIENCE }),
        }
    }
}
