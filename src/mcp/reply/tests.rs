//! The examples of the design, letter by letter, and the rules behind them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::excerpt::{ReadPosition, beyond_end_notice};
use super::hint::{hint_after_page, hint_reused_key};
use super::job_list::{
    JobCounts, NextCall, ReplyPart, format_unreported, job_fields, list_headline, list_line,
};
use super::shown_output::{LineSpan, OutputCut, OutputEncoding, ShownFacts, ShownOutput};
use super::snapshot::{JobSnapshot, State, verdict};
use super::tool_reply::ToolReply;
use crate::confinement::{Backend, Confinement, GrantedConfinement, NetworkAccess, SandboxProfile};
use crate::ids::JobId;
use crate::mcp::settings::ResultFormat;
use crate::outcome::{
    JobEnding, KillNote, LimitKind, LivingProcesses, Outcome, ResourceUsage, StartError, StopBy,
};
use crate::output::redaction::Redactor;
use crate::output::summary::Summarizer;
use crate::output::{DropReason, LogProgress, LogSummary, PageEnd};
use crate::service::{FindError, HoldingJobs, Liveness, QueuePosition, RefusedStarts, WaitsFor};
use crate::spec::JobClient;

pub(super) fn snapshot(job: u64, state: State, elapsed_ms: u64) -> JobSnapshot {
    JobSnapshot {
        job: JobId::local(job),
        state,
        elapsed: Duration::from_millis(elapsed_ms),
        queued: Duration::ZERO,
        slot_holders: Vec::new(),
        has_skipped_output: false,
        withheld_variables: Vec::new(),
        output: LogProgress::default(),
        prompt: None,
        has_terminal: false,
        quiet_for: None,
        survivors: LivingProcesses::default(),
        set_aside: Vec::new(),
        refused: RefusedStarts::default(),
        confinement: GrantedConfinement::NOTHING,
        doubt: None,
        writable: Vec::new(),
        is_limit_measured: false,
        limit: None,
        trace_id: None,
    }
}

fn ending(outcome: Outcome) -> JobEnding {
    JobEnding {
        outcome,
        at: Instant::now(),
        usage: ResourceUsage::default(),
        pipeline: Vec::new(),
        survivors: LivingProcesses::default(),
        kill: None,
    }
}

pub(super) fn ended(job: u64, outcome: Outcome, elapsed_ms: u64) -> JobSnapshot {
    snapshot(job, State::Finished(ending(outcome)), elapsed_ms)
}

pub(super) fn exited(job: u64, code: i32, elapsed_ms: u64) -> JobSnapshot {
    ended(job, Outcome::Exited { code }, elapsed_ms)
}

/// Returns the job with so much output.
pub(super) fn wrote(mut job: JobSnapshot, lines: u64, total_bytes: u64) -> JobSnapshot {
    job.output = LogProgress { lines, total_bytes, closed: true, ..LogProgress::default() };
    job
}

pub(super) fn output(text: &str, spans: &[(u64, u64)]) -> ShownOutput {
    ShownOutput {
        text: text.to_owned(),
        facts: None,
        spans: spans
            .iter()
            .map(|(first, last)| LineSpan { first: *first, last: *last, skipped_bytes: 0 })
            .collect(),
        cut: None,
        start: 0,
        end: text.len() as u64,
        end_kind: PageEnd::Complete,
        gap_bytes: 0,
        bad_bytes: 0,
        form: OutputEncoding::Text,
        stream: None,
    }
}

#[track_caller]
fn check(job: &JobSnapshot, shown: Option<&ShownOutput>, expected: &str) {
    assert_eq!(ToolReply::for_job(job, shown.cloned(), ResultFormat::Both).text(), expected);
}

#[test]
fn all_of_a_short_output_follows_its_verdict() {
    check(
        &wrote(exited(12, 0, 400), 1, 6),
        Some(&output("hello\n", &[])),
        "exit 0 · 0.4s · job 12\nhello",
    );
    check(&exited(12, 0, 400), Some(&output("", &[])), "exit 0 · 0.4s · job 12");
}

