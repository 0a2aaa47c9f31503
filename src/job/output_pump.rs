//! Moves bytes from a job's pipes into its log, one copy, with backpressure: while the log is
//! being written nothing is read, so a slow disk slows the child instead of filling memory.
//!
//! A thread of the runtime writes to memory alone. Whatever goes to the disk does so on a thread that
//! may block, so that a disk that does not answer holds up the jobs that need it and no others.
//!
//! A job that writes much (a flood) gets such a thread for as long as it does so. The runtime would
//! take longer to see that the pipe is full than the job takes to fill it, and other jobs would wait
//! for its writes to the disk. The thread reads fast output at once, and waits a moment for slow
//! output, so that each wake-up carries much.

use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use tokio::sync::oneshot;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{self, sleep_until};
use tracing::Span;

use super::messages::{Address, JobMsg, PumpGate, PumpProbe};
use super::overuse::OutputBounds;
use super::standard_streams::{PipeRead, PipeReader, ReadMode, with_block};
use crate::journal::JournalTicket;
use crate::outcome::LimitKind;
use crate::output::redaction::{LineMasker, Redactor};
use crate::output::{AppendFrom, LogProgress, LogWriter};
use crate::process::{OutputPipe, wait_until_readable};
use crate::spec::{Stream, StreamMode};
use crate::telemetry::events;

/// The bytes of output above which a job's output is a flood.
const FLOOD_BYTES: u64 = 64 * 1024;
/// The bytes of one turn from which on it is part of a flood, once the job has written much.
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
/// Reads from one stream before the other gets its turn, and before other jobs get theirs.
const READS_PER_TURN: usize = 16;
/// The time that the start of a line waits for its end, where secrets are hidden in whole lines. It
/// is shorter than the default of `job.drain_quiet_ms`.
const HOLD_TIME: Duration = Duration::from_millis(100);

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

fn hold_until() -> time::Instant {
    time::Instant::now() + HOLD_TIME
}

/// The pipes of one job, and the log they flow into.
#[derive(Debug)]
pub(super) struct Pump {
    /// The pipe of each stream. If the streams are merged, the first is the pipe of both, and the
    /// second is closed from the start.
    pipes: [PipeReader; 2],
    streams: StreamMode,
    /// The maskers that hide secrets of each stream before they are stored.
    masks: Option<[LineMasker; 2]>,
    writer: LogWriter,
    bounds: OutputBounds,
    /// The bytes that count for the limit; not zero at first if a previous server wrote some.
    pub(super) taken: u64,
    dropped: u64,
    flow: OutputFlow,
    thread: PumpThread,
    /// Bytes that were read on a thread of the runtime and that memory does not take: at most one
    /// block of each stream.
    unwritten: Vec<(Stream, Vec<u8>)>,
    /// Waits until everything that is in the pipes is in the log.
    pub(super) probe: PumpProbe,
    /// Stops the pump once it is closed.
    pub(super) gate: PumpGate,
    /// The journal record of the start: until it is written or late, the disk may be stuck.
    pub(super) start_record: Option<JournalTicket>,
    actor: Address,
}

/// The kind of thread that the pump is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PumpThread {
    /// One of the runtime, which must not wait for a disk.
    Runtime,
    Blocking,
}

/// The reason why a pump that waited goes on.
#[derive(Debug)]
enum PumpWake {
    /// There is something to read, or the end.
    Readable(Stream),
    /// A line that has begun was held back for long enough.
    Held,
    /// Somebody asks whether all is in the log.
    Asked(oneshot::Sender<()>),
    /// Another server takes over.
    GateClosed,
    /// Bytes that only memory holds can be stored.
    CanStore,
}

/// The way in which the pump treats bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputFlow {
    /// Small so far: the pipes have their default size.
    Kept,
    /// A flood: the pipes were made larger, so that fewer wake-ups carry more.
    Flooding,
    /// A bound was passed. The job is being ended; it must not block on a full pipe meanwhile.
    Discarded,
}

