//! `shell`, as its document says.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{check_listed, speaking};
use crate::harness::{Launch, Marker, Reply, TestServer, eventually};

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

/// The sentence, and the metadata after checking that it is the same in every place.
#[track_caller]
fn parts(reply: &Reply) -> (String, Value) {
    let blocks = reply.0["result"]["content"].as_array().expect("content");
    let sentence = blocks[0]["text"].as_str().expect("a sentence").to_owned();
    let detail: Value = serde_json::from_str(blocks[1]["text"].as_str().expect("metadata"))
        .expect("the second block is JSON");
    assert_eq!(&detail, reply.structured());
    assert_eq!(detail, reply.0["result"]["_meta"]["metadata"]);
    (sentence, detail)
}

#[test]
fn it_is_listed_as_documented() {
    check_listed("shell");
}

#[test]
fn a_success_says_so_and_has_six_fields() {
    each(|yard| {
        let reply = yard.call("shell", json!({"command": "echo out; echo err >&2"})).ok();
        let (sentence, metadata) = parts(&reply);
        assert_eq!(sentence, "Command executed successfully");
        assert_eq!(metadata["command"], "echo out; echo err >&2");
        assert_eq!((&metadata["exit_code"], &metadata["stdout"]), (&json!(0), &json!("out\n")));
        assert_eq!(metadata["stderr"], "err\n");
        assert!(metadata["execution_time_ms"].is_u64(), "{metadata}");
        assert_eq!(metadata["working_directory"], yard.work().display().to_string());
        assert_eq!(metadata.as_object().map(serde_json::Map::len), Some(6), "{metadata}");
    });
}

#[test]
fn a_failure_is_an_error_with_its_code() {
    each(|yard| {
        let reply = yard.call("shell", json!({"command": "ls /nonexistent; exit 1"}));
        assert!(reply.is_error());
        let (sentence, metadata) = parts(&reply);
        assert_eq!(sentence, "Command failed with exit code 1");
        assert_eq!((&metadata["exit_code"], &metadata["stdout"]), (&json!(1), &json!("")));
        assert!(metadata["stderr"].as_str().is_some_and(|said| said.contains("No such file")));
    });
}

