//! The three processes of a launch with namespaces.
//!
//! The *maker* leaves the server's namespaces for new ones and looks after the file system in them.
//! A process can put only its children into a process namespace: so it bears two siblings there, the
//! *init*, with which the namespace ends, and the leader. Then it is gone.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{DumpableBehavior, chdir, getcwd, getgid, getuid, set_dumpable_behavior};
use rustix::thread::{UnshareFlags, set_name, set_no_new_privs};

use super::child::{self, Kit, Standard};
use super::raw::{self, Birth};
use super::step::{Failure, Note, Step};
use crate::confinement::Network;
use crate::process::confine::{capabilities, mounts};

/// The life of a maker.
pub(super) fn make(kit: &Kit<'_>) -> ! {
    match try_make(kit) {
        Ok(()) => raw::leave(0),
        Err(failure) => kit.give_up(failure),
    }
}

fn try_make(kit: &Kit<'_>) -> Result<(), Failure> {
    kit.enter_cgroup()?;
    let standard = Standard::open(kit)?;
    // Before the new mount namespace, where this directory would still be the old one's.
    kit.enter_directory()?;
    let place = getcwd(Vec::new()).map_err(|errno| Step::Directory.failed(errno))?;
    leave_namespaces(kit.shut().confinement.network)?;
    standard.show_terminal().map_err(|errno| Step::Files.failed(errno))?;
    mounts::apply(&kit.shut().mounts).map_err(|error| Step::Mounts.failed(error))?;
    let place = Path::new(OsStr::from_bytes(place.to_bytes()));
    mounts::enter(kit.files.directory.as_fd(), place).map_err(|error| Step::Place.failed(error))?;
    let failed = |errno| Step::Birth.failed(errno);
    let init = match raw::bear_sibling().map_err(failed)? {
        Birth::New => keep_namespace(kit),
        Birth::Before(init) => init,
    };
    let leader = raw::bear_sibling_and_wait(lead, &(kit, &standard));
    // Both now: the server need not wake up for each.
    kit.tell(Note::Init(init));
    kit.tell(Note::Leader(leader.map_err(failed)?));
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
    map_users(user.as_raw(), group.as_raw()).map_err(|error| Step::UserMap.failed(error))
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
fn keep_namespace(kit: &Kit<'_>) -> ! {
    raw::ignore_children();
    let kept = hold_nothing_but_the_lifeline(kit);
    while kept.is_ok() {
        let mut nothing = [0; 8];
        match retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut nothing)) {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    raw::leave(0)
}

/// Jobs see this process, as their number 1: it has no files, no privileges and no open memory.
fn hold_nothing_but_the_lifeline(kit: &Kit<'_>) -> io::Result<()> {
    let lifeline = kit.files.lifeline.as_ref().ok_or(Errno::BADF)?;
    raw::give_number(lifeline.as_fd(), 0)?;
    raw::close_from(1);
    chdir("/")?;
    set_name(c"shellyard-init")?;
    set_no_new_privs(true)?;
    capabilities::give_up(kit.shut().confinement.profile)?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn lead((kit, standard): &(&Kit<'_>, &Standard)) -> ! {
    let Err(failure) = prepare_and_execute(kit, standard);
    kit.give_up(failure)
}

fn prepare_and_execute(kit: &Kit<'_>, standard: &Standard) -> Result<Infallible, Failure> {
    // The one who mounts it is the one whose process namespace it shows.
    mounts::own_proc().map_err(|error| Step::Processes.failed(error))?;
    child::become_leader(kit, standard)?;
    child::execute(kit)
}
