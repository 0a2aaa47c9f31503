//! Output that is too much: for a job's wish, for a cap, for the disk. The job and the server go
//! on, and whatever is missing is named.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::{Value, json};

use crate::harness::{
    HttpConnection, HttpRequest, Launch, TestServer, bytes_of, eventually_some, private_dir,
};

/// Writes as many bytes as each line of its input says: lines of `x`, then a dot.
const WRITER: &str = "while read n; do head -c $n /dev/zero | tr '\\0' x; echo .; done";

/// A job that writes on demand.
#[track_caller]
fn start_writer(server: &mut TestServer) -> u64 {
    server.start(WRITER)
}

/// Has it write, and waits until all of that was kept or dropped; what is said of the job then.
#[track_caller]
fn write(server: &mut TestServer, job: u64, bytes: u64) -> Value {
    let before = amount(&read_tail(server, job));
    server.call("send_input", json!({"job": job, "text": format!("{bytes}\n")})).ok();
    eventually_some("it has written", || {
        let now = read_tail(server, job);
        (amount(&now) == before + bytes + 2).then_some(now)
    })
}

#[track_caller]
fn read_tail(server: &mut TestServer, job: u64) -> Value {
    let arguments = json!({"job": job, "view": "tail", "max_bytes": 4});
    server.call("read_output", arguments).ok().structured().clone()
}

fn amount(job: &Value) -> u64 {
    let field = |name: &str| job[name].as_u64().unwrap_or(0);
    field("total_bytes") + field("dropped_bytes")
}

fn run_with(server: &mut TestServer, command: &str, on_large_output: &str) -> Value {
    let arguments = json!({"command": command, "on_large_output": on_large_output});
    server.call("run_command", arguments).ok().structured().clone()
}

fn expected_output(command: &str) -> Vec<u8> {
    Command::new("sh").args(["-c", command]).output().expect("a shell").stdout
}

/// Reads a job from the start to its end; checks each byte, and gives what is said to be missing.
#[track_caller]
fn check_all(server: &mut TestServer, job: u64, expected: &[u8]) -> u64 {
    let (mut next, mut missing) = (Some("bytes:0".to_owned()), 0);
    while let Some(cursor) = next {
        let page = server.read_raw(job, &cursor, 1 << 20);
        let start = page["bytes_start"].as_u64().expect("a place") as usize;
        let bytes = bytes_of(&page);
        assert!(bytes == expected[start..start + bytes.len()], "wrong bytes at {start}");
        missing += page["gap_bytes"].as_u64().unwrap_or(0);
        next = page["next_cursor"].as_str().map(str::to_owned);
    }
    missing
}

#[test]
fn truncate_keeps_both_ends_and_true_offsets_while_the_job_runs_on() {
    const COMMAND: &str = "seq 1 300000";
    let config = "[output]\nlarge = \"64 KiB\"\n[job]\nmax_output = \"1 MiB\"\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let expected = expected_output(COMMAND);
    let reply = run_with(&mut server, COMMAND, "truncate");
    assert_eq!((&reply["exit_code"], &reply["lines"]), (&json!(0), &json!(300_000)), "{reply}");
    assert_eq!(reply["total_bytes"], expected.len());
    let removed = reply["removed_bytes"].as_u64().expect("some left");
    assert!(removed > expected.len() as u64 - 90_000, "{reply}");
    assert!(reply["tail"].as_str().is_some_and(|tail| tail.ends_with("299999\n300000\n")));
    let job = reply["job"].as_u64().expect("a number");
    assert_eq!(check_all(&mut server, job, &expected), removed);
    let found = server.call("read_output", json!({"job": job, "grep": "^(7|299998)$"})).ok();
    assert_eq!(found["output"], "7: 7\n299998: 299998\n");
    let last = server.call("read_output", json!({"job": job, "line": 300_000})).ok();
    assert_eq!(last["output"], "300000\n");
    let middle = server.call("read_output", json!({"job": job, "line": 150_000})).ok();
    assert_eq!(middle["gap_bytes"], removed, "{}", middle.0);
    let query = server.call("read_output", json!({"job": job, "query": "[0]"}));
    assert!(query.error_text().contains("were not kept"), "{}", query.0);
}

