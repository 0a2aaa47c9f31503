//! Other processes: the server, its keeper and the shim of the job above all.

use std::fs;

use serde_json::json;

use super::world::{EscapeWorld, Means, SandboxCase, python};

fn threads(server: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{server}/task")).unwrap().flatten();
    threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

/// Ways to send a signal, each with the place of a number and of a signal.
const WAYS: [&str; 4] = [
    "check(libc.kill(PID, SIGNAL))",
    "check(libc.tgkill(SERVER, PID, SIGNAL))",
    "check(libc.sigqueue(PID, SIGNAL, None))",
    "fd = os.pidfd_open(PID); signal.pidfd_send_signal(fd, SIGNAL)",
];

fn send(way: &str, server: u32, pid: u32, signal: i32) -> String {
    let way = way.replace("PID", &pid.to_string()).replace("SERVER", &server.to_string());
    python(&way.replace("SIGNAL", &signal.to_string()))
}

/// Returns the threads of the server that a job can signal. A thread that has ended is left out,
/// since its number may be reused.
fn reached(world: &mut EscapeWorld, shut: SandboxCase) -> Vec<u32> {
    let server = world.server.server_pid();
    let them = threads(server);
    let signal =
        python(&format!("print(\"sent\", *[it for it in {them:?} if libc.kill(it, 0) == 0])"));
    let said = world.attempt(shut, &signal).output;
    let words = said.strip_prefix("sent").unwrap_or_else(|| panic!("{}: {said}", world.name(shut)));
    let numbers = words.split_whitespace().map(|it| it.parse().expect("a number"));
    let still = threads(server);
    numbers.filter(|it| still.contains(it)).collect()
}

#[test]
fn nothing_of_the_server_is_signalled_not_even_by_the_number_of_a_thread() {
    for mut world in EscapeWorld::all() {
        world.prepare("true");
        let server = world.server.server_pid();
        let keeper = world.server.keeper_pid();
        for pid in [server, keeper] {
            let open = world.attempt(SandboxCase::Open, &send(WAYS[0], server, pid, 0));
            assert!(open.worked(), "{pid} proves nothing: {open:?}");
            for shut in SandboxCase::GUARDED {
                for way in WAYS {
                    let attempt = world.attempt(shut, &send(way, server, pid, 9));
                    assert!(!attempt.worked(), "{way}, {}: {attempt:?}", world.name(shut));
                }
            }
        }
        assert!(reached(&mut world, SandboxCase::Open).len() > 1, "threads prove nothing");
        for shut in SandboxCase::GUARDED {
            assert_eq!(reached(&mut world, shut), [0; 0], "{}", world.name(shut));
        }
        assert_eq!(world.server.keeper_pid(), keeper, "the same one lives");
        world.server.assert_alive();
    }
}

/// Tries each way to kill the parent of the job, and prints that it lives.
fn kill_parent() -> String {
    python(
        "parent = os.getppid()
for kill in (
    lambda: libc.kill(parent, 9),
    lambda: libc.tgkill(parent, parent, 9),
    lambda: libc.sigqueue(parent, 9, None),
    lambda: signal.pidfd_send_signal(os.pidfd_open(parent), 9),
):
    try: kill()
    except OSError: pass
libc.usleep(300000)
print(\"alive\", os.getppid() == parent)",
    )
}

#[test]
fn a_job_cannot_kill_its_own_shim_and_ends_with_it_where_nothing_keeps_it_from_that() {
    for mut world in EscapeWorld::all() {
        for shut in SandboxCase::GUARDED {
            let attempt = world.attempt(shut, &kill_parent());
            assert_eq!(attempt.output, "alive True\n", "{}: {attempt:?}", world.name(shut));
            assert!(attempt.worked(), "{}: {attempt:?}", world.name(shut));
        }
        let open = world.call(SandboxCase::Open, &kill_parent(), json!({}));
        assert_eq!(open["outcome"], "lost", "{}", open.0);
        world.server.assert_alive();
    }
}

/// By signals that do nothing: were they sent, they would reach everything on this machine.
#[test]
fn signals_to_everybody_or_to_the_group_of_the_server_are_not_sent() {
    for mut world in EscapeWorld::all() {
        let server = world.server.server_pid();
        let pid = rustix::process::Pid::from_raw(server.cast_signed());
        let group = rustix::process::getpgid(pid).unwrap().as_raw_nonzero();
        for target in ["-1".to_owned(), format!("-{group}")] {
            let signal = python(&format!("check(libc.kill({target}, 0))"));
            assert!(world.attempt(SandboxCase::Open, &signal).worked(), "{target} proves nothing");
            for shut in SandboxCase::GUARDED {
                let attempt = world.attempt(shut, &signal);
                assert!(!attempt.worked(), "{target}, {}: {attempt:?}", world.name(shut));
            }
        }
    }
}

#[test]
fn no_process_is_traced_or_read_not_even_a_child() {
    let child = "child = os.fork()\nif child == 0: signal.pause()\n";
    let end = "\nos.kill(child, 9)";
    let trace = "result = libc.ptrace(0x4206, child, None, None)";
    let read = "class Piece(ctypes.Structure):
    _fields_ = [(\"at\", ctypes.c_void_p), (\"long\", ctypes.c_size_t)]
source = ctypes.create_string_buffer(8)
target = ctypes.create_string_buffer(8)
pieces = [ctypes.byref(Piece(ctypes.addressof(it), 8)) for it in (target, source)]
result = libc.process_vm_readv(child, pieces[0], 1, pieces[1], 1, 0)";
    for mut world in EscapeWorld::all() {
        for deed in [trace, read] {
            let text = python(&format!(
                "{child}{deed}\nerror = ctypes.get_errno(){end}\nif result < 0: sys.exit(error)"
            ));
            let open = world.attempt(SandboxCase::Open, &text);
            assert!(open.worked(), "it proves nothing: {open:?}");
            for shut in SandboxCase::GUARDED {
                let attempt = world.attempt(shut, &text);
                assert_eq!(attempt.code, Some(1), "{}: {attempt:?}", world.name(shut));
            }
        }
    }
}

/// With Landlock other processes are seen: documented.
#[test]
fn with_namespaces_a_job_sees_its_own_processes_alone() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        let server = world.server.server_pid();
        let look = format!("test -e /proc/{server}");
        assert!(world.attempt(SandboxCase::Open, &look).worked());
        for shut in SandboxCase::FILES {
            assert!(!world.attempt(shut, &look).worked(), "{}", world.name(shut));
            let all = world.attempt(shut, "ls /proc | grep -c \"^[0-9]\"");
            let count: u32 = all.output.trim().parse().unwrap();
            assert!(count <= 5, "{}: {count}", world.name(shut));
        }
    }
}
