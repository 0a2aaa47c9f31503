//! Seccomp filters: a small program that the kernel runs before each system call of a process and
//! of everything that it starts, for as long as they live.
//!
//! [`SeccompRules`] says which calls are refused, and how; [`compile`] translates that into the
//! kernel's language; [`install`] hands it over.

use std::mem::offset_of;
use std::{io, thread};

use libc::{
    BPF_ABS, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long,
};
use seccompiler::{Error, apply_filter, sock_filter};
use serde::{Deserialize, Serialize};

use super::seccomp_filter::SeccompFilter;
use crate::confinement::{Backend, Confinement, NetworkAccess, SandboxProfile};
use crate::load::ProbeError;

// The rules as a program for the kernel.
//
// It is one program with all refusals, which finds a call by binary search: the kernel runs it for
// every call once when it is installed, to learn which are always allowed, and that is most of the
// cost. A filter per refusal that compares one call after the other costs several times as much.

/// The kernel's name for the processor; a filter also sees the calls of 32-bit programs, which have
/// other numbers.
#[cfg(target_arch = "x86_64")]
pub(super) const PROCESSOR: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
pub(super) const PROCESSOR: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const PROCESSOR: Option<u32> = None;

/// The start of a second range of call numbers, for programs with short pointers (x32). On other
/// processors no call has so high a number.
pub(super) const X32_CALLS: u32 = 0x4000_0000;

/// The most instructions that the kernel accepts.
const MOST_INSTRUCTIONS: usize = 4096;

/// The number of calls up to which the search is linear.
const LINEAR_SEARCH_MAX: usize = 6;

type BpfCode = Vec<sock_filter>;

