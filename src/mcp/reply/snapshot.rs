//! The state of one job at one moment, from which all forms of a reply are rendered, and its verdict: the
//! state in one line, which is the first line of a reply.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::format::{
    bound, count, exact, kill_note, lost_size, rough, shorten_to_line, size, soon, thousands,
};
use super::sandbox_remarks::{refused_text, set_aside_remark};
use super::shown_output::{OutputEncoding, ShownOutput};
use crate::confinement::{
    Backend, Confinement, GrantedConfinement, NetworkAccess, SandboxProfile, SetAsideFile,
};
use crate::ids::JobId;
use crate::outcome::{
    JobEnding, LimitKind, LivingProcesses, Outcome, StopBy, format_not_run, signal_name,
};
use crate::output::excerpt::{Budget, tail};
use crate::output::summary::is_progress_line;
use crate::output::{DropReason, LogProgress, LogReader};
use crate::service::{
    DEFAULT_LANE, JobHandle, JobPhase, LimitSetting, Liveness, QueuePosition, RefusedStarts,
    TenantClient,
};
use crate::spec::Stdin;
use crate::trace::TraceId;

/// The state of one job at one moment. Plain data: nothing in it changes while a reply is rendered.
#[derive(Debug, Clone)]
pub(crate) struct JobSnapshot {
    pub(crate) job: JobId,
    pub(crate) state: State,
    /// The run time of the job so far, or in all.
    pub(crate) elapsed: Duration,
    /// The time that the job has waited for its start, or waited in all.
    pub(crate) queued: Duration,
    /// The caller's jobs that hold the slots that a queued job waits for.
    pub(crate) slot_holders: Vec<SlotHolder>,
    pub(crate) output: LogProgress,
    /// The unfinished line of output at which the job waits for input.
    pub(crate) prompt: Option<String>,
    /// `true` if the job runs in a terminal.
    pub(crate) has_terminal: bool,
    /// Time since the last output; `None` if there was none.
    pub(crate) quiet_for: Option<Duration>,
    /// Processes that outlived the job's end and are alive now.
    pub(crate) survivors: LivingProcesses,
    /// Files that appeared under protected names.
    pub(crate) set_aside: Vec<SetAsideFile>,
    /// Programs that were refused while the job ran.
    pub(crate) refused: RefusedStarts,
    pub(crate) confinement: GrantedConfinement,
    /// The reason why policy put the job into a sandbox.
    pub(crate) doubt: Option<Arc<str>>,
    /// The directories that the job may write to, if that is limited.
    pub(crate) writable: Vec<PathBuf>,
    /// `true` if the caller was shown later output of the job, but not all that came before it.
    pub(crate) has_skipped_output: bool,
    /// The server's variables that the job did not get, if it has failed and the caller may know them.
    pub(crate) withheld_variables: Vec<String>,
    /// `true` if the server measured the limit that ended the job, since this host does not enforce it.
    pub(crate) is_limit_measured: bool,
    /// The setting of the limit that ended the job.
    pub(crate) limit: Option<LimitSetting>,
    /// The trace of the job, if its caller knows one.
    pub(crate) trace_id: Option<TraceId>,
}

/// A running job that holds a slot.
#[derive(Debug, Clone)]
pub(crate) struct SlotHolder {
    pub(crate) job: JobId,
    pub(crate) command: String,
    pub(crate) elapsed: Duration,
    /// `true` if the job does not use the machine; lanes and tenant limits count it still.
    pub(crate) is_idle: bool,
}

/// The phase of a job's life, with the facts that a reply shows.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// Waiting for a slot; the position is known unless the job is being started right now.
    Queued(Option<QueuePosition>),
    /// Running; the facts are there while a process of the job can be inspected.
    Running(Option<Liveness>),
    Stopping,
    Finished(JobEnding),
}

