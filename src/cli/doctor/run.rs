//! What is looked at, and what is told.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::finding::{Finding, Level, as_text};
use super::{confinement, findings, host};
use crate::bounded_read::{SPILL_CHECK_TIME, run_bounded};
use crate::cli::DoctorFlags;
use crate::environment::{Cleaned, DroppedName};
use crate::output::SpillDir;
use crate::process::cgroup;
use crate::process::shell::Shell;
use crate::supervisor::read_pressure;
use crate::telemetry::Resource;
use crate::yard::{Confining, Levels};

/// What is looked at.
#[derive(Debug)]
pub struct Patient<'a> {
    /// The environment of jobs.
    pub environment: &'a Cleaned,
    /// What holds starts back.
    pub levels: Levels,
    /// Where output goes that is too much for memory.
    pub spill_dir: &'a Path,
    /// The collector that spans go to.
    pub collector: Option<&'a str>,
    /// Who runs shell text.
    pub shell: Shell,
    /// The login shell of the user, where it is known.
    pub login_shell: Option<PathBuf>,
    /// Where temporary files go.
    pub temp_dir: PathBuf,
    /// How jobs are to be confined, and what this host can do.
    pub confining: Confining,
}

/// Tells what was found: of variables the names only, never a value. Returns the exit code, which
/// is 1 where something does not work.
#[must_use]
pub fn run(flags: &DoctorFlags, patient: &Patient<'_>) -> u8 {
    let found = look(patient);
    let text = if flags.json { as_json(&found, patient.environment) } else { as_text(&found) };
    // A reader that went away (`| head`) cannot be told anything any more.
    let is_told = io::stdout().lock().write_all(text.as_bytes()).is_ok();
    u8::from(!is_told || found.iter().any(|finding| finding.level == Level::Fail))
}

fn look(patient: &Patient<'_>) -> Vec<Finding> {
    let Patient { environment, levels, spill_dir, collector, confining, .. } = patient;
    let read = Resource::ALL.map(|resource| (resource, read_pressure(resource)));
    let mut found = vec![
        findings::environment_finding(environment),
        host::shell_finding(&patient.shell),
        host::path_finding(&host::only_by_login(patient.login_shell.as_deref(), environment)),
        findings::store_finding(spill_dir, check_spill_dir(spill_dir)),
        host::temp_finding(&patient.temp_dir),
        findings::pressure_finding(*levels, &read),
        host::limits_finding(host::own_limits()),
    ];
    found.extend(confinement::means_findings(&confining.offer, &cgroup::delegation()));
    // Looking has made one.
    cgroup::leave();
    found.push(confinement::effective_finding(confining));
    found.push(findings::traces_finding(*collector));
    found
}

fn check_spill_dir(dir: &Path) -> io::Result<()> {
    let spill = SpillDir::new(dir, Arc::default());
    run_bounded(SPILL_CHECK_TIME, move || spill.check())?
}

fn as_json(found: &[Finding], environment: &Cleaned) -> String {
    let one = |dropped: &DroppedName| json!({ "name": dropped.name, "why": dropped.why.word() });
    let dropped: Vec<_> = environment.dropped.iter().map(one).collect();
    let environment = json!({ "passed": findings::kept(environment), "dropped": dropped });
    let answer = json!({ "findings": found, "environment": environment });
    format!("{answer:#}\n")
}
