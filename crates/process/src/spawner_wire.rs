//! The format of requests and notes between server and spawner.

use std::ffi::{CString, OsString};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};
use rustix::process::Pid;

use crate::child_steps::{SandboxRules, SpawnFailure, SpawnRequest, SpawnStep};
use crate::confinement::{Backend, Confinement, NetworkAccess, ResourceLimits, SandboxProfile};
use crate::job_user::JobUser;
use crate::launch::EnvVariable;
use crate::processes::{ProcessTag, parse_pid};
use crate::sandbox::mounts::{BindMount, Mount};
use crate::sandbox::seccomp::{NetworkSockets, SocketRules, UnixSockets};
use crate::stdio::ChildFiles;

/// Encodes a request, with the roles of its files in their order.
pub(crate) fn encode(request: &SpawnRequest, files: &[FdRole]) -> Vec<u8> {
    let mut out = WireWriter::default();
    out.bytes(request.path.as_bytes());
    out.list(&request.argv, |out, arg| out.bytes(arg.as_bytes()));
    out.list(&request.env, |out, variable| out.bytes(variable.as_bytes()));
    out.option(request.terminal.as_ref(), |out, path| out.bytes(path.as_bytes()));
    out.list(files, |out, role| out.byte(*role as u8));
    out.option(request.tag.as_ref(), |out, tag| out.fixed(tag.to_number().to_le_bytes()));
    out.option(request.user.as_ref(), encode_user);
    encode_sandbox(&request.sandbox, &mut out);
    out.0
}

/// Decodes the output of [`encode`], and nothing else.
pub(crate) fn decode(bytes: &[u8]) -> Option<(SpawnRequest, Vec<FdRole>)> {
    let mut input = WireReader(bytes);
    let path = input.c_string()?;
    let argv = input.list(WireReader::c_string)?;
    let env = input.list(|input| input.c_string().map(EnvVariable::from))?;
    let terminal = input.option(WireReader::c_string)?;
    let files = input.list(|input| input.one_of(&FdRole::ALL))?;
    let tag = input.option(|input| input.number().and_then(ProcessTag::from_number))?;
    let user = input.option(decode_user)?;
    let sandbox = decode_sandbox(&mut input)?;
    let request = SpawnRequest { path, argv, env, terminal, tag, user, sandbox };
    input.0.is_empty().then_some((request, files))
}

fn encode_user(out: &mut WireWriter, user: &JobUser) {
    let JobUser { name, uid, gid, groups, home, shell } = user;
    out.bytes(name.as_bytes());
    out.fixed(uid.to_le_bytes());
    out.fixed(gid.to_le_bytes());
    out.list(groups, |out, group| out.fixed(group.to_le_bytes()));
    out.path(home);
    out.path(shell);
}

fn decode_user(input: &mut WireReader<'_>) -> Option<JobUser> {
    let name = input.path()?;
    Some(JobUser {
        name: name.into_os_string().into_string().ok()?,
        uid: input.fixed().map(u32::from_le_bytes)?,
        gid: input.fixed().map(u32::from_le_bytes)?,
        groups: input.list(|input| input.fixed().map(u32::from_le_bytes))?,
        home: input.path()?,
        shell: input.path()?,
    })
}

fn encode_sandbox(sandbox: &SandboxRules, out: &mut WireWriter) {
    out.byte(index_of(&SandboxProfile::WORDS, sandbox.confinement.profile));
    out.byte(index_of(&NetworkAccess::WORDS, sandbox.confinement.network));
    out.byte(index_of(&Backend::WORDS, sandbox.backend));
    out.byte(sandbox.sockets.network as u8);
    out.byte(sandbox.sockets.unix as u8);
    encode_limits(&sandbox.limits, out);
    out.list(&sandbox.mounts, |out, mount| encode_mount(mount, out));
    out.option(sandbox.writable.as_ref(), |out, paths| {
        out.list(paths, |out, path| out.path(path));
    });
    out.list(&sandbox.protected_pids, |out, number| out.fixed(number.to_le_bytes()));
}

