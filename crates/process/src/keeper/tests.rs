//! Tests of keeper and server with real processes: each is this test program again, in a process of
//! its own.
#![expect(unsafe_code, reason = "the program becomes a keeper or a server before `main`")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::{KeeperClient, KeeperLaunch, UPGRADE_EXIT_CODE, run_keeper};
use crate::confinement::{
    Backend, Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxPaths,
    SandboxProfile,
};
use crate::processes::pid_number;
use crate::sandbox::scratch::ScratchRoot;
use crate::{
    CommandLine, Deadline, EnvVariable, Host, KeptProcess, LaunchStdin, LeaderEnd, OutputPipe,
    Process, ProcessEvent, ProcessEvents, ProcessInput, ProcessLaunch, ProcessTree, SandboxSpec,
    StreamMode, TerminalSize,
};

/// Starts a keeper whose server takes commands.
fn start() -> TestKeeper {
    TestKeeper::start("normal")
}

fn pids(answer: &str) -> Vec<String> {
    let list = answer.trim_matches(['[', ']']);
    list.split(", ").filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Waits for the next server.
#[track_caller]
fn expect_generation(keeper: &TestKeeper, generation: &str) {
    wait_until("the next server", || keeper.ask("generation") == generation);
}

#[test]
fn a_server_that_cannot_start_ends_the_keeper_with_its_code() {
    for code in [3, 0] {
        let mut keeper = TestKeeper::start(&format!("exit {code}"));
        assert_eq!(keeper.wait().code(), Some(code));
    }
}

#[test]
fn a_running_job_goes_on_after_the_server_was_killed() {
    let keeper = start();
    keeper.ask("start a pipe echo one; read x; echo got $x; read y || echo closed; exit 7");
    assert_eq!(keeper.ask("read a one"), "one");
    keeper.kill_server();
    assert_eq!(keeper.ask("restored"), "a: ok\n.");
    assert_eq!(keeper.ask("generation"), "2");
    assert_eq!(keeper.ask("failure"), "Some(\"the server was ended by signal 9\")");
    keeper.ask("write a two");
    assert_eq!(keeper.ask("read a got"), "got two");
    // The shim has the other end of the input, which must go too.
    keeper.ask("close a");
    assert_eq!(keeper.ask("rest a"), "closed\n.");
    assert_eq!(keeper.ask("wait a"), "Code(7)");
    assert_eq!(keeper.ask("survivors a"), "0");
    keeper.ask("release a");
    keeper.kill_server();
    expect_generation(&keeper, "3");
    assert_eq!(keeper.ask("restored"), ".");
    keeper.stop();
}

#[test]
fn jobs_have_the_limit_on_open_files_that_the_keeper_was_started_with() {
    let keeper = start();
    keeper.ask("start a null ulimit -n");
    assert_eq!(keeper.ask("rest a"), format!("{OPEN_FILES}\n."));
    keeper.kill_server();
    expect_generation(&keeper, "2");
    keeper.ask("start b null ulimit -n");
    assert_eq!(keeper.ask("rest b"), format!("{OPEN_FILES}\n."));
    keeper.stop();
}

#[test]
fn a_keeper_without_descriptors_starts_no_job_and_goes_on() {
    let keeper = start();
    expect_generation(&keeper, "1");
    let limit = |current| {
        let limit = Rlimit { current: Some(current), maximum: Some(4000) };
        prlimit(Some(keeper.pid()), Resource::Nofile, limit).unwrap();
    };
    // No number below this is free.
    limit(3);
    let refused = keeper.ask("try-start a null echo hi");
    assert!(refused.contains("descriptors"), "{refused}");
    limit(4000);
    keeper.ask("start a null echo hi");
    assert_eq!(keeper.ask("rest a"), "hi\n.");
    keeper.stop();
}

#[test]
fn a_closed_input_stays_closed_and_an_open_one_open() {
    let keeper = start();
    keeper.ask("start a pipe cat; echo over; sleep 1000");
    keeper.ask("start b pipe cat");
    keeper.ask("close a");
    assert_eq!(keeper.ask("read a over"), "over");
    keeper.kill_server();
    assert_eq!(keeper.ask("restored"), "a: ok\nb: ok\n.");
    assert_eq!(keeper.ask("has-input a"), "false");
    keeper.ask("write b x");
    assert_eq!(keeper.ask("read b x"), "x");
    keeper.stop();
}

#[test]
fn a_process_whose_output_nobody_reads_gets_an_error() {
    let keeper = start();
    keeper.ask("start a pipe read x; exec yes");
    assert_eq!(keeper.ask("close-output a"), "true");
    keeper.ask("write a go");
    assert_eq!(keeper.ask("wait a"), "Signal { signal: 13, core: false }");
    keeper.stop();
}

#[test]
fn a_job_that_ended_while_no_server_ran_has_its_code_and_its_output() {
    let keeper = start();
    keeper.ask("start a null exec sleep 1024");
    let file = keeper.dir.path().join("go");
    let name = file.to_str().unwrap();
    let wait = format!("while [ ! -e {name}1 ]; do sleep 0.01; done");
    keeper.ask(&format!("start b null {wait}; echo last words; exit 9"));
    keeper.ask(&format!("start c null {wait}; kill -KILL $$"));
    let leaders = ["b", "c"].map(|job| keeper.ask(&format!("leader {job}")));
    keeper.set_mode("wait-for go2");
    keeper.kill_server();
    fs::write(format!("{name}1"), "").unwrap();
    wait_until("the end of both", || leaders.iter().all(|pid| !is_alive(pid)));
    fs::write(format!("{name}2"), "").unwrap();
    assert_eq!(keeper.ask("restored"), "a: ok\nb: ok\nc: ok\n.");
    assert_eq!(keeper.ask("wait b"), "Code(9)");
    assert_eq!(keeper.ask("rest b"), "last words\n.");
    assert_eq!(keeper.ask("wait c"), "Signal { signal: 9, core: false }");
    assert_eq!(keeper.ask("survivors b"), "0");
    assert_eq!(pids(&keeper.ask("pids a")).len(), 1);
    // Nobody has released them: the third server hears of them too.
    keeper.kill_server();
    expect_generation(&keeper, "3");
    assert_eq!(keeper.ask("wait b"), "Code(9)");
    keeper.stop();
}

#[test]
fn a_status_that_the_server_took_is_known_to_the_next_one() {
    let keeper = start();
    keeper.ask("start a null echo x; exit 5");
    assert_eq!(keeper.ask("wait a"), "Code(5)");
    keeper.kill_server();
    assert_eq!(keeper.ask("restored"), "a: ok\n.");
    assert_eq!(keeper.ask("rest a"), "x\n.");
    assert_eq!(keeper.ask("wait a"), "Code(5)");
    keeper.stop();
}

#[test]
fn input_that_a_slow_reader_has_not_taken_outlives_the_server() {
    let keeper = start();
    keeper.ask("start a pipe echo up; read go; wc -c");
    keeper.ask("read a up");
    keeper.ask("write a go");
    keeper.ask("start b pipe echo up; sleep 0.5; wc -c");
    keeper.ask("read b up");
    for job in ["a", "b"] {
        keeper.ask(&format!("text {job} 300000"));
        keeper.ask(&format!("text {job} 50"));
    }
    keeper.kill_server();
    expect_generation(&keeper, "2");
    for job in ["a", "b"] {
        keeper.ask(&format!("close {job}"));
        assert_eq!(keeper.ask(&format!("rest {job}")), "300050\n.");
        assert_eq!(keeper.ask(&format!("wait {job}")), "Code(0)");
    }
    keeper.stop();
}

/// Shell text that ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM; echo up; while :; do sleep 0.05; done";

#[test]
fn a_stop_outlives_the_server_with_its_grace_period_and_its_cause() {
    let keeper = start();
    keeper.ask(&format!("start a null {STUBBORN}"));
    keeper.ask("read a up");
    keeper.ask("stop a 1500 enough");
    keeper.kill_server();
    assert_eq!(keeper.ask("restored"), "a: ok\n.");
    assert_eq!(keeper.ask("wait a"), "Signal { signal: 9, core: false }");
    assert_eq!(keeper.ask("cause a"), "Some(Order(\"enough\"))");
    let after: u32 = keeper.ask("killed-after a").parse().unwrap();
    assert!((1500..4000).contains(&after), "{after}");
    keeper.stop();
}

#[test]
fn a_deadline_while_no_server_runs_is_the_cause_of_the_end() {
    let keeper = start();
    keeper.ask(&format!("start a deadline {STUBBORN}"));
    keeper.ask("start b deadline trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done");
    keeper.ask("read a up");
    let leaders = ["a", "b"].map(|job| keeper.ask(&format!("leader {job}")));
    keeper.set_mode("wait-for go");
    keeper.kill_server();
    wait_until("the end of both", || leaders.iter().all(|pid| !is_alive(pid)));
    fs::write(keeper.dir.path().join("go"), "").unwrap();
    assert_eq!(keeper.ask("restored"), "a: ok\nb: ok\n.");
    assert_eq!(keeper.ask("wait a"), "Signal { signal: 9, core: false }");
    assert_eq!(keeper.ask("wait b"), "Code(0)");
    for job in ["a", "b"] {
        assert_eq!(keeper.ask(&format!("cause {job}")), "Some(Deadline)");
    }
    keeper.stop();
}

#[test]
fn a_job_whose_shim_was_killed_is_lost_and_the_others_are_not() {
    let keeper = start();
    keeper.ask("start a null setsid sleep 1025 & echo up; wait");
    keeper.ask("start b null exec sleep 1026");
    keeper.ask("read a up");
    let members = pids(&keeper.ask("pids a"));
    let shim: i32 = keeper.ask("shim a").parse().unwrap();
    keeper.set_mode("wait-for go");
    keeper.kill_server();
    kill_process(Pid::from_raw(shim).unwrap(), Signal::KILL).unwrap();
    wait_until("the end of all", || members.iter().all(|pid| !is_alive(pid)));
    fs::write(keeper.dir.path().join("go"), "").unwrap();
    let restored = keeper.ask("restored");
    assert!(restored.starts_with("a: the process that holds it was killed"), "{restored}");
    assert!(restored.ends_with("b: ok\n."), "{restored}");
    keeper.stop();
}

#[test]
fn signals_that_the_keeper_does_not_use_end_no_job() {
    let keeper = start();
    keeper.ask("start a null exec sleep 1027");
    let server = keeper.server_pid();
    for signal in [
        Signal::USR1,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::XCPU,
        Signal::SYS,
        Signal::PIPE,
        Signal::IO,
    ] {
        kill_process(keeper.pid(), signal).unwrap();
    }
    let shim = Pid::from_raw(keeper.ask("shim a").parse().unwrap()).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::ALARM] {
        kill_process(shim, signal).unwrap();
    }
    thread::sleep(Duration::from_millis(100));
    assert_eq!(keeper.server_pid(), server);
    assert_eq!(pids(&keeper.ask("pids a")).len(), 1);
    keeper.stop();
}