impl JobSnapshot {
    /// `true` if the job ended without ever having a process.
    pub(crate) fn never_started(&self) -> bool {
        match &self.state {
            State::Finished(ending) => match ending.outcome {
                Outcome::FailedToStart(_) | Outcome::NotRun { .. } => true,
                // A job that ran has a non-zero run time.
                Outcome::Stopped { .. } => self.elapsed.is_zero(),
                Outcome::Exited { .. }
                | Outcome::Signaled { .. }
                | Outcome::TimedOut { .. }
                | Outcome::Limit { .. }
                | Outcome::Lost { .. } => false,
            },
            State::Queued(_) | State::Running(_) | State::Stopping => false,
        }
    }

    /// Takes a snapshot of a job now.
    pub(crate) async fn take(client: &TenantClient, job: &JobHandle) -> Self {
        Self::take_with(client, job, JobHandle::liveness).await
    }

    /// Takes a snapshot for frequent callers: the process facts may be slightly old.
    pub(crate) async fn take_cached(client: &TenantClient, job: &JobHandle) -> Self {
        Self::take_with(client, job, JobHandle::cached_liveness).await
    }

    async fn take_with(
        client: &TenantClient,
        job: &JobHandle,
        liveness: fn(&JobHandle) -> Option<Liveness>,
    ) -> Self {
        // Read the status before the output: a job that reads as finished has written everything
        // that will be shown.
        let mut status = job.status();
        let mut place = None;
        if status.phase == JobPhase::Queued {
            place = client.queue_position(job.id()).await;
            // The job may have started meanwhile.
            status = job.status();
        }
        let state = match &status.phase {
            JobPhase::Queued => State::Queued(place),
            JobPhase::Running => State::Running(liveness(job)),
            JobPhase::Stopping => State::Stopping,
            JobPhase::Finished(ending) => State::Finished(ending.clone()),
        };
        let slot_holders = match &state {
            State::Queued(Some(place)) => {
                let holders = client.find_slot_holders(place).await;
                holders.iter().map(|(job, is_idle)| SlotHolder::new(job, *is_idle)).collect()
            }
            State::Queued(None) | State::Running(_) | State::Stopping | State::Finished(_) => {
                Vec::new()
            }
        };
        let withheld_variables = match &state {
            State::Finished(ending) => client.withheld_variables(job, ending),
            State::Queued(_) | State::Running(_) | State::Stopping => Vec::new(),
        };
        let output = job.output().progress();
        let prompt = match &state {
            State::Running(Some(liveness)) if liveness.waiting_for_input && output.open_line => {
                read_last_line(job.output()).await
            }
            State::Running(_) | State::Queued(_) | State::Stopping | State::Finished(_) => None,
        };
        Self {
            job: job.id(),
            state,
            prompt,
            elapsed: status.elapsed(),
            queued: status.queued_for(),
            slot_holders,
            output,
            has_terminal: job.spec().stdin == Stdin::Terminal,
            quiet_for: output.last_output.map(|at| at.elapsed()),
            survivors: job.survivors(),
            set_aside: job.set_aside_files().to_vec(),
            refused: job.refused_starts(),
            confinement: job.spec().confinement,
            doubt: job.spec().doubt.clone(),
            writable: client.writable_dirs(job.spec()),
            has_skipped_output: false,
            withheld_variables,
            is_limit_measured: job.is_limit_measured(),
            limit: status.ending().and_then(|it| client.limit_setting(job.spec(), &it.outcome)),
            trace_id: job.spec().trace.id_known_to_caller(),
        }
    }

    /// The ending of the job, once it has ended.
    pub(crate) const fn ending(&self) -> Option<&JobEnding> {
        match &self.state {
            State::Finished(ending) => Some(ending),
            State::Queued(_) | State::Running(_) | State::Stopping => None,
        }
    }

    /// Describes the programs that were refused while the job ran.
    pub(super) fn refused_programs(&self) -> Vec<String> {
        self.refused.first.iter().map(ToString::to_string).collect()
    }