impl Pump {
    pub(super) fn new(
        stdout: OutputPipe,
        stderr: Option<OutputPipe>,
        writer: LogWriter,
        bounds: OutputBounds,
        redactor: Option<&Arc<Redactor>>,
        actor: Address,
    ) -> Self {
        let (stderr, streams) = match stderr {
            None => (PipeReader::Closed, StreamMode::Merged),
            Some(pipe) => (PipeReader::Open(pipe), StreamMode::Separate),
        };
        let masker = |redactor: &Arc<Redactor>| LineMasker::new(Arc::clone(redactor));
        Self {
            pipes: [PipeReader::Open(stdout), stderr],
            streams,
            masks: redactor.map(|redactor| STREAMS.map(|_| masker(redactor))),
            writer,
            bounds,
            taken: 0,
            dropped: 0,
            flow: OutputFlow::Kept,
            thread: PumpThread::Runtime,
            unwritten: Vec::new(),
            probe: PumpProbe::default(),
            gate: PumpGate::default(),
            start_record: None,
            actor,
        }
    }

    /// Runs until all pipes have ended, then closes the log.
    pub(super) async fn run(mut self) {
        let running = self.gate.enter();
        // Whoever has asked, and the time of the answer; dropping it is the answer.
        let mut asker: Option<(oneshot::Sender<()>, time::Instant)> = None;
        loop {
            if self.is_open() && !self.is_holding() {
                asker = None;
            }
            // A line that never ends is held back while it grows, but nobody waits for that.
            let held_until = asker.as_ref().map_or_else(hold_until, |(_, until)| *until);
            let Some(wake) = self.next_wake(held_until).await else { break };
            if let PumpWake::Readable(_) | PumpWake::Asked(_) = wake {
                self.make_room().await;
            }
            let stream = match wake {
                PumpWake::Readable(stream) => stream,
                PumpWake::Held => {
                    let Some((pump, ())) = self.run_work(Self::flush_held).await else {
                        return;
                    };
                    self = pump;
                    continue;
                }
                PumpWake::GateClosed => {
                    // The log stays open: the next server goes on with it.
                    let stopped = self.run_work(Self::flush_held).await.map(|(pump, ())| pump);
                    // Hand-over to the next server: the pump is kept for ever, because dropping it would
                    // give its pipes up.
                    let _stopped = match stopped {
                        Some(pump) if pump.writer.has_unstored() => pump.store_rest().await,
                        stopped => stopped,
                    };
                    drop(running);
                    return std::future::pending().await;
                }
                PumpWake::CanStore => {
                    let Some(pump) = self.store_rest().await else { return };
                    self = pump;
                    continue;
                }
                PumpWake::Asked(now) => {
                    asker = Some((now, hold_until()));
                    let Some((pump, ())) = self.run_work(Self::read_unannounced).await else {
                        return;
                    };
                    self = pump;
                    continue;
                }
            };
            let turned = self.run_work(move |pump| pump.read_and_close(stream)).await;
            let Some((pump, (read, brought))) = turned else { return };
            self = pump;
            if self.flow == OutputFlow::Flooding && brought >= FLOOD_TURN {
                // What is held back of a line grows now, and is not waited for.
                asker = None;
                // In a box: most jobs never need the room.
                let Some(pump) = Box::pin(self.carry_flood()).await else { return };
                self = pump;
            } else if read == PipeRead::Bytes {
                // There is nothing to wait for: without this the job would have the thread for itself.
                yield_now().await;
            }
        }
        self.finish(asker.map(|(asker, _)| asker)).await;
    }

    /// Closes the log, says so, and stores what only memory holds.
    async fn finish(mut self, asker: Option<oneshot::Sender<()>>) {
        if !self.writer.is_closed() {
            let Some((pump, ())) = self.run_work(|pump| pump.writer.close()).await else { return };
            self = pump;
        }
        self.actor.send(JobMsg::StreamsClosed);
        // Only after `StreamsClosed` was sent: it says more than the answer to the probe.
        drop(asker);
        // Memory has the only copy, which a crash would lose.
        while self.writer.has_unstored() {
            tokio::select! {
                () = self.writer.wait_to_store() => {}
                () = self.gate.wait_until_closed() => return drop(self.store_rest().await),
            }
            let Some(pump) = self.store_rest().await else { return };
            self = pump;
        }
    }

    /// Stores the bytes that only memory holds. Returns `None` if the runtime is shutting down.
    async fn store_rest(self) -> Option<Self> {
        let stored = Box::pin(self.run_on_blocking_thread(|pump| pump.writer.store_rest()));
        stored.await.map(|(pump, ())| pump)
    }

