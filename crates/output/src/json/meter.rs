//! The memory and the time that one query takes.

use std::cell::Cell;

use super::Error;
use crate::patience::Patience;

/// The time is looked at once in this many steps.
const STEPS_PER_LOOK: u32 = 4096;

/// Counts the bytes that one query holds, and refuses what exceeds its limit.
#[derive(Debug)]
pub(crate) struct Meter<'p> {
    limit: usize,
    held: Cell<usize>,
    steps: Cell<u32>,
    patience: &'p Patience,
}

impl<'p> Meter<'p> {
    pub(crate) const fn new(limit: usize, patience: &'p Patience) -> Self {
        Self { limit, held: Cell::new(0), steps: Cell::new(0), patience }
    }

    pub(crate) const fn patience(&self) -> &'p Patience {
        self.patience
    }

    /// Charges nothing yet; the charge grows with what it is for.
    pub(crate) const fn open(&'p self) -> Charge<'p> {
        Charge { meter: self, bytes: 0 }
    }

    /// Counts one step of work. Loops over the values of a query call this, so that no expression
    /// runs on for longer than its caller waits.
    pub(super) fn step(&self) -> Result<(), Error> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS_PER_LOOK) && self.patience.is_over() {
            return Err(Error::TimeOver);
        }
        Ok(())
    }
}

/// Bytes that are held. Dropping the charge gives them back.
#[derive(Debug)]
pub(crate) struct Charge<'p> {
    meter: &'p Meter<'p>,
    bytes: usize,
}

impl<'p> Charge<'p> {
    pub(super) const fn meter(&self) -> &'p Meter<'p> {
        self.meter
    }

    /// Charges this many bytes more, before they are allocated.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Error> {
        let held = self.meter.held.get().saturating_add(bytes);
        if held > self.meter.limit {
            return Err(Error::TooLarge);
        }
        self.meter.held.set(held);
        self.bytes += bytes;
        Ok(())
    }

    /// Makes room for another element, and charges it. Large ones grow by a quarter: the system
    /// moves them without a copy.
    pub(super) fn reserve_one<T>(&mut self, values: &mut Vec<T>) -> Result<(), Error> {
        if values.len() == values.capacity() {
            let more = growth_of(values.len()).max(4);
            self.add(more * size_of::<T>())?;
            values.reserve_exact(more);
        }
        Ok(())
    }
}

/// The number of elements or bytes by which what is full grows.
pub(super) const fn growth_of(length: usize) -> usize {
    const LARGE: usize = 64 * 1024;
    if length < LARGE { length } else { length / 4 }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.meter.held.set(self.meter.held.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_dropped_can_be_charged_again() {
        let (patience, _leash) = Patience::start(Duration::from_secs(3600));
        let meter = Meter::new(100, &patience);
        let (mut first, mut second) = (meter.open(), meter.open());
        first.add(60).unwrap();
        assert!(matches!(second.add(60), Err(Error::TooLarge)));
        second.add(40).unwrap();
        drop(first);
        second.add(60).unwrap();
        assert!(matches!(second.add(1), Err(Error::TooLarge)));
    }

    #[test]
    fn steps_end_when_nobody_waits() {
        let (patience, leash) = Patience::start(Duration::from_secs(3600));
        let meter = Meter::new(100, &patience);
        assert!((0..2 * STEPS_PER_LOOK).all(|_| meter.step().is_ok()));
        drop(leash);
        assert!((0..STEPS_PER_LOOK).any(|_| meter.step().is_err()));
    }
}
