//! The thread that reaps orphaned children, and scans the process trees of jobs while they run.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::process::{
    Host, ProcessRecord, TreeScan, newest_task_id, thread_cpu_time, wait_for_child_exit,
};
use crate::telemetry::events;

/// The pause after a child has ended: children that end within it are reaped together.
const REAP_PAUSE: Duration = Duration::from_millis(250);

/// The longest time between two checks for new processes, while jobs run and no process starts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Scans take at most one part in this many of one processor's time, however often they are due.
const SHARE: u32 = 50;

/// Starts the thread. Until the server ends, it reaps the orphans that the server has adopted, replaces
/// a guardian or a spawner that died, and updates the record of the processes of jobs.
///
/// A dedicated thread waits for SIGCHLD: a signal handler would interrupt another thread for every job
/// that ends.
pub(super) fn start_child_reaper(host: Arc<Host>, record: Option<ProcessRecord>) -> io::Result<()> {
    let mut trees = TreeScanner { host, record, newest_process: None, schedule: None };
    thread::Builder::new().name("children".to_owned()).spawn(move || {
        loop {
            let limit = trees.schedule.map(|schedule| schedule.wait(Instant::now()));
            match wait_for_child_exit(limit) {
                Ok(true) => {
                    thread::sleep(REAP_PAUSE);
                    reap_and_restart_helpers(&trees.host);
                    trees.scan_if_due(Event::ChildEnded);
                }
                Ok(false) => trees.scan_if_due(trees.timer_event()),
                Err(error) => return events::child_exits_unseen(&error),
            }
        }
    })?;
    Ok(())
}

/// Reaps the children that no job waits for, and replaces the server's helpers among them.
fn reap_and_restart_helpers(host: &Host) {
    let reaped = host.reap_orphans();
    if reaped > 0 {
        events::orphans_reaped(reaped as u64);
    }
    let failures = host.take_oom_score_failures();
    if failures > 0 {
        events::oom_scores_failed(failures);
    }
    match host.guardian().restart_if_dead() {
        Ok(false) => {}
        Ok(true) => events::guardian_restarted(),
        Err(error) => events::guardian_not_started(&error),
    }
    match host.spawner().restart_if_dead() {
        Ok(false) => {}
        Ok(true) => events::spawner_restarted(),
        // The next launch tries again, and reports a failure.
        Err(error) => events::spawner_not_started(&error),
    }
}

/// The scanner of the process trees of all jobs.
struct TreeScanner {
    host: Arc<Host>,
    record: Option<ProcessRecord>,
    /// The newest process id at the last scan, if that scan attributed every process.
    newest_process: Option<u64>,
    /// The time of the next scan; `None` while there is no job.
    schedule: Option<Schedule>,
}

impl TreeScanner {
    /// Returns the event for a wait that is over. If no process has started since the last scan, another
    /// scan would find nothing new.
    fn timer_event(&self) -> Event {
        let has_new_process =
            self.newest_process.is_none() || self.newest_process != newest_task_id();
        Event::TimePassed { has_new_process }
    }

    fn scan_if_due(&mut self, event: Event) {
        let now = Instant::now();
        // Without jobs, a scan returns at once.
        if self.schedule.as_mut().is_none_or(|schedule| schedule.decide(event, now)) {
            self.scan();
        }
    }

    fn scan(&mut self) {
        // CPU time, not wall time: next to busy jobs this thread waits for a processor.
        let started = thread_cpu_time();
        let newest_process = newest_task_id();
        let Some(scan) = self.host.scan_trees() else {
            self.schedule = None;
            return self.update_record(TreeScan::default());
        };
        self.newest_process = newest_process.filter(|_| scan.is_conclusive);
        if scan.ended_orphans > 0 {
            events::unattributed_processes_ended(scan.ended_orphans as u64);
        }
        self.update_record(scan);
        let cost = thread_cpu_time().saturating_sub(started);
        self.schedule = Some(Schedule::after_scan(Instant::now(), cost));
    }

    fn update_record(&mut self, scan: TreeScan) {
        if let Some(Err(error)) = self.record.as_mut().map(|record| record.update(scan)) {
            events::process_record_not_written(&error);
        }
    }
}

