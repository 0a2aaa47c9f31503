//! Output that is read while a job writes it: bytes, last lines, and output since a time.

use std::io::Read;

use serde_json::json;

use super::{ApiCaller, code};
use crate::harness::{HttpRequest, Launch, TestServer, eventually};

fn start() -> (TestServer, [ApiCaller; 2]) {
    let mut server = Launch::http().structured().start();
    let callers = ApiCaller::both_ways(&mut server);
    (server, callers)
}

#[test]
fn output_is_followed_to_its_end_while_the_job_writes() {
    let (mut server, callers) = start();
    for caller in callers {
        let job =
            server.start("printf 'one\\n'; read line; printf 'two\\n'; read line; seq 1 50000");
        let path = format!("/api/v1/jobs/{job}/output?follow=1");
        let mut connection = caller.open(HttpRequest::get(&path));
        let mut answer = connection.answer();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-length"), None);
        assert_eq!(answer.header("x-shellyard-start"), Some("0"));
        for line in ["one\n", "two\n"] {
            let mut bytes = [0; 4];
            answer.body().read_exact(&mut bytes).expect("a line");
            assert_eq!(bytes, line.as_bytes(), "it arrives before the next one is written");
            server.call("send_input", json!({"job": job, "text": "\n"})).ok();
        }
        let rest: String = (1..=50_000).map(|number| format!("{number}\n")).collect();
        assert!(answer.text() == rest, "everything arrives once");
        let later = caller.read(&format!("/jobs/{job}/output?follow=1&from=4"));
        assert!(later == format!("two\n{rest}"), "a finished job is read to its end");
    }
}

#[test]
fn one_stream_is_followed_by_itself() {
    let (mut server, [caller, _]) = start();
    let job =
        server.run_in_steps("echo out; read _; echo err1 >&2; read _; echo err2 >&2", &[4, 9]);
    let errors = format!("/jobs/{job}/output?follow=1&stream=stderr");
    assert_eq!(caller.read(&errors), "err1\nerr2\n");
    assert_eq!(caller.read(&format!("{errors}&from=5")), "err2\n");
    assert_eq!(caller.read(&format!("{errors}&tail=1")), "err2\n");
    server.run("echo merged");
    let (status, refused) = caller.get("/jobs/2/output?follow=1&stream=stderr");
    assert_eq!((status, code(&refused)), (404, "merged_streams"));
}

#[test]
fn a_reader_may_start_at_the_last_lines_or_at_a_byte() {
    let (mut server, callers) = start();
    server.run("seq 1 100000; printf 'no newline'");
    for caller in callers {
        for follow in ["", "&follow=1"] {
            let read = |query: &str| caller.read(&format!("/jobs/1/output?{query}{follow}"));
            assert_eq!(read("tail=3"), "99999\n100000\nno newline");
            assert_eq!(read("tail=0"), "");
            assert_eq!(read("tail=1000000").len(), 588_895 + 10);
            assert_eq!(read("from=588899"), "ewline");
            assert_eq!(read("from=588905"), "");
            let (status, outside) = caller.get(&format!("/jobs/1/output?from=588906{follow}"));
            assert_eq!((status, code(&outside)), (416, "range_not_satisfiable"));
        }
        let mut connection = caller.open(HttpRequest::get("/api/v1/jobs/1/output?tail=2"));
        let answer = connection.answer();
        assert_eq!(answer.header("x-shellyard-start"), Some("588888"));
        assert_eq!(answer.header("content-length"), Some("17"));
    }
}

