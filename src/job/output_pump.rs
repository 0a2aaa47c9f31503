//! Moves bytes from a job's pipes into its log, one copy, with backpressure: while the log is
//! being written nothing is read, so a slow disk slows the child instead of filling memory.
//!
//! A thread of the runtime writes to memory alone. Whatever goes to the disk does so on a thread that
//! may block, so that a disk that does not answer holds up the jobs that need it and no others.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{Instant, sleep_until};
use tracing::Span;

use super::flood::{self, is_flood};
use super::messages::{Address, JobMsg, PumpProbe};
use super::pipe_reader::{PipeRead, PipeReader, ReadMode, with_block};
use super::pump_gate::PumpGate;
use crate::ids::JobId;
use crate::journal::JournalTicket;
use crate::outcome::LimitKind;
use crate::output::redaction::{LineMasker, Redactor};
use crate::output::{AppendFrom, LogProgress, LogWriter};
use crate::process::{OutputPipe, wait_until_readable};
use crate::spec::{JobSpec, LargeOutput, Stream, StreamMode};
use crate::telemetry::events;

/// The bytes of output above which a job's output is a flood.
const FLOOD_BYTES: u64 = 64 * 1024;
/// Reads from one stream before the other gets its turn, and before other jobs get theirs.
const READS_PER_TURN: usize = 16;
/// The time that the start of a line waits for its end, where secrets are hidden in whole lines. It
/// is shorter than the default of `job.drain_quiet_ms`.
const HOLD_TIME: Duration = Duration::from_millis(100);

fn hold_until() -> Instant {
    Instant::now() + HOLD_TIME
}

/// The pipes of one job, and the log they flow into.
#[derive(Debug)]
pub(super) struct Pump {
    /// The pipe of the standard output; of both streams if they are merged.
    stdout: PipeReader,
    /// Closed from the start if the streams are merged.
    stderr: PipeReader,
    streams: StreamMode,
    masks: Option<LineMaskers>,
    writer: LogWriter,
    bounds: OutputBounds,
    taken: u64,
    dropped: u64,
    flow: OutputFlow,
    thread: PumpThread,
    /// Bytes that were read on a thread of the runtime and that memory does not take: at most one
    /// block of each stream.
    unwritten: Vec<(Stream, Vec<u8>)>,
    probe: PumpProbe,
    gate: PumpGate,
    /// The journal record of the start: until it is written, the disk may be stuck.
    start_record: Option<JournalTicket>,
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

/// The limits on the output of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputBounds {
    job: JobId,
    bytes: u64,
    /// The limit that a job exceeds when it writes more than `bytes`.
    past_bytes: LimitKind,
    lines: u64,
}

impl OutputBounds {
    /// The bounds of this job.
    pub(super) const fn new(job: JobId, spec: &JobSpec) -> Self {
        let limits = &spec.limits;
        let (bytes, past_bytes) = match spec.on_large_output {
            LargeOutput::Error if limits.large_bytes < limits.output_bytes => {
                (limits.large_bytes, LimitKind::LargeOutput(limits.large_bytes))
            }
            LargeOutput::Error | LargeOutput::Spill => {
                (limits.output_bytes, LimitKind::OutputBytes(limits.output_bytes))
            }
            // However much it writes, a bounded part of it is kept.
            LargeOutput::Truncate => (u64::MAX, LimitKind::OutputBytes(u64::MAX)),
        };
        Self { job, bytes, past_bytes, lines: limits.output_lines }
    }
}

/// The maskers that hide secrets before they are stored, one for each stream.
#[derive(Debug)]
struct LineMaskers {
    stdout: LineMasker,
    stderr: LineMasker,
}

impl LineMaskers {
    fn new(redactor: &Arc<Redactor>) -> Self {
        let masker = || LineMasker::new(Arc::clone(redactor));
        Self { stdout: masker(), stderr: masker() }
    }

    const fn are_holding(&self) -> bool {
        self.stdout.is_holding() || self.stderr.is_holding()
    }

