//! Verbs that follow a job go on when its server is restarted or upgraded, and say so if they cannot.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::json;

use super::world::{Route, World};
use crate::harness::{Launch, eventually, eventually_some, pid_in, signal, text};

/// Shell text that writes numbered lines until a file exists.
const COUNT: &str = "i=0; while test ! -e go; do i=$((i+1)); echo line $i; sleep 0.01; done; \
                     echo last; exit 7";

/// Kills the server and waits until its keeper has started the next one.
#[track_caller]
fn crash(world: &World) {
    let before = world.server.server_pid();
    signal(i32::try_from(before).expect("a pid fits"), Signal::KILL);
    eventually_some("the keeper starts the next server", || {
        pid_in(world.server.data()).filter(|pid| *pid != before)
    });
}

/// A verb that runs, with its output in files.
struct RunningVerb {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl RunningVerb {
    #[track_caller]
    fn start(mut command: Command, world: &World) -> Self {
        let [stdout, stderr] =
            ["verb.out", "verb.err"].map(|name| world.sandbox().path().join(name));
        let open = |path| File::create(path).expect("a file of ours");
        command.stdin(Stdio::piped()).stdout(open(&stdout)).stderr(open(&stderr));
        Self { child: command.spawn().expect("the binary starts"), stdout, stderr }
    }

    fn stdout(&self) -> String {
        text(&fs::read(&self.stdout).expect("a file of ours"))
    }

    fn stderr(&self) -> String {
        text(&fs::read(&self.stderr).expect("a file of ours"))
    }

    #[track_caller]
    fn wait_for(&self, words: &str) {
        eventually(&format!("{words:?} is printed"), || {
            self.stdout().contains(words) || self.stderr().contains(words)
        });
    }

    #[track_caller]
    fn type_in(&mut self, bytes: &[u8]) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(bytes).expect("the verb reads");
    }

    #[track_caller]
    fn finish(&mut self) -> Option<i32> {
        eventually_some("the verb ends", || self.child.try_wait().expect("a child of ours")).code()
    }
}

impl Drop for RunningVerb {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn logs_follows_a_job_over_crashes_without_losing_or_repeating_a_byte() {
    for way in [Route::Socket, Route::Tcp] {
        let mut world = World::start(way);
        let directory = world.sandbox().work().display().to_string();
        let job = world.running_job(&json!({"command": COUNT, "directory": directory}));
        let command = world.command(&["logs", "-f", &job]);
        let mut following = RunningVerb::start(command, &world);
        for _ in 0..2 {
            let before = following.stdout().len();
            eventually("output is followed", || following.stdout().len() > before + 100);
            crash(&world);
        }
        let before = following.stdout().len();
        eventually("output goes on", || following.stdout().len() > before);
        fs::write(world.sandbox().work().join("go"), "").expect("a file of ours");
        assert_eq!(following.finish(), Some(0), "{way:?}: {}", following.stderr());
        let shown = following.stdout();
        let lines: Vec<&str> = shown.lines().collect();
        let expected = (1..lines.len()).map(|line| format!("line {line}"));
        let expected: Vec<String> = expected.chain(["last".to_owned()]).collect();
        assert_eq!(lines, expected, "{way:?}");
        assert_eq!(text(&world.run(&["logs", &job]).stdout), shown, "{way:?}");
    }
}

#[test]
fn a_queued_run_goes_on_over_an_upgrade_and_gets_its_input_once() {
    let mut world = World::start(Route::Socket);
    let script = "echo ready; while read line; do echo \"got $line\"; done; echo over; exit 7";
    let command = world.command(&["run", "--queue", "sh", "-c", script]);
    let mut run = RunningVerb::start(command, &world);
    run.wait_for("ready");
    run.type_in(b"before\n");
    run.wait_for("got before");
    let upgraded = world.run(&["upgrade"]);
    assert!(upgraded.status.success(), "{upgraded:?}");
    run.type_in(b"after\n");
    run.wait_for("got after");
    drop(run.child.stdin.take());
    assert_eq!(run.finish(), Some(7), "{}", run.stderr());
    assert_eq!(run.stdout(), "ready\ngot before\ngot after\nover\n");
}

#[test]
fn attach_goes_on_over_a_crash() {
    let mut world = World::start(Route::Socket);
    let script = "stty -echo; echo ready; while read line; do echo \"got $line\"; \
                  test \"$line\" = end && exit 7; done";
    let job = world.running_job(&json!({"command": script, "terminal": true}));
    let mut attached = world.start_in_terminal(&["attach", &job], 80);
    attached.wait_for("ready");
    eventually("keys go to the job", || attached.is_raw());
    crash(&world);
    attached.send(b"hello\r");
    attached.wait_for("got hello");
    attached.send(b"end\r");
    let (code, shown) = attached.finish();
    assert_eq!(code, Some(7), "{shown}");
    assert_eq!(shown.matches("got hello").count(), 1, "{shown}");
    assert!(!attached.is_raw(), "the terminal is restored");
}

#[test]
fn a_server_without_the_job_ends_the_verb_with_a_reason() {
    let mut world = World::start(Route::Socket);
    let job = world.running_job(&json!({"command": "echo ready; sleep 600"}));
    let command = world.command(&["logs", "-f", &job]);
    let following = RunningVerb::start(command, &world);
    following.wait_for("ready");
    let command = world.command(&["wait", &job]);
    let waiting = RunningVerb::start(command, &world);
    let data = world.sandbox().data();
    world.server.kill_with_keeper();
    following.wait_for("the connection to the server is lost");
    waiting.wait_for("the connection to the server is lost");
    for entry in fs::read_dir(&data).expect("a directory of ours").flatten() {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
            .expect("a file of ours");
    }
    let other = Launch::http().data(&data).start_silent();
    for mut verb in [following, waiting] {
        assert_eq!(verb.finish(), Some(1), "{}", verb.stderr());
        let said = verb.stderr();
        assert!(said.contains("was started anew") && said.contains("`shellyard jobs`"), "{said}");
    }
    drop(other);
}
