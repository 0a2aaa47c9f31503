//! A host that stalls, a tenant whose store is full, and how both are told: in replies, metrics, the
//! log and by `doctor`.
//!
//! The pressure is real: jobs that compute for nothing, more than there are processors. What a host
//! without pressure stall information does instead is checked by hiding it; only there the tests
//! need more than an ordinary user has.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    Launch, Marker, Sandbox, TestServer, eventually, eventually_some, output_of, tested_program,
    text,
};

/// The share of the last ten seconds that somebody waited for a processor; nothing where this host
/// does not tell.
fn host_pressure() -> Option<f64> {
    let told = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let (_, share) = told.split_once("some avg10=")?;
    share.split(' ').next()?.parse().ok()
}

fn levels(cpu: u8) -> String {
    format!("[queue]\nslots = 8\n[pressure]\ncpu = {cpu}\nmemory = 0\nio = 0\ncheck_s = 0.1\n")
}

/// Keeps more loops busy than there are processors, until it is sent a line; then it sleeps.
#[track_caller]
fn start_loops(server: &mut TestServer, marker: &Marker) -> u64 {
    let loops = 2 * available_parallelism().map_or(1, usize::from);
    let command = format!(
        "for n in $(seq {loops}); do while :; do :; done & done; read line; kill $(jobs -p); sleep {marker}"
    );
    server.start(&command)
}

fn is_held(server: &mut TestServer) -> bool {
    server.metric("shellyard_starts_held") == 1.0
}

/// A server on a host that stalls, by a job of its own. Nothing where this host does not tell whether
/// it stalls: then it is checked that the server says so, and holds nothing back.
#[track_caller]
fn stalling_server(cpu: u8, marker: &Marker) -> Option<(TestServer, u64)> {
    let mut server = Launch::http().config(&levels(cpu)).start();
    let loops = start_loops(&mut server, marker);
    if host_pressure().is_none() {
        eprintln!("this host has no pressure stall information: that it is missed is checked");
        server.expect_log("pressure cannot be measured");
        assert!(server.run("echo at once").text().contains("at once"));
        return None;
    }
    eventually("starts are held back", || is_held(&mut server));
    server.expect_log("starts are held back by pressure resource=\"cpu\"");
    Some((server, loops))
}

#[test]
fn a_job_that_waits_for_a_stalling_host_says_so_and_one_always_runs() {
    let marker = Marker::new();
    let Some((mut server, loops)) = stalling_server(5, &marker) else { return };
    let asked = json!({"command": "echo second", "wait_s": 0});
    let verdict = server.call("run_command", asked).ok().verdict();
    assert!(verdict.starts_with("queued · position 1 of 1 · job 2 · cpu pressure "), "{verdict}");
    assert!(verdict.ends_with(" %"), "{verdict}");
    let third = server.start("echo third");
    assert!(server.metric("shellyard_pressure_ratio{resource=\"cpu\"}") >= 0.0375);
    for (series, expected) in [
        ("shellyard_pressure_limit_ratio{resource=\"cpu\"}", 0.05),
        ("shellyard_pressure_limit_ratio{resource=\"memory\"}", 0.0),
        ("shellyard_jobs_waiting{reason=\"pressure\"}", 2.0),
        ("shellyard_jobs_waiting{reason=\"slots\"}", 0.0),
        ("shellyard_lane_jobs_queued{lane=\"default\"}", 2.0),
        ("shellyard_lane_jobs_running{lane=\"default\"}", 1.0),
        ("shellyard_lane_jobs_running_limit{lane=\"build\"}", 2.0),
        ("shellyard_tenant_jobs_running{tenant=\"local\"}", 1.0),
        ("shellyard_tenant_jobs_queued{tenant=\"local\"}", 2.0),
        ("shellyard_tenant_jobs_queued{tenant=\"other\"}", 0.0),
        ("shellyard_jobs_running_limit", 8.0),
        ("shellyard_queue_paused", 0.0),
    ] {
        assert_eq!(server.metric(series), expected, "{series}");
    }
    assert!(server.metric("shellyard_queue_oldest_age_seconds") > 0.0);
    // Once nothing runs, one starts whatever the host says; then the next.
    server.call("stop_jobs", json!({"jobs": [loops]})).ok();
    for job in [2, third] {
        eventually("it ran", || {
            let reply = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 20})).ok();
            reply.verdict().contains("exit 0")
        });
    }
}

/// Patience with a host that others keep busy as well.
const OTHERS: Duration = Duration::from_secs(45);