#[test]
fn a_cut_reply_names_the_shown_lines_and_how_to_read_the_rest() {
    let mut job = wrote(exited(14, 1, 3_100), 1138, 37_000);
    check(
        &job,
        Some(&cut_output()),
        "exit 1 · 3.1s · job 14 · 1,138 lines, 37 KB · showing 1-15 and 1033-1138\n\
         FAIL\n[…]\nlast\n\
         → full log kept: read_output(job=14, view=\"next\") or read_output(job=14, grep=\"…\")",
    );
    job.output.dropped_bytes = 12_000;
    let text = ToolReply::for_job(&job, Some(cut_output()), ResultFormat::Both).text();
    let lost = "→ 12 KB of output lost, the rest kept: read_output(job=14, view=\"next\") or";
    assert!(text.contains(lost) && !text.contains("full log"), "{text}");
}

/// Output with `FAIL` at the head and `last` at the tail.
pub(super) fn cut_output() -> ShownOutput {
    let cut = OutputCut { head: 5, tail: 11, tail_bytes: 36_000..37_000, first_hidden: 16 };
    ShownOutput {
        cut: Some(cut),
        end: 5,
        end_kind: PageEnd::More,
        ..output("FAIL\n[…]\nlast\n", &[(1, 15), (1033, 1138)])
    }
}

#[test]
fn the_structured_form_of_a_cut_has_each_byte_once() {
    let fields = structured(&wrote(exited(14, 1, 3_100), 1138, 37_000), Some(&cut_output()));
    for (name, expected) in [
        ("output", json!("FAIL\n")),
        ("bytes_start", json!(0)),
        ("bytes_end", json!(5)),
        ("next_cursor", json!("bytes:5")),
        ("end", json!("more")),
        ("truncated", json!(true)),
        ("tail", json!("last\n")),
        ("tail_bytes_start", json!(36_000)),
    ] {
        assert_eq!(fields[name], expected, "{name}");
    }
    let last_page = ShownOutput { start: 3, ..output("lo\n", &[(2, 3)]) };
    let fields = structured(&exited(14, 1, 0), Some(&last_page));
    assert_eq!(fields.get("truncated"), None, "the last page is not truncated");
}

/// The facts of a test run, with a line after it.
fn facts_output() -> ShownOutput {
    let mut summarizer = Summarizer::new();
    for (number, line) in (1..).zip([
        "=================================== FAILURES ===================================",
        "__________________________________ test_total __________________________________",
        "E       assert 15 == 99",
        "tests/test_billing.py:41: AssertionError",
        "=========================== short test summary info ============================",
        "FAILED tests/test_billing.py::test_total - assert 15 == 99",
        "========================= 1 failed, 9 passed in 0.50s ==========================",
    ]) {
        summarizer.read(number, line);
    }
    let summary = summarizer.summary();
    let lines = summary.text(1000).lines;
    let source = LogSummary { summary, end: 37_000, scanned_bytes: 37_000, complete: true };
    let cut = OutputCut { head: 0, tail: 0, tail_bytes: 36_995..37_000, first_hidden: 1 };
    ShownOutput {
        facts: Some(ShownFacts { lines, source: source.into() }),
        cut: Some(cut),
        end: 0,
        end_kind: PageEnd::More,
        ..output("bye\n", &[(380, 380)])
    }
}

#[test]
fn a_long_output_is_told_by_its_facts() {
    let job = wrote(exited(1, 1, 1_600), 380, 37_000);
    check(
        &job,
        Some(&facts_output()),
        "exit 1 · 1.6s · job 1 · 380 lines, 37 KB\n\
         pytest: 1 failed, 9 passed\n\
         tests/test_billing.py:41 test_total: assert 15 == 99\n\
         last lines:\nbye\n\
         → whole log: read_output(job=1)",
    );
    let fields = structured(&job, Some(&facts_output()));
    assert_eq!(fields["digest"]["tools"], json!([{"tool": "pytest", "passed": 9, "failed": 1}]));
    assert_eq!(
        fields["digest"]["facts"][1],
        "tests/test_billing.py:41 test_total: assert 15 == 99"
    );
    let place = [&fields["output"], &fields["bytes_end"], &fields["tail"]];
    assert_eq!(place, [&json!(""), &json!(0), &json!("bye\n")], "nothing else counts as read");
}

