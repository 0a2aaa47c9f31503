//! Several editors at one server: each has its own environment, and each job names its client.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{BOTH_ERAS, data_of, proxy_to, server};
use crate::harness::{
    HttpConnection, HttpRequest, Launch, TestServer, initialize_params, output_of, private_dir,
    text,
};

/// Writes a program `which-tool` that prints this name, and returns the search path that finds it.
fn toolchain(directory: &Path, name: &str) -> String {
    fs::create_dir_all(directory).expect("a directory of ours");
    let program = directory.join("which-tool");
    fs::write(&program, format!("#!/bin/sh\necho {name}\n")).expect("a file of ours");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    format!("{}:/usr/bin:/bin", directory.display())
}

/// Prepares an editor in which this virtual environment is active.
fn editor(connect: Launch, virtual_env: &Path, name: &str) -> Launch {
    let path = toolchain(&virtual_env.join("bin"), name);
    connect.env("PATH", &path).env("VIRTUAL_ENV", &virtual_env.to_string_lossy())
}

#[test]
fn each_client_of_a_server_has_its_own_environment() {
    let homes = private_dir();
    for era in BOTH_ERAS {
        let path = toolchain(&homes.path().join("server"), "of-the-server");
        let mut server = server().env("PATH", &path).start();
        let url = format!("http://{}", server.http().address());
        let by_socket = proxy_to(&data_of(&server)).era(era);
        let by_address = Launch::stdio().args(&["--connect", &url]).era(era);
        let [one, two] = ["one", "two"].map(|name| homes.path().join(name));
        let mut first = editor(by_socket, &one, "first").start();
        let mut second = editor(by_address, &two, "second").start();
        let seen =
            |client: &mut TestServer| client.run("which-tool; echo $VIRTUAL_ENV")["output"].clone();
        for _ in 0..2 {
            assert_eq!(seen(&mut first), format!("first\n{}\n", one.display()));
            assert_eq!(seen(&mut second), format!("second\n{}\n", two.display()));
            assert_eq!(seen(&mut server), "of-the-server\n\n", "others have the server's");
        }
        let direct = json!({"command": "which-tool", "args": ["-x"]});
        assert_eq!(second.call("run_command", direct).ok()["output"], "second\n");
        let own = json!({"command": "echo $VIRTUAL_ENV", "env": {"VIRTUAL_ENV": "/mine"}});
        assert_eq!(first.call("run_command", own).ok()["output"], "/mine\n", "the call wins");
    }
}

#[test]
fn an_environment_outlives_a_restart_of_the_server() {
    let homes = private_dir();
    let data = private_dir();
    let first = server().data(data.path()).start();
    let mut client = editor(proxy_to(data.path()), homes.path(), "mine").start();
    assert_eq!(client.run("which-tool")["output"], "mine\n");
    drop(first);
    let _second = server().data(data.path()).start();
    assert_eq!(client.run("which-tool")["output"], "mine\n");
}

const SECRETS: [(&str, &str); 5] = [
    ("GITHUB_TOKEN", "value-of-a-token"),
    ("LD_PRELOAD", "/no/such/library.so"),
    ("BASH_ENV", "/no/such/start-up"),
    ("INTERNAL_HOST", "value-of-a-host"),
    ("SHELLYARD_HTTP_PATH", "/elsewhere"),
];

#[test]
fn secrets_and_dangerous_variables_of_a_client_do_not_reach_jobs() {
    let config = "[environment]\ninherit = \"all\"\n";
    let server = server().config("[environment]\ndrop = [\"INTERNAL_*\"]\n").start();
    let proxy = proxy_to(&data_of(&server)).config(config);
    // The proxy itself would use the others.
    let others = ["LD_PRELOAD", "SHELLYARD_HTTP_PATH"];
    let secrets = SECRETS.iter().filter(|(name, _)| !others.contains(name));
    let mut proxy = secrets.fold(proxy, |proxy, (name, value)| proxy.env(name, value)).start();
    let seen = proxy.run("env")["output"].as_str().expect("text").to_owned();
    for (name, _) in SECRETS {
        assert!(!seen.contains(name), "{name} in {seen}");
    }
}

#[test]
fn a_failing_job_names_a_variable_that_its_client_withheld() {
    let server = Launch::http().start();
    let mut proxy = proxy_to(&data_of(&server)).env("GITHUB_TOKEN", "value-of-a-token").start();
    let text = proxy.run("echo GITHUB_TOKEN is missing; exit 1").text();
    assert!(text.contains("GITHUB_TOKEN is set but withheld from jobs"), "{text}");
}

