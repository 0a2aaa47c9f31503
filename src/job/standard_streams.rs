//! The standard streams of a job: its input, as callers send it and as its shim writes it, the
//! decision whether a job waits for input, and the pipes of its output.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::ids::JobId;
use crate::output::{LogProgress, LogReader};
use crate::process::{
    EchoMode, InputActivity, InputWait, OutputPipe, ProcessInput, ProcessTree, TerminalSize,
};

/// The number of pieces of input that may wait for a job that does not read.
const BACKLOG: usize = 64;

/// The standard input of a job, which its shim writes: a job that does not read blocks no caller, and
/// input that was accepted is delivered whatever happens to this server.
#[derive(Debug)]
pub(super) struct StdinWriter {
    /// `None` once it was ended. What was sent before is still written.
    input: Option<ProcessInput>,
    /// The senders of pieces that are not written yet: each waits for this number of bytes, and is told
    /// how they are echoed.
    waiting: VecDeque<(u64, oneshot::Sender<EchoMode>)>,
    /// `true` once the job has closed its end.
    is_closed: bool,
}

/// The reason why a piece was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StdinWriteError {
    /// Earlier pieces still wait.
    Full,
    /// The job closed its input.
    Closed,
}

impl StdinWriter {
    pub(super) const fn new(input: ProcessInput) -> Self {
        Self { input: Some(input), waiting: VecDeque::new(), is_closed: false }
    }

    /// Changes the size of the terminal; `None` if there is none.
    pub(super) fn resize(&self, size: TerminalSize) -> Option<()> {
        self.input.as_ref()?.resize(size)
    }

    /// Sends one piece, which is written when the job reads.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<InputReceipt, StdinWriteError> {
        let Some(input) = self.input.as_mut().filter(|_| !self.is_closed) else {
            return Err(StdinWriteError::Closed);
        };
        if self.waiting.len() >= BACKLOG {
            return Err(StdinWriteError::Full);
        }
        let accepted = input.send(bytes).map_err(|_| StdinWriteError::Full)?;
        let (written, receipt) = oneshot::channel();
        self.waiting.push_back((accepted, written));
        Ok(InputReceipt(Some(receipt)))
    }

    /// Notes that so many bytes were written, the last ones with this echo.
    pub(super) fn note_written(&mut self, total: u64, echo: EchoMode) {
        while self.waiting.front().is_some_and(|(accepted, _)| *accepted <= total) {
            if let Some((_, written)) = self.waiting.pop_front() {
                // The sender may not want to know.
                written.send(echo).ok();
            }
        }
    }

    /// Notes that the job has closed its end: nothing more is written.
    pub(super) fn note_closed(&mut self) {
        self.is_closed = true;
        self.waiting.clear();
    }

    /// Ends the input after everything that was sent. `false` if it had ended before.
    pub(super) fn end(&mut self) -> bool {
        self.input.take().map(ProcessInput::end).is_some()
    }
}

/// The receipt of input that was queued for a job.
#[derive(Debug, Default)]
pub struct InputReceipt(Option<oneshot::Receiver<EchoMode>>);

impl InputReceipt {
    /// Returns how the input is echoed, once the job has been given all of it or reads no more.
    pub async fn written(self) -> EchoMode {
        match self.0 {
            Some(written) => written.await.unwrap_or_default(),
            None => EchoMode::Off,
        }
    }
}

// Input for a running job, and the reasons to refuse it.

/// Input for a running job: the bytes first, then the key, then the end of input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobInput {
    /// The bytes, sent unchanged.
    pub bytes: Vec<u8>,
    pub key: Option<KeyPress>,
    /// The state of the input after this piece.
    pub end: StdinEnd,
}

impl JobInput {
    /// Returns the bytes that a terminal gets.
    #[must_use]
    pub fn typed_bytes(&self) -> Vec<u8> {
        let key = self.key.map_or("", KeyPress::bytes);
        [self.bytes.as_slice(), key.as_bytes()].concat()
    }
}

/// The state of the input after a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StdinEnd {
    #[default]
    KeepOpen,
    /// The job reads the end of its input after this piece.
    Close,
}

/// A key press. On a terminal it is the bytes that the key sends; without one, the
/// control keys act as the terminal would: they signal the job, or end its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPress {
    CtrlC,
    CtrlD,
    CtrlZ,
    CtrlBackslash,
    Enter,
    Tab,
    Escape,
    Up,
    Down,
    Left,
    Right,
    Backspace,
}

