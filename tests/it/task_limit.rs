//! A server that gets no more threads and processes: calls get an error that says so, and the server
//! goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, geteuid, getrlimit};
use serde_json::json;

use crate::harness::{
    Launch, Reply, Sandbox, TestServer, eventually, output_of, text, without_privileges,
};

/// Longer than a thread of the runtime that may block is kept by default.
const IDLE: Duration = Duration::from_secs(11);

/// Limits the tasks of the server's user as server and keeper run; `None` is the most that they may have.
fn limit_tasks(server: &TestServer, most: Option<u64>) {
    // The server has the hard limit that we have.
    let most = most.or(getrlimit(Resource::Nproc).maximum);
    let most = most.map_or("unlimited".to_owned(), |most| most.to_string());
    for pid in [server.server_pid(), server.keeper_pid()] {
        let (pid, limit) = (pid.to_string(), format!("--nproc={most}:"));
        let words = [without_privileges(), &["prlimit", "--pid", &pid, &limit]].concat();
        let set = Command::new(words[0]).args(&words[1..]).status();
        assert!(set.expect("prlimit runs").success());
    }
}

#[track_caller]
fn assert_refused(reply: &Reply, words: &[&str]) {
    assert_eq!(reply["error_code"], "out_of_processes", "{reply:?}");
    let error = reply["error"].as_str().expect("a text");
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

/// Calls that need a thread or a process, each in its own way.
fn check_refused(server: &mut TestServer, job: u64, words: &[&str]) {
    for arguments in [
        json!({"command": "echo hello"}),
        json!({"command": "/bin/echo", "args": ["hello"]}),
        json!({"command": "echo hello", "cwd": "/"}),
    ] {
        let refused = server.call("run_command", arguments);
        assert_eq!(refused["outcome"], "failed_to_start");
        assert_refused(&refused, words);
    }
    assert_refused(&server.call("read_output", json!({"job": job, "query": "[0]"})), words);
    // These find a thread that was made before.
    let found = server.call("read_output", json!({"job": job, "grep": "^199999$"}));
    assert!(found["output"].as_str().expect("lines").contains("199999"), "{found:?}");
    server.call("list_jobs", json!({})).ok();
}

#[track_caller]
fn assert_goes_on(server: &mut TestServer, job: u64) {
    assert_eq!(server.run("echo hello")["output"], "hello\n");
    assert_eq!(server.call("read_output", json!({"job": job, "query": "[0]"}))["output"], "1");
    assert!(!server.log_text().contains("panicked"), "{}", server.log_text());
}

#[test]
fn a_limit_on_processes_that_is_lowered_is_named_by_calls_and_can_be_raised_again() {
    let mut server = Launch::http().structured().unprivileged().start();
    let job = server.run("seq 1 200000").job();
    thread::sleep(IDLE);
    limit_tasks(&server, Some(1));
    check_refused(&mut server, job, &["RLIMIT_NPROC 1)", "ulimit -u"]);
    assert!(server.metrics().contains("shellyard_"));
    limit_tasks(&server, None);
    assert_goes_on(&mut server, job);
}

#[test]
fn many_calls_at_one_time_share_the_threads_that_are_there() {
    let mut server = Launch::stdio().structured().unprivileged().start();
    let job = server.run("seq 1 200000").job();
    limit_tasks(&server, Some(1));
    let search = json!({"job": job, "grep": "^199999$"});
    let calls: Vec<u64> = (0..40).map(|_| server.begin("read_output", search.clone())).collect();
    for call in calls {
        assert!(server.finish(call).ok()["output"].as_str().is_some_and(|o| o.contains("199999")));
    }
    limit_tasks(&server, None);
    assert_goes_on(&mut server, job);
}

/// Starts a server that may have too few tasks, and gives back what it says before it ends.
fn refused_start(sandbox: &Sandbox, command: &str, through: &[&str]) -> String {
    let mut server = sandbox.command_through(through);
    server.args([command, "--data-dir"]).arg(sandbox.data());
    let output = output_of(server, "");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    // The server is a process of the keeper, which needs no thread.
    let is_told = ["thread", "process"].map(|it| said.contains(&format!("cannot create a {it}")));
    assert!(!said.contains("panicked") && is_told.contains(&true), "{said}");
    said
}

#[test]
fn a_server_that_cannot_have_its_threads_names_the_limit() {
    let sandbox = Sandbox::new();
    let mut through = vec!["prlimit", "--nproc=1"];
    if geteuid().is_root() {
        // The kernel does not hold root to this limit.
        through.splice(0..0, without_privileges().iter().copied());
        sandbox.give_to(65534);
    }
    for command in ["serve", "stdio"] {
        let said = refused_start(&sandbox, command, &through);
        assert!(said.contains("RLIMIT_NPROC 1)") && said.contains("ulimit -u"), "{said}");
    }
}

/// A cgroup that limits the tasks in it; removed on drop.
struct PidsCgroup(PathBuf);

impl PidsCgroup {
    /// Nothing where we may not make one.
    fn make() -> Option<Self> {
        let name = format!("shellyard-it-{}", std::process::id());
        let roots = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(Path::new);
        let root = roots.into_iter().find(|root| root.join("cgroup.procs").exists())?;
        let dir = root.join(name);
        fs::create_dir(&dir).ok()?;
        let made = Self(dir);
        // A cgroup of a tree that does not limit tasks has no such file.
        made.0.join("pids.max").exists().then_some(made)
    }

    fn limit(&self, most: &str) {
        fs::write(self.0.join("pids.max"), most).expect("a cgroup of ours");
    }

    /// Processes count until they are gone, a moment after they have ended.
    fn wait_until_empty(&self) {
        let tasks = || fs::read_to_string(self.0.join("pids.current")).expect("a cgroup of ours");
        eventually("the cgroup is empty", || tasks() == "0\n");
    }

    /// Words that start a program in it.
    fn enter(&self) -> [String; 4] {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh".to_owned(), "-c".to_owned(), enter, "sh".to_owned()]
    }
}

impl Drop for PidsCgroup {
    fn drop(&mut self) {
        // Processes leave it a moment after they have ended.
        for _ in 0..500 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_cgroup_without_room_is_named_by_calls_and_at_the_start() {
    let Some(cgroup) = PidsCgroup::make() else { return };
    let enter = cgroup.enter();
    let enter: Vec<&str> = enter.iter().map(String::as_str).collect();
    let words = [cgroup.0.to_str().expect("a path"), "(pids.max 1)", "TasksMax="];
    {
        let mut server = Launch::stdio().structured().through(&enter).start();
        let job = server.run("seq 1 200000").job();
        cgroup.limit("1");
        check_refused(&mut server, job, &words);
        cgroup.limit("max");
        assert_goes_on(&mut server, job);
    }
    // The threads that a start does get take all room, and leave it again when it fails.
    for most in ["1", "2", "3", "5", "8"] {
        cgroup.limit(most);
        let limit = format!("(pids.max {most})");
        let words = [words[0], &limit, words[2]];
        for command in ["stdio", "serve"] {
            cgroup.wait_until_empty();
            let said = refused_start(&Sandbox::new(), command, &enter);
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}
