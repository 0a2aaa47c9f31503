//! Daemons: whoever left its session, its group and its parent ends with its job all the same.

use serde_json::json;

use super::world::{EscapeWorld, SandboxCase};
use crate::harness::{Marker, eventually};

#[test]
fn a_daemon_is_gone_after_its_job_was_stopped() {
    for mut world in EscapeWorld::all() {
        for shut in
            [SandboxCase::Open, SandboxCase::Default, SandboxCase::Workspace, SandboxCase::ReadOnly]
        {
            let marker = Marker::new();
            let daemon = format!(
                "(setsid sh -c \"(setsid sleep {marker} &)\" >/dev/null 2>&1 </dev/null &); \
                 exec sleep {marker}"
            );
            let job = world.call(shut, &daemon, json!({"wait_s": 0})).ok().job();
            eventually("daemon and leader run", || marker.sleeping() == 2);
            world.server.call("stop_jobs", json!({"jobs": [job]})).ok();
            marker.wait_gone();
            assert_eq!(
                world.server.wait_finished(job)["outcome"],
                "stopped",
                "{}",
                world.name(shut)
            );
        }
    }
}

#[test]
fn a_daemon_that_was_started_at_once_and_shed_its_environment_is_gone_too() {
    for mut world in EscapeWorld::all() {
        for _ in 0..5 {
            let marker = Marker::new();
            let daemon = format!(
                "setsid -f env -i sleep {marker} >/dev/null 2>&1 </dev/null; exec sleep {marker}"
            );
            let job = world.call(SandboxCase::Default, &daemon, json!({"wait_s": 0})).ok().job();
            eventually("daemon and leader run", || marker.sleeping() == 2);
            world.server.call("stop_jobs", json!({"jobs": [job]})).ok();
            marker.wait_gone();
        }
    }
}