    /// Waits for something to do; `None` once all pipes have ended and nothing is held back.
    async fn next_wake(&mut self, held_until: time::Instant) -> Option<PumpWake> {
        let [stdout, stderr] = &self.pipes;
        tokio::select! {
            () = stdout.wait_until_readable(), if stdout.is_open() => Some(PumpWake::Readable(Stream::Stdout)),
            () = stderr.wait_until_readable(), if stderr.is_open() => Some(PumpWake::Readable(Stream::Stderr)),
            () = sleep_until(held_until), if self.is_holding() => Some(PumpWake::Held),
            now = self.probe.next_request(), if self.is_open() => Some(PumpWake::Asked(now)),
            () = self.gate.wait_until_closed(), if self.is_open() => Some(PumpWake::GateClosed),
            () = self.writer.wait_to_store(), if self.is_open() && self.writer.has_unstored() => Some(PumpWake::CanStore),
            else => None,
        }
    }

    /// Shows what is held back, with all that has come meanwhile.
    fn flush_held(&mut self) {
        for stream in STREAMS {
            self.read_turn(stream, ReadMode::Announced);
            self.show_held(stream);
        }
    }

    /// Reads without waiting for the runtime to report the pipes as readable.
    fn read_unannounced(&mut self) {
        for stream in STREAMS {
            self.read_turn(stream, ReadMode::Unannounced);
        }
        self.close_ended_log();
    }

    fn read_and_close(&mut self, stream: Stream) -> (PipeRead, u64) {
        let turned = self.read_turn(stream, ReadMode::Announced);
        self.close_ended_log();
        turned
    }

    /// Closes the log if everything is in it, so that no other thread has to be asked for that.
    fn close_ended_log(&mut self) {
        if !self.is_open() && !self.is_holding() && self.unwritten.is_empty() {
            self.writer.close();
        }
    }

    /// Runs `work` on this thread while its output fits in memory, otherwise on a blocking thread.
    /// Returns `None` if the runtime is shutting down.
    async fn run_work<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Option<(Self, T)> {
        if let Some(record) = self.start_record.take() {
            // A journal that cannot be written reports its state itself.
            record.written_soon().await.ok();
        }
        self.writer.wait_for_disk().await;
        if self.writer.is_on_disk() {
            return Box::pin(self.run_on_blocking_thread(work)).await;
        }
        let done = work(&mut self);
        if self.unwritten.is_empty() {
            return Some((self, done));
        }
        let (pump, ()) = Box::pin(self.run_on_blocking_thread(|_| ())).await?;
        Some((pump, done))
    }

    /// Writes what memory did not take, and does some work, on a thread that may block. Only so many
    /// jobs have one at a time; the others wait without one. Hands the whole pump over to that thread,
    /// which hands it back with the result.
    async fn run_on_blocking_thread<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Option<(Self, T)> {
        let permit = self.writer.disk_permit().await;
        // What is logged there belongs to the job, too.
        let log = Span::current();
        let act = move || {
            let _permit = permit;
            self.thread = PumpThread::Blocking;
            for (stream, bytes) in std::mem::take(&mut self.unwritten) {
                self.keep(stream, &bytes);
            }
            let done = work(&mut self);
            self.note_unstored(0);
            self.thread = PumpThread::Runtime;
            (self, done)
        };
        spawn_blocking(move || log.in_scope(act)).await.ok()
    }

    /// Waits, if the quota is nearly used up, until finished jobs were freed; meanwhile the job
    /// blocks on its full pipe.
    async fn make_room(&self) {
        if self.needs_room() {
            self.writer.wait_for_room().await;
        }
    }

    /// `true` if the pump should wait for room before it reads on.
    fn needs_room(&self) -> bool {
        self.flow != OutputFlow::Discarded && self.writer.should_wait_for_room()
    }

    /// Moves what is in the pipe, at most `READS_PER_TURN` reads. Returns the result of the last
    /// read and the number of bytes kept. Each read is written before the next: meanwhile the job
    /// fills its pipe, so that reads are few and large.
    fn read_turn(&mut self, stream: Stream, mode: ReadMode) -> (PipeRead, u64) {
        let before = self.taken;
        let read = with_block(|block| {
            for _ in 0..READS_PER_TURN {
                let read = match self.move_bytes(stream, mode, block) {
                    Some(read) => read,
                    None => self.read_bytes(stream, mode, block),
                };
                if read != PipeRead::Bytes {
                    return read;
                }
                if self.needs_room() || !self.unwritten.is_empty() {
                    break;
                }
            }
            PipeRead::Bytes
        });
        self.note_unstored(0);
        (read, self.taken - before)
    }

