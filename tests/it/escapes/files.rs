//! Files outside of the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::world::{EscapeWorld, Means, SandboxCase};

/// A victim beside the workspace. Made by the server's own user, to whom nothing else forbids it.
const RESET: &str = "rm -rf ../outside mine way; mkdir ../outside; echo intact >../outside/victim";

/// Each changes what is outside.
const WRITES: [&str; 15] = [
    "echo evil >../outside/victim",
    "echo evil >>../outside/victim",
    "truncate -s 0 ../outside/victim",
    "echo evil >../outside/new",
    "rm ../outside/victim",
    "mv ../outside/victim ../outside/other",
    "mv ../outside/victim mine",
    "echo evil >mine; mv mine ../outside/victim",
    "echo evil >mine; ln mine ../outside/new",
    "ln ../outside/victim mine && echo evil >mine",
    "ln -s ../outside/victim way && echo evil >way",
    "ln -s ../outside way && echo evil >way/new",
    "mkdir ../outside/directory",
    "mkfifo ../outside/pipe",
    "echo evil >/proc/self/root$PWD/../outside/new",
];

/// Names, and what is in those that are files.
fn read_files(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).expect("it is there").flatten();
    let paths = entries.map(|entry| entry.path());
    let text = |path: &Path| path.is_file().then(|| fs::read_to_string(path).unwrap());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.map(|path| (name(&path), text(&path).unwrap_or_default())).collect()
}

#[test]
fn nothing_is_written_outside_of_the_workspace() {
    for mut world in EscapeWorld::all() {
        let outside = world.server.sandbox().path().join("outside");
        let intact = BTreeMap::from([("victim".to_owned(), "intact\n".to_owned())]);
        for write in WRITES {
            world.prepare(RESET);
            world.attempt(SandboxCase::Open, write);
            assert_ne!(read_files(&outside), intact, "{write} proves nothing");
            for shut in SandboxCase::FILES {
                world.prepare(RESET);
                let attempt = world.attempt(shut, write);
                let name = world.name(shut);
                assert_eq!(read_files(&outside), intact, "{write}, {name}: {attempt:?}");
                assert!(!attempt.worked(), "{write}, {name}: {attempt:?}");
            }
        }
    }
}

#[test]
fn a_workspace_is_written_where_it_may_be_and_the_temporary_directory_always() {
    for mut world in EscapeWorld::all() {
        world.prepare("echo intact >kept");
        let writes = "echo new >>kept";
        assert!(
            !world.attempt(SandboxCase::ReadOnly, writes).worked(),
            "{}",
            world.name(SandboxCase::ReadOnly)
        );
        assert_eq!(fs::read_to_string(world.server.work().join("kept")).unwrap(), "intact\n");
        assert!(world.attempt(SandboxCase::Workspace, writes).worked());
        assert_eq!(fs::read_to_string(world.server.work().join("kept")).unwrap(), "intact\nnew\n");
        for shut in SandboxCase::FILES {
            let own = world.attempt(shut, "echo new >$TMPDIR/x && cat $TMPDIR/x");
            assert_eq!(own.output, "new\n", "{}", world.name(shut));
            // With namespaces that is its own, and nothing of it is seen outside.
            let name = format!("/tmp/shellyard-escaped-{}", world.server.pid());
            let shared = world.attempt(shut, &format!("echo new >{name}"));
            let name_of = world.name(shut);
            assert_eq!(shared.worked(), world.means == Means::Namespaces, "{name_of}: {shared:?}");
            assert!(!Path::new(&name).exists(), "{name_of}");
        }
    }
}

/// Landlock knows no right for it: on hosts without namespaces this is open, and documented.
#[test]
fn modes_and_times_outside_are_kept_by_namespaces_and_not_by_landlock() {
    for mut world in EscapeWorld::all() {
        let victim = world.server.sandbox().path().join("outside/victim");
        for shut in SandboxCase::FILES {
            world.prepare(&format!("{RESET}; chmod 600 ../outside/victim"));
            let facts = || {
                let found = fs::metadata(&victim).unwrap();
                (found.mode() & 0o777, found.mtime())
            };
            let before = facts();
            let mode = world.attempt(shut, "chmod 666 ../outside/victim");
            let times = world.attempt(shut, "touch -d @1000 ../outside/victim");
            let after = if world.means == Means::Namespaces { before } else { (0o666, 1000) };
            assert_eq!(facts(), after, "{}: {mode:?} {times:?}", world.name(shut));
        }
    }
}