fn decode_sandbox(input: &mut WireReader<'_>) -> Option<SandboxRules> {
    let profile = input.word(&SandboxProfile::WORDS)?;
    let network = input.word(&NetworkAccess::WORDS)?;
    Some(SandboxRules {
        confinement: Confinement { profile, network },
        backend: input.word(&Backend::WORDS)?,
        sockets: SocketRules {
            network: input.one_of(&NetworkSockets::ALL)?,
            unix: input.one_of(&UnixSockets::ALL)?,
        },
        limits: decode_limits(input)?,
        mounts: input.list(decode_mount)?,
        writable: input.option(|input| input.list(WireReader::path))?,
        protected_pids: input.list(|input| input.fixed().map(i32::from_le_bytes))?,
    })
}

fn encode_limits(limits: &ResourceLimits, out: &mut WireWriter) {
    let ResourceLimits { memory, cpu, processes, open_files, file_size, nice } = limits;
    for number in [memory, processes, open_files, file_size] {
        out.option(number.as_ref(), |out, number| out.fixed(number.to_le_bytes()));
    }
    out.option(cpu.as_ref(), |out, time| {
        out.fixed(time.as_secs().to_le_bytes());
        out.fixed(time.subsec_nanos().to_le_bytes());
    });
    out.byte(*nice);
}

fn decode_limits(input: &mut WireReader<'_>) -> Option<ResourceLimits> {
    Some(ResourceLimits {
        memory: input.option(WireReader::number)?,
        processes: input.option(WireReader::number)?,
        open_files: input.option(WireReader::number)?,
        file_size: input.option(WireReader::number)?,
        cpu: input.option(|input| {
            let seconds = input.number()?;
            let nanos = u32::from_le_bytes(input.fixed()?);
            (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
        })?,
        nice: input.byte()?,
    })
}

fn encode_mount(mount: &Mount, out: &mut WireWriter) {
    let (kind, source) = match mount {
        Mount::Writable(_) => (b'w', None),
        Mount::Pinned(_) => (b'p', None),
        Mount::ReadOnly(_) => (b'r', None),
        Mount::Hidden(_) => (b'h', None),
        Mount::Private(BindMount { source, .. }) => (b'o', Some(source)),
        Mount::Shown(BindMount { source, .. }) => (b's', Some(source)),
    };
    out.byte(kind);
    out.path(mount.path());
    source.into_iter().for_each(|source| out.path(source));
}

fn decode_mount(input: &mut WireReader<'_>) -> Option<Mount> {
    let kind = input.byte()?;
    let path = input.path()?;
    let substitute =
        |input: &mut WireReader<'_>, place| input.path().map(|source| BindMount { place, source });
    match kind {
        b'w' => Some(Mount::Writable(path)),
        b'p' => Some(Mount::Pinned(path)),
        b'r' => Some(Mount::ReadOnly(path)),
        b'h' => Some(Mount::Hidden(path)),
        b'o' => substitute(input, path).map(Mount::Private),
        b's' => substitute(input, path).map(Mount::Shown),
        _ => None,
    }
}

/// Returns the index of a value among all of its kind.
fn index_of<T: PartialEq>(words: &[(&str, T)], value: T) -> u8 {
    let place = words.iter().position(|(_, known)| *known == value);
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX)
}

/// Appends values one after the other; a value without a fixed length begins with its length.
#[derive(Debug, Default)]
struct WireWriter(Vec<u8>);

impl WireWriter {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn fixed<const N: usize>(&mut self, bytes: [u8; N]) {
        self.0.extend_from_slice(&bytes);
    }

