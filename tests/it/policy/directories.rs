//! Directories in which jobs may run: the directory that is judged is the one that is used.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Launch, Marker, Reply, TestServer};

/// A server whose jobs may run in `inside`, which has an `outside` beside it.
struct Fence {
    server: TestServer,
    root: TempDir,
}

impl Fence {
    fn new(launch: Launch) -> Self {
        let root = TempDir::new().expect("a temporary directory");
        for name in ["inside", "inside/deep", "outside", "inside2"] {
            fs::create_dir(root.path().join(name)).expect("a directory of ours");
        }
        let inside = root.path().join("inside");
        let config = format!(
            "[policy]\nallowed_directories = [{inside:?}]\n[job]\ncwd = {inside:?}\n[queue]\nslots = 1\n"
        );
        Self { server: launch.structured().config(&config).start(), root }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn touch_in(&mut self, cwd: &str) -> Reply {
        let arguments = json!({"command": "touch made", "cwd": self.at(cwd)});
        self.server.call("run_command", arguments)
    }

    #[track_caller]
    fn refuses(&mut self, cwd: &str) {
        let reply = self.touch_in(cwd);
        assert_eq!(reply["outcome"], "refused", "{cwd}: {}", reply.0);
        assert_eq!(reply["error_code"], "outside_directories", "{cwd}: {}", reply.0);
        let text = reply.error_text();
        assert!(text.contains("policy.allowed_directories"), "{cwd}: {text}");
        assert!(text.contains(self.at("inside").to_str().expect("our path")), "{cwd}: {text}");
        for name in ["outside", "inside2", "."] {
            assert!(!self.at(name).join("made").exists(), "{cwd}: it ran in {name}");
        }
    }
}

#[test]
fn a_job_runs_inside_and_nowhere_else() {
    for launch in Launch::both() {
        let mut fence = Fence::new(launch);
        for name in ["inside", "inside/deep", "outside/../inside"] {
            fence.touch_in(name).ok();
        }
        assert!(fence.at("inside/made").exists() && fence.at("inside/deep/made").exists());
        for name in ["outside", "inside2", ".", "inside/..", "inside/deep/../../outside"] {
            fence.refuses(name);
        }
        let reply = fence.server.call("run_command", json!({"command": "pwd", "cwd": "/"}));
        assert_eq!(reply["outcome"], "refused", "{}", reply.0);
    }
}

#[test]
fn a_link_that_leads_outside_is_refused_and_one_that_stays_is_not() {
    let mut fence = Fence::new(Launch::stdio());
    symlink(fence.at("outside"), fence.at("inside/out")).expect("a link of ours");
    symlink(fence.at("inside/deep"), fence.at("outside/in")).expect("a link of ours");
    symlink("../..", fence.at("inside/deep/up")).expect("a link of ours");
    fence.refuses("inside/out");
    fence.refuses("inside/deep/up");
    fence.refuses("inside/deep/up/outside");
    fence.touch_in("outside/in").ok();
    assert!(fence.at("inside/deep/made").exists());
}

#[test]
fn a_directory_that_is_swapped_while_its_job_waits_opens_no_hole() {
    let marker = Marker::new();
    let mut fence = Fence::new(Launch::stdio());
    let holder = fence.server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let command = json!({"command": "touch made", "cwd": fence.at("inside/deep"), "wait_s": 0});
    let waiting = fence.server.call("run_command", command).ok();
    assert_eq!(waiting["state"], "queued", "{}", waiting.0);
    fs::rename(fence.at("inside/deep"), fence.at("inside/moved")).expect("ours to move");
    symlink(fence.at("outside"), fence.at("inside/deep")).expect("a link of ours");
    fence.server.call("stop_jobs", json!({"jobs": [holder]})).ok();
    let ended = fence.server.wait_finished(waiting.job());
    assert!(!fence.at("outside/made").exists(), "it ran where the link leads: {ended}");
    assert_eq!(ended["exit_code"], 0, "{ended}");
    assert!(fence.at("inside/moved/made").exists(), "it ran in the directory that was judged");
}