#[test]
fn a_truncated_log_names_its_hole_in_the_text() {
    let mut server = Launch::http().config("[output]\nlarge = \"64 KiB\"\n").start();
    let arguments = json!({"command": "seq 1 300000", "on_large_output": "truncate"});
    let reply = server.call("run_command", arguments).ok();
    let verdict = reply.verdict();
    assert!(verdict.contains("MB in the middle not kept (on_large_output: truncate)"), "{verdict}");
    let lost = "of output lost, the rest kept: whole log: read_output(job=1)";
    assert!(reply.text().ends_with(lost), "{}", reply.text());
    assert!(!reply.text().contains("full log kept"), "{}", reply.text());
}

#[test]
fn a_reader_that_follows_a_truncated_job_never_gets_a_wrong_byte() {
    const COMMAND: &str = "seq 1 3000000";
    let config = "[output]\nlarge = \"256 KiB\"\non_large_output = \"truncate\"\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let expected = expected_output(COMMAND);
    let job = server.start(COMMAND);
    let missing = check_all(&mut server, job, &expected);
    assert!(missing < expected.len() as u64);
    assert_eq!(server.wait_finished(job)["total_bytes"], expected.len());
}

#[test]
fn error_ends_the_job_and_keeps_what_came_until_then() {
    let config = "[output]\nlarge = \"64 KiB\"\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let reply = run_with(&mut server, "yes", "error");
    assert_eq!((&reply["outcome"], &reply["limit"]), (&json!("limit"), &json!("large_output")));
    assert_eq!(reply["total_bytes"], 64 * 1024);
    let bad = server.call("run_command", json!({"command": "true", "on_large_output": "keep"}));
    assert!(bad.error_text().contains("one of spill, truncate, error"), "{}", bad.0);
    let mut server =
        Launch::stdio().config(&format!("{config}on_large_output = \"error\"\n")).start();
    let verdict = server.run("yes").verdict();
    assert!(verdict.starts_with("output over 66 KB, which on_large_output makes an error"));
}

#[test]
fn at_a_cap_the_job_runs_on_and_what_was_dropped_is_named_until_room_comes_back() {
    let config = "[output]\nmax_store = \"300 KiB\"\n[retention]\nmax_finished = 1\n";
    let mut server = Launch::http().structured().config(config).start();
    let job = start_writer(&mut server);
    assert_eq!(write(&mut server, job, 200_000)["dropped_bytes"], Value::Null);
    let other = server.run("head -c 200000 /dev/zero | tr '\\0' y; echo over >&2");
    assert_eq!((&other["exit_code"], &other["dropped_why"]), (&json!(0), &json!("store_full")));
    let dropped = other["dropped_bytes"].as_u64().expect("some");
    assert!(dropped > 90_000, "{}", other.0);
    let metrics = server.metrics();
    let counted = |series: &str| {
        let found = metrics.lines().find_map(|line| line.strip_prefix(series));
        found.and_then(|value| value.trim().parse::<f64>().ok()).expect("the series is there")
    };
    let by_reason =
        |reason: &str| format!("shellyard_output_dropped_bytes_total{{reason=\"{reason}\"}}");
    assert_eq!(counted(&by_reason("store_full")), dropped as f64);
    assert_eq!(counted(&by_reason("disk_full")), 0.0);
    assert_eq!(counted("shellyard_output_stored_limit_bytes"), 300.0 * 1024.0);
    let tier = |tier: &str| counted(&format!("shellyard_output_stored_bytes{{tier=\"{tier}\"}}"));
    let stored: f64 = ["memory", "disk", "compressed"].map(tier).iter().sum();
    assert!(0.0 < stored && stored <= 300.0 * 1024.0, "{stored}");
    server.expect_log("output dropped, the job continues");
    assert_eq!(server.log_text().matches("output dropped, the job continues").count(), 1);
    // A finished job is forgotten for the next, and its room is free.
    server.run("true");
    let later = write(&mut server, job, 50_000);
    assert_eq!(later["dropped_bytes"], Value::Null, "{later}");
}