    /// Reads bytes and adds them to the log. The next server is told if this one is killed in between.
    fn read_bytes(&mut self, stream: Stream, mode: ReadMode, block: &mut Vec<u8>) -> PipeRead {
        self.note_unstored(block.capacity());
        let read = self.pipes[stream as usize].read(mode, block);
        self.note_unstored(block.len());
        match read {
            PipeRead::Bytes | PipeRead::Last => self.take(stream, block),
            PipeRead::Nothing => {}
            PipeRead::End => self.show_held(stream),
        }
        read
    }

    /// Notes for the next server how many bytes only memory has: so many of the block, and all that wait.
    fn note_unstored(&mut self, of_block: usize) {
        let masked = self.masks.iter().flatten().map(LineMasker::held_bytes).sum::<usize>();
        let unwritten = self.unwritten.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        self.writer.note_unstored((masked + unwritten + of_block) as u64);
    }

    /// Moves bytes from the pipe to the file of the log: a crash loses none of them, because they are
    /// never only in this process. Returns `None` if they have to be read instead.
    fn move_bytes(
        &mut self,
        stream: Stream,
        mode: ReadMode,
        block: &mut Vec<u8>,
    ) -> Option<PipeRead> {
        let room =
            usize::try_from(self.bounds.bytes.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        let is_possible = self.thread == PumpThread::Blocking
            && self.masks.is_none()
            && self.flow != OutputFlow::Discarded
            && room > 0;
        let reader = &mut self.pipes[stream as usize];
        let PipeReader::Open(pipe) = reader else { return None };
        if !is_possible {
            return None;
        }
        let writer = &mut self.writer;
        let mut append = |pipe: BorrowedFd<'_>| writer.append_from(stream, pipe, room, block);
        let moved = match mode {
            ReadMode::Announced => pipe.try_take(&mut append),
            ReadMode::Unannounced => pipe.try_take_now(&mut append),
        };
        match moved {
            Ok(AppendFrom::Moved { bytes, progress }) => {
                let read = if reader.has_emptied(block) { PipeRead::Last } else { PipeRead::Bytes };
                self.record_kept(stream, bytes, &progress, false);
                Some(read)
            }
            Ok(AppendFrom::End) => {
                pipe.mark_ended();
                *reader = PipeReader::Closed;
                Some(PipeRead::End)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(PipeRead::Nothing),
            Ok(AppendFrom::ReadInstead) | Err(_) => None,
        }
    }

    /// `true` if at least one pipe is still open.
    fn is_open(&self) -> bool {
        self.pipes.iter().any(PipeReader::is_open)
    }

    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        match &mut self.masks {
            None => self.keep(stream, bytes),
            Some(masks) => {
                let masked = masks[stream as usize].push(bytes);
                self.keep(stream, &masked);
            }
        }
    }

    fn is_holding(&self) -> bool {
        self.masks.iter().flatten().any(LineMasker::is_holding)
    }

    /// A prompt has no newline and must be seen all the same: what waits for its line's end is
    /// given out once the job is quiet, or its pipe ends.
    fn show_held(&mut self, stream: Stream) {
        if let Some(masks) = &mut self.masks {
            let held = masks[stream as usize].flush();
            self.keep(stream, &held);
            self.note_unstored(0);
        }
    }

    fn keep(&mut self, stream: Stream, bytes: &[u8]) {
        if self.flow == OutputFlow::Discarded {
            return;
        }
        if self.thread == PumpThread::Runtime && !self.fits_memory(bytes.len()) {
            self.unwritten.push((stream, bytes.to_vec()));
            return;
        }
        let room = self.bounds.bytes.saturating_sub(self.taken);
        let kept = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let progress = self.writer.append(stream, kept);
        self.record_kept(stream, kept.len(), &progress, kept.len() < bytes.len());
    }

    /// Counts bytes that are in the log, and checks the limits; `is_cut` if there were more.
    fn record_kept(&mut self, stream: Stream, kept: usize, progress: &LogProgress, is_cut: bool) {
        self.taken += kept as u64;
        self.count(stream, kept as u64, progress);
        if let Some(limit) = self.find_exceeded_limit(is_cut, progress) {
            self.flow = OutputFlow::Discarded;
            self.actor.send(JobMsg::LimitHit(limit));
        } else if self.flow == OutputFlow::Kept && self.taken > FLOOD_BYTES {
            self.flow = OutputFlow::Flooding;
            self.pipes.iter().for_each(PipeReader::grow);
        }
    }

    /// `true` if so many bytes can be kept now without the disk.
    fn fits_memory(&self, bytes: usize) -> bool {
        bytes == 0 || self.unwritten.is_empty() && self.writer.fits_memory(bytes)
    }

    fn count(&mut self, stream: Stream, written: u64, progress: &LogProgress) {
        if let (0, Some(why)) = (self.dropped, progress.dropped_why) {
            events::output_dropped(self.bounds.job, why);
        }
        self.dropped = progress.dropped_bytes;
        let stream = match self.streams {
            StreamMode::Merged => None,
            StreamMode::Separate => Some(stream),
        };
        events::output_written(stream, written);
    }

    fn find_exceeded_limit(&self, cut: bool, progress: &LogProgress) -> Option<LimitKind> {
        if cut {
            Some(self.bounds.past_bytes)
        } else if progress.lines > self.bounds.lines {
            Some(LimitKind::OutputLines(self.bounds.lines))
        } else {
            None
        }
    }
}

// Floods.

/// The reason why the thread was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadReturn {
    /// Nothing more came.
    FloodEnded,
    TimeOver,
}

