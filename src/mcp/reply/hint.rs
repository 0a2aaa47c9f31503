//! The hint, which is the `→` line of a reply: the next call to make.

use std::time::Duration;

use super::format::soon;
use super::shown_output::{OutputEncoding, ShownOutput};
use super::snapshot::{JobSnapshot, State, lost_output};
use crate::confinement::{Confinement, NetworkAccess};
use crate::ids::JobId;
use crate::outcome::{JobEnding, LimitKind, Outcome};
use crate::output::{LogProgress, PageEnd};
use crate::service::{LimitSetting, MissingCommand, WaitsFor};
use crate::spec::Stream;

/// The reason why a call about jobs answers now, as far as its hint depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum AnswerReason {
    /// The state of the jobs: they have ended or wait for input, or the call did not wait.
    #[default]
    JobState,
    /// A line of this job matched `until`; without a job, a process listens on the port.
    Ready(Option<JobId>),
    /// A job wrote nothing for the requested time.
    Quiet,
    /// The wait was over before anything happened.
    WaitOver(TimedOutWait),
}

/// Returns the hint after a reply about one job; `None` if nothing is left to do.
pub(crate) fn hint_after_job(
    job: &JobSnapshot,
    shown: Option<&ShownOutput>,
    reason: &AnswerReason,
) -> Option<String> {
    let id = job.job;
    match (&job.state, reason) {
        (State::Running(_), _) if job.waits_for_input() => Some(hint_input(job)),
        (State::Running(_), AnswerReason::Ready(_)) => Some(format!(
            "it goes on: stop_jobs(jobs=[{id}]) ends it; read_output(job={id}, view=\"next\") \
             shows what it writes from now on"
        )),
        (State::Running(_), AnswerReason::Quiet) => Some(format!(
            "it goes on: wait_jobs(jobs=[{id}]) returns on exit; stop_jobs(jobs=[{id}]) ends it"
        )),
        (State::Queued(_) | State::Running(_) | State::Stopping, AnswerReason::WaitOver(over)) => {
            Some(over.hint(&[job]))
        }
        (State::Queued(_) | State::Running(_) | State::Stopping, _) => Some(wait_text(&[job], "")),
        (State::Finished(ending), _) => hint_after_end(job, ending, shown),
    }
}

/// Characters that only a shell understands.
const SHELL_SYNTAX: [char; 10] = ['$', '|', '&', ';', '<', '>', '`', '*', '"', '\''];

/// Says what the likely mistake is if a command was not found.
pub(crate) fn hint_missing_command(missing: &MissingCommand) -> String {
    match missing {
        MissingCommand::HoldsArguments { argument, .. } if argument.contains(SHELL_SYNTAX) => {
            "with args, command is the program alone: leave args out for a shell line".to_owned()
        }
        MissingCommand::HoldsArguments { program, argument } => format!(
            "with args, command is the program alone: command={program:?}, args=[{argument:?}, …]"
        ),
        MissingCommand::NotInDirectory { path, directory } => format!(
            "{path} is not in {}, where the job started: give another cwd",
            directory.display()
        ),
        MissingCommand::HasSimilar { names } => format!("did you mean {}?", names.join(", ")),
    }
}

/// The most withheld variables that are named.
const MAX_WITHHELD: usize = 3;

/// Says which variables that the output names the job did not get.
fn hint_withheld(job: &JobSnapshot, output: &str) -> Option<String> {
    let names = job.withheld_variables.iter().filter(|name| has_name(output, name));
    let names: Vec<&str> = names.take(MAX_WITHHELD).map(String::as_str).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| {
        format!("{} {verb} set but withheld from jobs (environment.pass)", names.join(", "))
    })
}

/// `true` if the text contains this name, and not only as a part of a longer one.
fn has_name(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
    })
}

