//! Handing a filter to the kernel.

use std::io;
use std::thread;

use seccompiler::{BpfProgram, Error, apply_filter};

use super::program::assemble;
use super::rules::{CallRules, NetworkSockets, SocketRules, UnixSockets, refused};
use crate::confine::probe::Missing;
use crate::confinement::Profile;

/// A compiled filter, good for any number of processes. The default one refuses nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filters {
    program: BpfProgram,
}

/// Compiles the rules.
///
/// # Errors
/// When this processor's system calls are not known, or too many processes are untouchable (about
/// 2,000).
pub(crate) fn compile(rules: &CallRules) -> io::Result<Filters> {
    let refused = refused(rules);
    if refused.is_empty() {
        return Ok(Filters::default());
    }
    let program = assemble(refused).ok_or(io::ErrorKind::Unsupported)?;
    Ok(Filters { program })
}

/// Puts the filter on this thread and all that comes after it, which also cannot gain privileges
/// any more (`no_new_privs`).
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn install(filters: &Filters) -> io::Result<()> {
    if filters.program.is_empty() {
        return Ok(());
    }
    apply_filter(&filters.program).map_err(|error| match error {
        Error::Prctl(error) | Error::Seccomp(error) => error,
        Error::Backend(_) | Error::EmptyFilter | Error::ThreadSync(_) => {
            io::ErrorKind::InvalidInput.into()
        }
    })
}

/// Whether this host lets a process filter its calls, found out by doing it.
///
/// # Errors
/// What is missing.
pub(crate) fn offer() -> Result<(), Missing> {
    let sockets = SocketRules { network: NetworkSockets::Refused, unix: UnixSockets::PairsOnly };
    let rules = CallRules { profile: Profile::ReadOnly, sockets, untouchable: Vec::new() };
    let filters = compile(&rules)
        .map_err(|_| format!("the system calls of {} are not known", std::env::consts::ARCH))
        .map_err(Missing::Means)?;
    let thread = thread::Builder::new().spawn(move || install(&filters));
    let thread = thread.map_err(|error| Missing::new(&error, error.to_string()))?;
    let tried = thread.join().unwrap_or(Err(io::ErrorKind::Other.into()));
    tried.map_err(|error| {
        let why = "the kernel has no seccomp filters, or a container does not allow them";
        Missing::Means(format!("{why}: {error}"))
    })
}
