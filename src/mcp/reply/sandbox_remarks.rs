//! Remarks on what the sandbox and the exec gate of a job kept from happening.

use std::path::Path;

use crate::confinement::SetAsideFile;
use crate::service::RefusedStarts;

/// Formats `refused while it ran: touch pwned (not on the allow list, started by find) and 2 more`.
pub(super) fn refused_text(refused: &RefusedStarts) -> Option<String> {
    const NAMED: usize = 3;
    let named: Vec<String> = refused.first.iter().take(NAMED).map(ToString::to_string).collect();
    let others = refused.count.saturating_sub(named.len() as u64);
    let more = if others == 0 { String::new() } else { format!(" and {others} more") };
    (!named.is_empty()).then(|| format!("refused while it ran: {}{more}", named.join(", ")))
}

/// Formats `.envrc is protected and appeared: renamed to .envrc.set-aside`.
pub(super) fn set_aside_remark(file: &SetAsideFile) -> String {
    let path = file.path.display();
    let name = file.renamed_to.as_deref().and_then(Path::file_name);
    match name {
        Some(name) => {
            format!("{path} is protected and appeared: renamed to {}", name.to_string_lossy())
        }
        None => format!("{path} is protected and appeared: it could not be renamed, remove it"),
    }
}
