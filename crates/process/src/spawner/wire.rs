//! A launch as bytes.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::Role;
use crate::birth::{Order, Shut};
use crate::confine::mounts::{Mount, Substitute};
use crate::confine::seccomp::{NetworkSockets, SocketRules, UnixSockets};
use crate::confinement::{Backend, Confinement, Network, Profile, ResourceLimits};
use crate::tag::Tag;
use crate::variable::Variable;

/// A launch in bytes, with what its files are for in their order.
pub(super) fn encode(order: &Order, files: &[Role]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(order.path.as_bytes());
    out.list(&order.argv, |out, arg| out.bytes(arg.as_bytes()));
    out.list(&order.env, |out, variable| out.bytes(variable.as_bytes()));
    out.option(order.terminal.as_ref(), |out, path| out.bytes(path.as_bytes()));
    out.list(files, |out, role| out.byte(*role as u8));
    out.option(order.tag.as_ref(), |out, tag| out.fixed(tag.to_number().to_le_bytes()));
    encode_shut(&order.shut, &mut out);
    out.0
}

/// Understands what [`encode`] gives, and nothing else.
pub(super) fn decode(bytes: &[u8]) -> Option<(Order, Vec<Role>)> {
    let mut input = Reader(bytes);
    let path = input.c_string()?;
    let argv = input.list(Reader::c_string)?;
    let env = input.list(|input| input.c_string().map(Variable::from))?;
    let terminal = input.option(Reader::c_string)?;
    let files = input.list(|input| input.one_of(&Role::ALL))?;
    let tag = input.option(|input| input.number().and_then(Tag::from_number))?;
    let shut = decode_shut(&mut input)?;
    input.0.is_empty().then_some((Order { path, argv, env, terminal, tag, shut }, files))
}

fn encode_shut(shut: &Shut, out: &mut Writer) {
    out.byte(place(&Profile::WORDS, shut.confinement.profile));
    out.byte(place(&Network::WORDS, shut.confinement.network));
    out.byte(place(&Backend::WORDS, shut.backend));
    out.byte(shut.sockets.network as u8);
    out.byte(shut.sockets.unix as u8);
    encode_limits(&shut.limits, out);
    out.list(&shut.mounts, |out, mount| encode_mount(mount, out));
    out.option(shut.writable.as_ref(), |out, paths| {
        out.list(paths, |out, path| out.path(path));
    });
    out.list(&shut.untouchable, |out, number| out.fixed(number.to_le_bytes()));
}

fn decode_shut(input: &mut Reader<'_>) -> Option<Shut> {
    let profile = input.word(&Profile::WORDS)?;
    let network = input.word(&Network::WORDS)?;
    Some(Shut {
        confinement: Confinement { profile, network },
        backend: input.word(&Backend::WORDS)?,
        sockets: SocketRules {
            network: input.one_of(&NetworkSockets::ALL)?,
            unix: input.one_of(&UnixSockets::ALL)?,
        },
        limits: decode_limits(input)?,
        mounts: input.list(decode_mount)?,
        writable: input.option(|input| input.list(Reader::path))?,
        untouchable: input.list(|input| input.fixed().map(i32::from_le_bytes))?,
    })
}

fn encode_limits(limits: &ResourceLimits, out: &mut Writer) {
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

fn decode_limits(input: &mut Reader<'_>) -> Option<ResourceLimits> {
    Some(ResourceLimits {
        memory: input.option(Reader::number)?,
        processes: input.option(Reader::number)?,
        open_files: input.option(Reader::number)?,
        file_size: input.option(Reader::number)?,
        cpu: input.option(|input| {
            let (seconds, nanos) = (input.number()?, u32::from_le_bytes(input.fixed()?));
            (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
        })?,
        nice: input.byte()?,
    })
}

fn encode_mount(mount: &Mount, out: &mut Writer) {
    let (kind, source) = match mount {
        Mount::Writable(_) => (b'w', None),
        Mount::Pinned(_) => (b'p', None),
        Mount::ReadOnly(_) => (b'r', None),
        Mount::Hidden(_) => (b'h', None),
        Mount::Private(Substitute { source, .. }) => (b'o', Some(source)),
        Mount::Shown(Substitute { source, .. }) => (b's', Some(source)),
    };
    out.byte(kind);
    out.path(mount.path());
    source.into_iter().for_each(|source| out.path(source));
}

fn decode_mount(input: &mut Reader<'_>) -> Option<Mount> {
    let kind = input.byte()?;
    let path = input.path()?;
    let substitute =
        |input: &mut Reader<'_>, place| input.path().map(|source| Substitute { place, source });
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

/// A word by its place among all of its kind.
fn place<T: PartialEq>(words: &[(&str, T)], value: T) -> u8 {
    let place = words.iter().position(|(_, known)| *known == value);
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX)
}

/// Puts values one after the other; whatever has no fixed length begins with it.
#[derive(Debug, Default)]
struct Writer(Vec<u8>);

impl Writer {
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

/// What is still to be read.
#[derive(Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
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

    /// As many as it says; what it says is not believed before they are there.
    fn list<T>(&mut self, get: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| get(self)).collect()
    }

    #[expect(clippy::option_option, reason = "not to be read, read as nothing, read as something")]
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;
    use proptest::sample::select;

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
            3 => Mount::Private(Substitute { place, source }),
            4 => Mount::Shown(Substitute { place, source }),
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
        fn shut()(
            profile in select(Profile::WORDS.to_vec()),
            network in select(Network::WORDS.to_vec()),
            backend in select(Backend::WORDS.to_vec()),
            sockets in (select(NetworkSockets::ALL.to_vec()), select(UnixSockets::ALL.to_vec())),
            limits in limits(),
            mounts in vec(mount(), 0..5),
            writable in of(vec(path(), 0..5)),
            untouchable in vec(any::<i32>(), 0..5),
        ) -> Shut {
            let confinement = Confinement { profile: profile.1, network: network.1 };
            let sockets = SocketRules { network: sockets.0, unix: sockets.1 };
            Shut { confinement, backend: backend.1, sockets, limits, mounts, writable, untouchable }
        }
    }

    prop_compose! {
        fn order()(
            path in c_string(),
            argv in vec(c_string(), 0..8),
            env in vec(c_string().prop_map(Variable::from), 0..8),
            terminal in of(c_string()),
            tag in of(any::<u64>()),
            shut in shut(),
        ) -> Order {
            let tag = tag.map(Tag::of_server);
            Order { path, argv, env, terminal, tag, shut }
        }
    }

    fn roles() -> impl Strategy<Value = Vec<Role>> {
        vec(select(Role::ALL.to_vec()), 0..8)
    }

    proptest! {
        #[test]
        fn what_is_sent_is_understood(order in order(), roles in roles()) {
            prop_assert_eq!(decode(&encode(&order, &roles)), Some((order, roles)));
        }

        #[test]
        fn half_of_it_is_not(order in order(), roles in roles(), cut: prop::sample::Index) {
            let bytes = encode(&order, &roles);
            prop_assert_eq!(decode(&bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(decode(&[&bytes[..], b"x"].concat()), None);
        }

        #[test]
        fn noise_is_harmless(bytes in vec(any::<u8>(), 0..400)) {
            decode(&bytes);
        }
    }
}