/// Assembles the program for these rules; `None` if this processor's calls are not known, or if the
/// program would be longer than the kernel accepts.
fn assemble(mut rules: Vec<RefusedCall>) -> Option<BpfCode> {
    rules.sort_by_key(|rule| rule.call);
    let mut answers = AnswerTable::default();
    let calls = rules
        .iter()
        .map(|rule| {
            Some(CallEntry {
                number: u32::try_from(rule.call).ok()?,
                answer: answers.answer_to(rule)?,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    let mut code = vec![
        load(offset_of!(libc::seccomp_data, arch)),
        jump(BPF_JEQ, PROCESSOR?, 1, 0),
        return_action(libc::SECCOMP_RET_KILL_PROCESS),
        load(offset_of!(libc::seccomp_data, nr)),
        jump(BPF_JGE, X32_CALLS, 0, 1),
        return_refusal(CallRefusal::Unknown),
    ];
    code.extend(search_code(&calls, 0));
    code.extend(answers.code);
    (code.len() <= MOST_INSTRUCTIONS).then_some(code)
}

struct CallEntry {
    number: u32,
    /// The start of its answer in [`AnswerTable::code`].
    answer: usize,
}

/// The code behind the search: calls with the same treatment share their answer.
#[derive(Default)]
struct AnswerTable<'a> {
    code: BpfCode,
    known: Vec<(&'a RefusedCall, usize)>,
}

impl<'a> AnswerTable<'a> {
    fn answer_to(&mut self, rule: &'a RefusedCall) -> Option<usize> {
        let is_alike =
            |other: &RefusedCall| other.cases == rule.cases && other.refusal == rule.refusal;
        if let Some((_, start)) = self.known.iter().find(|(other, _)| is_alike(other)) {
            return Some(*start);
        }
        let start = self.code.len();
        self.code.extend(answer_code(rule)?);
        self.known.push((rule, start));
        Some(start)
    }
}

/// Finds the call whose number was loaded and jumps to its answer, past `between` instructions that
/// stand between this code and the answers. Never runs past its end.
fn search_code(calls: &[CallEntry], between: usize) -> BpfCode {
    if calls.len() > LINEAR_SEARCH_MAX {
        let (lower, upper) = calls.split_at(calls.len() / 2);
        let above = search_code(upper, between);
        let below = search_code(lower, between + above.len());
        let mut code = vec![jump(BPF_JGE, upper[0].number, 0, 1), skip(below.len())];
        code.extend(below);
        code.extend(above);
        return code;
    }
    let mut code = vec![return_action(libc::SECCOMP_RET_ALLOW)];
    for call in calls.iter().rev() {
        let distance = code.len() + between + call.answer;
        code.splice(0..0, [jump(BPF_JEQ, call.number, 0, 1), skip(distance)]);
    }
    code
}

/// Returns the answer to one call. Never runs past its end.
fn answer_code(rule: &RefusedCall) -> Option<BpfCode> {
    let mut code = Vec::new();
    for case in &rule.cases {
        let mut held = vec![return_refusal(rule.refusal)];
        for test in case.iter().rev() {
            held.splice(0..0, test_code(test, held.len())?);
        }
        code.extend(held);
    }
    code.push(return_action(libc::SECCOMP_RET_ALLOW));
    Some(code)
}

/// Continues if the test is true, otherwise skips `otherwise` instructions. `None` if there are too
/// many values.
fn test_code(test: &ArgTest, otherwise: usize) -> Option<BpfCode> {
    let argument = offset_of!(libc::seccomp_data, args) + usize::from(test.argument) * 8;
    let mut code = vec![load(argument)];
    match &test.is {
        ArgCondition::OneOf(values) => {
            for (value, left) in values.iter().zip((1..=values.len()).rev()) {
                code.push(jump(BPF_JEQ, *value, u8::try_from(left).ok()?, 0));
            }
        }
        ArgCondition::Not(value) => code.push(jump(BPF_JEQ, *value, 0, 1)),
        ArgCondition::WithAnyBit(bits) => code.push(jump(BPF_JSET, *bits, 1, 0)),
    }
    code.push(skip(otherwise));
    Some(code)
}

/// Loads four bytes of the description of a call: the lower half of an argument, which both
/// processors store first.
pub(super) fn load(offset: usize) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, to_u32(offset), (0, 0))
}

/// Compares the loaded value, and skips `if_so` or `if_not` instructions.
pub(super) fn jump(comparison: u32, value: u32, if_so: u8, if_not: u8) -> sock_filter {
    instruction(BPF_JMP | comparison | BPF_K, value, (if_so, if_not))
}

fn skip(instructions: usize) -> sock_filter {
    instruction(BPF_JMP | BPF_JA, to_u32(instructions), (0, 0))
}

fn return_refusal(refusal: CallRefusal) -> sock_filter {
    return_action(libc::SECCOMP_RET_ERRNO | refusal.errno().cast_unsigned())
}

pub(super) fn return_action(action: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, action, (0, 0))
}

fn instruction(code: u32, value: u32, (jt, jf): (u8, u8)) -> sock_filter {
    #[expect(clippy::cast_possible_truncation, reason = "all codes are eight bits")]
    let code = code as u16;
    sock_filter { code, jt, jf, k: value }
}

#[expect(clippy::cast_possible_truncation, reason = "a program has at most 4,096 instructions")]
fn to_u32(count: usize) -> u32 {
    count as u32
}

// Installation of a filter.

/// Compiles a filter that refuses signals to these processes, and to those groups that are given as
/// negative numbers, and nothing else.
///
/// # Errors
/// As [`compile`].
pub(crate) fn compile_signal_guard(protected: &[i32]) -> io::Result<SeccompFilter> {
    let program = assemble(refuse_signals_to(protected)).ok_or(io::ErrorKind::Unsupported)?;
    Ok(SeccompFilter::new(program))
}

/// Compiles the rules.
///
/// # Errors
/// If this processor's system calls are not known, or if there are too many protected processes
/// (about 2,000).
pub(crate) fn compile(rules: &SeccompRules) -> io::Result<SeccompFilter> {
    let refused = refused_calls(rules);
    if refused.is_empty() {
        return Ok(SeccompFilter::default());
    }
    let program = assemble(refused).ok_or(io::ErrorKind::Unsupported)?;
    Ok(SeccompFilter::new(program))
}

/// Installs the filter on this thread and everything that it starts, which then cannot gain
/// privileges any more (`no_new_privs`).
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn install(filters: &SeccompFilter) -> io::Result<()> {
    if filters.program().is_empty() {
        return Ok(());
    }
    apply_filter(filters.program()).map_err(|error| match error {
        Error::Prctl(error) | Error::Seccomp(error) => error,
        Error::Backend(_) | Error::EmptyFilter | Error::ThreadSync(_) => {
            io::ErrorKind::InvalidInput.into()
        }
    })
}

/// Checks that this host lets a process filter its calls, by doing it.
///
/// # Errors
/// A description of what is missing.
pub(crate) fn probe() -> Result<(), ProbeError> {
    let sockets = SocketRules { network: NetworkSockets::Refused, unix: UnixSockets::PairsOnly };
    let rules =
        SeccompRules { profile: SandboxProfile::ReadOnly, sockets, protected_pids: Vec::new() };
    let filters = compile(&rules)
        .map_err(|_| format!("the system calls of {} are not known", std::env::consts::ARCH))
        .map_err(ProbeError::Missing)?;
    let thread = thread::Builder::new().spawn(move || install(&filters));
    let thread = thread.map_err(|error| ProbeError::new(&error, error.to_string()))?;
    let tried = thread.join().unwrap_or(Err(io::ErrorKind::Other.into()));
    tried.map_err(|error| {
        let why = "the kernel has no seccomp filters, or a container does not allow them";
        ProbeError::new(&error, format!("{why}: {error}"))
    })
}

// The system calls that are refused.

/// The input of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeccompRules {
    pub(crate) profile: SandboxProfile,
    pub(crate) sockets: SocketRules,
    /// Processes and groups (as negative numbers) that must not be signalled. The id of any thread
    /// stands for its process too, so a process with threads is safe only if all of them are
    /// listed. Empty in a pid namespace, where numbers mean something else.
    pub(crate) protected_pids: Vec<i32>,
}