    fn length(&mut self, length: usize) {
        self.fixed((length as u64).to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    fn list<T>(&mut self, items: &[T], put: impl Fn(&mut Self, &T)) {
        self.length(items.len());
        for item in items {
            put(self, item);
        }
    }

    fn option<T>(&mut self, item: Option<&T>, put: impl FnOnce(&mut Self, &T)) {
        self.byte(u8::from(item.is_some()));
        if let Some(item) = item {
            put(self, item);
        }
    }
}

/// The bytes that are still to be read.
#[derive(Debug)]
struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.fixed().map(|[byte]| byte)
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn c_string(&mut self) -> Option<CString> {
        CString::new(self.bytes()?).ok()
    }

    fn path(&mut self) -> Option<PathBuf> {
        self.bytes().map(|bytes| OsString::from_vec(bytes.to_vec()).into())
    }

    /// Reads as many items as the count says; the count is not trusted for allocation.
    fn list<T>(&mut self, get: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| get(self)).collect()
    }

    #[expect(clippy::option_option, reason = "malformed, absent, present")]
    fn option<T>(&mut self, get: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => get(self).map(Some),
            _ => None,
        }
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::from(self.byte()?)).copied()
    }

    fn word<T: Copy>(&mut self, words: &[(&str, T)]) -> Option<T> {
        self.one_of(words).map(|(_, value)| value)
    }
}

// The files that accompany a launch, and the role of each.

/// The role of a file that accompanies a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FdRole {
    /// The pipe for the notes of the new processes; it closes when the leader executes its program.
    Notes,
    /// The directory in which the job runs.
    Directory,
    Stdin,
    Stdout,
    Stderr,
    /// The file in which a shell leaves the exit codes of its last pipeline.
    Report,
    /// The directory of the job's cgroup.
    Cgroup,
    /// Closes when the server is gone, or wants the namespace to end.
    Lifeline,
}

impl FdRole {
    pub(crate) const ALL: [Self; 8] = [
        Self::Notes,
        Self::Directory,
        Self::Stdin,
        Self::Stdout,
        Self::Stderr,
        Self::Report,
        Self::Cgroup,
        Self::Lifeline,
    ];

    /// Returns the files of a new process, and the directory of its cgroup, each with its role.
    pub(crate) fn list<'a>(
        files: ChildFiles<'a>,
        cgroup: Option<BorrowedFd<'a>>,
    ) -> impl Iterator<Item = (Self, BorrowedFd<'a>)> {
        let ChildFiles { directory, stdin, stdout, stderr, report } = files;
        let all = [
            (Self::Directory, Some(directory)),
            (Self::Stdin, stdin),
            (Self::Stdout, stdout),
            (Self::Stderr, stderr),
            (Self::Report, report),
            (Self::Cgroup, cgroup),
        ];
        all.into_iter().filter_map(|(role, file)| Some((role, file?)))
    }
}

/// The files of one launch, as the spawner has them.
#[derive(Debug)]
pub(crate) struct ReceivedFiles {
    pub(crate) notes: OwnedFd,
    directory: OwnedFd,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    report: Option<OwnedFd>,
    pub(crate) cgroup: Option<OwnedFd>,
    pub(crate) lifeline: OwnedFd,
}

impl ReceivedFiles {
    /// Sorts the files by role; `None` if a required one is missing.
    pub(crate) fn sort(roles: &[FdRole], files: Vec<OwnedFd>) -> Option<Self> {
        let mut by_role = [const { None }; FdRole::ALL.len()];
        if roles.len() != files.len() {
            return None;
        }
        for (role, file) in roles.iter().zip(files) {
            *by_role.get_mut(*role as usize)? = Some(file);
        }
        let [notes, directory, stdin, stdout, stderr, report, cgroup, lifeline] = by_role;
        let notes = notes?;
        let directory = directory?;
        let lifeline = lifeline?;
        Some(Self { notes, directory, stdin, stdout, stderr, report, cgroup, lifeline })
    }

