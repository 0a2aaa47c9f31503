//! Resource limits that a process sets on itself and hands on.

use std::io;

use crate::confinement::ResourceLimits;

/// Sets the limits on this process. To be called after it got its user namespace, if it gets one:
/// only then are its processes counted apart from all others of the same user.
///
/// # Errors
/// When the system refuses.
pub(in crate::process) fn apply(_limits: &ResourceLimits) -> io::Result<()> {
    Ok(())
}
