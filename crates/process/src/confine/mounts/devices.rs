//! A small `/dev` of a job's own.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::stdio::stdin;

use super::attributes::Reach;
use super::tree::{Tree, find};

/// What a job finds of the host's devices, as far as the host has it.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The name under which a job finds the terminal that it was given: it is none of the terminals of
/// its own, so that it would have none.
const TERMINAL: &str = "console";

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Shared memory of one job.
const SHARED_MEMORY: [(&str, &str); 2] = [("mode", "1777"), ("size", "1g")];

/// The host's devices that a job gets.
#[derive(Debug)]
pub(super) struct Devices(Vec<(&'static str, Tree)>);

impl Devices {
    /// Takes them from the host's `/dev`.
    pub(super) fn take() -> Result<Self, Errno> {
        let mut taken = Vec::with_capacity(DEVICES.len() + 1);
        for name in DEVICES {
            // The host's may be a link to one in another directory.
            let Ok(path) = Path::new("/dev").join(name).canonicalize() else { continue };
            taken.push((name, Tree::copy_of(&find(&path)?)?));
        }
        taken.extend(terminal().map(|terminal| (TERMINAL, terminal)));
        // They can be used all the same; their owner and mode cannot be changed.
        let restrictions = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID;
        taken.iter().try_for_each(|(_, device)| device.restrict(restrictions, Reach::Alone))?;
        Ok(Self(taken))
    }

    /// Makes a new `/dev` of them, with terminals and shared memory that nobody else sees.
    pub(super) fn put(self) -> io::Result<()> {
        let dev = Path::new("/dev");
        let around = Tree::in_memory(&[("mode", "0755")])?;
        around.put_on(&find(dev)?)?;
        for (name, device) in self.0 {
            let place = dev.join(name);
            File::create_new(&place)?;
            device.put_on(&find(&place)?)?;
        }
        for (name, to) in LINKS {
            symlink(to, dev.join(name))?;
        }
        for (name, tree) in
            [("pts", Tree::of_terminals()?), ("shm", Tree::in_memory(&SHARED_MEMORY)?)]
        {
            let place = dev.join(name);
            fs::create_dir(&place)?;
            tree.put_on(&find(&place)?)?;
        }
        Ok(around.restrict(MountAttrFlags::MOUNT_ATTR_RDONLY, Reach::Alone)?)
    }
}

/// The terminal from which this process reads, if it is one of the host's.
fn terminal() -> Option<Tree> {
    let path = fs::read_link("/proc/self/fd/0").ok()?;
    let found = find(&path).ok().filter(|_| path.starts_with("/dev/pts"))?;
    let (named, used) = (fstat(&found).ok()?, fstat(stdin()).ok()?);
    // In another instance there may be one of the same name.
    let is_same = (named.st_dev, named.st_ino) == (used.st_dev, used.st_ino);
    is_same.then(|| Tree::copy_of(&found).ok())?
}