impl Pump {
    /// Carries a flood until it is over, if there is a thread for it. Returns `None` if the runtime is
    /// shutting down.
    async fn carry_flood(mut self) -> Option<Self> {
        loop {
            self.make_room().await;
            if self.gate.is_closed() {
                break;
            }
            let Some(permit) = self.gate.try_flood_permit() else { break };
            let reason;
            (self, reason) = self.run_on_blocking_thread(Self::pump_until_calm).await?;
            drop(permit);
            if reason == ThreadReturn::FloodEnded {
                break;
            }
        }
        self.pipes.iter_mut().for_each(PipeReader::watch);
        Some(self)
    }

    fn pump_until_calm(&mut self) -> ThreadReturn {
        self.pipes.iter_mut().for_each(PipeReader::unwatch);
        let started = Instant::now();
        let mut emptied = started;
        let mut gathered = 0;
        // At least one turn: where no room can be made, what comes is dropped and counted, not waited for.
        loop {
            let asker = self.probe.take_asker();
            let mut is_empty = true;
            for stream in STREAMS {
                if self.pipes[stream as usize].is_open() {
                    let (read, brought) = self.read_turn(stream, ReadMode::Announced);
                    is_empty &= read != PipeRead::Bytes;
                    gathered += brought;
                }
            }
            // A turn takes as much as a pipe holds, so that all that was there when the question came is
            // in the log by now. More comes for as long as the flood lasts, and is not waited for.
            drop(asker);
            if !self.is_open() {
                return ThreadReturn::FloodEnded;
            }
            if self.needs_room() || started.elapsed() > MAX_THREAD_TIME {
                return ThreadReturn::TimeOver;
            }
            if is_empty {
                let pause = choose_pause(gathered, emptied.elapsed());
                (emptied, gathered) = (Instant::now(), 0);
                match pause {
                    Some(time) => thread::sleep(time),
                    None if self.wait_for_bytes(QUIET) => {}
                    None => return ThreadReturn::FloodEnded,
                }
            }
        }
    }