    /// Returns the protected paths at which files appeared.
    pub(super) fn set_aside_paths(&self) -> Vec<String> {
        self.set_aside.iter().map(|file| file.path.to_string_lossy().into_owned()).collect()
    }

    /// The number of lines written, including an unfinished last one.
    pub(crate) fn lines(&self) -> u64 {
        self.output.lines + u64::from(self.output.open_line)
    }

    /// `true` if a process of the job waits for its input.
    pub(crate) fn waits_for_input(&self) -> bool {
        match &self.state {
            State::Running(Some(liveness)) => liveness.waiting_for_input,
            State::Running(None) | State::Queued(_) | State::Stopping | State::Finished(_) => false,
        }
    }
}

/// The budget of the last output line; most lines fit.
const LAST_LINE: Budget = Budget { max_lines: 1, ..Budget::of_bytes(200) };

/// Reads the last line of output, unless it is empty or the log is busy.
pub(crate) async fn read_last_line(log: &LogReader) -> Option<String> {
    let section = log.read_if_idle_with(|log| tail(log, 0, LAST_LINE)).await?.sections.pop()?;
    let text = section.text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The budget of the last lines, of which one tells the progress.
const LAST_LINES: Budget = Budget { max_lines: 5, ..Budget::of_bytes(1000) };

/// Reads the line that tells how far a job has come: the last one or, if that is empty, the last
/// line before it that tells a progress, or that is not empty.
pub(crate) async fn read_progress_line(log: &LogReader) -> Option<String> {
    if let Some(last) = read_last_line(log).await {
        return Some(last);
    }
    let sections = log.read_if_idle_with(|log| tail(log, 0, LAST_LINES)).await?.sections;
    let text = sections.last()?.text.as_str();
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let progress = lines().rfind(|line| is_progress_line(line));
    progress.or_else(|| lines().next_back()).map(|line| line.chars().take(200).collect())
}

impl SlotHolder {
    fn new(job: &JobHandle, is_idle: bool) -> Self {
        Self {
            job: job.id(),
            command: job.spec().program.display(),
            elapsed: job.status().elapsed(),
            is_idle,
        }
    }
}

/// Formats the state or outcome of a job in one line, with the line ranges of its output that are
/// shown.
pub(crate) fn verdict(job: &JobSnapshot, shown: Option<&ShownOutput>) -> String {
    let mut parts = match &job.state {
        State::Queued(_) => queued_parts(job),
        State::Running(_) => vec![format!("running {}", rough(job.elapsed)), job_label(job)],
        State::Stopping => vec![format!("stopping, ran {}", rough(job.elapsed)), job_label(job)],
        State::Finished(ending) => finished_parts(job, ending),
    };
    if let Some(refused) = refused_text(&job.refused) {
        // The refusal is the news; then follows the job that it happened in.
        parts.retain(|part| *part != job_label(job));
        parts.splice(0..0, [refused, job_label(job)]);
    }
    parts.extend(amount(job, shown));
    parts.extend(shown.and_then(|shown| shown.facts.as_ref()?.line_counts()));
    parts.extend(remarks(job, shown));
    parts.extend(shown.and_then(ShownOutput::spans_text));
    parts.join(" · ")
}

fn job_label(job: &JobSnapshot) -> String {
    format!("job {}", job.job)
}

fn queued_parts(job: &JobSnapshot) -> Vec<String> {
    match &job.state {
        State::Queued(Some(place)) => {
            let mut parts = vec!["queued".to_owned(), position_text(place), job_label(job)];
            parts.extend(why_queued(place));
            parts.extend(format_holders(&job.slot_holders, place.held_by.others));
            parts
        }
        State::Queued(None) | State::Running(_) | State::Stopping | State::Finished(_) => {
            vec!["starting".to_owned(), job_label(job)]
        }
    }
}

/// Formats the queue position, as `position 3 of 12`, with the lane if it is not the default one.
pub(super) fn position_text(place: &QueuePosition) -> String {
    let QueuePosition { position, length, lane, .. } = place;
    let lane = if lane == DEFAULT_LANE { String::new() } else { format!(" in lane {lane}") };
    format!("position {} of {}{lane}", thousands(*position as u64), thousands(*length as u64))
}

/// Says what a queued job waits for, and when it may start.
pub(super) fn why_queued(place: &QueuePosition) -> impl Iterator<Item = String> {
    let estimate = place.estimate.map(|time| format!("in about {}", soon(time)));
    std::iter::once(place.waits_for.to_string()).chain(estimate)
}

/// Names the jobs that hold the slots, as `held by job 1 "npm run dev" (7m, idle) and 2 more`.
fn format_holders(holders: &[SlotHolder], others: usize) -> Option<String> {
    let holder = |holder: &SlotHolder| {
        let SlotHolder { job, command, elapsed, is_idle } = holder;
        let idle = if *is_idle { ", idle" } else { "" };
        format!("job {job} \"{}\" ({}{idle})", shorten_to_line(command), rough(*elapsed))
    };
    let names: Vec<String> = holders.iter().map(holder).collect();
    let more = if others == 0 { String::new() } else { format!(" and {others} more") };
    (!names.is_empty()).then(|| format!("held by {}{more}", names.join(", ")))
}

/// A verdict mentions that its job waited in the queue for at least this time.
const QUEUED_TIME_THAT_MATTERS: Duration = Duration::from_secs(1);

fn finished_parts(job: &JobSnapshot, ending: &JobEnding) -> Vec<String> {
    let mut parts = vec![ending_text(job, ending)];
    match ending.outcome {
        // The text already has the time, or there was none.
        Outcome::TimedOut { .. } | Outcome::FailedToStart(_) | Outcome::NotRun { .. } => {}
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::Lost { .. } => parts.push(exact(job.elapsed)),
    }
    if job.queued >= QUEUED_TIME_THAT_MATTERS && !job.never_started() {
        parts.push(format!("queued {}", rough(job.queued)));
    }
    parts.push(job_label(job));
    parts
}

pub(super) fn ending_text(job: &JobSnapshot, ending: &JobEnding) -> String {
    let what = match &ending.outcome {
        Outcome::Exited { code } => return format!("exit {code}{}", pipeline_note(*code, ending)),
        Outcome::Signaled { signal, core } => {
            let core = if *core { " (core dumped)" } else { "" };
            return format!("killed by {}{core}", signal_name(*signal));
        }
        Outcome::TimedOut { after } => format!("timed out after {}", bound(*after)),
        Outcome::NotRun { by, waited } => {
            return format!("{} ({})", format_not_run(*waited), describe_stop(*by));
        }
        Outcome::Stopped { by } => describe_stop(*by).to_owned(),
        Outcome::Limit { which: LimitKind::OutputBytes(limit) } => {
            format!("output limit of {} reached", size(*limit))
        }
        Outcome::Limit { which: LimitKind::OutputLines(limit) } => {
            format!("output limit of {} reached", count(*limit, "line", "lines"))
        }
        Outcome::Limit { which: LimitKind::LargeOutput(limit) } => {
            format!("output over {}, which on_large_output makes an error", size(*limit))
        }
        Outcome::Limit { which: LimitKind::Memory { limit, peak } } => {
            format!("out of memory: limit {}, peak {}", size(*limit), size(*peak))
        }
        Outcome::Limit { which: LimitKind::Cpu(limit) } => {
            format!("CPU limit of {} reached", bound(*limit))
        }
        Outcome::Limit { which: LimitKind::Processes(limit) } => {
            format!("process limit of {} reached (limits.processes)", thousands(*limit))
        }
        Outcome::Limit { which: LimitKind::FileSize(limit) } => {
            format!("file size limit of {} reached", size(*limit))
        }
        Outcome::FailedToStart(error) => format!("failed to start: {error}"),
        Outcome::Lost { why } => format!("lost: {why}"),
    };
    match ending.kill {
        Some(note) => format!("{what}, {}", kill_note(note, &job.survivors)),
        None => what,
    }
}

/// Says who stopped a job, or why.
pub(crate) const fn describe_stop(by: StopBy) -> &'static str {
    match by {
        StopBy::Client => "stopped on request",
        StopBy::Operator => "stopped by an operator",
        StopBy::Cancel => "stopped: its call was cancelled",
        StopBy::Shutdown => "stopped: server shutdown",
        StopBy::NoSlot => "stopped: no slot was free in time",
    }
}

