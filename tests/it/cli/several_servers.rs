//! Several servers of one user: their jobs are listed together, and named with their server.

use std::os::unix::net::UnixListener;
use std::process::Output;

use serde_json::{Value, json};

use super::world::{Route, World};
use crate::harness::{
    Launch, Marker, SuspendedProcess, TestServer, eventually, eventually_some, output_of, text,
};

/// A shared server, and two that clients started for themselves.
struct Servers {
    world: World,
    stdio: [TestServer; 2],
}

impl Servers {
    #[track_caller]
    fn start() -> Self {
        let world = World::start(Route::Socket);
        let data = world.sandbox().data();
        let stdio = [(); 2].map(|()| Launch::stdio().structured().data(&data).start());
        let sockets = data.join("servers");
        eventually("both have a socket", || {
            stdio.iter().all(|server| sockets.join(format!("{}.sock", server.pid())).exists())
        });
        Self { world, stdio }
    }

    fn name(&self, index: usize, job: u64) -> String {
        format!("s{}/{job}", self.stdio[index].pid())
    }

    #[track_caller]
    fn ask(&mut self, words: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.world.run(words);
        (status.code(), text(&stdout), text(&stderr))
    }
}

#[test]
fn the_jobs_of_all_servers_are_listed_with_their_servers_and_clients() {
    let mut servers = Servers::start();
    servers.world.finished_job("echo shared");
    servers.stdio[0].run("echo of the first");
    servers.stdio[1].run("echo of the second; exit 3");
    let (code, table, said) = servers.ask(&["jobs"]);
    assert_eq!(code, Some(0), "{said}");
    for name in ["serve/1".to_owned(), servers.name(0, 1), servers.name(1, 1)] {
        assert!(table.contains(&name), "{name}:\n{table}");
    }
    assert!(table.contains("of the first") && table.contains("CLIENT"), "{table}");
    let (_, json, _) = servers.ask(&["jobs", "--json"]);
    let listed: Value = serde_json::from_str(&json).expect("JSON");
    let named = listed["jobs"].as_array().expect("a list").iter().map(|job| job["server"].clone());
    let named: Vec<Value> = named.collect();
    assert_eq!(named.len(), 3, "{json}");
    assert!(named.contains(&json!("serve")), "{json}");
    let (_, narrow) = servers.world.start_in_terminal(&["jobs"], 40).finish();
    crate::harness::assert_fits(&narrow, 40);
    assert!(narrow.contains("serve/1"), "{narrow}");
}

#[test]
fn a_number_works_where_it_is_unambiguous_and_a_name_always() {
    let mut servers = Servers::start();
    servers.stdio[0].run("echo of the first");
    servers.stdio[1].run("echo of the second; exit 3");
    servers.stdio[1].run("echo only here");
    let (code, _, said) = servers.ask(&["logs", "1"]);
    assert_eq!(code, Some(1), "{said}");
    let names = [servers.name(0, 1), servers.name(1, 1)];
    assert!(names.iter().all(|name| said.contains(name)), "{said}");
    assert!(said.contains("of the second"), "{said}");
    assert_eq!(servers.ask(&["logs", "2"]).1, "only here\n");
    assert_eq!(servers.ask(&["logs", &names[0]]).1, "of the first\n");
    let by_pid = names[1].trim_start_matches('s').to_owned();
    assert_eq!(servers.ask(&["wait", &by_pid]).0, Some(3));
    let (code, shown, _) = servers.ask(&["show", &names[1]]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("stdio, process"), "{shown}");
    let (code, _, said) = servers.ask(&["logs", "s999999999/1"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("there is no server s999999999"), "{said}");
}

#[test]
fn a_suspended_editor_is_named_and_does_not_hide_the_jobs_of_others() {
    let mut servers = Servers::start();
    servers.stdio[0].run("echo of the first");
    let pid = servers.stdio[1].pid();
    let suspended = SuspendedProcess::new(pid);
    assert_eq!(servers.ask(&["logs", "1"]).1, "of the first\n");
    let (code, shown, said) = servers.ask(&["jobs"]);
    drop(suspended);
    assert_eq!(code, Some(1), "the list is not complete: {said}");
    assert!(shown.contains("of the first"), "{shown}");
    let is_named = said.contains(&format!("server s{pid}")) && said.contains("suspended");
    assert!(is_named, "{said}");
}

#[test]
fn a_job_of_an_editor_is_stopped_from_the_command_line() {
    let mut servers = Servers::start();
    let marker = Marker::new();
    let arguments = json!({"command": format!("sleep {marker}"), "wait_s": 0});
    servers.stdio[0].call("run_command", arguments).ok();
    marker.wait_alive();
    let (code, shown, said) = servers.ask(&["stop", "1"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(shown.contains("stopped by"), "{shown}");
    eventually("the tree is gone", || marker.alive().is_empty());
}

#[test]
fn stale_sockets_are_removed_and_do_not_count() {
    let mut world = World::start(Route::Socket);
    world.finished_job("echo shared");
    let sockets = world.sandbox().data().join("servers");
    std::fs::create_dir_all(&sockets).expect("a directory of ours");
    // No process has this id: it is above the limit of the kernel.
    let stale = sockets.join("4194305.sock");
    drop(UnixListener::bind(&stale).expect("a socket of ours"));
    let output = world.run(&["jobs"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!stale.exists(), "it is removed");
    assert!(!text(&output.stdout).contains("serve/"), "one server needs no name: {output:?}");
}

#[test]
fn one_server_of_an_editor_is_enough() {
    let mut editor = Launch::stdio().structured().start();
    editor.run("echo alone");
    let data = editor.sandbox().data().display().to_string();
    let read_log = || {
        let mut command = editor.sandbox().command();
        command.args(["logs", "1", "--data-dir", &data]);
        output_of(command, "")
    };
    // The socket is opened shortly after the editor has introduced itself.
    let output = eventually_some("the server is found", || {
        Some(read_log()).filter(|it| it.status.success())
    });
    assert_eq!(text(&output.stdout), "alone\n");
}
