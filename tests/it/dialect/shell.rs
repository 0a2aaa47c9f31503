//! `shell`, as its document says.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{check_listed, speaking};
use crate::harness::{ERAS, Launch, Marker, Reply, TestServer, eventually, private_dir};

fn each(check: impl Fn(&mut TestServer)) {
    for launch in speaking("shell") {
        check(&mut launch.start());
    }
}

fn with_config(text: &str, check: impl Fn(&mut TestServer)) {
    for launch in speaking("shell") {
        check(&mut launch.config(text).start());
    }
}

/// The sentence, and the metadata of the second block. `_meta` has the same without the output, and
/// there is no structured content, which some clients would show alone.
#[track_caller]
fn parts(reply: &Reply) -> (String, Value) {
    let blocks = reply.0["result"]["content"].as_array().expect("content");
    let sentence = blocks[0]["text"].as_str().expect("a sentence").to_owned();
    let detail: Value = serde_json::from_str(blocks[1]["text"].as_str().expect("metadata"))
        .expect("the second block is JSON");
    assert_eq!(reply.0["result"].get("structuredContent"), None);
    assert_eq!(without_output(&detail), reply.0["result"]["_meta"]["metadata"]);
    (sentence, detail)
}

fn without_output(metadata: &Value) -> Value {
    let mut fields = metadata.as_object().expect("metadata").clone();
    for stream in ["stdout", "stderr", "partial_stdout", "partial_stderr"] {
        fields.remove(stream);
        fields.remove(&format!("{stream}_base64"));
    }
    Value::Object(fields)
}

/// The text of one stream of a command that worked.
#[track_caller]
fn stdout(reply: Reply) -> String {
    parts(&reply.ok()).1["stdout"].as_str().expect("a text").to_owned()
}

#[test]
fn it_is_listed_as_documented() {
    check_listed("shell");
}

#[test]
fn a_success_says_so_and_has_six_fields() {
    each(|server| {
        let reply = server.call("shell", json!({"command": "echo out; echo err >&2"})).ok();
        let (sentence, metadata) = parts(&reply);
        assert_eq!(sentence, "Command executed successfully");
        assert_eq!(metadata["command"], "echo out; echo err >&2");
        assert_eq!((&metadata["exit_code"], &metadata["stdout"]), (&json!(0), &json!("out\n")));
        assert_eq!(metadata["stderr"], "err\n");
        assert!(metadata["execution_time_ms"].is_u64(), "{metadata}");
        assert_eq!(metadata["working_directory"], server.work().display().to_string());
        assert_eq!(metadata.as_object().map(serde_json::Map::len), Some(6), "{metadata}");
    });
}

#[test]
fn a_failure_is_an_error_with_its_code() {
    each(|server| {
        let reply = server.call("shell", json!({"command": "ls /nonexistent; exit 1"}));
        assert!(reply.is_error());
        let (sentence, metadata) = parts(&reply);
        assert_eq!(sentence, "Command failed with exit code 1");
        assert_eq!((&metadata["exit_code"], &metadata["stdout"]), (&json!(1), &json!("")));
        assert!(metadata["stderr"].as_str().is_some_and(|said| said.contains("No such file")));
    });
}

#[test]
fn a_timeout_kills_the_tree_and_returns_what_came_until_then() {
    each(|server| {
        let marker = Marker::new();
        let command = format!("echo early; echo trouble >&2; setsid sleep {marker} & wait");
        let reply = server.call("shell", json!({"command": command, "timeout": 5}));
        assert!(reply.is_error());
        let (sentence, metadata) = parts(&reply);
        assert_eq!(sentence, "Command timed out after 5 seconds");
        assert_eq!(metadata["timeout_seconds"], 5);
        assert_eq!(metadata["partial_stdout"], "early\n");
        assert_eq!(metadata["partial_stderr"], "trouble\n");
        assert_eq!(metadata["command"], command);
        assert!(metadata["working_directory"].is_string());
        marker.wait_gone();
    });
}

