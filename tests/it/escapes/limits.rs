//! Jobs that use up what they should not: they end, and nobody else.

use serde_json::{Value, json};

use super::world::{EscapeWorld, Means, SandboxCase, python};
use crate::harness::{Launch, Marker};

const ALL: [SandboxCase; 4] =
    [SandboxCase::Open, SandboxCase::Default, SandboxCase::Workspace, SandboxCase::ReadOnly];

/// Runs it beside a bystander, in each world and profile; gives each answer.
fn each(command: &str, limits: &Value, check: impl Fn(&str, &Value)) {
    for mut world in EscapeWorld::all() {
        let bystander = Marker::new();
        let job = world.server.start(&format!("sleep {bystander}"));
        for shut in ALL {
            let reply = world.call(shut, command, json!({"limits": limits, "wait_s": 60}));
            check(&world.name(shut), reply.structured());
        }
        unharmed(&mut world, job);
    }
}

/// Both the server and this job go on.
fn unharmed(world: &mut EscapeWorld, job: u64) {
    world.server.assert_alive();
    let state = world.server.call("wait_jobs", json!({"jobs": [job], "wait_s": 0})).ok();
    assert_eq!(state.only_job()["state"], "running", "{}", state.0);
}

#[test]
fn a_memory_hog_ends_alone_and_is_told_its_limit_and_its_peak() {
    let hog = python("hog = [bytearray(b\"x\" * 1000000) for _ in range(600)]; signal.pause()");
    each(&hog, &json!({"memory": "150 MB"}), |name, ended| {
        assert_eq!(ended["outcome"], "limit", "{name}: {ended}");
        assert_eq!(ended["limit"], "memory", "{name}: {ended}");
        let peak = ended["peak_memory_bytes"].as_u64().unwrap();
        assert!(peak >= 100_000_000, "{name}: {ended}");
    });
}

#[test]
fn a_busy_loop_ends_at_its_cpu_time() {
    each("while :; do :; done", &json!({"cpu_s": 1}), |name, ended| {
        assert_eq!(ended["limit"], "cpu", "{name}: {ended}");
    });
}

#[test]
fn a_file_does_not_grow_beyond_its_limit() {
    let write = "exec head -c 5000000 /dev/zero >\"${TMPDIR:-.}/big\"";
    each(write, &json!({"file_size": 1_000_000}), |name, ended| {
        assert_eq!(ended["limit"], "file_size", "{name}: {ended}");
    });
}

/// At most 600: should the limit not hold, the machine survives the test.
const BOMB: &str =
    "exec sh -c 'i=0; while [ $i -lt 600 ]; do sleep MARKER & i=$((i+1)); done; wait'";

#[test]
fn a_fork_bomb_is_held_and_nothing_of_it_is_left() {
    for mut world in EscapeWorld::all() {
        let bystander = Marker::new();
        let other = world.server.start(&format!("sleep {bystander}"));
        for shut in ALL {
            let marker = Marker::new();
            let bomb = BOMB.replace("MARKER", &marker.to_string());
            let limits = json!({"limits": {"processes": 50}, "wait_s": 60});
            let ended = world.call(shut, &bomb, limits);
            assert_eq!(ended["limit"], "processes", "{}: {}", world.name(shut), ended.0);
            marker.wait_gone();
        }
        unharmed(&mut world, other);
    }
}

/// Each process writes a line, starts two more, and spins: 511 of them at most, for 50 s at most.
/// What bash says of processes that it was refused is not counted.
const SPINNING_BOMB: &str = "exec bash -c 'b() { echo started; if [ $1 -gt 0 ]; then \
    b $(($1-1)) & b $(($1-1)) & fi; while [ $SECONDS -lt 50 ]; do :; done; }; b 8 # MARKER' 2>/dev/null";

/// The resident memory of so many shells adds up to more than the limit, although they share it.
#[test]
fn a_spinning_fork_bomb_is_ended_for_its_processes_whatever_memory_it_may_have() {
    const PROCESSES: u64 = 100;
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        let bystander = Marker::new();
        let other = world.server.start(&format!("sleep {bystander}"));
        for shut in [SandboxCase::Open, SandboxCase::Default, SandboxCase::Workspace] {
            let marker = Marker::new();
            let bomb = SPINNING_BOMB.replace("MARKER", &marker.to_string());
            let limits = json!({"processes": PROCESSES, "memory": "100 MB"});
            let ended = world.call(shut, &bomb, json!({"limits": limits, "wait_s": 60}));
            let name = world.name(shut);
            assert_eq!(ended["outcome"], "limit", "{name}: {}", ended.0);
            assert_eq!(ended["limit"], "processes", "{name}: {}", ended.0);
            let started = ended["lines"].as_u64().unwrap();
            // Elsewhere no kernel limit holds it: how many start depends on the load of the machine.
            if shut == SandboxCase::Workspace && name.ends_with("nobody") {
                assert!(started <= 2 * PROCESSES, "{name}: {started}");
            }
            marker.wait_gone();
        }
        unharmed(&mut world, other);
    }
}

/// The same with a session for each process, 255 of them at most: schedulers that share processors
/// between sessions leave the server as little as each of them.
const LEAVING_BOMB: &str = "exec bash -c 'b() { echo started; if [ $1 -gt 0 ]; then \
    for i in 1 2; do setsid bash -c \"$(declare -f b); b $(($1-1))\" MARKER & done; fi; \
    while [ $SECONDS -lt 50 ]; do :; done; }; b 7'";

/// Without a sandbox, and without a cgroup where the user may make none: only ancestors tell what
/// such a process belongs to.
#[test]
fn a_fork_bomb_that_leaves_its_session_is_ended_for_its_processes() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        let bystander = Marker::new();
        let other = world.server.start(&format!("sleep {bystander}"));
        let marker = Marker::new();
        let bomb = LEAVING_BOMB.replace("MARKER", &marker.to_string());
        let limits = json!({"limits": {"processes": 100}, "wait_s": 60});
        let ended = world.call(SandboxCase::Open, &bomb, limits);
        assert_eq!(ended["outcome"], "limit", "{}: {}", world.name(SandboxCase::Open), ended.0);
        assert_eq!(ended["limit"], "processes", "{}: {}", world.name(SandboxCase::Open), ended.0);
        marker.wait_gone();
        unharmed(&mut world, other);
    }
}

#[test]
fn a_verdict_names_the_limit() {
    let mut server = Launch::stdio().start();
    let marker = Marker::new();
    let bomb = BOMB.replace("MARKER", &marker.to_string());
    let hog = python("hog = [bytearray(b\"x\" * 1000000) for _ in range(600)]; signal.pause()");
    for (command, limits, words) in [
        (hog.as_str(), json!({"memory": "150 MB"}), "out of memory: limit 150.0 MB, peak "),
        (&bomb, json!({"processes": 50}), "process limit of 50 reached"),
        ("while :; do :; done", json!({"cpu_s": 1}), "CPU limit of 1s reached"),
        (
            "exec head -c 5000000 /dev/zero >big",
            json!({"file_size": 1_000_000}),
            "file size limit of 1.0 MB reached",
        ),
    ] {
        let arguments = json!({"command": command, "limits": limits, "wait_s": 60});
        let verdict = server.call("run_command", arguments).verdict();
        assert!(verdict.starts_with(words), "{verdict}");
    }
}
