//! A data directory that is full, read-only or gone: jobs go on, and the server says so.

use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::DurableClient;
use super::disturbance::crash;
use crate::harness::{
    Launch, Sandbox, TestServer, eventually, eventually_some, private_dir, run_program, text,
};

/// A small file system for a data directory; unmounted on drop.
#[derive(Debug)]
struct DataDisk {
    dir: tempfile::TempDir,
}

#[track_caller]
fn mount(words: &[&str], path: &Path) {
    let mounted = Command::new("mount").args(words).arg(path).stderr(Stdio::null()).status();
    let is_mounted = mounted.expect("mount runs").success();
    assert!(is_mounted, "this test mounts a tmpfs: run it as root, or under `unshare -rm`");
}

impl DataDisk {
    #[track_caller]
    fn new(size: &str) -> Self {
        let dir = private_dir();
        mount(&["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "tmpfs"], dir.path());
        fs::create_dir(dir.path().join("data")).expect("ours");
        let disk = Self { dir };
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(disk.data(), mode).expect("ours");
        disk
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let mut file = fs::File::create(self.dir.path().join("filler")).expect("ours");
        let block = vec![0; 4096];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
    }

    fn clear(&self) {
        fs::remove_file(self.dir.path().join("filler")).expect("ours");
    }

    #[track_caller]
    fn remount(&self, option: &str) {
        mount(&["-o", &format!("remount,{option}")], self.dir.path());
    }
}

impl Drop for DataDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.dir.path()).status().ok();
    }
}

/// Runs jobs while the directory cannot be written: they run, and their callers see their output.
#[track_caller]
fn check_jobs_go_on(server: &mut TestServer, running: u64, what: &str) {
    for number in 1..=3 {
        let reply =
            server.call("run_command", json!({"command": format!("echo {number}; exit 5")}));
        // A server that cannot record a job may refuse it, but not lose it.
        if !reply.is_error() {
            let shown = (&reply["exit_code"], &reply["output"]);
            assert_eq!(shown, (&json!(5), &json!(format!("{number}\n"))), "{what}: {}", reply.0);
        }
    }
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    let status = server.wait_finished(running);
    assert_eq!(status["exit_code"], 11, "{what}: {status}");
}

const RUNNING: &str = "echo begun; while [ ! -e gate ]; do sleep 0.05; done; echo done; exit 11";

/// Checks that jobs are recorded again: they survive a crash.
#[track_caller]
fn check_recovered(server: &mut TestServer, known: u64, what: &str) {
    let job = eventually_some(&format!("{what}: a job is taken"), || {
        let reply = server.call("run_command", json!({"command": "echo after"}));
        (!reply.is_error()).then(|| reply.job())
    });
    for job in [known, job] {
        eventually(&format!("{what}: the ending of job {job} is recorded"), || {
            has_ending(server.data(), job)
        });
    }
    crash(server);
    let mut client = DurableClient::new(server.http().address());
    assert_eq!(client.read_all(job).1, b"after\n", "{what}");
    assert_eq!(client.status(known)["exit_code"], 11, "{what}: its ending was written late");
}

/// `true` if the journal has the ending of this job.
fn has_ending(data: &Path, job: u64) -> bool {
    let ended = format!("{{\"ended\":{{\"job\":{{\"tenant\":\"local\",\"number\":{job}}}");
    let segments = fs::read_dir(data.join("journal")).into_iter().flatten().flatten();
    segments
        .filter_map(|segment| fs::read_to_string(segment.path()).ok())
        .any(|text| text.contains(&ended))
}

#[test]
fn a_full_data_directory_stops_no_job_and_is_caught_up_later() {
    let disk = DataDisk::new("40m");
    let mut server = Launch::http().structured().data(&disk.data()).start();
    let running = server.start(RUNNING);
    server.wait_written(running, 6);
    disk.fill();
    check_jobs_go_on(&mut server, running, "full");
    disk.clear();
    check_recovered(&mut server, running, "full");
}

