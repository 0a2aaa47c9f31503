//! The decisions of the keeper: when to start a server, which signals to pass on, and when to give up.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The exit code of a server that wants the keeper to start another program in its place.
pub const UPGRADE_EXIT_CODE: u8 = 86;

/// The time in which failures are counted, and the number at which the keeper gives up.
const FAILURE_PERIOD: Duration = Duration::from_secs(60);
const MOST_FAILURES: usize = 5;

/// A server that somebody else killed before it was ready counts as this part of a failure: most
/// often it would have become ready.
const KILLS_PER_FAILURE: usize = 6;

/// The pause before the server is started again, by the number of recent failures.
const PAUSES: [Duration; MOST_FAILURES] = [
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// The time in which kills of ready servers are counted.
const KILL_PERIOD: Duration = Duration::from_secs(10);

/// The time in which a new program, or the present one that is to end, has to become ready.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// The time in which a new program has to become ready once somebody has asked the server to end.
const CANDIDATE_STOP_LIMIT: Duration = Duration::from_secs(5);

/// The time for which a server that exits before it is ready is started again. Most likely it cannot
/// read its settings or its data: whoever repairs them has that long, and the jobs go on meanwhile.
const START_LIMIT: Duration = Duration::from_mins(10);

/// The shortest and the longest pause before such a server is started again.
const START_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Returns the pause before the server is started again, by the number of recent kills of ready
/// servers.
const fn kill_pause(kills: usize) -> Duration {
    match kills {
        0..=2 => Duration::ZERO,
        3 => Duration::from_millis(200),
        _ => Duration::from_secs(1),
    }
}

/// The way in which a server ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerEnd {
    Code(u8),
    Signal(i32),
    /// It could not be started, for this reason.
    NotStarted(String),
}

impl ServerEnd {
    fn describe(&self) -> String {
        match self {
            Self::Code(code) => format!("exited with code {code}"),
            Self::Signal(signal) => format!("was ended by signal {signal}"),
            Self::NotStarted(why) => format!("could not be started: {why}"),
        }
    }

    /// Returns the exit code of a keeper that ends with this server.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => u8::try_from(*signal).unwrap_or(0).saturating_add(128),
            Self::NotStarted(_) => 1,
        }
    }

    /// Returns the exit code after somebody asked the server to end.
    fn exit_code_after_stop(&self) -> u8 {
        match self {
            // It had not set up its signals yet.
            Self::Signal(libc::SIGTERM | libc::SIGINT) => 0,
            Self::Code(_) | Self::Signal(_) | Self::NotStarted(_) => self.exit_code(),
        }
    }
}

/// The program that is started as the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerProgram {
    /// The program that was ready last, or the first one.
    Current,
    /// The program of an upgrade. It becomes the current one when it is ready.
    Candidate,
}

/// An event that the keeper reacts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeeperInput {
    ServerReady,
    UpgradeRequested,
    ServerEnded(ServerEnd),
    /// A signal that asks the server to end.
    StopSignal(i32),
    /// A signal with another meaning for the server.
    OtherSignal(i32),
    TimePassed,
}

/// An action of the keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeeperAction {
    StartServer(ServerProgram),
    KillServer,
    ForwardSignal(i32),
    /// Make the candidate the current program.
    AcceptCandidate,
    /// End all jobs, and exit with this code.
    Finish {
        code: u8,
        failure: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A server runs and is not ready yet.
    Starting {
        program: ServerProgram,
        deadline: Option<Duration>,
    },
    Ready,
    /// No server runs.
    Pausing {
        until: Duration,
    },
    Over,
}

/// The progress of a request to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopProgress {
    NotRequested,
    /// The server gets this signal once it is ready: only then can it drain the jobs of earlier
    /// servers.
    Pending(i32),
    /// The server has got this signal.
    Forwarded(i32),
}

