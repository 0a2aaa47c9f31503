//! Sending signals to processes that were looked up, and ending many for certain.

use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::children;
use super::proc_scan::{self, Stat, State};

const FREEZE_ROUNDS: u32 = 50;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Sends a signal to the very process that was seen, never to a later one with its number.
pub(super) fn send(target: &Stat, signal: Signal) -> Result<(), Errno> {
    if target.pid == getpid() || target.pid == Pid::INIT {
        return Err(Errno::PERM);
    }
    // The descriptor holds on to one process; if that one is the one that was seen, it stays so.
    let process = pidfd_open(target.pid, PidfdFlags::empty())?;
    match proc_scan::stat(target.pid) {
        Some(now) if now.started == target.started => pidfd_send_signal(process, signal),
        Some(_) | None => Err(Errno::SRCH),
    }
}

/// Ends every process that `find` gives, and whatever those start meanwhile. Blocks.
///
/// They are stopped first, until nobody new turns up: who is stopped cannot start others. Returns
/// those that are still alive when none has ended for as long as `limit`, by a last scan.
pub(super) fn end_all(find: impl Fn() -> Vec<Stat>, limit: Duration) -> Vec<u32> {
    freeze(&find);
    let mut deadline = Instant::now() + limit;
    let mut fewest = usize::MAX;
    let mut pause = FIRST_PAUSE;
    let mut empty_scans = 0;
    loop {
        let found = find();
        reap(&found);
        let alive: Vec<_> = found.iter().filter(|stat| stat.alive()).collect();
        // One scan may miss who was just being handed from a dying parent to us.
        empty_scans = if alive.is_empty() { empty_scans + 1 } else { 0 };
        // The thousands of a fork bomb take their time to end.
        if alive.len() < fewest {
            fewest = alive.len();
            deadline = Instant::now() + limit;
        }
        if empty_scans == 2 || Instant::now() >= deadline {
            return alive.iter().map(|stat| number(stat.pid)).collect();
        }
        for stat in &alive {
            // Gone already, or not ours to signal: the next scan tells.
            send(stat, Signal::KILL).ok();
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Stops everybody, in rounds, until a scan finds nobody who still moves.
pub(super) fn freeze(find: &impl Fn() -> Vec<Stat>) {
    for _ in 0..FREEZE_ROUNDS {
        let found = find();
        let moving = found.iter().filter(|stat| stat.state == State::Active);
        if moving.filter(|stat| send(stat, Signal::STOP).is_ok()).count() == 0 {
            return;
        }
    }
}

/// Reaps the dead among those that fell to us, so that they do not fill the process table.
fn reap(found: &[Stat]) {
    let own = number_of_server();
    let dead = found.iter().filter(|stat| !stat.alive() && stat.parent == own);
    let dead: Vec<_> = dead.map(|stat| stat.pid).collect();
    children::reap_adopted(&dead);
}

fn number_of_server() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// A process id as the other rooms know it.
pub(super) fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