#[test]
fn directory_environment_and_the_use_cases_of_the_document_work() {
    each(|server| {
        fs::create_dir(server.work().join("src")).expect("a directory");
        fs::write(server.work().join("src/a.rs"), "").expect("a file");
        let script = server.work().join("build.sh");
        fs::write(&script, "#!/bin/sh\necho $1 $RUST_LOG $BUILD_ENV\n").expect("a script");
        let run = json!({"command": "sh ./build.sh --release", "timeout": 900,
            "environment": {"RUST_LOG": "debug", "BUILD_ENV": "production"}});
        assert_eq!(stdout(server.call("shell", run)), "--release debug production\n");
        let run = json!({"command": "find . -name '*.rs' -type f | wc -l",
            "working_directory": server.work().join("src")});
        assert_eq!(stdout(server.call("shell", run)).trim(), "1");
        let run = json!({"command": "uname -a && df -h", "timeout": 30});
        assert!(!stdout(server.call("shell", run)).is_empty());
    });
}

#[test]
fn a_signal_is_told() {
    each(|server| {
        let reply = server.call("shell", json!({"command": "kill -9 $$"}));
        let (sentence, metadata) = parts(&reply);
        assert!(reply.is_error() && sentence.contains("signal 9 (SIGKILL)"), "{sentence}");
        assert_eq!((&metadata["signal"], &metadata["signal_name"]), (&json!(9), &json!("SIGKILL")));
    });
}

#[test]
fn a_command_that_is_not_found_brings_similar_ones() {
    each(|server| {
        let reply = server.call("shell", json!({"command": "greep x"}));
        let (sentence, metadata) = parts(&reply);
        assert!(sentence.starts_with("Command failed with exit code 127\n"), "{sentence}");
        assert!(sentence.contains("did you mean grep"), "{sentence}");
        assert!(metadata["suggestion"].as_str().is_some_and(|said| said.contains("grep")));
    });
}

#[test]
fn a_permission_error_comes_with_context() {
    each(|server| {
        fs::write(server.work().join("plain"), "echo hi\n").expect("a file");
        let reply = server.call("shell", json!({"command": "./plain"}));
        let (sentence, _) = parts(&reply);
        assert!(sentence.contains("exit code 126") && sentence.contains("chmod +x"), "{sentence}");
    });
}

#[test]
fn binary_output_is_described_and_complete() {
    each(|server| {
        let command = "head -c 3000 /dev/zero";
        let (_, metadata) = parts(&server.call("shell", json!({"command": command})).ok());
        assert!(metadata["stdout"].as_str().is_some_and(|said| said.starts_with("[binary output")));
        assert_eq!(metadata["stdout_base64"].as_str().map(str::len), Some(4000));
    });
}

#[test]
fn the_configuration_of_the_document_holds() {
    let config = "[shell_tool]\ndefault_timeout = 2\nmax_timeout = 60\nmax_output_size = \"1KB\"\n\
                  allowed_directories = [\"/tmp\", \"/usr\"]\nblocked_commands = [\"rm -rf\", \"format\", \"dd\"]\n\
                  log_commands = true\n";
    with_config(config, |server| {
        let run = |server: &mut TestServer, command: &str| {
            server.call("shell", json!({"command": command, "working_directory": "/usr"}))
        };
        let (sentence, metadata) = parts(&run(server, "sleep 600"));
        assert_eq!(
            (sentence.as_str(), &metadata["timeout_seconds"]),
            ("Command timed out after 2 seconds", &json!(2))
        );
        let late = server.call("shell", json!({"command": "true", "timeout": 61})).error_text();
        assert!(late.contains("from 1 to 60"), "{late}");
        let many = json!({"command": "seq 1 10000", "working_directory": "/usr", "timeout": 60});
        let (_, metadata) = parts(&server.call("shell", many).ok());
        assert_eq!(metadata["stdout"].as_str().map(str::len), Some(1000));
        assert_eq!(metadata["stdout_truncated"], true);
        for blocked in ["rm -rf x", "dd if=/dev/zero of=x", "true && rm -rf x", "sh -c 'dd of=x'"] {
            let said = run(server, blocked).error_text();
            assert!(
                said.contains("nothing was run") && said.contains("shell_tool.blocked_commands"),
                "{said}"
            );
        }
        server.expect_log("seq 1 10000");
    });
}

const PRINTED: &str = r#"
[shell_tool]
default_timeout = 300  # seconds
max_timeout = 1800     # seconds
max_output_size = "10MB"
allowed_directories = ["/project", "/tmp"]
blocked_commands = ["rm -rf", "format", "dd"]
log_commands = true
"#;

#[test]
fn the_configuration_block_of_the_document_can_be_pasted() {
    with_config(PRINTED, |server| {
        let run = |server: &mut TestServer, directory: &str| {
            server.call("shell", json!({"command": "pwd", "working_directory": directory}))
        };
        assert_eq!(parts(&run(server, "/tmp").ok()).1["stdout"], "/tmp\n");
        assert!(run(server, "/").error_text().starts_with("Permission denied"));
        let missing = run(server, "/project").error_text();
        assert!(missing.contains("working_directory"), "{missing}");
    });
}

