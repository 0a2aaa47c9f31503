//! The files that come along with a launch, and what each is for.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use crate::birth::Files;

/// What a file that comes along is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
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

    /// The files of a new process, and the directory of its cgroup, each with what it is for.
    pub(super) fn list<'a>(
        files: Files<'a>,
        cgroup: Option<BorrowedFd<'a>>,
    ) -> impl Iterator<Item = (Self, BorrowedFd<'a>)> {
        let Files { directory, stdin, stdout, stderr, report } = files;
        let all = [
            (Self::Directory, Some(directory)),
            (Self::Stdin, stdin),
            (Self::Stdout, stdout),
            (Self::Stderr, stderr),
            (Self::Report, report),
            (Self::Cgroup, cgroup),
        ];
        all.into_iter().filter_map(|(role, file)| Some((role, file?)))
    }
}

/// The files of one launch, as the spawner has them.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) notes: OwnedFd,
    directory: OwnedFd,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    report: Option<OwnedFd>,
    pub(super) cgroup: Option<OwnedFd>,
    pub(super) lifeline: OwnedFd,
}

impl Received {
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
        let (notes, directory, lifeline) = (notes?, directory?, lifeline?);
        Some(Self { notes, directory, stdin, stdout, stderr, report, cgroup, lifeline })
    }

    /// Those that the leader starts with.
    pub(super) fn of_leader(&self) -> Files<'_> {
        Files {
            directory: self.directory.as_fd(),
            stdin: self.stdin.as_ref().map(OwnedFd::as_fd),
            stdout: self.stdout.as_ref().map(OwnedFd::as_fd),
            stderr: self.stderr.as_ref().map(OwnedFd::as_fd),
            report: self.report.as_ref().map(OwnedFd::as_fd),
        }
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
        let roles = [Role::Stderr, Role::Lifeline, Role::Directory, Role::Notes];
        let files = Received::sort(&roles, roles.map(|_| file()).into()).unwrap();
        assert!(files.stderr.is_some() && files.stdout.is_none() && files.cgroup.is_none());
    }

    #[test]
    fn no_launch_without_a_place_and_a_way_to_tell() {
        let needed = [Role::Notes, Role::Directory, Role::Lifeline];
        assert!(Received::sort(&needed, needed.map(|_| file()).into()).is_some());
        for missing in 0..needed.len() {
            let mut some = needed.to_vec();
            some.remove(missing);
            assert!(Received::sort(&some, vec![file(), file()]).is_none(), "{some:?}");
        }
        assert!(Received::sort(&needed, vec![file(), file()]).is_none());
    }

    #[test]
    fn a_role_is_its_place_in_the_list() {
        for (place, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(role as usize, place);
        }
    }
}
