//! The digest of an output: as a form of its own, and wherever a reply shows facts instead of all.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Marker, TestServer, assert_nothing_null, eventually,
};

/// The captured log of a tool.
fn log(name: &str) -> String {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/summary/tests/logs");
    logs.join(name).to_string_lossy().into_owned()
}

/// The expected facts of a captured log.
fn expected_facts(name: &str) -> String {
    std::fs::read_to_string(Path::new(&log(name)).with_extension("summary")).unwrap()
}

/// Lines that hide what is between them.
fn buried(name: &str) -> String {
    let padding = "seq -f 'line %g of something long that nobody reads' 1 3000";
    format!("{padding}; cat {}; {padding}", log(name))
}

#[track_caller]
fn digest(server: &mut TestServer, arguments: Value) -> Value {
    let mut wanted = json!({"form": "digest"});
    wanted.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
    let reply = server.call("read_output", wanted).ok();
    assert_nothing_null(reply.structured());
    reply["digest"].clone()
}

#[test]
fn a_digest_tells_what_failed_and_where() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let job = server.run(&format!("cat {}; exit 101", log("cargo-test/fail.log"))).job();
        let reply = server.call("read_output", json!({"job": job, "form": "digest"})).ok();
        let text = reply.text();
        assert!(reply.verdict().starts_with("digest of 137 lines · exit 101 · "), "{text}");
        assert!(text.contains(expected_facts("cargo-test/fail.log").trim_end()), "{text}");
    }
}

#[test]
fn the_structured_form_of_a_digest_is_complete() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run(&format!("cat {}", log("pytest/fail.log"))).job();
    let digest = digest(&mut server, json!({"job": job}));
    assert_eq!((&digest["lines"], &digest["complete"]), (&json!(155), &json!(true)));
    let size = std::fs::metadata(log("pytest/fail.log")).unwrap().len();
    assert_eq!(digest["scanned_bytes"], size);
    let tool = &digest["tools"][0];
    assert_eq!((&tool["tool"], &tool["consistent"]), (&json!("pytest"), &json!(true)));
    for (name, number) in [("passed", 10), ("failed", 9), ("skipped", 1), ("warnings", 1)] {
        assert_eq!(tool[name], number, "{name}");
    }
    let failures = tool["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 9);
    assert_eq!(
        (&failures[2]["file"], &failures[2]["line"], &failures[2]["message"]),
        (&json!("tests/test_pricing.py"), &json!(16), &json!("assert 750 == 800"))
    );
    assert_eq!(tool["warning_list"].as_array().map(Vec::len), Some(1));
    assert_eq!((&digest["errors"], &digest["warnings"]), (&json!(0), &json!(0)), "{digest}");
}

#[test]
fn a_digest_is_of_one_stream_or_from_a_place_on_where_that_is_asked() {
    let mut server = Launch::stdio().structured().start();
    let command = "echo error: out; echo warning: err >&2; read _; echo fine; echo error: late";
    let job = server.run_in_steps(command, &[24]);
    let both = digest(&mut server, json!({"job": job}));
    assert_eq!(
        (&both["errors"], &both["warnings"], &both["lines"]),
        (&json!(2), &json!(1), &json!(4))
    );
    let err = digest(&mut server, json!({"job": job, "stream": "stderr"}));
    assert_eq!(
        (&err["errors"], &err["warnings"], &err["lines"]),
        (&json!(0), &json!(1), &json!(1))
    );
    let late = digest(&mut server, json!({"job": job, "line": 4}));
    assert_eq!((&late["errors"], &late["error_lines"][0]["line"]), (&json!(1), &json!(4)));
}

#[test]
fn a_running_job_has_a_digest() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("echo 'fatal: no'; sleep {marker}"));
    eventually("the error is in the digest", || {
        let digest = digest(&mut server, json!({"job": job}));
        digest["errors"] == 1 && digest["error_lines"][0]["text"] == "fatal: no"
    });
}

#[test]
fn a_reply_shows_the_facts_of_a_long_output() {
    let mut server = Launch::stdio().start();
    let reply = server.run(&format!("{}; exit 101", buried("cargo/fail.log")));
    let text = reply.text();
    let expected = expected_facts("cargo/fail.log");
    let facts = text.split_once('\n').map_or("", |(_, rest)| rest);
    assert!(facts.starts_with(&expected), "{text}");
    assert!(text.contains("line 3000 of something long"), "the last lines: {text}");
    assert!(text.contains(&format!("read_output(job={}", reply.job())), "{text}");
    let wait = json!({"jobs": [reply.job()], "cursor": "bytes:0"});
    let waited = server.call("wait_jobs", wait).ok().text();
    assert!(waited.contains(&expected), "{waited}");
}

