//! Which system calls are refused to whom.

use libc::c_long;

use crate::confinement::{Backend, Confinement, Network, Profile};

/// What a filter keeps a process from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallRules {
    pub(crate) profile: Profile,
    pub(crate) sockets: SocketRules,
    /// Processes and groups (as negative numbers) that must not be signalled. The number of any
    /// thread stands for its process too, so whoever has threads is safe only with all of theirs.
    /// Empty where numbers mean something else: in a namespace of processes.
    pub(crate) untouchable: Vec<i32>,
}

/// The sockets that a process may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketRules {
    pub(crate) network: NetworkSockets,
    pub(crate) unix: UnixSockets,
}

/// The sockets of families other than unix that a process may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkSockets {
    /// All that its user may make.
    Any,
    /// IPv4, IPv6 and the netlink of routes: in a network namespace of its own they reach the job's
    /// own servers and nothing else. Other families, such as vsock, know no namespaces.
    OwnNamespace,
    /// None.
    Refused,
}

/// The unix sockets that a process may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnixSockets {
    /// All.
    Any,
    /// Connected pairs without names. A filter cannot see to which path a socket is connected, so
    /// none is made that could be connected at all.
    PairsOnly,
}

impl NetworkSockets {
    /// Each, in the order of its number.
    pub(crate) const ALL: [Self; 3] = [Self::Any, Self::OwnNamespace, Self::Refused];
}

impl UnixSockets {
    /// Each, in the order of its number.
    pub(crate) const ALL: [Self; 2] = [Self::Any, Self::PairsOnly];
}

impl SocketRules {
    /// The sockets of a job, given the version of Landlock that it is held by, if any.
    ///
    /// A filter steps in where nothing else keeps a job that limits files from the sockets of other
    /// programs: by path without namespaces before Landlock 9, and by abstract name without a
    /// network namespace before Landlock 6.
    pub(crate) fn new(confinement: Confinement, backend: Backend, landlock: Option<u32>) -> Self {
        let Confinement { profile, network } = confinement;
        let has_namespaces = backend == Backend::Namespaces;
        let network_sockets = match network {
            Network::On => NetworkSockets::Any,
            Network::Off if has_namespaces => NetworkSockets::OwnNamespace,
            Network::Off => NetworkSockets::Refused,
        };
        let are_paths_held = has_namespaces || landlock >= Some(LANDLOCK_PATHS);
        let are_names_held = network_sockets == NetworkSockets::OwnNamespace
            || landlock >= Some(LANDLOCK_ABSTRACT_NAMES);
        let is_held = !profile.limits_files() || (are_paths_held && are_names_held);
        let unix = if is_held { UnixSockets::Any } else { UnixSockets::PairsOnly };
        Self { network: network_sockets, unix }
    }
}

/// The version of Landlock that limits connections to sockets with a path.
const LANDLOCK_PATHS: u32 = 9;
/// The version of Landlock that limits connections to sockets with an abstract name.
const LANDLOCK_ABSTRACT_NAMES: u32 = 6;

/// A call that is refused: where all tests of one of its cases hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) call: c_long,
    /// A case without tests always holds.
    pub(super) cases: Vec<Vec<Test>>,
    pub(super) refusal: Refusal,
}

/// What is asked of one argument. Only its lower half is looked at, as the kernel does with all
/// arguments that are named here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) argument: u8,
    pub(super) is: Is,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Is {
    OneOf(Vec<u32>),
    Not(u32),
    WithAnyBit(u32),
}

/// How a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// As one for which the right is missing.
    NotPermitted,
    /// As one that the kernel does not have: programs then use an older one.
    Unknown,
    /// As a kind of socket that this user may not make.
    NoAccess,
}

impl Refusal {
    /// What the program finds in `errno`.
    pub(super) const fn errno(self) -> i32 {
        match self {
            Self::NotPermitted => libc::EPERM,
            Self::Unknown => libc::ENOSYS,
            Self::NoAccess => libc::EACCES,
        }
    }
}

