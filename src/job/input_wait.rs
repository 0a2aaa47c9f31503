//! The decision whether a job waits for input, and the wait until it has done so for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::output::{LogProgress, LogReader};
use crate::process::{InputActivity, InputWait, ProcessTree};

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