#[test]
fn a_job_whose_output_is_not_shown_says_where_to_start_reading_it() {
    let place = |fields: &Value| {
        let cursor = fields.get("next_cursor").cloned().unwrap_or_default();
        json!([
            fields["bytes_start"],
            fields["bytes_end"],
            fields["total_bytes"],
            fields["end"],
            cursor
        ])
    };
    let start = StartError::NulByte { what: "command" };
    for (job, expected) in [
        (snapshot(1, State::Queued(None), 0), json!([0, 0, 0, "caught_up", "bytes:0"])),
        (snapshot(1, State::Stopping, 0), json!([0, 0, 0, "caught_up", "bytes:0"])),
        (wrote(exited(1, 0, 0), 1, 6), json!([0, 0, 6, "more", "bytes:0"])),
        (wrote(exited(1, 0, 0), 0, 0), json!([0, 0, 0, "complete", null])),
        (ended(1, Outcome::FailedToStart(start), 0), json!([0, 0, 0, "complete", null])),
    ] {
        assert_eq!(place(&structured(&job, None)), expected, "{job:?}");
    }
}

#[test]
fn the_structured_form_says_how_a_job_was_ended() {
    let mut end = ending(Outcome::TimedOut { after: Duration::from_secs(1) });
    end.kill = Some(KillNote { first: 15, killed_after: None });
    end.usage.max_rss_bytes = 4096;
    let fields = structured(&snapshot(1, State::Finished(end), 1_000), None);
    assert_eq!(fields["killed"], "tree ended (SIGTERM)");
    assert_eq!(fields["max_rss_bytes"], 4096);
    let limit = Outcome::Limit { which: LimitKind::OutputLines(5) };
    assert_eq!(structured(&ended(1, limit, 0), None)["limit"], "output_lines");
    let memory = Outcome::Limit { which: LimitKind::Memory { limit: 5, peak: 7 } };
    let fields = structured(&ended(1, memory, 0), None);
    assert_eq!((&fields["limit"], &fields["peak_memory_bytes"]), (&json!("memory"), &json!(7)));
    let stopped = Outcome::Stopped { by: StopBy::Cancel };
    assert_eq!(structured(&ended(1, stopped, 0), None)["stopped_by"], "cancel");
    let not_run = Outcome::NotRun { by: StopBy::Cancel, waited: Duration::from_secs(5) };
    let fields = structured(&ended(1, not_run, 0), None);
    assert_eq!((&fields["outcome"], &fields["not_run"]), (&json!("stopped"), &json!(true)));
    assert_eq!((fields.get("elapsed_ms"), fields.get("cpu_ms")), (None, None));
    let bad = ShownOutput { bad_bytes: 3, ..output("", &[]) };
    assert_eq!(structured(&exited(1, 0, 0), Some(&bad))["bad_bytes"], 3);
}

#[test]
fn a_position_beyond_the_end_is_reported_in_every_form() {
    let job = wrote(exited(5, 0, 0), 12, 40);
    let far = beyond_end_notice(&job, ReadPosition::Offset(9999)).unwrap();
    assert_eq!(far, "nothing at bytes:9999: the output of job 5 ends at bytes:40 (12 lines)");
    let line = beyond_end_notice(&job, ReadPosition::NoSuchLine(99_999)).unwrap();
    assert_eq!(line, "nothing at line 99,999: the output of job 5 ends at bytes:40 (12 lines)");
    assert_eq!(beyond_end_notice(&job, ReadPosition::Offset(40)), None);
    let reply = ToolReply::for_job(&job, Some(output("", &[])), ResultFormat::Both)
        .with_verdict_as_hint(line.clone());
    assert_eq!(reply.text(), line);
    let fields = reply.into_result(ResultFormat::Structured).structured_content.unwrap();
    assert_eq!(fields["hint"], line);
}

#[test]
fn a_reused_key_is_reported() {
    assert_eq!(
        hint_reused_key("k1", None),
        "key \"k1\" named this job before; nothing was run again"
    );
    assert!(hint_reused_key("k1", Some("wait")).ends_with("nothing was run again; wait"));
}

#[test]
fn a_hint_says_how_to_read_and_how_to_skip_binary_output() {
    let job = wrote(exited(4, 0, 0), 1, 9_000);
    let form = OutputEncoding::Binary { mime: "image/png".to_owned() };
    let page =
        ShownOutput { form, start: 100, end: 200, end_kind: PageEnd::More, ..output("", &[]) };
    assert_eq!(
        hint_after_page(&job, &page).unwrap(),
        "these bytes: read_output(job=4, form=\"base64\", cursor=\"bytes:100\"); \
         more: read_output(job=4, cursor=\"bytes:200\")"
    );
    let raw = ShownOutput { form: OutputEncoding::Base64, ..page };
    assert_eq!(
        hint_after_page(&job, &raw).unwrap(),
        "more: read_output(job=4, form=\"base64\", cursor=\"bytes:200\")"
    );
}

