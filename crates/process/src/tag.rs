//! A number that a tree carries in an inherited resource limit.
//!
//! The soft limit on real-time CPU use (RLIMIT_RTTIME, in microseconds) means nothing to ordinary
//! processes, passes through `fork`, `exec`, `setsid` and `env -i`, and any process's can be read.
//! At a value of millions of years it means nothing to real-time processes either.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::proc_scan;

/// Which server a process comes from (upper bits), and which of its children (lower bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u64);

const CHILD_BITS: u32 = 24;
/// Far above any limit that somebody means, and below what signed readers take.
const BASE: u64 = 1 << 62;

impl Tag {
    /// A server's own tag, from a random number.
    pub(super) const fn of_server(random: u64) -> Self {
        Self(BASE | ((random << CHILD_BITS) & (BASE - 1)))
    }

    /// The tag of one of this server's children, from the child's serial number.
    pub(super) const fn of_child(self, serial: u32) -> Self {
        let low = (1 << CHILD_BITS) - 1;
        Self((self.0 & !low) | (serial as u64 & low))
    }

    pub(super) const fn is_of_server(self) -> bool {
        self.0.trailing_zeros() >= CHILD_BITS
    }

    pub(super) const fn same_server(self, other: Self) -> bool {
        self.0 >> CHILD_BITS == other.0 >> CHILD_BITS
    }

    /// The form in which it crosses a command line.
    pub(super) const fn to_number(self) -> u64 {
        self.0
    }

    /// A number that can be a tag.
    pub(super) const fn from_number(number: u64) -> Option<Self> {
        if number >> 62 == 1 { Some(Self(number)) } else { None }
    }

    /// The tag that a process carries.
    pub(super) fn read(pid: Pid) -> Option<Self> {
        proc_scan::realtime_limit(pid).and_then(Self::from_number)
    }

    /// Puts it on a process, `None` being ourselves. False where the host does not let us.
    pub(super) fn put_on(self, pid: Option<Pid>) -> bool {
        let maximum = getrlimit(Resource::Rttime).maximum;
        prlimit(pid, Resource::Rttime, Rlimit { current: Some(self.0), maximum }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn children_share_their_server_and_nothing_else(random: u64, a in 1_u32..1 << 24, b in 1_u32..1 << 24) {
            let server = Tag::of_server(random);
            let (first, second) = (server.of_child(a), server.of_child(b));
            prop_assert!(server.is_of_server() && !first.is_of_server());
            prop_assert!(first.same_server(second) && first.same_server(server));
            prop_assert_eq!(first == second, a == b);
            prop_assert_eq!(Tag::from_number(first.to_number()), Some(first));
        }
    }

    #[test]
    fn an_ordinary_limit_is_no_tag() {
        for number in [0, 1, 200_000, 1 << 50, u64::MAX] {
            assert_eq!(Tag::from_number(number), None, "{number}");
        }
    }
}
