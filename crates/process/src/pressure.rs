//! How much the system stalls, as the kernel measures it: pressure stall information (PSI).
//!
//! It is that of the whole system, since what jobs compete for is. A server in a cgroup of its own
//! could read that group's files instead; they would leave out whoever else makes the host stall.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use super::short_file;

/// A resource that processes stall for want of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Processors.
    Cpu,
    /// Memory.
    Memory,
    /// Disks.
    Io,
}

/// Why nothing is known about pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unavailable {
    /// There are no such files.
    #[error("this kernel has no pressure stall information (/proc/pressure is not there)")]
    Missing,
    /// The files are there, and turned off.
    #[error("this kernel has its pressure stall information turned off")]
    TurnedOff,
    /// The files are there, and not for us.
    #[error("this process may not read /proc/pressure")]
    Denied,
    /// Something else went wrong.
    #[error("/proc/pressure cannot be read ({0})")]
    Unreadable(io::ErrorKind),
    /// The files hold something else.
    #[error("/proc/pressure does not read as pressure stall information")]
    Garbled,
}

impl Unavailable {
    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "psi_missing",
            Self::TurnedOff => "psi_off",
            Self::Denied => "psi_denied",
            Self::Unreadable(_) => "psi_unreadable",
            Self::Garbled => "psi_garbled",
        }
    }

    /// What can be done about it.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        match self {
            Self::Missing | Self::TurnedOff => "boot with psi=1, on a kernel built with CONFIG_PSI",
            Self::Denied => "let the server read /proc/pressure, which a container may hide",
            Self::Unreadable(_) | Self::Garbled => "look at /proc/pressure by hand",
        }
    }
}

impl From<io::Error> for Unavailable {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Self::Missing,
            Some(Errno::OPNOTSUPP) => Self::TurnedOff,
            Some(Errno::PERM | Errno::ACCESS) => Self::Denied,
            Some(_) | None => Self::Unreadable(error.kind()),
        }
    }
}

/// The share of the last ten seconds, in whole percent, that somebody stalled for want of a
/// processor or of memory, or everybody for want of a disk.
///
/// Blocks for as long as the kernel needs to print two lines: it reads no disk.
///
/// # Errors
/// When the kernel does not tell.
pub fn read(resource: Resource) -> Result<u8, Unavailable> {
    let (file, line) = match resource {
        Resource::Cpu => ("/proc/pressure/cpu", "some "),
        Resource::Memory => ("/proc/pressure/memory", "some "),
        Resource::Io => ("/proc/pressure/io", "full "),
    };
    percent(&short_file::read(file)?, line).ok_or(Unavailable::Garbled)
}

/// Rounded down: a whole level is reached by the whole part exactly when it is by the share.
fn percent(text: &str, line: &str) -> Option<u8> {
    let fields = text.lines().find_map(|found| found.strip_prefix(line))?;
    let share = fields.split_ascii_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    let share: f64 = share.parse().ok()?;
    (0.0..=100.0).contains(&share).then_some(share as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "some avg10=38.17 avg60=7.98 avg300=3.36 total=185928987\n\
                        full avg10=3.86 avg60=6.99 avg300=2.98 total=72329874\n";

    #[test]
    fn each_line_has_its_own_share_rounded_down() {
        assert_eq!(percent(TEXT, "some "), Some(38));
        assert_eq!(percent(TEXT, "full "), Some(3));
        assert_eq!(percent("some avg10=100.00 total=1\n", "some "), Some(100));
        assert_eq!(percent("some avg10=0.99\n", "some "), Some(0));
    }

    #[test]
    fn anything_else_is_no_share() {
        for text in [
            "",
            "some\n",
            "full avg10=1.00\n",
            "some avg60=1.00 total=3\n",
            "some avg10= avg60=1.00\n",
            "some avg10=much\n",
            "some avg10=-1.00\n",
            "some avg10=NaN\n",
            "some avg10=inf\n",
            "some avg10=101.00\n",
        ] {
            assert_eq!(percent(text, "some "), None, "{text:?}");
        }
    }

    #[test]
    fn every_error_has_its_meaning() {
        for (errno, expected) in [
            (Errno::NOENT, Unavailable::Missing),
            (Errno::OPNOTSUPP, Unavailable::TurnedOff),
            (Errno::PERM, Unavailable::Denied),
            (Errno::ACCESS, Unavailable::Denied),
            (Errno::INTR, Unavailable::Unreadable(io::ErrorKind::Interrupted)),
        ] {
            assert_eq!(Unavailable::from(io::Error::from(errno)), expected, "{errno}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".*", cut in 0..TEXT.len()) {
            prop_assert!(percent(&text, "some ").is_none_or(|percent| percent <= 100));
            prop_assert!(percent(&TEXT[..cut], "full ").is_none_or(|percent| percent <= 3));
        }
    }
}