#[test]
fn processes_that_a_stop_ended_are_counted() {
    let part = ReplyPart::for_job(&exited(1, 0, 0), None).with_ended(2);
    let result = ToolReply::for_jobs(None, vec![part]).into_result(ResultFormat::Both);
    let result = serde_json::to_value(result).unwrap();
    assert_eq!(result["content"][0]["text"], "exit 0 · 0.0s · job 1 · 2 processes ended");
    assert_eq!(result["structuredContent"]["jobs"][0]["ended_processes"], 2);
}

#[test]
fn a_running_job_says_how_long_and_what_to_do_instead_of_polling() {
    let mut job = wrote(snapshot(16, State::Running(None), 30_200), 812, 9_000);
    job.quiet_for = Some(Duration::from_secs(2));
    check(
        &job,
        Some(&output("", &[(700, 812)])),
        "running 30s · job 16 · 812 lines, last output 2s ago · showing 700-812\n\
         → wait_jobs(jobs=[16]) returns on exit; do other work meanwhile, do not poll",
    );
    job.quiet_for = None;
    assert_eq!(verdict(&job, None), "running 30s · job 16 · no output yet");
}

pub(super) fn place() -> QueuePosition {
    QueuePosition {
        position: 3,
        length: 12,
        lane: "default".to_owned(),
        waits_for: WaitsFor::Slots { slots: 8 },
        held_by: HoldingJobs::default(),
        estimate: None,
    }
}

#[test]
fn a_queued_job_reports_its_position_and_why_it_waits() {
    let queued = |place| verdict(&snapshot(17, State::Queued(Some(place)), 0), None);
    assert_eq!(queued(place()), "queued · position 3 of 12 · job 17 · 8/8 slots busy");
    let waits_for = WaitsFor::Lane { lane: "build".to_owned(), slots: 2 };
    let estimate = Some(Duration::from_millis(39_100));
    let in_lane = QueuePosition { lane: "build".to_owned(), waits_for, estimate, ..place() };
    assert_eq!(
        structured(&snapshot(17, State::Queued(Some(in_lane.clone())), 0), None)["estimated_start_ms"],
        39_100
    );
    assert_eq!(
        queued(in_lane),
        "queued · position 3 of 12 in lane build · job 17 · lane build: 2/2 busy · in about 40s"
    );
}

#[test]
fn a_timeout_says_what_was_killed() {
    let mut end = ending(Outcome::TimedOut { after: Duration::from_secs(300) });
    end.kill = Some(KillNote { first: 15, killed_after: Some(Duration::from_secs(5)) });
    let job = wrote(snapshot(18, State::Finished(end), 305_000), 96, 30_000);
    assert_eq!(
        verdict(&job, Some(&output("", &[(40, 96)]))),
        "timed out after 300s, tree killed (SIGTERM, then SIGKILL after 5s) · job 18 · 96 lines · \
         showing 40-96"
    );
}