/// Returns the hint after a reply about jobs: with one job its own.
pub(crate) fn hint_after_jobs(
    jobs: &[(&JobSnapshot, Option<&ShownOutput>)],
    reason: &AnswerReason,
) -> Option<String> {
    if let [(job, shown)] = jobs {
        return hint_after_job(job, *shown, reason);
    }
    let jobs = || jobs.iter().map(|(job, _)| *job);
    let open: Vec<&JobSnapshot> = jobs().filter(|job| job.ending().is_none()).collect();
    let input = jobs().find(|job| job.waits_for_input()).map(|job| {
        let id = job.job;
        format!("send_input(job={id}, text=\"…\\n\") answers job {id}")
    });
    let next = match reason {
        _ if open.is_empty() => None,
        AnswerReason::WaitOver(over) if input.is_none() => Some(over.hint(&open)),
        AnswerReason::Ready(Some(ready)) => {
            Some(format!("stop_jobs(jobs=[{ready}]) ends job {ready}; {}", wait_text(&open, "")))
        }
        AnswerReason::JobState
        | AnswerReason::Ready(None)
        | AnswerReason::Quiet
        | AnswerReason::WaitOver(_) => Some(wait_text(&open, "")),
    };
    let survivors = jobs().filter_map(survivors_hint);
    let hints: Vec<String> = input.into_iter().chain(next).chain(survivors).collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

/// Lines that are read before an error.
const LINES_BEFORE_ERROR: u64 = 10;

/// Returns the hint about a job that has ended.
fn hint_after_end(
    job: &JobSnapshot,
    ending: &JobEnding,
    shown: Option<&ShownOutput>,
) -> Option<String> {
    let id = job.job;
    let rest = match shown {
        Some(shown) if shown.is_binary() => {
            Some(format!("read_output(job={id}, form=\"base64\") gives the bytes as base64"))
        }
        Some(ShownOutput { facts: Some(facts), .. }) => {
            let kept = match kept_output(ending, &job.output) {
                Some(kept) => format!("{kept}: "),
                None => String::new(),
            };
            let around = facts.first_error_line().map(|line| {
                let from = line.saturating_sub(LINES_BEFORE_ERROR).max(1);
                format!("around line {line}: read_output(job={id}, line={from}); ")
            });
            let around = around.unwrap_or_default();
            Some(format!("{around}{kept}whole log: read_output(job={id})"))
        }
        Some(shown) if shown.cut.is_some() => {
            let kept = kept_output(ending, &job.output).unwrap_or("full log kept".to_owned());
            Some(format!(
                "{kept}: read_output(job={id}, view=\"next\") or read_output(job={id}, grep=\"…\")"
            ))
        }
        Some(_) | None if job.has_skipped_output => {
            Some(format!("earlier output was not shown yet: read_output(job={id}, view=\"next\")"))
        }
        Some(_) | None => None,
    };
    let raise = job.limit.as_ref().and_then(|limit| hint_raise_limit(&ending.outcome, limit));
    let withheld = shown.and_then(|shown| hint_withheld(job, &shown.text));
    let hints = [sandbox_hint(job, shown), withheld, raise, survivors_hint(job), rest];
    let hints: Vec<String> = hints.into_iter().flatten().collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

/// Returns how to end the processes that outlived their job. A stop, a timeout or a limit has already
/// tried that: those that are left may belong to another job.
fn survivors_hint(job: &JobSnapshot) -> Option<String> {
    let was_killed = job.ending().is_none_or(|ending| {
        let outcome = &ending.outcome;
        ending.kill.is_some() || matches!(outcome, Outcome::Stopped { .. } | Outcome::NotRun { .. })
    });
    let id = job.job;
    (!was_killed && !job.survivors.is_empty())
        .then(|| format!("stop_jobs(jobs=[{id}]) ends what still runs of job {id}"))
}

/// Returns how to raise the limit that ended a job: by the call, as far as the setting allows it,
/// else by the setting.
fn hint_raise_limit(outcome: &Outcome, limit: &LimitSetting) -> Option<String> {
    let setting = &limit.name;
    let raised = |reached: u64| {
        let doubled = reached.saturating_mul(2).max(1);
        let raised = limit.most.map_or(doubled, |most| most.min(doubled));
        (raised > reached).then_some(raised)
    };
    let argument = match *outcome {
        Outcome::TimedOut { after } => {
            raised(after.as_secs()).map(|raised| format!("timeout_s={raised}"))
        }
        Outcome::Limit { which } => match which {
            LimitKind::LargeOutput(_) => Some("on_large_output=\"spill\"".to_owned()),
            LimitKind::OutputBytes(_) | LimitKind::OutputLines(_) => None,
            LimitKind::Memory { limit, .. } => raised(limit).and_then(|raised| {
                let megabytes = raised / 1_000_000;
                let is_more = megabytes * 1_000_000 > limit;
                is_more.then(|| format!("limits={{\"memory\": \"{megabytes} MB\"}}"))
            }),
            LimitKind::FileSize(limit) => raised(limit).and_then(|raised| {
                let kilobytes = raised / 1000;
                let is_more = kilobytes * 1000 > limit;
                is_more.then(|| format!("limits={{\"file_size\": \"{kilobytes} KB\"}}"))
            }),
            LimitKind::Cpu(limit) => {
                raised(limit.as_secs()).map(|raised| format!("limits={{\"cpu_s\": {raised}}}"))
            }
            LimitKind::Processes(limit) => {
                raised(limit).map(|raised| format!("limits={{\"processes\": {raised}}}"))
            }
        },
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::Stopped { .. }
        | Outcome::NotRun { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => return None,
    };
    Some(match argument {
        Some(argument) => {
            format!("run_command(command=\"…\", {argument}) allows more, as far as {setting} does")
        }
        None => format!("only a larger {setting} in the configuration allows more"),
    })
}

/// Returns how to answer a job that waits for input.
fn hint_input(job: &JobSnapshot) -> String {
    let id = job.job;
    if !job.has_terminal && job.output.total_bytes == 0 {
        return hint_silent_input(id);
    }
    format!("send_input(job={id}, text=\"…\\n\") answers it; stop_jobs(jobs=[{id}]) ends it")
}

/// Returns what to do about a job that reads a pipe and shows nothing.
pub(crate) fn hint_silent_input(id: JobId) -> String {
    format!(
        "send_input(job={id}, text=\"…\\n\") answers it; a REPL may show its prompts only in \
         a terminal: stop_jobs(jobs=[{id}]), then run it again with tty=true"
    )
}

/// Says how much of the output can still be read, if that is not all of it.
fn kept_output(ending: &JobEnding, output: &LogProgress) -> Option<String> {
    match (&ending.outcome, output.lost_bytes()) {
        // Output past the limit was never read from the pipe.
        (Outcome::Limit { which }, 0) if which.is_output_limit() => {
            Some("log kept up to the limit".to_owned())
        }
        _ => lost_output(output).map(|lost| format!("{lost}, the rest kept")),
    }
}

/// Says that the key named the job of an earlier call, followed by the next hint.
pub(crate) fn hint_reused_key(key: &str, next: Option<&str>) -> String {
    let key: String = key.chars().take(60).collect();
    let notice = format!("key {key:?} named this job before; nothing was run again");
    match next {
        Some(next) => format!("{notice}; {next}"),
        None => notice,
    }
}

/// Returns how to wait for jobs that have not ended; `conditions` are the arguments that wait for
/// the same as before. Never advises to stop a job that waits for a slot.
fn wait_text(jobs: &[&JobSnapshot], conditions: &str) -> String {
    let call = format!("wait_jobs(jobs=[{}]{conditions})", list_numbers(&ids(jobs)));
    let wait = if conditions.is_empty() { format!("{call} returns on exit") } else { call };
    let mut holders: Vec<JobId> = jobs.iter().flat_map(|job| slot_holders(job)).collect();
    holders.sort_unstable();
    holders.dedup();
    match holders.as_slice() {
        [] => format!("{wait}; do other work meanwhile, do not poll"),
        [holder] => format!(
            "{wait}; job {holder} holds the slot: stop_jobs(jobs=[{holder}]) if it is not needed \
             any more"
        ),
        [first, ..] => format!(
            "{wait}; jobs {} hold the slots: stop_jobs(jobs=[{first}]) if job {first} is not \
             needed any more",
            list_numbers(&holders)
        ),
    }
}

/// Returns the jobs whose slots a queued job waits for; none if it waits for something else.
fn slot_holders(job: &JobSnapshot) -> Vec<JobId> {
    let State::Queued(Some(place)) = &job.state else { return Vec::new() };
    match place.waits_for {
        WaitsFor::Slots { .. } | WaitsFor::Lane { .. } | WaitsFor::TenantLimit { .. } => {
            job.slot_holders.iter().map(|holder| holder.job).collect()
        }
        WaitsFor::Turn
        | WaitsFor::CpuLimit { .. }
        | WaitsFor::Pressure(_)
        | WaitsFor::Files
        | WaitsFor::Paused
        | WaitsFor::LanePaused { .. } => Vec::new(),
    }
}

fn ids(jobs: &[&JobSnapshot]) -> Vec<JobId> {
    jobs.iter().map(|job| job.job).collect()
}

/// Returns how to wait for the jobs that have not ended after a stop; `None` if all have.
pub(crate) fn hint_after_stop(jobs: &[JobSnapshot]) -> Option<String> {
    let open: Vec<&JobSnapshot> = jobs.iter().filter(|job| job.ending().is_none()).collect();
    (!open.is_empty()).then(|| wait_text(&open, ""))
}

/// Says that the output of these jobs is not shown, followed by the next hint.
pub(crate) fn hint_no_room(jobs: &[JobId], next: Option<String>) -> Option<String> {
    let [first, ..] = jobs else { return next };
    let notice = format!(
        "no room for the output of jobs [{}]: read_output(job={first}, view=\"next\")",
        list_numbers(jobs)
    );
    Some(next.map_or(notice.clone(), |next| format!("{notice}; {next}")))
}

/// Lists the numbers of the first jobs.
fn list_numbers(jobs: &[JobId]) -> String {
    const NAMED: usize = 50;
    let named: Vec<String> = jobs.iter().take(NAMED).map(ToString::to_string).collect();
    named.join(",")
}

/// Returns how to continue reading after a page.
pub(crate) fn hint_after_page(job: &JobSnapshot, shown: &ShownOutput) -> Option<String> {
    let id = job.job;
    let start = shown.start;
    let end = shown.end;
    let stream = stream_argument(shown);
    let (raw, form) = match shown.form {
        OutputEncoding::Text | OutputEncoding::Decoded { .. } => (None, ""),
        OutputEncoding::Base64 => (None, "form=\"base64\", "),
        OutputEncoding::Hexdump => (None, "form=\"hexdump\", "),
        // A screen has no next page.
        OutputEncoding::Screen => return hint_after_job(job, None, &AnswerReason::JobState),
        OutputEncoding::Binary { .. } => (
            Some(format!(
                "these bytes: read_output(job={id}, {stream}form=\"base64\", cursor=\"bytes:{start}\")"
            )),
            "",
        ),
    };
    let next = format!("read_output(job={id}, {stream}{form}cursor=\"bytes:{end}\")");
    let more = match shown.end_kind {
        PageEnd::Complete => None,
        PageEnd::More => Some(format!("more: {next}")),
        PageEnd::CaughtUp => Some(hint_caught_up(job, shown, &next)),
    };
    let hints: Vec<String> = raw.into_iter().chain(more).collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

/// Returns how to continue after a page of unseen output; `unseen` is the first offset that the
/// caller has not seen then.
pub(crate) fn hint_after_unseen(
    job: &JobSnapshot,
    shown: &ShownOutput,
    unseen: u64,
) -> Option<String> {
    let stream = stream_argument(shown);
    let form = match shown.form {
        OutputEncoding::Text
        | OutputEncoding::Decoded { .. }
        | OutputEncoding::Binary { .. }
        | OutputEncoding::Screen => "",
        OutputEncoding::Base64 => "form=\"base64\", ",
        OutputEncoding::Hexdump => "form=\"hexdump\", ",
    };
    let next = format!("read_output(job={}, {stream}{form}view=\"next\")", job.job);
    match job.ending() {
        _ if unseen < job.output.total_bytes => Some(format!("more: {next}")),
        None => Some(hint_caught_up(job, shown, &next)),
        Some(_) => None,
    }
}

/// Returns what to do about a job that may write more, after a page with all of its output so far.
fn hint_caught_up(job: &JobSnapshot, shown: &ShownOutput, next: &str) -> String {
    let id = job.job;
    let is_text = matches!(shown.form, OutputEncoding::Text | OutputEncoding::Decoded { .. });
    match hint_after_job(job, None, &AnswerReason::JobState) {
        Some(hint)
            if job.waits_for_input()
                || matches!(job.state, State::Queued(_))
                || !job.survivors.is_empty() =>
        {
            hint
        }
        // A wait shows what is new, as text of both streams.
        _ if is_text && shown.stream.is_none() => {
            format!("so far all: wait_jobs(jobs=[{id}]) shows what is new")
        }
        _ => format!("so far all: wait_jobs(jobs=[{id}]), then {next}"),
    }
}

/// Formats the argument that reads the same stream again.
fn stream_argument(shown: &ShownOutput) -> &'static str {
    match shown.stream {
        None => "",
        Some(Stream::Stdout) => "stream=\"stdout\", ",
        Some(Stream::Stderr) => "stream=\"stderr\", ",
    }
}

/// After this many timed-out waits in a row the hint tells the caller to do something else.
const MAX_TIMED_OUT_WAITS: u32 = 3;

/// A wait that timed out before anything happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TimedOutWait {
    /// The number of timed-out waits in a row of this caller for these jobs, including this one.
    pub(crate) consecutive: u32,
    /// The cut, if the wait was shorter than requested.
    pub(crate) cut: Option<CutWait>,
    /// The offset from which `until` was searched, if what is before was searched or shown before.
    pub(crate) searched_from: Option<u64>,
    /// The arguments that wait for the same again, each with a comma before it.
    pub(crate) conditions: String,
}

/// A wait that was shorter than requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutWait {
    pub(crate) requested: Duration,
    pub(crate) waited: Duration,
    /// The longest time that the call may take.
    pub(crate) call_limit: Duration,
    /// The setting with that time.
    pub(crate) setting: &'static str,
}

impl CutWait {
    fn text(self) -> String {
        let Self { requested, waited, call_limit, setting } = self;
        format!(
            "wait_s={} was cut to {}, because a call may take {} ({setting})",
            requested.as_secs_f64(),
            soon(waited),
            soon(call_limit)
        )
    }
}

impl TimedOutWait {
    /// Returns the hint about jobs that have not ended: the next call, and not to poll.
    fn hint(&self, open: &[&JobSnapshot]) -> String {
        let cut = self.cut.map(CutWait::text);
        let searched = self.searched_from.map(|from| {
            format!("until was looked for from cursor=\"bytes:{from}\" on: what is before was searched or shown before")
        });
        let next = if self.consecutive >= MAX_TIMED_OUT_WAITS {
            stop_polling_text(self.consecutive, open)
        } else {
            wait_text(open, &self.conditions)
        };
        let hints: Vec<String> = searched.into_iter().chain(cut).chain([next]).collect();
        hints.join("; ")
    }
}

/// Tells a caller that polls to do something else. Only jobs that run can be looked at or stopped.
fn stop_polling_text(waits: u32, open: &[&JobSnapshot]) -> String {
    let notice = format!(
        "{waits} waits in a row ended without an event: stop polling, do other work or end your turn"
    );
    let running: Vec<&JobSnapshot> =
        open.iter().copied().filter(|job| !matches!(job.state, State::Queued(_))).collect();
    match running.as_slice() {
        [] => format!("{notice}; {}", wait_text(open, "")),
        [first, others @ ..] => {
            let first = first.job;
            let them = if others.is_empty() { "it" } else { "them" };
            let jobs = list_numbers(&ids(&running));
            format!(
                "{notice}; read_output(job={first}, view=\"tail\") shows how far job {first} is, \
                 stop_jobs(jobs=[{jobs}]) ends {them}"
            )
        }
    }
}

/// Messages of programs that may not write.
const NO_WRITE: [&str; 3] =
    ["read-only file system", "permission denied", "operation not permitted"];

/// Messages of programs that have no network.
const NO_NETWORK: [&str; 6] = [
    "name resolution",
    "could not resolve",
    "network is unreachable",
    "enetunreach",
    "eai_again",
    "address family not supported",
];

/// Explains a failure by the sandbox, if the job's output reads like that.
fn sandbox_hint(job: &JobSnapshot, shown: Option<&ShownOutput>) -> Option<String> {
    if matches!(job.ending()?.outcome, Outcome::Exited { code: 0 }) {
        return None;
    }
    let Confinement { profile, network } = job.confinement.effective;
    if !profile.restricts_files() && network != NetworkAccess::Off {
        return None;
    }
    let text = shown?.text.to_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if profile.restricts_files() && says(&NO_WRITE) {
        let places = job.writable.iter().map(|path| path.display().to_string());
        let places: Vec<String> = places.chain(["$TMPDIR".to_owned()]).collect();
        let places = places.join(" and ");
        let profile = profile.word();
        return Some(format!("the job may write only to {places} (confinement {profile})"));
    }
    let offline = network == NetworkAccess::Off && says(&NO_NETWORK);
    offline.then(|| format!("the job has no network (confinement {})", job.confinement.effective))
}

#[cfg(test)]
mod tests {
    // The hint for each state of a job and each tool; tests/it/hints.rs makes the calls that they name.

    use super::*;
    use crate::mcp::reply::snapshot::SlotHolder;
    use crate::mcp::reply::tests::{cut_output, ended, exited, output, place, snapshot, wrote};
    use crate::outcome::{KillNote, LivingProcesses, StopBy};
    use crate::service::{Liveness, QueuePosition};

    const WAIT: &str = "wait_jobs(jobs=[7]) returns on exit; do other work meanwhile, do not poll";
    const INPUT: &str = "send_input(job=7, text=\"…\\n\") answers it; stop_jobs(jobs=[7]) ends it";
    const SILENT_INPUT: &str = "send_input(job=7, text=\"…\\n\") answers it; a REPL may show its prompts \
                                only in a terminal: stop_jobs(jobs=[7]), then run it again with \
                                tty=true";
    const HELD: &str = "wait_jobs(jobs=[7]) returns on exit; job 1 holds the slot: stop_jobs(jobs=[1]) \
                        if it is not needed any more";
    const HELD_BY_TWO: &str = "wait_jobs(jobs=[7]) returns on exit; jobs 1,2 hold the slots: \
                               stop_jobs(jobs=[1]) if job 1 is not needed any more";

    fn running() -> JobSnapshot {
        snapshot(7, State::Running(None), 1000)
    }

    /// A job on a pipe that waits for input and has written nothing.
    fn waiting_in_silence() -> JobSnapshot {
        let liveness =
            Liveness { processes: 1, cpu: Duration::ZERO, rss_bytes: 0, waiting_for_input: true };
        snapshot(7, State::Running(Some(liveness)), 1000)
    }

    fn waiting_for_input() -> JobSnapshot {
        wrote(waiting_in_silence(), 1, 6)
    }

    /// A queued job, and the jobs that hold the slots.
    fn queued(waits_for: WaitsFor, holders: &[u64]) -> JobSnapshot {
        let holder = |job: &u64| SlotHolder {
            job: JobId::local(*job),
            command: "npm run dev".to_owned(),
            elapsed: Duration::from_secs(400),
            is_idle: false,
        };
        let place = QueuePosition { waits_for, ..place() };
        let mut job = snapshot(7, State::Queued(Some(place)), 0);
        job.slot_holders = holders.iter().map(holder).collect();
        job
    }

    const SLOTS: WaitsFor = WaitsFor::Slots { slots: 2 };

    /// A job that a limit ended, and the most that its setting allows.
    fn limited(outcome: Outcome, setting: &str, most: Option<u64>) -> JobSnapshot {
        let mut job = ended(7, outcome, 1000);
        job.limit = Some(LimitSetting { name: setting.to_owned(), most });
        job
    }

    fn limit(which: LimitKind) -> Outcome {
        Outcome::Limit { which }
    }

    fn over(consecutive: u32) -> AnswerReason {
        AnswerReason::WaitOver(TimedOutWait { consecutive, ..TimedOutWait::default() })
    }

    #[track_caller]
    fn check(job: &JobSnapshot, reason: &AnswerReason, expected: Option<&str>) {
        let hint = hint_after_job(job, None, reason);
        assert_eq!(hint.as_deref(), expected, "{:?} {reason:?}", job.state);
    }

    #[test]
    fn each_state_of_a_job_has_its_own_hint_in_run_wait_and_send_replies() {
        let ready = AnswerReason::Ready(None);
        let ready_text = "it goes on: stop_jobs(jobs=[7]) ends it; read_output(job=7, view=\"next\") \
                          shows what it writes from now on";
        let quiet_text =
            "it goes on: wait_jobs(jobs=[7]) returns on exit; stop_jobs(jobs=[7]) ends it";
        for (job, [by_state, by_ready, by_quiet, by_time]) in [
            (snapshot(7, State::Queued(None), 0), [Some(WAIT); 4]),
            (queued(SLOTS, &[]), [Some(WAIT); 4]),
            (queued(SLOTS, &[1]), [Some(HELD); 4]),
            (queued(SLOTS, &[2, 1]), [Some(HELD_BY_TWO); 4]),
            (queued(WaitsFor::Turn, &[]), [Some(WAIT); 4]),
            (queued(WaitsFor::Paused, &[1]), [Some(WAIT); 4]),
            (running(), [Some(WAIT), Some(ready_text), Some(quiet_text), Some(WAIT)]),
            (waiting_for_input(), [Some(INPUT); 4]),
            (waiting_in_silence(), [Some(SILENT_INPUT); 4]),
            (JobSnapshot { has_terminal: true, ..waiting_in_silence() }, [Some(INPUT); 4]),
            (snapshot(7, State::Stopping, 0), [Some(WAIT); 4]),
            (exited(7, 0, 0), [None; 4]),
            (exited(7, 1, 0), [None; 4]),
            (ended(7, Outcome::Stopped { by: StopBy::Client }, 0), [None; 4]),
        ] {
            check(&job, &AnswerReason::JobState, by_state);
            check(&job, &ready, by_ready);
            check(&job, &AnswerReason::Quiet, by_quiet);
            check(&job, &over(1), by_time);
        }
    }

    #[test]
    fn a_limit_is_raised_by_the_call_as_far_as_its_setting_allows_it() {
        let timed_out = || Outcome::TimedOut { after: Duration::from_secs(5) };
        let memory = || limit(LimitKind::Memory { limit: 200_000_000, peak: 210_000_000 });
        for (outcome, name, most, argument) in [
            (timed_out(), "job.max_timeout_s", Some(100), Some("timeout_s=10")),
            (timed_out(), "job.max_timeout_s", Some(7), Some("timeout_s=7")),
            (timed_out(), "job.max_timeout_s", Some(5), None),
            (memory(), "limits.memory", None, Some("limits={\"memory\": \"400 MB\"}")),
            (memory(), "limits.memory", Some(200_000_000), None),
            (
                memory(),
                "tenants.ci.memory",
                Some(300_000_000),
                Some("limits={\"memory\": \"300 MB\"}"),
            ),
            (
                limit(LimitKind::Cpu(Duration::from_millis(500))),
                "limits.cpu_s",
                None,
                Some("limits={\"cpu_s\": 1}"),
            ),
            (
                limit(LimitKind::Processes(10)),
                "queue.lanes.build.processes",
                Some(512),
                Some("limits={\"processes\": 20}"),
            ),
            (
                limit(LimitKind::FileSize(1_000_000)),
                "limits.file_size",
                None,
                Some("limits={\"file_size\": \"2000 KB\"}"),
            ),
            (limit(LimitKind::OutputBytes(100)), "job.max_output", Some(100), None),
            (limit(LimitKind::OutputLines(9)), "job.max_lines", Some(9), None),
            (
                limit(LimitKind::LargeOutput(100)),
                "job.max_output",
                Some(1000),
                Some("on_large_output=\"spill\""),
            ),
        ] {
            let expected = match argument {
                Some(argument) => format!(
                    "run_command(command=\"…\", {argument}) allows more, as far as {name} does"
                ),
                None => format!("only a larger {name} in the configuration allows more"),
            };
            check(&limited(outcome, name, most), &AnswerReason::JobState, Some(&expected));
        }
    }

    #[test]
    fn processes_that_outlived_their_job_can_be_ended() {
        let mut job = exited(7, 0, 0);
        job.survivors = LivingProcesses::Known(vec![100]);
        let expected = "stop_jobs(jobs=[7]) ends what still runs of job 7";
        check(&job, &AnswerReason::JobState, Some(expected));
        let mut stopped = ended(7, Outcome::Stopped { by: StopBy::Client }, 0);
        stopped.survivors = LivingProcesses::Known(vec![100]);
        check(&stopped, &AnswerReason::JobState, None);
        // Nor those that a kill of the tree has left.
        if let State::Finished(ending) = &mut job.state {
            ending.kill = Some(KillNote { first: 15, killed_after: None });
        }
        check(&job, &AnswerReason::JobState, None);
    }

    #[test]
    fn a_wait_that_was_cut_short_says_so_and_why() {
        let cut = CutWait {
            requested: Duration::from_secs(600),
            waited: Duration::from_secs(48),
            call_limit: Duration::from_secs(50),
            setting: "mcp.max_wait_s",
        };
        let wait = TimedOutWait { consecutive: 1, cut: Some(cut), ..TimedOutWait::default() };
        let text = "wait_s=600 was cut to 48s, because a call may take 50s (mcp.max_wait_s)";
        check(&running(), &AnswerReason::WaitOver(wait), Some(&format!("{text}; {WAIT}")));
    }

    #[test]
    fn a_wait_in_vain_repeats_its_conditions_and_says_where_it_searched() {
        let wait = TimedOutWait {
            searched_from: Some(40),
            conditions: ", until=\"ready\", port=80".to_owned(),
            ..TimedOutWait::default()
        };
        let expected = "until was looked for from cursor=\"bytes:40\" on: what is before was searched \
                        or shown before; wait_jobs(jobs=[7], until=\"ready\", port=80); do other work \
                        meanwhile, do not poll";
        check(&running(), &AnswerReason::WaitOver(wait), Some(expected));
    }

    #[test]
    fn whoever_polls_is_told_to_stop_but_never_to_stop_a_queued_job() {
        let notice =
            "3 waits in a row ended without an event: stop polling, do other work or end your turn";
        let look = "read_output(job=7, view=\"tail\") shows how far job 7 is, stop_jobs(jobs=[7]) \
                    ends it";
        check(&running(), &over(2), Some(WAIT));
        check(&running(), &over(3), Some(&format!("{notice}; {look}")));
        check(&queued(SLOTS, &[1]), &over(3), Some(&format!("{notice}; {HELD}")));
        let waiting = queued(SLOTS, &[]);
        let both = [(&waiting, None), (&running(), None)];
        let hint = hint_after_jobs(&both, &over(3)).unwrap();
        assert!(hint.ends_with("stop_jobs(jobs=[7]) ends it"), "only the running one: {hint}");
    }

    #[test]
    fn several_jobs_have_one_hint() {
        let other = snapshot(8, State::Running(None), 1000);
        let mut left = exited(9, 0, 0);
        left.survivors = LivingProcesses::Known(vec![100]);
        let jobs = [(&running(), None), (&other, None), (&left, None)];
        let wait = "wait_jobs(jobs=[7,8]) returns on exit; do other work meanwhile, do not poll";
        let survivors = "stop_jobs(jobs=[9]) ends what still runs of job 9";
        let hint = |reason: &AnswerReason| hint_after_jobs(&jobs, reason).unwrap();
        assert_eq!(hint(&AnswerReason::JobState), format!("{wait}; {survivors}"));
        let ready = hint(&AnswerReason::Ready(Some(JobId::local(8))));
        assert_eq!(ready, format!("stop_jobs(jobs=[8]) ends job 8; {wait}; {survivors}"));
        let asking = [(&waiting_for_input(), None), (&other, None)];
        let hint = hint_after_jobs(&asking, &over(5)).unwrap();
        assert_eq!(hint, format!("send_input(job=7, text=\"…\\n\") answers job 7; {wait}"));
        assert_eq!(
            hint_after_jobs(&[(&exited(7, 0, 0), None), (&exited(8, 0, 0), None)], &over(1)),
            None
        );
    }

    #[test]
    fn a_cut_or_binary_output_says_how_to_read_it() {
        let job = wrote(exited(7, 0, 0), 1138, 37_000);
        let hint = |shown: &ShownOutput| hint_after_job(&job, Some(shown), &AnswerReason::JobState);
        let cut =
            "full log kept: read_output(job=7, view=\"next\") or read_output(job=7, grep=\"…\")";
        assert_eq!(hint(&cut_output()).unwrap(), cut);
        let form = OutputEncoding::Binary { mime: "image/png".to_owned() };
        let binary = "read_output(job=7, form=\"base64\") gives the bytes as base64";
        assert_eq!(hint(&ShownOutput { form, ..output("", &[]) }).unwrap(), binary);
        let unshown = [JobId::local(3), JobId::local(4)];
        let expected =
            "no room for the output of jobs [3,4]: read_output(job=3, view=\"next\"); next";
        assert_eq!(hint_no_room(&unshown, Some("next".to_owned())).unwrap(), expected);
    }

    #[test]
    fn a_page_says_how_to_read_on_in_the_same_form_and_stream() {
        let done = wrote(exited(7, 0, 0), 10, 100);
        let page = |end_kind, form, stream| {
            let (start, end) = (10, 20);
            ShownOutput { start, end, end_kind, form, stream, ..output("", &[]) }
        };
        let text = OutputEncoding::Text;
        let stderr = Some(Stream::Stderr);
        for (job, shown, expected) in [
            (&done, page(PageEnd::Complete, text.clone(), None), None),
            (
                &done,
                page(PageEnd::More, text.clone(), None),
                Some("more: read_output(job=7, cursor=\"bytes:20\")"),
            ),
            (
                &done,
                page(PageEnd::More, OutputEncoding::Hexdump, stderr),
                Some(
                    "more: read_output(job=7, stream=\"stderr\", form=\"hexdump\", cursor=\"bytes:20\")",
                ),
            ),
            (
                &running(),
                page(PageEnd::CaughtUp, text.clone(), None),
                Some("so far all: wait_jobs(jobs=[7]) shows what is new"),
            ),
            (
                &running(),
                page(PageEnd::CaughtUp, text.clone(), stderr),
                Some(
                    "so far all: wait_jobs(jobs=[7]), then read_output(job=7, stream=\"stderr\", \
                     cursor=\"bytes:20\")",
                ),
            ),
            (&waiting_for_input(), page(PageEnd::CaughtUp, text.clone(), None), Some(INPUT)),
            (&queued(SLOTS, &[1]), page(PageEnd::CaughtUp, text.clone(), None), Some(HELD)),
            (
                &waiting_for_input(),
                page(PageEnd::CaughtUp, OutputEncoding::Screen, None),
                Some(INPUT),
            ),
        ] {
            assert_eq!(hint_after_page(job, &shown).as_deref(), expected, "{:?}", job.state);
        }
        let shown = page(PageEnd::More, text, None);
        let more = "more: read_output(job=7, view=\"next\")";
        assert_eq!(hint_after_unseen(&done, &shown, 50).as_deref(), Some(more));
        assert_eq!(hint_after_unseen(&done, &shown, 100), None);
        let all = "so far all: wait_jobs(jobs=[7]) shows what is new";
        assert_eq!(hint_after_unseen(&running(), &shown, 0).as_deref(), Some(all));
    }

    #[test]
    fn after_a_stop_only_jobs_that_have_not_ended_need_a_call() {
        assert_eq!(hint_after_stop(&[exited(8, 0, 0)]), None);
        let stopping = [exited(8, 0, 0), snapshot(7, State::Stopping, 0)];
        assert_eq!(hint_after_stop(&stopping).as_deref(), Some(WAIT));
    }
}
