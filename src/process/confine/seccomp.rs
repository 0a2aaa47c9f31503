//! Filters of system calls.

use std::io;

use crate::confinement::Confinement;

/// What a filter keeps a process from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::process) struct CallRules {
    pub(in crate::process) confinement: Confinement,
    /// Processes and groups (as negative numbers) that must not be signalled.
    pub(in crate::process) untouchable: Vec<i32>,
}

/// Compiled filters, good for any number of processes.
#[derive(Debug, Clone, Default)]
pub(in crate::process) struct Filters {}

/// Compiles the rules.
///
/// # Errors
/// When this processor's system calls are not known.
pub(in crate::process) fn compile(_rules: &CallRules) -> io::Result<Filters> {
    Ok(Filters {})
}

/// Puts the filters on this thread and all that comes after it. Privileges must have been given up
/// before (`no_new_privs`).
///
/// # Errors
/// When the kernel refuses.
pub(in crate::process) fn install(_filters: &Filters) -> io::Result<()> {
    Ok(())
}