#[test]
fn a_deadline_of_the_server_bounds_the_tool() {
    with_config("[job]\ntimeout_s = 60\nmax_timeout_s = 60\n", |server| {
        server.call("shell", json!({"command": "true"})).ok();
        let late = server.call("shell", json!({"command": "true", "timeout": 61})).error_text();
        assert!(late.contains("from 1 to 60"), "{late}");
    });
}

#[test]
fn text_that_is_not_utf8_is_readable_and_says_so() {
    each(|server| {
        let command = r"printf 'caf\351 \340 la cr\350me br\373l\351e\n'; printf 'ok\377\n' >&2";
        let (_, metadata) = parts(&server.call("shell", json!({"command": command})).ok());
        assert_eq!(metadata["stdout"], "café à la crème brûlée\n");
        assert_eq!(metadata["stdout_charset"], "windows-1252");
        assert_eq!(
            (&metadata["stderr"], &metadata["stderr_invalid_bytes"]),
            (&json!("ok�\n"), &json!(1))
        );
        assert!(metadata["job"].is_u64(), "the job keeps the bytes: {metadata}");
    });
}

#[test]
fn the_output_is_in_the_reply_once_whatever_its_bytes_are() {
    let mut server = Launch::stdio().args(&["--dialect", "shell"]).start();
    for (byte, most) in [("x", 1_100_000), (r"\351", 2_200_000), (r"\001", 1_500_000)] {
        let command = format!("head -c 1000000 /dev/zero | tr '\\0' '{byte}'");
        let reply = server.call("shell", json!({"command": command})).ok();
        let length = reply.0.to_string().len();
        assert!((1_000_000..most).contains(&length), "{byte}: {length} bytes");
    }
}

#[test]
fn the_result_format_says_where_the_output_is() {
    for (format, texts, structured) in [("text", 1, 0), ("structured", 0, 1), ("both", 1, 1)] {
        for launch in speaking("shell") {
            let mut server = launch.args(&["--result-format", format]).start();
            let reply = server.call("shell", json!({"command": "echo on''ce"})).ok();
            let result = &reply.0["result"];
            let count = |part: &Value| part.to_string().matches("once").count();
            assert_eq!(result["content"][0]["text"], "Command executed successfully");
            assert_eq!(count(&result["content"]), texts, "{format}: {result}");
            assert_eq!(count(&result["structuredContent"]), structured, "{format}: {result}");
            assert_eq!(count(&result["_meta"]), 0, "{format}: {result}");
            assert_eq!(result["_meta"]["metadata"]["exit_code"], 0, "{format}: {result}");
        }
    }
}

#[test]
fn the_output_limit_counts_bytes_of_output() {
    with_config("[shell_tool]\nmax_output_size = \"1KB\"\n", |server| {
        let command = r"for i in $(seq 90); do printf 'caf\351 cr\350me'; done";
        let (_, metadata) = parts(&server.call("shell", json!({"command": command})).ok());
        assert_eq!(metadata["stdout"], "café crème".repeat(90));
        assert_eq!(metadata.get("stdout_truncated"), None, "{metadata}");
        let command = "head -c 3000 /dev/zero";
        let (_, metadata) = parts(&server.call("shell", json!({"command": command})).ok());
        let about = metadata["stdout"].as_str().unwrap_or_default();
        assert!(about.contains(" 3000 bytes; the first 1000 are in stdout_base64"), "{about}");
        assert_eq!(metadata["stdout_bytes"], 3000);
    });
}

#[test]
fn a_call_may_ask_for_less_output_within_the_limit() {
    with_config("[shell_tool]\nmax_output_size = \"1KB\"\n", |server| {
        let command = "seq 1 10000; echo trouble >&2";
        let run = |size: Value| json!({"command": command, "max_output_size": size});
        let (_, metadata) = parts(&server.call("shell", run(json!(10))).ok());
        assert_eq!(metadata["stdout"], "1\n2\n3\n4\n5\n");
        assert_eq!(
            (&metadata["stdout_truncated"], &metadata["stdout_bytes"]),
            (&json!(true), &json!(48894))
        );
        assert_eq!(metadata["stderr"], "trouble\n");
        assert!(metadata["job"].is_u64(), "{metadata}");
        for bad in [json!(0), json!(1001), json!("10")] {
            let said = server.call("shell", run(bad)).error_text();
            assert!(said.contains("`max_output_size`"), "{said}");
        }
    });
}

