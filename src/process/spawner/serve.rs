//! The spawner's own life: one launch after the other.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, getpid, set_dumpable_behavior};
use rustix::thread::set_name;

use super::child::{self, Kit};
use super::files::Files;
use super::link::{self, Parcel};
use super::namespaces;
use super::raw::{self, Birth, Image};
use super::step::{Failure, Note, Step};
use super::wire::{Order, Shut};
use crate::confinement::Backend;
use crate::process::confine::seccomp::{self, CallRules, Filters};

/// The first argument that makes the program a spawner.
pub const SPAWNER_ARG: &str = "__spawner";

/// When memory is short, jobs go before their server does.
const OUT_OF_MEMORY_SCORE: i32 = 300;
const HIGHEST_SCORE: i32 = 1000;

/// Sets of filters that are kept compiled: there is one for each confinement that is in use.
const MOST_FILTERS: usize = 32;

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
    raw::default_broken_pipe();
    set_name(c"shellyard-spawn")?;
    // A higher score is for anybody to set; without it jobs and server are equals.
    raise_out_of_memory_score().ok();
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn raise_out_of_memory_score() -> io::Result<()> {
    const PLACE: &str = "/proc/self/oom_score_adj";
    let score: i32 = fs::read_to_string(PLACE)?.trim().parse().map_err(io::Error::other)?;
    fs::write(PLACE, score.saturating_add(OUT_OF_MEMORY_SCORE).min(HIGHEST_SCORE).to_string())
}

fn serve(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut store = FilterStore::default();
    while let Some(parcel) = link::receive_request(socket)? {
        let answer = bear(parcel, &mut store).unwrap_or_else(Note::Failed);
        link::send_answer(socket, answer)?;
    }
    Ok(())
}

/// Creates the first process of a launch. Its files are closed here afterwards.
fn bear(parcel: Parcel, store: &mut FilterStore) -> Result<Note, Failure> {
    let malformed = || Step::Request.failed(Errno::PROTO);
    let order = Order::decode(&parcel.bytes).ok_or_else(malformed)?;
    drop(parcel.bytes);
    let files = Files::sort(&order.files, parcel.files).ok_or_else(malformed)?;
    let filters = store.filters(&order.shut).map_err(|error| Step::Filter.failed(error))?;
    let image = Image::of(&order);
    let kit = Kit::new(&order, &files, &image, filters);
    match files.cgroup.as_ref().map(|cgroup| raw::bear_sibling_in(cgroup.as_fd())) {
        Some(Ok(Birth::New)) => begin(&Kit { cgroup: None, ..kit }),
        Some(Ok(Birth::Before(first))) => Ok(note(first, order.shut.backend)),
        // It goes there by itself.
        Some(Err(_)) | None => bear_outside(&kit).map_err(|errno| Step::Birth.failed(errno)),
    }
}

fn bear_outside(kit: &Kit<'_>) -> Result<Note, Errno> {
    match kit.shut().backend {
        Backend::Namespaces => match raw::bear_sibling()? {
            Birth::New => begin(kit),
            Birth::Before(maker) => Ok(Note::Maker(maker)),
        },
        Backend::Landlock | Backend::Seccomp | Backend::Nothing => {
            raw::bear_sibling_and_wait(begin, kit).map(Note::Leader)
        }
    }
}

/// The life of the first process of a launch.
fn begin(kit: &Kit<'_>) -> ! {
    match kit.shut().backend {
        Backend::Namespaces => namespaces::make(kit),
        Backend::Landlock | Backend::Seccomp | Backend::Nothing => child::live(kit),
    }
}

/// What the first process of a launch is.
const fn note(first: Pid, backend: Backend) -> Note {
    match backend {
        Backend::Namespaces => Note::Maker(first),
        Backend::Landlock | Backend::Seccomp | Backend::Nothing => Note::Leader(first),
    }
}

/// Compiled filters by what they were made from.
#[derive(Debug, Default)]
struct FilterStore {
    known: Vec<(CallRules, Filters)>,
}

impl FilterStore {
    fn filters(&mut self, shut: &Shut) -> io::Result<&Filters> {
        let rules = rules(shut);
        let place = match self.known.iter().position(|(known, _)| *known == rules) {
            Some(place) => place,
            None => self.add(rules, shut.backend)?,
        };
        self.known.get(place).map(|(_, filters)| filters).ok_or_else(|| Errno::NOENT.into())
    }

    fn add(&mut self, rules: CallRules, backend: Backend) -> io::Result<usize> {
        if self.known.len() >= MOST_FILTERS {
            self.known.clear();
        }
        let filters = match backend {
            Backend::Nothing => Filters::default(),
            Backend::Namespaces | Backend::Landlock | Backend::Seccomp => seccomp::compile(&rules)?,
        };
        self.known.push((rules, filters));
        Ok(self.known.len() - 1)
    }
}

/// In a process namespace of its own a job has no number for any of us, and ours are its own.
fn rules(shut: &Shut) -> CallRules {
    let untouchable = match shut.backend {
        Backend::Namespaces => Vec::new(),
        Backend::Landlock | Backend::Seccomp | Backend::Nothing => {
            let own = getpid().as_raw_nonzero().get();
            shut.untouchable.iter().copied().chain([own, -own]).collect()
        }
    };
    CallRules { confinement: shut.confinement, untouchable }
}