/// Formats ` (pipeline 1|0)` if exit 0 hides a failure inside a pipeline.
///
/// 141 means that a program wrote into a closed pipe, as in `yes | head -1`: not a failure.
fn pipeline_note(code: i32, ending: &JobEnding) -> String {
    let codes = &ending.pipeline;
    let hides = |codes: &[i32]| codes.iter().any(|code| *code != 0 && *code != 141);
    match codes.split_last() {
        Some((_, before)) if code == 0 && hides(before) => {
            let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
            format!(" (pipeline {})", codes.join("|"))
        }
        Some(_) | None => String::new(),
    }
}

/// Formats the amount of output, if not all of it is shown or the job may write more.
fn amount(job: &JobSnapshot, shown: Option<&ShownOutput>) -> Option<String> {
    let lines = count(job.lines(), "line", "lines");
    let cut = shown.is_some_and(ShownOutput::is_cut);
    match (&job.state, job.quiet_for) {
        (State::Queued(_), _) => None,
        (State::Running(_) | State::Stopping, None) => Some("no output yet".to_owned()),
        (State::Running(_) | State::Stopping, Some(quiet)) => {
            Some(format!("{lines}, last output {} ago", rough(quiet)))
        }
        (State::Finished(_), _) if !cut => None,
        (State::Finished(ending), _) => match ending.outcome {
            Outcome::TimedOut { .. } => Some(lines),
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::Stopped { .. }
            | Outcome::NotRun { .. }
            | Outcome::Limit { .. }
            | Outcome::FailedToStart(_)
            | Outcome::Lost { .. } => Some(format!("{lines}, {}", size(job.output.total_bytes))),
        },
    }
}