#[test]
fn every_new_line_is_sent_as_progress_while_the_command_runs() {
    let command = "for i in 1 2 3; do echo line-$i; echo err-$i >&2; \
                   while [ ! -e go$i ]; do sleep 0.05; done; done; echo last";
    for era in ERAS {
        let mut server = Launch::stdio()
            .era(era)
            .args(&["--dialect", "shell"])
            .config("[mcp]\nprogress_s = 3600\n")
            .start();
        let id = server.begin_with(json!({
            "name": "shell",
            "arguments": {"command": command},
            "_meta": {"progressToken": "lines"},
        }));
        let mut lines = Vec::new();
        let mut last = 0.0;
        let mut receive = |server: &mut TestServer, wanted: &[String]| {
            while !wanted.iter().all(|line| lines.contains(line)) {
                let told = server
                    .stdio()
                    .receive("progress", |message| message["method"] == "notifications/progress");
                let now = told["params"]["progress"].as_f64().expect("a number");
                assert!(now > last, "{now} after {last}");
                last = now;
                let text = told["params"]["message"].as_str().expect("lines");
                lines.extend(text.lines().map(str::to_owned));
            }
        };
        for turn in 1..=3 {
            receive(&mut server, &[format!("line-{turn}"), format!("err-{turn}")]);
            fs::write(server.work().join(format!("go{turn}")), "").expect("the next turn");
        }
        receive(&mut server, &["last".to_owned()]);
        let (_, metadata) = parts(&server.finish(id).ok());
        assert_eq!(metadata["stdout"], "line-1\nline-2\nline-3\nlast\n");
        lines.sort();
        let expected = ["err-1", "err-2", "err-3", "last", "line-1", "line-2", "line-3"];
        assert_eq!(lines, expected, "each line once");
    }
}

#[test]
fn a_refusal_names_the_setting_and_suggests_an_alternative() {
    let config = "[shell_tool]\nallowed_directories = [\"/usr\", \"/tmp\"]\n\
                  blocked_commands = [\"rm -rf\"]\n";
    with_config(config, |server| {
        for (run, setting, alternative) in [
            (
                json!({"command": "pwd", "working_directory": "/etc"}),
                "(shell_tool.allowed_directories)",
                "Give one of /usr, /tmp, or a directory below, as working_directory",
            ),
            (
                json!({"command": "rm -rf x", "working_directory": "/tmp"}),
                "shell_tool.blocked_commands[0]",
                "ask for a change of shell_tool.blocked_commands",
            ),
            (
                json!({"command": "rm $FLAGS x", "working_directory": "/tmp"}),
                "shell_tool.blocked_commands[0]",
                "Write the value out",
            ),
        ] {
            let reply = server.call("shell", run.clone());
            let (text, metadata) = parts(&reply);
            assert!(reply.is_error() && text.starts_with("Permission denied, nothing was run"));
            assert!(text.contains(setting), "{run}: {text}");
            let suggestion = metadata["suggestion"].as_str().unwrap_or_default();
            assert!(suggestion.contains(alternative), "{run}: {metadata}");
            assert!(text.ends_with(suggestion), "{text}");
        }
        let log = server.sandbox().data().join("audit.jsonl");
        eventually("the refusals are in the audit log", || {
            let audit = fs::read_to_string(&log).unwrap_or_default();
            audit.contains("shell_tool.allowed_directories") && audit.contains("rm -rf x")
        });
    });
}

#[test]
fn confined_commands_write_only_to_the_allowed_directories() {
    for is_confined in [true, false] {
        let sandbox = private_dir();
        let inside = sandbox.path().join("inside");
        let outside = sandbox.path().join("outside");
        fs::create_dir(&inside).expect("a directory");
        fs::create_dir(&outside).expect("a directory");
        fs::write(outside.join("secret"), "hidden-word").expect("a file");
        let config = format!(
            "[shell_tool]\nallowed_directories = [{inside:?}]\nconfine_directories = {is_confined}\n"
        );
        let mut server = Launch::stdio().args(&["--dialect", "shell"]).config(&config).start();
        let command =
            format!("echo in > file; cat {0}/secret; echo out > {0}/file", outside.display());
        let reply = server.call("shell", json!({"command": command, "working_directory": inside}));
        assert_eq!(fs::read_to_string(inside.join("file")).expect("the file"), "in\n");
        assert_eq!(outside.join("file").exists(), !is_confined, "{}", reply.text());
        assert_eq!(reply.text().contains("hidden-word"), !is_confined, "{}", reply.text());
        assert_eq!(reply.is_error(), is_confined, "{}", reply.text());
    }
}

