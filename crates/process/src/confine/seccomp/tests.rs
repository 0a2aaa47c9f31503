//! Filters on threads of this process: a filter ends with its thread. What is refused must have
//! been possible without it.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use libc::c_long;

use super::rules::refused;
use super::*;
use crate::confinement::{Backend, Confinement, Network, Profile};

const OPEN: Confinement = Confinement { profile: Profile::Default, network: Network::On };
const CLOSED: Confinement = Confinement { profile: Profile::ReadOnly, network: Network::Off };

/// The rules of a job that no namespaces and no Landlock hold, unless its profile limits files.
fn rules(confinement: Confinement) -> CallRules {
    let Confinement { profile, .. } = confinement;
    let backend = if profile.limits_files() { Backend::Landlock } else { Backend::Seccomp };
    let sockets = SocketRules::new(confinement, backend, Some(9));
    CallRules { profile, sockets, untouchable: Vec::new() }
}

/// Does this on a thread behind the filter.
fn filtered<T: Send + 'static>(rules: &CallRules, act: impl FnOnce() -> T + Send + 'static) -> T {
    let filters = compile(rules).unwrap();
    let thread = thread::spawn(move || {
        install(&filters).unwrap();
        act()
    });
    thread.join().unwrap()
}

/// The error of a call; 0: none.
#[expect(unsafe_code, reason = "the calls have no safe wrapper, or it checks too much")]
fn call(number: c_long, arguments: [u64; 6]) -> i32 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the callers pass numbers, and addresses that are null or not mapped.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap(),
        _ => 0,
    }
}

/// Every call with arguments that make no sense, so that nothing happens where it is allowed.
fn answers(calls: &[c_long]) -> Vec<i32> {
    calls.iter().map(|number| call(*number, [u64::MAX; 6])).collect()
}

/// Each of these alone would be a way around the rest.
const KNOWN_WAYS_OUT: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_bpf,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_clone3,
];

#[test]
fn whatever_is_always_refused_is_and_was_not_before() {
    let always: Vec<_> =
        refused(&rules(CLOSED)).into_iter().filter(|rule| rule.cases[0].is_empty()).collect();
    let calls: Vec<_> = always.iter().map(|rule| rule.call).collect();
    assert!(KNOWN_WAYS_OUT.iter().all(|call| calls.contains(call)), "{calls:?}");
    let expected: Vec<_> = always.iter().map(|rule| rule.refusal.errno()).collect();
    let (before, same) = (answers(&calls), calls.clone());
    assert_eq!(filtered(&rules(CLOSED), move || answers(&same)), expected);
    let is_root = rustix::process::geteuid().is_root();
    for ((number, before), after) in calls.iter().zip(before).zip(expected) {
        let is_missing = before == libc::ENOSYS;
        let is_for_root = !is_root && before == libc::EPERM;
        assert!(before != after || is_missing || is_for_root, "call {number}: {before}");
    }
}

