//! The three processes of a launch with namespaces.
//!
//! The *maker* leaves the server's namespaces for new ones and looks after the file system in them.
//! A process can put only its children into a process namespace: so it bears two siblings there, the
//! *init*, with which the namespace ends, and the leader. Then it is gone.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::io::retry_on_intr;
use rustix::process::{DumpableBehavior, chdir, getcwd, getgid, getuid, set_dumpable_behavior};
use rustix::thread::{UnshareFlags, set_name, set_no_new_privs};

use super::files::Received;
use super::note::Note;
use super::raw::{self, Birth};
use crate::birth::{
    Failure, Kit, Standard, Step, bear_sibling_and_wait, become_leader, execute, give_number, leave,
};
use crate::confine::{capabilities, landlock, mounts};
use crate::confinement::Network;

/// The life of a maker.
pub(super) fn make(kit: &Kit<'_>, files: &Received) -> ! {
    match try_make(kit, files) {
        Ok(()) => leave(0),
        Err(failure) => give_up(&files.notes, failure),
    }
}

/// Tells why there is no job, and ends.
fn give_up(notes: &OwnedFd, failure: Failure) -> ! {
    tell(notes, Note::Failed(failure));
    leave(1)
}

fn tell(notes: &OwnedFd, note: Note) {
    // Without a server nobody is interested, and the job ends with its pipes.
    retry_on_intr(|| rustix::io::write(notes, &note.encode())).ok();
}

fn try_make(kit: &Kit<'_>, files: &Received) -> Result<(), Failure> {
    kit.enter_cgroup()?;
    let standard = Standard::open(kit)?;
    // Before the new mount namespace, where this directory would still be the old one's.
    kit.enter_directory()?;
    let place = getcwd(Vec::new()).map_err(|errno| Step::Directory.failed(errno))?;
    leave_namespaces(kit.shut().confinement.network)?;
    standard.show_terminal().map_err(|errno| Step::Files.failed(errno))?;
    mounts::apply(&kit.shut().mounts).map_err(|error| Step::Mounts.failed(error))?;
    let place = Path::new(OsStr::from_bytes(place.to_bytes()));
    mounts::enter(kit.files.directory, place).map_err(|error| Step::Place.failed(error))?;
    // What it names must be what the job sees.
    let ruleset = kit.shut().file_rules().map(|rules| landlock::ruleset(&rules)).transpose();
    let ruleset = ruleset.map_err(|error| Step::Landlock.failed(error))?;
    let failed = |errno| Step::Birth.failed(errno);
    let init = match raw::bear_sibling().map_err(failed)? {
        Birth::New => keep_namespace(kit, files),
        Birth::Before(init) => init,
    };
    let ruleset = ruleset.as_ref().map(OwnedFd::as_fd);
    let leader = bear_sibling_and_wait(lead, &Part { kit, standard, ruleset, notes: &files.notes });
    // Both now: the server need not wake up for each.
    tell(&files.notes, Note::Init(init));
    tell(&files.notes, Note::Leader(leader.map_err(failed)?));
    Ok(())
}

fn leave_namespaces(network: Network) -> Result<(), Failure> {
    let (user, group) = (getuid(), getgid());
    let mut flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    match network {
        Network::On => {}
        Network::Off => flags |= UnshareFlags::NEWNET,
    }
    raw::unshare(flags).map_err(|errno| Step::Namespaces.failed(errno))?;
    map_users(user.as_raw(), group.as_raw()).map_err(|error| Step::UserMap.failed(error))?;
    match network {
        Network::On => Ok(()),
        // So that the servers of a job's own tests can be reached, by the job alone.
        Network::Off => raw::bring_up_loopback().map_err(|errno| Step::Network.failed(errno)),
    }
}

/// Makes our user and group, and no others, those of the namespace.
fn map_users(user: u32, group: u32) -> io::Result<()> {
    // The files in /proc of a process that is not dumpable are root's.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn write(path: &str, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// The life of an init: it waits until the server closes the lifeline, or is no more. With it ends
/// every process of the namespace.
fn keep_namespace(kit: &Kit<'_>, files: &Received) -> ! {
    raw::ignore_children();
    let kept = hold_nothing_but_the_lifeline(kit, files);
    while kept.is_ok() {
        let mut nothing = [0; 8];
        match retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut nothing)) {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    leave(0)
}

/// Jobs see this process, as their number 1: it has no files, no privileges and no open memory.
fn hold_nothing_but_the_lifeline(kit: &Kit<'_>, files: &Received) -> io::Result<()> {
    // While it holds the notes: who has heard them to their end finds no second spawner.
    set_name(c"shellyard-init")?;
    give_number(files.lifeline.as_fd(), 0)?;
    raw::close_from(1);
    chdir("/")?;
    set_no_new_privs(true)?;
    capabilities::give_up(kit.shut().confinement.profile)?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// What a leader works with.
#[derive(Debug)]
struct Part<'a> {
    kit: &'a Kit<'a>,
    standard: Standard,
    ruleset: Option<BorrowedFd<'a>>,
    notes: &'a OwnedFd,
}

fn lead(part: &Part<'_>) -> ! {
    let Err(failure) = prepare_and_execute(part);
    give_up(part.notes, failure)
}

fn prepare_and_execute(part: &Part<'_>) -> Result<Infallible, Failure> {
    // The one who mounts it is the one whose process namespace it shows.
    mounts::own_proc().map_err(|error| Step::Processes.failed(error))?;
    become_leader(part.kit, &part.standard)?;
    execute(part.kit, part.ruleset)
}