#[test]
fn what_comes_after_a_loss_is_a_line_of_its_own() {
    let mut server = Launch::http().structured().start();
    let job =
        server.start("read n; head -c $n /dev/zero | tr '\\0' x; read n; echo mid; echo last");
    set_limit(&server, Resource::Fsize, Some(150_000));
    server.call("send_input", json!({"job": job, "text": "400000\n"})).ok();
    eventually_some("it has written", || {
        let now = read_tail(&mut server, job);
        (amount(&now) == 400_000).then_some(now)
    });
    set_limit(&server, Resource::Fsize, None);
    let failed = |operation: &str| {
        let series = format!("shellyard_spill_errors_total{{operation=\"{operation}\"}} 0");
        server.metrics().lines().all(|line| line != series)
    };
    assert_eq!(["create", "write", "read"].map(failed), [false, true, false]);
    server.call("send_input", json!({"job": job, "text": "1\n"})).ok();
    let end = server.wait_finished(job);
    assert_eq!((&end["dropped_bytes"], &end["lines"]), (&json!(250_000), &json!(3)), "{end}");
    let found = server.call("read_output", json!({"job": job, "grep": "mid|last"})).ok();
    assert_eq!(found["output"], "2: mid\n3: last\n", "{}", found.0);
    let second = server.call("read_output", json!({"job": job, "line": 2})).ok();
    assert_eq!(second["output"], "mid\nlast\n", "{}", second.0);
    let before = server.read_raw(job, "bytes:149990", 1000);
    assert_eq!((bytes_of(&before), &before["end"]), (b"xxxxxxxxxx".to_vec(), &json!("more")));
    let after = server.read_raw(job, "bytes:150000", 1000);
    assert_eq!((bytes_of(&after), &after["gap_bytes"]), (b"mid\nlast\n".to_vec(), &json!(250_000)));
    // Those who take bytes are told too.
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get(&format!("/api/v1/jobs/{job}/output")));
    let answer = connection.answer();
    assert_eq!(answer.header("x-shellyard-dropped-bytes"), Some("250000"));
    assert_eq!((answer.status, answer.bytes().len()), (200, 150_009));
    let uri = format!("shellyard://jobs/{job}/output?start=149999");
    let read = server.rpc("resources/read", json!({"uri": uri}));
    let meta = &read["result"]["contents"][0]["_meta"];
    assert_eq!((&meta["dropped_bytes"], &meta["gap_bytes"]), (&json!(250_000), &json!(250_000)));
}

#[test]
fn the_cap_of_a_tenant_has_a_name_of_its_own() {
    let config = "[output]\nmax_tenant = \"100 KiB\"\n";
    let mut server = Launch::stdio().config(config).start();
    let verdict = server.run("head -c 200000 /dev/zero").verdict();
    assert!(verdict.contains("could not be kept (output.max_tenant reached)"), "{verdict}");
    assert!(verdict.starts_with("exit 0"), "{verdict}");
}

/// A small file system of its own over a directory; gone on drop.
#[derive(Debug)]
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    #[track_caller]
    pub(super) fn over(path: PathBuf, options: &str) -> Self {
        let mounted = quietly("mount", &["-t", "tmpfs", "-o", options, "tmpfs"], &path);
        assert!(mounted, "this test mounts a tmpfs: run it as root, or under `unshare -rm`");
        Self(path)
    }

    fn change(&self, options: &str) {
        assert!(quietly("mount", &["-o", &format!("remount,{options}")], &self.0));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        quietly("umount", &["-l"], &self.0);
    }
}