#[test]
fn a_terminal_goes_on() {
    let keeper = start();
    keeper.ask("start a terminal stty -echo; echo ready; read x; echo got $x; test -t 0; exit $?");
    keeper.ask("read a ready");
    keeper.kill_server();
    assert_eq!(keeper.ask("restored"), "a: ok\n.");
    keeper.ask("write a word");
    assert_eq!(keeper.ask("read a got"), "got word");
    assert_eq!(keeper.ask("wait a"), "Code(0)");
    keeper.stop();
}

#[test]
fn a_kill_ends_the_whole_tree_of_an_earlier_server() {
    let keeper = start();
    let text = "setsid sleep 1001 & (sh -c 'setsid sleep 1002 & exit') & env -i /usr/bin/sleep 1003 & echo up; sleep 1004";
    keeper.ask(&format!("start a null {text}"));
    keeper.ask("start b null echo up; sleep 1005");
    keeper.ask("read a up");
    keeper.ask("read b up");
    wait_until("all of them", || pids(&keeper.ask("pids a")).len() == 5);
    keeper.kill_server();
    expect_generation(&keeper, "2");
    let members = pids(&keeper.ask("pids a"));
    assert_eq!(members.len(), 5, "{members:?}");
    let other = pids(&keeper.ask("pids b"));
    assert_eq!(other.len(), 2, "{other:?}");
    assert_eq!(keeper.ask("kill a"), "true");
    assert!(members.iter().all(|pid| !is_alive(pid)), "{members:?}");
    assert_eq!(keeper.ask("wait a"), "Signal { signal: 9, core: false }");
    assert_eq!(keeper.ask("survivors a"), "0");
    assert!(other.iter().all(|pid| is_alive(pid)), "{other:?}");
    keeper.stop();
    wait_until("the end of the other", || other.iter().all(|pid| !is_alive(pid)));
}

