//! What is to be done when children end that no job waits for.

use std::io;
use std::thread;
use std::time::Duration;

use crate::process::{guardian, host, spawner};
use crate::telemetry::events;

/// Ends of children that come close together are dealt with together.
const REAP_PAUSE: Duration = Duration::from_millis(250);

/// Reaps, for ever, what jobs left behind and we have adopted, and replaces a guardian or a spawner
/// that died.
///
/// A thread of its own takes the signals: a handler would interrupt another one for every job that ends.
pub(super) fn follow_children() -> io::Result<()> {
    thread::Builder::new().name("children".to_owned()).spawn(|| {
        loop {
            if let Err(error) = host::wait_for_a_child() {
                return events::children_unseen(&error);
            }
            thread::sleep(REAP_PAUSE);
            look_after_children();
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