/// Sends an upgrade request with this body.
fn upgrade(server: &mut TestServer, body: &[u8]) -> HttpConnection {
    let length = body.len().to_string();
    let request = HttpRequest {
        body: body.to_vec(),
        ..HttpRequest::get("/mcp")
            .header("Connection", "Upgrade")
            .header("Upgrade", "shellyard-stdio")
            .header("Content-Length", &length)
    };
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&request);
    connection
}

/// Runs a command over an upgraded connection, and returns its reply.
#[track_caller]
fn run_over(connection: &mut HttpConnection, command: &str) -> Value {
    let arguments = json!({"name": "run_command", "arguments": {"command": command}});
    let hello = initialize_params("2025-06-18");
    for (id, method, params) in [(1, "initialize", hello), (2, "tools/call", arguments)] {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        connection.send_bytes(format!("{line}\n").as_bytes());
    }
    let mut answer = connection.answer();
    assert_eq!(answer.status, 101);
    loop {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            assert_eq!(answer.body().read(&mut byte).expect("more"), 1);
            line.push(byte[0]);
        }
        let message: Value = serde_json::from_slice(&line).expect("JSON");
        if message["id"] == 2 {
            return message["result"].clone();
        }
    }
}

#[test]
fn the_server_does_not_trust_what_a_client_sends() {
    let config = "[environment]\ninherit = \"all\"\ndrop = [\"INTERNAL_*\"]\n";
    let mut server = Launch::http().config(config).start();
    let mut body = b"PATH=/usr/bin:/bin\0HARMLESS=yes\0".to_vec();
    for (name, value) in SECRETS {
        body.extend_from_slice(format!("{name}={value}\0").as_bytes());
    }
    let reply = run_over(&mut upgrade(&mut server, &body), "env").to_string();
    assert!(reply.contains("HARMLESS=yes"), "{reply}");
    for (name, _) in SECRETS {
        assert!(!reply.contains(name), "{name} in {reply}");
    }
    let large = [b"A=".as_slice(), &vec![b'x'; 300 * 1024], b"\0"].concat();
    for (body, code) in [(large, "environment_too_large"), (b"A=1".to_vec(), "bad_environment")] {
        let mut connection = upgrade(&mut server, &body);
        let answer = connection.answer();
        assert_eq!(answer.status, 400);
        let text = answer.text();
        assert!(text.starts_with(code), "{text}");
    }
}

#[test]
fn an_environment_that_is_too_large_loses_its_largest_variables() {
    let server = server().start();
    let large = "x".repeat(100 * 1024);
    let config = "[environment]\ninherit = \"all\"\n";
    let names = ["LARGE_A", "LARGE_B", "LARGE_C"];
    let proxy = proxy_to(&data_of(&server)).config(config).env("VIRTUAL_ENV", "/mine");
    let mut proxy = names.iter().fold(proxy, |proxy, name| proxy.env(name, &large)).start();
    assert_eq!(proxy.run("echo $VIRTUAL_ENV")["output"], "/mine\n");
    proxy.expect_log("environment too large");
}

#[test]
fn with_an_allow_list_jobs_keep_the_servers_own_search_path() {
    let homes = private_dir();
    let path = toolchain(&homes.path().join("server"), "of-the-server");
    let config = "[policy]\nallow = [\"which-tool *\"]\n";
    let server = server().env("PATH", &path).config(config).start();
    let mut client = editor(proxy_to(&data_of(&server)), homes.path(), "mine").start();
    assert_eq!(client.run("which-tool")["output"], "of-the-server\n");
}

#[test]
fn a_job_names_the_client_that_started_it() {
    let mut server = Launch::http().start();
    let mut editor = proxy_to(&data_of(&server)).start();
    let directory = fs::canonicalize(editor.work()).expect("it exists");
    let directory = directory.to_string_lossy();
    editor.run("true");
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/api/v1/jobs/1"));
    let job = connection.answer().message().expect("a job");
    assert_eq!((&job["client"], &job["client_version"]), (&json!("it"), &json!("1.0.0")));
    assert_eq!(job["client_directory"], *directory);
    let mut command = server.sandbox().command();
    command.args(["jobs", "--data-dir"]).arg(data_of(&server));
    let table = text(&output_of(command, "").stdout);
    let end: String = directory.chars().skip(directory.chars().count() - 20).collect();
    assert!(table.contains("CLIENT") && table.contains("it 1.0.0 "), "{table}");
    assert!(table.contains(&end), "{table}");
    let listed = server.call("list_jobs", json!({})).text();
    assert!(listed.contains("by it 1.0.0 in "), "{listed}");
    let own = editor.call("list_jobs", json!({})).text();
    assert!(!own.contains("by it"), "{own}");
}
