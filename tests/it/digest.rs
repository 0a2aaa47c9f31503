//! The digest of an output: as a view of its own, and wherever a reply is cut.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Launch, Marker, TestServer, assert_nothing_null, eventually};

/// A real log that is kept beside the tests.
fn log(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name);
    path.to_string_lossy().into_owned()
}

/// Lines that hide what is between them.
fn buried(name: &str) -> String {
    let padding = "seq -f 'line %g of something long that nobody reads' 1 3000";
    format!("{padding}; cat {}; {padding}", log(name))
}

#[track_caller]
fn digest(server: &mut TestServer, arguments: Value) -> Value {
    let mut wanted = json!({"view": "digest"});
    wanted.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
    let reply = server.call("read_output", wanted).ok();
    assert_nothing_null(reply.structured());
    reply["digest"].clone()
}

#[test]
fn a_digest_tells_what_failed_and_where() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let job = server.run(&format!("cat {}; exit 101", log("cargo-test.log"))).job();
        let reply = server.call("read_output", json!({"job": job, "view": "digest"})).ok();
        let text = reply.text();
        assert!(reply.verdict().starts_with("digest of 63 lines · exit 101 · "), "{text}");
        let failed = "cargo test: 4 passed, 3 failed, 1 skipped: tests::error_is_shown, tests::adds_wrongly, broken";
        assert!(text.contains(failed), "{text}");
        assert!(text.contains("\nfirst error:\n5- running 5 tests\n"), "{text}");
        assert!(text.contains("\n7: test tests::error_is_shown ... FAILED\n8- "), "{text}");
        assert!(text.contains("last error:"), "{text}");
        assert!(text.len() < 3500, "{} bytes", text.len());
    }
}

#[test]
fn the_structured_form_of_a_digest_is_complete() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run(&format!("cat {}", log("pytest.log"))).job();
    let digest = digest(&mut server, json!({"job": job}));
    assert_eq!(digest["lines"], 53);
    assert_eq!(digest["complete"], true);
    let size = std::fs::metadata(log("pytest.log")).unwrap().len();
    assert_eq!(digest["scanned_bytes"], size);
    let ending = &digest["endings"][0];
    assert_eq!((&ending["tool"], &ending["line"]), (&json!("pytest"), &json!(53)));
    for (name, number) in
        [("passed", 3), ("failed", 2), ("skipped", 1), ("errors", 1), ("warnings", 2)]
    {
        assert_eq!(ending[name], number, "{name}");
    }
    assert_eq!(ending["failed_names"][0], "test_store.py::test_misses");
    let errors = digest["error_lines"].as_array().unwrap();
    assert_eq!(errors.len(), 10);
    assert!(digest["errors"].as_u64().unwrap() > 10, "all are counted");
    assert_eq!(digest["first_error"]["line"], errors[0]["line"]);
    assert_eq!(digest["last_error"]["text"], errors[9]["text"]);
    assert_eq!(digest["last_error"]["before"].as_array().unwrap().len(), 2);
    assert_eq!(digest["first_error"]["after"].as_array().unwrap().len(), 3);
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
    assert!(err.get("first_error").is_none(), "{err}");
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
        digest["endings"][0]["tool"] == "git" && digest["errors"] == 1
    });
}

#[test]
fn a_cut_lists_its_errors_and_tells_the_digest_in_short() {
    let mut server = Launch::stdio().start();
    let command = buried("make.log");
    let reply = server.run(&command);
    let text = reply.text();
    assert!(
        text.contains(" hidden; 4 look like errors:\n  3006: main.c:6:14: error: format"),
        "{text}"
    );
    assert!(text.contains("\n  3026: make: *** [<builtin>: main.o] Error 1\n"), "{text}");
    assert!(
        text.contains(
            "\n  digest: 4 errors (3006 … 3026), 3 warnings (3003 … 3022) · cc: 2 errors"
        ),
        "{text}"
    );
    let wait = json!({"jobs": [reply.job()], "cursor": "bytes:0"});
    let waited = server.call("wait_jobs", wait).ok().text();
    assert!(waited.contains("\n  digest: 4 errors"), "{waited}");
}

#[test]
fn a_cut_without_errors_still_tells_how_its_tools_ended() {
    let mut server = Launch::stdio().start();
    let text = server.run(&buried("cargo-build.log")).text();
    assert!(text.contains(" hidden:\n  digest: cargo: Finished `dev` profile"), "{text}");
    let quiet = server.run("seq 1 20000").text();
    assert!(quiet.contains(" hidden]\n") && !quiet.contains("digest"), "{quiet}");
}

#[test]
fn the_structured_form_of_a_cut_has_the_digest() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.run(&buried("java-stack.log"));
    assert_nothing_null(reply.structured());
    let digest = &reply["digest"];
    assert_eq!(
        (&digest["errors"], &digest["complete"]),
        (&reply["hidden_errors_count"], &json!(true))
    );
    assert_eq!(digest["endings"][0]["tool"], "java");
    let text = digest["endings"][0]["text"].as_str().unwrap();
    assert!(text.contains("(App.java:8), caused by java.lang.NumberFormatException"), "{text}");
    let whole = server.run("echo error: shown whole");
    assert!(whole.structured().get("digest").is_none(), "nothing was cut");
}

#[test]
fn progress_that_is_drawn_again_counts_once() {
    let mut server = Launch::stdio().structured().start();
    let draw = r"printf '\033[1A\033[2Kstep %s failed, retrying\n' $i";
    let bar = r"printf '\rerror rate %s%%' $i";
    let command = format!(
        "echo start; echo; for i in $(seq 1 50); do {draw}; done; for i in $(seq 1 50); do {bar}; done; echo"
    );
    let job = server.run(&command).job();
    let digest = digest(&mut server, json!({"job": job}));
    assert_eq!(digest["errors"], 2, "{digest}");
    assert_eq!(digest["error_lines"][0]["text"], "step 50 failed, retrying");
    assert_eq!(digest["error_lines"][1]["text"], "error rate 50%");
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
    assert!(text.ends_with("\nno errors; no warnings"), "{text}");
}

