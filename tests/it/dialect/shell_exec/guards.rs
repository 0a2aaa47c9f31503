//! The guarantees of the engine hold for these tools as well.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{bytes, exec, fields, runs, whole_file};
use crate::dialect::speaking;
use crate::harness::{Marker, eventually, eventually_some};

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

#[test]
fn rules_and_allowed_directories_hold() {
    for launch in speaking("shell_exec") {
        let room = tempfile::TempDir::new().expect("a temporary directory");
        let (inside, outside) = (room.path().join("inside"), room.path().join("outside"));
        for dir in [&inside, &outside] {
            fs::create_dir(dir).expect("a directory of ours");
        }
        symlink(&outside, inside.join("link")).expect("a link of ours");
        let config = format!(
            "[policy]\ndeny = [\"rm\"]\nallowed_directories = [{inside:?}]\n[job]\ncwd = {inside:?}\n"
        );
        let mut server = launch.config(&config).start();
        for cwd in [outside.clone(), inside.join("link"), inside.join("..")] {
            let error =
                server.call("shell_exec", json!({"cmd": "touch", "args": ["ran"], "cwd": cwd}));
            let error = error.error_text();
            assert!(error.contains("outside the allowed directories"), "{error}");
        }
        for denied in [
            json!({"cmd": "touch ran; rm ran"}),
            json!({"cmd": "rm", "args": ["-rf", "."]}),
            json!({"cmd": "touch ran && env rm x", "page": {"cursor": "bytes:0"}}),
        ] {
            let error = server.call("shell_exec", denied.clone()).error_text();
            assert!(error.contains("policy.deny[0]"), "{denied}: {error}");
        }
        assert!(!outside.join("ran").exists() && !inside.join("ran").exists());
        exec(&mut server, json!({"cmd": "touch", "args": ["ran"]}));
        assert!(inside.join("ran").exists());
    }
}

#[test]
fn secrets_are_masked_in_every_form() {
    for launch in speaking("shell_exec") {
        let mut server = launch.start();
        let reply = server.call("shell_exec", json!({"cmd": format!("echo {KEY}"), "grep": "AK"}));
        assert!(!reply.0.to_string().contains(KEY), "{}", reply.0);
        let run = json!({"cmd": format!("printf '\\377 {KEY}'"), "on_large_output": "spill", "zip": true});
        let res = exec(&mut server, run);
        assert_eq!(bytes(&res, "stdout_chunk", "encoding"), b"\xff [redacted]");
        let packed = whole_file(&mut server, &res["spill_uri"], 65_536);
        let mut unpacked = Vec::new();
        std::io::copy(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked).expect("gzip");
        assert_eq!(unpacked, b"\xff [redacted]");
    }
}

#[test]
fn every_run_is_in_the_audit_log_and_no_page_is() {
    for launch in speaking("shell_exec") {
        let mut server = launch.start();
        exec(&mut server, json!({"cmd": "seq", "args": ["1", "9"]}));
        exec(
            &mut server,
            json!({"cmd": "seq", "args": ["1", "9"], "page": {"cursor": "bytes:2@1"}}),
        );
        let log = server.sandbox().data().join("audit.jsonl");
        let entries = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.lines().filter(|line| line.contains("seq 1 9")).count()
        };
        eventually("the run is written down", || entries() == 1);
    }
}

#[test]
fn a_cancelled_call_takes_its_whole_tree_with_it() {
    let marker = Marker::new();
    let [stdio, _] = speaking("shell_exec");
    let mut server = stdio.start();
    let id = server.begin("shell_exec", json!({"cmd": format!("setsid sleep {marker}")}));
    marker.wait_alive();
    server.notify("notifications/cancelled", json!({"requestId": id}));
    marker.wait_gone();
}

#[test]
fn a_page_of_a_command_that_still_runs_waits_for_it_and_giving_up_does_not_end_it() {
    let [stdio, _] = speaking("shell_exec");
    let mut server = stdio.start();
    let cmd = "echo run >> runs; until test -e go; do sleep 0.05; done; echo done";
    let page = json!({"cmd": cmd, "page": {"cursor": "bytes:0@1"}});
    let first = server.begin("shell_exec", json!({"cmd": cmd}));
    eventually("the command runs", || runs(&server) == 1);
    let second = server.begin("shell_exec", page.clone());
    server.notify("notifications/cancelled", json!({"requestId": second}));
    let third = server.begin("shell_exec", page);
    fs::write(server.work().join("go"), "").expect("a file of ours");
    for call in [first, third] {
        assert_eq!(fields(server.finish(call))["stdout_chunk"], "done\n");
    }
    assert_eq!(runs(&server), 1);
}

#[test]
fn a_command_that_outlasts_a_call_is_waited_for_by_its_cursor() {
    for launch in speaking("shell_exec") {
        let mut server = launch.config("[mcp]\nwait_s = 0.2\nmax_wait_s = 0.2\n").start();
        let cmd = "echo run >> runs; echo early; echo noise >&2; \
            until test -e go; do sleep 0.05; done; echo done";
        let mut res = exec(&mut server, json!({"cmd": cmd}));
        assert_eq!(res["next_cursor"], "bytes:0@1");
        let again = json!({"cmd": cmd, "page": {"cursor": "bytes:0@1"}});
        eventually("the preview shows the first line", || {
            assert_eq!((&res["exit_code"], &res["stdout_chunk"]), (&Value::Null, &json!("")));
            assert_eq!((&res["truncated"], &res["bytes_end"]), (&json!(false), &json!(0)));
            assert!(res["hint"].as_str().is_some_and(|hint| hint.contains("page.cursor")), "{res}");
            let is_shown = res["tail_preview"] == "early\n";
            res = exec(&mut server, again.clone());
            is_shown
        });
        assert!(res["status"].as_str().is_some_and(|it| it.starts_with("job 1 running")), "{res}");
        fs::write(server.work().join("go"), "").expect("a file of ours");
        let end = eventually_some("the command ends", || {
            Some(exec(&mut server, again.clone())).filter(|res| res.get("next_cursor").is_none())
        });
        assert_eq!((&end["exit_code"], &end["stdout_chunk"]), (&json!(0), &json!("early\ndone\n")));
        assert_eq!((&end["stderr_chunk"], end.get("hint")), (&json!("noise\n"), None));
        assert_eq!(runs(&server), 1);
    }
}
