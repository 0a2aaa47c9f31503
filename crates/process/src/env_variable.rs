//! A variable of a process's environment.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::start_error::StartError;

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

impl Serialize for EnvVariable {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(output)
    }
}

impl<'de> Deserialize<'de> for EnvVariable {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        CString::deserialize(input).map(Self::from)
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