    /// Blocks until there is something to read in a pipe that the runtime does not watch, or its end,
    /// and says so; or until this time has passed.
    fn wait_for_bytes(&self, time: Duration) -> bool {
        wait_until_readable(self.pipes.iter().filter_map(PipeReader::unwatched_pipe), time)
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
    use std::os::fd::OwnedFd;
    use std::pin::Pin;
    use std::sync::mpsc::{Receiver, TryRecvError, channel};

    use futures_util::poll;
    use ractor::{Actor, ActorProcessingErr, ActorRef};
    use rustix::pipe::{PipeFlags, pipe_with};
    use tokio::time::sleep;

    use super::super::tests::{LONG, settings, spec};
    use super::*;
    use crate::ids::JobId;
    use crate::output::{self, LogReader};
    use crate::telemetry::events::CountedMessage;

    /// A job's actor that does nothing.
    struct IdleActor;

    impl Actor for IdleActor {
        type Msg = CountedMessage<JobMsg>;
        type State = ();
        type Arguments = ();

        async fn pre_start(
            &self,
            _: ActorRef<Self::Msg>,
            (): (),
        ) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    /// A pump that waits for its pipe, and the other end of that.
    struct WaitingPump {
        pump: Pin<Box<dyn Future<Output = ()>>>,
        probe: PumpProbe,
        log: LogReader,
        pipe: OwnedFd,
    }

    async fn waiting(redactor: Option<&Arc<Redactor>>) -> WaitingPump {
        let (end, pipe) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let (writer, log) = output::open_log(&settings().log);
        let (actor, _) = Actor::spawn(None, IdleActor, ()).await.unwrap();
        let bounds = OutputBounds::new(JobId::local(1), &spec("true"));
        let stdout = OutputPipe::new(end).unwrap();
        let pump = Pump::new(stdout, None, writer, bounds, redactor, Address::new(actor));
        let probe = pump.probe.clone();
        let mut pump: Pin<Box<dyn Future<Output = ()>>> = Box::pin(pump.run());
        assert!(poll!(&mut pump).is_pending());
        WaitingPump { pump, probe, log, pipe }
    }

    #[tokio::test]
    async fn what_is_in_a_pipe_is_read_before_the_runtime_tells_of_it() {
        let WaitingPump { mut pump, probe, log, pipe } = waiting(None).await;
        rustix::io::write(&pipe, b"there").unwrap();
        let mut asking = Box::pin(probe.wait_until_all_is_read());
        assert!(poll!(&mut asking).is_pending());
        assert!(poll!(&mut pump).is_pending());
        assert_eq!(log.progress().written_bytes(), 5);
        assert!(poll!(&mut asking).is_ready());
    }

    #[tokio::test]
    async fn what_is_held_back_is_not_in_the_log_yet() {
        let redactor = Arc::new(Redactor::with_known_secrets(&[]).unwrap());
        let WaitingPump { mut pump, probe, log, pipe } = waiting(Some(&redactor)).await;
        rustix::io::write(&pipe, b"name? ").unwrap();
        let mut asking = Box::pin(probe.wait_until_all_is_read());
        assert!(poll!(&mut asking).is_pending());
        assert!(poll!(&mut pump).is_pending());
        assert_eq!(log.progress().written_bytes(), 0);
        assert!(poll!(&mut asking).is_pending());
        tokio::select! {
            () = &mut pump => panic!("its pipe is open"),
            () = asking => {}
            () = sleep(LONG) => panic!("no answer"),
        }
        assert_eq!(log.progress().written_bytes(), 6);
    }

    /// Writes into a pipe without a pause that would end a flood, until `stop` is dropped.
    fn flood(pipe: OwnedFd, stop: Receiver<()>) {
        while stop.try_recv() != Err(TryRecvError::Disconnected) {
            // A pipe that is full is tried again.
            rustix::io::write(&pipe, &[b'x'; 32 * 1024]).ok();
            thread::sleep(Duration::from_millis(2));
        }
    }

    async fn wait_for_bytes(log: &LogReader, bytes: u64) {
        while log.progress().written_bytes() < bytes {
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn a_flood_answers_while_it_lasts() {
        let redactor = Arc::new(Redactor::with_known_secrets(&[]).unwrap());
        // Where secrets are hidden, a line without an end is held back for as long as it grows.
        for redactor in [None, Some(&redactor)] {
            let WaitingPump { mut pump, probe, log, pipe } = waiting(redactor).await;
            let (go_on, stop) = channel();
            let flooding = thread::spawn(move || flood(pipe, stop));
            let asking = async {
                wait_for_bytes(&log, 4 * FLOOD_BYTES).await;
                probe.wait_until_all_is_read().await;
            };
            tokio::select! {
                () = &mut pump => panic!("its pipe is open"),
                () = asking => {}
                () = sleep(LONG) => panic!("no answer"),
            }
            drop(go_on);
            flooding.join().unwrap();
            pump.await;
        }
    }

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