#[test]
fn the_structured_form_of_a_reply_has_its_facts() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.run(&buried("cargo-test/fail.log"));
    assert_nothing_null(reply.structured());
    let digest = &reply["digest"];
    assert_eq!((&digest["errors"], &digest["complete"]), (&json!(0), &json!(true)), "{digest}");
    let counts = json!([{"tool": "cargo test", "passed": 6, "failed": 9, "skipped": 1}]);
    assert_eq!(digest["tools"], counts);
    assert_eq!(digest["facts"][0], "cargo test: 9 failed, 6 passed, 1 skipped");
    assert_eq!(digest["facts"].as_array().map(Vec::len), Some(10));
    assert!(reply["tail"].as_str().is_some_and(|tail| tail.contains("line 3000 of")), "{reply:?}");
    for gone in ["hidden_errors", "hidden_errors_count"] {
        assert!(reply.structured().get(gone).is_none(), "{gone}");
    }
    let whole = server.run("echo error: shown whole");
    assert!(whole.structured().get("digest").is_none(), "nothing is hidden");
}

#[test]
fn a_report_that_contradicts_itself_is_not_shown() {
    let mut server = Launch::stdio().args(&["--result-format", "both"]).start();
    let without_one = "grep -v 'test_rows' ";
    let command = format!("seq 1 100; {without_one} {}; exit 1", log("pytest/no-traceback.log"));
    let run = json!({"command": command, "max_tokens": 1500});
    let reply = server.call("run_command", run).ok();
    let text = reply.text();
    assert!(!text.contains("\npytest: "), "{text}");
    assert!(text.contains(" failed, "), "the last lines have the tool's own words: {text}");
    assert_eq!(reply["digest"]["tools"], json!([]));
}

#[test]
fn progress_that_is_drawn_again_counts_once() {
    let mut server = Launch::stdio().structured().start();
    let bar = r"printf '\rerror: rate %s%%' $i";
    let command = format!("echo start; for i in $(seq 1 50); do {bar}; done; echo");
    let job = server.run(&command).job();
    let digest = digest(&mut server, json!({"job": job}));
    assert_eq!(digest["error_lines"].as_array().map(Vec::len), Some(1), "{digest}");
}

#[test]
fn a_digest_goes_with_no_search() {
    let mut server = Launch::stdio().start();
    let job = server.run("echo hi").job();
    for other in ["grep", "query"] {
        let arguments = json!({"job": job, "view": "digest", other: "x"});
        let error = server.call("read_output", arguments).error_text();
        assert!(error.contains("leave `view` out"), "{error}");
    }
    let text = server.call("read_output", json!({"job": job, "view": "digest"})).ok().text();
    assert!(text.ends_with("\nno errors, no warnings"), "{text}");
}

#[test]
fn a_running_job_tells_of_the_errors_before_its_last_lines() {
    let marker = Marker::new();
    let command = format!("{}; echo the end; sleep {marker}", buried("cargo/fail.log"));
    // The same key gives back the same job, as it is by then.
    let run = json!({"command": command, "key": "one", "wait_s": 0});
    let mut server = Launch::stdio().args(&["--result-format", "both"]).start();
    let job = server.call("run_command", run.clone()).ok().job();
    eventually("all is in the log", || {
        let tail = json!({"job": job, "view": "tail", "max_lines": 1});
        server.call("read_output", tail).ok().text().contains("the end")
    });
    let reply = server.call("run_command", run).ok();
    let text = reply.text();
    assert!(text.starts_with("running "), "{text}");
    assert!(text.contains("\ncargo: 4 errors, 5 warnings\nsrc/money.rs:13:37 "), "{text}");
    assert_eq!(reply["digest"]["tools"][0]["errors"], 4);
}

/// 200 errors, each of them far too long to be shown.
const WIDE: &str = "wide=$(printf '漢%.0s' $(seq 5000)); \
    for i in $(seq 200); do echo \"error: number $i $wide\"; done";