/// Makes a tree of files immutable, for writers that have them open too; `false` if that cannot be
/// done here.
fn set_immutable(path: &Path, is_immutable: bool) -> bool {
    let flag = if is_immutable { "+i" } else { "-i" };
    let done = Command::new("chattr").args(["-R", flag]).arg(path).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

#[test]
fn a_read_only_data_directory_stops_no_job_and_is_caught_up_later() {
    let data = private_dir();
    let mut server = Launch::http().structured().data(data.path()).start();
    let running = server.start(RUNNING);
    server.wait_written(running, 6);
    let folders = ["journal", "output"].map(|name| data.path().join(name));
    if !folders.iter().all(|folder| set_immutable(folder, true)) {
        for folder in &folders {
            set_immutable(folder, false);
        }
        eprintln!("files cannot be made immutable here: not tried");
        return;
    }
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        check_jobs_go_on(&mut server, running, "read-only");
    }));
    assert!(folders.iter().all(|folder| set_immutable(folder, false)), "they were ours");
    result.unwrap_or_else(|failure| std::panic::resume_unwind(failure));
    check_recovered(&mut server, running, "read-only");
}

#[test]
fn what_a_crash_may_lose_on_a_full_disk_is_told_as_an_upper_bound() {
    for tty in [false, true] {
        let disk = DataDisk::new("40m");
        let mut server = Launch::http().structured().data(&disk.data()).start();
        let gate = |name: &str| format!("while [ ! -e {name} ]; do sleep 0.05; done");
        let command = format!(
            "stty -opost 2>/dev/null; echo begun; {}; seq 1000 3500; {}; echo end",
            gate("more"),
            gate("gate")
        );
        let arguments = json!({"command": command, "tty": tty, "wait_s": 0});
        let job = server.call("run_command", arguments).ok().job();
        server.wait_written(job, 6);
        disk.fill();
        fs::write(server.work().join("more"), "").expect("the gate opens");
        // Memory has what the disk does not take.
        let written = 6 + 2501 * 5;
        server.wait_written(job, written);
        crash(&server);
        disk.clear();
        let mut client = DurableClient::new(server.http().address());
        fs::write(server.work().join("gate"), "").expect("the gate opens");
        let status = client.wait_finished(job);
        let (page, bytes) = client.read_all(job);
        let lost = written + 4 - bytes.len() as u64;
        assert!(lost > 0, "tty {tty}: the disk was full: {page}");
        assert!(bytes.starts_with(b"begun\n1000\n") && bytes.ends_with(b"end\n"), "{page}");
        assert_eq!(status["dropped_bytes"], lost, "tty {tty}: {status}");
        let reason = (&status["dropped_why"], &status["dropped_at_most"]);
        assert_eq!(reason, (&json!("server_crash"), &json!(true)), "tty {tty}");
        let page =
            client.call("read_output", &json!({"job": job, "cursor": "bytes:0"})).ok().text();
        let remark = "of output may be missing (the server crashed before it was stored)";
        assert!(page.contains("up to ") && page.contains(remark), "tty {tty}: {page}");
        let url = format!("http://{}/mcp", server.http().address());
        let words = ["logs", "--connect", &url, &job.to_string()];
        let shown = text(&run_program(&Sandbox::new(), &words).stderr);
        let line = "bytes may be missing: the server crashed here";
        assert!(shown.contains("up to ") && shown.contains(line), "tty {tty}: {shown}");
    }
}

#[test]
fn a_data_directory_that_is_removed_stops_no_job() {
    let data = private_dir();
    let mut server = Launch::http().structured().data(data.path()).start();
    let running = server.start(RUNNING);
    server.wait_written(running, 6);
    for entry in fs::read_dir(data.path()).expect("it is there").flatten() {
        let path = entry.path();
        // The pid file tells the test which process the server is.
        if path.is_dir() {
            fs::remove_dir_all(path).expect("ours");
        }
    }
    check_jobs_go_on(&mut server, running, "removed");
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let mut next = Launch::http().structured().data(data.path()).start();
    next.assert_alive();
}

/// `true` if a file of the output directory has exactly these bytes.
fn has_output(data: &Path, bytes: &[u8]) -> bool {
    let files = fs::read_dir(data.join("output")).into_iter().flatten().flatten();
    files.map(|file| fs::read(file.path())).any(|read| read.is_ok_and(|read| read == bytes))
}

