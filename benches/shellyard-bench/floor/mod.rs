//! The same work without us. Where CPU time is compared, it is done by a process of its own, so
//! that nothing of the client is counted with it.

pub(crate) mod drain;
mod figures;
pub(crate) mod spawn;

use std::process::Command;

pub(crate) use figures::FloorFigures;

/// The one variable that all programs here get.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A shell that runs this, with as few variables as jobs get: `cargo bench` sets some of which the
/// start of every program becomes slower.
pub(crate) fn shell(text: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", text]).env_clear().env("PATH", PATH);
    shell
}