/// Returns remarks that a reader must not miss.
fn remarks(job: &JobSnapshot, shown: Option<&ShownOutput>) -> Vec<String> {
    let mut remarks = Vec::new();
    if job.waits_for_input() {
        // The prompt is there once: in the shown output, or here.
        let is_shown = |prompt: &&String| !shown.is_some_and(|shown| shown.ends_with(prompt));
        let prompt = job.prompt.as_ref().filter(is_shown);
        let at = prompt.map(|prompt| format!(" at {prompt:?}")).unwrap_or_default();
        remarks.push(format!("waiting for input{at}"));
    }
    remarks.extend(confinement_remark(job.confinement));
    remarks.extend(job.doubt.as_ref().map(|doubt| format!("sandboxed because {doubt}")));
    remarks.extend(survivors_remark(&job.survivors));
    if job.is_limit_measured {
        remarks.push(LIMIT_MEASURED.to_owned());
    }
    remarks.extend(job.set_aside.iter().map(set_aside_remark));
    if job.output.dropped_bytes > 0 {
        let why = job.output.dropped_why.map(|why| dropped_why(why, job)).unwrap_or_default();
        let dropped = lost_size(job.output.dropped_bytes, &job.output);
        let verb = if job.output.dropped_at_most { "may be missing" } else { "could not be kept" };
        remarks.push(format!("{dropped} of output {verb}{why}"));
    }
    if job.output.removed_bytes > 0 {
        let removed = size(job.output.removed_bytes);
        remarks.push(format!("{removed} in the middle not kept (on_large_output: truncate)"));
    }
    if job.output.cut_bytes > 0 {
        let cut = size(job.output.cut_bytes);
        remarks.push(format!("{cut} lost (their file does not have them)"));
    }
    if shown.is_some_and(ShownOutput::has_nothing_new) {
        remarks.push("no new output".to_owned());
    }
    if let Some(gap) = shown.map(|shown| shown.gap_bytes).filter(|gap| *gap > 0) {
        remarks.push(format!("{} missing here", lost_size(gap, &job.output)));
    }
    remarks.extend(shown.and_then(encoding_remark));
    if let Some(bad) = shown.map(|shown| shown.bad_bytes).filter(|bad| *bad > 0) {
        let bytes = count(bad, "byte", "bytes");
        remarks.push(format!("{bytes} not text, shown as \u{fffd} or ␀"));
    }
    remarks
}