    /// Returns the files that the leader starts with.
    pub(crate) fn leader_files(&self) -> ChildFiles<'_> {
        ChildFiles {
            directory: self.directory.as_fd(),
            stdin: self.stdin.as_ref().map(OwnedFd::as_fd),
            stdout: self.stdout.as_ref().map(OwnedFd::as_fd),
            stderr: self.stderr.as_ref().map(OwnedFd::as_fd),
            report: self.report.as_ref().map(OwnedFd::as_fd),
        }
    }
}

/// A message from the processes of a launch to the server, in a few bytes that are written at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnerNote {
    /// The process that makes namespaces; it ends when the leader exists.
    Maker(Pid),
    /// The first process of the pid namespace.
    Init(Pid),
    /// The first process of the job.
    Leader(Pid),
    /// The launch failed.
    Failed(SpawnFailure),
}

impl SpawnerNote {
    pub(crate) const BYTES: usize = 6;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let (kind, step, value) = match self {
            Self::Maker(pid) => (b'm', 0, pid.as_raw_nonzero().get()),
            Self::Init(pid) => (b'i', 0, pid.as_raw_nonzero().get()),
            Self::Leader(pid) => (b'l', 0, pid.as_raw_nonzero().get()),
            Self::Failed(failure) => (b'f', step_index(failure.step), failure.errno.raw_os_error()),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [kind, step, a, b, c, d]
    }

    pub(crate) fn decode(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [kind, step, a, b, c, d] = bytes;
        let value = i32::from_le_bytes([a, b, c, d]);
        let pid = || parse_pid(value);
        match kind {
            b'm' => pid().map(Self::Maker),
            b'i' => pid().map(Self::Init),
            b'l' => pid().map(Self::Leader),
            b'f' => {
                let step = *SpawnStep::ALL.get(usize::from(step))?;
                let errno = (1..4096).contains(&value).then(|| Errno::from_raw_os_error(value))?;
                Some(Self::Failed(SpawnFailure { step, errno }))
            }
            _ => None,
        }
    }
}

/// Returns the index of a step.
fn step_index(step: SpawnStep) -> u8 {
    let place = SpawnStep::ALL.iter().position(|known| *known == step);
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or_default()
}

// Requests and answers over the socket between server and spawner.
//
// A request is its length, its bytes, and files beside the first of them.

/// More bytes than any kernel takes as arguments and environment of a program.
pub(crate) const MOST_BYTES: usize = 8 << 20;

const LENGTH_BYTES: usize = size_of::<u32>();
const ANCILLARY_BYTES: usize = cmsg_space!(ScmRights(FdRole::ALL.len()));

/// A request as received.
#[derive(Debug)]
pub(crate) struct SpawnerRequest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

/// Sends a request of at most [`MOST_BYTES`] bytes.
pub(crate) fn send_request(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    files: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::TOOBIG)?.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::MFILE);
    }
    let first = [IoSlice::new(&length), IoSlice::new(bytes)];
    let sent = retry_on_intr(|| sendmsg(socket, &first, &mut ancillary, SendFlags::NOSIGNAL))?;
    // The length is never sent in parts: it is the first thing in an empty socket.
    let sent = sent.checked_sub(LENGTH_BYTES).ok_or(Errno::IO)?;
    send_all(socket, bytes.get(sent..).unwrap_or_default())
}

/// Waits for a request; `None` if the other side is gone.
pub(crate) fn receive_request(socket: BorrowedFd<'_>) -> Result<Option<SpawnerRequest>, Errno> {
    let mut length = [0; LENGTH_BYTES];
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let into = &mut [IoSliceMut::new(&mut length)];
        recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            files.extend(sent);
        }
    }
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| Errno::TOOBIG)?;
    if received.bytes != LENGTH_BYTES || length > MOST_BYTES {
        return Err(Errno::PROTO);
    }
    let mut bytes = vec![0; length];
    receive_all(socket, &mut bytes)?;
    Ok(Some(SpawnerRequest { bytes, files }))
}

pub(crate) fn send_answer(socket: BorrowedFd<'_>, answer: SpawnerNote) -> Result<(), Errno> {
    send_all(socket, &answer.encode())
}

