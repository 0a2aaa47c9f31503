//! The files that come along with a launch, and what each is for.

use std::os::fd::OwnedFd;

/// What a file that comes along is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) enum Role {
    /// Where the new processes tell what became of them; it closes when the leader is its program.
    Notes,
    /// The directory in which the job runs.
    Directory,
    Stdin,
    Stdout,
    Stderr,
    /// Where a shell leaves the exit codes of its last pipeline.
    Report,
    /// The directory of the job's cgroup.
    Cgroup,
    /// Closes when the server is gone, or wants the namespace to end.
    Lifeline,
}

impl Role {
    pub(super) const ALL: [Self; 8] = [
        Self::Notes,
        Self::Directory,
        Self::Stdin,
        Self::Stdout,
        Self::Stderr,
        Self::Report,
        Self::Cgroup,
        Self::Lifeline,
    ];
}

/// The files of one launch, as the spawner has them.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) notes: OwnedFd,
    pub(super) directory: OwnedFd,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
    pub(super) report: Option<OwnedFd>,
    pub(super) cgroup: Option<OwnedFd>,
    pub(super) lifeline: Option<OwnedFd>,
}

impl Files {
    /// The files by what they are for; nothing where one is missing that every launch has.
    pub(super) fn sort(roles: &[Role], files: Vec<OwnedFd>) -> Option<Self> {
        let mut by_role = [const { None }; Role::ALL.len()];
        if roles.len() != files.len() {
            return None;
        }
        for (role, file) in roles.iter().zip(files) {
            *by_role.get_mut(*role as usize)? = Some(file);
        }
        let [notes, directory, stdin, stdout, stderr, report, cgroup, lifeline] = by_role;
        let (notes, directory) = (notes?, directory?);
        Some(Self { notes, directory, stdin, stdout, stderr, report, cgroup, lifeline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn each_file_goes_where_it_belongs() {
        let roles = [Role::Stderr, Role::Directory, Role::Notes];
        let files = Files::sort(&roles, roles.map(|_| file()).into()).unwrap();
        assert!(files.stderr.is_some() && files.stdout.is_none() && files.lifeline.is_none());
    }

    #[test]
    fn no_launch_without_a_place_and_a_way_to_tell() {
        assert!(Files::sort(&[Role::Notes], vec![file()]).is_none());
        assert!(Files::sort(&[Role::Directory], vec![file()]).is_none());
        assert!(Files::sort(&[Role::Notes, Role::Directory], vec![file()]).is_none());
    }

    #[test]
    fn a_role_is_its_place_in_the_list() {
        for (place, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(role as usize, place);
        }
    }
}