#[test]
fn a_running_job_tells_of_the_errors_before_its_last_lines() {
    let marker = Marker::new();
    let command = format!("{}; echo the end; sleep {marker}", buried("cargo-errors.log"));
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
    assert!(text.contains("hidden; 4 look like errors:\n  3002: error[E0425]"), "{text}");
    assert!(text.contains("  digest: 4 errors (3002 … 3033)"), "{text}");
    assert_eq!((&reply["hidden_errors_count"], &reply["digest"]["errors"]), (&json!(4), &json!(4)));
    assert_eq!(reply["hidden_errors"][0]["line"], 3002);
    assert!(reply["output"].as_str().is_some_and(|output| !output.contains("hidden")));
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
                assert!(text.contains("\n200 errors: lines 1"), "{format} {tokens}: {text}");
                assert!(text.contains("\nlast error:\n"), "{format} {tokens}: {text}");
                assert!(text.contains("\n200: error: number 200 漢"), "{format} {tokens}: {text}");
            }
            if format != "text" {
                assert_eq!(structured["digest"]["errors"], 200, "{tokens}");
                assert_eq!(structured["digest"]["last_error"]["line"], 200, "{tokens}");
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
fn errors_in_a_cut_are_listed_however_long_they_are() {
    for format in ["text", "both"] {
        let mut server = Launch::stdio().args(&["--result-format", format]).start();
        let reply = server.call("run_command", json!({"command": WIDE, "max_tokens": 500})).ok();
        let text = reply.text();
        assert!(text.len() <= 1250, "{} bytes: {text}", text.len());
        assert!(text.contains(" look like errors:\n  2: error: number 2 漢"), "{format}: {text}");
        assert!(!text.contains("lines 1-200 hidden;"), "{format}: what is shown is not: {text}");
        if format == "both" {
            assert_eq!(reply["hidden_errors"][0]["line"], 2);
        }
    }
    let mut server = Launch::stdio().start();
    let deep = "head -c 50000 /dev/zero | tr '\\0' x; printf ' error: hidden '; \
                head -c 50000 /dev/zero | tr '\\0' y; echo; seq 3000";
    let text = server.call("run_command", json!({"command": deep, "max_tokens": 1000})).ok().text();
    assert!(text.contains("\n  1: …xxx") && text.contains("x error: hidden y"), "{text}");
    let many = "for i in $(seq 800); do echo \"error: number $i of many of that kind\"; done";
    let text = server.call("run_command", json!({"command": many, "max_tokens": 500})).ok().text();
    let numbers: Vec<u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once(": error: number")?.0.parse().ok())
        .collect();
    assert!(numbers.len() > 2 && numbers.is_sorted(), "{text}");
    let before_gap = text.lines().take_while(|line| !line.ends_with(" more")).last();
    let first = numbers.iter().take_while(|number| **number < 400).last().unwrap();
    assert!(before_gap.is_some_and(|line| line.starts_with(&format!("  {first}: "))), "{text}");
}

#[test]
fn where_a_read_cuts_it_tells_what_matters_in_all_of_it() {
    let padding = "seq -f 'line %g of something long that nobody reads' 1 3000";
    let command = format!("{padding}; echo error: in the middle; {padding}");
    let said = "\n[digest of all 6,001 lines: 1 error (3001)]";
    for format in ["text", "both"] {
        let mut server = Launch::stdio().args(&["--result-format", format]).start();
        let job = server.run(&command).job();
        for view in ["head", "tail", "text"] {
            for tokens in [500, 8000] {
                let wanted = json!({"job": job, "view": view, "max_tokens": tokens});
                let reply = server.call("read_output", wanted).ok();
                let text = reply.text();
                assert!(text.contains(said) && text.len() <= tokens * 5 / 2, "{view}: {text}");
                if format == "both" {
                    assert_eq!(reply["digest"]["errors"], 1, "{view}");
                }
            }
        }
        for place in [json!({"cursor": "bytes:0"}), json!({"line": 1}), json!({"view": "raw"})] {
            let mut wanted = json!({"job": job});
            wanted.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
            let text = server.call("read_output", wanted).ok().text();
            assert!(!text.contains("[digest of"), "{place}: {text}");
        }
        let quiet = server.run("seq 1 20000").job();
        let head = server.call("read_output", json!({"job": quiet, "view": "head"})).ok().text();
        assert!(!head.contains("digest"), "nothing matters in it: {head}");
        let short = server.run("echo error: all is shown").job();
        let all = server.call("read_output", json!({"job": short, "view": "head"})).ok().text();
        assert!(!all.contains("digest"), "{all}");
    }
}

#[test]
fn a_digest_reads_what_is_shown() {
    let mut server = Launch::stdio().start();
    let wide = r"printf 'fine\nerror: broken\nlast\n' | iconv -t UTF-16";
    let job = server.run(wide).job();
    let text = server.call("read_output", json!({"job": job, "view": "digest"})).ok().text();
    assert!(text.starts_with("digest of 3 lines"), "{text}");
    assert!(text.contains("\n1 error: line 2;") && text.contains("2: error: broken"), "{text}");
    let over = server.run(r"printf 'error: disk exploded\rall good\n'").job();
    let text = server.call("read_output", json!({"job": over, "view": "digest"})).ok().text();
    assert!(text.contains("\n1: error: disk exploded"), "{text}");
}
