//! Mistakes that agents make: the reply says what to do instead.

use serde_json::{Value, json};

use crate::harness::{Launch, Marker, TestServer};

/// The text of a reply, which may be an error.
#[track_caller]
fn run_text(server: &mut TestServer, arguments: Value) -> String {
    server.call("run_command", arguments).text()
}

#[test]
fn a_key_names_one_command_directory_and_environment() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let first = json!({"command": "echo one", "key": "deploy", "env": {"A": "1", "B": "2"}});
        assert!(run_text(&mut server, first.clone()).contains("one"));
        assert!(run_text(&mut server, first.clone()).contains("nothing was run again"));
        for (name, value, words) in [
            ("command", json!("echo two"), "another command"),
            ("stdin", json!("yes"), "another standard input"),
            ("cwd", json!("/"), "another directory"),
            ("env", json!({"A": "1"}), "other environment variables"),
        ] {
            let mut other = first.clone();
            other[name] = value;
            let text = server.call("run_command", other).error_text();
            let reason =
                format!("key \"deploy\" already names job 1, which was submitted with {words}");
            assert!(text.contains(&reason) && text.contains("[key_conflict]"), "{text}");
        }
    }
}

#[test]
fn a_directory_may_start_with_the_home_directory() {
    let home = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(home.path().join("project")).expect("a directory of ours");
    let home_path = home.path().to_str().expect("a path of ours");
    let mut server = Launch::stdio().env("HOME", home_path).start();
    for (cwd, expected) in
        [("~", home_path.to_owned()), ("~/project", format!("{home_path}/project"))]
    {
        let text = run_text(&mut server, json!({"command": "pwd", "cwd": cwd}));
        assert!(text.lines().any(|line| line == expected), "{cwd}: {text}");
    }
}

#[test]
fn a_program_with_an_argument_in_its_name_is_explained() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let text = run_text(&mut server, json!({"command": "git status", "args": ["-s"]}));
        let hint =
            "→ with args, command is the program alone: command=\"git\", args=[\"status\", …]";
        assert!(text.lines().any(|line| line == hint), "{text}");
    }
}

#[test]
fn a_shell_line_with_arguments_is_explained() {
    let mut server = Launch::stdio().start();
    let text = run_text(&mut server, json!({"command": "echo $HOME | cat", "args": ["x"]}));
    let hint = "→ with args, command is the program alone: leave args out for a shell line";
    assert!(text.lines().any(|line| line == hint), "{text}");
}

#[test]
fn a_script_that_is_not_there_is_explained_by_the_directory() {
    let mut server = Launch::stdio().start();
    let directory = server.work();
    for arguments in
        [json!({"command": "./x.sh --fast"}), json!({"command": "./x.sh", "args": ["--fast"]})]
    {
        let text = run_text(&mut server, arguments.clone());
        let hint = format!("→ ./x.sh is not in {}, where the job started", directory.display());
        assert!(text.lines().any(|line| line.starts_with(&hint)), "{arguments}: {text}");
    }
    let text = run_text(&mut server, json!({"command": "cd / && ./x.sh"}));
    assert!(!text.contains("where the job started"), "it was looked for elsewhere: {text}");
}

#[test]
fn a_wait_for_any_job_says_which_one_had_ended_before() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    server.run("echo over");
    server.start(&format!("sleep {marker}"));
    let arguments = json!({"jobs": [1, 2], "mode": "any", "wait_s": 40});
    let text = server.call("wait_jobs", arguments).ok().text();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("exit 0") && first.contains("ended before this call"), "{text}");
    assert!(!lines.any(|line| line.contains("ended before this call")), "{text}");
}

#[test]
fn a_size_without_its_unit_is_asked_for() {
    let mut server = Launch::stdio().start();
    let arguments = json!({"command": "true", "limits": {"memory": 200}});
    let text = server.call("run_command", arguments).error_text();
    assert!(text.contains("a size with its unit, such as \"200 MB\""), "{text}");
}

#[test]
fn an_unknown_lane_is_explained() {
    let mut server = Launch::stdio().start();
    let text = server.call("run_command", json!({"command": "true", "lane": "fast"})).error_text();
    assert!(text.contains("A lane limits how many of its jobs run at one time"), "{text}");
}

#[test]
fn the_time_in_the_queue_is_told_if_it_matters() {
    let mut server = Launch::stdio().config("[queue]\nslots = 1\n").start();
    server.start("sleep 2.5");
    let text = run_text(&mut server, json!({"command": "echo late", "wait_s": 40}));
    assert!(text.lines().next().is_some_and(|verdict| verdict.contains(" · queued ")), "{text}");
    let text = run_text(&mut server, json!({"command": "echo at once"}));
    assert!(!text.contains("queued"), "{text}");
}