#[test]
fn output_since_a_time_is_all_that_was_written_then_and_little_more() {
    let (mut server, [caller, _]) = start();
    let job = server.start("echo early; read line; echo late; read line");
    eventually("it has written", || caller.read(&format!("/jobs/{job}/output")) == "early\n");
    // More than the distance of two marks.
    std::thread::sleep(std::time::Duration::from_secs(5));
    server.call("send_input", json!({"job": job, "text": "\n"})).ok();
    let read = |query: &str| caller.read(&format!("/jobs/{job}/output?since={query}"));
    eventually("it goes on", || read("3600").ends_with("late\n"));
    assert_eq!(read("3600"), "early\nlate\n");
    let (_, state) = caller.get(&format!("/jobs/{job}"));
    assert_eq!(read(state["started_at"].as_str().expect("a time")), "early\nlate\n");
    // An age counts from the moment of the read, which a busy machine may delay.
    let read_since_late = |more: &str| {
        let (_, state) = caller.get(&format!("/jobs/{job}"));
        let quiet = state["last_output_ms_ago"].as_u64().expect("a time");
        let since = (quiet as f64 + 1000.0) / 1000.0;
        let found = read(&format!("{since:.3}{more}"));
        assert_ne!(found, "early\nlate\n", "quiet for {quiet} ms");
        found == "late\n"
    };
    eventually("the late line is read by its age", || read_since_late(""));
    assert_eq!(read("0"), "");
    for follow in ["", "&follow=1"] {
        // A follower of a running job goes on, so its start tells.
        let start = |query: &str| {
            let path = format!("/api/v1/jobs/{job}/output?{query}{follow}");
            let mut connection = caller.open(HttpRequest::get(&path));
            connection.answer().header("x-shellyard-start").map(str::to_owned)
        };
        assert_eq!(start("tail=1&since=3600").as_deref(), Some("6"), "the lines are later");
        assert_eq!(start("tail=9&since=3600").as_deref(), Some("0"));
        assert_eq!(start("tail=9&since=0").as_deref(), Some("11"), "the time is later");
    }
    eventually("the same among the last lines", || read_since_late("&tail=9"));
    for bad in ["since=soon", "tail=-1", "from=x", "tail=1&from=1", "follow=2"] {
        let (status, refused) = caller.get(&format!("/jobs/{job}/output?{bad}"));
        assert_eq!((status, code(&refused)), (400, "bad_query"), "{bad}");
    }
}

#[test]
fn the_times_of_output_outlive_the_server() {
    let (mut server, [caller, _]) = start();
    // Each line is its own time, in whole seconds. Between them is more than the distance of two
    // marks and a second.
    let steps = "for line in 1 2 3; do date -u +%FT%TZ; sleep 4; done";
    let finished = server.start(steps);
    let running = server.start(&format!("{steps}; echo last; read line; echo late"));
    caller.wait_finished(finished);
    let path = format!("/jobs/{running}/output");
    eventually("it has written", || caller.read(&path).ends_with("last\n"));
    assert_eq!(caller.post("/upgrade", &json!({})).0, 200);
    eventually("the next server answers", || {
        let request = HttpRequest::get("/api/v1/upgrade").header("Connection", "close");
        caller.open(request).rest().contains("\"generation\":2")
    });
    eventually("it has taken the job over", || {
        caller.get(&format!("/jobs/{running}")).1["state"] == "running"
    });
    for job in [finished, running] {
        let all = caller.read(&format!("/jobs/{job}/output"));
        let mut rest = all.as_str();
        for line in all.lines().take(3) {
            let read = caller.read(&format!("/jobs/{job}/output?since={line}"));
            assert_eq!(read, rest, "job {job} since {line}");
            rest = &rest[line.len() + 1..];
        }
    }
    caller.post(&format!("/jobs/{running}/input"), &json!({"text": "\n"}));
    caller.wait_finished(running);
    let late = caller.read(&format!("/jobs/{running}/output?since=3600&tail=1"));
    assert_eq!(late, "late\n");
}

