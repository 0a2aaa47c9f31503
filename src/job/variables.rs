//! What every job finds in its environment.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::LazyLock;

type Pairs = Vec<(OsString, OsString)>;

/// Variables that are made out when the first job needs them: to see that none holds a secret takes
/// a while, and a server has to answer before it runs anything.
pub struct Variables(LazyLock<Pairs, Box<dyn FnOnce() -> Pairs + Send>>);

impl Variables {
    /// Those that this gives; it is called once, or never.
    #[must_use]
    pub fn made_by(make: impl FnOnce() -> Pairs + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(make)))
    }

    /// All of them, in their order.
    #[must_use]
    pub fn pairs(&self) -> &[(OsString, OsString)] {
        &self.0
    }

    /// The value of this one, where it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let found = self.pairs().iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_os_str())
    }
}

/// Values are nobody's business.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}