#[test]
fn survivors_of_a_leader_are_found_after_a_restart() {
    let keeper = start();
    keeper.ask(
        "start a pipe setsid sleep 1006 >/dev/null 2>&1 & sleep 1007 & echo up; read x; exit 4",
    );
    keeper.ask("read a up");
    keeper.kill_server();
    expect_generation(&keeper, "2");
    keeper.ask("write a go");
    assert_eq!(keeper.ask("wait a"), "Code(4)");
    assert_eq!(keeper.ask("survivors a"), "2");
    assert_eq!(keeper.ask("kill a"), "true");
    assert_eq!(keeper.ask("survivors a"), "0");
    keeper.stop();
}

#[test]
fn a_namespaced_job_goes_on_with_its_sandbox() {
    let keeper = start();
    let workspace = keeper.dir.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    let loop_text = "echo kept > $TMPDIR/file; echo up; while [ ! -e go ]; do sleep 0.01; done";
    keeper.ask(&format!("start a namespaces {loop_text}; cat $TMPDIR/file; sleep 1011 & exit 3"));
    keeper.ask("read a up");
    keeper.ask("start b namespaces setsid sleep 1012 & echo up; sleep 1013");
    keeper.ask("read b up");
    wait_until("all of them", || pids(&keeper.ask("pids b")).len() == 3);
    let scratch = keeper.ask("scratch");
    let entries = || {
        let root = scratch.trim_start_matches("Some(\"").trim_end_matches("\")");
        let all = fs::read_dir(root).into_iter().flatten().flatten();
        all.filter(|entry| entry.file_type().unwrap().is_dir()).count()
    };
    assert_eq!(entries(), 2);
    keeper.kill_server();
    assert_eq!(keeper.ask("restored"), "a: ok\nb: ok\n.");
    assert_eq!(keeper.ask("scratch"), scratch);
    assert_eq!(entries(), 2);
    fs::write(workspace.join("go"), "").unwrap();
    assert_eq!(keeper.ask("read a kept"), "kept");
    assert_eq!(keeper.ask("wait a"), "Code(3)");
    assert_eq!(keeper.ask("survivors a"), "1");
    assert_eq!(keeper.ask("kill a"), "true");
    let members = pids(&keeper.ask("pids b"));
    assert_eq!(members.len(), 3, "{members:?}");
    assert_eq!(keeper.ask("kill b"), "true");
    assert_eq!(keeper.ask("wait b"), "Signal { signal: 9, core: false }");
    assert_eq!(keeper.ask("survivors b"), "0");
    keeper.ask("release a");
    keeper.ask("release b");
    wait_until("the end of the scratch directories", || entries() == 0);
    keeper.stop();
}