#[test]
fn a_limit_on_resources_ends_the_command_and_is_named() {
    let config = "[limits]\nmemory = \"150 MB\"\ncpu_s = 1\nfile_size = \"1 MB\"\n";
    let hog = "exec python3 -c 'hog = [bytearray(1000000) for _ in range(600)]; input()'";
    with_config(config, |server| {
        for (command, said) in [
            (hog, "out of memory: limit 150000000 bytes"),
            ("while :; do :; done", "CPU limit of 1s reached"),
            ("exec head -c 3000000 /dev/zero >big", "file size limit of 1000000 bytes reached"),
        ] {
            let reply = server.call("shell", json!({"command": command}));
            let (sentence, metadata) = parts(&reply);
            assert!(reply.is_error() && sentence.contains(said), "{command}: {sentence}");
            assert_eq!(metadata["exit_code"], Value::Null);
        }
    });
}

#[test]
fn a_result_serves_the_next_command_and_its_exit_code_decides() {
    each(|server| {
        let word = stdout(server.call("shell", json!({"command": "printf one-word"})));
        let next = json!({"command": "test \"$WORD\" = one-word && echo same || echo other",
            "environment": {"WORD": word}});
        assert_eq!(stdout(server.call("shell", next)), "same\n");
        let failed = server.call("shell", json!({"command": "exit 42"}));
        assert_eq!(parts(&failed).1["exit_code"], 42);
        // The server goes on after a failure.
        assert_eq!(stdout(server.call("shell", json!({"command": "echo on"}))), "on\n");
    });
}

#[test]
fn commands_run_side_by_side() {
    let mut server = Launch::stdio().args(&["--dialect", "shell", "--slots", "2"]).start();
    let first = server
        .begin("shell", json!({"command": "while [ ! -e gate ]; do sleep 0.05; done; echo 1"}));
    server.call("shell", json!({"command": "touch gate"})).ok();
    assert_eq!(stdout(server.finish(first)), "1\n");
}

#[test]
fn a_command_has_its_own_process_and_the_rights_of_the_server() {
    each(|server| {
        let ids = stdout(server.call("shell", json!({"command": "echo $$ $PPID; id -u"})));
        let [own, _, user] = ids.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("three numbers in {ids}")
        };
        assert_ne!(own, server.pid().to_string());
        assert_eq!(user, rustix::process::geteuid().as_raw().to_string());
    });
}

#[test]
fn a_directory_outside_the_allowed_ones_is_refused_also_through_a_link() {
    with_config("[shell_tool]\nallowed_directories = [\"/usr\"]\n", |server| {
        let marker = server.work().join("ran");
        let link = server.sandbox().path().join("link");
        symlink(server.work(), &link).expect("a link");
        for directory in [server.work(), link, "/usr/../etc".into(), "/".into()] {
            let run = json!({"command": format!("touch {}", marker.display()), "working_directory": directory});
            let said = server.call("shell", run).error_text();
            assert!(said.starts_with("Permission denied, nothing was run"), "{said}");
        }
        assert!(!marker.exists());
    });
}

#[test]
fn commands_stay_out_of_the_log_but_not_out_of_the_audit() {
    with_config("[shell_tool]\nlog_commands = false\n", |server| {
        server.call("shell", json!({"command": "echo confidential-word"})).ok();
        server.expect_log("job finished");
        assert!(!server.log_text().contains("confidential-word"), "{}", server.log_text());
        let log = server.sandbox().data().join("audit.jsonl");
        eventually("the audit log has it", || {
            fs::read_to_string(&log).expect("an audit log").contains("confidential-word")
        });
    });
}

#[test]
fn a_failure_writes_the_abort_file_of_the_workflow() {
    let mut server = Launch::stdio()
        .args(&["--dialect", "shell"])
        .config("[shell_tool]\nabort_file = \"abort.txt\"\n")
        .start();
    let abort = server.work().join("abort.txt");
    server.call("shell", json!({"command": "true"})).ok();
    assert!(!abort.exists());
    server.call("shell", json!({"command": "ls", "timeout": 0}));
    assert!(!abort.exists(), "no command failed");
    server.call("shell", json!({"command": "echo why >&2; exit 3"}));
    let told = fs::read_to_string(&abort).expect("the abort file");
    assert!(told.starts_with("Command failed with exit code 3") && told.contains("why"), "{told}");
}

