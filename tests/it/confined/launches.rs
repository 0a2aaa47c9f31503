//! Many launches, large ones, and a spawner that dies between them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use shellyard::process::{EnvVariable, ExitKind, ProcessLaunch};

use super::alone::{
    BOTH, ConfinedServer, SPAWNER, WORKSPACE, children_of_ours, finish, host, processes, run_alone,
    wait_until,
};

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn the_spawner() -> u32 {
    let mut all = children_of_ours().filter(|it| it.name == SPAWNER);
    let found = all.next().expect("a spawner").pid;
    assert!(all.next().is_none(), "one is enough");
    found
}

async fn launch_hundred(server: &ConfinedServer) {
    for _ in 0..50 {
        for granted in BOTH {
            server.run(&server.launch(granted, "true", &[])).await;
        }
    }
    server.wait_until_settled();
}

#[test]
fn two_hundred_launches_leave_nothing_behind() {
    run_alone("confined::launches::two_hundred_launches_leave_nothing_behind", async |server| {
        // They are removed by a thread, which has files open meanwhile.
        let is_clean = || fs::read_dir(server.place.path().join("scratch")).unwrap().count() == 0;
        launch_hundred(&server).await;
        wait_until(is_clean);
        let (files, theirs) = (open_files(), files_of(the_spawner()));
        launch_hundred(&server).await;
        wait_until(|| is_clean() && open_files() <= files && files_of(the_spawner()) <= theirs);
    });
}

/// Returns the number of open files of a process, if it can be read.
fn files_of(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[test]
fn launches_beside_each_other_do_not_mix() {
    run_alone("confined::launches::launches_beside_each_other_do_not_mix", async |server| {
        let launches = (0..40).map(|i| (i, server.sh(BOTH[i % 2], &format!("echo {i}; exit {i}"))));
        let tasks: Vec<_> = launches
            .map(|(i, launch)| {
                (i, tokio::spawn(async move { finish(host().spawn(&launch).unwrap()).await }))
            })
            .collect();
        for (i, task) in tasks {
            let (ended, output) = task.await.unwrap();
            assert_eq!(ended, ExitKind::Code(i32::try_from(i).unwrap()));
            assert_eq!(output, format!("{i}\n"));
        }
    });
}

#[test]
fn a_large_environment_arrives() {
    run_alone("confined::launches::a_large_environment_arrives", async |server| {
        for granted in BOTH {
            let launch = server.sh(granted, "cat /proc/$$/environ | tr -dc % | wc -c");
            let long =
                |i: usize| EnvVariable::new(format!("LONG{i}"), "%".repeat(100_000)).unwrap();
            let env = launch.env.iter().cloned().chain((0..15).map(long)).collect();
            let (_, output) = server.run(&ProcessLaunch { env, ..launch }).await;
            assert_eq!(output.trim(), "1500000");
        }
    });
}

#[test]
fn a_spawner_that_died_is_replaced() {
    run_alone("confined::launches::a_spawner_that_died_is_replaced", async |server| {
        let kill = || {
            let pid = the_spawner();
            kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
            wait_until(|| processes().all(|it| it.pid != pid || it.state == 'Z'));
            pid
        };
        assert!(!host().spawner().restart_if_dead().unwrap(), "it is_alive");
        let first = kill();
        let (ended, _) = server.run(&server.sh(WORKSPACE, "exit 3")).await;
        assert_eq!(ended, ExitKind::Code(3));
        assert_ne!(the_spawner(), first);
        kill();
        assert!(host().spawner().restart_if_dead().unwrap(), "it died");
        let (ended, _) = server.run(&server.sh(WORKSPACE, "exit 4")).await;
        assert_eq!(ended, ExitKind::Code(4));
        the_spawner();
    });
}

#[test]
fn a_polite_end_of_all_is_not_meant_for_the_spawner() {
    run_alone(
        "confined::launches::a_polite_end_of_all_is_not_meant_for_the_spawner",
        async |server| {
            let spawner = the_spawner();
            for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
                kill_process(Pid::from_raw(spawner.cast_signed()).unwrap(), signal).unwrap();
            }
            server.run(&server.sh(WORKSPACE, "true")).await;
            assert_eq!(the_spawner(), spawner);
        },
    );
}