/// A process that sleeps until dropped, in a group of its own.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").process_group(0).spawn().unwrap())
    }

    fn number(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// What becomes of every attempt on this process: signal 0 and null pointers change nothing.
fn attempts(number: i32) -> Vec<(&'static str, i32)> {
    let (_, file) = UnixStream::pair().unwrap();
    let file = u64::try_from(file.as_raw_fd()).unwrap();
    let process = u64::from(number.cast_unsigned());
    let group = u64::from((-number).cast_unsigned());
    let with_high_bits = process | 0xdead_beef_0000_0000;
    let set_owner = u64::from(libc::F_SETOWN.cast_unsigned());
    vec![
        ("kill", call(libc::SYS_kill, [process, 0, 0, 0, 0, 0])),
        ("kill, high bits", call(libc::SYS_kill, [with_high_bits, 0, 0, 0, 0, 0])),
        ("kill, group", call(libc::SYS_kill, [group, 0, 0, 0, 0, 0])),
        ("tkill", call(libc::SYS_tkill, [process, 0, 0, 0, 0, 0])),
        ("tgkill", call(libc::SYS_tgkill, [process, process, 0, 0, 0, 0])),
        ("pidfd_open", call(libc::SYS_pidfd_open, [process, 0, 0, 0, 0, 0])),
        ("prlimit", call(libc::SYS_prlimit64, [process, 0, 0, 0, 0, 0])),
        ("owner", call(libc::SYS_fcntl, [file, set_owner, process, 0, 0, 0])),
        ("owner, group", call(libc::SYS_fcntl, [file, set_owner, group, 0, 0, 0])),
    ]
}

#[test]
fn untouchable_processes_cannot_be_reached_and_others_can() {
    let (server, other) = (Sleeper::start(), Sleeper::start());
    let (number, others) = (server.number(), other.number());
    let all = |errno: i32| move |(_, found): &(&str, i32)| *found == errno;
    let before = attempts(number);
    assert!(before.iter().all(all(0)), "{before:?}");
    let rules = CallRules { untouchable: vec![number, -number], ..rules(OPEN) };
    let (after, others) = filtered(&rules, move || (attempts(number), attempts(others)));
    assert!(after.iter().all(all(libc::EPERM)), "{after:?}");
    assert!(others.iter().all(all(0)), "{others:?}");
}

#[test]
fn the_owner_of_a_file_is_not_named_where_no_filter_can_look() {
    let named = || {
        let (_one, other) = UnixStream::pair().unwrap();
        let file = u64::try_from(other.as_raw_fd()).unwrap();
        let by_fcntl = call(libc::SYS_fcntl, [file, 15, u64::MAX, 0, 0, 0]);
        let by_ioctl = [0x8901, 0x8902];
        let by_ioctl = by_ioctl.map(|kind| call(libc::SYS_ioctl, [file, kind, u64::MAX, 0, 0, 0]));
        (by_fcntl, by_ioctl)
    };
    assert_eq!(named(), (libc::EFAULT, [libc::EFAULT; 2]));
    let rules = CallRules { untouchable: vec![1], ..rules(OPEN) };
    assert_eq!(filtered(&rules, named), (libc::EPERM, [libc::EPERM; 2]));
}

#[test]
fn everybody_at_once_includes_the_untouchable() {
    let kill_all = || call(libc::SYS_kill, [u64::MAX, 0, 0, 0, 0, 0]);
    assert_eq!(kill_all(), 0);
    let rules = CallRules { untouchable: vec![1], ..rules(OPEN) };
    assert_eq!(filtered(&rules, kill_all), libc::EPERM);
}

#[test]
fn another_process_cannot_be_traced_or_read() {
    let attempt = |number: i32| {
        let seize = u64::from(libc::PTRACE_SEIZE);
        let process = u64::from(number.cast_unsigned());
        [
            call(libc::SYS_ptrace, [seize, process, 0, 0, 0, 0]),
            call(libc::SYS_process_vm_readv, [process, 0, 0, 0, 0, 0]),
        ]
    };
    let (one, other) = (Sleeper::start(), Sleeper::start());
    assert_eq!(attempt(one.number()), [0, 0]);
    let number = other.number();
    assert_eq!(filtered(&rules(OPEN), move || attempt(number)), [libc::EPERM; 2]);
}

#[test]
fn namespaces_are_for_those_whose_files_are_not_limited() {
    // A thread cannot be in another namespace of users, so this is never done.
    let flags = u64::from((libc::CLONE_NEWUSER | libc::CLONE_THREAD).cast_unsigned());
    let cloned = move || call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]);
    assert_eq!(filtered(&rules(OPEN), cloned), libc::EINVAL);
    assert_eq!(filtered(&rules(CLOSED), cloned), libc::EPERM);
    let nested = || run("unshare", &["--user", "true"]).status.success();
    let threads = || thread::spawn(|| 7).join().unwrap();
    let could = nested();
    assert_eq!(filtered(&rules(OPEN), nested), could);
    assert!(!filtered(&rules(CLOSED), nested));
    assert_eq!(filtered(&rules(CLOSED), threads), 7);
}

#[test]
fn nothing_is_typed_into_a_terminal() {
    let typed = || {
        let script = "import fcntl, os, pty, termios
pid, fd = pty.fork()
if pid == 0:
    try:
        fcntl.ioctl(0, termios.TIOCSTI, b'x'); print('typed')
    except OSError as e:
        print(e.errno)
    os._exit(0)
print(os.read(fd, 100).decode())";
        text(&run("python3", &["-c", script])).trim().to_owned()
    };
    // Newer kernels may have switched it off for everybody, with another error.
    assert_ne!(typed(), "1");
    assert_eq!(filtered(&rules(OPEN), typed), "1");
}

