//! `coreTools` and `excludeTools`, in the document's own file.

use std::fs;

use serde_json::json;

use super::super::speaking;
use super::examples::with_programs;
use super::{fields, run};
use crate::harness::{Launch, Sandbox, TestServer, run_program, text};

/// The settings that the document prints, each with commands that run and commands that do not.
const PRINTED: [(&str, &[&str], &[&str]); 4] = [
    (
        r#"{
  "coreTools": ["run_shell_command(git)", "run_shell_command(npm)"]
}"#,
        &["git --version", "git status", "npm install"],
        &["ls -l", "git status && ls -l", "git status; ls", "git status || ls"],
    ),
    (
        r#"{
  "coreTools": ["run_shell_command"],
  "excludeTools": ["run_shell_command(rm)"]
}"#,
        &["git status", "npm install", "ls -l"],
        &["rm -rf /", "true && rm -rf /", "true; rm x", "false || rm x"],
    ),
    (
        r#"{
  "coreTools": ["run_shell_command(git)"],
  "excludeTools": ["run_shell_command(git push)"]
}"#,
        &["git status"],
        &["git push origin main", "git status && git push"],
    ),
    (
        r#"{
  "excludeTools": ["run_shell_command"]
}"#,
        &[],
        &["ls -l", "any other command"],
    ),
];

/// A server with this text as its `settings.json`.
#[track_caller]
fn start_with(launch: Launch, sandbox: &Sandbox, settings: &str) -> TestServer {
    let file = sandbox.write("settings.json", settings);
    launch.args(&["--config", &file.display().to_string()]).start()
}

#[track_caller]
fn check(server: &mut TestServer, allowed: &[&str], blocked: &[&str]) {
    for command in allowed {
        // Allowed, whether the program is there or not.
        fields(run(server, json!({"command": command, "is_background": false})));
    }
    for command in blocked {
        for is_background in [false, true] {
            let call = json!({"command": command, "is_background": is_background});
            let refused = run(server, call).error_text();
            assert!(refused.contains("nothing was run"), "{command}: {refused}");
        }
    }
}

#[test]
fn the_printed_settings_can_be_pasted() {
    for (settings, allowed, blocked) in PRINTED {
        for launch in speaking("run_shell_command") {
            let sandbox = Sandbox::new();
            let launch = with_programs(launch, &sandbox, "echo done");
            check(&mut start_with(launch, &sandbox, settings), allowed, blocked);
        }
    }
}

#[test]
fn the_lists_may_stand_in_the_policy_section_too() {
    let [stdio, _] = speaking("run_shell_command");
    let config = "[policy]\ncoreTools = [\"run_shell_command(git)\"]\n\
                  excludeTools = [\"run_shell_command(git push)\"]\n";
    let mut server = stdio.config(config).start();
    check(&mut server, &["git status"], &["git push origin main", "ls"]);
}

#[test]
fn a_core_tool_is_a_prefix_and_nothing_leaves_it() {
    for launch in speaking("run_shell_command") {
        let sandbox = Sandbox::new();
        let mut server =
            start_with(launch, &sandbox, r#"{"coreTools": ["run_shell_command(git)"]}"#);
        let git = |server: &mut TestServer, command: &str| {
            fields(run(server, json!({"command": command, "is_background": false})))
        };
        assert_eq!(git(&mut server, "git init -q .")["Exit Code"], 0);
        let settings = server.work().join(".git/config");
        let own = fs::read_to_string(&settings).expect("a repository");
        fs::write(&settings, own + "[alias]\n\tst = status --short\n").expect("a file of ours");
        fs::write(server.work().join("kept"), "").expect("a file of ours");
        assert_eq!(git(&mut server, "git st")["Stdout"], "?? kept\n");
        assert_eq!(git(&mut server, "git st > listed")["Exit Code"], 0);
        assert!(server.work().join("listed").exists());
        check(
            &mut server,
            &["git subtree", "git log > x", "git st --no-such-option"],
            &[
                "git x; rm kept",
                "git st && rm kept",
                "git st || rm kept",
                "git st & rm kept",
                "git st $(rm kept)",
                "git st `rm kept`",
                "gitk",
            ],
        );
        // These run, and the program behind them does not start.
        for command in
            ["git -c alias.x='!rm kept' x", "echo 'rm kept' | sh", "r=rm; git st; $r kept"]
        {
            git(&mut server, command);
        }
        assert!(server.work().join("kept").exists());
    }
}

#[test]
fn other_keys_of_a_settings_file_are_ignored_and_said() {
    let [stdio, _] = speaking("run_shell_command");
    let sandbox = Sandbox::new();
    let settings = r#"{
  // As Qwen Code writes it.
  "theme": "dark",
  "mcpServers": {"yard": {"command": "shellyard"}},
  "tools": {"core": ["read_file", "run_shell_command(git)"], "sandbox": false}
}"#;
    let mut server = start_with(stdio, &sandbox, settings);
    for key in ["theme", "mcpServers", "tools.sandbox"] {
        server.expect_log(key);
    }
    check(&mut server, &["git status"], &["ls"]);
    let file = sandbox.path().join("settings.json").display().to_string();
    let checked = run_program(&sandbox, &["config", "check", &file]);
    assert!(checked.status.success());
    assert!(text(&checked.stderr).contains("ignored: "), "{}", text(&checked.stderr));
}

#[test]
fn a_mistake_in_a_settings_file_is_told_with_its_line() {
    let sandbox = Sandbox::new();
    for (settings, said) in [
        ("{\n  \"coretools\": [\"run_shell_command(git)\"]\n}", "settings.json:2: unknown key"),
        ("{\n\n  \"coreTools\": []\n}", "settings.json:3: `coreTools` cannot be []"),
        ("{\n  \"coreTools\": [\n}", "settings.json:3: not valid JSON"),
    ] {
        let file = sandbox.write("settings.json", settings).display().to_string();
        let checked = run_program(&sandbox, &["config", "check", &file]);
        assert!(!checked.status.success(), "{settings}");
        assert!(text(&checked.stderr).contains(said), "{settings}: {}", text(&checked.stderr));
        let started = run_program(&sandbox, &["stdio", "--config", &file]);
        assert!(!started.status.success(), "{settings}");
    }
}
