//! What every job finds in its environment.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::LazyLock;

use crate::process::Variable;

type Pairs = Vec<(OsString, OsString)>;

/// Variables that are made out when the first job needs them: to see that none holds a secret takes
/// a while, and a server has to answer before it runs anything.
pub struct Variables(LazyLock<Vec<Variable>, Box<dyn FnOnce() -> Vec<Variable> + Send>>);

impl Variables {
    /// Those that this gives; it is called once, or never.
    #[must_use]
    pub fn made_by(make: impl FnOnce() -> Pairs + Send + 'static) -> Self {
        // No process has a variable with a NUL byte in it, ours neither.
        let variable = |(name, value): (OsString, OsString)| Variable::new(name, value).ok();
        Self(LazyLock::new(Box::new(move || make().into_iter().filter_map(variable).collect())))
    }

    /// All of them, in their order.
    #[must_use]
    pub fn all(&self) -> &[Variable] {
        &self.0
    }

    /// The value of this one, where it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.all().iter().find(|variable| variable.name() == name).map(Variable::value)
    }
}

/// Values are nobody's business.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}
