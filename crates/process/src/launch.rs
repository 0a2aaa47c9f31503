//! What is asked of a new process, and what its owner gets.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use super::cwd::Cwd;
use super::start_error::StartError;
use super::stdio::{LaunchStdin, ReportMode};
use crate::confinement::{Backend, GrantedConfinement, ResourceLimits, SandboxPaths};

/// A process to start, complete: nothing is inherited from the server but its limits and its user.
#[derive(Debug, Clone)]
pub struct ProcessLaunch {
    /// A path (relative to `cwd`), or a name that is looked up in the PATH of `env`.
    pub program: OsString,
    /// The arguments after the program's own name.
    pub args: Vec<OsString>,
    /// The program's own name, where it is not `program`.
    pub arg0: Option<OsString>,
    /// The whole environment. A variable named [`JOB_VARIABLE`](super::JOB_VARIABLE) marks the tree.
    pub env: Vec<EnvVariable>,
    /// Where it runs.
    pub cwd: Cwd,
    /// What it reads.
    pub stdin: LaunchStdin,
    /// Whether it tells the exit codes of its last pipeline.
    pub report: ReportMode,
    /// What it is kept from, and what it may use up.
    pub sandbox: SandboxSpec,
}

/// What a process and all that comes out of it are kept from, and what they may use up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// How far it is shut in, and what does it.
    pub granted: GrantedConfinement,
    /// What it may use up.
    pub limits: ResourceLimits,
    /// Where it may write, and what is hidden from it.
    pub paths: Arc<SandboxPaths>,
}

impl SandboxSpec {
    /// Not at all.
    #[must_use]
    pub fn none() -> Self {
        let (granted, limits) = (GrantedConfinement::NOTHING, ResourceLimits::NONE);
        Self { granted, limits, paths: Arc::default() }
    }

    /// Whether there is nothing to do about it.
    pub(crate) fn is_none(&self) -> bool {
        self.granted.backend == Backend::Nothing && self.limits == ResourceLimits::NONE
    }
}

// One variable of a process's environment, in the form in which programs get it.

/// `NAME=value`. A cheap clone: most variables of a job are those of every job.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvVariable(Arc<CStr>);

impl EnvVariable {
    /// This name with this value.
    ///
    /// # Errors
    /// When one of them has a NUL byte in it.
    pub fn new(name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Result<Self, StartError> {
        let text = [name.as_ref().as_bytes(), b"=", value.as_ref().as_bytes()].concat();
        let text = CString::new(text).map_err(|_| StartError::NulByte { what: "the environment" });
        text.map(Self::from)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.parts().0)
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &OsStr {
        OsStr::from_bytes(self.parts().1)
    }

    /// All of it.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.to_bytes()
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        let all = self.as_bytes();
        let end = all.iter().position(|byte| *byte == b'=').unwrap_or(all.len());
        (&all[..end], all.get(end + 1..).unwrap_or_default())
    }
}

/// As it stands in an environment.
impl From<CString> for EnvVariable {
    fn from(text: CString) -> Self {
        Self(text.into())
    }
}

impl AsRef<CStr> for EnvVariable {
    fn as_ref(&self) -> &CStr {
        &self.0
    }
}

/// Values are nobody's business.
impl fmt::Debug for EnvVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=…", self.name().display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_name_and_a_value() {
        for (name, value) in [("A", "b"), ("A", ""), ("A", "b=c"), ("", "")] {
            let variable = EnvVariable::new(name, value).unwrap();
            assert_eq!((variable.name(), variable.value()), (name.as_ref(), value.as_ref()));
            assert_eq!(variable.as_bytes(), format!("{name}={value}").as_bytes());
        }
        let bare = EnvVariable::from(c"ODD".to_owned());
        assert_eq!((bare.name(), bare.value()), ("ODD".as_ref(), "".as_ref()));
        assert_eq!(EnvVariable::new("A", "b\0c").unwrap_err().code(), "nul_byte");
        assert_eq!(format!("{:?}", EnvVariable::new("A", "secret").unwrap()), "A=…");
    }
}