#[test]
fn without_network_only_local_sockets_are_made() {
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_UNIX];
    let sockets = move || {
        families.map(|family| {
            let stream = u64::from(libc::SOCK_DGRAM.cast_unsigned());
            call(libc::SYS_socket, [u64::from(family.cast_unsigned()), stream, 0, 0, 0, 0])
        })
    };
    assert_eq!(sockets(), [0; 4]);
    assert_eq!(filtered(&rules(OPEN), sockets), [0; 4]);
    let no = libc::EACCES;
    for profile in [Profile::None, Profile::Default, Profile::ReadOnly] {
        let confinement = Confinement { profile, network: Network::Off };
        assert_eq!(filtered(&rules(confinement), sockets), [no, no, no, 0]);
    }
    let python = || {
        let script = "import socket
socket.socketpair()
try: socket.create_connection(('127.0.0.1', 1))
except PermissionError: print('refused')";
        text(&run("python3", &["-c", script]))
    };
    assert_eq!(filtered(&rules(CLOSED), python), "refused\n");
}

/// The error of each call that makes a socket of these families and types.
fn sockets(call_number: c_long, wanted: &[(i32, i32)]) -> Vec<i32> {
    let word = |number: i32| u64::from(number.cast_unsigned());
    let mut pair = [0_i32; 2];
    let address = pair.as_mut_ptr() as u64;
    let make = |&(family, kind): &(i32, i32)| {
        call(call_number, [word(family), word(kind), 0, address, 0, 0])
    };
    wanted.iter().map(make).collect()
}

#[test]
fn in_a_network_namespace_local_servers_work_and_other_families_do_not() {
    let own = SocketRules { network: NetworkSockets::OwnNamespace, unix: UnixSockets::Any };
    let rules = CallRules { sockets: own, ..rules(CLOSED) };
    let allowed = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX, libc::AF_NETLINK];
    let allowed = allowed.map(|family| (family, libc::SOCK_DGRAM));
    let other = [(libc::AF_VSOCK, libc::SOCK_STREAM), (libc::AF_ALG, libc::SOCK_SEQPACKET)];
    let netlink = || {
        let netlink = [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT];
        let [family, kind, protocol] = netlink.map(|number| u64::from(number.cast_unsigned()));
        call(libc::SYS_socket, [family, kind, protocol, 0, 0, 0])
    };
    assert_eq!(netlink(), 0);
    let found = filtered(&rules, move || {
        (sockets(libc::SYS_socket, &allowed), sockets(libc::SYS_socket, &other), netlink())
    });
    assert_eq!(found, (vec![0; 4], vec![libc::EACCES; 2], libc::EACCES));
}

#[test]
fn where_only_pairs_are_allowed_no_unix_socket_can_be_connected() {
    let pairs = SocketRules { network: NetworkSockets::Any, unix: UnixSockets::PairsOnly };
    let rules = CallRules { sockets: pairs, ..rules(CLOSED) };
    let unix = |kind| (libc::AF_UNIX, kind);
    let kinds = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET, libc::SOCK_DGRAM, libc::SOCK_RAW];
    let close_on_exec = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let wanted = [kinds[0], kinds[1], kinds[2], kinds[3], close_on_exec].map(unix);
    assert_eq!(sockets(libc::SYS_socketpair, &wanted), [0; 5]);
    let found = filtered(&rules, move || {
        let inet = [(libc::AF_INET, libc::SOCK_STREAM)];
        [
            sockets(libc::SYS_socket, &wanted),
            sockets(libc::SYS_socketpair, &wanted),
            sockets(libc::SYS_socket, &inet),
        ]
    });
    let no = libc::EACCES;
    assert_eq!(found, [vec![no; 5], vec![0, 0, no, no, no], vec![0]]);
}

