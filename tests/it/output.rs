//! Every byte is kept, and read by cursor, by anyone, at any time.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Era, HttpLink, Launch, Marker, Reply, TestServer, bytes_of, eventually};

/// Returns the output of `command` without Shellyard in between.
fn expected_output(command: &str) -> Vec<u8> {
    Command::new("sh").args(["-c", command]).output().expect("a shell").stdout
}

/// All bytes of a job from `cursor` on, page by page.
#[track_caller]
fn read_all(server: &mut TestServer, job: u64, cursor: &str, max_bytes: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut next = Some(cursor.to_owned());
    while let Some(cursor) = next {
        let page = server.read_raw(job, &cursor, max_bytes);
        bytes.extend(bytes_of(&page));
        next = page["next_cursor"].as_str().map(str::to_owned);
        assert!(
            next.as_ref() != Some(&cursor) || page["end"] == "caught_up",
            "a page without progress: {page}"
        );
    }
    bytes
}

#[test]
fn twenty_parallel_jobs_keep_twenty_outputs_over_stdio() {
    let mut server = Launch::stdio().structured().start();
    let ids: Vec<u64> = (0..20)
        .map(|number| server.begin("run_command", json!({"command": parallel_command(number)})))
        .collect();
    for (number, id) in ids.into_iter().enumerate() {
        check_parallel(number, &server.finish(id));
    }
}

#[test]
fn twenty_parallel_jobs_keep_twenty_outputs_over_http() {
    let mut server = Launch::http().structured().era(Era::Modern).start();
    let link = server.http().clone();
    thread::scope(|scope| {
        for number in 0..20 {
            let mut link = link.clone();
            scope.spawn(move || {
                let arguments = json!({"command": parallel_command(number)});
                let params = json!({"name": "run_command", "arguments": arguments});
                let message = Era::Modern.request(number as u64, "tools/call", params);
                check_parallel(number, &Reply(link.exchange(&message)));
            });
        }
    });
}

fn parallel_command(number: usize) -> String {
    format!("for i in $(seq 1 40); do echo job {number} line $i; echo err {number} $i >&2; done")
}

#[track_caller]
fn check_parallel(number: usize, reply: &Reply) {
    assert_eq!(reply["exit_code"], 0);
    let output = reply["output"].as_str().expect("text");
    for line in 1..=40 {
        assert!(output.contains(&format!("job {number} line {line}\n")), "{output}");
        assert!(output.contains(&format!("err {number} {line}\n")), "{output}");
    }
    assert_eq!(output.lines().count(), 80, "{output}");
}

#[test]
fn bytes_that_are_no_text_survive_to_the_raw_read() {
    for launch in Launch::both() {
        let mut server = launch.structured().start();
        let job = server.run(r"printf 'a\377\000b\n\376\000'").job();
        assert_eq!(read_all(&mut server, job, "bytes:0", 1 << 20), b"a\xff\x00b\n\xfe\x00");
        assert_eq!(read_all(&mut server, job, "bytes:0", 1), b"a\xff\x00b\n\xfe\x00");
    }
}

#[test]
fn a_cursor_from_before_the_spill_reads_the_same_bytes_after_the_end() {
    let command = "seq 1 100; while [ ! -e gate ]; do sleep 0.05; done; seq 101 100000";
    let mut server = Launch::stdio().structured().start();
    let job = server.start(command);
    let first = "1\n2\n3\n4\n5\n";
    eventually("the first lines are there", || {
        server.read_raw(job, "bytes:0", 1 << 20)["total_bytes"] == 292
    });
    let early = server.read_raw(job, "bytes:0", 10);
    assert_eq!(bytes_of(&early), first.as_bytes());
    let cursor = early["next_cursor"].as_str().expect("there is more").to_owned();
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    let status = server.wait_finished(job);
    assert_eq!(status["outcome"], "exited");
    let whole = expected_output("seq 1 100000");
    assert_eq!(status["total_bytes"], whole.len());
    assert!(read_all(&mut server, job, &cursor, 1 << 20) == whole[10..], "after the end");
    assert!(read_all(&mut server, job, "bytes:0", 50_000) == whole, "from the start, once more");
}

