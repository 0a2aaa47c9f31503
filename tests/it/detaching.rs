//! Processes that leave their job in every way we know end with it, however it ends.
//!
//! One job per cell starts a process in each way: with its own session, without parent, variables,
//! files or limits of the job. All of them stay below the shim of their job, whatever the host offers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{DEADLINE, Launch, Marker, TestServer, eventually, eventually_some, signal};

struct Way {
    program: &'static str,
    needs: Needs,
    /// Shell text that starts a process with `MARKER` in its command line, and leaves it behind.
    text: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// The right to become another user.
    Root,
    /// That this line succeeds for the user of the server.
    Line(&'static str),
}

/// Puts a child of its own into a ptrace stop, where no signal but SIGKILL reaches it. The number is
/// that of `ptrace` on x86-64.
const TRACED: &str = "(setsid env -i perl -e 'if (fork) { sleep 3000 } \
    else { syscall(101, 0, 0, 0, 0); kill STOP, $$; sleep 3000 }' MARKER </dev/null >/dev/null 2>&1 &)";

const WAYS: &[Way] = &[
    way("setsid", "(setsid sleep MARKER </dev/null >/dev/null 2>&1 &)"),
    way("env", "(setsid env -i sleep MARKER </dev/null >/dev/null 2>&1 &)"),
    way(
        "prlimit",
        "(setsid env -i prlimit --rttime=unlimited:unlimited sleep MARKER </dev/null >/dev/null 2>&1 &)",
    ),
    way("sh", "((setsid env -i sh -c 'exec <&- >&- 2>&-; exec sleep MARKER' &) &)"),
    way("nohup", "nohup sleep MARKER </dev/null >/dev/null 2>&1 &"),
    // As a spooler does: a shell of another session, limits and variables reads its work.
    way(
        "prlimit",
        "(echo 'setsid sleep MARKER &' | setsid env -i prlimit --rttime=unlimited:unlimited sh >/dev/null 2>&1 &)",
    ),
    way("perl", TRACED),
    Way {
        program: "su",
        needs: Needs::Root,
        text: "(su - nobody -s /bin/sh -c 'setsid sleep MARKER >/dev/null 2>&1 </dev/null &')",
    },
    Way {
        program: "runuser",
        needs: Needs::Root,
        text: "(runuser - nobody -s /bin/sh -c 'setsid sleep MARKER >/dev/null 2>&1 </dev/null &')",
    },
    Way {
        program: "sudo",
        needs: Needs::Line("sudo -n true"),
        text: "(sudo -n setsid env -i prlimit --rttime=unlimited:unlimited sleep MARKER </dev/null >/dev/null 2>&1 &)",
    },
    Way {
        program: "systemd-run",
        needs: Needs::Line("systemd-run --user --scope true"),
        text: "(systemd-run --user --scope setsid env -i sleep MARKER </dev/null >/dev/null 2>&1 &)",
    },
];

/// Programs that every host has that these tests run on.
const ALWAYS: [&str; 6] = ["setsid", "env", "prlimit", "nohup", "su", "runuser"];

const fn way(program: &'static str, text: &'static str) -> Way {
    Way { program, needs: Needs::Nothing, text }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    /// The user that runs the tests.
    Same,
    Nobody,
}

/// A user and a profile, and the directory for the temporary files of servers.
#[derive(Debug)]
struct Cell {
    user: User,
    profile: &'static str,
    limits: Limits,
    temporary: TempDir,
}

/// The limits of jobs. Without any, and without a sandbox, a job gets no cgroup on any host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    Default,
    None,
}

impl Cell {
    fn new(user: User, profile: &'static str, limits: Limits) -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let everybody = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(temporary.path(), everybody).expect("it is ours");
        Self { user, profile, limits, temporary }
    }