/// The effect of a key on a job without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainKey {
    Signal(i32),
    End,
    Bytes(&'static str),
}

impl KeyPress {
    const ALL: [(&'static str, Self); 12] = [
        ("ctrl_c", Self::CtrlC),
        ("ctrl_d", Self::CtrlD),
        ("ctrl_z", Self::CtrlZ),
        ("ctrl_backslash", Self::CtrlBackslash),
        ("enter", Self::Enter),
        ("tab", Self::Tab),
        ("escape", Self::Escape),
        ("up", Self::Up),
        ("down", Self::Down),
        ("left", Self::Left),
        ("right", Self::Right),
        ("backspace", Self::Backspace),
    ];

    /// Returns the names of all keys in a fixed order.
    #[must_use]
    pub fn names() -> [&'static str; 12] {
        Self::ALL.map(|(name, _)| name)
    }

    /// Returns the key with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
    }

    /// Returns the bytes that the key sends on a terminal.
    pub(super) const fn bytes(self) -> &'static str {
        match self {
            Self::CtrlC => "\x03",
            Self::CtrlD => "\x04",
            Self::CtrlZ => "\x1a",
            Self::CtrlBackslash => "\x1c",
            Self::Enter => "\r",
            Self::Tab => "\t",
            Self::Escape => "\x1b",
            Self::Up => "\x1b[A",
            Self::Down => "\x1b[B",
            Self::Left => "\x1b[D",
            Self::Right => "\x1b[C",
            Self::Backspace => "\x7f",
        }
    }

    /// Returns the effect of the key on a job without a terminal.
    pub(super) const fn without_terminal(self) -> PlainKey {
        match self {
            Self::CtrlC => PlainKey::Signal(2),
            Self::CtrlBackslash => PlainKey::Signal(3),
            Self::CtrlZ => PlainKey::Signal(20),
            Self::CtrlD => PlainKey::End,
            Self::Enter => PlainKey::Bytes("\n"),
            Self::Tab
            | Self::Escape
            | Self::Up
            | Self::Down
            | Self::Left
            | Self::Right
            | Self::Backspace => PlainKey::Bytes(self.bytes()),
        }
    }
}

/// The reason why input was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InputError {
    #[error("job {0} has finished and takes no more input")]
    Finished(JobId),
    #[error("job {0} is still queued; send input once it runs")]
    NotStarted(JobId),
    /// The job's standard input was never open, or is closed now.
    #[error(
        "job {0} has no open standard input; to send input later, start the command with tty=true, or without stdin and with wait_s=0, until, port or quiet_s"
    )]
    Closed(JobId),
    /// The job does not read earlier input.
    #[error(
        "job {0} does not read its input: what was sent before still waits; try again when it has read"
    )]
    Full(JobId),
    #[error("job {0} does not run in a terminal, so that it has no size; start it with a terminal")]
    NoTerminal(JobId),
}

impl InputError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Finished(_) => "job_finished",
            Self::NotStarted(_) => "job_queued",
            Self::Closed(_) => "input_closed",
            Self::Full(_) => "input_full",
            Self::NoTerminal(_) => "no_terminal",
        }
    }
}

// The decision whether a job waits for input, and the wait until it has done so for a while.

/// The time after which a job that waits for input is reported. The first check comes up to
/// [`CHECK_INTERVAL`] after the job began to wait: together about a second.
const REPORT_AFTER: Duration = Duration::from_millis(800);

/// The time between two checks of a job that may begin to wait for input.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The time between two checks of a job that has done nothing new for [`UNCHANGED_FOR`]. New output
/// ends it.
const LONG_INTERVAL: Duration = Duration::from_secs(2);
const UNCHANGED_FOR: Duration = Duration::from_secs(5);

/// CPU time of a job that says nothing: the kernel counts in steps of ten milliseconds.
const CLOCK_TICKS: Duration = Duration::from_millis(20);

/// A job that polls its input while it uses more than one part in this many of one processor works.
const BUSY_SHARE: u32 = 20;

/// `true` if a job waits for input now. A program that shows no reason, or that waits for the network
/// as well, must have left its last line open, as a prompt does.
pub(super) const fn is_waiting(wait: InputWait, output: &LogProgress) -> bool {
    match wait {
        InputWait::No => false,
        InputWait::Hidden | InputWait::InputOrNetwork => output.open_line,
        InputWait::Polls | InputWait::Reads => true,
    }
}

