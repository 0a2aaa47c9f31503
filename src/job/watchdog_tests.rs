use std::time::Duration;

use ractor::Actor;
use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::ids::JobId;
use crate::job::tests::{LONG, Parent, settings, spec};
use crate::job::{JobHandle, Order, create};
use crate::outcome::LimitKind;
use crate::outcome::{Ending, Outcome};
use crate::spec::Spec;

const MB: u64 = 1 << 20;

async fn start(text: &str, resources: ResourceLimits) -> JobHandle {
    let (parent, _) = Actor::spawn(None, Parent, ()).await.unwrap();
    let order = Order { spec: Spec { resources, ..spec(text) }, cwd: None };
    let (seat, job) = create(JobId::local(1), order, &settings());
    seat.run(parent.get_cell()).await.unwrap();
    job
}

async fn ended(job: &JobHandle) -> Ending {
    let ending = tokio::time::timeout(LONG, job.finished()).await.expect("it ends");
    tokio::time::timeout(LONG, job.settled()).await.expect("nothing of it is left");
    ending
}

fn is_watched(tree_of: &JobHandle) -> bool {
    let pid = tree_of.pids().first().copied();
    registry().jobs.values().any(|job| Some(job.tree.leader_pid()) == pid)
}

/// A shell that holds this much memory and then waits, in its own words.
fn holding(megabytes: u64) -> String {
    format!("x=$(head -c {} /dev/zero | tr '\\0' x); echo full; sleep 300", megabytes * MB)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_takes_too_much_memory_is_ended_at_once() {
    let limit = 100 * MB;
    let limits = ResourceLimits { memory: Some(limit), ..ResourceLimits::NONE };
    let bystander = start("sleep 300", limits).await;
    let ending = ended(&start(&holding(300), limits).await).await;
    let Outcome::Limit { which: LimitKind::Memory { limit: told, peak } } = ending.outcome else {
        panic!("{ending:?}");
    };
    assert_eq!(told, limit);
    assert!(peak > limit && peak < 2000 * MB, "{peak}");
    assert_eq!(ending.kill, None, "no signal came before");
    assert!(bystander.status().ending().is_none() && is_watched(&bystander));
    bystander.stop(crate::job::tests::now());
    ended(&bystander).await;
    assert!(!is_watched(&bystander));
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_processes_share_is_counted_once() {
    let limits = ResourceLimits { memory: Some(100 * MB), ..ResourceLimits::NONE };
    // Six processes with the same 40 MB: 240 MB by the plain figures.
    let text = format!(
        "x=$(head -c {} /dev/zero | tr '\\0' x); for i in 1 2 3 4 5; do (sleep 2; :) & done; wait; echo ok",
        40 * MB
    );
    let ending = ended(&start(&text, limits).await).await;
    assert_eq!(ending.outcome, Outcome::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_time_counts_over_all_processes_and_ends_a_job_politely() {
    // Together they have used it long before the kernel would end any one of them for it.
    let cpu = Duration::from_secs(2);
    let limits = ResourceLimits { cpu: Some(cpu), ..ResourceLimits::NONE };
    let text = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
    let ending = ended(&start(text, limits).await).await;
    assert_eq!(ending.outcome, Outcome::Limit { which: LimitKind::Cpu(cpu) });
    assert_eq!(ending.kill.map(|kill| kill.first), Some(crate::outcome::SIGTERM));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_processes_end_a_job_wherever_they_hide() {
    let limits = ResourceLimits { processes: Some(20), ..ResourceLimits::NONE };
    let text = "for i in $(seq 30); do setsid sleep 300 & done; (setsid sleep 300 &); wait";
    let job = start(text, limits).await;
    let ending = ended(&job).await;
    assert_eq!(ending.outcome, Outcome::Limit { which: LimitKind::Processes(20) });
    assert_eq!((ending.survivors, job.pids()), (Vec::new(), Vec::new()));
}

/// The number and a copy of a job as it is watched.
fn watched(job: &JobHandle) -> (u64, Watched) {
    let pid = job.pids().first().copied();
    let registry = registry();
    let mut jobs = registry.jobs.iter();
    let (number, job) = jobs.find(|(_, job)| Some(job.tree.leader_pid()) == pid).expect("watched");
    (*number, job.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tasks_of_a_job_that_is_being_ended_are_not_counted() {
    let limits = ResourceLimits { processes: Some(1000), ..ResourceLimits::NONE };
    let job = start("sleep 300 & sleep 300 & echo ready; wait", limits).await;
    tokio::time::timeout(LONG, job.output().wait_past(5)).await.expect("it runs");
    let (number, copy) = watched(&job);
    count_tasks(&[(number, Watched { processes: Some(1), standing: Standing::Over, ..copy })]);
    job.stop(crate::job::tests::now());
    let ending = ended(&job).await;
    assert!(matches!(ending.outcome, Outcome::Stopped { .. }), "{ending:?}");
}

/// Thirty processes that have ended and are not reaped, and a line for each time that it is continued.
const ZOMBIES: &str = "exec python3 -c 'import os, signal
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b\"continued\\n\"))
for _ in range(30):
    if os.fork() == 0: os._exit(0)
for pid in range(30): os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
os.write(1, b\"ready\\n\")
while True: signal.pause()'";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_not_stopped_again_for_processes_that_have_ended() {
    let limits = ResourceLimits { processes: Some(1000), ..ResourceLimits::NONE };
    let job = start(ZOMBIES, limits).await;
    let written = async |bytes: u64| {
        tokio::time::timeout(LONG, job.output().wait_past(bytes)).await.expect("it writes");
    };
    written(5).await;
    let (number, copy) = watched(&job);
    let count = || {
        // Where it has a cgroup, that would be asked instead.
        let size = copy.tree.tasks_in_session(&process::session_sizes());
        assert_eq!(size, 31);
        judge_quick_count(number, &Watched { processes: Some(20), ..copy.clone() }, 20, size);
    };
    count();
    let once = "ready\ncontinued\n".len() as u64;
    written(once - 1).await;
    for _ in 0..5 {
        count();
    }
    // A signal to which it answers comes after all that were sent before.
    kill_process(Pid::from_raw(job.pids()[0].cast_signed()).unwrap(), Signal::CONT).unwrap();
    written(once + 9).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let bytes = job.output().progress().written_bytes();
    assert_eq!(bytes, once + 10, "continued once by the count, once by the test");
    job.stop(crate::job::tests::now());
    assert!(matches!(ended(&job).await.outcome, Outcome::Stopped { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_is_ended_and_others_go_on() {
    let limits = ResourceLimits { processes: Some(64), ..ResourceLimits::NONE };
    let other = start("for i in $(seq 40); do sleep 0.05; done; echo fine", limits).await;
    // It doubles, some of it in sessions of its own, to a thousand at the most.
    let bomb = "b() { if [ $1 -gt 0 ]; then b $(($1-1)) & setsid bash -c \"$(declare -f b); b $(($1-1))\" & fi; sleep 300; }; b 8";
    let job = start(bomb, limits).await;
    let ending = ended(&job).await;
    assert_eq!(ending.outcome, Outcome::Limit { which: LimitKind::Processes(64) });
    assert_eq!((ending.survivors, job.pids()), (Vec::new(), Vec::new()));
    assert_eq!(ended(&other).await.outcome, Outcome::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn survivors_are_watched_too_and_the_outcome_stays() {
    let limits = ResourceLimits { memory: Some(100 * MB), ..ResourceLimits::NONE };
    let place = tempfile::tempdir().unwrap();
    let go = place.path().join("go");
    let text = format!(
        "setsid bash -c 'until [ -e {} ]; do sleep 0.02; done; head -c {} /dev/zero | tail -n 1 | sleep 300' >/dev/null 2>&1 & true",
        go.display(),
        300 * MB
    );
    let job = start(&text, limits).await;
    let ending = tokio::time::timeout(LONG, job.finished()).await.expect("its leader ends");
    assert_eq!(ending.outcome, Outcome::Exited { code: 0 });
    assert!(!ending.survivors.is_empty());
    std::fs::write(&go, "").unwrap();
    assert_eq!(ended(&job).await, ending);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_such_limit_is_not_watched() {
    let limits = ResourceLimits { open_files: Some(64), ..ResourceLimits::NONE };
    let job = start("sleep 300", limits).await;
    job.started().await;
    assert!(!is_watched(&job));
    job.stop(crate::job::tests::now());
    ended(&job).await;
}
