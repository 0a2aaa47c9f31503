//! The thread that reaps children which no job waits for, and scans the trees of jobs while they run.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::process::{
    Host, ProcessRecord, TreeScan, newest_task_id, thread_cpu_time, wait_for_child_exit,
};
use crate::telemetry::events;

/// Ends of children that come close together are dealt with together.
const REAP_PAUSE: Duration = Duration::from_millis(250);

/// The longest time between two checks of whether a process has begun, while jobs run and none does.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Scans take at most one part in so many of one processor's time, whatever brings them about.
const SHARE: u32 = 50;

/// Reaps, for ever, what jobs left behind and we have adopted, replaces a guardian or a spawner
/// that died, and keeps the record of the processes of jobs while there are any.
///
/// A thread of its own takes the signals: a handler would interrupt another one for every job that ends.
pub(super) fn follow_children(host: Arc<Host>, record: Option<ProcessRecord>) -> io::Result<()> {
    let mut trees = Trees { host, record, newest: None, schedule: None };
    thread::Builder::new().name("children".to_owned()).spawn(move || {
        loop {
            let limit = trees.schedule.map(|schedule| schedule.wait(Instant::now()));
            match wait_for_child_exit(limit) {
                Ok(true) => {
                    thread::sleep(REAP_PAUSE);
                    reap_and_renew(&trees.host);
                    trees.scan_if_due(Event::ChildEnded);
                }
                Ok(false) => trees.scan_if_due(trees.time_passed()),
                Err(error) => return events::child_exits_unseen(&error),
            }
        }
    })?;
    Ok(())
}

/// Reaps the children that nobody waits for, and replaces helpers of ours that were among them.
fn reap_and_renew(host: &Host) {
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
        // The next launch tries again, and says so if it fails.
        Err(error) => events::spawner_not_started(&error),
    }
}

/// The trees of all jobs, between two scans of them.
struct Trees {
    host: Arc<Host>,
    record: Option<ProcessRecord>,
    /// The newest process at the last scan, where that scan left nothing open.
    newest: Option<u64>,
    /// The time of the next scan; `None` while there is no job.
    schedule: Option<Schedule>,
}

impl Trees {
    /// The event of a wait that is over. If no process began since the last scan, another would find nothing new.
    fn time_passed(&self) -> Event {
        let has_begun = self.newest.is_none() || self.newest != newest_task_id();
        Event::TimePassed { has_begun }
    }

    fn scan_if_due(&mut self, event: Event) {
        let now = Instant::now();
        // Without a job it costs nothing to find that there is none.
        if self.schedule.as_mut().is_none_or(|schedule| schedule.decide(event, now)) {
            self.scan();
        }
    }

    fn scan(&mut self) {
        // By CPU time: beside busy jobs it takes long until this thread gets a processor.
        let begun = thread_cpu_time();
        let newest = newest_task_id();
        let Some(scan) = self.host.scan_trees() else {
            self.schedule = None;
            return self.note(TreeScan::default());
        };
        self.newest = newest.filter(|_| scan.is_conclusive);
        if scan.ended_orphans > 0 {
            events::unattributed_processes_ended(scan.ended_orphans as u64);
        }
        self.note(scan);
        let cost = thread_cpu_time().saturating_sub(begun);
        self.schedule = Some(Schedule::after_scan(Instant::now(), cost));
    }

    fn note(&mut self, scan: TreeScan) {
        if let Some(Err(error)) = self.record.as_mut().map(|record| record.update(scan)) {
            events::process_record_not_written(&error);
        }
    }
}

/// The reason to think about a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A child of the server has ended: its children may have been adopted.
    ChildEnded,
    /// The time that [`Schedule::wait`] gave is over.
    TimePassed { has_begun: bool },
}

/// Decides when the trees are scanned next. Pure: it is told the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Schedule {
    /// Before this moment the scans would take more than their share of a processor.
    earliest: Instant,
    /// The moment of the next check of whether a process has begun.
    next_check: Instant,
    /// The time between the last such check, or the scan, and the next one.
    pause: Duration,
    /// `true` if a child has ended since the last scan.
    is_owed: bool,
}

impl Schedule {
    /// Plans the next scan after one that ended at this moment and cost so much of a processor's time.
    fn after_scan(ended: Instant, cost: Duration) -> Self {
        let pause = REAP_PAUSE.max(cost * SHARE);
        Self { earliest: ended + pause, next_check: ended + pause, pause, is_owed: false }
    }

    /// The time from `now` on after which [`Event::TimePassed`] is to be told.
    fn wait(&self, now: Instant) -> Duration {
        let next = if self.is_owed { self.earliest } else { self.next_check };
        next.saturating_duration_since(now)
    }

    /// Takes an event, and returns `true` if the trees are to be scanned now.
    fn decide(&mut self, event: Event, now: Instant) -> bool {
        let has_begun = match event {
            Event::ChildEnded => {
                self.is_owed = true;
                false
            }
            Event::TimePassed { has_begun } => has_begun,
        };
        if now < self.earliest {
            return false;
        }
        let is_due = self.is_owed || has_begun;
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

    /// The scans in ten minutes in which children end all the time, each at this cost.
    fn scans_beside_ending_children(cost: Duration) -> u32 {
        let start = Instant::now();
        let (mut now, mut scans) = (start, 0);
        let mut schedule = Schedule::after_scan(now, cost);
        while now < start + Duration::from_secs(600) {
            // The thread sleeps for so long after each such signal.
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
    fn scans_keep_to_their_share_however_many_children_end() {
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
    fn a_scan_that_is_not_due_yet_is_made_up_for() {
        let start = Instant::now();
        let mut schedule = Schedule::after_scan(start, ms(20));
        assert!(!schedule.decide(Event::ChildEnded, start + ms(400)));
        assert_eq!(schedule.wait(start + ms(400)), ms(600));
        let time_passed = Event::TimePassed { has_begun: false };
        assert!(schedule.decide(time_passed, start + ms(1000)), "no other process has begun");
    }

    #[test]
    fn checks_become_rare_while_no_process_begins_and_a_child_that_ends_is_still_heard() {
        let mut now = Instant::now();
        let mut schedule = Schedule::after_scan(now, ms(1));
        for expected in [250, 500, 1000, 1000] {
            assert_eq!(schedule.wait(now), ms(expected));
            now += ms(expected);
            assert!(!schedule.decide(Event::TimePassed { has_begun: false }, now));
        }
        let mut other = schedule;
        assert!(schedule.decide(Event::ChildEnded, now + ms(1)));
        assert!(other.decide(Event::TimePassed { has_begun: true }, now + ms(1000)));
    }
}
