//! Tests of keeper and server with real processes.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::test_server::{DEADLINE, OPEN_FILES, TestKeeper, is_alive, wait_until};

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
    // The keeper has a copy of the input, which must go too.
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
    assert_eq!(keeper.ask("kill a"), "[]");
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
    assert_eq!(keeper.ask("kill a"), "[]");
    assert_eq!(keeper.ask("survivors a"), "0");
    keeper.stop();
}

#[test]
fn a_process_that_was_never_registered_is_ended_by_the_next_server() {
    let keeper = start();
    keeper.ask("start a unkept echo up; setsid sleep 1008 & sleep 1009");
    keeper.ask("start b null echo up; sleep 1010");
    keeper.ask("read a up");
    keeper.ask("read b up");
    wait_until("all of them", || pids(&keeper.ask("pids a")).len() == 3);
    let members = pids(&keeper.ask("pids a"));
    keeper.kill_server();
    assert_eq!(keeper.ask("restored"), "b: ok\n.");
    assert!(members.iter().all(|pid| !is_alive(pid)), "{members:?}");
    assert_eq!(pids(&keeper.ask("pids b")).len(), 2);
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
    assert!(workspace.join("protected-file").symlink_metadata().is_ok());
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
    assert_eq!(keeper.ask("kill a"), "[]");
    let members = pids(&keeper.ask("pids b"));
    assert_eq!(members.len(), 3, "{members:?}");
    assert_ne!(keeper.ask("method b"), "walk");
    assert_eq!(keeper.ask("kill b"), "[]");
    assert_eq!(keeper.ask("wait b"), "Signal { signal: 9, core: false }");
    assert_eq!(keeper.ask("survivors b"), "0");
    keeper.ask("release a");
    keeper.ask("release b");
    wait_until("the end of the scratch directories", || entries() == 0);
    assert!(workspace.join("protected-file").symlink_metadata().is_err());
    keeper.stop();
}

#[test]
fn a_job_keeps_its_cgroup_and_others_are_removed() {
    let keeper = start();
    keeper.ask("start a limited grep ^0:: /proc/self/cgroup; sleep 1014");
    keeper.ask("start b limited exec sleep 1015");
    if keeper.ask("method a") != "cgroup" {
        // This host does not let us create cgroups.
        return keeper.stop();
    }
    let cgroup = keeper.ask("read a 0::");
    keeper.kill_server();
    expect_generation(&keeper, "2");
    assert_eq!(keeper.ask("method a"), "cgroup");
    keeper.ask("start c limited grep ^0:: /proc/self/cgroup; sleep 1016");
    assert_ne!(keeper.ask("read c 0::"), cgroup);
    let leader = keeper.ask("leader a");
    let now = fs::read_to_string(format!("/proc/{leader}/cgroup")).unwrap();
    assert!(now.contains(&cgroup), "{now}");
    assert_eq!(keeper.ask("kill a"), "[]");
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
    std::thread::spawn(move || {
        use std::io::Write as _;
        let control = std::os::unix::net::UnixStream::connect(dir.join("control"));
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
    keeper.set_mode("exit 0");
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
    let refused = keeper.ask("upgrade /nonexistent");
    assert!(refused.contains("No such file"), "{refused}");
    let own = std::env::current_exe().unwrap();
    let upgrade = |program: &str| {
        use std::io::Write as _;
        let control = std::os::unix::net::UnixStream::connect(keeper.dir.path().join("control"));
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
    assert_eq!(keeper.ask("wait b"), "Code(8)");
    keeper.ask("write a two");
    assert_eq!(keeper.ask("read a got"), "got two");
    assert_eq!(keeper.ask("wait a"), "Code(6)");
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
    assert!(members.iter().all(|pid| !is_alive(pid)), "{members:?}");
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
        std::thread::sleep(Duration::from_millis(20));
    }
    for number in 0..40 {
        keeper.ask(&format!("write j{number} w{number}"));
        assert_eq!(keeper.ask(&format!("rest j{number}")), format!("w{number}\n."));
        assert_eq!(keeper.ask(&format!("wait j{number}")), format!("Code({number})"));
        assert_eq!(keeper.ask(&format!("survivors j{number}")), "0");
    }
    keeper.stop();
}