/// The state of the keeper about its server. Times are durations since the keeper started.
#[derive(Debug)]
pub(crate) struct ServerSupervision {
    phase: Phase,
    /// `true` once any server was ready: before that, a server that ends is a failed start.
    has_been_ready: bool,
    stop: StopProgress,
    /// Signals that are forwarded once a server is ready: it may have read its settings before they
    /// came, and an upgrade may be meant to replace a program that does not start.
    delayed_signals: BTreeSet<i32>,
    is_upgrade_requested: bool,
    /// The times of the recent failures, oldest first, with their weights: [`KILLS_PER_FAILURE`] for
    /// a whole failure.
    failures: VecDeque<(Duration, usize)>,
    /// The times at which ready servers were recently killed, oldest first.
    kills: VecDeque<Duration>,
    last_failure: Option<String>,
    /// When a server first exited before it was ready, since the last one that was.
    first_failed_start: Option<Duration>,
}

impl ServerSupervision {
    /// Returns the state in which the first server was just started.
    pub(crate) const fn new() -> Self {
        Self {
            phase: Phase::Starting { program: ServerProgram::Current, deadline: None },
            has_been_ready: false,
            stop: StopProgress::NotRequested,
            delayed_signals: BTreeSet::new(),
            is_upgrade_requested: false,
            failures: VecDeque::new(),
            kills: VecDeque::new(),
            last_failure: None,
            first_failed_start: None,
        }
    }