#[test]
fn every_other_ending_has_its_own_words() {
    let limit = |which| Outcome::Limit { which };
    let not_found = StartError::NotFound { program: "carg".to_owned() };
    for (outcome, expected) in [
        (Outcome::Exited { code: 127 }, "exit 127 · 12.7s · job 19"),
        (Outcome::Signaled { signal: 9, core: false }, "killed by SIGKILL · 12.7s · job 19"),
        (
            Outcome::Signaled { signal: 11, core: true },
            "killed by SIGSEGV (core dumped) · 12.7s · job 19",
        ),
        (Outcome::Stopped { by: StopBy::Client }, "stopped on request · 12.7s · job 19"),
        (
            Outcome::Stopped { by: StopBy::Cancel },
            "stopped: its call was cancelled · 12.7s · job 19",
        ),
        (Outcome::Stopped { by: StopBy::Shutdown }, "stopped: server shutdown · 12.7s · job 19"),
        (
            Outcome::NotRun { by: StopBy::NoSlot, waited: Duration::from_secs(50) },
            "waited 50.0s for a slot and was not run (stopped: no slot was free in time) · job 19",
        ),
        (
            limit(LimitKind::OutputBytes(2_000_000_000)),
            "output limit of 2.0 GB reached · 12.7s · job 19",
        ),
        (
            limit(LimitKind::OutputLines(1_000)),
            "output limit of 1,000 lines reached · 12.7s · job 19",
        ),
        (
            limit(LimitKind::Memory { limit: 2_000_000_000, peak: 2_040_000_000 }),
            "out of memory: limit 2.0 GB, peak 2.0 GB · 12.7s · job 19",
        ),
        (
            limit(LimitKind::Cpu(Duration::from_secs(60))),
            "CPU limit of 60s reached · 12.7s · job 19",
        ),
        (
            limit(LimitKind::Processes(512)),
            "process limit of 512 reached (limits.processes) · 12.7s · job 19",
        ),
        (
            limit(LimitKind::FileSize(8_000_000_000)),
            "file size limit of 8.0 GB reached · 12.7s · job 19",
        ),
        (
            Outcome::Lost { why: "its actor failed".into() },
            "lost: its actor failed · 12.7s · job 19",
        ),
        (
            Outcome::FailedToStart(not_found),
            "failed to start: `carg` was not found in PATH; check the name, or give its full path \
             · job 19",
        ),
    ] {
        assert_eq!(verdict(&ended(19, outcome, 12_700), None), expected);
    }
}

#[test]
fn a_failure_inside_a_pipeline_shows_and_a_closed_pipe_does_not() {
    let with = |code, pipeline: &[i32]| {
        let mut end = ending(Outcome::Exited { code });
        end.pipeline = pipeline.to_vec();
        verdict(&snapshot(1, State::Finished(end), 0), None)
    };
    assert_eq!(with(0, &[1, 0]), "exit 0 (pipeline 1|0) · 0.0s · job 1");
    for (code, pipeline) in [(0, &[141, 0][..]), (0, &[0, 0]), (0, &[0]), (0, &[]), (3, &[1, 3])] {
        assert_eq!(with(code, pipeline), format!("exit {code} · 0.0s · job 1"), "{pipeline:?}");
    }
}

#[test]
fn a_limit_that_the_host_does_not_enforce_is_said_to_be_measured() {
    let which = LimitKind::Memory { limit: 2_000_000_000, peak: 2_400_000_000 };
    let mut job = ended(19, Outcome::Limit { which }, 12_700);
    job.is_limit_measured = true;
    assert_eq!(
        verdict(&job, None),
        "out of memory: limit 2.0 GB, peak 2.4 GB · 12.7s · job 19 · measured: without a cgroup this \
         host can only end a job after it has passed the limit"
    );
}

#[test]
fn survivors_and_lost_output_are_in_the_verdict() {
    let mut job = exited(7, 0, 100);
    job.survivors = LivingProcesses::Known(vec![4242]);
    assert_eq!(verdict(&job, None), "exit 0 · 0.1s · job 7 · 1 process still running (pid 4242)");
    job.survivors = LivingProcesses::Known((1..=9).collect());
    assert!(verdict(&job, None).ends_with("(pids 1, 2, 3, 4, 5, 6, 7, 8, …)"));
    job.survivors = LivingProcesses::Unreadable;
    assert!(verdict(&job, None).ends_with("processes may still be running (pids unknown)"));
    job.survivors = LivingProcesses::default();
    job.output.dropped_bytes = 12_000;
    let bad = ShownOutput { bad_bytes: 1, gap_bytes: 5_000, ..output("", &[]) };
    assert_eq!(
        verdict(&job, Some(&bad)),
        "exit 0 · 0.1s · job 7 · 12 KB of output could not be kept · 5 KB missing here · \
         1 byte not text, shown as \u{fffd} or ␀"
    );
    job.output.dropped_why = Some(DropReason::ServerCrash);
    job.output.dropped_at_most = true;
    let gap = ShownOutput { gap_bytes: 12_000, ..output("", &[]) };
    assert_eq!(
        verdict(&job, Some(&gap)),
        "exit 0 · 0.1s · job 7 · up to 12 KB of output may be missing (the server crashed before it was \
         stored) · up to 12 KB missing here"
    );
    assert_eq!(job_fields(&job, None)["dropped_at_most"], true);
}