#[test]
fn two_readers_at_different_speeds_get_the_same_bytes() {
    let command = "i=0; while [ $i -lt 400 ]; do seq 1 300; i=$((i+1)); done";
    let mut server = Launch::http().structured().era(Era::Modern).start();
    let job = server.start(command);
    let link = server.http().clone();
    let readers: Vec<_> = [700, 65_536]
        .map(|page| {
            let link = link.clone();
            thread::spawn(move || follow(link, job, page))
        })
        .into_iter()
        .collect();
    let whole = expected_output(command);
    for reader in readers {
        assert!(reader.join().expect("a reader") == whole, "a reader got other bytes");
    }
}

/// Reads a running job to its end; `caught_up` means to ask again.
fn follow(mut link: HttpLink, job: u64, page_bytes: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut cursor = "bytes:0".to_owned();
    for id in 1.. {
        let arguments =
            json!({"job": job, "view": "raw", "cursor": cursor, "max_bytes": page_bytes});
        let params = json!({"name": "read_output", "arguments": arguments});
        let message = link.era().request(id, "tools/call", params);
        let reply = Reply(link.exchange(&message)).ok();
        bytes.extend(bytes_of(reply.structured()));
        match reply["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    bytes
}

#[test]
fn reading_never_consumes() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("seq 1 50").job();
    let first = server.call("read_output", json!({"job": job})).ok();
    let second = server.call("read_output", json!({"job": job})).ok();
    assert_eq!(first.structured()["output"], second.structured()["output"]);
    assert_eq!(first["end"], "complete");
    assert_eq!(first.structured().get("next_cursor"), None, "the end has no next");
}

#[test]
fn pages_end_on_whole_lines_and_say_where_the_next_begins() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("seq 1000 1999").job();
    let page =
        server.call("read_output", json!({"job": job, "cursor": "bytes:0", "max_bytes": 12}));
    assert_eq!(page["output"], "1000\n1001\n");
    assert_eq!(page["bytes_start"], 0);
    assert_eq!(page["bytes_end"], 10);
    assert_eq!(page["total_bytes"], 5000);
    assert_eq!(page["end"], "more");
    let next = page["next_cursor"].clone();
    let page = server.call("read_output", json!({"job": job, "cursor": next, "max_lines": 3}));
    assert_eq!(page["output"], "1002\n1003\n1004\n");
}

#[test]
fn pages_never_cut_a_character() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("printf 'ääääääääää'").job();
    let page = server.call("read_output", json!({"job": job, "cursor": "bytes:0", "max_bytes": 5}));
    assert_eq!(page["output"], "ää");
    assert_eq!(page["bytes_end"], 4);
}

#[test]
fn head_tail_and_line_show_what_they_say() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("seq 1 1000").job();
    let mut read = |arguments: Value| {
        let mut arguments = arguments;
        arguments["job"] = json!(job);
        server.call("read_output", arguments).ok()["output"].as_str().expect("text").to_owned()
    };
    assert_eq!(read(json!({"view": "head", "max_lines": 2})), "1\n2\n");
    assert_eq!(read(json!({"view": "tail", "max_lines": 2})), "999\n1000\n");
    assert_eq!(read(json!({"line": 500, "max_lines": 2})), "500\n501\n");
    assert_eq!(read(json!({"cursor": "line:500", "max_lines": 1})), "500\n");
}

#[test]
fn streams_can_be_read_apart_and_together_in_order() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run_in_steps("echo one; read _; echo two >&2; read _; echo three", &[4, 8]);
    let merged = server.call("read_output", json!({"job": job})).ok();
    assert_eq!(merged["output"], "one\ntwo\nthree\n");
    let out = server.call("read_output", json!({"job": job, "stream": "stdout"})).ok();
    assert_eq!(out["stdout"], "one\nthree\n");
    let err = server.call("read_output", json!({"job": job, "stream": "stderr"})).ok();
    assert_eq!(err["stderr"], "two\n");
    assert_eq!(err.structured().get("output"), None, "one stream was asked for");
}