fn quietly(program: &str, args: &[&str], path: &Path) -> bool {
    let mut command = Command::new(program);
    let status = command.args(args).arg(path).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The place for its spill files.
fn spill_dir(server: &TestServer) -> PathBuf {
    server.sandbox().data().join("spill")
}

#[test]
fn a_full_disk_stops_nothing_and_its_room_is_used_once_there_is_some() {
    let mut server = Launch::stdio().structured().start();
    let disk = SmallDisk::over(spill_dir(&server), "size=1m");
    let job = start_writer(&mut server);
    assert_eq!(write(&mut server, job, 500_000)["dropped_bytes"], Value::Null);
    let full = write(&mut server, job, 2_000_000);
    assert_eq!((&full["dropped_why"], &full["state"]), (&json!("disk_full"), &json!("running")));
    let dropped = full["dropped_bytes"].as_u64().expect("some");
    assert!(dropped > 1_000_000, "{full}");
    server.assert_alive();
    disk.change("size=8m");
    let later = write(&mut server, job, 300_000);
    assert_eq!(later["dropped_bytes"], dropped, "{later}");
    assert_eq!(server.read_raw(job, "bytes:0", 1000)["bytes_end"], 1000);
}

#[test]
fn without_a_place_to_spill_memory_keeps_what_it_may() {
    let mut server = Launch::stdio().structured().start();
    let disk = SmallDisk::over(spill_dir(&server), "size=1m,ro");
    let job = start_writer(&mut server);
    let refused = write(&mut server, job, 100_000);
    assert_eq!(
        (&refused["dropped_why"], &refused["total_bytes"]),
        (&json!("io_error"), &json!(65_536))
    );
    disk.change("rw");
    let later = write(&mut server, job, 100_000);
    assert_eq!(later["total_bytes"], 65_536 + 100_002, "{later}");
}

#[test]
fn a_spill_directory_that_is_deleted_is_made_again() {
    let mut server = Launch::stdio().structured().start();
    let job = start_writer(&mut server);
    write(&mut server, job, 100_000);
    fs::remove_dir_all(server.sandbox().data()).expect("ours");
    assert_eq!(write(&mut server, job, 100_000)["dropped_bytes"], Value::Null);
    let reply = server.run("head -c 100000 /dev/zero");
    assert_eq!((&reply["total_bytes"], &reply["dropped_bytes"]), (&json!(100_000), &Value::Null));
}

/// Sets a limit of the server as it runs; `None` is the most that it may have.
fn set_limit(server: &TestServer, resource: Resource, current: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(server.server_pid()).expect("a pid fits"));
    // The server was started by us, with our own bounds.
    let maximum = getrlimit(resource).maximum;
    let limit = Rlimit { current: current.or(maximum), maximum };
    prlimit(pid, resource, limit).expect("a process of ours");
}

#[test]
fn a_limit_on_file_sizes_does_not_end_the_server() {
    let mut server = Launch::stdio().structured().start();
    let job = start_writer(&mut server);
    set_limit(&server, Resource::Fsize, Some(150_000));
    let full = write(&mut server, job, 400_000);
    assert_eq!(
        (&full["dropped_why"], &full["total_bytes"]),
        (&json!("disk_full"), &json!(150_000))
    );
    set_limit(&server, Resource::Fsize, None);
    assert_eq!(write(&mut server, job, 400_000)["total_bytes"], 550_002);
}

#[test]
fn without_files_to_open_a_job_that_runs_goes_on() {
    let mut server = Launch::stdio().structured().start();
    let job = start_writer(&mut server);
    server.wait_running(job);
    // Those three are open: from now on nothing can be opened.
    set_limit(&server, Resource::Nofile, Some(3));
    let refused = write(&mut server, job, 200_000);
    assert_eq!(refused["dropped_why"], "io_error", "{refused}");
    set_limit(&server, Resource::Nofile, None);
    let dropped = refused["dropped_bytes"].clone();
    assert_eq!(write(&mut server, job, 200_000)["dropped_bytes"], dropped);
    server.assert_alive();
}

/// The spill files of a server.
fn spill_files(server: &TestServer) -> Vec<PathBuf> {
    let paths =
        |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|at| at.path());
    // A server that keeps jobs across restarts has names for its files.
    let named = paths(server.data().join("output"));
    paths(spill_dir(server)).flat_map(paths).chain(named).collect()
}

/// Returns the number of stored files that the server holds open, and its other descriptors.
fn open_files(server: &TestServer) -> (usize, usize) {
    let spill = spill_dir(server);
    let fds = fs::read_dir(format!("/proc/{}/fd", server.server_pid())).expect("it is alive");
    let is_spill = |fd: fs::DirEntry| {
        fs::read_link(fd.path()).is_ok_and(|target| target.starts_with(&spill) && target != spill)
    };
    let (spilled, others): (Vec<bool>, Vec<bool>) =
        fds.filter_map(|fd| Some(is_spill(fd.ok()?))).partition(|is_spill| *is_spill);
    (spilled.len(), others.len())
}

#[test]
fn finished_logs_need_no_descriptors_of_their_own() {
    const JOBS: u64 = 260;
    // Those with even numbers are compressed.
    let run = |number: u64| format!("seq {number} {}", 15_000 + 5_000 * ((number + 1) % 2));
    let launch = Launch::stdio().structured().config("[output]\ncompress_from = \"96 KiB\"\n");
    let mut server = launch.through(&["prlimit", "--nofile=256:256"]).start();
    for number in 1..=JOBS {
        let reply = server.run(&run(number));
        let done = (&reply["job"], &reply["exit_code"], &reply["dropped_bytes"]);
        assert_eq!(done, (&json!(number), &json!(0), &Value::Null), "{}", reply.0);
    }
    assert!(spill_files(&server).len() >= JOBS as usize);
    for number in [1, 2, 3, 130, 131, 258, 259, 260, 1] {
        check_all(&mut server, number, &expected_output(&run(number)));
    }
    let (spilled, others) = open_files(&server);
    assert!(spilled <= 20 && others < 60, "{spilled} {others}");
    let spill = spill_dir(&server);
    server.stdio().hang_up();
    assert!(server.wait_exit().success());
    assert_eq!(fs::read_dir(spill).into_iter().flatten().count(), 0, "nothing is left");
}

