//! Recognises processes that belong to the jobs of other servers of this program.
//!
//! A server adopts whatever its jobs leave behind, so that a process of a job has the server among its
//! ancestors, also after `setsid` or a double fork. Neither the program nor the name of a server can be
//! changed by its jobs. The program of another server can be read by root alone, since servers cannot
//! be inspected; everybody can read the name.

use std::fs;

use rustix::process::{Pid, getpid};

use super::processes;

/// The most generations that are examined.
const MAX_DEPTH: usize = 1000;

/// The beginning of the names of all our processes.
const OWN_NAME: &str = "shellyard";

/// The most walks that are tried while ancestors end during one.
const ATTEMPTS: usize = 16;

/// `true` if an ancestor of a process runs this program and is not an ancestor of this server, too. A
/// process whose ancestors cannot be read counts as one.
pub(crate) fn descends_from_program(pid: Pid) -> bool {
    let own = list_ancestors(getpid()).unwrap_or_default();
    let (program, name) = (identify_program("self"), read_name("self"));
    let is_other_server = |ancestor: &Pid| {
        let ancestor = ancestor.to_string();
        let ancestor_name = read_name(&ancestor);
        identify_program(&ancestor).is_some_and(|other| Some(other) == program)
            || ancestor_name.is_some_and(|other| other.starts_with(OWN_NAME) || Some(other) == name)
    };
    let ancestors = (0..ATTEMPTS).find_map(|_| list_ancestors(pid));
    ancestors.is_none_or(|ancestors| {
        ancestors.iter().take_while(|ancestor| !own.contains(ancestor)).any(is_other_server)
    })
}

/// Lists the ancestors of a process, the parent first; `None` if one of them ended meanwhile.
fn list_ancestors(pid: Pid) -> Option<Vec<Pid>> {
    let mut ancestors = Vec::new();
    let mut current = processes::stat(pid)?;
    while current.parent > 1 && ancestors.len() < MAX_DEPTH {
        let parent = processes::stat(Pid::from_raw(current.parent)?)?;
        ancestors.push(parent.pid);
        current = parent;
    }
    Some(ancestors)
}

/// Returns the file name of the program that a process runs, without the sign of a replaced file:
/// another version of this program is this program, too.
fn identify_program(process: &str) -> Option<String> {
    let path = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(name.trim_end_matches(" (deleted)").to_owned())
}

/// Returns the name of a process, which is that of its program unless the process changed it.
fn read_name(process: &str) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_of_this_process_are_listed_from_the_parent_on() {
        let ancestors = list_ancestors(getpid()).unwrap();
        let parent = rustix::process::getppid().filter(|parent| !parent.is_init());
        assert_eq!(ancestors.first().copied(), parent);
        assert!(identify_program("self").is_some());
        assert_eq!(identify_program("0"), None);
    }

    #[test]
    fn a_child_of_this_program_counts_as_a_job_and_its_ancestors_do_not() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(descends_from_program(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        for ancestor in list_ancestors(getpid()).unwrap() {
            assert!(!descends_from_program(ancestor), "{ancestor}");
        }
    }
}
