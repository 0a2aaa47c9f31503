//! Looks at the system's pressure, and tells the supervisor when it holds starts back.

use tokio::sync::watch;
use tokio::time::sleep;

use super::door::Supervisor;
use super::pressure::{Pressure, PressureWatch, Resource, read_pressure};
use crate::process::load::PressureError;
use crate::telemetry::events;

/// What is watched, and what was told of it so far: only changes are logged.
#[derive(Debug)]
pub(super) struct Sampler {
    supervisor: Supervisor,
    wishes: watch::Receiver<PressureWatch>,
    watched: PressureWatch,
    held: Option<Pressure>,
    unknown: Option<PressureError>,
}

impl Sampler {
    /// Has looked once already, so that no job slips in before.
    pub(super) fn new(supervisor: Supervisor, wishes: watch::Receiver<PressureWatch>) -> Self {
        let watched = *wishes.borrow();
        let mut sampler = Self { supervisor, wishes, watched, held: None, unknown: None };
        sampler.begin();
        sampler
    }

    /// Watches until nobody can change any more what is watched. Without a level nothing is read.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                changed = self.wishes.changed() => match changed {
                    Ok(()) => self.begin(),
                    Err(_) => return,
                },
                () = sleep(self.watched.every), if self.watched.levels.is_any() => self.look(),
            }
        }
    }

    fn begin(&mut self) {
        self.watched = *self.wishes.borrow_and_update();
        for resource in Resource::ALL {
            events::pressure_level_known(resource, self.watched.levels.of(resource));
            // What is no longer read must not stand there as if it were.
            events::pressure_measured(resource, 0);
        }
        self.look();
    }

    fn look(&mut self) {
        let levels = self.watched.levels;
        let readings = if levels.is_any() { self.read() } else { Vec::new() };
        let held = levels.hold(self.held, &readings);
        self.supervisor.set_pressure(held);
        if held == self.held {
            return;
        }
        match (self.held, held) {
            (None, Some(Pressure { resource, percent })) => events::starts_held(resource, percent),
            (Some(_), None) => events::starts_go_on(),
            (Some(_), Some(_)) | (None, None) => {}
        }
        self.held = held;
    }

    /// All that can be known: what has no level is still worth a gauge.
    ///
    /// Blocks where it stands: the kernel prints these lines from memory, in microseconds.
    fn read(&mut self) -> Vec<Pressure> {
        let mut readings = Vec::new();
        let mut unknown = None;
        for resource in Resource::ALL {
            match read_pressure(resource) {
                Ok(percent) => {
                    events::pressure_measured(resource, percent);
                    readings.push(Pressure { resource, percent });
                }
                Err(why) if self.watched.levels.of(resource).is_some() => unknown = Some(why),
                Err(_) => {}
            }
        }
        if let Some(why) = unknown.filter(|why| self.unknown != Some(*why)) {
            events::pressure_unknown(&why, why.fix());
        }
        self.unknown = unknown;
        readings
    }
}
