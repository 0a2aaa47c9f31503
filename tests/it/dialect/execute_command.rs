//! `execute_command`, as its document says.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{check_listed, listed, speaking};
use crate::harness::{Launch, Marker, Reply, TestServer, eventually};

fn each(config: &str, check: impl Fn(&mut TestServer)) {
    for launch in speaking("execute_command") {
        check(&mut launch.config(config).start());
    }
}

/// The fields of a reply, after checking its form: one text block of pretty JSON, no error.
#[track_caller]
pub(super) fn fields(reply: Reply) -> Value {
    let reply = reply.ok();
    let result = &reply.0["result"];
    assert!(result.get("structuredContent").is_none(), "{result}");
    let content = result["content"].as_array().expect("content");
    assert!(content.len() == 1 && content[0]["type"] == "text", "{result}");
    let text = reply.text();
    let fields: Value = serde_json::from_str(&text).expect("the text is JSON");
    assert_eq!(text, format!("{fields:#}"), "it is pretty");
    fields
}

#[track_caller]
pub(super) fn execute(server: &mut TestServer, command: &str) -> (String, i64) {
    let fields = fields(server.call("execute_command", json!({"command": command})));
    let names: Vec<_> = fields.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["command", "output", "return_code"]);
    assert_eq!(fields["command"], command);
    let output = fields["output"].as_str().expect("a text").to_owned();
    (output, fields["return_code"].as_i64().expect("a number"))
}

#[track_caller]
fn check(server: &mut TestServer, command: &str, output: &str, return_code: i64) {
    assert_eq!(execute(server, command), (output.to_owned(), return_code), "{command}");
}

const DENIED: &str = "Command denied by security policy";

#[test]
fn it_is_listed_as_documented() {
    check_listed("execute_command");
    each("", |server| {
        let tools = listed(server);
        let documented = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "Shell command to execute"}
            },
            "required": ["command"]
        });
        assert_eq!(tools[0]["name"], "execute_command");
        assert_eq!(tools[0]["description"], "Execute a shell command and return its output");
        assert_eq!(tools[0]["inputSchema"], documented);
    });
}

#[test]
fn the_reply_reads_word_for_word_as_in_the_document() {
    each("", |server| {
        let reply = server.call("execute_command", json!({"command": "echo hello"})).ok();
        let expected = "{\n  \"command\": \"echo hello\",\n  \"output\": \"hello\\n\",\n  \"return_code\": 0\n}";
        assert_eq!(reply.text(), expected);
        let (output, code) = execute(server, "ls -la");
        assert!(output.starts_with("total ") && code == 0, "{output}");
    });
}

#[test]
fn output_is_stdout_and_then_stderr() {
    each("", |server| {
        check(server, "echo err >&2; echo out; exit 3", "out\nerr\n", 3);
        check(server, "printf '\\377a'", "\u{fffd}a", 0);
        check(server, "kill -9 $$", "", -1);
        check(server, "cat", "", 0);
        check(server, "echo $0 ${BASH_VERSION:-none}", "sh none\n", 0);
    });
    each("[execute_command]\nstderr = false\n", |server| {
        check(server, "echo err >&2; echo out", "out\n", 0);
    });
}

#[test]
fn a_long_output_is_cut_with_a_mark_and_kept_by_its_job() {
    for launch in speaking("execute_command,native") {
        let mut server = launch.config("[execute_command]\nmax_output = 10\n").start();
        let (output, code) = execute(&mut server, "seq -s '' 1 20; echo short >&2");
        let mark = "[stdout cut after its first 10 bytes; job 1 keeps all of it]";
        assert_eq!((output, code), (format!("1234567891\n{mark}\nshort\n"), 0));
        let kept = server.call("read_output", json!({"job": 1})).ok().text();
        assert!(kept.contains("181920"), "{kept}");
    }
}

#[test]
fn a_timeout_ends_the_whole_tree_and_keeps_what_was_written() {
    each("[execute_command]\ntimeout = 5\n", |server| {
        let (deserter, leader) = (Marker::new(), Marker::new());
        let command = format!("echo before; setsid sleep {deserter} & sleep {leader}");
        let (output, code) = execute(server, &command);
        let line = "Command timed out after 5s; everything it had started was killed";
        assert_eq!((output, code), (format!("before\n{line}\n"), -1));
        assert!(deserter.alive().is_empty() && leader.alive().is_empty());
    });
}

