//! Settings with which the server does not start.

use crate::harness::{Sandbox, run_program, text};
use crate::policy::mistakes::{refused, refused_by_server};

#[test]
fn an_unknown_profile_is_named_with_file_line_and_what_was_meant() {
    refused(
        "[confinement]\n# typo\nprofile = \"readonly\"\n",
        &["config.toml:3", "`confinement.profile`", "workspace-write", "did you mean `read-only`?"],
    );
    refused(
        "[tenants.ci]\nconfinement = \"sandbox\"\n",
        &[
            "config.toml:2",
            "`tenants.ci.confinement`",
            "\"none\", \"default\", \"workspace-write\"",
        ],
    );
    refused(
        "[queue.lanes.build]\nslots = 1\nconfinement = [\"default\"]\n",
        &["config.toml:3", "`queue.lanes.build.confinement`", "one of"],
    );
    refused("[confinement]\nnetwork = \"of\"\n", &["config.toml:2", "did you mean `off`?"]);
}

#[test]
fn an_unknown_key_of_a_tenant_or_a_lane_is_named_with_what_was_meant() {
    refused(
        "[tenants.ci]\nconfinment = \"default\"\n",
        &["config.toml:2", "did you mean `tenants.ci.confinement`?"],
    );
    refused("[limits]\nmemroy = 5\n", &["config.toml:2", "did you mean `limits.memory`?"]);
}

#[test]
fn a_limit_is_a_number_or_none() {
    refused("[limits]\nmemory = \"lots\"\n", &["config.toml:2", "`limits.memory`", "\"none\""]);
    refused("[limits]\nprocesses = 0\n", &["config.toml:2", "`limits.processes`", "from 1"]);
    refused("[tenants.ci]\nnice = 20\n", &["config.toml:2", "`tenants.ci.nice`", "0 to 19"]);
}

#[test]
fn a_profile_that_this_host_cannot_give_is_named_with_what_is_missing() {
    refused_by_server(
        "[confinement]\nbackend = \"none\"\nprofile = \"read-only\"\n",
        &["config.toml:3", "`confinement.profile`", "confinement.backend", "on_unavailable"],
    );
    let open = "[confinement]\nbackend = \"none\"\nprofile = \"none\"\n";
    refused_by_server(
        &format!("{open}[tenants.ci]\nconfinement = \"default\"\n"),
        &["config.toml:5", "`tenants.ci.confinement`", "no filter of system calls"],
    );
    refused_by_server(
        &format!("{open}[queue.lanes.build]\nconfinement = \"workspace-write\"\n"),
        &["config.toml:5", "`queue.lanes.build.confinement`", "on_unavailable"],
    );
}

#[test]
fn flags_of_run_are_checked_like_settings() {
    let sandbox = Sandbox::new();
    let ran = |arguments: &[&str]| run_program(&sandbox, &[&["run"], arguments].concat());
    let output = ran(&["--confinement", "read-olny", "--", "touch", "made"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.contains("--confinement") && told.contains("'read-only'"), "{told}");
    assert!(!sandbox.work().join("made").exists());
    let free = ["--confinement", "none", "--memory", "4GB", "--processes", "none"];
    let output = ran(&[&free[..], &["--", "echo", "fine"]].concat());
    assert_eq!(text(&output.stdout), "fine\n", "{output:?}");
}