#[test]
fn when_the_host_stalls_no_longer_starts_go_on() {
    let marker = Marker::new();
    let Some((mut server, loops)) = stalling_server(20, &marker) else { return };
    let waiting = server.start("echo went on");
    server.call("send_input", json!({"job": loops, "text": "enough\n"})).ok();
    marker.wait_alive();
    let began = Instant::now();
    let is_quiet = eventually_some("starts go on, or somebody else keeps the host busy", || {
        let is_busy = began.elapsed() > OTHERS && host_pressure().is_some_and(|now| now >= 14.0);
        if is_held(&mut server) { is_busy.then_some(false) } else { Some(true) }
    });
    if !is_quiet {
        eprintln!("others keep this host busy: the level is taken away instead");
        server.sandbox().write("config.toml", &levels(0));
        server.signal(Signal::HUP);
    }
    server.expect_log("starts no longer held back by pressure");
    let done = server.call("wait_jobs", json!({"jobs": [waiting], "wait_s": 50})).ok();
    assert!(done.verdict().contains("exit 0"), "{}", done.verdict());
}

#[test]
fn a_level_that_is_taken_away_lets_jobs_start_without_a_restart() {
    let marker = Marker::new();
    let Some((mut server, _)) = stalling_server(5, &marker) else { return };
    let waiting = server.start("echo went on");
    server.sandbox().write("config.toml", &levels(0));
    server.signal(Signal::HUP);
    server.expect_log("starts no longer held back");
    let done = server.call("wait_jobs", json!({"jobs": [waiting], "wait_s": 50})).ok();
    assert!(done.verdict().contains("exit 0"), "{}", done.verdict());
    assert_eq!(server.metric("shellyard_starts_held"), 0.0);
    assert_eq!(server.metric("shellyard_pressure_limit_ratio{resource=\"cpu\"}"), 0.0);
    assert_eq!(server.metric("shellyard_pressure_ratio{resource=\"cpu\"}"), 0.0);
}

#[test]
fn without_levels_nothing_is_held_and_nothing_is_said() {
    let marker = Marker::new();
    let mut server = Launch::http().config(&levels(0)).start();
    start_loops(&mut server, &marker);
    for _ in 0..5 {
        assert!(server.run("echo at once").verdict().starts_with("exit 0"));
    }
    assert_eq!(server.metric("shellyard_starts_held"), 0.0);
    assert!(!server.log_text().contains("pressure"), "{}", server.log_text());
}

/// The program on a host whose kernel tells no pressure.
fn without_psi(sandbox: &Sandbox, arguments: &str) -> Command {
    let mut plain = sandbox.command();
    if host_pressure().is_none() {
        plain.args(arguments.split(' '));
        return plain;
    }
    let program = tested_program().display().to_string();
    let script = format!("mount -t tmpfs tmpfs /proc/pressure && exec {program} {arguments}");
    let environment = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut hidden = Command::new("unshare");
    hidden.args(["-rm", "sh", "-c", &script]).env_clear().envs(environment);
    hidden.current_dir(sandbox.work());
    hidden
}

#[test]
fn a_kernel_that_tells_no_pressure_is_named_by_doctor_and_in_the_log() {
    let sandbox = Sandbox::new();
    let doctor = output_of(without_psi(&sandbox, "doctor"), "");
    let told = text(&doctor.stdout);
    assert!(doctor.status.success(), "this test hides /proc/pressure: run it as root ({doctor:?})");
    assert!(told.contains("\nwarn  pressure: this kernel has no pressure stall"), "{told}");
    assert!(told.contains("starts are not held back\n      boot with psi=1"), "{told}");
    let json = output_of(without_psi(&sandbox, "doctor --json"), "");
    let finding = pressure_finding(&text(&json.stdout));
    assert_eq!(finding["level"], "warn", "{finding}");
    assert!(finding["fix"].as_str().is_some_and(|fix| fix.contains("psi=1")), "{finding}");
    let ran = output_of(without_psi(&sandbox, "run -- echo fine"), "");
    assert_eq!(text(&ran.stdout), "fine\n");
    let said = text(&ran.stderr);
    assert_eq!(said.matches("pressure cannot be measured").count(), 1, "{said}");
}

fn pressure_finding(json: &str) -> Value {
    let answer: Value = serde_json::from_str(json).expect("JSON");
    let findings = answer["findings"].as_array().expect("a list");
    findings.iter().find(|finding| finding["what"] == "pressure").expect("it is there").clone()
}

