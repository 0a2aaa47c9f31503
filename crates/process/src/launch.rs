//! The description of a process to start.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use super::cwd::Cwd;
use super::start_error::StartError;
use super::stdio::{LaunchStdin, ReportMode, StreamMode};
use crate::confinement::{Backend, GrantedConfinement, ResourceLimits, SandboxPaths};

/// A process to start, complete: it inherits nothing from the server but its limits and its user.
#[derive(Debug, Clone)]
pub struct ProcessLaunch {
    /// A path (relative to `cwd`), or a name that is looked up in the PATH of `env`.
    pub program: OsString,
    /// The arguments after the program's own name.
    pub args: Vec<OsString>,
    /// The program's own name, if it differs from `program`.
    pub arg0: Option<OsString>,
    /// The whole environment. A variable named [`JOB_VARIABLE`](super::JOB_VARIABLE) marks the
    /// tree.
    pub env: Vec<EnvVariable>,
    /// The working directory.
    pub cwd: Cwd,
    /// The source of its standard input.
    pub stdin: LaunchStdin,
    /// The pipes of its output. A terminal merges both streams in any case.
    pub streams: StreamMode,
    /// The reporting of the exit codes of its last pipeline.
    pub report: ReportMode,
    /// The sandbox and the resource limits.
    pub sandbox: SandboxSpec,
    /// The name under which the keeper holds the process for the next server. Without a keeper it
    /// has no effect.
    pub keep_as: Option<String>,
}

/// The sandbox and the resource limits of a process and everything that it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// The confinement and the backend that enforces it.
    pub granted: GrantedConfinement,
    /// The limits on its resources.
    pub limits: ResourceLimits,
    /// The paths that it may write, and those that are hidden from it.
    pub paths: Arc<SandboxPaths>,
}

impl SandboxSpec {
    /// Returns a specification without sandbox and limits.
    #[must_use]
    pub fn none() -> Self {
        let granted = GrantedConfinement::NOTHING;
        let limits = ResourceLimits::NONE;
        Self { granted, limits, paths: Arc::default() }
    }

    /// `true` if there is neither a sandbox nor a limit.
    pub(crate) fn is_none(&self) -> bool {
        self.granted.backend == Backend::Nothing && self.limits == ResourceLimits::NONE
    }
}

/// A variable of an environment, `NAME=value`. Cheap to clone: most variables are the same for
/// every job.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvVariable(Arc<CStr>);

impl EnvVariable {
    /// Creates a variable.
    ///
    /// # Errors
    /// If the name or the value contains a NUL byte.
    pub fn new(name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Result<Self, StartError> {
        let text = [name.as_ref().as_bytes(), b"=", value.as_ref().as_bytes()].concat();
        let text = CString::new(text).map_err(|_| StartError::NulByte { what: "the environment" });
        text.map(Self::from)
    }

    /// Returns the part before `=`.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.parts().0)
    }

    /// Returns the part after `=`.
    #[must_use]
    pub fn value(&self) -> &OsStr {
        OsStr::from_bytes(self.parts().1)
    }

    /// Returns the whole `NAME=value`.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.to_bytes()
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        let all = self.as_bytes();
        let end = all.iter().position(|byte| *byte == b'=').unwrap_or(all.len());
        (&all[..end], all.get(end + 1..).unwrap_or_default())
    }
}

/// Takes a text `NAME=value`.
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

/// Shows the name only: values may be secret.
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
