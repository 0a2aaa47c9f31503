//! `shellyard upgrade`: the server is replaced while its jobs run.

use std::thread;

use rustix::process::Signal;
use serde_json::json;

use super::client::DurableClient;
use super::crashes::{check_server, end_server, start_loaded};
use super::disturbance::{Disturbance, Victim, upgrade};
use super::load::Load;
use super::random::{Random, number_from_environment};
use crate::harness::{
    Launch, Sandbox, SuspendedProcess, TestServer, eventually, is_zombie, output_of, private_dir,
    run_program, signal, text,
};

#[test]
fn no_job_and_no_byte_is_lost_by_upgrades_in_a_row() {
    let times = number_from_environment("SHELLYARD_UPGRADES").unwrap_or(20);
    let data = private_dir();
    let mut load = Load::new(Random::from_environment());
    let mut server = start_loaded(data.path());
    let victim = Victim::new(&server);
    load.run(server.http().address(), &victim, Disturbance::Upgrade, times);
    check_server(&mut server, &load);
    end_server(server, &mut load);
    assert_eq!(load.lost(), 0, "an upgrade catches no job in the middle");
    load.report(&format!("{times} upgrades"));
}

#[test]
fn an_upgrade_keeps_a_running_job_and_its_cursor() {
    let mut server = Launch::http().structured().start();
    let job = server.start("echo one; while [ ! -e gate ]; do sleep 0.05; done; echo two; exit 7");
    server.wait_written(job, 4);
    let before = server.server_pid();
    upgrade(server.data());
    assert_ne!(server.server_pid(), before, "another process serves");
    let mut client = DurableClient::new(server.http().address());
    assert_eq!(client.read_raw(job, 4).0["state"], "running");
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    assert_eq!(client.wait_finished(job)["exit_code"], 7);
    assert_eq!(client.read_raw(job, 4).1, b"two\n");
}

#[test]
fn sigusr2_upgrades_too() {
    let mut server = Launch::http().structured().start();
    let job = server.start("while [ ! -e gate ]; do sleep 0.05; done; exit 3");
    server.wait_running(job);
    let before = server.server_pid();
    server.signal(Signal::USR2);
    eventually("another process serves", || server.server_pid() != before);
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    let mut client = DurableClient::new(server.http().address());
    assert_eq!(client.wait_finished(job)["exit_code"], 3);
}

#[test]
fn sigusr2_while_a_server_starts_causes_another_upgrade() {
    let server = Launch::http().structured().start();
    let mut before = server.server_pid();
    for what in ["the second server starts", "the third server starts"] {
        server.signal(Signal::USR2);
        eventually(what, || server.server_pid() != before);
        before = server.server_pid();
    }
    // A server that the signal ended would not have said so.
    let handovers = || server.log_text().matches("jobs handed over").count();
    eventually("both servers hand over", || handovers() == 2);
}

#[test]
fn sigusr2_beside_a_crash_upgrades_the_next_server() {
    let server = Launch::http().structured().start();
    let before = i32::try_from(server.server_pid()).expect("a pid fits");
    let keeper = SuspendedProcess::new(server.pid());
    // The keeper reads both signals at once, this one first.
    server.signal(Signal::USR2);
    signal(before, Signal::KILL);
    eventually("the server has ended", || is_zombie(before));
    drop(keeper);
    server.expect_log("jobs handed over");
}

#[test]
fn a_program_that_does_not_become_ready_is_replaced_by_the_old_one() {
    let mut server = Launch::http().structured().start();
    let job = server.start("while [ ! -e gate ]; do sleep 0.05; done; exit 5");
    server.wait_running(job);
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.args(["upgrade", "/bin/false", "--data-dir"]).arg(server.data());
    let output = output_of(command, "");
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("exited with code 1"), "it says why: {said}");
    let mut client = DurableClient::new(server.http().address());
    let reply = client.call("run_command", &json!({"command": "echo old"})).ok();
    assert_eq!(reply["output"], "old\n");
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    assert_eq!(client.wait_finished(job)["exit_code"], 5, "the job never noticed");
}

#[test]
fn jobs_outlive_settings_that_are_not_valid() {
    let mut server = Launch::http().structured().config("[queue]\nslots = 4\n").start();
    let job = server.start("while [ ! -e gate ]; do sleep 0.05; done; exit 5");
    server.wait_running(job);
    let before = server.server_pid();
    server.sandbox().write("config.toml", "[queue]\nslots = \"many\"\n");
    let mut command = server.sandbox().command();
    command.arg("upgrade").arg("--data-dir").arg(server.data());
    let output = output_of(command, "");
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success() && said.contains("queue.slots"), "it says why: {said}");
    server.signal(Signal::USR2);
    server.expect_log("not upgraded");
    assert_eq!(server.server_pid(), before, "no server could start with these settings");
    signal(i32::try_from(before).expect("a pid fits"), Signal::KILL);
    let attempts = || server.log_text().matches("exited with code 1; starting it again").count();
    // More often than a server may fail that was ready.
    eventually("the keeper tries again", || attempts() >= 6);
    server.sandbox().write("config.toml", "");
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    let mut client = DurableClient::new(server.http().address());
    assert_eq!(client.wait_finished(job)["exit_code"], 5);
}

