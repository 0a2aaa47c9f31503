//! Ending everything that came out of such a job.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use shellyard::process::Process;

use super::alone::{
    BOTH, WORKSPACE, host, is_alive, keeper, read_process_state, run_alone, shims, wait_until,
};

/// Four sleepers in four sessions, two of them without a parent, beneath a shell that waits.
const SLEEPERS: &str = "(setsid sh -c '(setsid sleep 1000 &); sleep 1000' &); \
                    setsid sleep 1000 & sleep 1000 & wait";

fn wait_for_sleepers(process: &Process) -> Vec<u32> {
    wait_until(|| {
        let names = process
            .tree
            .living_pids()
            .into_iter()
            .filter_map(|pid| Some(read_process_state(pid)?.name));
        names.filter(|name| name == "sleep").count() == 4
    });
    process.tree.living_pids()
}

#[test]
fn whoever_left_the_session_ends_too() {
    run_alone("confined::trees::whoever_left_the_session_ends_too", async |server| {
        for granted in BOTH {
            let mut process = host().spawn(&server.sh(granted, SLEEPERS)).unwrap();
            let all = wait_for_sleepers(&process);
            assert!(process.tree.kill());
            assert!(!all.iter().any(|pid| is_alive(*pid)), "it is over");
            process.events.wait().await.unwrap();
            assert!(process.tree.is_over());
            drop(process);
            server.wait_until_settled();
        }
    });
}

#[test]
fn a_namespace_is_the_means_where_there_is_one() {
    run_alone("confined::trees::a_namespace_is_the_means_where_there_is_one", async |server| {
        let mut process = host().spawn(&server.sh(WORKSPACE, SLEEPERS)).unwrap();
        let all = wait_for_sleepers(&process);
        let shim = shims().next().expect("a shim");
        assert!(!all.contains(&shim), "it is none of the job's");
        let status = fs::read_to_string(format!("/proc/{shim}/status")).unwrap();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
        assert_eq!(
            numbers.split_whitespace().last(),
            Some("1"),
            "it is the first in its namespace"
        );
        assert!(process.tree.kill());
        process.events.wait().await.unwrap();
        assert!(process.tree.is_over());
        assert!(is_alive(shim), "what it knows may still be asked for");
        drop(process);
        wait_until(|| !is_alive(shim));
        server.wait_until_settled();
    });
}

#[test]
fn what_a_shim_that_is_killed_leaves_is_ended_and_the_end_is_unknown() {
    run_alone(
        "confined::trees::what_a_shim_that_is_killed_leaves_is_ended_and_the_end_is_unknown",
        async |server| {
            for granted in BOTH {
                let mut process = host().spawn(&server.sh(granted, SLEEPERS)).unwrap();
                let all = wait_for_sleepers(&process);
                let shim = shims().next().expect("a shim");
                kill_process(Pid::from_raw(shim.cast_signed()).unwrap(), Signal::KILL).unwrap();
                process.events.wait().await.unwrap_err();
                wait_until(|| !all.iter().any(|pid| is_alive(*pid)));
                assert!(process.tree.is_over());
                assert_eq!(process.tree.living_pids(), [0; 0]);
                server.wait_until_settled();
            }
        },
    );
}

#[test]
fn survivors_are_known_and_live_on() {
    run_alone("confined::trees::survivors_are_known_and_live_on", async |server| {
        for granted in BOTH {
            let text = "setsid sleep 1000 >/dev/null 2>&1 & sleep 1000 & exec true";
            let mut process = host().spawn(&server.sh(granted, text)).unwrap();
            process.events.wait().await.unwrap();
            assert!(!process.tree.is_over());
            let survivors = process.tree.living_pids();
            assert_eq!(survivors.len(), 2, "{survivors:?}");
            assert!(survivors.iter().all(|pid| is_alive(*pid)));
            assert_eq!(process.tree.read_activity().processes, 2);
            assert!(process.tree.kill());
            assert_eq!(process.tree.living_pids(), [0; 0]);
            drop(process);
            server.wait_until_settled();
        }
    });
}

#[test]
fn a_namespace_goes_with_its_last_process() {
    run_alone("confined::trees::a_namespace_goes_with_its_last_process", async |server| {
        let text = "mkfifo go; (read x <go) >/dev/null 2>&1 & exec true";
        let mut process = host().spawn(&server.sh(WORKSPACE, text)).unwrap();
        process.events.wait().await.unwrap();
        assert_eq!(process.tree.living_pids().len(), 1);
        fs::write(server.place.path().join("go"), "x\n").unwrap();
        wait_until(|| process.tree.is_over());
        assert_eq!(process.tree.living_pids(), [0; 0]);
        drop(process);
        server.wait_until_settled();
    });
}

#[test]
fn a_job_ends_with_the_server_that_is_killed() {
    run_alone("confined::trees::a_job_ends_with_the_server_that_is_killed", async |_| {
        let name = "confined::trees::holds_a_job_until_it_is_killed";
        let mut holder = Command::new(std::env::current_exe().unwrap());
        holder.args(["--exact", name, "--ignored", "--nocapture"]).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines().map_while(Result::ok);
        let told = lines.find_map(|line| line.strip_prefix("holding: ").map(str::to_owned));
        let told = told.expect("its processes");
        let all: Vec<u32> = told.split(' ').map(|pid| pid.parse().unwrap()).collect();
        assert!(all.len() > 4 && all.iter().all(|pid| is_alive(*pid)), "{told}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        wait_until(|| !all.iter().any(|pid| is_alive(*pid)));
    });
}

#[test]
#[ignore = "holds a job until it is killed: for the test above"]
fn holds_a_job_until_it_is_killed() {
    run_alone("confined::trees::holds_a_job_until_it_is_killed", async |server| {
        let mut process = host().spawn(&server.sh(WORKSPACE, SLEEPERS)).unwrap();
        let mut all = wait_for_sleepers(&process);
        all.extend(shims().chain([keeper()]));
        let all: Vec<_> = all.iter().map(u32::to_string).collect();
        println!("\nholding: {}", all.join(" "));
        process.events.wait().await.unwrap();
    });
}