/// The sockets that a process may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SocketRules {
    pub(crate) network: NetworkSockets,
    pub(crate) unix: UnixSockets,
}

/// The sockets of families other than unix that a process may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NetworkSockets {
    /// All that its user may create.
    Any,
    /// IPv4, IPv6 and the netlink of routes: in its own network namespace they reach only the job's
    /// own servers. Other families, such as vsock, ignore namespaces.
    OwnNamespace,
    Refused,
}

/// The unix sockets that a process may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum UnixSockets {
    Any,
    /// Connected pairs without names. A filter cannot see to which path a socket is connected, so
    /// no socket that could be connected is allowed.
    PairsOnly,
}

impl SocketRules {
    /// Returns the sockets of a job, given its version of Landlock, if any.
    ///
    /// The filter acts if nothing else keeps a job with limited files from the sockets of other
    /// programs: by path without namespaces before Landlock 9, and by abstract name without a
    /// network namespace before Landlock 6.
    pub(crate) fn new(confinement: Confinement, backend: Backend, landlock: Option<u32>) -> Self {
        let Confinement { profile, network } = confinement;
        let has_namespaces = backend == Backend::Namespaces;
        let network_sockets = match network {
            NetworkAccess::On => NetworkSockets::Any,
            NetworkAccess::Off if has_namespaces => NetworkSockets::OwnNamespace,
            NetworkAccess::Off => NetworkSockets::Refused,
        };
        let are_paths_held = has_namespaces || landlock >= Some(LANDLOCK_PATHS);
        let are_names_held = network_sockets == NetworkSockets::OwnNamespace
            || landlock >= Some(LANDLOCK_ABSTRACT_NAMES);
        let is_held = !profile.restricts_files() || (are_paths_held && are_names_held);
        let unix = if is_held { UnixSockets::Any } else { UnixSockets::PairsOnly };
        Self { network: network_sockets, unix }
    }
}

/// The version of Landlock that limits connections to sockets with a path.
const LANDLOCK_PATHS: u32 = 9;
/// The version of Landlock that limits connections to sockets with an abstract name.
const LANDLOCK_ABSTRACT_NAMES: u32 = 6;

/// A call that is refused if all tests of one of its cases are true.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RefusedCall {
    call: c_long,
    /// A case without tests is always true.
    cases: Vec<Vec<ArgTest>>,
    refusal: CallRefusal,
}

/// A test of one argument. Only its lower half is compared, as the kernel does with all arguments
/// that are named here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ArgTest {
    argument: u8,
    is: ArgCondition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ArgCondition {
    OneOf(Vec<u32>),
    Not(u32),
    WithAnyBit(u32),
}

/// The way in which a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallRefusal {
    /// Refused like a call for which the permission is missing.
    NotPermitted,
    /// Refused like a call that the kernel does not have: programs then use an older one.
    Unknown,
    /// Refused like a kind of socket that this user may not create.
    NoAccess,
}