/// Calls that reach into other processes or into the kernel. Those that need a privilege are here
/// as well: it may have been kept.
const REACHING_OUT: &[c_long] = &[
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
    // Mounts, and files by numbers instead of names, which leads around them.
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

// Not named for every platform.
const OPEN_TREE_ATTR: c_long = 467;
const KEXEC_FILE_LOAD: c_long = if cfg!(target_arch = "aarch64") { 294 } else { 320 };

/// A ring takes calls that no filter sees.
const RINGS: &[c_long] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Calls that do something to a process, by its number, which comes first. Limits are among them
/// since one of CPU time kills.
const BY_NUMBER: &[c_long] = &[
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

/// Of one test: a jump past more of them would be too far.
const MOST_VALUES: usize = 255;

/// `kill` of every process that may be killed.
const EVERYBODY: i32 = -1;

/// Two that type text into a terminal as if its user had, and two that name the process that gets
/// the signals of a file by a pointer, which no filter can follow.
const IOCTLS: [u32; 4] = [TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP];
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

/// Every call that is refused, each once.
pub(super) fn refused(rules: &CallRules) -> Vec<Rule> {
    let CallRules { profile, sockets, .. } = *rules;
    let mut all = Vec::new();
    if profile >= Profile::Default {
        all.extend(REACHING_OUT.iter().map(|call| always(*call, Refusal::NotPermitted)));
        // A directory of /proc passes for the process in it, so a test of numbers would not do.
        all.push(always(libc::SYS_pidfd_send_signal, Refusal::Unknown));
        all.push(when(libc::SYS_ioctl, vec![vec![one_of(1, &IOCTLS)]]));
        all.extend(untouchable(&rules.untouchable));
    }
    if profile.limits_files() {
        all.extend(namespaces());
    }
    all.extend(socket_calls(sockets));
    if profile >= Profile::Default || sockets.network != NetworkSockets::Any {
        all.extend(RINGS.iter().map(|call| always(*call, Refusal::Unknown)));
    }
    all
}

/// What keeps these processes from being ended, slowed down or starved.
fn untouchable(numbers: &[i32]) -> Vec<Rule> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let numbers: Vec<u32> =
        numbers.iter().chain([&EVERYBODY]).map(|number| number.cast_unsigned()).collect();
    let named: Vec<_> = numbers.chunks(MOST_VALUES).map(|some| vec![one_of(0, some)]).collect();
    let by_number = BY_NUMBER.iter().map(|call| when(*call, named.clone()));
    by_number.chain([file_owners(&numbers)]).collect()
}

/// The owner of a file gets the signals of that file, and which signal that is can be chosen.
fn file_owners(numbers: &[u32]) -> Rule {
    let sets_owner = || one_of(1, &[libc::F_SETOWN.cast_unsigned()]);
    let named = numbers.chunks(MOST_VALUES).map(|some| vec![sets_owner(), one_of(2, some)]);
    when(libc::SYS_fcntl, named.chain([vec![one_of(1, &[F_SETOWN_EX])]]).collect())
}

/// No namespaces: in one of users, any process has all privileges.
fn namespaces() -> Vec<Rule> {
    vec![
        when(libc::SYS_clone, vec![vec![with_any_bit(NAMESPACES)]]),
        when(libc::SYS_unshare, vec![vec![with_any_bit(NAMESPACES | TIME_NAMESPACE)]]),
        always(libc::SYS_setns, Refusal::NotPermitted),
        always(libc::SYS_chroot, Refusal::NotPermitted),
        // Its flags are behind a pointer.
        always(libc::SYS_clone3, Refusal::Unknown),
    ]
}

/// The families that are of use in a network namespace of its own.
const OWN_NAMESPACE: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The calls that make sockets, with what is refused of them.
fn socket_calls(sockets: SocketRules) -> Vec<Rule> {
    let not_unix = vec![not(0, libc::AF_UNIX)];
    let is_unix = one_of(0, &[libc::AF_UNIX.cast_unsigned()]);
    let (mut one, mut pair) = match sockets.network {
        NetworkSockets::Any => (Vec::new(), Vec::new()),
        NetworkSockets::Refused => (vec![not_unix.clone()], vec![not_unix]),
        NetworkSockets::OwnNamespace => {
            let other = OWN_NAMESPACE.map(|family| not(0, family)).to_vec();
            let is_netlink = one_of(0, &[libc::AF_NETLINK.cast_unsigned()]);
            (vec![other, vec![is_netlink, not(2, libc::NETLINK_ROUTE)]], vec![not_unix])
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
    refused.map(|(call, cases)| Rule { call, cases, refusal: Refusal::NoAccess }).collect()
}

/// Every way to name a unix socket for datagrams: the kernel takes a raw one for such.
fn datagram_types() -> Vec<u32> {
    let flags =
        [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK];
    let types = [libc::SOCK_DGRAM, libc::SOCK_RAW];
    let with_flags = |kind: i32| flags.map(|flags| (kind | flags).cast_unsigned());
    types.into_iter().flat_map(with_flags).collect()
}

fn not(argument: u8, value: i32) -> Test {
    Test { argument, is: Is::Not(value.cast_unsigned()) }
}

fn always(call: c_long, refusal: Refusal) -> Rule {
    Rule { call, cases: vec![Vec::new()], refusal }
}

fn when(call: c_long, cases: Vec<Vec<Test>>) -> Rule {
    Rule { call, cases, refusal: Refusal::NotPermitted }
}

fn one_of(argument: u8, values: &[u32]) -> Test {
    Test { argument, is: Is::OneOf(values.to_vec()) }
}

/// Of the flags, which come first.
fn with_any_bit(bits: u32) -> Test {
    Test { argument: 0, is: Is::WithAnyBit(bits) }
}
