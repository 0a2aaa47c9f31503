//! `doctor`: checks what this host provides to jobs, and prints findings with their fixes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::DoctorFlags;
use super::doctor_checks::{self as checks, DoctorFinding, FindingLevel};
use crate::environment::{DroppedVariable, InheritSetting, JobEnvironment};
use crate::process::Host;
use crate::process::shell::ShellChoice;
use crate::service::{ConfinementRules, PressureLevels};

pub use super::doctor_checks::{ServerRlimits, read_rlimits};

/// The configuration and the state of the host that `doctor` checks.
#[derive(Debug)]
pub struct DoctorInput<'a> {
    /// The environment of the jobs of native tools.
    pub environment: &'a JobEnvironment,
    /// The setting that decides about variables without a rule of their own.
    pub inherit: InheritSetting,
    /// The pressure limits that hold starts back.
    pub levels: PressureLevels,
    /// The directory for output that does not fit into memory.
    pub spill_dir: &'a Path,
    /// The collector that spans are sent to.
    pub collector: Option<&'a str>,
    /// The shell that runs shell text.
    pub shell: ShellChoice,
    /// The login shell of the user, if it is known.
    pub login_shell: Option<PathBuf>,
    /// The directory for temporary files.
    pub temp_dir: PathBuf,
    /// The configured confinement, and what this host supports.
    pub confining: ConfinementRules,
    /// Creates cgroups, to find out what this host allows.
    pub host: &'a Host,
    /// The limits that this process was started with.
    pub limits: ServerRlimits,
}

/// Prints the findings, with the names of environment variables but never their values. Returns the
/// exit code: 1 if something does not work.
#[must_use]
pub fn run(flags: &DoctorFlags, input: &DoctorInput<'_>) -> u8 {
    let findings = run_checks(input);
    let text = if flags.json {
        findings_json(&findings, input.environment)
    } else {
        checks::findings_text(&findings)
    };
    // A write fails if the reader is gone (`| head`).
    let is_printed = io::stdout().lock().write_all(text.as_bytes()).is_ok();
    u8::from(!is_printed || findings.iter().any(|finding| finding.level == FindingLevel::Fail))
}

fn run_checks(input: &DoctorInput<'_>) -> Vec<DoctorFinding> {
    let DoctorInput { environment, levels, spill_dir, collector, confining, .. } = input;
    let login_path = checks::read_login_tools(input.login_shell.as_deref(), environment);
    let mut findings = vec![
        checks::environment_finding(environment, input.inherit),
        checks::shell_finding(&input.shell),
        checks::path_finding(&login_path),
        checks::store_finding(spill_dir, checks::check_spill_dir(spill_dir)),
        checks::temp_finding(&input.temp_dir),
        checks::pressure_finding(*levels, &checks::read_all_pressure()),
        checks::limits_finding(input.limits),
    ];
    let delegation = input.host.cgroups().delegation();
    findings.extend(checks::sandbox_findings(&confining.offer, &delegation));
    // The check has created a cgroup.
    input.host.cgroups().clean_up();
    findings.push(checks::confinement_finding(confining));
    findings.push(checks::traces_finding(*collector));
    findings
}

fn findings_json(findings: &[DoctorFinding], environment: &JobEnvironment) -> String {
    let dropped =
        |variable: &DroppedVariable| json!({ "name": variable.name, "why": variable.why.word() });
    let dropped: Vec<_> = environment.dropped.iter().map(dropped).collect();
    let passed = checks::passed_names(environment);
    let environment = json!({ "passed": passed, "dropped": dropped });
    let answer = json!({ "findings": findings, "environment": environment });
    format!("{answer:#}\n")
}