impl CallRefusal {
    /// Returns the `errno` that the program gets.
    const fn errno(self) -> i32 {
        match self {
            Self::NotPermitted => libc::EPERM,
            Self::Unknown => libc::ENOSYS,
            Self::NoAccess => libc::EACCES,
        }
    }
}

/// Calls that reach into other processes or into the kernel. Calls that need a privilege are
/// included: it may have been kept.
const PRIVILEGED_CALLS: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Code and observers in the kernel, and its keys, which belong to the user, not to a process.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    // Mounts, and files by numbers instead of names, which bypasses them.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // The whole machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
];

// These have no name on every platform.
const OPEN_TREE_ATTR: c_long = 467;
const KEXEC_FILE_LOAD: c_long = if cfg!(target_arch = "aarch64") { 294 } else { 320 };

/// Calls of io_uring, which executes calls that no filter sees.
const IO_URING_CALLS: &[c_long] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Calls that act on a process by its pid, which comes first. Resource limits are included since
/// one on CPU time kills.
const CALLS_BY_PID: &[c_long] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// The most values of one test: a jump past more of them would be too far.
const MOST_VALUES: usize = 255;

/// The argument of `kill` for every process that may be killed.
const ALL_PROCESSES: i32 = -1;

/// Two that type text into a terminal as if its user had, and two that name the process that gets
/// the signals of a file by a pointer, which no filter can follow.
const REFUSED_IOCTLS: [u32; 4] = [TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP];
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;
const F_SETOWN_EX: u32 = 15;

const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned();
/// Known to `unshare` only: `clone` takes these bits for a signal.
const TIME_NAMESPACE: u32 = 0x80;

/// Returns every call that is refused, each once.
fn refused_calls(rules: &SeccompRules) -> Vec<RefusedCall> {
    let SeccompRules { profile, sockets, .. } = *rules;
    let mut all = Vec::new();
    if profile >= SandboxProfile::Default {
        all.extend(
            PRIVILEGED_CALLS.iter().map(|call| refuse_always(*call, CallRefusal::NotPermitted)),
        );
        // A directory of /proc stands for its process, so a test of numbers would not suffice.
        all.push(refuse_always(libc::SYS_pidfd_send_signal, CallRefusal::Unknown));
        all.push(refuse_when(libc::SYS_ioctl, vec![vec![one_of(1, &REFUSED_IOCTLS)]]));
        all.extend(refuse_signals_to(&rules.protected_pids));
    }
    if profile.restricts_files() {
        all.extend(refuse_namespaces());
    }
    all.extend(socket_calls(sockets));
    if profile >= SandboxProfile::Default || sockets.network != NetworkSockets::Any {
        all.extend(IO_URING_CALLS.iter().map(|call| refuse_always(*call, CallRefusal::Unknown)));
    }
    all
}

/// Returns the rules that keep these processes from being ended, slowed down or starved.
fn refuse_signals_to(numbers: &[i32]) -> Vec<RefusedCall> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let numbers: Vec<u32> =
        numbers.iter().chain([&ALL_PROCESSES]).map(|number| number.cast_unsigned()).collect();
    let named: Vec<_> = numbers.chunks(MOST_VALUES).map(|some| vec![one_of(0, some)]).collect();
    let by_number = CALLS_BY_PID.iter().map(|call| refuse_when(*call, named.clone()));
    by_number.chain([refuse_file_owners(&numbers)]).collect()
}

/// The owner of a file gets the signals of that file, and the signal can be chosen.
fn refuse_file_owners(numbers: &[u32]) -> RefusedCall {
    let sets_owner = || one_of(1, &[libc::F_SETOWN.cast_unsigned()]);
    let named = numbers.chunks(MOST_VALUES).map(|some| vec![sets_owner(), one_of(2, some)]);
    refuse_when(libc::SYS_fcntl, named.chain([vec![one_of(1, &[F_SETOWN_EX])]]).collect())
}

/// Refuses new namespaces: in a user namespace, any process has all privileges.
fn refuse_namespaces() -> Vec<RefusedCall> {
    vec![
        refuse_when(libc::SYS_clone, vec![vec![with_any_bit(NAMESPACES)]]),
        refuse_when(libc::SYS_unshare, vec![vec![with_any_bit(NAMESPACES | TIME_NAMESPACE)]]),
        refuse_always(libc::SYS_setns, CallRefusal::NotPermitted),
        refuse_always(libc::SYS_chroot, CallRefusal::NotPermitted),
        // Its flags are behind a pointer.
        refuse_always(libc::SYS_clone3, CallRefusal::Unknown),
    ]
}