#[test]
fn grep_finds_lines_with_their_context() {
    let mut server = Launch::stdio().start();
    let job = server.run("seq 1 1000").job();
    let arguments = json!({"job": job, "grep": "^50[05]$", "context": 1});
    let text = server.call("read_output", arguments).ok().text();
    for line in ["499", "500", "501", "504", "505", "506"] {
        assert!(text.contains(line), "{line} is missing in: {text}");
    }
    assert!(!text.contains("503"), "{text}");
}

#[test]
fn a_query_picks_from_json_output() {
    let mut server = Launch::stdio().start();
    let job = server.run(r#"echo '{"a": {"b": [10, 20, 30]}}'"#).job();
    let text = server.call("read_output", json!({"job": job, "query": "a.b[1]"})).ok().text();
    assert!(text.contains("20"), "{text}");
    assert!(!text.contains("30"), "{text}");
}

#[test]
fn text_views_change_the_reply_and_never_the_store() {
    let mut server = Launch::stdio().structured().start();
    let command = r"printf '\033[31mred\033[0m\n10%%\r50%%\r100%%\nend\r\n'";
    let reply = server.run(command);
    assert_eq!(reply["output"], "red\n100%\nend\n");
    let raw = read_all(&mut server, reply.job(), "bytes:0", 1 << 20);
    assert_eq!(raw, b"\x1b[31mred\x1b[0m\n10%\r50%\r100%\nend\r\n");
}

#[test]
fn repeated_lines_are_folded_with_their_count() {
    let mut server = Launch::stdio().start();
    let text = server.run("for i in $(seq 1 57); do echo again; done; echo other").text();
    assert!(text.contains("(×57)"), "{text}");
    assert_eq!(text.matches("again").count(), 1, "{text}");
    assert!(text.contains("other"), "{text}");
}

#[test]
fn bad_bytes_are_counted_in_the_reply() {
    let mut server = Launch::stdio().start();
    let text = server.run(r"printf 'plain text here\377and\376more\n'").text();
    assert!(text.contains('\u{fffd}'), "{text}");
    assert!(text.contains("2 "), "the count of bad bytes is told: {text}");
}

#[test]
fn binary_output_is_recognised() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.run("head -c 4096 /bin/sh");
    let mime = reply["mime"].as_str().expect("a mime type").to_owned();
    assert!(mime.starts_with("application/"), "{mime}");
    assert!(reply.0.to_string().len() < 16_384, "a short account of it: {}", reply.0);
}

#[test]
fn a_wait_returns_on_new_output_that_matches() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!(
        "while [ ! -e gate ]; do sleep 0.05; done; echo server is ready; sleep {marker}"
    ));
    let arguments = json!({"jobs": [job], "until": "is rea.y", "cursor": "bytes:0", "wait_s": 40});
    let id = server.begin("wait_jobs", arguments);
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    let reply = server.finish(id).ok();
    let status = reply.only_job();
    assert_eq!(status["state"], "running");
    assert!(status.to_string().contains("server is ready"), "{status}");
}

#[test]
fn nobody_else_may_read_what_jobs_wrote() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("seq 1 100000; sleep {marker}"));
    eventually("the log went to disk", || {
        let page = server.read_raw(job, "bytes:0", 1);
        page["total_bytes"].as_u64().is_some_and(|bytes| bytes > 500_000)
    });
    let paths = paths_below(&server.sandbox().data());
    for path in &paths {
        let mode = fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is open to others", path.display());
    }
}

fn paths_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    for path in paths.clone() {
        if path.is_dir() {
            paths.extend(paths_below(&path));
        }
    }
    paths
}
