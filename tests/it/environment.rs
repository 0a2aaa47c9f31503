//! The environment of a job, and the replies about names that do not exist.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::harness::{Launch, Sandbox, TestServer, output_of, text};

const KEY_BY_VALUE: &str = "AKIAIOSFODNN7EXAMPLE";

/// A server that has secrets, dangers and harmless things around it.
fn surrounded(launch: Launch) -> Launch {
    server_variables().into_iter().fold(launch, |launch, (name, value)| launch.env(name, value))
}

const fn server_variables() -> [(&'static str, &'static str); 12] {
    [
        ("GITHUB_TOKEN", "value-of-a-token"),
        ("MY_API_KEY", "value-of-a-key"),
        ("AWS_REGION", "value-of-a-region"),
        ("AWS_SESSION", "value-of-a-session"),
        ("SSH_AUTH_SOCK", "/path/of/an/agent"),
        ("HARMLESS_NAME", KEY_BY_VALUE),
        ("LD_PRELOAD", ""),
        ("BASH_ENV", "/no/such/start-up"),
        ("SHELLYARD_QUEUE_SLOTS", "7"),
        ("JAVA_HOME", "/opt/java"),
        ("SOMETHING_ELSE", "value-of-something"),
        ("LC_TIME", "C"),
    ]
}

/// The variables that a job of this server sees, as `env` prints them.
#[track_caller]
fn job_variables(server: &mut TestServer) -> Vec<String> {
    let reply = server.call("run_command", json!({"command": "env", "args": ["-0"]})).ok();
    let job = reply.job();
    let page = server.read_raw(job, "bytes:0", 1 << 20);
    let bytes = crate::harness::bytes_of(&page);
    let names = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    names.map(text).collect()
}

#[track_caller]
fn check(seen: &[String], name: &str, expected: Option<&str>) {
    let prefix = format!("{name}=");
    let value = seen.iter().find_map(|entry| entry.strip_prefix(&prefix));
    assert_eq!(value, expected, "{name} in {seen:#?}");
}

#[test]
fn secrets_and_dangers_do_not_reach_jobs() {
    for launch in Launch::both() {
        let mut server = surrounded(launch.structured()).start();
        let seen = job_variables(&mut server);
        for name in ["GITHUB_TOKEN", "MY_API_KEY", "AWS_SESSION", "HARMLESS_NAME"] {
            check(&seen, name, None);
        }
        for name in ["LD_PRELOAD", "BASH_ENV", "SHELLYARD_QUEUE_SLOTS"] {
            check(&seen, name, None);
        }
        check(&seen, "JAVA_HOME", Some("/opt/java"));
        check(&seen, "LC_TIME", Some("C"));
        check(&seen, "AWS_REGION", Some("value-of-a-region"));
        check(&seen, "SOMETHING_ELSE", Some("value-of-something"));
        check(&seen, "SSH_AUTH_SOCK", Some("/path/of/an/agent"));
        assert!(seen.iter().any(|entry| entry.starts_with("PATH=")), "{seen:?}");
    }
}

#[test]
fn only_the_core_can_be_inherited_and_names_can_be_dropped() {
    let config = "[environment]\ninherit = \"core\"\ndrop = [\"LC_*\"]\n";
    let mut server = surrounded(Launch::stdio().structured()).config(config).start();
    let seen = job_variables(&mut server);
    check(&seen, "JAVA_HOME", Some("/opt/java"));
    for name in ["SOMETHING_ELSE", "AWS_REGION", "GITHUB_TOKEN", "LD_PRELOAD", "LC_TIME"] {
        check(&seen, name, None);
    }
}

#[test]
fn a_job_in_a_sandbox_does_not_get_the_socket_of_the_ssh_agent() {
    let mut server = surrounded(Launch::stdio()).start();
    for (profile, expected) in [("default", "/path/of/an/agent"), ("read-only", "none")] {
        let command = "echo agent: ${SSH_AUTH_SOCK:-none}";
        let arguments = json!({"command": command, "confinement": profile});
        let text = server.call("run_command", arguments).ok().text();
        let line = format!("agent: {expected}");
        assert!(text.lines().any(|printed| printed == line), "{profile}: {text}");
    }
}

#[test]
fn a_failing_job_that_names_a_withheld_variable_gets_the_reason() {
    for launch in Launch::both() {
        let mut server = surrounded(launch).start();
        let run = |server: &mut TestServer, command: &str| {
            server.call("run_command", json!({"command": command})).text()
        };
        let hint = "→ GITHUB_TOKEN is set but withheld from jobs (environment.pass)";
        let text = run(&mut server, "echo 'KeyError: GITHUB_TOKEN'; exit 3");
        assert!(text.lines().any(|line| line.starts_with(hint)), "{text}");
        for command in [
            "echo 'KeyError: GITHUB_TOKEN'",
            "echo 'KeyError: GITHUB_TOKENS'; exit 3",
            "echo 'KeyError: NOT_SET_ANYWHERE'; exit 3",
        ] {
            let text = run(&mut server, command);
            assert!(!text.contains("withheld"), "{command}: {text}");
        }
        let given = json!({
            "command": "echo 'bad GITHUB_TOKEN'; exit 3",
            "env": {"GITHUB_TOKEN": "mine"},
        });
        let text = server.call("run_command", given).text();
        assert!(!text.contains("withheld"), "the job had the variable: {text}");
    }
}