#[test]
fn doctor_tells_pressure_beside_its_levels() {
    let sandbox = Sandbox::new();
    let config = sandbox.write("config.toml", "[pressure]\ncpu = 80\nmemory = 30\nio = 0\n");
    let ask = |flags: &[&str]| {
        let mut command = sandbox.command();
        command.arg("doctor").args(flags).arg("--config").arg(&config);
        let output = output_of(command, "");
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    let told = ask(&[]);
    assert!(told.contains("ok    environment: jobs get "), "{told}");
    assert!(told.contains("\nok    store: output beyond memory goes to "), "{told}");
    let line = told.lines().find(|line| line.contains(" pressure: ")).expect("a line of its own");
    let finding = pressure_finding(&ask(&["--json"]));
    if host_pressure().is_none() {
        eprintln!("this host has no pressure stall information: that it is missed is checked");
        assert!(line.starts_with("warn  pressure: "), "{line}");
        assert_eq!(finding["level"], "warn");
        return;
    }
    assert!(line.starts_with("ok    pressure: cpu "), "{line}");
    assert!(line.ends_with(" %; starts are held back above cpu 80 %, memory 30 %"), "{line}");
    assert_eq!(finding["level"], "ok", "{finding}");
    assert!(
        finding["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("starts are held back above cpu 80 %"))
    );
    assert_eq!(finding.get("fix"), None, "{finding}");
}

#[test]
fn doctor_fails_where_output_cannot_be_kept() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("a-file", "");
    let config = format!("[server]\ndata_dir = {:?}\n", file.join("data"));
    let config = sandbox.write("config.toml", &config);
    let mut command = sandbox.command();
    command.args(["doctor", "--config"]).arg(config);
    let output = output_of(command, "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("\nfail  store: "), "{output:?}");
}

const STORED: &str = "shellyard_tenant_stored_bytes{tenant=\"local\"}";
const MIB: f64 = 1_048_576.0;

/// A server whose tenant may store little, and a running job that holds all of it.
fn full_server(marker: &Marker) -> (TestServer, u64) {
    let config = "[tenants.local]\nmax_stored = \"1 MiB\"\n[tenants.ci]\nmax_stored = \"2 MiB\"\n";
    let mut server = Launch::http().structured().config(config).start();
    let holder = server.start(&format!("head -c 3000000 /dev/zero; sleep {marker}"));
    marker.wait_alive();
    eventually("what can be kept is kept", || server.metric(STORED) > 0.75 * MIB);
    (server, holder)
}

#[test]
fn a_tenant_whose_running_jobs_fill_its_store_starts_nothing_more() {
    let marker = Marker::new();
    let (mut server, holder) = full_server(&marker);
    let refused = server.call("run_command", json!({"command": "touch never"}));
    let said = refused.error_text();
    assert!(said.contains("stored output is at its limit of 1 MiB"), "{said}");
    assert_eq!(refused["error_code"], "tenant_limit");
    for (series, expected) in [
        ("shellyard_jobs_rejected_total{reason=\"tenant_limit\"}", 1.0),
        ("shellyard_tenant_stored_limit_bytes{tenant=\"local\"}", MIB),
        ("shellyard_tenant_stored_limit_bytes{tenant=\"ci\"}", 2.0 * MIB),
        ("shellyard_tenant_stored_bytes{tenant=\"ci\"}", 0.0),
    ] {
        assert_eq!(server.metric(series), expected, "{series}");
    }
    assert!(server.metric(STORED) <= MIB);
    server.call("stop_jobs", json!({"jobs": [holder]})).ok();
    server.wait_finished(holder);
    eventually("what has finished makes room", || {
        !server.call("run_command", json!({"command": "echo room"})).is_error()
    });
    assert!(!server.work().join("never").exists(), "what was refused never ran");
}

#[test]
fn a_larger_store_is_granted_without_a_restart() {
    let marker = Marker::new();
    let (mut server, _) = full_server(&marker);
    assert!(server.call("run_command", json!({"command": "true"})).is_error());
    server.sandbox().write("config.toml", "[tenants.local]\nmax_stored = \"8 MiB\"\n");
    server.signal(Signal::HUP);
    server.expect_log("settings reloaded");
    assert_eq!(server.run("echo granted")["output"], "granted\n");
    let limit = "shellyard_tenant_stored_limit_bytes{tenant=\"local\"}";
    assert_eq!(server.metric(limit), 8.0 * MIB);
}