    const fn masker(&mut self, stream: Stream) -> &mut LineMasker {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
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
        actor: Address,
    ) -> Self {
        let (stderr, streams) = match stderr {
            None => (PipeReader::Closed, StreamMode::Merged),
            Some(pipe) => (PipeReader::Open(pipe), StreamMode::Separate),
        };
        Self {
            stdout: PipeReader::Open(stdout),
            stderr,
            streams,
            masks: None,
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

    /// The same, for a job that has written so many bytes already: they count for its limit.
    pub(super) const fn after(mut self, written: u64) -> Self {
        self.taken = written;
        self
    }

    /// Returns the gate that all pumps of the server share.
    pub(super) const fn gate(&self) -> &PumpGate {
        &self.gate
    }

    /// The same, stopping when this gate is closed.
    pub(super) fn with_gate(mut self, gate: &PumpGate) -> Self {
        self.gate = gate.clone();
        self
    }

    /// The same, writing to the disk only after this record is written or late.
    pub(super) fn with_start_record(mut self, record: Option<JournalTicket>) -> Self {
        self.start_record = record;
        self
    }

    /// The same, hiding secrets before they are stored.
    pub(super) fn with_masks(mut self, redactor: Option<&Arc<Redactor>>) -> Self {
        self.masks = redactor.map(LineMaskers::new);
        self
    }

    /// Returns a probe that waits until everything that is in the pipes now is in the log.
    pub(super) fn probe(&self) -> PumpProbe {
        self.probe.clone()
    }

    /// Returns whoever waits for an answer of [`Pump::probe`]; dropping it is the answer.
    pub(super) fn take_asker(&self) -> Option<oneshot::Sender<()>> {
        self.probe.take_asker()
    }

    /// Runs until all pipes have ended, then closes the log.
    pub(super) async fn run(mut self) {
        let running = self.gate.enter();
        // Whoever has asked, and the time of the answer; dropping it is the answer.
        let mut asker: Option<(oneshot::Sender<()>, Instant)> = None;
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
                    let Some((pump, ())) = self.run_work(Self::flush_both_held).await else {
                        return;
                    };
                    self = pump;
                    continue;
                }
                PumpWake::GateClosed => {
                    // The log stays open: the next server goes on with it.
                    let stopped = self.run_work(Self::flush_both_held).await.map(|(pump, ())| pump);
                    // Kept for ever: dropping the pump would give its pipes up.
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
                    let Some((pump, ())) = self.run_work(Self::read_both_unannounced).await else {
                        return;
                    };
                    self = pump;
                    continue;
                }
            };
            let turned = self.run_work(move |pump| pump.read_and_close(stream)).await;
            let Some((pump, (read, brought))) = turned else { return };
            self = pump;
            if self.flow == OutputFlow::Flooding && is_flood(brought) {
                // What is held back of a line grows now, and is not waited for.
                asker = None;
                // In a box: most jobs never need the room.
                let Some(pump) = Box::pin(flood::carry_flood(self)).await else { return };
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
        if self.writer.has_unstored() {
            self.writer.wait_to_store().await;
            self.store_rest().await;
        }
    }

    /// Stores the bytes that only memory holds. Returns `None` if the runtime is shutting down.
    async fn store_rest(self) -> Option<Self> {
        let stored = Box::pin(self.run_on_blocking_thread(|pump| pump.writer.store_rest()));
        stored.await.map(|(pump, ())| pump)
    }

    /// Waits for something to do; `None` once all pipes have ended and nothing is held back.
    async fn next_wake(&mut self, held_until: Instant) -> Option<PumpWake> {
        tokio::select! {
            () = self.stdout.wait_until_readable(), if self.stdout.is_open() => Some(PumpWake::Readable(Stream::Stdout)),
            () = self.stderr.wait_until_readable(), if self.stderr.is_open() => Some(PumpWake::Readable(Stream::Stderr)),
            () = sleep_until(held_until), if self.is_holding() => Some(PumpWake::Held),
            now = self.probe.next_request(), if self.is_open() => Some(PumpWake::Asked(now)),
            () = self.gate.wait_until_closed(), if self.is_open() => Some(PumpWake::GateClosed),
            () = self.writer.wait_to_store(), if self.is_open() && self.writer.has_unstored() => Some(PumpWake::CanStore),
            else => None,
        }
    }

    fn flush_both_held(&mut self) {
        self.flush_held(Stream::Stdout);
        self.flush_held(Stream::Stderr);
    }

    fn read_both_unannounced(&mut self) {
        self.read_unannounced(Stream::Stdout);
        self.read_unannounced(Stream::Stderr);
        self.close_ended_log();
    }

    fn read_and_close(&mut self, stream: Stream) -> (PipeRead, u64) {
        let turned = self.read_turn(stream);
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
    /// jobs have one at a time; the others wait without one.
    pub(super) async fn run_on_blocking_thread<T: Send + 'static>(
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
            self.thread = PumpThread::Runtime;
            (self, done)
        };
        spawn_blocking(move || log.in_scope(act)).await.ok()
    }