#[test]
fn a_job_that_waits_for_input_says_how_to_answer_it() {
    let liveness =
        Liveness { processes: 1, cpu: Duration::ZERO, rss_bytes: 0, waiting_for_input: true };
    let silent = snapshot(3, State::Running(Some(liveness)), 1_000);
    let text = |job: &JobSnapshot, shown| ToolReply::for_job(job, shown, ResultFormat::Both).text();
    let answer = "send_input(job=3, text=\"…\\n\") answers it; ";
    let pipe = text(&silent, None);
    let verdict = "running 1s · job 3 · no output yet · waiting for input\n→ ";
    assert!(pipe.starts_with(&format!("{verdict}{answer}")), "{pipe}");
    assert!(pipe.ends_with("stop_jobs(jobs=[3]), then run it again with tty=true"), "{pipe}");
    let terminal = text(&JobSnapshot { has_terminal: true, ..silent.clone() }, None);
    assert_eq!(terminal, format!("{verdict}{answer}stop_jobs(jobs=[3]) ends it"));
    let asks = JobSnapshot { prompt: Some("go on?".to_owned()), ..wrote(silent, 1, 7) };
    let hidden = text(&asks, None);
    assert!(hidden.contains(" · waiting for input at \"go on?\"\n"), "{hidden}");
    let shown = text(&asks, Some(output("go on? ", &[])));
    assert!(shown.contains(" · waiting for input\ngo on? \n→ send_input(job=3"), "{shown}");
}

#[test]
fn a_failure_by_the_sandbox_names_the_writable_directories() {
    let confinement =
        Confinement { profile: SandboxProfile::WorkspaceWrite, network: NetworkAccess::Off };
    let granted = GrantedConfinement {
        requested: confinement,
        effective: confinement,
        backend: Backend::Namespaces,
    };
    let mut job = wrote(exited(5, 1, 400), 1, 40);
    job.confinement = granted;
    job.writable = vec!["/srv/app".into()];
    let text = "touch: cannot touch '/x': Read-only file system\n";
    let expected = "exit 1 · 0.4s · job 5 · confined: workspace-write, no network\n\
         touch: cannot touch '/x': Read-only file system\n\
         → the job may write only to /srv/app and $TMPDIR (confinement workspace-write)";
    check(&job, Some(&output(text, &[])), expected);
    let text = "curl: (6) Could not resolve host: example.org\n";
    let reply = ToolReply::for_job(&job, Some(output(text, &[])), ResultFormat::Both).text();
    let hint = "→ the job has no network (confinement workspace-write, network off)";
    assert!(reply.ends_with(hint), "{reply}");
    job.confinement = GrantedConfinement::NOTHING;
    let reply = ToolReply::for_job(&job, Some(output(text, &[])), ResultFormat::Both).text();
    assert!(!reply.contains('→'), "{reply}");
}

fn structured(job: &JobSnapshot, shown: Option<&ShownOutput>) -> Value {
    let result = ToolReply::for_job(job, shown.cloned(), ResultFormat::Both)
        .into_result(ResultFormat::Structured);
    result.structured_content.unwrap()
}

#[test]
fn the_structured_form_is_flat_and_complete() {
    let job = wrote(exited(12, 3, 400), 1, 6);
    assert_eq!(
        structured(&job, Some(&output("hello\n", &[]))),
        json!({
            "job": 12, "state": "finished", "outcome": "exited", "exit_code": 3,
            "elapsed_ms": 400, "queued_ms": 0, "cpu_ms": 0,
            "output": "hello\n", "bytes_start": 0, "bytes_end": 6, "end": "complete",
            "confinement": {
                "profile": "none", "network": "on", "backend": "nothing", "degraded": false,
            },
            "total_bytes": 6, "lines": 1, "uri": "shellyard://jobs/12/output",
        })
    );
}

#[test]
fn a_cursor_is_returned_unless_the_log_is_complete_and_read_to_its_end() {
    let job = exited(12, 0, 0);
    for (end_kind, word, cursor) in [
        (PageEnd::More, "more", Some("bytes:6")),
        (PageEnd::CaughtUp, "caught_up", Some("bytes:6")),
        (PageEnd::Complete, "complete", None),
    ] {
        let fields = structured(&job, Some(&ShownOutput { end_kind, ..output("hello\n", &[]) }));
        assert_eq!(fields["end"], word);
        assert_eq!(fields.get("next_cursor").and_then(Value::as_str), cursor);
    }
}

