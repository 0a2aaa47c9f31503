//! Everything that a shim needs to start a job, as it is written into a file in memory: arguments and
//! environment can be longer than a message.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::{fmt, io};

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use shellyard_policy::gate::GateRules;

use super::namespaces::Isolation;
use crate::launch::Deadline;
use crate::sandbox::seccomp_filter::SeccompFilter;
use crate::spawn_request::SpawnRequest;
use crate::wire::path_bytes;

/// The description of a job for its shim.
#[derive(Serialize, Deserialize)]
pub(crate) struct ShimPlan {
    pub(crate) request: SpawnRequest,
    pub(crate) filters: SeccompFilter,
    /// The number of tasks that its user may have, if the kernel is to enforce it.
    pub(crate) max_tasks: Option<u64>,
    /// The soft and the hard limit on open files.
    pub(crate) open_files: (Option<u64>, Option<u64>),
    /// The full path of its working directory, without symlinks.
    #[serde(with = "path_bytes")]
    pub(crate) directory: PathBuf,
    pub(crate) isolation: Isolation,
    pub(crate) deadline: Option<Deadline>,
    /// `true` if the input ends after the file that is there from the start.
    pub(crate) ends_input: bool,
    /// The text that the next server gets.
    pub(crate) saved: String,
    /// The rules of the exec gate, if the job has one. They are written behind the plan, so that the plan
    /// stays the same for releases without gates.
    #[serde(skip)]
    pub(crate) gate: Option<GateRules>,
}

impl ShimPlan {
    /// Writes the plan into a new file in memory.
    pub(crate) fn to_file(&self) -> io::Result<OwnedFd> {
        let mut bytes = postcard::to_stdvec(self).map_err(io::Error::other)?;
        if let Some(gate) = &self.gate {
            bytes = postcard::to_extend(gate, bytes).map_err(io::Error::other)?;
        }
        memory_file(&bytes)
    }

    /// Reads the plan from such a file, with the rules of a gate if there are some.
    pub(super) fn from_file(file: OwnedFd, is_gated: bool) -> io::Result<Self> {
        let file = File::from(file);
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        let (mut plan, rest): (Self, _) =
            postcard::take_from_bytes(&bytes).map_err(io::Error::other)?;
        if is_gated {
            plan.gate = Some(postcard::from_bytes(rest).map_err(io::Error::other)?);
        }
        Ok(plan)
    }
}

/// Creates a file in memory with these bytes.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"shellyard", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Shows no arguments and no variables: they may be secret.
impl fmt::Debug for ShimPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShimPlan").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