    /// Waits, if the quota is nearly used up, until finished jobs were freed; meanwhile the job
    /// blocks on its full pipe.
    pub(super) async fn make_room(&self) {
        if self.needs_room() {
            self.writer.wait_for_room().await;
        }
    }

    /// `true` if the pump should wait for room before it reads on.
    pub(super) fn needs_room(&self) -> bool {
        self.flow != OutputFlow::Discarded && self.writer.should_wait_for_room()
    }

    /// Moves what is in the pipe, at most `READS_PER_TURN` reads. Returns the result of the last
    /// read and the number of bytes kept.
    pub(super) fn read_turn(&mut self, stream: Stream) -> (PipeRead, u64) {
        self.read_turn_by(stream, ReadMode::Announced)
    }

    /// The same, without waiting for the runtime to report the pipe as readable.
    fn read_unannounced(&mut self, stream: Stream) {
        self.read_turn_by(stream, ReadMode::Unannounced);
    }

    /// Each read is written before the next: meanwhile the job fills its pipe, so that reads are few
    /// and large.
    fn read_turn_by(&mut self, stream: Stream, mode: ReadMode) -> (PipeRead, u64) {
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
        (read, self.taken - before)
    }

    /// Reads bytes and adds them to the log.
    fn read_bytes(&mut self, stream: Stream, mode: ReadMode, block: &mut Vec<u8>) -> PipeRead {
        let read = self.reader(stream).read(mode, block);
        match read {
            PipeRead::Bytes | PipeRead::Last => self.take(stream, block),
            PipeRead::Nothing => {}
            PipeRead::End => self.show_held(stream),
        }
        read
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
        let reader = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
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
    pub(super) const fn is_open(&self) -> bool {
        self.stdout.is_open() || self.stderr.is_open()
    }

    /// Blocks until there is something to read in a pipe that the runtime does not watch, or its end,
    /// and says so; or until this time has passed.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let readers = [&self.stdout, &self.stderr];
        wait_until_readable(readers.into_iter().filter_map(PipeReader::unwatched_pipe), time)
    }

    pub(super) const fn reader(&mut self, stream: Stream) -> &mut PipeReader {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        match &mut self.masks {
            None => self.keep(stream, bytes),
            Some(masks) => {
                let masked = masks.masker(stream).push(bytes);
                self.keep(stream, &masked);
            }
        }
    }

    fn is_holding(&self) -> bool {
        self.masks.as_ref().is_some_and(LineMaskers::are_holding)
    }

    /// Shows what is held back, with all that has come meanwhile.
    fn flush_held(&mut self, stream: Stream) {
        self.read_turn(stream);
        self.show_held(stream);
    }

    /// A prompt has no newline and must be seen all the same: what waits for its line's end is
    /// given out once the job is quiet, or its pipe ends.
    fn show_held(&mut self, stream: Stream) {
        if let Some(masks) = &mut self.masks {
            let held = masks.masker(stream).flush();
            self.keep(stream, &held);
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
            self.stdout.grow();
            self.stderr.grow();
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

#[cfg(test)]
mod tests {
    //! The reply of a pump to a request.

    use std::os::fd::OwnedFd;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, TryRecvError, channel};

    use futures_util::poll;
    use ractor::{Actor, ActorProcessingErr, ActorRef};
    use rustix::pipe::{PipeFlags, pipe_with};
    use tokio::time::sleep;

    use super::super::tests::{LONG, settings, spec};
    use super::*;
    use crate::output;
    use crate::output::LogReader;
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
        let pump =
            Pump::new(stdout, None, writer, bounds, Address::new(actor)).with_masks(redactor);
        let probe = pump.probe();
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
            std::thread::sleep(Duration::from_millis(2));
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
            let flooding = std::thread::spawn(move || flood(pipe, stop));
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
}