#[test]
fn a_job_keeps_its_cgroup_and_others_are_removed() {
    let keeper = start();
    keeper.ask("start a limited grep ^0:: /proc/self/cgroup; sleep 1014");
    keeper.ask("start b limited exec sleep 1015");
    let cgroup = keeper.ask("read a 0::");
    if !cgroup.contains("/shellyard-") {
        // This host does not let us create cgroups.
        return keeper.stop();
    }
    keeper.kill_server();
    expect_generation(&keeper, "2");
    keeper.ask("start c limited grep ^0:: /proc/self/cgroup; sleep 1016");
    assert_ne!(keeper.ask("read c 0::"), cgroup);
    let leader = keeper.ask("leader a");
    let now = fs::read_to_string(format!("/proc/{leader}/cgroup")).unwrap();
    assert!(now.contains(&cgroup), "{now}");
    assert_eq!(keeper.ask("kill a"), "true");
    assert_eq!(keeper.ask("wait a"), "Signal { signal: 9, core: false }");
    assert_eq!(pids(&keeper.ask("pids b")).len(), 1);
    keeper.stop();
}

#[test]
fn signals_are_forwarded_and_an_end_is_reported() {
    let mut keeper = start();
    keeper.ask("start a null sleep 1017");
    let members = pids(&keeper.ask("pids a"));
    assert_eq!(keeper.ask("hangups"), "0");
    // The keeper forwards none before it knows that the server is ready.
    wait_until("the signal", || {
        kill_process(keeper.pid(), Signal::HUP).unwrap();
        keeper.ask("hangups") != "0"
    });
    kill_process(keeper.pid(), Signal::TERM).unwrap();
    assert_eq!(keeper.wait().code(), Some(0));
    assert!(members.iter().all(|pid| !is_alive(pid)), "{members:?}");
}

#[test]
fn a_server_that_ends_by_itself_leaves_nothing() {
    let mut keeper = start();
    keeper.ask("start a null sleep 1018");
    let members = pids(&keeper.ask("pids a"));
    let server = keeper.server_pid();
    let dir = keeper.dir.path().to_owned();
    thread::spawn(move || {
        use std::io::Write as _;
        let control = UnixStream::connect(dir.join("control"));
        control.unwrap().write_all(b"end").unwrap();
    });
    assert_eq!(keeper.wait().code(), Some(0));
    assert!(!is_alive(&server.to_string()));
    assert!(members.iter().all(|pid| !is_alive(pid)), "{members:?}");
    let left: Vec<_> = fs::read_dir(keeper.dir.path()).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_type().unwrap().is_dir()), "{left:?}");
}

