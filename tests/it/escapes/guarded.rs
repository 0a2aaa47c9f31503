//! Files in a workspace that other programs execute later, outside of any job.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;

use super::world::{EscapeWorld, Means, SandboxCase};
use crate::harness::{Launch, Marker, eventually};

const RESET: &str = "rm -rf .git old .mcp.json*; mkdir -p .git/objects";

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

/// Nothing that the job did not create itself, also while it runs.
#[test]
fn nothing_is_created_in_a_workspace_to_protect_it() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(RESET);
        let place = world.server.work();
        let before = all(&place);
        let seen = world.attempt(SandboxCase::Workspace, "find . -mindepth 1; stat -c %a .");
        assert!(!seen.output.contains(".mcp.json"), "{seen:?}");
        let marker = Marker::new();
        let text = format!("echo x >.git/objects/one; sleep {marker}");
        let job = world.call(SandboxCase::Workspace, &text, json!({"wait_s": 0})).ok().job();
        marker.wait_alive();
        let new: Vec<PathBuf> = all(&place).difference(&before).cloned().collect();
        assert_eq!(new, [place.join(".git/objects/one")]);
        world.server.call("stop_jobs", json!({"jobs": [job]})).ok();
        marker.wait_gone();
        assert_eq!(all(&place).difference(&before).count(), 1);
    }
}

#[test]
fn a_protected_file_that_appeared_is_renamed_and_the_reply_says_so() {
    let text = "echo evil >.envrc; mkdir -p .github/workflows; echo evil >.github/workflows/ci.yml; \
                echo good >.github/other";
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(REPOSITORY);
        let place = world.server.work();
        let reply = world.call(SandboxCase::Workspace, text, json!({})).ok();
        let expected = [".envrc", ".github/workflows"].map(|name| place.join(name));
        assert_eq!(reply["set_aside"], json!(expected), "{}", reply.0);
        assert_eq!(reply["exit_code"], 0, "{}", reply.0);
        assert!(expected.iter().all(|path| path.symlink_metadata().is_err()));
        for name in [".envrc.set-aside", ".github/workflows.set-aside/ci.yml", ".github/other"] {
            assert!(place.join(name).exists(), "{name}");
        }
        let none = world.call(SandboxCase::Workspace, "true", json!({})).ok();
        assert_eq!(none["set_aside"], json!(null), "{}", none.0);
    }
    let config = "[confinement]\nprofile = \"workspace-write\"\n";
    let launch = Launch::stdio().within(EscapeWorld::place()).config(config);
    let verdict = launch.start().run("echo evil >.envrc").verdict();
    assert!(
        verdict.contains(".envrc is protected and appeared: renamed to .envrc.set-aside"),
        "{verdict}"
    );
}

/// A job that closes a directory to its owner, which is no hindrance.
#[test]
fn a_job_cannot_keep_a_protected_file_from_being_renamed() {
    let text = "mkdir -p .github/workflows; echo evil >.github/workflows/ci.yml; chmod 0 .github; \
                echo evil >.envrc; chmod 0 .envrc; chmod 500 .";
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(REPOSITORY);
        let reply = world.call(SandboxCase::Workspace, text, json!({})).ok();
        world.prepare("chmod 700 . .github");
        let names = [".envrc", ".github/workflows"];
        let left = names.map(|name| world.server.work().join(name).symlink_metadata().is_ok());
        assert_eq!(left, [false, false], "{}", reply.0);
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
        let reply = world.call(SandboxCase::Workspace, "echo x >only-this", json!({})).ok();
        let place = world.server.work();
        assert_eq!(reply["set_aside"], json!([place.join("only-this")]), "{}", reply.0);
        fs::write(place.join("only-this"), "").unwrap();
        let attempt = world.attempt(SandboxCase::Workspace, "echo x >only-this");
        assert!(!attempt.worked(), "{attempt:?}");
    }
}

#[test]
fn after_a_server_that_was_killed_no_protected_file_is_left_that_appeared() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(REPOSITORY);
        let place = world.server.work();
        let marker = Marker::new();
        let text = format!("echo evil >.envrc; sleep {marker}");
        world.call(SandboxCase::Workspace, &text, json!({"wait_s": 0})).ok();
        marker.wait_alive();
        assert!(is_evil(&place.join(".envrc")), "it proves nothing");
        world.server.signal(Signal::KILL);
        marker.wait_gone();
        eventually("the file is renamed", || {
            !place.join(".envrc").exists() && is_evil(&place.join(".envrc.set-aside"))
        });
    }
}

#[test]
fn jobs_side_by_side_leave_no_protected_file_that_appeared() {
    let worlds = EscapeWorld::each_user(Means::Namespaces, "");
    for mut world in worlds.chain([EscapeWorld::durable(Means::Namespaces)]) {
        world.prepare(REPOSITORY);
        let jobs: Vec<u64> = (0..40)
            .map(|_| {
                world
                    .call(SandboxCase::Workspace, "echo evil >.envrc", json!({"wait_s": 0}))
                    .ok()
                    .job()
            })
            .collect();
        for job in jobs {
            world.server.wait_finished(job);
        }
        assert!(!is_evil(&world.server.work().join(".envrc")));
    }
}

/// The second job starts while the file is there, and creates it again when the first one is over.
#[test]
fn no_job_makes_a_protected_file_look_like_an_old_one_to_another() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(REPOSITORY);
        let place = world.server.work();
        let first = Marker::new();
        let text = format!("echo evil >.envrc; sleep {first}");
        let job = world.call(SandboxCase::Workspace, &text, json!({"wait_s": 0})).ok().job();
        first.wait_alive();
        eventually("the file is there", || is_evil(&place.join(".envrc")));
        let second = "until test -e .envrc.set-aside; do sleep 0.05; done; echo evil >.envrc";
        let last = world.call(SandboxCase::Workspace, second, json!({"wait_s": 0})).ok().job();
        world.server.call("stop_jobs", json!({"jobs": [job]})).ok();
        world.server.wait_finished(last);
        assert!(is_evil(&place.join(".envrc.set-aside-2")), "it proves nothing");
        assert!(!is_evil(&place.join(".envrc")));
    }
}