/// The need for a prompt before a wait for input is reported, if the program could go on without
/// input: it polls, or has other threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptRule {
    Optional,
    /// For a caller that waits for other work of the job: a server with keyboard commands takes
    /// input all the time.
    Required,
}

/// `true` if a wait for input ends the wait of a caller.
const fn is_reported(wait: InputWait, output: &LogProgress, rule: PromptRule) -> bool {
    let is_certain = match (rule, wait) {
        (PromptRule::Optional, _) | (PromptRule::Required, InputWait::Reads) => true,
        (
            PromptRule::Required,
            InputWait::No | InputWait::Hidden | InputWait::InputOrNetwork | InputWait::Polls,
        ) => false,
    };
    is_waiting(wait, output) && (is_certain || output.open_line)
}

/// The checks of one job so far.
#[derive(Debug)]
struct InputChecks {
    rule: PromptRule,
    total_bytes: u64,
    /// The first of the checks since which the job has only waited for input.
    waiting: Option<InputCheck>,
    /// The time of the last check that differed from the one before.
    changed: Instant,
}

#[derive(Debug, Clone, Copy)]
struct InputCheck {
    at: Instant,
    cpu: Duration,
}

/// The step after a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    /// The job has waited for input for long enough.
    Report,
    CheckIn(Duration),
}

impl InputChecks {
    const fn new(now: Instant, rule: PromptRule) -> Self {
        Self { rule, total_bytes: 0, waiting: None, changed: now }
    }

    /// Records a check, and returns the next step.
    fn record(&mut self, now: Instant, activity: InputActivity, output: &LogProgress) -> NextStep {
        let has_written = output.total_bytes != self.total_bytes;
        self.total_bytes = output.total_bytes;
        let began = self.waiting.take();
        if is_reported(activity.input_wait, output, self.rule) {
            let goes_on = |check: &InputCheck| {
                let is_idle = activity.input_wait == InputWait::Reads
                    || check.has_been_idle(now, activity.cpu);
                !has_written && is_idle
            };
            let first = began.filter(goes_on).unwrap_or(InputCheck { at: now, cpu: activity.cpu });
            if now.saturating_duration_since(first.at) >= REPORT_AFTER {
                return NextStep::Report;
            }
            self.waiting = Some(first);
        }
        if has_written || began.is_some() != self.waiting.is_some() {
            self.changed = now;
        }
        let is_unchanged = now.saturating_duration_since(self.changed) >= UNCHANGED_FOR;
        let is_long = is_unchanged && self.waiting.is_none();
        NextStep::CheckIn(if is_long { LONG_INTERVAL } else { CHECK_INTERVAL })
    }
}

impl InputCheck {
    /// `true` if the job has used almost no CPU time since this check. The time of a process that
    /// has ended is no longer counted, so less of it is a sign of work as well.
    fn has_been_idle(&self, now: Instant, cpu: Duration) -> bool {
        let length = now.saturating_duration_since(self.at);
        cpu.abs_diff(self.cpu) <= CLOCK_TICKS.max(length / BUSY_SHARE)
    }
}

/// Returns once the job has waited for input for about a second. Costs nothing while the job writes
/// output, and little while it does nothing. Cancel-safe.
pub(super) async fn wait_until_waiting(tree: &Arc<ProcessTree>, log: &LogReader, rule: PromptRule) {
    let mut checks = InputChecks::new(Instant::now(), rule);
    loop {
        let output = log.progress();
        let quiet = output.last_output.map_or(CHECK_INTERVAL, |at| at.elapsed());
        if let Some(rest) = CHECK_INTERVAL.checked_sub(quiet).filter(|rest| !rest.is_zero()) {
            sleep(rest).await;
            continue;
        }
        let tree = Arc::clone(tree);
        let read = tokio::task::spawn_blocking(move || tree.read_input_activity());
        // The runtime ends; then nobody waits.
        let Ok(activity) = read.await else { return std::future::pending().await };
        match checks.record(Instant::now(), activity, &output) {
            NextStep::Report => return,
            NextStep::CheckIn(interval) => {
                sleep(CHECK_INTERVAL).await;
                tokio::select! {
                    () = sleep(interval.saturating_sub(CHECK_INTERVAL)) => {}
                    () = log.wait_past(output.total_bytes) => {}
                }
            }
        }
    }
}

// One output pipe of a job, until its end, and the memory that pipes are read through.

