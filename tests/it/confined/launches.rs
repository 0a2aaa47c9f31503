//! Many launches, large ones, and signals to the keeper between them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use shellyard::process::{EnvVariable, ExitKind, LaunchStdin, ProcessLaunch};

use super::alone::{BOTH, ConfinedServer, finish, host, keeper, run_alone, wait_until};

/// The signals that no process can block: SIGKILL and SIGSTOP.
const UNBLOCKABLE: [i32; 2] = [9, 19];

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
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
        let (files, theirs) = (open_files(), files_of(keeper()));
        launch_hundred(&server).await;
        wait_until(|| is_clean() && open_files() <= files && files_of(keeper()) <= theirs);
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
fn signals_to_the_keeper_end_no_job() {
    run_alone("confined::launches::signals_to_the_keeper_end_no_job", async |server| {
        for granted in BOTH {
            let mut launch = server.sh(granted, "read line; exit 5");
            launch.stdin = LaunchStdin::Pipe;
            let mut process = host().spawn(&launch).unwrap();
            let keeper = Pid::from_raw(keeper().cast_signed()).unwrap();
            for number in (1..32).filter(|number| !UNBLOCKABLE.contains(number)) {
                kill_process(keeper, Signal::from_named_raw(number).unwrap()).unwrap();
            }
            server.run(&server.sh(granted, "true")).await;
            process.stdin.take().unwrap().send(b"line\n").unwrap();
            assert_eq!(finish(process).await.0, ExitKind::Code(5));
        }
    });
}