    /// Returns the reason why the previous server, or an upgrade, ended.
    pub(crate) fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// Returns the time of the next [`KeeperInput::TimePassed`], if one is needed.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let is_signal_due =
            matches!(self.stop, StopProgress::Pending(_)) || !self.delayed_signals.is_empty();
        match self.phase {
            Phase::Starting { deadline, .. } => deadline,
            Phase::Pausing { until } => Some(until),
            Phase::Ready if is_signal_due => Some(Duration::ZERO),
            Phase::Ready | Phase::Over => None,
        }
    }

    /// Changes the state, and returns the action to take.
    pub(crate) fn decide(&mut self, input: KeeperInput, now: Duration) -> Option<KeeperAction> {
        match input {
            KeeperInput::ServerReady => self.server_ready(),
            KeeperInput::UpgradeRequested => {
                self.is_upgrade_requested = self.phase == Phase::Ready;
                None
            }
            KeeperInput::ServerEnded(end) => self.server_ended(&end, now),
            KeeperInput::StopSignal(signal) => self.stop(signal, now),
            KeeperInput::OtherSignal(signal) => self.forward_or_delay(signal),
            KeeperInput::TimePassed => self.time_passed(now),
        }
    }

    fn server_ready(&mut self) -> Option<KeeperAction> {
        let Phase::Starting { program, .. } = self.phase else { return None };
        self.phase = Phase::Ready;
        self.has_been_ready = true;
        self.first_failed_start = None;
        (program == ServerProgram::Candidate).then_some(KeeperAction::AcceptCandidate)
    }

    fn stop(&mut self, signal: i32, now: Duration) -> Option<KeeperAction> {
        match self.phase {
            // A second signal does not wait.
            Phase::Starting { program, deadline }
                if self.has_been_ready && self.stop == StopProgress::NotRequested =>
            {
                self.stop = StopProgress::Pending(signal);
                let deadline = match (program, deadline) {
                    (_, Some(deadline)) => Some(deadline.min(now + CANDIDATE_STOP_LIMIT)),
                    (ServerProgram::Current, None) => Some(now + READY_LIMIT),
                    // It is being killed.
                    (ServerProgram::Candidate, None) => None,
                };
                self.phase = Phase::Starting { program, deadline };
                None
            }
            Phase::Starting { .. } | Phase::Ready => self.forward_stop(signal),
            Phase::Pausing { .. } => self.finish(0, None),
            Phase::Over => None,
        }
    }

    fn forward_or_delay(&mut self, signal: i32) -> Option<KeeperAction> {
        // An upgrade or a reload would only hold up the end.
        let is_to_stop = self.stop != StopProgress::NotRequested;
        match self.phase {
            Phase::Ready if signal == libc::SIGQUIT || !is_to_stop => {
                return Some(KeeperAction::ForwardSignal(signal));
            }
            // SIGQUIT is dropped: the next server would end by it as soon as it is ready.
            Phase::Starting { .. } | Phase::Pausing { .. }
                if signal != libc::SIGQUIT && !is_to_stop =>
            {
                self.delayed_signals.insert(signal);
            }
            Phase::Ready | Phase::Starting { .. } | Phase::Pausing { .. } | Phase::Over => {}
        }
        None
    }

    fn forward_stop(&mut self, signal: i32) -> Option<KeeperAction> {
        self.stop = StopProgress::Forwarded(signal);
        // An upgrade would only hold up the end.
        self.delayed_signals.clear();
        Some(KeeperAction::ForwardSignal(signal))
    }

    fn server_ended(&mut self, end: &ServerEnd, now: Duration) -> Option<KeeperAction> {
        let is_upgrade = std::mem::take(&mut self.is_upgrade_requested)
            && *end == ServerEnd::Code(UPGRADE_EXIT_CODE);
        let phase = self.phase;
        match phase {
            Phase::Pausing { .. } | Phase::Over => None,
            Phase::Ready if is_upgrade => {
                let mut limit = READY_LIMIT;
                // The old server has left all jobs to the next one, which has to drain them.
                if let StopProgress::Forwarded(signal) = self.stop {
                    self.stop = StopProgress::Pending(signal);
                    limit = CANDIDATE_STOP_LIMIT;
                }
                self.last_failure = None;
                self.start(ServerProgram::Candidate, Some(now + limit))
            }
            Phase::Starting { deadline, .. } if self.is_stopped_by_end_of(phase) => {
                let is_pending = matches!(self.stop, StopProgress::Pending(_));
                // Without a deadline it was killed because the deadline had passed.
                let is_late = is_pending && deadline.is_none();
                let why = "the server did not become ready when it was to end".to_owned();
                self.finish(end.exit_code_after_stop(), is_late.then_some(why))
            }
            Phase::Ready if self.is_stopped_by_end_of(phase) => {
                self.finish(end.exit_code_after_stop(), None)
            }
            Phase::Starting { .. } if !self.has_been_ready => self.finish(end.exit_code(), None),
            Phase::Starting { program: ServerProgram::Candidate, deadline } => {
                // Without a deadline it was killed because the deadline had passed.
                let why = match deadline {
                    Some(_) => end.describe(),
                    None if self.stop != StopProgress::NotRequested => {
                        "was not ready when the server was to end".to_owned()
                    }
                    None => format!("was not ready after {} seconds", READY_LIMIT.as_secs()),
                };
                self.last_failure = Some(format!("the new program {why}"));
                let is_to_stop = self.stop != StopProgress::NotRequested;
                self.start(ServerProgram::Current, is_to_stop.then_some(now + READY_LIMIT))
            }
            Phase::Starting { program: ServerProgram::Current, .. } => match end {
                ServerEnd::Signal(_) => self.fail(end, now),
                ServerEnd::Code(_) | ServerEnd::NotStarted(_) => self.fail_to_start(end, now),
            },
            Phase::Ready if *end == ServerEnd::Code(0) => self.finish(0, None),
            // The program itself works: somebody else killed it, or the host had no memory left.
            Phase::Ready if *end == ServerEnd::Signal(libc::SIGKILL) => {
                self.last_failure = Some(format!("the server {}", end.describe()));
                self.kills.retain(|time| now.saturating_sub(*time) < KILL_PERIOD);
                self.kills.push_back(now);
                self.start_after(kill_pause(self.kills.len()), now)
            }
            Phase::Ready => self.fail(end, now),
        }
    }

    /// `true` if the end of a server in this phase ends the keeper because of a stop signal. A new
    /// program that fails to start is still replaced by the old one, which gets the signal then.
    fn is_stopped_by_end_of(&self, phase: Phase) -> bool {
        let is_candidate =
            matches!(phase, Phase::Starting { program: ServerProgram::Candidate, .. });
        match self.stop {
            StopProgress::NotRequested => false,
            StopProgress::Pending(_) => !is_candidate,
            StopProgress::Forwarded(_) => true,
        }
    }

    fn fail(&mut self, end: &ServerEnd, now: Duration) -> Option<KeeperAction> {
        let why = format!("the server {}", end.describe());
        self.last_failure = Some(why.clone());
        let weight = if *end == ServerEnd::Signal(libc::SIGKILL) { 1 } else { KILLS_PER_FAILURE };
        self.failures.retain(|(time, _)| now.saturating_sub(*time) < FAILURE_PERIOD);
        self.failures.push_back((now, weight));
        let failures =
            self.failures.iter().map(|(_, weight)| weight).sum::<usize>() / KILLS_PER_FAILURE;
        if failures >= MOST_FAILURES {
            return self.finish(1, Some(format!("{why}, too often in a minute")));
        }
        self.start_after(PAUSES.get(failures).copied().unwrap_or_default(), now)
    }

    fn fail_to_start(&mut self, end: &ServerEnd, now: Duration) -> Option<KeeperAction> {
        let why = format!("the server {}", end.describe());
        self.last_failure = Some(why.clone());
        let failing = now.saturating_sub(*self.first_failed_start.get_or_insert(now));
        if failing >= START_LIMIT {
            let minutes = START_LIMIT.as_secs() / 60;
            return self
                .finish(1, Some(format!("{why}, and could not start for {minutes} minutes")));
        }
        let (shortest, longest) = START_PAUSES;
        self.start_after((failing / 4).clamp(shortest, longest), now)
    }

    /// Starts the current program after a pause.
    fn start_after(&mut self, pause: Duration, now: Duration) -> Option<KeeperAction> {
        if pause.is_zero() {
            return self.start(ServerProgram::Current, None);
        }
        self.phase = Phase::Pausing { until: now + pause };
        None
    }

    fn time_passed(&mut self, now: Duration) -> Option<KeeperAction> {
        match self.phase {
            Phase::Pausing { until } if until <= now => self.start(ServerProgram::Current, None),
            Phase::Starting { program, deadline: Some(deadline) } if deadline <= now => {
                self.phase = Phase::Starting { program, deadline: None };
                Some(KeeperAction::KillServer)
            }
            Phase::Ready if let StopProgress::Pending(signal) = self.stop => {
                self.forward_stop(signal)
            }
            Phase::Ready => self.delayed_signals.pop_first().map(KeeperAction::ForwardSignal),
            Phase::Pausing { .. } | Phase::Starting { .. } | Phase::Over => None,
        }
    }

    fn start(
        &mut self,
        program: ServerProgram,
        deadline: Option<Duration>,
    ) -> Option<KeeperAction> {
        self.phase = Phase::Starting { program, deadline };
        Some(KeeperAction::StartServer(program))
    }

    fn finish(&mut self, code: u8, failure: Option<String>) -> Option<KeeperAction> {
        self.phase = Phase::Over;
        Some(KeeperAction::Finish { code, failure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Option<KeeperAction> = Some(KeeperAction::StartServer(ServerProgram::Current));
    const START_NEW: Option<KeeperAction> =
        Some(KeeperAction::StartServer(ServerProgram::Candidate));

    fn ended(end: ServerEnd) -> KeeperInput {
        KeeperInput::ServerEnded(end)
    }

    fn code(code: u8) -> KeeperInput {
        ended(ServerEnd::Code(code))
    }

    fn killed(signal: i32) -> KeeperInput {
        ended(ServerEnd::Signal(signal))
    }

    fn finish(code: u8) -> Option<KeeperAction> {
        Some(KeeperAction::Finish { code, failure: None })
    }

    /// Checks the action for each input; the number is the time in milliseconds.
    #[track_caller]
    fn check(steps: &[(u64, KeeperInput, Option<KeeperAction>)]) -> ServerSupervision {
        let mut state = ServerSupervision::new();
        for (number, (time, input, expected)) in steps.iter().enumerate() {
            let action = state.decide(input.clone(), Duration::from_millis(*time));
            assert_eq!(action, *expected, "step {number}: {input:?}");
        }
        state
    }

    #[test]
    fn a_server_that_was_never_ready_ends_the_keeper_with_its_code() {
        for (end, expected) in [
            (ServerEnd::Code(0), 0),
            (ServerEnd::Code(2), 2),
            (ServerEnd::Signal(6), 134),
            (ServerEnd::Code(UPGRADE_EXIT_CODE), UPGRADE_EXIT_CODE),
            (ServerEnd::NotStarted("gone".to_owned()), 1),
        ] {
            check(&[(0, ended(end), finish(expected))]);
        }
    }

    #[test]
    fn a_server_that_ends_by_itself_ends_the_keeper() {
        check(&[(0, KeeperInput::ServerReady, None), (9, code(0), finish(0))]);
    }

    #[test]
    fn a_crashed_server_is_started_again_after_growing_pauses() {
        let state = check(&[
            (0, KeeperInput::ServerReady, None),
            (10, code(101), START),
            (20, KeeperInput::ServerReady, None),
            (30, killed(6), None),
            (229, KeeperInput::TimePassed, None),
            (230, KeeperInput::TimePassed, START),
            (240, killed(11), None),
            (1239, KeeperInput::TimePassed, None),
            (1240, KeeperInput::TimePassed, START),
            (1250, KeeperInput::ServerReady, None),
            (1260, ended(ServerEnd::NotStarted("no file".to_owned())), None),
        ]);
        assert_eq!(state.last_failure(), Some("the server could not be started: no file"));
        assert_eq!(state.next_deadline(), Some(Duration::from_millis(4260)));
    }

    #[test]
    fn a_server_that_cannot_start_again_is_tried_for_ten_minutes() {
        let mut state = check(&[(0, KeeperInput::ServerReady, None), (0, code(127), START)]);
        let mut times = Vec::new();
        let mut now = Duration::ZERO;
        let last = loop {
            times.push(now);
            match state.decide(code(1), now) {
                Some(action) => break action,
                None => now = state.next_deadline().expect("it is tried again"),
            }
            assert_eq!(state.decide(KeeperInput::TimePassed, now), START);
        };
        let why = "the server exited with code 1, and could not start for 10 minutes".to_owned();
        assert_eq!(last, KeeperAction::Finish { code: 1, failure: Some(why) });
        let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses.iter().min(), Some(&START_PAUSES.0));
        assert_eq!(pauses.iter().max(), Some(&START_PAUSES.1));
        // One that was ready meanwhile begins anew.
        check(&[
            (0, KeeperInput::ServerReady, None),
            (0, code(1), START),
            (0, code(1), None),
            (590_000, KeeperInput::TimePassed, START),
            (590_000, KeeperInput::ServerReady, None),
            (700_000, code(1), START),
            (700_000, code(1), None),
        ]);
    }

    #[test]
    fn the_fifth_failure_in_a_minute_ends_the_keeper_and_old_ones_do_not_count() {
        let mut state = ServerSupervision::new();
        let mut fail_at = |seconds: u64| {
            let now = Duration::from_secs(seconds);
            state.decide(KeeperInput::ServerReady, now);
            let action = state.decide(code(1), now);
            if action.is_none() {
                state.decide(KeeperInput::TimePassed, now + Duration::from_secs(3));
            }
            action
        };
        for seconds in [0, 10, 20, 30] {
            assert!(!matches!(fail_at(seconds), Some(KeeperAction::Finish { .. })));
        }
        // The first is more than a minute old.
        assert!(!matches!(fail_at(60), Some(KeeperAction::Finish { .. })));
        let last = fail_at(66);
        let Some(KeeperAction::Finish { code: 1, failure: Some(why) }) = last else {
            panic!("{last:?}");
        };
        assert!(why.starts_with("the server exited with code 1, "), "{why}");
    }

    #[test]
    fn a_ready_server_that_is_killed_from_outside_is_always_started_again() {
        let mut steps = Vec::new();
        let mut time = 0;
        for pause in [0, 0, 200].into_iter().chain([1000; 30]) {
            steps.push((time, KeeperInput::ServerReady, None));
            if pause == 0 {
                steps.push((time, killed(libc::SIGKILL), START));
            } else {
                steps.push((time, killed(libc::SIGKILL), None));
                steps.push((time + pause - 1, KeeperInput::TimePassed, None));
                steps.push((time + pause, KeeperInput::TimePassed, START));
            }
            time += pause;
        }
        // The kills of the last ten seconds count.
        time += 10_000;
        steps.push((time, KeeperInput::ServerReady, None));
        steps.push((time, killed(libc::SIGKILL), START));
        let state = check(&steps);
        assert_eq!(state.last_failure(), Some("the server was ended by signal 9"));
    }

    #[test]
    fn a_stop_during_a_hand_over_reaches_the_next_server_once_it_is_ready() {
        let stop = || KeeperInput::StopSignal(libc::SIGTERM);
        let forward = || Some(KeeperAction::ForwardSignal(libc::SIGTERM));
        let accept = || Some(KeeperAction::AcceptCandidate);
        let begin = [
            (0, KeeperInput::ServerReady, None),
            (1, KeeperInput::UpgradeRequested, None),
            (2, stop(), forward()),
            (3, code(UPGRADE_EXIT_CODE), START_NEW),
        ];
        let begin_late = [
            (0, KeeperInput::ServerReady, None),
            (1, KeeperInput::UpgradeRequested, None),
            (2, code(UPGRADE_EXIT_CODE), START_NEW),
            (3, stop(), None),
        ];
        let ready = [
            (4, KeeperInput::TimePassed, None),
            (5, KeeperInput::ServerReady, accept()),
            (5, KeeperInput::TimePassed, forward()),
            (6, KeeperInput::TimePassed, None),
            (7, code(0), finish(0)),
        ];
        let failed = [
            (4, code(2), START),
            (5, KeeperInput::ServerReady, None),
            (5, KeeperInput::TimePassed, forward()),
            (6, code(0), finish(0)),
        ];
        let both_failed = [(4, code(2), START), (5, code(3), finish(3))];
        let never_ready = [
            (5_003, KeeperInput::TimePassed, Some(KeeperAction::KillServer)),
            (5_004, killed(libc::SIGKILL), START),
            (5_005, KeeperInput::ServerReady, None),
            (5_005, KeeperInput::TimePassed, forward()),
        ];
        for first in [&begin, &begin_late] {
            for rest in [&ready[..], &failed, &both_failed, &never_ready] {
                check(&[&first[..], rest].concat());
            }
        }
        // A second signal does not wait for the server, which has no handler yet.
        let impatient = [(4, stop(), forward()), (5, killed(libc::SIGTERM), finish(0))];
        check(&[&begin_late[..], &impatient].concat());
    }

    #[test]
    fn a_stop_while_a_crashed_server_starts_again_waits_until_it_is_ready() {
        let forward = Some(KeeperAction::ForwardSignal(libc::SIGTERM));
        let mut state = check(&[
            (0, KeeperInput::ServerReady, None),
            (1, code(1), START),
            (2, KeeperInput::StopSignal(libc::SIGTERM), None),
            (3, KeeperInput::ServerReady, None),
        ]);
        assert_eq!(state.next_deadline(), Some(Duration::ZERO), "the signal is due at once");
        let now = Duration::from_millis(3);
        assert_eq!(state.decide(KeeperInput::TimePassed, now), forward);
        assert_eq!(state.next_deadline(), None);
        assert_eq!(state.decide(code(0), now), finish(0));
    }

    #[test]
    fn a_server_that_is_to_end_and_never_becomes_ready_is_killed() {
        let failure = Some("the server did not become ready when it was to end".to_owned());
        let stop = || KeeperInput::StopSignal(libc::SIGTERM);
        let crashed = [
            (0, KeeperInput::ServerReady, None),
            (1, code(1), START),
            (2, KeeperInput::TimePassed, None),
            (3, stop(), None),
        ];
        let not_upgraded = [
            (0, KeeperInput::ServerReady, None),
            (1, KeeperInput::UpgradeRequested, None),
            (1, code(UPGRADE_EXIT_CODE), START_NEW),
            (2, stop(), None),
            (3, code(2), START),
        ];
        let rest = [
            (30_002, KeeperInput::TimePassed, None),
            (30_003, KeeperInput::TimePassed, Some(KeeperAction::KillServer)),
            (30_004, killed(libc::SIGKILL), Some(KeeperAction::Finish { code: 137, failure })),
        ];
        for first in [&crashed[..], &not_upgraded] {
            check(&[first, &rest].concat());
        }
    }

    #[test]
    fn a_server_that_is_killed_while_it_starts_may_fail_more_often() {
        let mut state = check(&[(0, KeeperInput::ServerReady, None), (0, code(1), START)]);
        let mut kills = 0;
        loop {
            kills += 1;
            let now = Duration::from_secs(kills);
            match state.decide(killed(libc::SIGKILL), now) {
                Some(KeeperAction::Finish { code, .. }) => break assert_eq!(code, 1),
                None => drop(state.decide(KeeperInput::TimePassed, now + Duration::from_secs(3))),
                action => assert_eq!(action, START),
            }
        }
        assert_eq!(kills, 24, "together with one whole failure");
    }

    #[test]
    fn signals_reach_a_server_that_can_take_them() {
        let forward = |signal| Some(KeeperAction::ForwardSignal(signal));
        check(&[
            (0, KeeperInput::OtherSignal(libc::SIGHUP), None),
            (0, KeeperInput::OtherSignal(libc::SIGHUP), None),
            (0, KeeperInput::TimePassed, None),
            (0, KeeperInput::ServerReady, None),
            (0, KeeperInput::TimePassed, forward(libc::SIGHUP)),
            (0, KeeperInput::TimePassed, None),
            (0, KeeperInput::OtherSignal(libc::SIGHUP), forward(libc::SIGHUP)),
            (0, KeeperInput::StopSignal(libc::SIGTERM), forward(libc::SIGTERM)),
            (0, KeeperInput::StopSignal(libc::SIGTERM), forward(libc::SIGTERM)),
            (1, code(3), finish(3)),
        ]);
        check(&[
            (0, KeeperInput::StopSignal(libc::SIGINT), forward(libc::SIGINT)),
            (1, killed(libc::SIGINT), finish(0)),
        ]);
    }

    #[test]
    fn requests_wait_for_the_next_server_that_is_ready() {
        let forward = |signal| Some(KeeperAction::ForwardSignal(signal));
        let mut state = check(&[
            (0, KeeperInput::ServerReady, None),
            (1, KeeperInput::UpgradeRequested, None),
            (2, code(UPGRADE_EXIT_CODE), START_NEW),
            (3, KeeperInput::OtherSignal(libc::SIGUSR2), None),
            (4, KeeperInput::OtherSignal(libc::SIGQUIT), None),
            (5, code(2), START),
            (6, code(2), None),
            (8, KeeperInput::OtherSignal(libc::SIGHUP), None),
            (9, KeeperInput::OtherSignal(libc::SIGQUIT), None),
            (300, KeeperInput::TimePassed, START),
            (301, KeeperInput::ServerReady, None),
        ]);
        let now = Duration::from_millis(301);
        for signal in [libc::SIGHUP, libc::SIGUSR2] {
            assert_eq!(state.next_deadline(), Some(Duration::ZERO), "{signal} is due at once");
            assert_eq!(state.decide(KeeperInput::TimePassed, now), forward(signal));
        }
        assert_eq!(state.next_deadline(), None);
        // A stop makes them pointless.
        check(&[
            (0, KeeperInput::ServerReady, None),
            (1, code(1), START),
            (2, KeeperInput::OtherSignal(libc::SIGHUP), None),
            (3, KeeperInput::StopSignal(libc::SIGTERM), None),
            (4, KeeperInput::ServerReady, None),
            (4, KeeperInput::OtherSignal(libc::SIGUSR2), None),
            (4, KeeperInput::TimePassed, forward(libc::SIGTERM)),
            (4, KeeperInput::OtherSignal(libc::SIGUSR2), None),
            (4, KeeperInput::TimePassed, None),
            (5, KeeperInput::OtherSignal(libc::SIGQUIT), forward(libc::SIGQUIT)),
        ]);
        check(&[
            (0, KeeperInput::StopSignal(libc::SIGTERM), forward(libc::SIGTERM)),
            (1, KeeperInput::OtherSignal(libc::SIGUSR2), None),
            (2, KeeperInput::ServerReady, None),
            (3, KeeperInput::TimePassed, None),
        ]);
    }

    #[test]
    fn a_server_that_crashes_while_it_stops_is_not_started_again() {
        let forward = Some(KeeperAction::ForwardSignal(libc::SIGTERM));
        check(&[
            (0, KeeperInput::ServerReady, None),
            (0, KeeperInput::StopSignal(libc::SIGTERM), forward),
            (1, killed(libc::SIGKILL), finish(137)),
        ]);
    }

    #[test]
    fn a_stop_without_a_server_ends_the_keeper() {
        check(&[
            (0, KeeperInput::ServerReady, None),
            (0, code(1), START),
            (0, code(1), None),
            (1, KeeperInput::StopSignal(libc::SIGTERM), finish(0)),
            (9999, KeeperInput::TimePassed, None),
        ]);
    }

    #[test]
    fn a_new_program_that_is_ready_replaces_the_old_one() {
        let state = check(&[
            (0, KeeperInput::ServerReady, None),
            (1, KeeperInput::UpgradeRequested, None),
            (2, code(UPGRADE_EXIT_CODE), START_NEW),
            (3, KeeperInput::ServerReady, Some(KeeperAction::AcceptCandidate)),
            (40_000, KeeperInput::TimePassed, None),
        ]);
        assert_eq!(state.last_failure(), None);
    }

    #[test]
    fn the_old_program_is_started_if_the_new_one_fails() {
        for (end, why) in [
            (ServerEnd::Code(2), "the new program exited with code 2"),
            (ServerEnd::Code(0), "the new program exited with code 0"),
            (ServerEnd::NotStarted("no".into()), "the new program could not be started: no"),
        ] {
            let state = check(&[
                (0, KeeperInput::ServerReady, None),
                (1, KeeperInput::UpgradeRequested, None),
                (2, code(UPGRADE_EXIT_CODE), START_NEW),
                (3, ended(end), START),
                (4, KeeperInput::ServerReady, None),
            ]);
            assert_eq!(state.last_failure(), Some(why));
        }
    }

    #[test]
    fn a_new_program_that_is_never_ready_is_killed() {
        let state = check(&[
            (0, KeeperInput::ServerReady, None),
            (1, KeeperInput::UpgradeRequested, None),
            (2, code(UPGRADE_EXIT_CODE), START_NEW),
            (30_001, KeeperInput::TimePassed, None),
            (30_002, KeeperInput::TimePassed, Some(KeeperAction::KillServer)),
            (30_003, killed(libc::SIGKILL), START),
        ]);
        assert_eq!(state.last_failure(), Some("the new program was not ready after 30 seconds"));
    }

    #[test]
    fn a_server_that_crashes_during_an_upgrade_request_is_started_from_the_old_program() {
        check(&[
            (0, KeeperInput::ServerReady, None),
            (1, KeeperInput::UpgradeRequested, None),
            (2, killed(6), START),
            (3, KeeperInput::ServerReady, None),
            // Nobody asked for this one.
            (4, code(UPGRADE_EXIT_CODE), None),
        ]);
    }
}