/// The size of one read: no more than fits into a core's cache until it is written.
const BLOCK_BYTES: usize = 64 * 1024;
/// Between two looks at a pipe that the runtime could not be told of.
const SOON: Duration = Duration::from_millis(10);

thread_local! {
    static BLOCK: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the calling thread's block, empty. Pipes are read without waiting, so that a thread needs
/// one, however many jobs it serves: no job has a buffer of its own, and what is read by one is
/// still in the cache when the next reads.
pub(super) fn with_block<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut block = BLOCK.take();
    block.clear();
    block.reserve_exact(BLOCK_BYTES);
    let done = work(&mut block);
    BLOCK.set(block);
    done
}

/// One pipe, until its end.
#[derive(Debug)]
pub(super) enum PipeReader {
    Open(OutputPipe),
    Closed,
}

/// The condition for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// The runtime has reported that there is something to read.
    Announced,
    /// The runtime may have reported nothing yet.
    Unannounced,
}

/// The result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipeRead {
    /// Bytes, and there may be more.
    Bytes,
    /// Bytes, and no more for now.
    Last,
    Nothing,
    End,
}

impl PipeReader {
    pub(super) const fn is_open(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Closed => false,
        }
    }

    /// Returns when it is time to read; never for a closed one. Cancel-safe.
    pub(super) async fn wait_until_readable(&self) {
        match self {
            // An error shows again in the read that follows.
            Self::Open(pipe) if pipe.is_watched() => drop(pipe.readable().await),
            Self::Open(_) => sleep(SOON).await,
            Self::Closed => std::future::pending().await,
        }
    }

    /// Replaces the content of the block by what is in the pipe. A pipe that has come to its end is
    /// closed.
    pub(super) fn read(&mut self, mode: ReadMode, block: &mut Vec<u8>) -> PipeRead {
        block.clear();
        let read = match (&*self, mode) {
            (Self::Open(pipe), ReadMode::Announced) => pipe.try_read(block),
            (Self::Open(pipe), ReadMode::Unannounced) => pipe.try_read_now(block),
            (Self::Closed, _) => Ok(0),
        };
        match read {
            Ok(1..) if self.has_emptied(block) => return PipeRead::Last,
            Ok(1..) => return PipeRead::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return PipeRead::Nothing,
            // A pipe that cannot be read any more has ended, whatever the reason.
            Ok(0) | Err(_) => {}
        }
        *self = Self::Closed;
        PipeRead::End
    }

    /// `true` if a read with this result has emptied the pipe. Never true for a pipe that the
    /// runtime watches: the runtime must see a read that would block before it reports further
    /// bytes.
    pub(super) fn has_emptied(&self, block: &Vec<u8>) -> bool {
        self.unwatched_pipe().is_some() && block.len() < block.capacity()
    }

    /// The pipe, if it is open and the runtime does not watch it.
    pub(super) fn unwatched_pipe(&self) -> Option<&OutputPipe> {
        match self {
            Self::Open(pipe) => Some(pipe).filter(|pipe| !pipe.is_watched()),
            Self::Closed => None,
        }
    }

    /// Makes the runtime stop watching the pipe for something to read.
    pub(super) fn unwatch(&mut self) {
        if let Self::Open(pipe) = self {
            pipe.unwatch();
        }
    }

    /// Makes the runtime watch the pipe, if it can.
    pub(super) fn watch(&mut self) {
        if let Self::Open(pipe) = self {
            // A pipe that the runtime cannot watch is read at intervals.
            pipe.watch().ok();
        }
    }

    /// Gives a flooding process a larger pipe.
    pub(super) fn grow(&self) {
        if let Self::Open(pipe) = self {
            pipe.grow();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = CHECK_INTERVAL;

    fn activity(input_wait: InputWait, cpu_ms: u64) -> InputActivity {
        InputActivity { input_wait, cpu: Duration::from_millis(cpu_ms) }
    }

    fn wrote(total_bytes: u64) -> LogProgress {
        LogProgress { total_bytes, open_line: true, ..LogProgress::default() }
    }

    #[test]
    fn an_uncertain_wait_counts_only_after_a_prompt() {
        let prompt = wrote(5);
        let line = LogProgress { open_line: false, ..prompt };
        for (wait, after_prompt, after_line) in [
            (InputWait::No, false, false),
            (InputWait::Hidden, true, false),
            (InputWait::InputOrNetwork, true, false),
            (InputWait::Polls, true, true),
            (InputWait::Reads, true, true),
        ] {
            assert_eq!(is_waiting(wait, &prompt), after_prompt, "{wait:?}");
            assert_eq!(is_waiting(wait, &line), after_line, "{wait:?}");
        }
    }

    #[test]
    fn a_caller_that_waits_for_other_work_is_told_only_of_prompts_and_certain_waits() {
        let prompt = wrote(5);
        let line = LogProgress { open_line: false, ..prompt };
        for (wait, after_prompt, after_line) in [
            (InputWait::No, false, false),
            (InputWait::Hidden, true, false),
            (InputWait::InputOrNetwork, true, false),
            (InputWait::Polls, true, false),
            (InputWait::Reads, true, true),
        ] {
            assert_eq!(is_reported(wait, &prompt, PromptRule::Required), after_prompt, "{wait:?}");
            assert_eq!(is_reported(wait, &line, PromptRule::Required), after_line, "{wait:?}");
            for output in [&prompt, &line] {
                let is_reported = is_reported(wait, output, PromptRule::Optional);
                assert_eq!(is_reported, is_waiting(wait, output), "{wait:?}");
            }
        }
    }

    /// Returns the number of checks up to the report; 0 if there was none.
    fn checks_until_report(checks: impl Iterator<Item = (InputActivity, LogProgress)>) -> usize {
        let start = Instant::now();
        let mut state = InputChecks::new(start, PromptRule::Optional);
        let mut now = start;
        for (index, (activity, output)) in checks.enumerate() {
            match state.record(now, activity, &output) {
                NextStep::Report => return index + 1,
                NextStep::CheckIn(interval) => now += interval,
            }
        }
        0
    }

    #[test]
    fn a_job_is_reported_when_it_has_waited_for_about_a_second() {
        for wait in
            [InputWait::Hidden, InputWait::InputOrNetwork, InputWait::Polls, InputWait::Reads]
        {
            let checks = std::iter::repeat_n((activity(wait, 10), wrote(5)), 50);
            assert_eq!(checks_until_report(checks), 5, "{wait:?}");
        }
        let never = std::iter::repeat_n((activity(InputWait::No, 10), wrote(5)), 50);
        assert_eq!(checks_until_report(never), 0);
    }

    #[test]
    fn output_and_other_work_start_the_time_again() {
        let waits = (activity(InputWait::Reads, 0), wrote(5));
        let pause = (activity(InputWait::No, 0), wrote(5));
        let typed = (activity(InputWait::Reads, 0), wrote(6));
        let checks = |other| [waits, waits, waits, other].into_iter().cycle().take(60);
        assert_eq!(checks_until_report(checks(pause)), 0);
        let writes = (0..60).map(|index| (waits.0, wrote(index / 3)));
        assert_eq!(checks_until_report(writes), 0);
        let once = [waits, waits, typed].into_iter().chain(std::iter::repeat_n(typed, 9));
        assert_eq!(checks_until_report(once), 7);
    }

    #[test]
    fn a_job_that_polls_its_input_while_it_works_is_not_reported() {
        let works = |wait| (0..60).map(move |index| (activity(wait, index * 100), wrote(5)));
        assert_eq!(checks_until_report(works(InputWait::Polls)), 0);
        assert_eq!(checks_until_report(works(InputWait::Hidden)), 0);
        // One process of a build ends after the other.
        let builds =
            (0..60).map(|index| (activity(InputWait::Polls, 9000 - index * 100), wrote(5)));
        assert_eq!(checks_until_report(builds), 0);
        assert_ne!(checks_until_report(works(InputWait::Reads)), 0, "a blocked read is certain");
    }

    #[test]
    fn a_job_that_does_nothing_is_checked_less_often() {
        let start = Instant::now();
        let mut checks = InputChecks::new(start, PromptRule::Optional);
        let idle = activity(InputWait::No, 0);
        assert_eq!(checks.record(start, idle, &wrote(5)), NextStep::CheckIn(STEP));
        let later = start + UNCHANGED_FOR;
        assert_eq!(checks.record(later, idle, &wrote(5)), NextStep::CheckIn(LONG_INTERVAL));
        assert_eq!(checks.record(later, idle, &wrote(6)), NextStep::CheckIn(STEP));
        let later = later + UNCHANGED_FOR;
        assert_eq!(checks.record(later, idle, &wrote(6)), NextStep::CheckIn(LONG_INTERVAL));
        let asks = activity(InputWait::Reads, 0);
        assert_eq!(checks.record(later, asks, &wrote(6)), NextStep::CheckIn(STEP));
    }
}