#[test]
fn deny_wins_and_nothing_of_a_denied_line_runs() {
    let config = "[policy]\nallow = [\"touch*\", \"echo*\", \"rm\"]\ndeny = [\"rm*\", \"chmod\"]\n";
    each(config, |server| {
        let kept = server.work().join("kept");
        fs::write(&kept, "").expect("a file of ours");
        for denied in [
            "rm kept",
            "  rm kept",
            "rmdir kept",
            "chmod 000 kept",
            "cat kept",
            "touch ran; rm kept",
            "touch ran && echo $(rm kept)",
            "echo a | xargs rm kept",
            "sh -c 'rm kept'",
        ] {
            check(server, denied, DENIED, -1);
        }
        assert!(kept.exists() && !server.work().join("ran").exists());
        check(server, "echo fine", "fine\n", 0);
    });
}

#[test]
fn decisions_are_in_the_audit_log() {
    each("[policy]\ndeny = [\"rm*\"]\n", |server| {
        check(server, "echo seen", "seen\n", 0);
        check(server, "rm x", DENIED, -1);
        let log = server.sandbox().data().join("audit.jsonl");
        let lines = || fs::read_to_string(&log).unwrap_or_default();
        let has = |event: &str, verdict: &str, command: &str| {
            lines().lines().any(|line| {
                let line: Value = serde_json::from_str(line).expect("JSON");
                (&line["event"], &line["verdict"], &line["command"])
                    == (&json!(event), &json!(verdict), &json!(command))
            })
        };
        eventually("the run is there", || has("decision", "allowed", "echo seen"));
        eventually("the refusal is there", || has("decision", "refused", "rm x"));
        eventually("the ending is there", || lines().contains(r#""event":"ending""#));
    });
}

#[test]
fn secrets_are_masked_and_the_text_stays_json() {
    each("[execute_command]\nverbose = true\n", |server| {
        let reply = server.call("execute_command", json!({"command": "echo AKIAIOSFODNN7EXAMPLE"}));
        let fields = fields(reply);
        assert_eq!(fields["output"], "[redacted]\n");
        assert_eq!(fields["command"], "echo [redacted]");
        server.expect_log("[mcpz] Exit code: 0");
        assert!(!server.log_text().contains("AKIAIOSFODNN7EXAMPLE"), "{}", server.log_text());
    });
}

#[test]
fn a_cancelled_call_ends_its_tree() {
    let mut server = Launch::stdio().args(&["--dialect", "execute_command"]).start();
    let marker = Marker::new();
    let command = format!("setsid sleep {marker} & sleep {marker}");
    let id = server.begin("execute_command", json!({"command": command}));
    marker.wait_alive();
    server.notify("notifications/cancelled", json!({"requestId": id}));
    marker.wait_gone();
}

#[test]
fn what_cannot_be_executed_says_why() {
    each("[execute_command]\nshell = \"/no/such/shell\"\nverbose = true\n", |server| {
        let (output, code) = execute(server, "echo hi");
        assert!(output.starts_with("Failed to execute: ") && code == -1, "{output}");
        assert!(output.contains("/no/such/shell"), "{output}");
        server.expect_log("[mcpz] Error: ");
    });
    each("[job]\ncwd = \"/no/such/directory\"\n", |server| {
        let (output, code) = execute(server, "echo hi");
        assert!(output.starts_with("Failed to execute: cannot run in") && code == -1, "{output}");
    });
    each("", |server| {
        let (output, code) = execute(server, "");
        assert!(output.starts_with("Failed to execute: the command is empty"), "{output}");
        assert_eq!(code, -1);
        let (output, code) = execute(server, "nosuchcommand");
        assert!(output.contains("not found") && code == 127, "{output}");
    });
}

#[test]
fn a_directory_outside_the_allowed_ones_runs_nothing_also_through_a_link() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
    for directory in [&inside, &outside] {
        fs::create_dir(directory).expect("a directory of ours");
    }
    let link = inside.join("link");
    symlink(&outside, &link).expect("a link of ours");
    for (cwd, is_allowed) in [(&inside, true), (&outside, false), (&link, false)] {
        let config =
            format!("[policy]\nallowed_directories = [{inside:?}]\n[job]\ncwd = {cwd:?}\n");
        each(&config, |server| {
            let expected = if is_allowed { ("", 0) } else { (DENIED, -1) };
            check(server, "touch ran", expected.0, expected.1);
        });
    }
    assert!(inside.join("ran").exists() && !outside.join("ran").exists());
}

#[test]
fn bad_arguments_run_nothing() {
    each("", |server| {
        let touch = "touch ran";
        for (bad, said) in [
            (json!({}), "Missing command argument"),
            (json!({"command": 7}), "Missing command argument: "),
            (json!({"command": [touch]}), "Missing command argument: "),
            (json!({"command": touch, "timeout": 1}), "unknown argument `timeout`"),
            (json!({"command": touch, "cwd": "/"}), "unknown argument `cwd`"),
        ] {
            let error = server.call("execute_command", bad.clone()).error_text();
            assert!(error.starts_with(said), "{bad}: {error}");
        }
        assert!(!server.work().join("ran").exists());
    });
}