#[test]
fn a_keeper_that_gives_up_ends_all_jobs() {
    let mut keeper = start();
    keeper.ask("start a null setsid sleep 1019 & sleep 1020");
    wait_until("both", || pids(&keeper.ask("pids a")).len() == 3);
    let members = pids(&keeper.ask("pids a"));
    let server = keeper.server_pid();
    keeper.set_mode("crash always");
    kill_process(server, Signal::ABORT).unwrap();
    assert_eq!(keeper.wait().code(), Some(1));
    assert!(members.iter().all(|pid| !is_alive(pid)), "{members:?}");
    let left: Vec<_> = fs::read_dir(keeper.dir.path()).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_type().unwrap().is_dir()), "{left:?}");
}

#[test]
fn an_upgrade_keeps_jobs_and_a_failed_one_is_explained() {
    let keeper = start();
    keeper.ask("start a pipe echo one; read x; echo got $x; exit 6");
    keeper.ask("start b null exit 8");
    keeper.ask("read a one");
    let own = std::env::current_exe().unwrap();
    let upgrade = |program: &str| {
        use std::io::Write as _;
        let control = UnixStream::connect(keeper.dir.path().join("control"));
        control.unwrap().write_all(format!("upgrade {program}").as_bytes()).unwrap();
    };
    upgrade(own.to_str().unwrap());
    expect_generation(&keeper, "2");
    assert_eq!(keeper.ask("failure"), "None");
    assert_eq!(keeper.ask("restored"), "a: ok\nb: ok\n.");
    upgrade("/bin/false");
    expect_generation(&keeper, "4");
    assert_eq!(keeper.ask("failure"), "Some(\"the new program exited with code 1\")");
    assert_eq!(keeper.ask("restored"), "a: ok\nb: ok\n.");
    upgrade("/nonexistent");
    expect_generation(&keeper, "6");
    let failure = keeper.ask("failure");
    assert!(failure.contains("could not be started: No such file"), "{failure}");
    assert_eq!(keeper.ask("wait b"), "Code(8)");
    keeper.ask("write a two");
    assert_eq!(keeper.ask("read a got"), "got two");
    assert_eq!(keeper.ask("wait a"), "Code(6)");
    keeper.stop();
}

#[test]
fn a_server_after_one_that_ended_everything_can_start_jobs() {
    let keeper = start();
    keeper.ask("start a null sleep 1000");
    assert_eq!(keeper.ask("sweep"), "[]");
    keeper.kill_server();
    expect_generation(&keeper, "2");
    keeper.ask("start b pipe read x; echo got $x");
    keeper.ask("write b this");
    assert_eq!(keeper.ask("rest b"), "got this\n.");
    keeper.stop();
}

#[test]
fn a_server_without_its_keeper_ends_its_jobs_and_itself() {
    let mut keeper = start();
    keeper.ask("start a null echo up; setsid sleep 1021 & sleep 1022");
    keeper.ask("read a up");
    keeper.kill_server();
    expect_generation(&keeper, "2");
    keeper.ask("start b null exec sleep 1023");
    let server = keeper.server_pid().to_string();
    wait_until("all of a", || pids(&keeper.ask("pids a")).len() == 3);
    let members: Vec<_> =
        ["a", "b"].iter().flat_map(|job| pids(&keeper.ask(&format!("pids {job}")))).collect();
    assert_eq!(members.len(), 4, "{members:?}");
    kill_process(keeper.pid(), Signal::KILL).unwrap();
    assert_eq!(keeper.wait().code(), None);
    wait_until("the end of the server", || !is_alive(&server));
    wait_until("the end of the jobs", || members.iter().all(|pid| !is_alive(pid)));
}