#[test]
fn the_files_of_a_server_that_was_killed_go_with_the_next() {
    let data = private_dir();
    let count = || fs::read_dir(data.path().join("spill")).into_iter().flatten().count();
    let mut killed = Launch::stdio().structured().data(data.path()).start();
    killed.run("seq 1 20000");
    assert_eq!(count(), 1);
    killed.signal(Signal::KILL);
    killed.wait_exit();
    assert_eq!(count(), 1);
    let mut next = Launch::stdio().structured().data(data.path()).start();
    eventually_some("what was left is removed", || (count() == 0).then_some(()));
    let job = next.run("seq 1 20000").job();
    check_all(&mut next, job, &expected_output("seq 1 20000"));
}

#[test]
fn a_spill_file_that_is_cut_underneath_shows_a_gap_and_never_wrong_bytes() {
    let mut server = Launch::stdio().structured().start();
    let job = start_writer(&mut server);
    write(&mut server, job, 500_000);
    let other = server.run("seq 1 50000").job();
    let files = spill_files(&server);
    let holds_ours = |path: &&PathBuf| {
        let mut first = [0];
        let file = fs::File::open(path).expect("a file of the server");
        file.read_exact_at(&mut first, 0).is_ok() && first == *b"x"
    };
    let path = files.iter().find(holds_ours).expect("it has spilled");
    fs::OpenOptions::new().write(true).open(path).expect("ours").set_len(100_000).expect("cut");
    let gone = server.read_raw(job, "bytes:100000", 1000);
    assert_eq!((&gone["gap_bytes"], &gone["end"]), (&json!(400_002), &json!("caught_up")));
    write(&mut server, job, 10);
    let before = server.read_raw(job, "bytes:99990", 1000);
    assert_eq!((bytes_of(&before), &before["end"]), (b"xxxxxxxxxx".to_vec(), &json!("more")));
    let after = server.read_raw(job, "bytes:100000", 1000);
    assert_eq!((&after["gap_bytes"], &after["bytes_start"]), (&json!(400_002), &json!(500_002)));
    assert_eq!(bytes_of(&after), b"xxxxxxxxxx.\n");
    let found = server.call("read_output", json!({"job": job, "grep": "\\."})).ok();
    assert_eq!(found["output"], "2: xxxxxxxxxx.\n");
    assert_eq!(found["gap_bytes"], 400_002);
    check_all(&mut server, other, &expected_output("seq 1 50000"));
}

/// Cuts the only spill file of a server.
#[track_caller]
fn cut_spill(server: &TestServer, bytes: u64) {
    let files = spill_files(server);
    assert_eq!(files.len(), 1, "{files:?}");
    fs::OpenOptions::new().write(true).open(&files[0]).expect("ours").set_len(bytes).expect("cut");
}

#[test]
fn what_was_cut_off_is_named_and_counted_once() {
    let mut server = Launch::http().config("[output]\ncompress_from = 0\n").start();
    let job = server.start("seq 1 100000; read n; echo mid; seq 1 1000; echo LAST");
    eventually_some("it has written", || {
        let now = server.call("read_output", json!({"job": job, "view": "tail"})).ok();
        now.text().contains("\n100000\n").then_some(())
    });
    cut_spill(&server, 80_000);
    server.call("send_input", json!({"job": job, "text": "\n"})).ok();
    let end = server.call("wait_jobs", json!({"jobs": [job], "cursor": "bytes:0"})).ok();
    let lost = "509 KB lost (their file does not have them)";
    assert!(end.verdict().contains(lost), "{}", end.text());
    assert!(end.text().contains("509 KB of output lost, the rest kept"), "{}", end.text());
    let list = server.call("list_jobs", json!({})).ok();
    assert!(list.text().contains("509 KB of output lost"), "{}", list.text());
    let series = "shellyard_output_dropped_bytes_total{reason=\"cut\"} 508895";
    for _ in 0..2 {
        let metrics = server.metrics();
        assert!(metrics.lines().any(|line| line == series), "{metrics}");
        server.call("read_output", json!({"job": job})).ok();
    }
}

