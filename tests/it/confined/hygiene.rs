//! However many jobs there were, nothing is left of them.

use shellyard::confinement::{GrantedConfinement, ResourceLimits};
use shellyard::process::ExitKind;

use super::alone::{
    ConfinedServer, DEFAULT, LANDLOCK, READ_ONLY, WORKSPACE, host, read_all, run_alone, wait_until,
};
use super::remains::Remains;

/// Before the first look, so that what is made once is not counted.
const WARM_UP: usize = 30;
const JOBS: usize = 100;

const LIMITS: ResourceLimits = ResourceLimits {
    memory: Some(1 << 30),
    processes: Some(500),
    open_files: Some(1000),
    file_size: Some(1 << 30),
    ..ResourceLimits::NONE
};

/// Leaves a file where it can, and a process in a session of its own.
const UNTIDY: &str = "if test -n \"$TMPDIR\"; then mkdir $TMPDIR/dir; touch $TMPDIR/dir/file; fi; \
                      setsid sleep 1000 >/dev/null 2>&1 &";

async fn run(server: &ConfinedServer, granted: GrantedConfinement, jobs: usize) {
    let mut launch = server.sh(granted, UNTIDY);
    launch.sandbox.limits = LIMITS;
    for _ in 0..jobs {
        let mut process = host().spawn(&launch).unwrap();
        read_all(process.stdout).await;
        assert_eq!(process.events.wait().await.unwrap().status, ExitKind::Code(0));
        assert!(process.tree.kill());
    }
    server.wait_until_settled();
}

fn leaves_nothing(name: &str, granted: GrantedConfinement) {
    run_alone(&format!("confined::hygiene::{name}"), async |server| {
        // Asked here, where there is a keeper to ask.
        if granted == LANDLOCK && host().sandbox_support().landlock.check().is_err() {
            return;
        }
        run(&server, granted, WARM_UP).await;
        let find = || Remains::find(server.place.path());
        // What was made in the background may still be there.
        let mut before = find();
        wait_until(|| std::mem::replace(&mut before, find()) == before);
        run(&server, granted, JOBS).await;
        wait_until(|| find().beyond(&before) == 0);
        let after = find();
        assert!(after.keeper_kib <= before.keeper_kib * 3 / 2, "{before:?} {after:?}");
    });
}

#[test]
fn jobs_in_default_leave_nothing() {
    leaves_nothing("jobs_in_default_leave_nothing", DEFAULT);
}

#[test]
fn jobs_in_a_workspace_leave_nothing() {
    leaves_nothing("jobs_in_a_workspace_leave_nothing", WORKSPACE);
}

#[test]
fn jobs_that_only_read_leave_nothing() {
    leaves_nothing("jobs_that_only_read_leave_nothing", READ_ONLY);
}

#[test]
fn jobs_within_landlock_leave_nothing() {
    leaves_nothing("jobs_within_landlock_leave_nothing", LANDLOCK);
}
