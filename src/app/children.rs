//! What is to be done when children end that no job waits for, and while jobs run.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{
    ProcessRecord, TreesLook, guardian, host, look_at_trees, newest_number, spawner,
};
use crate::telemetry::events;

/// Ends of children that come close together are dealt with together.
const REAP_PAUSE: Duration = Duration::from_millis(250);

/// The longest time between two looks at the trees while jobs run and no process begins.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The looks at all trees take at most one part in so many of one processor's time.
const SHARE: u32 = 50;

/// Reaps, for ever, what jobs left behind and we have adopted, replaces a guardian or a spawner
/// that died, and keeps the record of the processes of jobs while there are any.
///
/// A thread of its own takes the signals: a handler would interrupt another one for every job that ends.
pub(super) fn follow_children(record: Option<ProcessRecord>) -> io::Result<()> {
    let mut trees = Trees { record, newest: None, pause: None };
    thread::Builder::new().name("children".to_owned()).spawn(move || {
        loop {
            match host::wait_for_a_child(trees.pause) {
                Ok(true) => {
                    thread::sleep(REAP_PAUSE);
                    look_after_children();
                    trees.look();
                }
                Ok(false) => trees.look_if_some_began(),
                Err(error) => return events::children_unseen(&error),
            }
        }
    })?;
    Ok(())
}

fn look_after_children() {
    let reaped = host::reap_orphans();
    if reaped > 0 {
        events::orphans_reaped(reaped as u64);
    }
    match guardian::renew() {
        Ok(false) => {}
        Ok(true) => events::guardian_renewed(),
        Err(error) => events::guardian_missing(&error),
    }
    match spawner::renew() {
        Ok(false) => {}
        Ok(true) => events::spawner_renewed(),
        // The next launch tries again, and says so if it fails.
        Err(error) => events::spawner_missing(&error),
    }
}

/// The trees of all jobs, between two looks at them.
struct Trees {
    record: Option<ProcessRecord>,
    /// The newest process at the last look, where that look left nothing open.
    newest: Option<u64>,
    /// The time to the next look; `None` while there is no job.
    pause: Option<Duration>,
}

impl Trees {
    fn look(&mut self) {
        let (begun, newest) = (Instant::now(), newest_number());
        let Some(look) = look_at_trees() else {
            self.pause = None;
            return self.note(TreesLook::default());
        };
        self.newest = newest.filter(|_| look.is_settled);
        self.pause = Some(REAP_PAUSE.max(begun.elapsed() * SHARE));
        if look.ended_orphans > 0 {
            events::unattributed_ended(look.ended_orphans as u64);
        }
        self.note(look);
    }

    /// Where no process began since the last look, another would find nothing new.
    fn look_if_some_began(&mut self) {
        if self.newest.is_some() && self.newest == newest_number() {
            self.pause = self.pause.map(|pause| (pause * 2).min(LONGEST_PAUSE.max(pause)));
        } else {
            self.look();
        }
    }

    fn note(&mut self, look: TreesLook) {
        if let Some(Err(error)) = self.record.as_mut().map(|record| record.update(look)) {
            events::record_missing(&error);
        }
    }
}