#[test]
fn an_end_that_was_cut_off_leaves_a_gap_in_every_view() {
    let config = "[output]\ncompress_from = 0\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let job = server.run("seq 1 100000").job();
    cut_spill(&server, 100_000);
    let tail = server.call("read_output", json!({"job": job, "view": "tail"})).ok();
    assert_eq!((&tail["gap_bytes"], &tail["removed_bytes"]), (&json!(488_895), &json!(488_895)));
    let digest = server.call("read_output", json!({"job": job, "view": "digest"})).ok();
    let found = digest.structured().to_string();
    // The summary was made when the job ended, of the whole log.
    assert!(found.contains("\"complete\":true") && found.contains("\"lines\":100000"), "{found}");
}

#[test]
fn a_stream_is_sent_as_far_as_it_is_there() {
    let config = "[output]\nlarge = \"64 KiB\"\non_large_output = \"truncate\"\n";
    let mut server = Launch::http().structured().config(config).start();
    let command = "seq 1 300000 >&2; read _; seq 1 10; read _; echo done >&2";
    let job = server.run_in_steps(command, &[1_988_895, 1_988_916]);
    let mut connection = HttpConnection::open(server.http().address());
    let mut get = |stream: &str, range: Option<&str>| {
        let request = HttpRequest::get(&format!("/api/v1/jobs/{job}/output?stream={stream}"));
        let request = range.iter().fold(request, |request, range| request.header("range", range));
        connection.send(&request);
        let answer = connection.answer();
        (answer.status, answer.text())
    };
    assert_eq!(get("stdout", None), (200, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n".to_owned()));
    assert_eq!(get("stderr", Some("bytes=-19")), (206, "299999\n300000\ndone\n".to_owned()));
    assert_eq!(get("stderr", Some("bytes=0-3")), (206, "1\n2\n".to_owned()));
    let (status, text) = get("stderr", Some("bytes=1000000-1000010"));
    assert_eq!((status, text.contains("not_kept")), (410, true), "{text}");
    let (status, kept) = get("stderr", None);
    assert_eq!(status, 200);
    assert!(kept.starts_with("1\n2\n") && kept.ends_with("\n300000\ndone\n"), "{}", kept.len());
    // A resource tells where it goes on.
    for name in ["output", "output/stderr"] {
        let of = |range: &str| format!("shellyard://jobs/{job}/{name}?{range}");
        let uri = of("start=1000000&end=1000010");
        let read = server.rpc("resources/read", json!({"uri": uri}));
        let meta = read["result"]["contents"][0]["_meta"].clone();
        let (gap, end) = (meta["gap_bytes"].as_u64(), meta["bytes_end"].as_u64());
        let (gap, end) = (gap.expect("a gap"), end.expect("a place"));
        assert_eq!(end, 1_000_000 + gap, "{meta}");
        assert_eq!(meta["next"], of(&format!("start={end}")), "{meta}");
    }
}

#[test]
fn a_place_that_cannot_be_written_stops_no_server_unless_the_audit_log_is_a_must() {
    let place = tempfile::tempdir().expect("a directory");
    let disk = SmallDisk::over(place.path().to_owned(), "size=1m,ro");
    let log = place.path().join("new/audit.jsonl");
    let config = format!("[audit]\nfile = {log:?}\n");
    let refuse = format!("{config}on_failure = \"refuse\"\n");
    let mut refused = Launch::stdio().config(&refuse).start_silent();
    assert!(!refused.wait_exit().success());
    let mut server = Launch::http().structured().config(&config).start();
    server.expect_log("audit log not written");
    assert_eq!(server.run("true")["exit_code"], 0);
    let failures = |server: &mut TestServer| {
        let metrics = server.metrics();
        let found = metrics.lines().find(|line| line.starts_with("shellyard_audit_failures_total"));
        let value = found.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        value.expect("it is counted")
    };
    eventually_some("each failure is counted", || (failures(&mut server) >= 3).then_some(()));
    disk.change("rw");
    server.run("echo later");
    let written = || fs::read_to_string(&log).unwrap_or_default();
    eventually_some("it is written", || written().contains("echo later").then_some(()));
}
