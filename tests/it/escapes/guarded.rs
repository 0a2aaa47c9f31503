//! Files in a workspace that other programs execute later, outside of any job.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;

use super::world::{EscapeWorld, Means, SandboxCase};
use crate::harness::{Marker, eventually};

const RESET: &str = "rm -rf .git old .mcp.json; mkdir -p .git/objects";

/// Ways to leave something behind that a client or git would run.
const PLANTS: [&str; 8] = [
    "mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit",
    "rm -rf .git/hooks; mkdir .git/hooks; echo evil >.git/hooks/pre-commit",
    "mkdir own; echo evil >own/pre-commit; mv -T own .git/hooks",
    "mkdir own; echo evil >own/pre-commit; rm -rf .git/hooks; ln -s ../own .git/hooks",
    "mv .git old; mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit",
    "rm -rf .git; mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit",
    "echo evil >.mcp.json",
    "rm -rf .mcp.json; echo evil >mine; mv -T mine .mcp.json",
];

/// Everything below a directory.
fn all(place: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![place.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.insert(entry.path());
        }
    }
    found
}

fn is_planted(world: &EscapeWorld) -> bool {
    [".git/hooks/pre-commit", ".mcp.json"].iter().any(|name| {
        fs::read_to_string(world.server.work().join(name)).is_ok_and(|text| text == "evil\n")
    })
}

/// With Landlock nothing within a workspace can be left out: documented.
#[test]
fn nothing_that_runs_later_is_planted_where_there_are_namespaces() {
    for mut world in EscapeWorld::all() {
        for (there, make) in [("missing", ""), ("there", "; mkdir .git/hooks; echo {} >.mcp.json")]
        {
            for plant in PLANTS {
                let reset = format!("rm -rf own mine; {RESET}{make}");
                world.prepare(&reset);
                world.attempt(SandboxCase::Open, plant);
                assert!(is_planted(&world), "{plant} proves nothing");
                world.prepare(&reset);
                let attempt = world.attempt(SandboxCase::Workspace, plant);
                let expected = world.means == Means::Landlock;
                let name = world.name(SandboxCase::Workspace);
                assert_eq!(is_planted(&world), expected, "{plant}, {there}, {name}: {attempt:?}");
            }
        }
    }
}

#[test]
fn what_was_missing_is_missing_again_and_the_rest_of_a_repository_can_be_written() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(RESET);
        let before = all(&world.server.work());
        let work = world.attempt(SandboxCase::Workspace, "echo x >.git/objects/one");
        assert!(work.worked(), "{work:?}");
        let place = world.server.work();
        fs::remove_file(place.join(".git/objects/one")).unwrap();
        eventually("the placeholders are gone", || all(&place) == before);
    }
}

/// A repository with a commit, as its user has one.
const REPOSITORY: &str = "rm -rf .git ..?* .[!.]* *; git init -q . && git config user.name me && \
    git config user.email me@here && echo one >file && git add file && git commit -qm one";

/// Each is a file that other programs execute, or read to find what they execute.
const EXECUTED: [&str; 22] = [
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/hooks/pre-commit",
    ".gitmodules",
    ".github/workflows/ci.yml",
    ".husky/pre-commit",
    ".mcp.json",
    ".claude/settings.json",
    ".cursor/mcp.json",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".envrc",
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".kshrc",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// Ways to change a file of which only the name is given.
const TRICKS: [&str; 6] = [
    "mkdir -p \"$(dirname FILE)\"; echo evil >FILE",
    "echo evil >new; mv -f new FILE",
    "rm -rf FILE; echo evil >new; ln -f new FILE",
    "rm -rf FILE; echo evil >new; ln -sf \"$PWD/new\" FILE",
    "top=$(echo FILE | cut -d/ -f1); mv $top away; mkdir -p \"$(dirname FILE)\"; echo evil >FILE",
    "ln FILE other; echo evil >other",
];

fn is_evil(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains("evil"))
}

/// On B nothing within a workspace can be left out: documented.
#[test]
fn nothing_that_other_programs_execute_is_changed_in_a_workspace() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        for file in EXECUTED {
            let path = world.server.work().join(file);
            let make = format!("mkdir -p $(dirname {file}); test -e {file} || echo old >{file}");
            for (there, make) in [("missing", "true"), ("there", make.as_str())] {
                for trick in TRICKS {
                    let text = trick.replace("FILE", file);
                    world.prepare(&format!("{REPOSITORY}; {make}"));
                    let attempt = world.attempt(SandboxCase::Workspace, &text);
                    let name = world.name(SandboxCase::Workspace);
                    assert!(!is_evil(&path), "{text}, {there}, {name}: {attempt:?}");
                }
            }
            world.prepare(REPOSITORY);
            world.attempt(SandboxCase::Open, &TRICKS[0].replace("FILE", file));
            assert!(is_evil(&path), "{file} proves nothing");
        }
    }
}

#[test]
fn a_job_still_adds_commits_stashes_and_cleans() {
    let work = "set -e; echo two >>file; echo new >other; git add -A; git commit -qm two
        git checkout -qb branch; echo three >>file; git stash -q; git stash pop -q
        touch junk; git clean -qfdx; test ! -e junk; git commit -qam three; git gc -q
        git status --porcelain; git ls-files; git log --format=%s";
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(REPOSITORY);
        let attempt = world.attempt(SandboxCase::Workspace, work);
        assert_eq!(attempt.output, "file\nother\nthree\ntwo\none\n", "{attempt:?}");
        assert!(attempt.worked(), "{attempt:?}");
        world.prepare("git fsck && git status && git log");
    }
}

#[test]
fn the_list_is_a_setting() {
    let settings = "protect = [\"only-this\"]\n";
    for mut world in EscapeWorld::each_user(Means::Namespaces, settings) {
        let attempt = world.attempt(SandboxCase::Workspace, "echo x >.envrc && cat .envrc");
        assert_eq!(attempt.output, "x\n", "{attempt:?}");
        let attempt = world.attempt(SandboxCase::Workspace, "echo x >only-this");
        assert!(!attempt.worked(), "{attempt:?}");
    }
}

#[test]
fn after_a_server_that_was_killed_nothing_is_left_in_the_workspace() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(REPOSITORY);
        let place = world.server.work();
        let before = all(&place);
        let marker = Marker::new();
        world.call(SandboxCase::Workspace, &format!("sleep {marker}"), json!({"wait_s": 0})).ok();
        marker.wait_alive();
        let envrc = place.join(".envrc").symlink_metadata().expect("a placeholder").file_type();
        assert!(envrc.is_socket());
        world.server.signal(Signal::KILL);
        marker.wait_gone();
        eventually("nothing of the job is left", || all(&place) == before);
    }
}

#[test]
fn jobs_that_start_and_end_side_by_side_do_not_disturb_each_other() {
    let worlds = EscapeWorld::each_user(Means::Namespaces, "");
    for mut world in worlds.chain([EscapeWorld::durable(Means::Namespaces)]) {
        world.prepare(REPOSITORY);
        let before = all(&world.server.work());
        let jobs: Vec<u64> = (0..40)
            .map(|_| {
                world
                    .call(SandboxCase::Workspace, "echo evil >.envrc", json!({"wait_s": 0}))
                    .ok()
                    .job()
            })
            .collect();
        for job in jobs {
            let ended = world.server.wait_finished(job);
            assert_eq!(ended["outcome"], "exited", "{ended}");
            assert_ne!(ended["exit_code"], 0, "{ended}");
        }
        let place = world.server.work();
        eventually("the placeholders are gone", || all(&place) == before);
    }
}