#[test]
fn output_with_a_hole_is_sent_without_it_and_says_where_it_is() {
    let (mut server, callers) = start();
    let arguments = json!({"command": "seq 1 2000000", "on_large_output": "truncate"});
    server.call("run_command", arguments).ok();
    let total: u64 = 14_888_896;
    for caller in callers {
        let read = |query: &str, range: Option<&str>| {
            let request = HttpRequest::get(&format!("/api/v1/jobs/1/output{query}"));
            let request = range.iter().fold(request, |it, range| it.header("Range", range));
            let mut connection = caller.open(request);
            let answer = connection.answer();
            let header = |name| answer.header(name).map(str::to_owned);
            let gaps = header("x-shellyard-holes").unwrap_or_default();
            let told = (header("content-range"), header("accept-ranges"), header("etag"));
            (answer.status, gaps, told, answer.text())
        };
        let (status, gaps, told, whole) = read("", None);
        assert_eq!(status, 200);
        let (from, to) =
            gaps.strip_suffix(":truncated").and_then(|it| it.split_once('-')).expect("a gap");
        let (from, to): (u64, u64) =
            (from.parse().expect("a number"), to.parse().expect("a number"));
        assert_eq!(whole.len() as u64 + (to - from), total);
        assert!(whole.starts_with("1\n2\n") && whole.ends_with("\n2000000\n"));
        assert_eq!(told, (None, None, None), "no part of it can be asked for");
        let (_, followed_gaps, _, followed) = read("?follow=1", None);
        assert!(followed_gaps == gaps && followed == whole, "{followed_gaps}");
        // A tail does not reach the hole.
        assert_eq!(read("?tail=1", None).1, "");
        let before = from - 3;
        let (status, rest_gaps, _, rest) = read(&format!("?from={before}"), None);
        assert_eq!((status, &rest_gaps), (200, &gaps));
        assert!(rest == whole[before as usize..], "{}", rest.len());
        let (status, part_gaps, (range, ..), part) = read("", Some(&format!("bytes={before}-")));
        assert_eq!((status, part.as_str()), (206, &whole[before as usize..from as usize]));
        let sent = format!("bytes {before}-{}/{total}", from - 1);
        assert_eq!((range, &part_gaps), (Some(sent), &gaps));
        let inside = from + 1;
        for (query, range) in [
            (format!("?from={inside}"), None),
            (String::new(), Some(format!("bytes={inside}-{}", to + 9))),
        ] {
            let (status, _, _, text) = read(&query, range.as_deref());
            assert!(status == 410 && text.contains("not_kept"), "{status} {text}");
        }
        let (status, rest_gaps, _, rest) = read(&format!("?follow=1&from={inside}"), None);
        assert_eq!((status, rest_gaps), (200, format!("{inside}-{to}:truncated")));
        assert!(rest == whole[from as usize..]);
    }
}

#[test]
fn a_follower_is_cut_off_when_the_server_is_replaced() {
    let mut server = Launch::http().structured().start();
    let caller = ApiCaller::over_tcp(&mut server);
    let job = server.start("echo one; read line; echo two");
    let mut connection =
        caller.open(HttpRequest::get(&format!("/api/v1/jobs/{job}/output?follow=1")));
    let mut answer = connection.answer();
    let mut bytes = [0; 4];
    answer.body().read_exact(&mut bytes).expect("a line");
    assert_eq!(caller.post("/upgrade", &json!({})).0, 200);
    let mut rest = Vec::new();
    // Not the end of the body: the client knows that there is more.
    assert!(answer.body().read_to_end(&mut rest).is_err(), "{rest:?}");
    eventually("the next server answers", || {
        let request = HttpRequest::get("/api/v1/upgrade").header("Connection", "close");
        caller.open(request).rest().contains("\"generation\":2")
    });
    let reading = caller.clone();
    let path = format!("/jobs/{job}/output?follow=1&from=4");
    let followed = std::thread::spawn(move || reading.read(&path));
    // The next server may answer before it has taken the job over.
    eventually("the job takes input", || {
        caller.post(&format!("/jobs/{job}/input"), &json!({"text": "\n"})).0 == 200
    });
    assert_eq!(followed.join().expect("it ends"), "two\n");
}
