//! Which system calls are refused to whom.

use libc::c_long;

use crate::confinement::{Confinement, Network, Profile};

/// What a filter keeps a process from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::process) struct CallRules {
    pub(in crate::process) confinement: Confinement,
    /// Processes and groups (as negative numbers) that must not be signalled. The number of any
    /// thread stands for its process too, so whoever has threads is safe only with all of theirs.
    /// Empty where numbers mean something else: in a namespace of processes.
    pub(in crate::process) untouchable: Vec<i32>,
}

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
    let Confinement { profile, network } = rules.confinement;
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
    if network == Network::Off {
        all.extend([libc::SYS_socket, libc::SYS_socketpair].map(only_local));
    }
    if profile >= Profile::Default || network == Network::Off {
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

fn only_local(call: c_long) -> Rule {
    let other = Test { argument: 0, is: Is::Not(libc::AF_UNIX.cast_unsigned()) };
    Rule { call, cases: vec![vec![other]], refusal: Refusal::NoAccess }
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