#[test]
fn a_filter_refuses_unix_sockets_where_nothing_else_holds_them() {
    const ONLINE: Confinement = Confinement { profile: Profile::ReadOnly, network: Network::On };
    use UnixSockets::{Any, PairsOnly};
    for (confinement, backend, landlock, expected) in [
        (CLOSED, Backend::Namespaces, None, Any),
        (ONLINE, Backend::Namespaces, Some(6), Any),
        (ONLINE, Backend::Namespaces, Some(5), PairsOnly),
        (ONLINE, Backend::Namespaces, None, PairsOnly),
        (CLOSED, Backend::Landlock, Some(9), Any),
        (ONLINE, Backend::Landlock, Some(9), Any),
        (CLOSED, Backend::Landlock, Some(8), PairsOnly),
        (OPEN, Backend::Seccomp, None, Any),
    ] {
        let found = SocketRules::new(confinement, backend, landlock).unix;
        assert_eq!(found, expected, "{confinement} by {}, {landlock:?}", backend.word());
    }
}

#[test]
fn without_a_profile_only_the_network_is_refused() {
    assert!(refused(&rules(Confinement::NONE)).is_empty());
    let offline = Confinement { profile: Profile::None, network: Network::Off };
    let traced = || call(libc::SYS_ptrace, [u64::MAX; 6]);
    assert_eq!(filtered(&rules(Confinement::NONE), traced), libc::ESRCH);
    assert_eq!(filtered(&rules(offline), traced), libc::ESRCH);
}

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn text(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn everyday_work_goes_on_in_all_that_comes_after() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap().to_owned();
    let script = format!(
        "set -e; cd {path}; (echo a; echo b) | sort -r | head -1
        sleep 100 & kill $!; wait $! || true
        git init -q . && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m z
        git log --format=%s
        python3 -c 'import subprocess, threading, multiprocessing
t = threading.Thread(target=print, args=(1,)); t.start(); t.join()
with multiprocessing.Pool(2) as pool: print(sum(pool.map(abs, [-1, -2])))
print(subprocess.check_output([\"echo\", \"ok\"]).decode(), end=\"\")'"
    );
    for confinement in [OPEN, CLOSED] {
        fs::remove_dir_all(dir.path().join(".git")).ok();
        let script = script.clone();
        let untouchable = vec![std::process::id().cast_signed()];
        let rules = CallRules { untouchable, ..rules(confinement) };
        let output = filtered(&rules, move || run("sh", &["-c", &script]));
        assert_eq!(text(&output), "b\nz\n1\n3\nok\n", "{confinement}");
    }
}

#[test]
fn this_host_offers_filters() {
    assert_eq!(offer(), Ok(()));
    let is_filtered = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(!is_filtered.contains("Seccomp:\t2"), "the probe has limited this thread");
}

#[test]
fn no_call_is_named_twice() {
    let all = CallRules { untouchable: vec![1], ..rules(CLOSED) };
    let mut calls: Vec<_> = refused(&all).into_iter().map(|rule| rule.call).collect();
    let named = calls.len();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls.len(), named);
}

#[test]
fn more_untouchable_processes_than_fit_are_an_error() {
    let many = |count| CallRules { untouchable: (1..=count).collect(), ..rules(OPEN) };
    assert!(compile(&many(1500)).is_ok());
    assert!(compile(&many(2500)).is_err());
}

/// The smallest 32-bit program: it ends with 42.
#[cfg(target_arch = "x86_64")]
fn write_32_bit_program(path: &Path) {
    const CODE: [u8; 12] = [0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80];
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    let words = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let size = HEADERS + 12;
    let file: [Vec<u8>; 6] = [
        b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0".to_vec(),
        words(&[1, BASE + HEADERS, 52, 0, 0]),
        [52_u16, 32, 1, 0, 0, 0].iter().flat_map(|value| value.to_le_bytes()).collect(),
        words(&[1, 0, BASE, BASE, size, size]),
        words(&[5, 0x1000]),
        CODE.to_vec(),
    ];
    // By another process: what this one writes, a child of another test may hold as it is born.
    let written = path.with_extension("new");
    fs::write(&written, file.concat()).unwrap();
    let made = Command::new("install").args(["-m", "700"]).args([&written, path]).status();
    assert!(made.unwrap().success());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_program_ends_at_its_first_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    write_32_bit_program(&path);
    match Command::new(&path).status() {
        Ok(status) => assert_eq!(status.code(), Some(42)),
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::ENOEXEC), "a kernel may lack them");
            return;
        }
    }
    let offline = Confinement { profile: Profile::None, network: Network::Off };
    let ended = filtered(&rules(offline), move || Command::new(&path).status().unwrap());
    assert_eq!(ended.signal(), Some(libc::SIGSYS));
}