#[test]
fn nothing_is_ever_null() {
    let start = StartError::NulByte { what: "command" };
    for job in [
        snapshot(1, State::Queued(Some(place())), 0),
        snapshot(1, State::Queued(None), 0),
        snapshot(1, State::Running(None), 5),
        snapshot(1, State::Stopping, 5),
        ended(1, Outcome::FailedToStart(start), 0),
        ended(1, Outcome::Lost { why: String::new() }, 5),
    ] {
        let fields = structured(&job, None);
        assert!(!fields.as_object().unwrap().values().any(Value::is_null), "{fields}");
    }
}

#[test]
fn each_format_has_the_content_that_its_clients_read() {
    let reply_in =
        |format| ToolReply::for_job(&exited(1, 1, 0), Some(output("a\nb\n", &[])), format);
    let reply = || reply_in(ResultFormat::Both);
    let text = reply().into_result(ResultFormat::Text);
    assert!(text.structured_content.is_none());
    let text_only = reply_in(ResultFormat::Text).into_result(ResultFormat::Text);
    assert_eq!(text_only.content, text.content, "the text does not depend on the other formats");
    assert_eq!(text.is_error, Some(false), "a failing command is not a server error");
    let both = serde_json::to_value(reply().into_result(ResultFormat::Both)).unwrap();
    assert_eq!(both["content"][0]["text"], "exit 1 · 0.0s · job 1\na\nb");
    assert_eq!(both["structuredContent"]["output"], "a\nb\n");
    let only = serde_json::to_value(reply().into_result(ResultFormat::Structured)).unwrap();
    assert_eq!(only["content"][0]["text"], "exit 1 · 0.0s · job 1");
}

#[test]
fn text_added_after_masking_is_masked_too() {
    let redactor = Redactor::with_known_secrets(&[]).unwrap();
    const SECRET: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let reply = ToolReply::for_job(&exited(1, 1, 0), None, ResultFormat::Text).masked(&redactor);
    let text = reply.with_headline(SECRET.to_owned()).masked(&redactor).text();
    assert!(!text.contains(SECRET), "{text}");
}

#[test]
fn a_server_failure_is_marked_in_every_format() {
    for format in [ResultFormat::Text, ResultFormat::Structured, ResultFormat::Both] {
        let result = ToolReply::failure("no".to_owned(), "bad").into_result(format);
        assert_eq!(result.is_error, Some(true), "{format:?}");
        if let Some(fields) = result.structured_content {
            assert_eq!(fields, json!({"error": "no", "error_code": "bad"}));
        }
    }
    let failed = ended(5, Outcome::FailedToStart(StartError::NulByte { what: "cwd" }), 0);
    assert_eq!(
        ToolReply::for_job(&failed, None, ResultFormat::Both)
            .into_result(ResultFormat::Text)
            .is_error,
        Some(true)
    );
}

#[test]
fn several_jobs_are_listed_one_by_one() {
    let one = ReplyPart::for_job(&exited(1, 0, 0), Some(&output("a\n", &[])));
    let two = ReplyPart::for_missing(&FindError::Unknown { id: JobId::local(9) });
    let result = ToolReply::for_jobs(None, vec![one, two]).into_result(ResultFormat::Both);
    let result = serde_json::to_value(result).unwrap();
    assert_eq!(
        result["content"][0]["text"],
        "exit 0 · 0.0s · job 1\na\n\nthere is no job 9; list_jobs shows the jobs there are"
    );
    assert_eq!(result["structuredContent"]["jobs"][1]["error_code"], "unknown_job");
}

#[test]
fn a_list_has_a_summary_and_a_line_for_each_job() {
    let counts = JobCounts { queued: 2, running: 1, finished: 1400, surviving: 0 };
    assert_eq!(list_headline(counts, 1403, 1403), "1 running, 2 queued, 1,400 finished");
    assert_eq!(
        list_headline(counts, 20, 30),
        "1 running, 2 queued, 1,400 finished · 30 matches · showing the newest 20"
    );
    let mut running = snapshot(16, State::Running(None), 30_000);
    running.quiet_for = Some(Duration::from_secs(2));
    for (job, command, description, expected) in [
        (running, "cargo build", None, "16 running 30s · last output 2s ago · cargo build"),
        (
            snapshot(17, State::Queued(Some(place())), 0),
            "make\nall",
            Some("the app"),
            "17 queued · position 3 of 12 · 8/8 slots busy · the app · make all",
        ),
        (wrote(exited(14, 1, 3_100), 1138, 1), "x", None, "14 exit 1 · 3.1s · 1,138 lines · x"),
    ] {
        assert_eq!(list_line(&job, command, description, None), expected);
    }
    let codex = JobClient {
        name: "codex".to_owned(),
        version: Some("0.166".to_owned()),
        directory: Some(Path::new("/srv/app").into()),
    };
    let line = list_line(&exited(2, 0, 0), "true", None, Some(&codex));
    assert!(line.ends_with(" · by codex 0.166 in /srv/app · true"), "{line}");
    let line = list_line(&exited(1, 0, 0), &"x".repeat(500), None, None);
    assert!(line.ends_with("x…") && line.len() < 200, "{line}");
}