/// Kills the server while its data directory cannot be written, and again once it can.
#[track_caller]
fn check_crash_while_unwritable(
    data: &Path,
    make_unwritable: impl Fn(),
    make_writable: impl Fn(),
    what: &str,
) {
    let mut server = Launch::http().structured().data(data).start();
    let finished = server.start("echo finished; exit 3");
    let running = server.start(RUNNING);
    server.wait_written(running, 6);
    eventually("the ending is recorded", || has_ending(data, finished));
    make_unwritable();
    crash(&server);
    let mut client = DurableClient::new(server.http().address());
    let check_known = |client: &mut DurableClient, when: &str| {
        assert_eq!(client.status(finished)["exit_code"], 3, "{what}, {when}");
        assert_eq!(client.read_all(finished).1, b"finished\n", "{what}, {when}");
        assert_eq!(client.status(running)["state"], "running", "{what}, {when}");
        assert_eq!(client.read_all(running).1, b"begun\n", "{what}, {when}");
    };
    check_known(&mut client, "unwritable");
    server.expect_log("the journal cannot be written");
    assert_eq!(server.metric("shellyard_journal_degraded"), 1.0, "{what}");
    let run = |client: &mut DurableClient, command: &str, wait_s: u64| {
        client.call("run_command", &json!({"command": command, "wait_s": wait_s})).ok().job()
    };
    let meanwhile = run(&mut client, "echo meanwhile; exit 4", 30);
    let going_on = run(&mut client, &RUNNING.replace("begun", "another"), 0);
    eventually("it has begun", || client.read_all(going_on).1 == b"another\n");
    make_writable();
    eventually(&format!("{what}: records are written again"), || {
        server.metric("shellyard_journal_degraded") == 0.0
    });
    for output in [&b"meanwhile\n"[..], b"another\n"] {
        eventually(&format!("{what}: the output is stored"), || has_output(data, output));
    }
    crash(&server);
    check_known(&mut client, "writable again");
    assert_eq!(client.status(meanwhile)["exit_code"], 4, "{what}");
    assert_eq!(client.read_all(meanwhile).1, b"meanwhile\n", "{what}");
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    for (job, output) in [(running, &b"begun\ndone\n"[..]), (going_on, b"another\ndone\n")] {
        assert_eq!(client.wait_finished(job)["exit_code"], 11, "{what}");
        let (page, bytes) = client.read_all(job);
        assert_eq!((bytes, &page["gap_bytes"]), (output.to_vec(), &Value::Null), "{what}: {page}");
    }
}

#[test]
fn jobs_survive_a_crash_on_a_full_disk_and_are_recorded_again_later() {
    let disk = DataDisk::new("40m");
    let journal = disk.data().join("journal");
    let fill = || {
        // Without its reserve, and with a segment that is not complete, the next server needs room to
        // go on with the journal.
        eventually("the reserve is there", || fs::remove_file(journal.join("reserve")).is_ok());
        fs::write(journal.join("000002.jsonl"), "").expect("ours");
        disk.fill();
    };
    check_crash_while_unwritable(&disk.data(), fill, || disk.clear(), "full");
}

#[test]
fn jobs_survive_a_crash_on_a_read_only_disk_and_are_recorded_again_later() {
    let disk = DataDisk::new("40m");
    let folders = ["journal", "output"].map(|name| disk.data().join(name));
    if !set_immutable(&disk.data(), true) {
        eprintln!("files cannot be made immutable here: not tried");
        return;
    }
    assert!(set_immutable(&disk.data(), false), "it was ours");
    // The pid file tells the test which process the server is.
    let set = |is_immutable| {
        assert!(folders.iter().all(|folder| set_immutable(folder, is_immutable)), "they are ours");
    };
    check_crash_while_unwritable(&disk.data(), || set(true), || set(false), "read-only");
}

#[test]
fn a_start_on_a_read_only_disk_works_and_says_what_it_costs() {
    let disk = DataDisk::new("40m");
    disk.remount("ro");
    let mut server = Launch::http().structured().data(&disk.data()).start();
    server.expect_log("the journal cannot be written");
    assert_eq!(server.run("echo there").ok().structured()["output"], "there\n");
    disk.remount("rw");
    eventually("records are written", || server.metric("shellyard_journal_degraded") == 0.0);
    let known = server.run("echo known; exit 11").ok().job();
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let mut next = Launch::http().structured().data(&disk.data()).start();
    let status = DurableClient::new(next.http().address()).status(known);
    assert_eq!(status["exit_code"], 11, "{status}");
}