#[test]
fn a_digest_keeps_its_budget_and_tells_no_less_with_more_of_it() {
    for format in ["text", "structured", "both"] {
        let mut server = Launch::stdio().args(&["--result-format", format]).start();
        let job = server.run(WIDE).job();
        let mut told = 0;
        for tokens in [500, 600, 800, 1000, 1500, 2000, 8000] {
            let wanted = json!({"job": job, "view": "digest", "max_tokens": tokens});
            let reply = server.call("read_output", wanted).ok();
            let text = reply.text();
            let structured = &reply.0["result"]["structuredContent"];
            let json = if structured.is_null() { 0 } else { structured.to_string().len() };
            assert!(text.len().max(json) <= tokens * 5 / 2, "{format} {tokens}: {text}");
            assert!(text.len() + json >= told, "{format} {tokens}: {text} {structured}");
            told = text.len() + json;
            if format != "structured" {
                assert!(text.contains("\n1: error: number 1 漢"), "{format} {tokens}: {text}");
            }
            if format != "text" {
                assert_eq!(structured["digest"]["errors"], 200, "{tokens}");
            }
        }
    }
}

#[test]
fn a_digest_says_which_bytes_it_is_about() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.run("echo one; echo two").job();
    let reply = server.call("read_output", json!({"job": job, "view": "digest", "line": 2})).ok();
    assert_eq!((&reply["bytes_start"], &reply["bytes_end"]), (&json!(4), &json!(8)));
    assert_eq!(reply["end"], "complete");
    assert!(reply.structured().get("next_cursor").is_none(), "there is nothing more to come");
    let running = server.start(&format!("echo one; sleep {marker}"));
    server.wait_written(running, 4);
    let reply = server.call("read_output", json!({"job": running, "view": "digest"})).ok();
    assert_eq!((&reply["end"], &reply["next_cursor"]), (&json!("caught_up"), &json!("bytes:4")));
}

#[test]
fn a_digest_reads_what_is_shown() {
    let mut server = Launch::stdio().start();
    let wide = r"printf 'fine\nerror: broken\nlast\n' | iconv -t UTF-16";
    let job = server.run(wide).job();
    let text = server.call("read_output", json!({"job": job, "view": "digest"})).ok().text();
    assert!(text.starts_with("digest of 3 lines"), "{text}");
    assert!(text.contains("\n2: error: broken"), "{text}");
    let over = server.run(r"printf 'error: disk exploded\rall good\n'").job();
    let text = server.call("read_output", json!({"job": over, "view": "digest"})).ok().text();
    assert!(text.contains("\n1: error: disk exploded"), "{text}");
}

#[test]
fn the_digest_is_a_resource_and_an_answer_of_the_api() {
    let mut server = Launch::http().start();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let job = server
        .run(&format!(
            "cat {}; echo 'error: token {secret} refused'; exit 1",
            log("cargo/fail.log")
        ))
        .job();
    let answer =
        server.rpc("resources/read", json!({"uri": format!("shellyard://jobs/{job}/digest")}));
    let contents = &answer["result"]["contents"][0];
    assert_eq!(contents["mimeType"], "text/plain", "{answer}");
    let text = contents["text"].as_str().unwrap();
    assert!(text.starts_with("cargo: 4 errors, 5 warnings\n"), "{text}");
    assert!(text.contains("error: token ") && !text.contains(secret), "{text}");
    let unknown = server.rpc("resources/read", json!({"uri": "shellyard://jobs/99/digest"}));
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");

    let path = format!("/api/v1/jobs/{job}/digest");
    let (status, body) = get(&mut server, &path);
    assert_eq!(status, 200);
    let digest: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(digest["tools"][0]["errors"], 4, "{digest}");
    assert_eq!(digest["tools"][0]["failures"][0]["file"], "src/money.rs");
    assert!(!digest.to_string().contains(secret), "{digest}");
    assert_eq!(get(&mut server, "/api/v1/jobs/99/digest").0, 404);
    assert_eq!(get(&mut server, &format!("{path}?x=1")).0, 400);
    let series = r#"shellyard_job_reports_total{tool="cargo",result="failed"}"#;
    assert_eq!(server.metric(series), 1.0, "a job counts once");
}

fn get(server: &mut TestServer, path: &str) -> (u16, Vec<u8>) {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get(path));
    let answer = connection.answer();
    (answer.status, answer.bytes())
}