#[test]
fn a_job_whose_call_was_given_up_is_named_with_its_state_and_the_next_call() {
    let line = |job: JobSnapshot| {
        format_unreported(&[(job, "cargo build\n--all".to_owned())], NextCall::Native).unwrap()
    };
    for (job, expected) in [
        (
            snapshot(3, State::Running(None), 9000),
            "job 3 (cargo build --all) is still running: wait_jobs(jobs=[3])",
        ),
        (
            snapshot(3, State::Queued(None), 0),
            "job 3 (cargo build --all) is starting: wait_jobs(jobs=[3])",
        ),
        (exited(3, 2, 9000), "job 3 (cargo build --all) has ended, exit 2: read_output(job=3)"),
    ] {
        assert_eq!(line(job), expected);
    }
}

#[test]
fn many_jobs_whose_calls_were_given_up_take_few_lines() {
    let jobs: Vec<(JobSnapshot, String)> =
        (1..=5).map(|job| (snapshot(job, State::Stopping, 9), "make".to_owned())).collect();
    assert_eq!(format_unreported(&[], NextCall::Native), None);
    assert_eq!(
        format_unreported(&jobs, NextCall::Hidden).unwrap(),
        "job 1 (make) is being stopped\njob 2 (make) is being stopped\n\
         job 3 (make) is being stopped\nand jobs 4, 5, whose calls were given up too"
    );
    let native = format_unreported(&jobs, NextCall::Native).unwrap();
    assert!(native.ends_with("given up too: list_jobs()"), "{native}");
    let dialect = format_unreported(&jobs, NextCall::ReadShellOutput).unwrap();
    assert!(dialect.starts_with("job 1 (make) is being stopped: read_shell_output(job=1)\n"));
}

#[test]
fn a_notice_comes_first_in_both_forms() {
    let shown = Some(output("hello\n", &[]));
    let job = wrote(exited(12, 0, 400), 1, 6);
    let reply = ToolReply::for_job(&job, shown, ResultFormat::Both).with_notice("job 3 runs");
    assert_eq!(reply.text(), "job 3 runs\nexit 0 · 0.4s · job 12\nhello");
    let result = reply.into_result(ResultFormat::Both);
    assert_eq!(result.structured_content.unwrap()["notice"], "job 3 runs");
}

thread_local! {
    static COUNTED: Cell<ThreadAllocations> = const { Cell::new(ThreadAllocations { times: 0, bytes: 0 }) };
}

/// Allocations so far, freed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadAllocations {
    pub(super) times: usize,
    pub(super) bytes: usize,
}

/// Runs `work`, and returns the allocations of this thread during it.
pub(super) fn count_allocations<T>(work: impl FnOnce() -> T) -> (ThreadAllocations, T) {
    let before = COUNTED.get();
    let done = work();
    let after = COUNTED.get();
    let times = after.times - before.times;
    let bytes = after.bytes - before.bytes;
    (ThreadAllocations { times, bytes }, done)
}

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn count(bytes: usize) {
    let ThreadAllocations { times, bytes: before } = COUNTED.get();
    COUNTED.set(ThreadAllocations { times: times + 1, bytes: before + bytes });
}

#[expect(
    unsafe_code,
    reason = "GlobalAlloc is an unsafe trait; each method calls the system's allocator"
)]
// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn allocations_are_counted() {
    let (seen, memory) = count_allocations(|| Vec::<u8>::with_capacity(1000));
    assert_eq!((seen, memory.capacity()), (ThreadAllocations { times: 1, bytes: 1000 }, 1000));
}
