//! A compiled seccomp filter, as it travels to the shim.

use seccompiler::{BpfProgram, sock_filter};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A compiled filter, usable for any number of processes. The default one refuses nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeccompFilter {
    program: BpfProgram,
}

impl SeccompFilter {
    pub(super) const fn new(program: Vec<sock_filter>) -> Self {
        Self { program }
    }

    pub(super) const fn program(&self) -> &BpfProgram {
        &self.program
    }

    /// Returns the program, in the kernel's layout.
    pub(crate) fn steps(&self) -> &[sock_filter] {
        &self.program
    }
}

impl Serialize for SeccompFilter {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        let parts = |step: &sock_filter| (step.code, step.jt, step.jf, step.k);
        output.collect_seq(self.program.iter().map(parts))
    }
}

impl<'de> Deserialize<'de> for SeccompFilter {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let steps = Vec::<(u16, u8, u8, u32)>::deserialize(input)?;
        let step = |(code, jt, jf, k)| sock_filter { code, jt, jf, k };
        Ok(Self { program: steps.into_iter().map(step).collect() })
    }
}
