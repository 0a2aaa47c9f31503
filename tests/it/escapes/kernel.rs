//! Ways around a filter, and to privileges.

use std::os::unix::fs::PermissionsExt as _;

use super::world::{EscapeWorld, Means, SandboxCase, python};

/// A system call that the kernel does not have.
const UNKNOWN: i64 = 38;
const NOT_PERMITTED: i64 = 1;

#[test]
fn there_are_no_rings_that_take_calls_past_the_filter() {
    let text = python("check(libc.syscall(425, 1, ctypes.create_string_buffer(120)))");
    for mut world in EscapeWorld::all() {
        assert_ne!(
            world.attempt(SandboxCase::Open, &text).code,
            Some(UNKNOWN),
            "it proves nothing"
        );
        for shut in SandboxCase::GUARDED {
            assert_eq!(world.attempt(shut, &text).code, Some(UNKNOWN), "{}", world.name(shut));
        }
    }
}

#[test]
fn no_namespaces_are_made_within_the_file_profiles_and_nothing_is_mounted() {
    const OWN: &str = "unshare --user --map-root-user --mount --propagation unchanged";
    let namespaces = ["unshare --user true".to_owned(), format!("{OWN} true")];
    let mount = format!("{OWN} mount -t tmpfs none /mnt");
    for mut world in EscapeWorld::all() {
        for text in &namespaces {
            for shut in [SandboxCase::Open, SandboxCase::Default] {
                let attempt = world.attempt(shut, text);
                assert!(attempt.worked(), "{text}, {}: {attempt:?}", world.name(shut));
            }
        }
        assert!(world.attempt(SandboxCase::Open, &mount).worked(), "it proves nothing");
        for text in namespaces.iter().chain([&mount]) {
            for shut in SandboxCase::FILES {
                let attempt = world.attempt(shut, text);
                assert!(!attempt.worked(), "{text}, {}: {attempt:?}", world.name(shut));
            }
        }
        let attempt = world.attempt(SandboxCase::Default, &mount);
        assert!(!attempt.worked(), "{}: {attempt:?}", world.name(SandboxCase::Default));
    }
}

#[test]
fn a_set_user_id_program_gains_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for means in Means::BOTH {
        let mut world = EscapeWorld::each_user(means, "").last().expect("an ordinary user");
        let program = world.server.work().join("id");
        // By another process: a child of another test may hold a file that this one has written.
        let copied = std::process::Command::new("cp").arg("/usr/bin/id").arg(&program).status();
        assert!(copied.unwrap().success());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let text = format!("{} -u", program.display());
        assert_eq!(world.attempt(SandboxCase::Open, &text).output, "0\n", "it proves nothing");
        for shut in SandboxCase::GUARDED {
            assert_eq!(world.attempt(shut, &text).output, "65534\n", "{}", world.name(shut));
        }
    }
}

#[test]
fn nothing_is_typed_into_a_terminal() {
    let text = python(
        "import fcntl, pty, termios
child, terminal = pty.fork()
if child == 0:
    try: fcntl.ioctl(0, termios.TIOCSTI, b\"x\")
    except OSError as error: os._exit(error.errno)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
    );
    for mut world in EscapeWorld::all() {
        // Newer kernels refuse it by themselves, with another error.
        assert_ne!(
            world.attempt(SandboxCase::Open, &text).code,
            Some(NOT_PERMITTED),
            "it proves nothing"
        );
        for shut in SandboxCase::GUARDED {
            let attempt = world.attempt(shut, &text);
            assert_eq!(attempt.code, Some(NOT_PERMITTED), "{}: {attempt:?}", world.name(shut));
        }
    }
}
