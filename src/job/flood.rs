//! A job that writes much gets a thread for as long as it does so. The runtime would take longer to
//! see that the pipe is full than the job takes to fill it, and other jobs would wait for its
//! writes to the disk.
//!
//! The thread is one of the runtime's blocking threads. It reads fast output at once, and waits a
//! moment for slow output, so that each wake-up carries much.

use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::output_pump::Pump;
use super::pipe_reader::PipeRead;
use crate::spec::Stream;

/// The bytes of one turn from which on it is part of a flood.
const FLOOD_TURN: u64 = 16 * 1024;
/// The bytes that may gather in a pipe before the next read: a part of its capacity, since a pause
/// may last longer than requested.
const GATHERED: u64 = 64 * 1024;
/// The range of useful pauses: a shorter one saves nothing, a longer one would be noticed.
const PAUSES: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_millis(1);
/// A flood is over when nothing has come for so long.
const QUIET: Duration = Duration::from_millis(20);
/// After this time the thread is returned and requested again; in between the pump can wait for
/// room, and the runtime can shut down.
const MAX_THREAD_TIME: Duration = Duration::from_millis(250);

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// `true` if a turn that brought this many bytes is part of a flood.
pub(super) const fn is_flood(brought: u64) -> bool {
    brought >= FLOOD_TURN
}

/// Carries a flood until it is over, if there is a thread for it. Returns `None` if the runtime is
/// shutting down.
pub(super) async fn carry_flood(mut pump: Pump) -> Option<Pump> {
    loop {
        pump.make_room().await;
        if pump.gate().is_closed() {
            break;
        }
        let Some(permit) = pump.gate().try_flood_permit() else { break };
        let reason;
        (pump, reason) = pump.run_on_blocking_thread(pump_until_calm).await?;
        drop(permit);
        if reason == ThreadReturn::FloodEnded {
            break;
        }
    }
    STREAMS.into_iter().for_each(|stream| pump.reader(stream).watch());
    Some(pump)
}

/// The reason why the thread was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadReturn {
    /// Nothing more came.
    FloodEnded,
    TimeOver,
}

fn pump_until_calm(pump: &mut Pump) -> ThreadReturn {
    STREAMS.into_iter().for_each(|stream| pump.reader(stream).unwatch());
    let started = Instant::now();
    let mut emptied = started;
    let mut gathered = 0;
    // At least one turn: where no room can be made, what comes is dropped and counted, not waited for.
    loop {
        let asker = pump.take_asker();
        let mut is_empty = true;
        for stream in STREAMS {
            if pump.reader(stream).is_open() {
                let (read, brought) = pump.read_turn(stream);
                is_empty &= read != PipeRead::Bytes;
                gathered += brought;
            }
        }
        // A turn takes as much as a pipe holds, so that all that was there when the question came is
        // in the log by now. More comes for as long as the flood lasts, and is not waited for.
        drop(asker);
        if !pump.is_open() {
            return ThreadReturn::FloodEnded;
        }
        if pump.needs_room() || started.elapsed() > MAX_THREAD_TIME {
            return ThreadReturn::TimeOver;
        }
        if is_empty {
            let pause = choose_pause(gathered, emptied.elapsed());
            (emptied, gathered) = (Instant::now(), 0);
            match pause {
                Some(time) => sleep(time),
                None if pump.wait(QUIET) => {}
                None => return ThreadReturn::FloodEnded,
            }
        }
    }
}

/// Returns the pause before the next read of pipes that held so many bytes, which arrived in such a
/// time; none if they would be full too soon, or if the rate is not known.
fn choose_pause(gathered: u64, came_in: Duration) -> Option<Duration> {
    let nanos = u64::try_from(came_in.as_nanos()).unwrap_or(u64::MAX);
    let time = Duration::from_nanos(nanos.saturating_mul(GATHERED).checked_div(gathered)?);
    (time >= *PAUSES.start()).then(|| time.min(*PAUSES.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_left_alone_only_while_its_pipe_has_room() {
        let micro = Duration::from_micros(1);
        let milli = Duration::from_millis(1);
        for (gathered, came_in, expected) in [
            // A gigabyte in a second, a quarter of that, twenty megabytes, and next to nothing.
            (64 * 1000, 64 * micro, None),
            (64 * 1024, 256 * micro, Some(256 * micro)),
            (20 * 1000, milli, Some(milli)),
            (1, 500 * milli, Some(milli)),
            (0, 500 * milli, None),
            (0, Duration::MAX, None),
            (1, Duration::MAX, Some(milli)),
        ] {
            assert_eq!(choose_pause(gathered, came_in), expected, "{gathered} in {came_in:?}");
        }
    }
}