    /// Does something in each cell, in all of them at once.
    fn for_all(act: impl Fn(&Self) + Sync) {
        let mut cells = vec![Self::without_cgroup(User::Same), Self::without_cgroup(User::Nobody)];
        for profile in ["none", "default", "workspace-write", "read-only"] {
            let users = [User::Same, User::Nobody];
            cells.extend(users.map(|user| Self::new(user, profile, Limits::Default)));
        }
        let act = &act;
        thread::scope(|scope| {
            let all: Vec<_> = cells.iter().map(|cell| scope.spawn(move || act(cell))).collect();
            for cell in all {
                cell.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
    }

    fn without_cgroup(user: User) -> Self {
        Self::new(user, "none", Limits::None)
    }

    #[track_caller]
    fn start(&self, launch: Launch) -> TestServer {
        let temporary = self.temporary.path().to_str().expect("a plain path");
        let mut settings = format!(
            "[server]\ndrain_s = 0\n[job]\ngrace_s = 1\n[confinement]\nprofile = \"{}\"\n",
            self.profile
        );
        if self.limits == Limits::None {
            settings.push_str("[limits]\n");
            for name in ["memory", "processes", "open_files", "file_size"] {
                settings.push_str(&format!("{name} = \"none\"\n"));
            }
        }
        let launch = launch.structured().config(&settings).env("TMPDIR", temporary);
        match self.user {
            User::Same => launch.start(),
            User::Nobody => launch.unprivileged().start(),
        }
    }

    /// `true` if jobs here can start a process in this way. Only what is not there is left out.
    fn has(&self, way: &Way) -> bool {
        let is_present = is_found(way.program);
        assert!(is_present || !ALWAYS.contains(&way.program), "{} is missing", way.program);
        let is_root = self.user == User::Same && rustix::process::geteuid().is_root();
        is_present
            && match way.needs {
                Needs::Nothing => way.program != "perl" || cfg!(target_arch = "x86_64"),
                Needs::Root => is_root && !self.is_sandboxed(),
                Needs::Line(line) => !self.is_sandboxed() && self.succeeds(line),
            }
    }

    /// In the others nobody can become another user.
    fn is_sandboxed(&self) -> bool {
        !["none", "default"].contains(&self.profile)
    }

    fn succeeds(&self, line: &str) -> bool {
        let mut words: Vec<&str> = match self.user {
            User::Nobody if rustix::process::geteuid().is_root() => {
                vec!["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            }
            User::Same | User::Nobody => Vec::new(),
        };
        words.extend(["sh", "-c", line]);
        let run = Command::new(words[0]).args(&words[1..]).env_clear().env("PATH", PATH).output();
        run.is_ok_and(|run| run.status.success())
    }

    /// Starts a job that leaves a process behind in each way, and waits until all are there.
    #[track_caller]
    fn start_job(&self, server: &mut TestServer) -> (u64, Vec<Marker>) {
        self.try_job(server, 600).expect("it runs for longer than the test waits")
    }

    /// The same, with a job that is timed out by the time it is waited for.
    #[track_caller]
    fn start_short_job(&self, server: &mut TestServer) -> (u64, Vec<Marker>) {
        // On a busy machine not all of them are there in so short a time.
        let tried =
            [2, 8, 32, 64].into_iter().find_map(|timeout_s| self.try_job(server, timeout_s));
        tried.expect("a job that starts in time")
    }

    #[track_caller]
    fn try_job(&self, server: &mut TestServer, timeout_s: u64) -> Option<(u64, Vec<Marker>)> {
        let ways: Vec<&Way> = WAYS.iter().filter(|way| self.has(way)).collect();
        let markers: Vec<Marker> = ways.iter().map(|_| Marker::new()).collect();
        let lines: Vec<String> = ways
            .iter()
            .zip(&markers)
            .map(|(way, marker)| way.text.replace("MARKER", &marker.to_string()))
            .collect();
        let command = format!("{}\nsleep 3000", lines.join("\n"));
        let arguments = json!({"command": command, "wait_s": 0, "timeout_s": timeout_s});
        let job = server.call("run_command", arguments).ok().job();
        let limit = Instant::now() + Duration::from_secs(timeout_s).min(DEADLINE);
        while Instant::now() < limit {
            if !markers.iter().any(|marker| final_programs(marker).is_empty()) {
                return Some((job, markers));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let missing =
            ways.iter().zip(&markers).filter(|(_, marker)| final_programs(marker).is_empty());
        let missing: Vec<&str> = missing.map(|(way, _)| way.text).collect();
        assert!(timeout_s < DEADLINE.as_secs(), "not there in {self:?}: {missing:?}");
        server.wait_finished(job);
        None
    }
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn is_found(program: &str) -> bool {
    PATH.split(':').any(|dir| Path::new(dir).join(program).exists())
}

/// The processes of this marker that are their last program: `sleep`, or the one that is traced.
fn final_programs(marker: &Marker) -> Vec<i32> {
    let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let is_traced = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        name(pid) == "perl\n" && (stat.contains(") t ") || stat.contains(") T "))
    };
    let is_settled = |pid: &i32| name(pid) == "sleep\n" || is_traced(pid);
    let settled: Vec<i32> = marker.alive().into_iter().filter(is_settled).collect();
    // A shell that became another `sleep` in between has the marker no more.
    let alive = marker.alive();
    settled.into_iter().filter(|pid| alive.contains(pid)).collect()
}

#[track_caller]
fn assert_gone(markers: &[Marker], what: &str) {
    let left: Vec<i32> = markers.iter().flat_map(Marker::alive).collect();
    let named: Vec<String> = left
        .iter()
        .map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default())
        .collect();
    assert_eq!(left, Vec::<i32>::new(), "{what}: {named:?}");
}

#[track_caller]
fn assert_tree_ended(job: &Value, outcome: &str) {
    assert_eq!(job["outcome"], outcome, "{job}");
    assert!(job["killed"].as_str().is_some_and(|how| how.starts_with("tree ")), "{job}");
}

#[test]
fn whatever_left_its_job_ends_by_stop_by_timeout_and_with_the_input() {
    Cell::for_all(|cell| {
        let mut server = cell.start(Launch::stdio());
        let (job, markers) = cell.start_job(&mut server);
        let stopped = server.call("stop_jobs", json!({"jobs": [job], "grace_s": 1})).ok();
        assert_gone(&markers, &format!("stopped in {cell:?}"));
        assert_tree_ended(stopped.only_job(), "stopped");

        let (job, markers) = cell.start_short_job(&mut server);
        let ended = server.wait_finished(job);
        assert_gone(&markers, &format!("timed out in {cell:?}"));
        assert_tree_ended(&ended, "timed_out");

        let (_, markers) = cell.start_job(&mut server);
        server.stdio().hang_up();
        assert!(server.wait_exit().success());
        assert_gone(&markers, &format!("end of input in {cell:?}"));
    });
}

#[test]
fn whatever_left_its_job_ends_with_the_server_by_sigterm() {
    Cell::for_all(|cell| {
        let mut server = cell.start(Launch::http());
        let (_, markers) = cell.start_job(&mut server);
        server.signal(Signal::TERM);
        server.wait_exit();
        assert_gone(&markers, &format!("SIGTERM in {cell:?}"));
    });
}

#[test]
fn whatever_left_its_job_ends_after_a_server_that_was_killed() {
    Cell::for_all(|cell| {
        // The first process is a keeper, the second a server.
        for launch in [Launch::http as fn() -> Launch, Launch::stdio] {
            let mut server = cell.start(launch());
            let (_, markers) = cell.start_job(&mut server);
            server.signal(Signal::KILL);
            server.wait_exit();
            for marker in &markers {
                marker.wait_gone();
            }
        }
    });
}

#[test]
fn whatever_left_its_job_ends_with_the_keeper_of_a_stdio_server_and_so_does_the_server() {
    Cell::for_all(|cell| {
        let mut server = cell.start(Launch::stdio());
        let (_, markers) = cell.start_job(&mut server);
        signal(i32::try_from(server.keeper_pid()).expect("a pid fits"), Signal::KILL);
        server.wait_exit();
        for marker in &markers {
            marker.wait_gone();
        }
    });
}

#[test]
fn whatever_left_its_job_ends_when_the_server_is_killed_with_its_keeper() {
    Cell::for_all(|cell| {
        for launch in [Launch::http as fn() -> Launch, Launch::stdio] {
            let mut server = cell.start(launch());
            let (_, markers) = cell.start_job(&mut server);
            server.kill_with_keeper();
            for marker in &markers {
                marker.wait_gone();
            }
        }
    });
}

#[test]
fn whatever_left_its_job_ends_when_the_shim_of_the_job_is_killed_and_the_others_go_on() {
    Cell::for_all(|cell| {
        let mut server = cell.start(Launch::http());
        let (job, markers) = cell.start_job(&mut server);
        let shims = server.shims();
        let [shim] = &*shims else { panic!("one for the job: {shims:?}") };
        let other = Marker::new();
        let second = server.start(&format!("sleep {other}; exit 3"));
        other.wait_alive();
        signal(i32::try_from(*shim).expect("a pid fits"), Signal::KILL);
        let ended = server.wait_finished(job);
        assert_eq!(ended["outcome"], "lost", "{ended}");
        for marker in &markers {
            marker.wait_gone();
        }
        assert_eq!(other.sleeping(), 1, "another job goes on");
        server.call("stop_jobs", json!({"jobs": [second], "grace_s": 1})).ok();
        assert_eq!(server.wait_finished(second)["outcome"], "stopped");
    });
}

/// Ignores SIGTERM, and hands over to a child in a session of its own, again and again for a minute at
/// most: faster than /proc is scanned, so that a scan misses the process more often than not.
const RELAY: &str = "import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.001)
    if os.fork():
        os._exit(0)
    os.setsid()";

/// Starts a job with such a process in it, and waits until that has left the session.
#[track_caller]
fn start_relay(server: &mut TestServer) -> (u64, Marker) {
    let marker = Marker::new();
    let command =
        format!("python3 -c '{RELAY}' {marker} </dev/null >/dev/null 2>&1 & echo $!; sleep 3000");
    let job = server.start(&command);
    let first = eventually_some("it says its number", || {
        let page = server.call("read_output", json!({"job": job})).ok();
        page["output"].as_str()?.strip_suffix('\n')?.parse::<i32>().ok()
    });
    eventually("it has handed over", || marker.alive().iter().any(|pid| *pid != first));
    (job, marker)
}

#[test]
fn a_process_that_keeps_handing_over_is_gone_when_the_reply_says_so() {
    let cells = [
        Cell::without_cgroup(User::Same),
        Cell::without_cgroup(User::Nobody),
        Cell::new(User::Nobody, "default", Limits::Default),
    ];
    for cell in &cells {
        let mut server = cell.start(Launch::stdio());
        for _ in 0..4 {
            let (job, marker) = start_relay(&mut server);
            let stopped = server.call("stop_jobs", json!({"jobs": [job], "grace_s": 1})).ok();
            // One scan could miss it, as those of the server can.
            for _ in 0..30 {
                assert_gone(slice::from_ref(&marker), &format!("stopped in {cell:?}"));
                thread::sleep(Duration::from_millis(5));
            }
            assert_tree_ended(stopped.only_job(), "stopped");
        }
    }
}

/// Ends its main thread while another thread sleeps on: /proc shows such a process as a zombie.
const WITHOUT_MAIN_THREAD: &str = "import ctypes, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
ctypes.CDLL(None).pthread_exit(None)";

/// Two processes without a main thread, by their numbers: the leader of a job, and one that left it.
struct Headless([i32; 2]);

impl Headless {
    #[track_caller]
    fn start(server: &mut TestServer) -> (u64, Self) {
        let command = format!(
            "(setsid python3 -c '{WITHOUT_MAIN_THREAD}' </dev/null >/dev/null 2>&1 & echo $!)\n\
             echo $$\nexec python3 -c '{WITHOUT_MAIN_THREAD}'"
        );
        let job = server.start(&command);
        let headless = eventually_some("both say their numbers", || {
            let page = server.call("read_output", json!({"job": job})).ok();
            let lines: Vec<&str> = page["output"].as_str()?.split_inclusive('\n').collect();
            // A line that is not complete is not a whole number.
            let whole = lines.iter().filter_map(|line| line.strip_suffix('\n')?.parse().ok());
            Some(Self(whole.collect::<Vec<i32>>().try_into().ok()?))
        });
        eventually("both are without a main thread", || headless.alive().len() == 2);
        (job, headless)
    }

    /// The processes that are zombies with threads that live.
    fn alive(&self) -> Vec<i32> {
        let is_alive = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            let threads = field("Threads:").and_then(|text| text.trim().parse().ok());
            field("State:").is_some_and(|state| state.trim().starts_with('Z')) && threads > Some(1)
        };
        self.0.into_iter().filter(is_alive).collect()
    }
}

impl Drop for Headless {
    fn drop(&mut self) {
        for pid in self.alive() {
            signal(pid, Signal::KILL);
        }
    }
}

#[test]
fn processes_whose_main_thread_has_ended_end_by_stop_and_after_a_server_that_was_killed() {
    let cells = [User::Same, User::Nobody].into_iter().flat_map(|user| {
        // With a namespace of its own a job does not know the numbers that the host has for it.
        [Cell::without_cgroup(user), Cell::new(user, "none", Limits::Default)]
    });
    for cell in cells {
        let mut server = cell.start(Launch::http());
        let (job, headless) = Headless::start(&mut server);
        let stopped = server.call("stop_jobs", json!({"jobs": [job], "grace_s": 1})).ok();
        assert_eq!(headless.alive(), Vec::<i32>::new(), "stopped in {cell:?}");
        assert_tree_ended(stopped.only_job(), "stopped");

        let (_, headless) = Headless::start(&mut server);
        server.signal(Signal::KILL);
        server.wait_exit();
        eventually("nobody outlives the server", || headless.alive().is_empty());
    }
}

/// Leaves a process behind that carries no sign of its job.
fn shed(marker: &Marker) -> String {
    format!(
        "(setsid env -i prlimit --rttime=unlimited:unlimited sleep {marker} </dev/null >/dev/null 2>&1 &)\n\
         sleep 3000"
    )
}

#[test]
fn a_process_without_any_sign_of_its_job_ends_with_it_and_not_with_another() {
    let cell = Cell::without_cgroup(User::Same);
    let mut server = cell.start(Launch::http());
    let (own, other) = (Marker::new(), Marker::new());
    let first = server.start(&shed(&own));
    let second = server.start(&shed(&other));
    for marker in [&own, &other] {
        eventually("it is left behind", || !final_programs(marker).is_empty());
    }
    let stopped = server.call("stop_jobs", json!({"jobs": [first], "grace_s": 1})).ok();
    assert_tree_ended(stopped.only_job(), "stopped");
    assert_eq!(own.alive(), Vec::<i32>::new());
    assert_eq!(other.sleeping(), 1, "it belongs to the second job");
    let stopped = server.call("stop_jobs", json!({"jobs": [second], "grace_s": 1})).ok();
    assert_tree_ended(stopped.only_job(), "stopped");
    assert_eq!(other.alive(), Vec::<i32>::new());
}

#[test]
fn a_survivor_without_any_sign_of_its_job_is_listed_and_can_be_stopped() {
    for user in [User::Same, User::Nobody] {
        let cell = Cell::without_cgroup(user);
        let mut server = cell.start(Launch::stdio());
        let (marker, other) = (Marker::new(), Marker::new());
        let second = server.start(&format!("sleep {other}"));
        other.wait_alive();
        let text = shed(&marker).replace("sleep 3000", "echo done");
        let ended = server.run(&text);
        marker.wait_alive();
        assert_eq!(ended["background_pids"], json!(marker.alive()), "{}", ended.0);
        server.call("stop_jobs", json!({"jobs": [ended.job()], "grace_s": 1})).ok();
        assert_eq!(marker.alive(), Vec::<i32>::new());
        assert_eq!(other.sleeping(), 1, "another job goes on");
        server.call("stop_jobs", json!({"jobs": [second], "grace_s": 1})).ok();
    }
}