/// An event that may make a scan due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A child of the server has ended, so the server may have adopted its children.
    ChildEnded,
    /// The time that [`Schedule::wait`] gave is over.
    TimePassed { has_new_process: bool },
}

/// Decides when the trees are scanned next. Pure: the caller passes the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Schedule {
    /// The earliest time of the next scan: before it, scans would take more than their share.
    earliest: Instant,
    /// The time of the next check for new processes.
    next_check: Instant,
    /// The time from the last check or scan to the next check.
    pause: Duration,
    /// `true` if a child has ended since the last scan.
    has_unscanned_exit: bool,
}

impl Schedule {
    /// Plans the next scan after one that ended at `ended` and took `cost` of CPU time.
    fn after_scan(ended: Instant, cost: Duration) -> Self {
        let pause = REAP_PAUSE.max(cost * SHARE);
        Self {
            earliest: ended + pause,
            next_check: ended + pause,
            pause,
            has_unscanned_exit: false,
        }
    }

    /// The time from `now` until [`Event::TimePassed`] is due.
    fn wait(&self, now: Instant) -> Duration {
        let next = if self.has_unscanned_exit { self.earliest } else { self.next_check };
        next.saturating_duration_since(now)
    }

    /// Handles an event; `true` if the trees must be scanned now.
    fn decide(&mut self, event: Event, now: Instant) -> bool {
        let has_new_process = match event {
            Event::ChildEnded => {
                self.has_unscanned_exit = true;
                false
            }
            Event::TimePassed { has_new_process } => has_new_process,
        };
        if now < self.earliest {
            return false;
        }
        let is_due = self.has_unscanned_exit || has_new_process;
        if !is_due {
            self.pause = (self.pause * 2).min(LONGEST_PAUSE.max(self.pause));
            self.next_check = now + self.pause;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Counts the scans in ten minutes in which children end all the time; each scan takes `cost`.
    fn scans_beside_ending_children(cost: Duration) -> u32 {
        let start = Instant::now();
        let mut now = start;
        let mut scans = 0;
        let mut schedule = Schedule::after_scan(now, cost);
        while now < start + Duration::from_secs(600) {
            // The thread sleeps this long after each signal.
            now += REAP_PAUSE;
            if schedule.decide(Event::ChildEnded, now) {
                scans += 1;
                now += cost;
                schedule = Schedule::after_scan(now, cost);
            }
        }
        scans
    }

    #[test]
    fn scans_keep_to_their_share_of_cpu_time_however_many_children_end() {
        for cost in [ms(1), ms(20), ms(100), ms(700)] {
            let scans = scans_beside_ending_children(cost);
            assert!(scans > 0, "{cost:?}");
            assert!(
                cost * scans * SHARE <= Duration::from_secs(600) + cost * SHARE,
                "{cost:?}: {scans}"
            );
        }
    }

    #[test]
    fn a_scan_that_comes_too_early_is_made_up_later() {
        let start = Instant::now();
        let mut schedule = Schedule::after_scan(start, ms(20));
        assert!(!schedule.decide(Event::ChildEnded, start + ms(400)));
        assert_eq!(schedule.wait(start + ms(400)), ms(600));
        let time_passed = Event::TimePassed { has_new_process: false };
        assert!(
            schedule.decide(time_passed, start + ms(1000)),
            "due because of the ended child alone"
        );
    }

    #[test]
    fn checks_become_rare_while_no_process_starts_and_an_ended_child_still_causes_a_scan() {
        let mut now = Instant::now();
        let mut schedule = Schedule::after_scan(now, ms(1));
        for expected in [250, 500, 1000, 1000] {
            assert_eq!(schedule.wait(now), ms(expected));
            now += ms(expected);
            assert!(!schedule.decide(Event::TimePassed { has_new_process: false }, now));
        }
        let mut other = schedule;
        assert!(schedule.decide(Event::ChildEnded, now + ms(1)));
        assert!(other.decide(Event::TimePassed { has_new_process: true }, now + ms(1000)));
    }
}
