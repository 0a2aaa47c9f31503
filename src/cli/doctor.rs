//! `doctor`: checks what this host provides to jobs, and prints findings with their fixes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::DoctorFlags;
use super::doctor_checks::{self as checks, DoctorFinding, FindingLevel};
use super::terminal::{Display, read_width, with_spinner_thread};
use super::text_layout::wrap_text;
use crate::environment::{DroppedVariable, JobEnvironment};
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
    pub confinement_rules: ConfinementRules,
    /// Creates cgroups, to find out what this host allows.
    pub host: &'a Host,
    /// The limits that this process was started with.
    pub limits: ServerRlimits,
}

/// Prints the findings, with the names of environment variables but never their values. Returns the
/// exit code: 1 if something does not work.
#[must_use]
pub fn run(flags: &DoctorFlags, input: &DoctorInput<'_>, display: &Display) -> u8 {
    let checking = || run_checks(input);
    let mut findings = with_spinner_thread(display, "checking this host", checking);
    checks::sort_by_severity(&mut findings);
    let text = if flags.json {
        findings_json(&findings, input.environment)
    } else {
        let width = read_width(&io::stdout());
        wrap_text(&checks::format_summary(&findings), width)
            + &checks::format_findings(&findings, width)
    };
    // A write fails if the reader is gone (`| head`).
    let is_printed = io::stdout().lock().write_all(text.as_bytes()).is_ok();
    u8::from(!is_printed || findings.iter().any(|finding| finding.level == FindingLevel::Fail))
}

fn run_checks(input: &DoctorInput<'_>) -> Vec<DoctorFinding> {
    let DoctorInput { environment, levels, spill_dir, collector, confinement_rules, .. } = input;
    let login_path = checks::read_login_tools(input.login_shell.as_deref(), environment);
    let mut findings = vec![
        checks::check_environment(environment),
        checks::check_shell(&input.shell),
        checks::check_path(&login_path),
        checks::check_store(spill_dir, checks::check_spill_dir(spill_dir)),
        checks::check_temp_dir(&input.temp_dir),
        checks::check_pressure(*levels, &checks::read_all_pressure()),
        checks::check_limits(input.limits),
    ];
    let delegation = input.host.cgroups().delegation();
    findings.extend(checks::check_sandbox(&confinement_rules.support, &delegation));
    // The check has created a cgroup.
    input.host.cgroups().clean_up();
    findings.push(checks::check_confinement(confinement_rules));
    findings.push(checks::check_traces(*collector));
    findings
}

fn findings_json(findings: &[DoctorFinding], environment: &JobEnvironment) -> String {
    let dropped =
        |variable: &DroppedVariable| json!({ "name": variable.name, "why": variable.why.word() });
    let dropped: Vec<_> = environment.dropped.iter().map(dropped).collect();
    let passed = checks::list_passed_names(environment);
    let environment = json!({ "passed": passed, "dropped": dropped });
    let answer = json!({ "findings": findings, "environment": environment });
    format!("{answer:#}\n")
}