/// The families that are useful in a job's own network namespace.
const OWN_NAMESPACE: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Returns the calls that create sockets, with what is refused of them.
fn socket_calls(sockets: SocketRules) -> Vec<RefusedCall> {
    let not_unix = vec![not_equal(0, libc::AF_UNIX)];
    let is_unix = one_of(0, &[libc::AF_UNIX.cast_unsigned()]);
    let (mut one, mut pair) = match sockets.network {
        NetworkSockets::Any => (Vec::new(), Vec::new()),
        NetworkSockets::Refused => (vec![not_unix.clone()], vec![not_unix]),
        NetworkSockets::OwnNamespace => {
            let other = OWN_NAMESPACE.map(|family| not_equal(0, family)).to_vec();
            let is_netlink = one_of(0, &[libc::AF_NETLINK.cast_unsigned()]);
            (vec![other, vec![is_netlink, not_equal(2, libc::NETLINK_ROUTE)]], vec![not_unix])
        }
    };
    match sockets.unix {
        UnixSockets::Any => {}
        UnixSockets::PairsOnly => {
            one.push(vec![is_unix.clone()]);
            // A datagram can be sent to any address, also from one of a pair.
            pair.push(vec![is_unix, one_of(1, &datagram_types())]);
        }
    }
    let calls = [(libc::SYS_socket, one), (libc::SYS_socketpair, pair)];
    let refused = calls.into_iter().filter(|(_, cases)| !cases.is_empty());
    refused
        .map(|(call, cases)| RefusedCall { call, cases, refusal: CallRefusal::NoAccess })
        .collect()
}

/// Returns every type of a unix datagram socket: the kernel treats a raw one the same.
fn datagram_types() -> Vec<u32> {
    let flags =
        [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK];
    let types = [libc::SOCK_DGRAM, libc::SOCK_RAW];
    let with_flags = |kind: i32| flags.map(|flags| (kind | flags).cast_unsigned());
    types.into_iter().flat_map(with_flags).collect()
}

fn not_equal(argument: u8, value: i32) -> ArgTest {
    ArgTest { argument, is: ArgCondition::Not(value.cast_unsigned()) }
}

fn refuse_always(call: c_long, refusal: CallRefusal) -> RefusedCall {
    RefusedCall { call, cases: vec![Vec::new()], refusal }
}

fn refuse_when(call: c_long, cases: Vec<Vec<ArgTest>>) -> RefusedCall {
    RefusedCall { call, cases, refusal: CallRefusal::NotPermitted }
}

fn one_of(argument: u8, values: &[u32]) -> ArgTest {
    ArgTest { argument, is: ArgCondition::OneOf(values.to_vec()) }
}

/// Tests the flags, which are the first argument.
fn with_any_bit(bits: u32) -> ArgTest {
    ArgTest { argument: 0, is: ArgCondition::WithAnyBit(bits) }
}

#[cfg(test)]
mod program_tests {
    use proptest::prelude::*;

    use super::*;
    use crate::confinement::SandboxProfile;

    const SERVER: i32 = 4711;

