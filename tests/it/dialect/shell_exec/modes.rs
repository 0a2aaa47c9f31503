//! Output that is larger than a page.

use std::fs;

use serde_json::{Value, json};

use super::{each, exec, runs, whole_file};
use crate::harness::{Launch, Marker, Reply, eventually_some};

#[test]
fn truncate_gives_one_page_and_says_so() {
    each(|server| {
        let run = |cmd: &str| json!({"cmd": cmd, "on_large_output": "truncate", "page": {"limit_lines": 2}});
        let res = exec(server, run("seq 1 9"));
        assert_eq!((&res["stdout_chunk"], &res["truncated"]), (&json!("1\n2\n"), &json!(true)));
        assert_eq!((res.get("next_cursor"), &res["spill_uri"]), (None, &Value::Null));
        assert_eq!(res["total_bytes"], 18);
        assert_eq!(exec(server, run("seq 1 2"))["truncated"], false);
    });
}

#[test]
fn error_fails_with_the_limit_and_runs_nothing_twice() {
    each(|server| {
        let cmd = "echo run >> runs; seq 1 9";
        let run = json!({"cmd": cmd, "on_large_output": "error", "page": {"limit_lines": 2}});
        let error = server.call("shell_exec", run).error_text();
        assert!(error.contains("65536 bytes and 2 lines"), "{error}");
        assert!(error.contains("bytes:0@1"), "{error}");
        let rest = exec(server, json!({"cmd": cmd, "page": {"cursor": "bytes:0@1"}}));
        assert_eq!(rest["total_bytes"], 18);
        assert_eq!(runs(server), 1);
        let small = exec(server, json!({"cmd": "seq 1 9", "on_large_output": "error"}));
        assert_eq!(small["exit_code"], 0);
    });
}

#[test]
fn error_ends_a_command_that_would_write_for_ever() {
    each(|server| {
        let marker = Marker::new();
        let cmd = format!("setsid sleep {marker} & yes");
        let run = json!({"cmd": cmd, "on_large_output": "error"});
        let error = server.call("shell_exec", run).error_text();
        assert!(error.contains("65536 bytes"), "{error}");
        marker.wait_gone();
    });
}

#[test]
fn spilled_output_goes_with_its_run() {
    for launch in super::speaking("shell_exec") {
        let mut server = launch.config("[retention]\nmax_finished = 1\n").start();
        let run = json!({"cmd": "seq 1 9", "on_large_output": "spill"});
        let uri = exec(&mut server, run.clone())["spill_uri"].clone();
        assert_eq!(whole_file(&mut server, &uri, 65_536), b"1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        exec(&mut server, json!({"cmd": "true"}));
        // The older one is freed by a message that follows the end of the newer.
        let mut read = || Some(server.call("read_file_chunk", json!({"uri": uri})));
        let gone = eventually_some("it is freed", || read().filter(Reply::is_error)).error_text();
        assert!(gone.contains("not the address of any kept output"), "{gone}");
        let mut again = run;
        again["page"] = json!({"cursor": "bytes:2@1"});
        let gone = server.call("shell_exec", again).error_text();
        assert!(gone.contains("no longer kept"), "{gone}");
        let left = fs::read_dir(server.work()).expect("a directory of ours").count();
        assert_eq!(left, 0, "nothing is left where commands run");
    }
}

#[test]
fn error_looks_at_what_was_written_and_not_at_what_a_filter_leaves() {
    each(|server| {
        for command in ["seq 1 100000; echo END", "seq 1 100000 >&2"] {
            let run = json!({"cmd": command, "grep": "^5$|END", "on_large_output": "error"});
            let error = server.call("shell_exec", run).error_text();
            assert!(error.contains("larger than"), "{command}: {error}");
        }
    });
}

#[test]
fn a_page_has_a_next_cursor_or_is_truncated_or_is_the_last_one() {
    each(|server| {
        let (out, err) = ("seq 1 9", "seq 1 9 >&2");
        let both = "seq 1 9; seq 1 9 >&2";
        for mode in [Value::Null, json!("spill"), json!("truncate")] {
            for (cmd, limit, is_partial) in [
                (out, json!({"limit_lines": 2}), true),
                (both, json!({"limit_lines": 2}), true),
                (both, json!({"limit_bytes": 4}), true),
                (err, json!({"limit_lines": 2}), false),
                (both, json!({"limit_lines": 9}), false),
                (both, json!({"limit_bytes": 18}), false),
                (out, json!({}), false),
            ] {
                let run = json!({"cmd": cmd, "page": limit, "on_large_output": mode});
                let res = exec(server, run.clone());
                let has_next = res.get("next_cursor").is_some();
                let is_truncated = res["truncated"] == true;
                let expected = (is_partial && mode != "truncate", is_partial && mode == "truncate");
                assert_eq!((has_next, is_truncated), expected, "{run}: {res}");
                let cut = res["stderr_chunk"].as_str().expect("text").lines().count() as u64;
                let has_rest = Some(cut) < res["stderr_count"].as_u64();
                assert_eq!(res.get("stderr_spill_uri").is_some(), has_rest, "{run}: {res}");
            }
        }
    });
}

/// A server that keeps only the beginning and the end of large output, unless a call says otherwise.
const KEEPS_ENDS: &str = "[mcp]\ndialects = [\"native\", \"shell_exec\"]\n\
    [output]\nlarge = \"256 KiB\"\non_large_output = \"truncate\"\n[redact]\nbuiltin = false\n";

#[test]
fn every_byte_is_kept_whatever_other_jobs_keep() {
    let mut server = Launch::stdio().config(KEEPS_ENDS).start();
    let res = exec(&mut server, json!({"cmd": "seq 1 300000"}));
    let expected: String = (1..=300_000).map(|line| format!("{line}\n")).collect();
    assert_eq!(res["total_bytes"], expected.len());
    assert!(whole_file(&mut server, &res["spill_uri"], 1 << 20) == expected.as_bytes());
}

#[test]
fn pages_go_on_behind_bytes_that_were_not_kept() {
    let mut server = Launch::stdio().config(KEEPS_ENDS).start();
    let cmd = "seq -f %06.0f 1 300000";
    server.call("run_command", json!({"command": cmd})).ok();
    let page =
        |cursor: &Value| json!({"cmd": cmd, "page": {"cursor": cursor, "limit_lines": 20_000}});
    let mut res = exec(&mut server, page(&json!("bytes:0@1")));
    let (mut last, mut dropped) = (0, 0);
    loop {
        let text = res["stdout_chunk"].as_str().expect("text");
        // A line at the border of what was not kept may be cut.
        let whole_lines = text.lines().filter(|line| line.len() == 6);
        for number in whole_lines.filter_map(|line| line.parse::<u64>().ok()) {
            assert!(number > last, "{number} after {last}");
            last = number;
        }
        dropped += res["dropped_bytes"].as_u64().unwrap_or_default();
        let Some(next) = res.get("next_cursor").cloned() else { break };
        assert_eq!(res["truncated"], false, "{next}");
        res = exec(&mut server, page(&next));
    }
    assert_eq!((last, &res["truncated"]), (300_000, &json!(true)));
    assert!(dropped > 0);
}