#[test]
fn jobs_and_their_files_outlive_a_server_that_cannot_write_its_audit_log() {
    let place = private_dir();
    let log = place.path().join("audit.jsonl");
    let config = format!(
        "[audit]\nenabled = true\nfile = {log:?}\non_failure = \"refuse\"\n[confinement]\nprofile = \"workspace-write\"\n"
    );
    let mut server = Launch::http().structured().config(&config).start();
    let job =
        server.start("f=$(mktemp); while [ ! -e gate ]; do sleep 0.05; done; [ -e $f ] && exit 5");
    server.wait_running(job);
    // The next server reads the journal, and fails after that.
    std::fs::remove_file(&log).expect("it was written");
    std::fs::create_dir(&log).expect("ours");
    signal(i32::try_from(server.server_pid()).expect("a pid fits"), Signal::KILL);
    let attempts = || server.log_text().matches("exited with code 1; starting it again").count();
    eventually("the keeper tries again", || attempts() >= 2);
    std::fs::remove_dir(&log).expect("ours");
    let mut client = DurableClient::new(server.http().address());
    assert_eq!(client.status(job)["state"], "running");
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    let status = client.wait_finished(job);
    assert_eq!(status["exit_code"], 5, "{status}");
}

#[test]
fn settings_that_only_another_version_may_know_do_not_refuse_an_upgrade_to_it() {
    let mut server = Launch::http().structured().config("[queue]\nslots = 4\n").start();
    let job = server.start("while [ ! -e gate ]; do sleep 0.05; done; exit 5");
    server.wait_running(job);
    let upgrade = |server: &TestServer, program: &[&str]| {
        let mut command = server.sandbox().command();
        command.arg("upgrade").args(program).arg("--data-dir").arg(server.data());
        command
    };
    let refused = |program: &[&str]| {
        let output = output_of(upgrade(&server, program), "");
        assert!(!output.status.success());
        text(&output.stderr)
    };
    server.sandbox().write("config.toml", "[queue]\nslots_of_tomorrow = 4\n");
    let said = refused(&[]);
    assert!(said.contains("unknown key `queue.slots_of_tomorrow`"), "the same program: {said}");
    server.sandbox().write("config.toml", "[queue]\nslots_of_tomorrow = 4\nslots = \"many\"\n");
    let said = refused(&["/bin/false"]);
    assert!(said.contains("`queue.slots`"), "no version knows that: {said}");
    let pattern = "[queue]\nslots_of_tomorrow = 4\n[redact]\npatterns = [\"(\"]\n";
    server.sandbox().write("config.toml", pattern);
    let said = refused(&["/bin/false"]);
    assert!(said.contains("a pattern in redact.patterns cannot be used"), "nor that: {said}");
    server.sandbox().write("config.toml", "[queue]\nslots_of_tomorrow = 4\n");
    let command = upgrade(&server, &["/bin/false"]);
    let asking = thread::spawn(move || output_of(command, ""));
    server.expect_log("jobs handed over");
    server.expect_log("the new program exited with code 1");
    server.sandbox().write("config.toml", "");
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    let mut client = DurableClient::new(server.http().address());
    assert_eq!(client.wait_finished(job)["exit_code"], 5);
    assert!(!asking.join().expect("it runs to its end").status.success());
}

#[test]
fn an_upgrade_whose_keeper_ends_meanwhile_says_that_there_is_no_server() {
    let mut server = Launch::http().structured().start();
    let before = i32::try_from(server.server_pid()).expect("a pid fits");
    let keeper = SuspendedProcess::new(server.pid());
    let mut command = server.sandbox().command();
    command.arg("upgrade").arg("--data-dir").arg(server.data());
    let asking = thread::spawn(move || output_of(command, ""));
    eventually("the server has ended", || is_zombie(before));
    server.signal(Signal::KILL);
    drop(keeper);
    server.wait_exit();
    let output = asking.join().expect("it runs to its end");
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("no server answers"), "{said}");
}

#[test]
fn no_other_server_takes_the_data_directory_between_two_servers_of_a_keeper() {
    let mut server = Launch::http().structured().config("[queue]\nslots = 4\n").start();
    let job = server.start("while [ ! -e gate ]; do sleep 0.05; done; exit 5");
    server.wait_running(job);
    let before = i32::try_from(server.server_pid()).expect("a pid fits");
    server.sandbox().write("config.toml", "[queue]\nslots = \"many\"\n");
    signal(before, Signal::KILL);
    server.expect_log("exited with code 1; starting it again");
    let data = server.data().to_str().expect("a plain path");
    let arguments = ["serve", "--bind", "127.0.0.1:0", "--data-dir", data];
    let other = run_program(&Sandbox::new(), &arguments);
    let said = text(&other.stderr);
    assert!(!other.status.success() && said.contains("is in use by another server"), "{said}");
    assert!(said.contains(&format!(", keeper {}", server.pid())), "it can be stopped: {said}");
    server.sandbox().write("config.toml", "");
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    let mut client = DurableClient::new(server.http().address());
    assert_eq!(client.wait_finished(job)["exit_code"], 5);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
}
