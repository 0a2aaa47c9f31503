//! The replies that an agent reads: the text, the structured form, and that each is complete by
//! itself.

use serde_json::{Value, json};

use crate::harness::{Launch, Marker, Reply, assert_nothing_null, eventually};

/// Every field that the structured form may have.
const FIELDS: [&str; 61] = [
    "job",
    "state",
    "outcome",
    "exit_code",
    "signal",
    "ended_before",
    "error",
    "error_code",
    "elapsed_ms",
    "queued_ms",
    "held_by",
    "held_by_others",
    "queue_position",
    "queue_length",
    "lane",
    "waits_for",
    "estimated_start_ms",
    "retry_after_ms",
    "output",
    "stdout",
    "stderr",
    "encoding",
    "bytes_start",
    "bytes_end",
    "total_bytes",
    "lines",
    "next_cursor",
    "end",
    "gap_bytes",
    "dropped_bytes",
    "dropped_why",
    "dropped_at_most",
    "removed_bytes",
    "truncated",
    "waiting_for_input",
    "prompt",
    "background_pids",
    "set_aside",
    "confinement",
    "pipeline_exit_codes",
    "cpu_ms",
    "max_rss_bytes",
    "last_output_ms_ago",
    "uri",
    "mime",
    "hint",
    "jobs",
    "command",
    "description",
    "matches",
    "matched_line",
    "tail",
    "tail_bytes_start",
    "digest",
    "bad_bytes",
    "killed",
    "limit",
    "stopped_by",
    "ended_processes",
    "charset",
    "jobs_left_out",
];

#[test]
fn a_short_success_is_a_verdict_and_the_output() {
    for launch in Launch::both() {
        let reply = launch.start().run("echo hello");
        let text = reply.text();
        let (verdict, body) = text.split_once('\n').expect("a verdict and a body");
        assert!(verdict.starts_with("exit 0 · "), "{verdict}");
        assert!(verdict.contains("s · job 1"), "{verdict}");
        assert_eq!(body.trim_end(), "hello");
        assert!(reply.0["result"].get("structuredContent").is_none(), "text is the default");
        assert_ne!(reply.0["result"]["isError"], true);
    }
}

#[test]
fn a_failing_command_is_a_result_and_no_error_of_ours() {
    let reply = Launch::stdio().start().run("echo nothing found; exit 1");
    assert!(reply.verdict().starts_with("exit 1 · "), "{}", reply.verdict());
    assert_ne!(reply.0["result"]["isError"], true);
}

#[test]
fn job_numbers_are_small_and_count_from_one() {
    let mut server = Launch::stdio().start();
    let numbers: Vec<u64> = (0..3).map(|_| server.run("true").job()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn a_long_output_is_told_by_its_errors_and_its_last_lines() {
    let mut server = Launch::stdio().start();
    let command = "for i in $(seq 1 20000); do [ $i = 7000 ] && echo 'error: the disk is on fire'; echo \"line number $i of a long log\"; done";
    let reply = server.run(command);
    let text = reply.text();
    assert!(text.len() < 4_000, "{} bytes in one reply", text.len());
    let verdict = reply.verdict();
    assert!(verdict.contains("20,001 lines, ") && verdict.contains(" · 1 error"), "{verdict}");
    assert!(text.contains("\n7000: error: the disk is on fire\n"), "{text}");
    assert!(text.contains("line number 20000 of"), "the tail is there");
    let last = text.trim_end().lines().last().expect("a last line");
    assert!(last.starts_with('→') && last.contains("read_output(job=1"), "{last}");
}

#[test]
fn a_long_line_is_cut_with_a_count() {
    let mut server = Launch::stdio().start();
    let text = server.run("head -c 100000 /dev/zero | tr '\\0' y; echo; echo after").text();
    assert!(text.len() < 20_000, "{} bytes", text.len());
    assert!(text.contains("after"), "{text}");
    assert!(text.contains(|c: char| c.is_ascii_digit()), "the count is told");
}

#[test]
fn a_running_job_says_how_to_wait_for_it() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    let command = format!("echo begun; sleep {marker}");
    let reply = server.call("run_command", json!({"command": command, "wait_s": 5})).ok();
    assert!(reply.verdict().starts_with("running "), "{}", reply.verdict());
    assert!(reply.text().contains("begun"), "{}", reply.text());
    assert!(reply.text().contains("wait_jobs(jobs=[1])"), "{}", reply.text());
}

#[test]
fn nothing_is_null_and_every_field_is_known() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.run_separate("echo out; echo err >&2; exit 2").job();
    let running = server.start(&format!("sleep {marker}"));
    let replies = [
        server.run("true"),
        server.call("run_command", json!({"command": "no-such-program-it", "args": ["x"]})),
        server.call("wait_jobs", json!({"jobs": [job, running], "wait_s": 0})),
        server.call("read_output", json!({"job": job})),
        server.call("read_output", json!({"job": job, "stream": "stderr"})),
        server.call("read_output", json!({"job": job, "view": "raw"})),
        server.call("read_output", json!({"job": running})),
        server.call("list_jobs", json!({})),
        server.call("send_input", json!({"job": running, "text": "x"})),
        server.call("stop_jobs", json!({"jobs": [running]})),
    ];
    for reply in &replies {
        assert_nothing_null(reply.structured());
        assert_known_fields(reply.structured());
    }
}

