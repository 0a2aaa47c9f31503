//! The spawner's own life: one launch after the other.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::set_name;

use super::files::Received;
use super::link::{self, Parcel};
use super::namespaces;
use super::note::Note;
use super::raw::{self, Birth};
use super::wire;
use crate::birth::{Failure, Kit, Step};
use crate::oom_score;

/// The first argument that makes the program a spawner.
pub const SPAWNER_ARG: &str = "__spawner";

/// Is the spawner, if the program's arguments (its name left out) say so: creates what the server
/// asks for until the server is gone, and says how to exit. `None` for every other call.
///
/// To be called before anything else in `main`: a spawner has one thread.
pub fn spawner_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    args.into_iter().next().filter(|first| first == SPAWNER_ARG)?;
    let served = settle_in().and_then(|()| Ok(serve(rustix::stdio::stdin())?));
    Some(if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What every job inherits is set here once, not in each of them.
fn settle_in() -> io::Result<()> {
    raw::close_from(3);
    set_name(c"shellyard-spawn")?;
    // A higher score is for anybody to set; without it jobs and server are equals.
    oom_score::raise_for_good().ok();
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn serve(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    while let Some(parcel) = link::receive_request(socket)? {
        let answer = bear(parcel).unwrap_or_else(Note::Failed);
        link::send_answer(socket, answer)?;
    }
    Ok(())
}

/// Creates the maker of a launch. Its files are closed here afterwards.
fn bear(parcel: Parcel) -> Result<Note, Failure> {
    let malformed = || Step::Request.failed(Errno::PROTO);
    let (order, roles) = wire::decode(&parcel.bytes).ok_or_else(malformed)?;
    drop(parcel.bytes);
    let files = Received::sort(&roles, parcel.files).ok_or_else(malformed)?;
    let kit = Kit::pack(&order, files.of_leader())?;
    match files.cgroup.as_ref().map(|cgroup| raw::bear_sibling_in(cgroup.as_fd())) {
        Some(Ok(Birth::New)) => namespaces::make(&kit, &files),
        Some(Ok(Birth::Before(maker))) => Ok(Note::Maker(maker)),
        Some(Err(_)) | None => bear_outside(kit, &files),
    }
}

/// Creates a maker that goes into its cgroup by itself.
fn bear_outside<'a>(mut kit: Kit<'a>, files: &'a Received) -> Result<Note, Failure> {
    kit.cgroup = files.cgroup.as_ref().map(OwnedFd::as_fd);
    match raw::bear_sibling().map_err(|errno| Step::Birth.failed(errno))? {
        Birth::New => namespaces::make(&kit, files),
        Birth::Before(maker) => Ok(Note::Maker(maker)),
    }
}