pub(crate) fn receive_answer(socket: BorrowedFd<'_>) -> Result<SpawnerNote, Errno> {
    let mut bytes = [0; SpawnerNote::BYTES];
    receive_all(socket, &mut bytes)?;
    SpawnerNote::decode(bytes).ok_or(Errno::PROTO)
}

fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let sent = retry_on_intr(|| send(socket, bytes, SendFlags::NOSIGNAL))?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

fn receive_all(socket: BorrowedFd<'_>, mut bytes: &mut [u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let (received, _) = retry_on_intr(|| recv(socket, &mut *bytes, RecvFlags::WAITALL))?;
        if received == 0 {
            return Err(Errno::PIPE);
        }
        bytes = bytes.get_mut(received..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::thread;

    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;
    use proptest::sample::select;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn c_string() -> impl Strategy<Value = CString> {
        vec(1..=u8::MAX, 0..40).prop_map(|bytes| CString::new(bytes).unwrap())
    }

    fn path() -> impl Strategy<Value = PathBuf> {
        c_string().prop_map(|text| OsString::from_vec(text.into_bytes()).into())
    }

    fn mount() -> impl Strategy<Value = Mount> {
        (0..6, path(), path()).prop_map(|(kind, place, source)| match kind {
            0 => Mount::Writable(place),
            1 => Mount::ReadOnly(place),
            2 => Mount::Pinned(place),
            3 => Mount::Private(BindMount { place, source }),
            4 => Mount::Shown(BindMount { place, source }),
            _ => Mount::Hidden(place),
        })
    }

    prop_compose! {
        fn limits()(
            numbers in [of(any::<u64>()), of(any::<u64>()), of(any::<u64>()), of(any::<u64>())],
            cpu in of(any::<Duration>()),
            nice: u8,
        ) -> ResourceLimits {
            let [memory, processes, open_files, file_size] = numbers;
            ResourceLimits { memory, cpu, processes, open_files, file_size, nice }
        }
    }

    prop_compose! {
        fn sandbox()(
            profile in select(SandboxProfile::WORDS.to_vec()),
            network in select(NetworkAccess::WORDS.to_vec()),
            backend in select(Backend::WORDS.to_vec()),
            sockets in (select(NetworkSockets::ALL.to_vec()), select(UnixSockets::ALL.to_vec())),
            limits in limits(),
            mounts in vec(mount(), 0..5),
            writable in of(vec(path(), 0..5)),
            protected_pids in vec(any::<i32>(), 0..5),
        ) -> SandboxRules {
            let confinement = Confinement { profile: profile.1, network: network.1 };
            let sockets = SocketRules { network: sockets.0, unix: sockets.1 };
            SandboxRules { confinement, backend: backend.1, sockets, limits, mounts, writable, protected_pids }
        }
    }

    prop_compose! {
        fn user()(
            name in "[a-z]{1,8}",
            ids in any::<(u32, u32)>(),
            groups in vec(any::<u32>(), 0..5),
            home in path(),
            shell in path(),
        ) -> JobUser {
            JobUser { name, uid: ids.0, gid: ids.1, groups, home, shell }
        }
    }

    prop_compose! {
        fn request()(
            path in c_string(),
            argv in vec(c_string(), 0..8),
            env in vec(c_string().prop_map(EnvVariable::from), 0..8),
            terminal in of(c_string()),
            tag in of(any::<u64>()),
            user in of(user()),
            sandbox in sandbox(),
        ) -> SpawnRequest {
            let tag = tag.map(ProcessTag::for_server);
            SpawnRequest { path, argv, env, terminal, tag, user, sandbox }
        }
    }

    fn roles() -> impl Strategy<Value = Vec<FdRole>> {
        vec(select(FdRole::ALL.to_vec()), 0..8)
    }

    proptest! {
        #[test]
        fn a_request_is_decoded_as_it_was_encoded(request in request(), roles in roles()) {
            prop_assert_eq!(decode(&encode(&request, &roles)), Some((request, roles)));
        }

        #[test]
        fn a_truncated_or_extended_request_is_rejected(request in request(), roles in roles(), cut: prop::sample::Index) {
            let bytes = encode(&request, &roles);
            prop_assert_eq!(decode(&bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(decode(&[&bytes[..], b"x"].concat()), None);
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..400)) {
            decode(&bytes);
        }
    }

    fn file() -> OwnedFd {
        rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn files_are_sorted_by_role() {
        let roles = [FdRole::Stderr, FdRole::Lifeline, FdRole::Directory, FdRole::Notes];
        let files = ReceivedFiles::sort(&roles, roles.map(|_| file()).into()).unwrap();
        assert!(files.stderr.is_some() && files.stdout.is_none() && files.cgroup.is_none());
    }

    #[test]
    fn a_launch_needs_a_directory_a_pipe_for_notes_and_a_lifeline() {
        let needed = [FdRole::Notes, FdRole::Directory, FdRole::Lifeline];
        assert!(ReceivedFiles::sort(&needed, needed.map(|_| file()).into()).is_some());
        for missing in 0..needed.len() {
            let mut some = needed.to_vec();
            some.remove(missing);
            assert!(ReceivedFiles::sort(&some, vec![file(), file()]).is_none(), "{some:?}");
        }
        assert!(ReceivedFiles::sort(&needed, vec![file(), file()]).is_none());
    }

    #[test]
    fn the_value_of_a_role_is_its_index() {
        for (place, role) in FdRole::ALL.into_iter().enumerate() {
            assert_eq!(role as usize, place);
        }
    }

    #[test]
    fn every_step_crosses_the_pipe() {
        for step in SpawnStep::ALL {
            let note = SpawnerNote::Failed(step.failed(Errno::ACCESS));
            assert_eq!(SpawnerNote::decode(note.encode()), Some(note), "{step:?}");
        }
    }

    proptest! {
        #[test]
        fn a_note_is_decoded_as_it_was_encoded(pid in 1..i32::MAX) {
            let pid = Pid::from_raw(pid).unwrap();
            for note in [SpawnerNote::Maker(pid), SpawnerNote::Init(pid), SpawnerNote::Leader(pid)] {
                prop_assert_eq!(SpawnerNote::decode(note.encode()), Some(note));
            }
        }

        #[test]
        fn random_bytes_decode_to_no_other_note(bytes: [u8; SpawnerNote::BYTES]) {
            if let Some(note) = SpawnerNote::decode(bytes) {
                prop_assert_eq!(SpawnerNote::decode(note.encode()), Some(note));
            }
        }
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_request_of_any_size_arrives_with_its_files() {
        let (ours, theirs) = pair();
        let serving = thread::spawn(move || {
            let receive = || receive_request(theirs.as_fd()).unwrap();
            std::iter::from_fn(receive).map(|it| (it.bytes, it.files.len())).collect::<Vec<_>>()
        });
        let sizes = [0, 1, 4096, 300_000, 2 << 20, 7];
        for (count, size) in sizes.into_iter().enumerate() {
            let files = vec![ours.as_fd(); count];
            send_request(ours.as_fd(), &vec![7; size], &files).unwrap();
        }
        drop(ours);
        // The files that were sent are the socket itself: it closes when they do.
        let got = serving.join().unwrap();
        let expected: Vec<_> =
            (0..).zip(sizes).map(|(count, size)| (vec![7; size], count)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn too_much_is_refused_and_a_torn_request_is_an_error() {
        let (ours, theirs) = pair();
        send_all(ours.as_fd(), &u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(receive_request(theirs.as_fd()).unwrap_err(), Errno::PROTO);
        send_all(ours.as_fd(), &[9, 0, 0, 0, 1]).unwrap();
        drop(ours);
        assert_eq!(receive_request(theirs.as_fd()).unwrap_err(), Errno::PIPE);
    }
}