#[test]
fn the_service_manager_hears_that_the_server_is_ready() {
    // The socket is in the directory of the keeper, so it is bound after the keeper's start.
    let keeper = TestKeeper::start("wait-for bound");
    let socket = UnixDatagram::bind(keeper.dir.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    fs::write(keeper.dir.path().join("bound"), "").unwrap();
    let mut message = [0; 64];
    let length = socket.recv(&mut message).unwrap();
    assert_eq!(&message[..length], b"READY=1");
    keeper.stop();
}

#[test]
fn many_jobs_survive_many_crashes() {
    let keeper = start();
    for number in 0..40 {
        keeper.ask(&format!("start j{number} pipe read x; echo $x; exit {number}"));
    }
    for _ in 0..5 {
        keeper.kill_server();
        thread::sleep(Duration::from_millis(20));
    }
    for number in 0..40 {
        keeper.ask(&format!("write j{number} w{number}"));
        assert_eq!(keeper.ask(&format!("rest j{number}")), format!("w{number}\n."));
        assert_eq!(keeper.ask(&format!("wait j{number}")), format!("Code({number})"));
        assert_eq!(keeper.ask(&format!("survivors j{number}")), "0");
    }
    keeper.stop();
}

const DEADLINE: Duration = Duration::from_secs(60);

/// The limit on open files that the keeper is started with.
const OPEN_FILES: u64 = 700;

const KEEPER_ARG: &str = "__test_keeper";
const SERVER_ARG: &str = "__test_server";

/// Tests start keeper and server from their own program, whose `main` is not ours.
#[used]
// SAFETY: the loader calls each function in this section once, before `main`, on the only thread;
// the standard library has read the arguments by then.
#[unsafe(link_section = ".init_array")]
static TEST_PROCESSES: extern "C" fn() = {
    extern "C" fn run_if_requested() {
        let args: Vec<OsString> = std::env::args_os().skip(1).collect();
        let [first, dir] = args.as_slice() else { return };
        if first == KEEPER_ARG {
            let code = run_test_keeper(dir.into());
            std::process::exit(i32::from(code != ExitCode::SUCCESS) * keeper_code(code));
        }
        if first == SERVER_ARG {
            TestServer::run(Path::new(dir));
        }
    }
    run_if_requested
};

/// Returns the number in an exit code, which has no other way out.
fn keeper_code(code: ExitCode) -> i32 {
    let text = format!("{code:?}");
    text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(1)
}

fn run_test_keeper(dir: OsString) -> ExitCode {
    run_keeper(KeeperLaunch {
        program: "/proc/self/exe".into(),
        args: vec![SERVER_ARG.into(), dir],
        env: std::env::vars_os().collect(),
    })
}

/// A keeper with its server, as a test sees them.
#[derive(Debug)]
struct TestKeeper {
    process: Child,
    dir: TempDir,
}

impl TestKeeper {
    /// Starts a keeper, and returns before its server is ready. The server reads `mode` when it
    /// starts.
    fn start(mode: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mode"), mode).unwrap();
        let own = std::env::current_exe().unwrap();
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={OPEN_FILES}:4000")).arg(own);
        command.arg(KEEPER_ARG).arg(dir.path()).stdin(Stdio::null());
        command.env("NOTIFY_SOCKET", dir.path().join("notify"));
        Self { process: command.spawn().unwrap(), dir }
    }

    fn set_mode(&self, mode: &str) {
        fs::write(self.dir.path().join("mode"), mode).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed()).unwrap()
    }

    /// Sends a command to the server, and returns its answer; waits while no server is there.
    #[track_caller]
    fn ask(&self, command: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        let mut answer = String::new();
        while answer.is_empty() {
            assert!(Instant::now() < deadline, "no answer: {command}");
            if let Ok(mut server) = UnixStream::connect(self.dir.path().join("control")) {
                server.set_read_timeout(Some(DEADLINE)).unwrap();
                // A server that is killed right now does not answer.
                server.write_all(command.as_bytes()).ok();
                server.shutdown(std::net::Shutdown::Write).ok();
                server.read_to_string(&mut answer).ok();
            } else {
                thread::sleep(Duration::from_millis(5));
            }
        }
        answer.trim_end().to_owned()
    }

    fn server_pid(&self) -> Pid {
        Pid::from_raw(self.ask("pid").parse().unwrap()).unwrap()
    }

    /// Kills the server as a crash would.
    fn kill_server(&self) {
        kill_process(self.server_pid(), Signal::KILL).unwrap();
    }

    /// Waits for the end of the keeper.
    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the keeper does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops everything, and checks that the keeper ends well.
    #[track_caller]
    fn stop(mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        assert_eq!(self.wait().code(), Some(0));
    }
}

impl Drop for TestKeeper {
    fn drop(&mut self) {
        if thread::panicking() {
            // The server then ends its jobs.
            self.process.kill().ok();
            self.process.wait().ok();
        }
    }
}

/// `true` while this very process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The server of a test: it does what the test asks it to.
struct TestServer {
    keeper: KeeperClient,
    host: Host,
    dir: PathBuf,
    jobs: HashMap<String, TestJob>,
    hangups: Arc<AtomicUsize>,
    scratch: Option<ScratchRoot>,
    restored: String,
}

/// A job in its parts.
struct TestJob {
    events: ProcessEvents,
    end: Option<LeaderEnd>,
    tree: ProcessTree,
    stdout: Option<OutputPipe>,
    stdin: Option<ProcessInput>,
    _rest: (Option<OutputPipe>, Option<crate::PipelineReport>),
}

impl From<Process> for TestJob {
    fn from(process: Process) -> Self {
        Self {
            events: process.events,
            end: None,
            tree: process.tree,
            stdout: Some(process.stdout),
            stdin: process.stdin,
            _rest: (process.stderr, process.report),
        }
    }
}

