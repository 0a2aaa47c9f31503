//! Secrets that jobs must not read: credentials, the server's data, the server itself.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use super::world::{EscapeWorld, Means, SandboxCase, python};

/// With Landlock all can be read: documented.
#[test]
fn credentials_and_the_data_of_the_server_are_hidden_by_namespaces() {
    for mut world in EscapeWorld::all() {
        world.prepare("mkdir -p ~/.ssh ~/.aws; echo secret >~/.ssh/id; echo secret >~/.aws/keys");
        world.prepare("echo secret >../data/tokens; echo secret >~/.netrc");
        for read in [
            "grep secret ~/.ssh/id",
            "grep -r secret ~/.aws",
            "grep secret ~/.netrc",
            "grep secret ../data/tokens",
            "grep secret /proc/self/root$HOME/.ssh/id",
            "test -s ../data/audit.jsonl",
        ] {
            assert!(world.attempt(SandboxCase::Open, read).worked(), "{read} proves nothing");
            for shut in SandboxCase::FILES {
                let attempt = world.attempt(shut, read);
                let expected = world.means == Means::Landlock;
                assert_eq!(attempt.worked(), expected, "{read}, {}: {attempt:?}", world.name(shut));
            }
        }
    }
}

#[test]
fn a_service_whose_socket_is_hidden_is_not_reached() {
    let place = tempfile::tempdir().unwrap();
    let everybody = |path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    everybody(place.path().to_owned(), 0o755);
    let path = place.path().join("service.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    everybody(path.clone(), 0o777);
    let settings = format!("hide = [\"{}\"]\n", path.display());
    let connect = python(&format!("socket.socket(socket.AF_UNIX).connect(\"{}\")", path.display()));
    for means in Means::BOTH {
        for mut world in EscapeWorld::each_user(means, &settings) {
            assert!(world.attempt(SandboxCase::Open, &connect).worked(), "it proves nothing");
            for shut in SandboxCase::FILES {
                let attempt = world.attempt(shut, &connect);
                assert!(!attempt.worked(), "{}: {attempt:?}", world.name(shut));
            }
        }
    }
}

#[test]
fn the_server_cannot_be_looked_into() {
    let is_root = rustix::process::geteuid().is_root();
    for (number, mut world) in EscapeWorld::all().enumerate() {
        // Even without confinement an ordinary user cannot.
        let can_without = is_root && number % 2 == 0;
        let server = world.server.server_pid();
        for look in [
            format!("grep -a PATH= /proc/{server}/environ"),
            format!("grep -a PATH= /proc/{server}/task/{server}/environ"),
            format!("ls -l /proc/{server}/fd/0"),
            format!("ls /proc/{server}/root/"),
            format!("exec 3</proc/{server}/mem"),
            format!("grep . /proc/{server}/maps"),
        ] {
            let open = world.attempt(SandboxCase::Open, &look);
            assert_eq!(open.worked(), can_without, "{look}: {open:?}");
            for shut in SandboxCase::GUARDED {
                let attempt = world.attempt(shut, &look);
                assert!(!attempt.worked(), "{look}, {}: {attempt:?}", world.name(shut));
            }
        }
    }
}
