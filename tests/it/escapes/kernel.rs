//! Ways around a filter, and to privileges.

use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::json;

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
        let copied = Command::new("cp").arg("/usr/bin/id").arg(&program).status();
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

/// A setting that names a program, which the kernel executes as root.
const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// Opens a file for writing, and writes nothing.
fn open_for_writing(path: &str) -> String {
    format!("timeout 20 python3 -c \"import os; os.open('{path}', os.O_WRONLY)\"")
}

/// Ways to the same file, also through a process outside: without a sandbox they work. And ways that
/// first undo what a sandbox does.
fn ways_to_core_pattern(outside: u32) -> (Vec<String>, Vec<String>) {
    let open = open_for_writing(CORE_PATTERN);
    let outside = outside.to_string();
    let roots = ["self", "thread-self", &outside, "$PPID"];
    let through = roots.map(|pid| open_for_writing(&format!("/proc/{pid}/root{CORE_PATTERN}")));
    let relative = open_for_writing("core_pattern");
    let direct = [
        open.clone(),
        format!("setsid --wait sh -c \"{}\"", open.replace('"', "\\\"")),
        format!("cd /proc/sys/kernel && {relative}"),
        format!("cd /proc/{outside}/cwd/proc/sys/kernel && {relative}"),
        format!("nsenter --target {outside} --mount {open}"),
        format!("nsenter --mount=/proc/$PPID/ns/mnt {open}"),
    ];
    let undo = [
        "umount /proc/sys".to_owned(),
        "umount -l /proc/sys".to_owned(),
        "mount -o remount,bind,rw /proc/sys".to_owned(),
        "unshare --mount true".to_owned(),
        format!("chroot /proc/{outside}/root true"),
        "cd /proc/1/root/proc/sys/kernel && false".to_owned(),
    ]
    .map(|undo| format!("{undo}; {open}"));
    let own = ["", "--mount-proc --fork --pid"].map(|more| {
        format!("unshare --user --map-root-user --mount --propagation unchanged {more} {open}")
    });
    (direct.into_iter().chain(through).collect(), undo.into_iter().chain(own).collect())
}

#[test]
fn no_job_of_root_writes_settings_of_the_kernel() {
    if OpenOptions::new().write(true).open(CORE_PATTERN).is_err() {
        return;
    }
    let mut outside = Command::new("sleep").arg("600").current_dir("/").spawn().unwrap();
    let (direct, undoing) = ways_to_core_pattern(outside.id());
    for means in Means::BOTH {
        let mut world = EscapeWorld::each_user(means, "").next().expect("our own user");
        for text in &direct {
            let attempt = world.attempt(SandboxCase::Open, text);
            assert!(attempt.worked(), "{text} proves nothing: {attempt:?}");
        }
        for shut in SandboxCase::GUARDED {
            for text in direct.iter().chain(&undoing) {
                let attempt = world.attempt(shut, text);
                assert!(!attempt.worked(), "{text}, {}: {attempt:?}", world.name(shut));
            }
            let read = world.attempt(shut, &format!("cat {CORE_PATTERN}"));
            assert!(read.worked(), "{}: {read:?}", world.name(shut));
        }
        for root in [String::new(), format!("/proc/{}/root", outside.id())] {
            let cwd = format!("{root}/proc/sys/kernel");
            let text = open_for_writing("core_pattern");
            let open = world.attempt_with(SandboxCase::Open, &text, json!({"cwd": cwd}));
            assert!(open.worked(), "it proves nothing: {open:?}");
            let attempt = world.attempt_with(SandboxCase::Default, &text, json!({"cwd": cwd}));
            assert!(!attempt.worked(), "{cwd}: {attempt:?}");
        }
        let own = world.attempt(SandboxCase::Default, "echo 500 >/proc/self/oom_score_adj");
        assert!(own.worked(), "{own:?}");
    }
    outside.kill().unwrap();
    outside.wait().unwrap();
}
