//! The hint for each state of a job and each tool. `tests/it/hints.rs` makes the calls that they
//! name.

use std::time::Duration;

use super::body::{OutputEncoding, ShownOutput};
use super::hint::{
    AnswerReason, CutWait, TimedOutWait, hint_after_job, hint_after_jobs, hint_after_page,
    hint_after_stop, hint_after_unseen, hint_no_room,
};
use super::tests::{cut_output, ended, exited, output, place, snapshot, wrote};
use crate::ids::JobId;
use crate::mcp::snapshot::{JobSnapshot, SlotHolder, State};
use crate::outcome::{LimitKind, Outcome, StopBy};
use crate::output::PageEnd;
use crate::service::{LimitSetting, Liveness, QueuePosition, WaitsFor};
use crate::spec::Stream;

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
    let quiet_text = "it goes on: wait_jobs(jobs=[7]) returns on exit; stop_jobs(jobs=[7]) ends it";
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
    let call = |argument: &str, setting: &str| {
        format!("run_command(command=\"…\", {argument}) allows more, as far as {setting} does")
    };
    let setting =
        |setting: &str| format!("only a larger {setting} in the configuration allows more");
    let timed_out = || Outcome::TimedOut { after: Duration::from_secs(5) };
    let memory = || limit(LimitKind::Memory { limit: 200_000_000, peak: 210_000_000 });
    for (outcome, name, most, expected) in [
        (timed_out(), "job.max_timeout_s", Some(100), call("timeout_s=10", "job.max_timeout_s")),
        (timed_out(), "job.max_timeout_s", Some(7), call("timeout_s=7", "job.max_timeout_s")),
        (timed_out(), "job.max_timeout_s", Some(5), setting("job.max_timeout_s")),
        (memory(), "limits.memory", None, call("limits={\"memory\": \"400 MB\"}", "limits.memory")),
        (memory(), "limits.memory", Some(200_000_000), setting("limits.memory")),
        (
            memory(),
            "tenants.ci.memory",
            Some(300_000_000),
            call("limits={\"memory\": \"300 MB\"}", "tenants.ci.memory"),
        ),
        (
            limit(LimitKind::Cpu(Duration::from_millis(500))),
            "limits.cpu_s",
            None,
            call("limits={\"cpu_s\": 1}", "limits.cpu_s"),
        ),
        (
            limit(LimitKind::Processes(10)),
            "queue.lanes.build.processes",
            Some(512),
            call("limits={\"processes\": 20}", "queue.lanes.build.processes"),
        ),
        (
            limit(LimitKind::FileSize(1_000_000)),
            "limits.file_size",
            None,
            call("limits={\"file_size\": \"2000 KB\"}", "limits.file_size"),
        ),
        (
            limit(LimitKind::OutputBytes(100)),
            "job.max_output",
            Some(100),
            setting("job.max_output"),
        ),
        (limit(LimitKind::OutputLines(9)), "job.max_lines", Some(9), setting("job.max_lines")),
        (
            limit(LimitKind::LargeOutput(100)),
            "job.max_output",
            Some(1000),
            call("on_large_output=\"spill\"", "job.max_output"),
        ),
    ] {
        check(&limited(outcome, name, most), &AnswerReason::JobState, Some(&expected));
    }
}

#[test]
fn processes_that_outlived_their_job_can_be_ended() {
    let mut job = exited(7, 0, 0);
    job.survivors = vec![100];
    let expected = "stop_jobs(jobs=[7]) ends what still runs of job 7";
    check(&job, &AnswerReason::JobState, Some(expected));
    let mut stopped = ended(7, Outcome::Stopped { by: StopBy::Client }, 0);
    stopped.survivors = vec![100];
    check(&stopped, &AnswerReason::JobState, None);
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
    left.survivors = vec![100];
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
    let cut = "full log kept: read_output(job=7, view=\"next\") or read_output(job=7, grep=\"…\")";
    assert_eq!(hint(&cut_output()).unwrap(), cut);
    let form = OutputEncoding::Binary { mime: "image/png".to_owned() };
    let binary = "read_output(job=7, form=\"base64\") gives the bytes as base64";
    assert_eq!(hint(&ShownOutput { form, ..output("", &[]) }).unwrap(), binary);
    let unshown = [JobId::local(3), JobId::local(4)];
    let expected = "no room for the output of jobs [3,4]: read_output(job=3, view=\"next\"); next";
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
        (&waiting_for_input(), page(PageEnd::CaughtUp, OutputEncoding::Screen, None), Some(INPUT)),
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