    /// Returns what the kernel would answer.
    fn run(program: &[sock_filter], call: &libc::seccomp_data) -> u32 {
        let mut at = 0;
        let mut loaded = 0;
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let code = u32::from(code);
            at += 1;
            let holds = match code {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    loaded = four_bytes(call, k as usize);
                    continue;
                }
                code if code == BPF_RET | BPF_K => return k,
                code if code == BPF_JMP | BPF_JA => {
                    at += k as usize;
                    continue;
                }
                code if code == BPF_JMP | BPF_JEQ | BPF_K => loaded == k,
                code if code == BPF_JMP | BPF_JGE | BPF_K => loaded >= k,
                code if code == BPF_JMP | BPF_JSET | BPF_K => loaded & k != 0,
                code => panic!("not used here: {code}"),
            };
            at += usize::from(if holds { jt } else { jf });
        }
    }

    fn four_bytes(call: &libc::seccomp_data, offset: usize) -> u32 {
        let mut bytes = call.nr.to_ne_bytes().to_vec();
        bytes.extend(call.arch.to_ne_bytes());
        bytes.extend(call.instruction_pointer.to_ne_bytes());
        bytes.extend(call.args.iter().flat_map(|argument| argument.to_ne_bytes()));
        u32::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap())
    }

    /// Returns what the rules say.
    fn expected(rules: &[RefusedCall], call: &libc::seccomp_data) -> u32 {
        let holds = |test: &ArgTest| {
            let value = call.args[usize::from(test.argument)] as u32;
            match &test.is {
                ArgCondition::OneOf(values) => values.contains(&value),
                ArgCondition::Not(other) => value != *other,
                ArgCondition::WithAnyBit(bits) => value & bits != 0,
            }
        };
        let is_refused = |rule: &&RefusedCall| rule.cases.iter().any(|case| case.iter().all(holds));
        let mut of_this = rules.iter().filter(|rule| rule.call == c_long::from(call.nr));
        of_this
            .find(is_refused)
            .map_or(libc::SECCOMP_RET_ALLOW, |rule| return_refusal(rule.refusal).k)
    }

    fn rules() -> impl Strategy<Value = Vec<RefusedCall>> {
        let profile =
            prop::sample::select(SandboxProfile::WORDS.map(|(_, profile)| profile).to_vec());
        let network = prop::sample::select(vec![
            NetworkSockets::Any,
            NetworkSockets::OwnNamespace,
            NetworkSockets::Refused,
        ]);
        let unix = prop::sample::select(vec![UnixSockets::Any, UnixSockets::PairsOnly]);
        let sockets = (network, unix).prop_map(|(network, unix)| SocketRules { network, unix });
        let many = (5000..5600).chain([SERVER, -SERVER]).collect();
        let protected_pids = prop::sample::select(vec![vec![], vec![SERVER, 1, -SERVER], many]);
        (profile, sockets, protected_pids).prop_map(|(profile, sockets, protected_pids)| {
            refused_calls(&SeccompRules { profile, sockets, protected_pids })
        })
    }

    /// Mostly values that matter to some rule.
    fn argument() -> impl Strategy<Value = u64> {
        let low = prop_oneof![
            any::<u32>(),
            0..20_u32,
            prop::sample::select([SERVER, -SERVER, -1].map(i32::cast_unsigned).to_vec()),
            prop::sample::select(vec![0x5412, 0x8902, 0x1000_0000, 0x80]),
        ];
        (low, prop_oneof![Just(0), any::<u32>()])
            .prop_map(|(low, high)| u64::from(high) << 32 | u64::from(low))
    }

    fn call(nr: i32, args: [u64; 6]) -> libc::seccomp_data {
        libc::seccomp_data { nr, arch: PROCESSOR.unwrap(), instruction_pointer: 0, args }
    }

    proptest! {
        #[test]
        fn the_program_answers_as_the_rules_say(
            rules in rules(),
            args in prop::array::uniform6(argument()),
        ) {
            let program = assemble(rules.clone()).unwrap();
            for nr in 0..500 {
                let call = call(nr, args);
                prop_assert_eq!(run(&program, &call), expected(&rules, &call), "call {}", nr);
            }
        }
    }

    #[test]
    fn calls_by_other_numbers_do_not_bypass_the_filter() {
        let sockets = SocketRules { network: NetworkSockets::Any, unix: UnixSockets::Any };
        let protected_pids = Vec::new();
        let rules = refused_calls(&SeccompRules {
            profile: SandboxProfile::Default,
            sockets,
            protected_pids,
        });
        let program = assemble(rules).unwrap();
        for nr in [0, 39, 101, 521] {
            let short_pointers = call(nr | 0x4000_0000, [0; 6]);
            assert_eq!(run(&program, &short_pointers), return_refusal(CallRefusal::Unknown).k);
            let other_processor = libc::seccomp_data { arch: 0x4000_0003, ..call(nr, [0; 6]) };
            assert_eq!(run(&program, &other_processor), libc::SECCOMP_RET_KILL_PROCESS);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Filters on threads of this process: a filter ends with its thread. What is refused must have
    //! been possible without it.

    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::path::Path;
    use std::process::{Child, Command, Output, Stdio};
    use std::{fs, thread};

    use libc::c_long;

    use super::*;
    use crate::confinement::{Backend, Confinement, NetworkAccess, SandboxProfile};

    const OPEN: Confinement =
        Confinement { profile: SandboxProfile::Default, network: NetworkAccess::On };
    const CLOSED: Confinement =
        Confinement { profile: SandboxProfile::ReadOnly, network: NetworkAccess::Off };

    /// The rules of a job without namespaces and Landlock, unless its profile limits files.
    fn rules(confinement: Confinement) -> SeccompRules {
        let Confinement { profile, .. } = confinement;
        let backend = if profile.restricts_files() { Backend::Landlock } else { Backend::Seccomp };
        let sockets = SocketRules::new(confinement, backend, Some(9));
        SeccompRules { profile, sockets, protected_pids: Vec::new() }
    }

    /// Runs this on a thread behind the filter.
    fn filtered<T: Send + 'static>(
        rules: &SeccompRules,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let filters = compile(rules).unwrap();
        let thread = thread::spawn(move || {
            install(&filters).unwrap();
            act()
        });
        thread.join().unwrap()
    }

    /// Returns the error of a call; 0 for success.
    #[expect(unsafe_code, reason = "the calls have no safe wrapper, or it checks too much")]
    fn call(number: c_long, arguments: [u64; 6]) -> i32 {
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: the callers pass numbers, and addresses that are null or not mapped.
        match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
            -1 => io::Error::last_os_error().raw_os_error().unwrap(),
            _ => 0,
        }
    }

    /// Makes every call with invalid arguments, so that nothing happens if it is allowed.
    fn answers(calls: &[c_long]) -> Vec<i32> {
        calls.iter().map(|number| call(*number, [u64::MAX; 6])).collect()
    }

    /// Calls each of which alone would bypass the rest.
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
    fn calls_that_are_always_refused_were_possible_before() {
        let always: Vec<_> = refused_calls(&rules(CLOSED))
            .into_iter()
            .filter(|rule| rule.cases[0].is_empty())
            .collect();
        let calls: Vec<_> = always.iter().map(|rule| rule.call).collect();
        assert!(KNOWN_WAYS_OUT.iter().all(|call| calls.contains(call)), "{calls:?}");
        let expected: Vec<_> = always.iter().map(|rule| rule.refusal.errno()).collect();
        let before = answers(&calls);
        let same = calls.clone();
        assert_eq!(filtered(&rules(CLOSED), move || answers(&same)), expected);
        let is_root = rustix::process::geteuid().is_root();
        for ((number, before), after) in calls.iter().zip(before).zip(expected) {
            let is_missing = before == libc::ENOSYS;
            let is_for_root = !is_root && before == libc::EPERM;
            assert!(before != after || is_missing || is_for_root, "call {number}: {before}");
        }
    }

    /// A process that sleeps until dropped, in its own group.
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

    /// Returns the result of every attempt on this process: signal 0 and null pointers change
    /// nothing.
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
    fn protected_processes_cannot_be_signalled_and_others_can() {
        let server = Sleeper::start();
        let other = Sleeper::start();
        let number = server.number();
        let others = other.number();
        let all = |errno: i32| move |(_, found): &(&str, i32)| *found == errno;
        let before = attempts(number);
        assert!(before.iter().all(all(0)), "{before:?}");
        let rules = SeccompRules { protected_pids: vec![number, -number], ..rules(OPEN) };
        let (after, others) = filtered(&rules, move || (attempts(number), attempts(others)));
        assert!(after.iter().all(all(libc::EPERM)), "{after:?}");
        assert!(others.iter().all(all(0)), "{others:?}");
    }

    #[test]
    fn the_owner_of_a_file_cannot_be_set_through_a_pointer() {
        let named = || {
            let (_one, other) = UnixStream::pair().unwrap();
            let file = u64::try_from(other.as_raw_fd()).unwrap();
            let by_fcntl = call(libc::SYS_fcntl, [file, 15, u64::MAX, 0, 0, 0]);
            let by_ioctl = [0x8901, 0x8902];
            let by_ioctl =
                by_ioctl.map(|kind| call(libc::SYS_ioctl, [file, kind, u64::MAX, 0, 0, 0]));
            (by_fcntl, by_ioctl)
        };
        assert_eq!(named(), (libc::EFAULT, [libc::EFAULT; 2]));
        let rules = SeccompRules { protected_pids: vec![1], ..rules(OPEN) };
        assert_eq!(filtered(&rules, named), (libc::EPERM, [libc::EPERM; 2]));
    }

    #[test]
    fn a_signal_to_all_processes_is_refused() {
        let kill_all = || call(libc::SYS_kill, [u64::MAX, 0, 0, 0, 0, 0]);
        assert_eq!(kill_all(), 0);
        let rules = SeccompRules { protected_pids: vec![1], ..rules(OPEN) };
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
        let one = Sleeper::start();
        let other = Sleeper::start();
        assert_eq!(attempt(one.number()), [0, 0]);
        let number = other.number();
        assert_eq!(filtered(&rules(OPEN), move || attempt(number)), [libc::EPERM; 2]);
    }

    #[test]
    fn namespaces_are_refused_to_jobs_with_limited_files() {
        // A thread cannot be in another user namespace, so this never succeeds.
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
    fn a_job_cannot_type_into_a_terminal() {
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
        // Newer kernels may have disabled it for everybody, with another error.
        assert_ne!(typed(), "1");
        assert_eq!(filtered(&rules(OPEN), typed), "1");
    }

    #[test]
    fn without_network_only_unix_sockets_can_be_created() {
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
        for profile in [SandboxProfile::None, SandboxProfile::Default, SandboxProfile::ReadOnly] {
            let confinement = Confinement { profile, network: NetworkAccess::Off };
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

    /// Returns the error of each call that creates a socket of these families and types.
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
        let rules = SeccompRules { sockets: own, ..rules(CLOSED) };
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
    fn if_only_pairs_are_allowed_no_unix_socket_can_be_connected() {
        let pairs = SocketRules { network: NetworkSockets::Any, unix: UnixSockets::PairsOnly };
        let rules = SeccompRules { sockets: pairs, ..rules(CLOSED) };
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
    fn a_filter_refuses_unix_sockets_if_nothing_else_limits_them() {
        const ONLINE: Confinement =
            Confinement { profile: SandboxProfile::ReadOnly, network: NetworkAccess::On };
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
        assert!(refused_calls(&rules(Confinement::NONE)).is_empty());
        let offline = Confinement { profile: SandboxProfile::None, network: NetworkAccess::Off };
        let traced = || call(libc::SYS_ptrace, [u64::MAX; 6]);
        assert_eq!(filtered(&rules(Confinement::NONE), traced), libc::ESRCH);
        assert_eq!(filtered(&rules(offline), traced), libc::ESRCH);
    }

    fn run(program: &str, arguments: &[&str]) -> Output {
        Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    #[track_caller]
    fn text(output: &Output) -> String {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        String::from_utf8(output.stdout.clone()).unwrap()
    }

    #[test]
    fn common_programs_work_behind_the_filter() {
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
            let protected_pids = vec![std::process::id().cast_signed()];
            let rules = SeccompRules { protected_pids, ..rules(confinement) };
            let output = filtered(&rules, move || run("sh", &["-c", &script]));
            assert_eq!(text(&output), "b\nz\n1\n3\nok\n", "{confinement}");
        }
    }

    #[test]
    fn this_host_offers_filters() {
        assert_eq!(probe(), Ok(()));
        let is_filtered = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(!is_filtered.contains("Seccomp:\t2"), "the probe has restricted this thread");
    }

    #[test]
    fn no_call_is_named_twice() {
        let all = SeccompRules { protected_pids: vec![1], ..rules(CLOSED) };
        let mut calls: Vec<_> = refused_calls(&all).into_iter().map(|rule| rule.call).collect();
        let named = calls.len();
        calls.sort_unstable();
        calls.dedup();
        assert_eq!(calls.len(), named);
    }

    #[test]
    fn too_many_protected_processes_are_an_error() {
        let many = |count| SeccompRules { protected_pids: (1..=count).collect(), ..rules(OPEN) };
        assert!(compile(&many(1500)).is_ok());
        assert!(compile(&many(2500)).is_err());
    }

    /// Writes the smallest 32-bit program: it exits with 42.
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
        // Written by another process: a child of another test may inherit what this one has open
        // for writing.
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
        let offline = Confinement { profile: SandboxProfile::None, network: NetworkAccess::Off };
        let ended = filtered(&rules(offline), move || Command::new(&path).status().unwrap());
        assert_eq!(ended.signal(), Some(libc::SIGSYS));
    }
}