impl TestJob {
    /// Waits for the end of the first process.
    async fn wait(&mut self) -> LeaderEnd {
        while self.end.is_none() {
            let event = tokio::time::timeout(DEADLINE, self.events.next()).await.unwrap();
            match event {
                ProcessEvent::LeaderExited(end) => self.end = Some(end),
                ProcessEvent::ShimLost | ProcessEvent::StartFailed { .. } => panic!("{event:?}"),
                ProcessEvent::Ending(_)
                | ProcessEvent::Over(_)
                | ProcessEvent::InputWritten { .. }
                | ProcessEvent::InputClosed
                | ProcessEvent::Gate(_) => {}
            }
        }
        self.end.clone().unwrap()
    }
}

impl TestServer {
    /// Runs the server until a command ends it.
    fn run(dir: &Path) -> ! {
        let keeper = KeeperClient::from_environment().unwrap().unwrap();
        let mode = fs::read_to_string(dir.join("mode")).unwrap();
        match mode.split_once(' ') {
            Some(("exit", code)) => std::process::exit(code.parse().unwrap()),
            Some(("crash", _)) => std::process::abort(),
            Some(("wait-for", file)) => wait_until(file, || dir.join(file).exists()),
            _ => {}
        }
        assert!(std::env::vars_os().all(|(name, _)| name != super::protocol::KEEPER_VARIABLE));
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        let hangups = Arc::new(AtomicUsize::new(0));
        runtime.spawn(count_hangups(Arc::clone(&hangups)));
        let watched = keeper.clone();
        let host = Host::new_kept(keeper.clone());
        let scratch = host.make_scratch_root(dir).ok();
        let listener = open_listener(&keeper, dir);
        let mut server = Self {
            keeper,
            host,
            dir: dir.to_owned(),
            jobs: HashMap::new(),
            hangups,
            scratch,
            restored: String::new(),
        };
        for KeptProcess { name, process } in server.host.take_kept_processes() {
            let outcome = process.as_ref().map_or_else(String::as_str, |_| "ok");
            writeln!(server.restored, "{name}: {outcome}").unwrap();
            if let Ok(process) = process {
                server.jobs.insert(name, process.into());
            }
        }
        server.keeper.set_ready().unwrap();
        let server = Arc::new(std::sync::Mutex::new(server));
        let ending = Arc::clone(&server);
        let end_all = move || {
            let alive = ending.lock().unwrap().host.end_everything();
            std::process::exit(i32::from(!alive.is_empty()));
        };
        watched.watch_end(end_all).unwrap();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut command = String::new();
            connection.read_to_string(&mut command).unwrap();
            let mut server = server.lock().unwrap();
            let answer = runtime.block_on(server.answer(&command));
            writeln!(connection, "{answer}").ok();
        }
        std::process::exit(1)
    }

    async fn answer(&mut self, command: &str) -> String {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let Some(job) = self.jobs.get_mut(name) else {
            return self.answer_for_server(word, name, rest);
        };
        match word {
            "read" => read_until(job.stdout.as_mut().unwrap(), rest).await,
            "rest" => {
                let mut text = Vec::new();
                let mut stdout = job.stdout.take().unwrap();
                stdout.read_to_end(&mut text).await.unwrap();
                String::from_utf8(text).unwrap() + "."
            }
            "write" => {
                let stdin = job.stdin.as_mut().unwrap();
                stdin.send(format!("{rest}\n").as_bytes()).unwrap();
                "ok".to_owned()
            }
            "close" => {
                drop(job.stdin.take().unwrap());
                "ok".to_owned()
            }
            "close-output" => format!("{}", job.stdout.take().is_some()),
            "has-input" => job.stdin.is_some().to_string(),
            "wait" => format!("{:?}", job.wait().await.exit.status),
            "cause" => format!("{:?}", job.wait().await.note.cause),
            "killed-after" => {
                format!("{:?}", job.wait().await.note.killed_after.unwrap().as_millis())
            }
            "stop" => {
                let (grace, cause) = rest.split_once(' ').unwrap();
                let grace = Duration::from_millis(grace.parse().unwrap());
                job.tree.stop(libc::SIGTERM, grace, cause.to_owned()).unwrap();
                "ok".to_owned()
            }
            "text" => {
                let text = "x".repeat(rest.parse().unwrap());
                job.stdin.as_mut().unwrap().send(text.as_bytes()).unwrap();
                "ok".to_owned()
            }
            "survivors" => job.tree.living_pids().len().to_string(),
            "leader" => job.tree.leader_pid().unwrap().to_string(),
            "pids" => format!("{:?}", job.tree.living_pids()),
            "shim" => pid_number(job.tree.link().shim_pid().unwrap()).to_string(),
            "kill" => job.tree.kill().to_string(),
            "release" => {
                job.tree.release();
                drop(self.jobs.remove(name));
                "ok".to_owned()
            }
            other => panic!("{other}"),
        }
    }

    fn answer_for_server(&mut self, word: &str, name: &str, rest: &str) -> String {
        match word {
            "start" => {
                let (kind, text) = rest.split_once(' ').unwrap();
                let process = self.host.spawn(&self.launch(name, kind, text)).unwrap();
                self.jobs.insert(name.to_owned(), process.into());
                "ok".to_owned()
            }
            "try-start" => {
                let (kind, text) = rest.split_once(' ').unwrap();
                self.host.spawn(&self.launch(name, kind, text)).unwrap_err().to_string()
            }
            "pid" => std::process::id().to_string(),
            "generation" => self.keeper.generation().to_string(),
            "failure" => format!("{:?}", self.keeper.last_failure()),
            "restored" => format!("{}.", self.restored),
            "hangups" => self.hangups.load(Ordering::Relaxed).to_string(),
            "scratch" => format!("{:?}", self.scratch.as_ref().map(ScratchRoot::path)),
            "exit" => std::process::exit(name.parse().unwrap()),
            "sweep" => format!("{:?}", self.host.end_everything()),
            "end" => {
                let alive = self.host.end_everything();
                self.host.cgroups().clean_up();
                drop(self.scratch.take());
                std::process::exit(i32::from(!alive.is_empty()))
            }
            "upgrade" => match self.keeper.request_upgrade(Path::new(name)) {
                Err(error) => error.to_string(),
                Ok(()) => {
                    self.keeper.begin_handover();
                    // As a runtime that ends drops everything.
                    self.jobs.clear();
                    drop(self.scratch.take());
                    self.host.cgroups().clean_up();
                    std::process::exit(i32::from(UPGRADE_EXIT_CODE))
                }
            },
            other => panic!("{other} {name}"),
        }
    }

    fn launch(&self, name: &str, kind: &str, text: &str) -> ProcessLaunch {
        let path = EnvVariable::new("PATH", "/usr/local/bin:/usr/bin:/bin").unwrap();
        let stdin = match kind {
            "pipe" => LaunchStdin::Pipe,
            "terminal" => LaunchStdin::Terminal(TerminalSize::DEFAULT),
            _ => LaunchStdin::Null,
        };
        let mut sandbox = SandboxSpec::none();
        if kind == "limited" {
            sandbox.limits = ResourceLimits { open_files: Some(999), ..ResourceLimits::NONE };
        }
        if kind == "namespaces" {
            let given =
                Confinement { profile: SandboxProfile::WorkspaceWrite, network: NetworkAccess::On };
            let backend = Backend::Namespaces;
            sandbox.granted = GrantedConfinement { requested: given, effective: given, backend };
            let scratch = self.scratch.as_ref().unwrap().path().to_owned();
            let workspace = vec![self.dir.join("workspace")];
            let protected = vec!["protected-file".into()];
            sandbox.paths =
                Arc::new(SandboxPaths { scratch, workspace, protected, ..SandboxPaths::default() });
        }
        let deadline =
            Deadline { timeout: Duration::from_millis(700), grace: Duration::from_millis(300) };
        ProcessLaunch {
            command: CommandLine::new_direct("sh", ["-c", text]),
            env: vec![path],
            cwd: if kind == "namespaces" { self.dir.join("workspace") } else { "/".into() }.into(),
            stdin,
            streams: StreamMode::Separate,
            sandbox,
            user: None,
            keep_as: Some(name.to_owned()),
            deadline: (kind == "deadline").then_some(deadline),
            gate: None,
        }
    }
}

/// Returns the listener of an earlier server, or a new one that the keeper holds for the next.
fn open_listener(keeper: &KeeperClient, dir: &Path) -> UnixListener {
    let held: Option<OwnedFd> = keeper.take_file("listener");
    held.map(UnixListener::from).unwrap_or_else(|| {
        let listener = UnixListener::bind(dir.join("control")).unwrap();
        keeper.hold_file("listener", listener.as_fd()).unwrap();
        listener
    })
}

async fn count_hangups(count: Arc<AtomicUsize>) {
    let mut hangups = signal(SignalKind::hangup()).unwrap();
    while hangups.recv().await.is_some() {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads until the output contains this text, and returns it all.
async fn read_until(pipe: &mut OutputPipe, text: &str) -> String {
    let mut read = String::new();
    while !read.contains(text) {
        let mut piece = [0; 4096];
        let length = tokio::time::timeout(DEADLINE, pipe.read(&mut piece)).await.unwrap().unwrap();
        assert!(length > 0, "the output ended: {read}");
        read.push_str(str::from_utf8(&piece[..length]).unwrap());
    }
    read
}