#[test]
fn bad_arguments_run_nothing() {
    each(|server| {
        let marker = server.work().join("ran");
        let touch = format!("touch {}", marker.display());
        for (bad, said) in [
            (json!({}), "`command`"),
            (json!({"command": ""}), "empty"),
            (json!({"command": ["ls"]}), "`command`"),
            (json!({"command": touch, "timeout": 0}), "from 1 to 1800"),
            (json!({"command": touch, "timeout": 1801}), "from 1 to 1800"),
            (json!({"command": touch, "timeout": "long"}), "`timeout`"),
            (json!({"command": touch, "timeout": "30"}), "`timeout`"),
            (json!({"command": touch, "environment": {"A": 1}}), "`environment.A`"),
            (json!({"command": touch, "environment": {"A": null}}), "`environment.A`"),
            (json!({"command": touch, "environment": "A=1"}), "`environment`"),
            (
                json!({"command": touch, "working_directory": "/no/such/directory"}),
                "/no/such/directory",
            ),
            (json!({"command": touch, "cwd": "/"}), "`cwd`"),
        ] {
            let error = server.call("shell", bad.clone()).error_text();
            assert!(error.contains(said), "{bad}: {error}");
        }
        assert!(!marker.exists());
    });
}

#[test]
fn every_command_is_logged_and_audited_with_its_time_and_end() {
    for launch in speaking("shell") {
        let mut server = launch.args(&["--log-format", "json"]).start();
        server.call("shell", json!({"command": "echo logged-word; exit 3"}));
        server.call("shell", json!({"command": "no-such-command-at-all"}));
        server.expect_log("job finished");
        let names_command = |line: &Value| {
            line["command"] == "\"echo logged-word; exit 3\"" && line["timestamp"].is_string()
        };
        let is_end = |line: &Value| line["outcome"] == "exited" && line["elapsed_ms"].is_u64();
        let log = server.log_text();
        let lines: Vec<Value> =
            log.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
        assert!(lines.iter().any(names_command) && lines.iter().any(is_end), "{log}");
        let audit = server.sandbox().data().join("audit.jsonl");
        eventually("both commands and their ends are in the audit log", || {
            let text = fs::read_to_string(&audit).expect("an audit log");
            let lines: Vec<Value> =
                text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
            let has = |field: &str, value: Value| {
                lines.iter().any(|line| line[field] == value && line["time"].is_string())
            };
            has("command", json!("echo logged-word; exit 3"))
                && has("command", json!("no-such-command-at-all"))
                && has("exit_code", json!(3))
                && has("exit_code", json!(127))
        });
    }
}

#[test]
fn lists_of_commands_may_be_regular_expressions() {
    for (list, runs, refused) in [
        ("deny = [\"re:^git push .*--force\"]", "true", "git push origin --force"),
        ("allow = [\"echo\", \"re:^ls( |$)\"]", "echo a; ls", "echo a; cat /etc/hostname"),
    ] {
        with_config(&format!("[policy]\n{list}\n"), |server| {
            server.call("shell", json!({"command": runs})).ok();
            let said = server.call("shell", json!({"command": refused})).error_text();
            assert!(said.starts_with("Permission denied, nothing was run"), "{said}");
        });
    }
}

#[test]
fn secrets_of_the_server_do_not_reach_commands() {
    for launch in speaking("shell") {
        let mut server = launch.env("DEPLOY_TOKEN", "hidden-word").start();
        let run = json!({"command": "echo token=$DEPLOY_TOKEN own=$OWN home=${HOME:+set}",
            "environment": {"OWN": "given"}});
        assert_eq!(stdout(server.call("shell", run)), "token= own=given home=set\n");
    }
}

#[test]
fn what_a_command_uses_is_measured() {
    let mut server = Launch::http().args(&["--dialect", "shell"]).start();
    let hungry = "awk 'BEGIN { s = \"x\"; while (length(s) < 100000000) s = s s }'";
    server.call("shell", json!({"command": hungry})).ok();
    for series in ["shellyard_job_cpu_seconds_count", "shellyard_job_peak_memory_bytes_count"] {
        assert!(server.metric(series) >= 1.0, "{series}: {}", server.metrics());
    }
}
