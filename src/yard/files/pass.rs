//! How a file call passes the gate.

use std::path::Path;

use tokio::runtime::Handle;

use crate::confinement::Granted;
use crate::policy::{Call, Policy, Request};
use crate::process::OpenedDir;
use crate::yard::gate::{Gate, Note, check_link, decide, opened, roots};
use crate::yard::{Caller, DEFAULT_LANE, Refused, Rules};

/// The tool that writes.
pub(super) const WRITE_FILE: &str = "write_file";

/// Lets a file call pass as the command `TOOL PATH`, or says why not; either way it is written
/// down first. An allow list speaks of commands, and none is run: what is denied, or must be asked
/// for, holds here, and what `confined` says of that directory. A file that a line beside an allow
/// list may not write is not written by this tool either. Gives the working directory that was
/// judged. For a thread of the runtime that may block.
pub(super) fn pass(
    gate: &Gate,
    [tool, path]: [&str; 2],
    cwd: &Path,
    caller: &Caller,
    confined: impl FnOnce(&Path) -> Result<(), Refused>,
) -> Result<OpenedDir, Refused> {
    let all_rules = gate.rules();
    let policy = Policy { allow: None, ..all_rules.policy.clone() };
    let rules = Rules { policy, ..(*all_rules).clone() };
    let decided = opened(&rules, cwd).and_then(|root| {
        confined(root.path())?;
        let request = Request {
            call: Call::Direct { program: tool, args: &[path.to_owned()] },
            environment: &[],
            cwd: &root.path().to_string_lossy(),
            writable: &roots(&rules),
            tenant: caller.tenant.name(),
            lane: DEFAULT_LANE,
            shell: None,
        };
        let passed = decide(&rules, &request, None)?;
        if tool == WRITE_FILE {
            check_link(&all_rules, &request, &root.path().join(path))?;
        }
        Ok((root, passed))
    });
    let (command, cwd) = (format!("{tool} {path}"), cwd.to_string_lossy());
    let note = Note {
        caller,
        job: None,
        command: &rules.redactor.mask_text(&command),
        cwd: &rules.redactor.mask_text(&cwd),
        // The server does it itself.
        confinement: Granted::NOTHING,
    };
    let writing = gate.write_decision(&note, decided.as_ref().map(|(_, passed)| passed));
    let written = Handle::current().block_on(writing);
    let (root, _) = decided?;
    written.map(|()| root)
}