/// Says how much of an output can no longer be read, if not all can.
pub(super) fn lost_output(output: &LogProgress) -> Option<String> {
    let lost = output.lost_bytes();
    (lost > 0).then(|| format!("{} of output lost", lost_size(lost, output)))
}

/// Says why bytes were dropped, and whose limit it was.
fn dropped_why(reason: DropReason, job: &JobSnapshot) -> String {
    let why = match reason {
        DropReason::DiskFull => "disk full",
        DropReason::IoError => "the disk cannot be written",
        DropReason::StoreFull => "output.max_store reached",
        DropReason::TenantFull => "output.max_tenant reached",
        DropReason::OwnFull => {
            return format!(" (tenants.{}.max_stored reached)", job.job.tenant().name());
        }
        DropReason::Cut => "the file was cut by another program",
        DropReason::ServerCrash => "the server crashed before it was stored",
    };
    format!(" ({why})")
}

/// Says how the text encodes the output, if it is not plain text.
fn encoding_remark(shown: &ShownOutput) -> Option<String> {
    let bytes = format!("of bytes {} to {}", shown.start, shown.end);
    match &shown.form {
        OutputEncoding::Text | OutputEncoding::Binary { .. } => None,
        OutputEncoding::Decoded { charset } => Some(format!("decoded from {charset}")),
        OutputEncoding::Base64 => Some(format!("base64 {bytes}")),
        OutputEncoding::Hexdump => Some(format!("hexdump {bytes}")),
        OutputEncoding::Screen => Some("screen".to_owned()),
    }
}

/// Lists the first of these numbers, as `7, 8, …`.
fn format_pids(pids: &[u32]) -> String {
    const NAMED: usize = 8;
    let named: Vec<String> = pids.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if pids.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

/// The promise of a host without cgroups about a limit.
const LIMIT_MEASURED: &str =
    "measured: without a cgroup this host can only end a job after it has passed the limit";

fn survivors_remark(alive: &LivingProcesses) -> Option<String> {
    let LivingProcesses::Known(pids) = alive else {
        return Some("processes may still be running (pids unknown)".to_owned());
    };
    match pids.as_slice() {
        [] => None,
        [pid] => Some(format!("1 process still running (pid {pid})")),
        [_, ..] => Some(format!(
            "{} processes still running (pids {})",
            thousands(pids.len() as u64),
            format_pids(pids)
        )),
    }
}

/// Returns the progress of the first of these jobs that has not ended.
pub(crate) async fn progress_line<'a>(jobs: impl IntoIterator<Item = &'a JobHandle>) -> String {
    let open = jobs.into_iter().find(|job| job.status().ending().is_none());
    match open {
        Some(job) => running_line(job).await,
        None => String::new(),
    }
}

/// Adds a line of output to a state.
pub(super) fn join_line(text: String, line: Option<String>) -> String {
    match line {
        Some(line) => format!("{text} · {line}"),
        None => text,
    }
}

async fn running_line(job: &JobHandle) -> String {
    let status = job.status();
    if status.started.is_none() {
        return format!("job {} queued {}", job.id(), rough(status.queued_for()));
    }
    let output = job.output().progress();
    let lines = count(output.lines + u64::from(output.open_line), "line", "lines");
    let text = format!("job {} running {} · {lines}", job.id(), rough(status.elapsed()));
    join_line(text, read_progress_line(job.output()).await)
}