/// The variables that a command of this tool sees, as `env` prints them.
#[track_caller]
fn tool_variables(server: &mut TestServer, tool: &str) -> Vec<String> {
    let arguments = match tool {
        "shell_exec" => json!({"cmd": "echo; env"}),
        "run_shell_command" => json!({"command": "echo; env", "is_background": false}),
        _ => json!({"command": "echo; env"}),
    };
    let reply = server.call(tool, arguments).ok();
    // The empty line keeps the first variable apart from what stands before it; in JSON text a line
    // ends in an escaped newline.
    reply.text().split("\\n").flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn the_tools_of_all_dialects_get_the_environment_of_the_server_without_secrets() {
    for tool in ["shell", "execute", "execute_command", "run_shell_command", "shell_exec"] {
        for launch in Launch::both() {
            let mut server = surrounded(launch.args(&["--dialect", tool])).start();
            let seen = tool_variables(&mut server, tool);
            check(&seen, "SOMETHING_ELSE", Some("value-of-something"));
            check(&seen, "JAVA_HOME", Some("/opt/java"));
            for name in ["GITHUB_TOKEN", "MY_API_KEY", "AWS_SESSION", "HARMLESS_NAME"] {
                check(&seen, name, None);
            }
            for name in ["LD_PRELOAD", "BASH_ENV", "SHELLYARD_QUEUE_SLOTS"] {
                check(&seen, name, None);
            }
        }
    }
    let mut server = surrounded(Launch::server_shell()).start();
    let seen = tool_variables(&mut server, "execute_command");
    check(&seen, "SOMETHING_ELSE", Some("value-of-something"));
    check(&seen, "GITHUB_TOKEN", None);
}

#[test]
fn what_is_named_passes_and_what_is_dangerous_never_does() {
    let config = "[environment]\npass = [\"GITHUB_TOKEN\", \"MY_*\", \"SOMETHING_*\", \
                  \"LD_PRELOAD\", \"BASH_ENV\"]\nset = [\"CI=1\"]\n";
    let mut server = surrounded(Launch::stdio().structured()).config(config).start();
    let seen = job_variables(&mut server);
    check(&seen, "GITHUB_TOKEN", Some("value-of-a-token"));
    check(&seen, "SOMETHING_ELSE", Some("value-of-something"));
    check(&seen, "CI", Some("1"));
    // A pattern is no name: it does not pass a secret.
    check(&seen, "MY_API_KEY", None);
    check(&seen, "LD_PRELOAD", None);
    check(&seen, "BASH_ENV", None);
}

#[test]
fn doctor_lists_names_and_never_a_value() {
    let sandbox = Sandbox::new();
    let ask = |arguments: &[&str]| {
        let mut command = sandbox.command();
        command.arg("doctor").args(arguments).envs(server_variables());
        let output = output_of(command, "");
        assert!(output.status.success(), "{output:?}");
        let told = text(&output.stdout);
        for (name, value) in server_variables() {
            assert!(value.len() < 4 || !told.contains(value), "the value of {name}: {told}");
        }
        told
    };
    let told = ask(&[]);
    for line in [
        "GITHUB_TOKEN (secret_name)",
        "AWS_SESSION (secret_name)",
        "HARMLESS_NAME (secret_value)",
        "LD_PRELOAD (dangerous)",
    ] {
        assert!(told.contains(line), "`{line}` is missing in: {told}");
    }
    let answer: Value = serde_json::from_str(&ask(&["--json"])).expect("JSON");
    let dropped = answer["environment"]["dropped"].as_array().expect("a list");
    let token = json!({"name": "GITHUB_TOKEN", "why": "secret_name"});
    assert!(dropped.contains(&token), "{answer}");
    let passed = answer["environment"]["passed"].as_array().expect("a list");
    assert!(passed.contains(&json!("JAVA_HOME")), "{answer}");
}

/// A server whose jobs find one program more on their PATH: `cargo`.
fn with_cargo(launch: Launch) -> (TestServer, tempfile::TempDir) {
    let folder = tempfile::TempDir::new().expect("a temporary directory");
    let program = folder.path().join("cargo");
    fs::write(&program, "#!/bin/sh\n").expect("a file of ours");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    (launch.env("PATH", &path).start(), folder)
}

#[test]
fn a_command_that_does_not_exist_gets_the_name_that_does() {
    for launch in Launch::both() {
        let (mut server, _folder) = with_cargo(launch);
        for arguments in [
            json!({"command": "carg build"}),
            json!({"command": "true; carg build"}),
            json!({"command": "carg", "args": ["build"]}),
        ] {
            let text = server.call("run_command", arguments.clone()).text();
            let hint = text.lines().find(|line| line.starts_with("→ did you mean ")).unwrap_or("");
            let names = hint.trim_start_matches("→ did you mean ").trim_end_matches('?');
            assert_eq!(names.split(", ").next(), Some("cargo"), "{arguments}: {text}");
        }
        let text = server.run("xqzzyqx").text();
        assert!(!text.contains("did you mean"), "nothing is like it: {text}");
    }
}