#[test]
fn a_timeout_kills_the_tree_and_returns_what_came_until_then() {
    each(|yard| {
        let marker = Marker::new();
        let command = format!("echo early; echo trouble >&2; setsid sleep {marker} & wait");
        let reply = yard.call("shell", json!({"command": command, "timeout": 5}));
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
    each(|yard| {
        fs::create_dir(yard.work().join("src")).expect("a directory");
        fs::write(yard.work().join("src/a.rs"), "").expect("a file");
        let script = yard.work().join("build.sh");
        fs::write(&script, "#!/bin/sh\necho $1 $RUST_LOG $BUILD_ENV\n").expect("a script");
        let run = json!({"command": "sh ./build.sh --release", "timeout": 900,
            "environment": {"RUST_LOG": "debug", "BUILD_ENV": "production"}});
        let stdout =
            |reply: &Reply| parts(reply).1["stdout"].as_str().unwrap_or_default().to_owned();
        assert_eq!(stdout(&yard.call("shell", run).ok()), "--release debug production\n");
        let run = json!({"command": "find . -name '*.rs' -type f | wc -l",
            "working_directory": yard.work().join("src")});
        assert_eq!(stdout(&yard.call("shell", run).ok()).trim(), "1");
        let run = json!({"command": "uname -a && df -h", "timeout": 30});
        assert!(!stdout(&yard.call("shell", run).ok()).is_empty());
    });
}

#[test]
fn a_signal_is_told() {
    each(|yard| {
        let reply = yard.call("shell", json!({"command": "kill -9 $$"}));
        let (sentence, metadata) = parts(&reply);
        assert!(reply.is_error() && sentence.contains("signal 9 (SIGKILL)"), "{sentence}");
        assert_eq!((&metadata["signal"], &metadata["signal_name"]), (&json!(9), &json!("SIGKILL")));
    });
}

#[test]
fn a_command_that_is_not_found_brings_similar_ones() {
    each(|yard| {
        let reply = yard.call("shell", json!({"command": "greep x"}));
        let (sentence, metadata) = parts(&reply);
        assert!(sentence.starts_with("Command failed with exit code 127\n"), "{sentence}");
        assert!(sentence.contains("did you mean grep"), "{sentence}");
        assert!(metadata["suggestion"].as_str().is_some_and(|said| said.contains("grep")));
    });
}

#[test]
fn a_permission_error_comes_with_context() {
    each(|yard| {
        fs::write(yard.work().join("plain"), "echo hi\n").expect("a file");
        let reply = yard.call("shell", json!({"command": "./plain"}));
        let (sentence, _) = parts(&reply);
        assert!(sentence.contains("exit code 126") && sentence.contains("chmod +x"), "{sentence}");
    });
}

#[test]
fn binary_output_is_described_and_complete() {
    each(|yard| {
        let command = "head -c 3000 /dev/zero";
        let (_, metadata) = parts(&yard.call("shell", json!({"command": command})).ok());
        assert!(metadata["stdout"].as_str().is_some_and(|said| said.starts_with("[binary output")));
        assert_eq!(metadata["stdout_base64"].as_str().map(str::len), Some(4000));
    });
}

#[test]
fn the_configuration_of_the_document_holds() {
    let config = "[shell_tool]\ndefault_timeout = 2\nmax_timeout = 60\nmax_output_size = \"1KB\"\n\
                  allowed_directories = [\"/tmp\", \"/usr\"]\nblocked_commands = [\"rm -rf\", \"format\", \"dd\"]\n\
                  log_commands = true\n";
    with_config(config, |yard| {
        let run = |yard: &mut TestServer, command: &str| {
            yard.call("shell", json!({"command": command, "working_directory": "/usr"}))
        };
        let (sentence, metadata) = parts(&run(yard, "sleep 600"));
        assert_eq!(
            (sentence.as_str(), &metadata["timeout_seconds"]),
            ("Command timed out after 2 seconds", &json!(2))
        );
        let late = yard.call("shell", json!({"command": "true", "timeout": 61})).error_text();
        assert!(late.contains("from 1 to 60"), "{late}");
        let many = json!({"command": "seq 1 10000", "working_directory": "/usr", "timeout": 60});
        let (_, metadata) = parts(&yard.call("shell", many).ok());
        assert_eq!(metadata["stdout"].as_str().map(str::len), Some(1000));
        assert_eq!(metadata["stdout_truncated"], true);
        for blocked in ["rm -rf x", "dd if=/dev/zero of=x", "true && rm -rf x", "sh -c 'dd of=x'"] {
            let said = run(yard, blocked).error_text();
            assert!(
                said.contains("nothing was run") && said.contains("shell_tool.blocked_commands"),
                "{said}"
            );
        }
        yard.expect_log("seq 1 10000");
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
    with_config(PRINTED, |yard| {
        let run = |yard: &mut TestServer, directory: &str| {
            yard.call("shell", json!({"command": "pwd", "working_directory": directory}))
        };
        assert_eq!(parts(&run(yard, "/tmp").ok()).1["stdout"], "/tmp\n");
        assert!(run(yard, "/").error_text().starts_with("Permission denied"));
        let missing = run(yard, "/project").error_text();
        assert!(missing.contains("working_directory"), "{missing}");
    });
}

#[test]
fn a_deadline_of_the_server_bounds_the_tool() {
    with_config("[job]\ntimeout_s = 60\nmax_timeout_s = 60\n", |yard| {
        yard.call("shell", json!({"command": "true"})).ok();
        let late = yard.call("shell", json!({"command": "true", "timeout": 61})).error_text();
        assert!(late.contains("from 1 to 60"), "{late}");
    });
}

#[test]
fn text_that_is_not_utf8_comes_back_whole() {
    each(|yard| {
        let command = r"printf 'caf\351\n'; printf '\377' >&2";
        let (_, metadata) = parts(&yard.call("shell", json!({"command": command})).ok());
        assert_eq!(metadata["stdout_base64"], "Y2Fm6Qo=");
        assert_eq!(metadata["stderr_base64"], "/w==");
    });
}

#[test]
fn a_directory_outside_the_allowed_ones_is_refused_also_through_a_link() {
    with_config("[shell_tool]\nallowed_directories = [\"/usr\"]\n", |yard| {
        let marker = yard.work().join("ran");
        let link = yard.sandbox().path().join("link");
        symlink(yard.work(), &link).expect("a link");
        for directory in [yard.work(), link, "/usr/../etc".into(), "/".into()] {
            let run = json!({"command": format!("touch {}", marker.display()), "working_directory": directory});
            let said = yard.call("shell", run).error_text();
            assert!(said.starts_with("Permission denied, nothing was run"), "{said}");
        }
        assert!(!marker.exists());
    });
}

#[test]
fn commands_stay_out_of_the_log_but_not_out_of_the_audit() {
    with_config("[shell_tool]\nlog_commands = false\n", |yard| {
        yard.call("shell", json!({"command": "echo confidential-word"})).ok();
        yard.expect_log("job finished");
        assert!(!yard.log_text().contains("confidential-word"), "{}", yard.log_text());
        let log = yard.sandbox().data().join("audit.jsonl");
        eventually("the audit log has it", || {
            fs::read_to_string(&log).expect("an audit log").contains("confidential-word")
        });
    });
}

#[test]
fn a_failure_writes_the_abort_file_of_the_workflow() {
    let mut yard = Launch::stdio()
        .args(&["--dialect", "shell"])
        .config("[shell_tool]\nabort_file = \"abort.txt\"\n")
        .start();
    let abort = yard.work().join("abort.txt");
    yard.call("shell", json!({"command": "true"})).ok();
    assert!(!abort.exists());
    yard.call("shell", json!({"command": "ls", "timeout": 0}));
    assert!(!abort.exists(), "no command failed");
    yard.call("shell", json!({"command": "echo why >&2; exit 3"}));
    let told = fs::read_to_string(&abort).expect("the abort file");
    assert!(told.starts_with("Command failed with exit code 3") && told.contains("why"), "{told}");
}

#[test]
fn bad_arguments_run_nothing() {
    each(|yard| {
        let marker = yard.work().join("ran");
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
            (json!({"command": touch, "environment": "A=1"}), "`environment`"),
            (
                json!({"command": touch, "working_directory": "/no/such/directory"}),
                "/no/such/directory",
            ),
            (json!({"command": touch, "cwd": "/"}), "`cwd`"),
        ] {
            let error = yard.call("shell", bad.clone()).error_text();
            assert!(error.contains(said), "{bad}: {error}");
        }
        assert!(!marker.exists());
    });
}