/// Returns the remark about a sandbox; `None` if the job may do nearly everything.
fn confinement_remark(granted: GrantedConfinement) -> Option<String> {
    if granted.is_degraded() {
        return Some(degraded_remark(granted));
    }
    let Confinement { profile, network } = granted.effective;
    match (profile, network) {
        (SandboxProfile::None | SandboxProfile::Default, NetworkAccess::On) => None,
        (SandboxProfile::None | SandboxProfile::Default, NetworkAccess::Off) => {
            Some("confined: no network".to_owned())
        }
        (SandboxProfile::WorkspaceWrite | SandboxProfile::ReadOnly, NetworkAccess::On) => {
            Some(format!("confined: {}", profile.word()))
        }
        (SandboxProfile::WorkspaceWrite | SandboxProfile::ReadOnly, NetworkAccess::Off) => {
            Some(format!("confined: {}, no network", profile.word()))
        }
    }
}

/// Formats `confinement degraded: workspace-write asked, default given (no namespaces, no
/// Landlock)`.
fn degraded_remark(
    GrantedConfinement { requested, effective, backend }: GrantedConfinement,
) -> String {
    let lost = if requested.network == effective.network { "" } else { " without network" };
    let missing = match backend {
        // With the filter alone, nothing is given only where root may write settings of the kernel.
        Backend::Seccomp if effective.profile == SandboxProfile::None => "/proc/sys is writable",
        Backend::Namespaces | Backend::Landlock | Backend::Seccomp => "no namespaces, no Landlock",
        Backend::Nothing => "no seccomp",
    };
    let asked = requested.profile.word();
    let given = effective.profile.word();
    format!("confinement degraded: {asked}{lost} asked, {given} given ({missing})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::reply::job_list::confinement_field;

    const fn confinement(profile: SandboxProfile, network: NetworkAccess) -> Confinement {
        Confinement { profile, network }
    }

    #[track_caller]
    fn check(
        requested: Confinement,
        effective: Confinement,
        backend: Backend,
        expected: Option<&str>,
    ) {
        let granted = GrantedConfinement { requested, effective, backend };
        assert_eq!(confinement_remark(granted).as_deref(), expected, "{granted:?}");
        assert_eq!(confinement_field(granted, None)["degraded"], requested != effective);
        assert_eq!(confinement_field(granted, None)["profile"], effective.profile.word());
    }

    #[test]
    fn a_verdict_mentions_an_unusual_sandbox() {
        let usual = confinement(SandboxProfile::Default, NetworkAccess::On);
        check(usual, usual, Backend::Seccomp, None);
        let offline = confinement(SandboxProfile::Default, NetworkAccess::Off);
        check(offline, offline, Backend::Seccomp, Some("confined: no network"));
        let files = confinement(SandboxProfile::WorkspaceWrite, NetworkAccess::Off);
        let expected = Some("confined: workspace-write, no network");
        check(files, files, Backend::Namespaces, expected);
        let online = confinement(SandboxProfile::ReadOnly, NetworkAccess::On);
        check(online, online, Backend::Landlock, Some("confined: read-only"));
    }

    #[test]
    fn a_degraded_sandbox_is_reported() {
        let files = confinement(SandboxProfile::WorkspaceWrite, NetworkAccess::Off);
        check(
            files,
            confinement(SandboxProfile::Default, NetworkAccess::Off),
            Backend::Seccomp,
            Some(
                "confinement degraded: workspace-write asked, default given (no namespaces, no Landlock)",
            ),
        );
        check(
            confinement(SandboxProfile::Default, NetworkAccess::On),
            Confinement::NONE,
            Backend::Seccomp,
            Some("confinement degraded: default asked, none given (/proc/sys is writable)"),
        );
        check(
            files,
            Confinement::NONE,
            Backend::Nothing,
            Some(
                "confinement degraded: workspace-write without network asked, none given (no seccomp)",
            ),
        );
    }
}