#[track_caller]
fn assert_known_fields(form: &Value) {
    for (name, value) in form.as_object().expect("an object") {
        assert!(FIELDS.contains(&name.as_str()), "unknown field {name} in {form}");
        if name == "jobs" {
            value.as_array().expect("a list").iter().for_each(assert_known_fields);
        }
    }
}

#[test]
fn lists_of_jobs_have_the_same_shape_as_one_job() {
    let mut server = Launch::stdio().structured().start();
    let one = server.run("echo hi");
    let waited = server.call("wait_jobs", json!({"jobs": [1], "wait_s": 0})).ok();
    let listed = server.call("list_jobs", json!({})).ok();
    for field in ["job", "state", "outcome", "exit_code", "elapsed_ms", "total_bytes"] {
        assert_eq!(waited.only_job()[field], one[field], "{field} in wait_jobs");
        assert_eq!(listed.only_job()[field], one[field], "{field} in list_jobs");
    }
}

#[test]
fn both_means_both_and_each_is_complete() {
    let mut server = Launch::stdio().args(&["--result-format", "both"]).start();
    let reply = server.run("echo twice");
    assert!(reply.verdict().starts_with("exit 0"), "{}", reply.0);
    assert!(reply.text().contains("twice"), "{}", reply.0);
    assert_eq!(reply["output"], "twice\n");
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let launch = || Launch::stdio().config("[mcp]\nresult_format = \"both\"\n");
    let from_file = launch().start().run("true");
    assert!(!from_file.text().is_empty() && from_file.structured().is_object());
    let variable = launch().env("SHELLYARD_MCP_RESULT_FORMAT", "text");
    let from_environment = variable.start().run("true");
    assert!(from_environment.0["result"].get("structuredContent").is_none());
    let flag = launch().env("SHELLYARD_MCP_RESULT_FORMAT", "text").structured();
    assert_eq!(flag.start().run("true")["exit_code"], 0);
}

#[test]
fn list_jobs_shows_the_newest_first_and_filters() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    server.run("echo alpha");
    server.run("echo beta; exit 4");
    let running = server.start(&format!("sleep {marker}"));
    let numbers = |reply: &Reply| -> Vec<u64> {
        let jobs = reply["jobs"].as_array().expect("a list");
        jobs.iter().map(|job| job["job"].as_u64().expect("a number")).collect()
    };
    assert_eq!(numbers(&server.call("list_jobs", json!({})).ok()), [running, 2, 1]);
    assert_eq!(numbers(&server.call("list_jobs", json!({"limit": 1})).ok()), [running]);
    eventually("it reads as running", || {
        numbers(&server.call("list_jobs", json!({"state": "running"})).ok()) == [running]
    });
    assert_eq!(numbers(&server.call("list_jobs", json!({"state": "finished"})).ok()), [2, 1]);
    assert_eq!(numbers(&server.call("list_jobs", json!({"text": "alph"})).ok()), [1]);
}

#[test]
fn list_jobs_as_text_has_one_line_for_each_job() {
    let mut server = Launch::stdio().start();
    server.run("echo alpha");
    let arguments = json!({"command": "echo beta", "description": "say beta"});
    server.call("run_command", arguments).ok();
    let text = server.call("list_jobs", json!({})).ok().text();
    assert!(text.contains("echo alpha"), "{text}");
    assert!(text.contains("say beta"), "{text}");
    let empty = Launch::stdio().start().call("list_jobs", json!({})).ok().text();
    assert!(!empty.is_empty(), "no jobs is said in words");
}

#[test]
fn a_very_long_last_line_shows_its_end_and_says_what_it_leaves_out() {
    let mut server = Launch::stdio().start();
    for bytes in [20_000, 3_000_000] {
        let command =
            format!("printf 'one\\nBEGIN'; head -c {bytes} /dev/zero | tr '\\0' x; printf 'Öend'");
        let reply = server.run(&command);
        let text = reply.text();
        assert!(text.contains("xxÖend\n→"), "{bytes}: {text}");
        assert!(text.contains("chars] …") || text.contains("of line 2 hidden]"), "{text}");
        let job = reply.job();
        // The second one starts inside of the line.
        for max_bytes in [50_000, 3_000] {
            let arguments = json!({"job": job, "view": "tail", "max_bytes": max_bytes});
            let tail = server.call("read_output", arguments).ok();
            assert!(tail.text().trim_end().ends_with("xxÖend"), "{bytes}: {}", tail.text());
            let is_told =
                tail.text().contains("chars] …") || tail.verdict().contains("2 without its first ");
            assert!(is_told, "{}", tail.text());
        }
    }
}
