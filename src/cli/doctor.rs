//! `doctor`: checks what this host provides to jobs, and prints findings with their fixes.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustix::fs::{StatVfs, statvfs};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use serde_json::json;

use super::terminal::{Display, read_width, with_spinner_thread};
use super::text_layout::{wrap_line, wrap_text};
use crate::confinement::{GrantedConfinement, ResourceLimits};
use crate::environment::{DroppedVariable, JobEnvironment};
use crate::output::SpillDir;
use crate::private_files::{SPILL_CHECK_TIMEOUT, run_with_timeout};
use crate::process::cgroup::Delegation;
use crate::process::load::PressureError;
use crate::process::shell::{DESKTOP_PATH, ShellChoice, bash_path, is_on_path, read_login_path};
use crate::process::{GateSupport, Host};
use crate::service::{ConfinementRules, ConfinementTerms, PressureLevels, SandboxSupport};
use crate::setting_values::format_size;
use crate::supervisor::read_pressure;
use crate::telemetry::HostResource;
use crate::telemetry::spans::OTLP_BUILT_IN;

/// Flags of the verb `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct DoctorFlags {
    /// Configuration file, instead of the default locations.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The configuration and the state of the host that `doctor` checks.
#[derive(Debug)]
pub struct DoctorInput<'a> {
    /// The environment of the jobs of native tools.
    pub environment: &'a JobEnvironment,
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
    /// The tenants whose jobs run as root beside those of others.
    pub sharing_root: Vec<String>,
}

/// Prints the findings, with the names of environment variables but never their values. Returns the
/// exit code: 1 if something does not work.
#[must_use]
pub fn run(flags: &DoctorFlags, input: &DoctorInput<'_>, display: &Display) -> u8 {
    let checking = || run_checks(input);
    let mut findings = with_spinner_thread(display, "checking this host", checking);
    sort_by_severity(&mut findings);
    let text = if flags.json {
        findings_json(&findings, input.environment)
    } else {
        let width = read_width(&io::stdout());
        wrap_text(&format_summary(&findings), width) + &format_findings(&findings, width)
    };
    // A write fails if the reader is gone (`| head`).
    let is_printed = io::stdout().lock().write_all(text.as_bytes()).is_ok();
    u8::from(!is_printed || findings.iter().any(|finding| finding.level == FindingLevel::Fail))
}

fn run_checks(input: &DoctorInput<'_>) -> Vec<DoctorFinding> {
    let DoctorInput { environment, levels, spill_dir, collector, confinement_rules, .. } = input;
    let login_path = read_login_tools(input.login_shell.as_deref(), environment);
    let mut findings = vec![
        check_environment(environment),
        check_shell(&input.shell),
        check_path(&login_path),
        check_store(spill_dir, check_spill_dir(spill_dir)),
        check_temp_dir(&input.temp_dir),
        check_pressure(*levels, &read_all_pressure()),
        check_limits(input.limits),
    ];
    let delegation = input.host.cgroups().delegation();
    findings.extend(check_sandbox(&confinement_rules.support, &delegation));
    // The check has created a cgroup.
    input.host.cgroups().clean_up();
    findings.push(check_confinement(confinement_rules));
    findings.push(check_gate(input.host));
    findings.push(check_traces(*collector));
    findings.extend(check_tenants(&input.sharing_root));
    findings
}

fn findings_json(findings: &[DoctorFinding], environment: &JobEnvironment) -> String {
    let dropped =
        |variable: &DroppedVariable| json!({ "name": variable.name, "why": variable.why.word() });
    let dropped: Vec<_> = environment.dropped.iter().map(dropped).collect();
    let passed = list_passed_names(environment);
    let environment = json!({ "passed": passed, "dropped": dropped });
    let answer = json!({ "findings": findings, "environment": environment });
    format!("{answer:#}\n")
}

// Findings.

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct DoctorFinding {
    level: FindingLevel,
    /// The name of the check.
    what: &'static str,
    detail: String,
    /// The advice how to fix or change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum FindingLevel {
    Ok,
    /// Something is missing that jobs can do without.
    Warn,
    /// Something does not work.
    Fail,
}

impl FindingLevel {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl DoctorFinding {
    fn ok(what: &'static str, detail: impl Into<String>) -> Self {
        Self { level: FindingLevel::Ok, what, detail: detail.into(), fix: None }
    }

    fn warn(what: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { level: FindingLevel::Warn, ..Self::ok(what, detail).with_fix(fix) }
    }

    fn fail(what: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { level: FindingLevel::Fail, ..Self::ok(what, detail).with_fix(fix) }
    }

    fn with_fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// Puts problems first, in the order of the checks, then warnings.
fn sort_by_severity(findings: &mut [DoctorFinding]) {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
}

/// Formats one line that says whether there is anything to do.
fn format_summary(findings: &[DoctorFinding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let plural =
        |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let ok = plural(count(FindingLevel::Ok), "check");
    match (count(FindingLevel::Fail), count(FindingLevel::Warn)) {
        (0, 0) => format!("no problems: {ok} ok\n\n"),
        (problems, warnings) => {
            format!("{}, {}, {ok} ok\n\n", plural(problems, "problem"), plural(warnings, "warning"))
        }
    }
}

/// The width of the level before each finding.
const LEVEL_WIDTH: usize = 6;

/// Formats each finding as one line, with further details and the fix on indented lines below; all
/// wrapped to the width of a terminal.
fn format_findings(findings: &[DoctorFinding], width: Option<usize>) -> String {
    let mut text = String::new();
    for DoctorFinding { level, what, detail, fix } in findings {
        let lines = detail.lines().chain(fix.as_deref());
        for (number, line) in lines.enumerate() {
            let line = match number {
                0 => format!("{:<LEVEL_WIDTH$}{what}: {line}", level.word()),
                _ => format!("{:LEVEL_WIDTH$}{line}", ""),
            };
            let wrapped = width.map(|width| wrap_line(&line, width, LEVEL_WIDTH));
            text.push_str(&wrapped.unwrap_or(line));
            text.push('\n');
        }
    }
    text
}

// Environment, store, pressure and traces.

/// Checks that the directory for output is writable, within a bounded time.
fn check_spill_dir(dir: &Path) -> io::Result<()> {
    let spill = SpillDir::new(dir, Arc::default());
    run_with_timeout(SPILL_CHECK_TIMEOUT, move || spill.check())?
}

fn check_store(dir: &Path, checked: io::Result<()>) -> DoctorFinding {
    let dir = dir.display();
    match checked {
        Ok(()) => DoctorFinding::ok("store", format!("output beyond memory goes to {dir}")),
        Err(error) => DoctorFinding::fail(
            "store",
            format!("output beyond memory cannot be stored in {dir} ({error})"),
            "set server.data_dir to a writable directory",
        ),
    }
}

fn check_environment(environment: &JobEnvironment) -> DoctorFinding {
    let mut detail = format!("jobs get {}", list_passed_names(environment).join(" "));
    for DroppedVariable { name, why } in &environment.dropped {
        detail.push_str(&format!("\nnot passed: {name} ({})", why.word()));
    }
    DoctorFinding::ok("environment", detail)
        .with_fix("to pass a variable, name it in environment.pass")
}

/// Returns the names of the variables that jobs get.
fn list_passed_names(environment: &JobEnvironment) -> Vec<String> {
    environment.kept.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
}

fn check_traces(collector: Option<&str>) -> DoctorFinding {
    const NAME: &str = "traces";
    const BUILD_FIX: &str = "build it with `cargo build --release --features otlp`";
    match (OTLP_BUILT_IN, collector) {
        (true, Some(collector)) => DoctorFinding::ok(NAME, format!("spans go to {collector}")),
        (true, None) => {
            let detail = "this build can export spans (OTLP), but no collector is set";
            DoctorFinding::ok(NAME, detail)
                .with_fix("to send spans to a collector, set trace.otlp_endpoint")
        }
        (false, Some(collector)) => {
            let detail =
                format!("spans should go to {collector}, but this build cannot export them");
            DoctorFinding::fail(NAME, detail, BUILD_FIX)
        }
        (false, None) => {
            DoctorFinding::ok(NAME, "this build cannot export spans (OTLP)").with_fix(BUILD_FIX)
        }
    }
}

/// Warns of tenants that are not kept apart; there is nothing to say about others.
fn check_tenants(sharing_root: &[String]) -> Option<DoctorFinding> {
    (!sharing_root.is_empty()).then(|| {
        let detail = format!(
            "jobs of {} run as root, and can read and change the files of other tenants",
            sharing_root.join(", ")
        );
        let fix = "set tenants.NAME.user, or tenants.NAME.workspace and a file profile";
        DoctorFinding::warn("tenants", detail, fix)
    })
}

type PressureReading = (HostResource, Result<u8, PressureError>);

fn read_all_pressure() -> [PressureReading; 3] {
    HostResource::ALL.map(|resource| (resource, read_pressure(resource)))
}

fn check_pressure(levels: PressureLevels, read: &[PressureReading]) -> DoctorFinding {
    const NAME: &str = "pressure";
    let is_watched = |resource: HostResource| levels.level(resource).is_some();
    let unknown = read.iter().find_map(|(resource, read)| {
        let why = read.as_ref().err()?;
        (is_watched(*resource) || !levels.is_any()).then_some(*why)
    });
    if let Some(why) = unknown {
        let level = if levels.is_any() { FindingLevel::Warn } else { FindingLevel::Ok };
        let detail = format!("{why}; starts are not held back");
        let or_not = "or set pressure.cpu, pressure.memory and pressure.io to 0";
        let fix = format!("{}, {or_not}", why.fix());
        return DoctorFinding { level, ..DoctorFinding::ok(NAME, detail).with_fix(fix) };
    }
    let now = read.iter().filter_map(|(resource, read)| Some((*resource, (*read).ok()?)));
    let held = HostResource::ALL
        .into_iter()
        .filter_map(|resource| Some((resource, levels.level(resource)?)));
    let now = format_percents(now);
    let held = format_percents(held);
    if held.is_empty() {
        DoctorFinding::ok(NAME, format!("{now}; starts are never held back"))
            .with_fix("to hold starts back under pressure, set pressure.memory or pressure.io")
    } else {
        DoctorFinding::ok(NAME, format!("{now}; starts are held back above {held}"))
    }
}

/// Formats percentages as `cpu 3 %, memory 0 %`.
fn format_percents(percents: impl Iterator<Item = (HostResource, u8)>) -> String {
    let one = |(resource, percent): (HostResource, u8)| format!("{} {percent} %", resource.word());
    percents.map(one).collect::<Vec<_>>().join(", ")
}

// Shell, programs, temporary files and limits.

/// The programs that agents call most often.
const CHECKED_TOOLS: [&str; 18] = [
    "git", "cargo", "rustc", "node", "npm", "npx", "pnpm", "bun", "deno", "python3", "uv", "go",
    "java", "docker", "kubectl", "make", "gh", "rg",
];

/// The variables that a login shell needs to find its start-up files.
const LOGIN_VARIABLES: [&str; 5] = ["HOME", "USER", "LOGNAME", "SHELL", "XDG_CONFIG_HOME"];

/// Below these bounds a build soon fails.
const LOW_FREE_BYTES: u64 = 1 << 30;
const LOW_FREE_FILES: u64 = 10_000;
const LOW_OPEN_FILES: u64 = 1024;
const LOW_PROCESSES: u64 = 512;

/// Checks the shell that runs shell text.
fn check_shell(shell: &ShellChoice) -> DoctorFinding {
    const NAME: &str = "shell";
    match shell {
        ShellChoice::Auto => match bash_path() {
            Some(bash) => DoctorFinding::ok(NAME, format!("{bash}; /bin/sh for plain lines")),
            None => DoctorFinding::warn(
                NAME,
                "/bin/sh for all shell text: bash is not installed",
                "install bash; agents write shell text for it",
            ),
        },
        ShellChoice::Path(path) if Path::new(path).exists() => {
            DoctorFinding::ok(NAME, path.as_str())
        }
        ShellChoice::Path(path) => DoctorFinding::fail(
            NAME,
            format!("{path} does not exist"),
            "correct job.shell, or remove it",
        ),
    }
}

/// The PATH of the login shell, compared with the PATH of a desktop client.
#[derive(Debug, PartialEq, Eq)]
enum LoginPath {
    /// The PATH, and the tools that are found only there.
    Known { path: OsString, missed: Vec<&'static str> },
    /// The login shell did not report its PATH.
    Unknown,
}

/// Asks the login shell for its PATH.
fn read_login_tools(shell: Option<&Path>, environment: &JobEnvironment) -> LoginPath {
    let is_needed = |name: &OsStr| LOGIN_VARIABLES.iter().any(|known| name == *known);
    let kept = environment.kept.iter().filter(|(name, _)| is_needed(name)).cloned();
    let kept: Vec<_> = kept.collect();
    let Some(path) = shell.and_then(|shell| read_login_path(shell, &kept)) else {
        return LoginPath::Unknown;
    };
    let only_there =
        |tool: &&str| is_on_path(tool, &path) && !is_on_path(tool, OsStr::new(DESKTOP_PATH));
    let missed = CHECKED_TOOLS.into_iter().filter(only_there).collect();
    LoginPath::Known { path, missed }
}

/// Checks which tools a server finds that a desktop client starts.
fn check_path(login: &LoginPath) -> DoctorFinding {
    const NAME: &str = "path";
    match login {
        LoginPath::Unknown => DoctorFinding::ok(
            NAME,
            format!(
                "desktop clients start the server with PATH={DESKTOP_PATH}; the PATH of the login shell is not known"
            ),
        ),
        LoginPath::Known { missed, .. } if missed.is_empty() => DoctorFinding::ok(
            NAME,
            format!(
                "desktop clients start the server with PATH={DESKTOP_PATH}, which finds all tools that the login shell finds"
            ),
        ),
        LoginPath::Known { path, missed } => DoctorFinding::warn(
            NAME,
            format!(
                "desktop clients start the server with PATH={DESKTOP_PATH}; found only by the login shell: {}",
                missed.join(" ")
            ),
            &format!("set environment.set = [\"PATH={}\"]", path.display()),
        ),
    }
}

/// Checks the free space for temporary files.
fn check_temp_dir(dir: &Path) -> DoctorFinding {
    match statvfs(dir) {
        Ok(stat) => free_space_finding(dir, &stat),
        Err(error) => DoctorFinding::fail(
            "temp",
            format!("{} cannot be used ({error})", dir.display()),
            "set TMPDIR to a writable directory",
        ),
    }
}

fn free_space_finding(dir: &Path, stat: &StatVfs) -> DoctorFinding {
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // Some file systems create inodes on demand and report none.
    let files = (stat.f_files > 0).then_some(stat.f_favail);
    let inodes = files.map(|files| format!(", {files} inodes")).unwrap_or_default();
    let free_mib = format_size(free >> 20 << 20);
    let detail = format!("{} has {free_mib}{inodes} free", dir.display());
    if free < LOW_FREE_BYTES || files.is_some_and(|files| files < LOW_FREE_FILES) {
        DoctorFinding::warn(
            "temp",
            detail,
            "free some space, or set TMPDIR to a larger file system",
        )
    } else {
        DoctorFinding::ok("temp", detail)
    }
}

/// The hard resource limits of this process; `None` = no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerRlimits {
    open_files: Option<u64>,
    processes: Option<u64>,
    file_size: Option<u64>,
}

/// Reads the hard resource limits of this process.
#[must_use]
pub fn read_rlimits() -> ServerRlimits {
    let hard_limit = |resource| getrlimit(resource).maximum;
    ServerRlimits {
        open_files: hard_limit(Resource::Nofile),
        processes: hard_limit(Resource::Nproc),
        file_size: hard_limit(Resource::Fsize),
    }
}

fn check_limits(limits: ServerRlimits) -> DoctorFinding {
    let ServerRlimits { open_files, processes, file_size } = limits;
    let words = |bound: Option<u64>| bound.map_or("unlimited".to_owned(), |most| most.to_string());
    let detail = format!(
        "open files {}, processes {}, file size {}",
        words(open_files),
        words(processes),
        file_size.map_or("unlimited".to_owned(), format_size)
    );
    let is_low = |bound: Option<u64>, least| bound.is_some_and(|limit| limit < least);
    if is_low(open_files, LOW_OPEN_FILES)
        || is_low(processes, LOW_PROCESSES)
        || is_low(file_size, LOW_FREE_BYTES)
    {
        DoctorFinding::warn(
            "limits",
            detail,
            "raise them with ulimit -n, -u and -f, or in the service unit",
        )
    } else {
        DoctorFinding::ok("limits", detail)
    }
}

// The sandbox.

/// Checks each sandbox mechanism of this host. A missing one is a warning;
/// [`check_confinement`] says whether jobs get the configured confinement.
fn check_sandbox(support: &SandboxSupport, cgroup: &Delegation) -> [DoctorFinding; 5] {
    const LANDLOCK_FIX: &str = "a kernel from 5.13 on has it; add landlock to the boot option lsm=, or \
                          let the container's seccomp profile pass its system calls";
    const NAMESPACES_FIX: &str = "set kernel.apparmor_restrict_unprivileged_userns=0 and \
                         user.max_user_namespaces above 0 by sysctl; in a container, let its \
                         seccomp profile pass unshare and clone with new namespaces";
    const SECCOMP_FIX: &str = "a kernel built with CONFIG_SECCOMP_FILTER has them";
    const SETTINGS_FIX: &str = "run the server as an ordinary user, give it CAP_SYS_ADMIN, or mount \
                          /proc/sys read-only in its container";
    let to_finding = |what, found: Result<String, &str>, fix| match found {
        Ok(detail) => DoctorFinding::ok(what, detail),
        Err(why) => DoctorFinding::warn(what, why, fix),
    };
    let namespaces = support.namespaces.check().map(|()| "jobs can get their own".to_owned());
    let landlock = support.landlock.check().map(|abi| format!("ABI {abi}"));
    let seccomp = support.seccomp.check().map(|()| "system calls can be filtered".to_owned());
    let settings = support.kernel_settings.check().map(|()| "jobs cannot write them".to_owned());
    [
        to_finding("namespaces", namespaces, NAMESPACES_FIX),
        to_finding("landlock", landlock, LANDLOCK_FIX),
        to_finding("seccomp", seccomp, SECCOMP_FIX),
        to_finding("kernel settings", settings, SETTINGS_FIX),
        check_cgroup(cgroup),
    ]
}

fn check_cgroup(cgroup: &Delegation) -> DoctorFinding {
    const NAME: &str = "cgroup";
    match cgroup.fix() {
        None => DoctorFinding::ok(NAME, cgroup.to_string()),
        Some(fix) => {
            let detail = format!("{cgroup}; a watchdog bounds memory, CPU time and processes");
            DoctorFinding::warn(NAME, detail, fix)
        }
    }
}

/// Checks whether an allow list can be enforced at the start of each program.
fn check_gate(host: &Host) -> DoctorFinding {
    const NAME: &str = "exec gate";
    const FIX: &str = "run the server where jobs may use seccomp notifications and ptrace; until then an \
                       allow list accepts plain words alone (policy.enforce)";
    match GateSupport::new(host.keeper().clone(), None).check() {
        Ok(()) => DoctorFinding::ok(NAME, "an allow list judges each program as it starts"),
        Err(why) => DoctorFinding::warn(NAME, why, FIX),
    }
}

/// Checks the confinement of jobs that request none of their own.
fn check_confinement(rules: &ConfinementRules) -> DoctorFinding {
    const NAME: &str = "confinement";
    const DEGRADED_FIX: &str = "fix what is missing above, or set confinement.profile to the profile \
                            that jobs get";
    const REFUSED_FIX: &str = "fix what is missing above, set a looser confinement.profile, or set \
                           confinement.on_unavailable = \"degrade\"";
    match rules.grant_terms(ConfinementTerms::NOTHING) {
        Err(unavailable) => {
            let asked = unavailable.requested;
            let missing = unavailable.missing;
            DoctorFinding::fail(
                NAME,
                format!("no job can run: {asked} is set, but {missing}"),
                REFUSED_FIX,
            )
        }
        Ok((granted, limits)) if granted.is_degraded() => {
            let detail = format!(
                "{}; {} is configured",
                format_confinement(granted, limits),
                granted.requested
            );
            DoctorFinding::warn(NAME, detail, DEGRADED_FIX)
        }
        Ok((granted, limits)) => DoctorFinding::ok(NAME, format_confinement(granted, limits)),
    }
}

/// Formats the confinement and the limits of jobs, as `jobs get default, network on, by seccomp; at
/// most 17 GiB of memory, 512 processes`.
fn format_confinement(granted: GrantedConfinement, limits: ResourceLimits) -> String {
    let bounds = [
        limits.memory.map(|bytes| format!("{} of memory", format_size(bytes >> 20 << 20))),
        limits.cpu.map(|time| format!("{}s of CPU time", time.as_secs_f64())),
        limits.processes.map(|count| format!("{count} processes")),
        limits.open_files.map(|count| format!("{count} open files")),
        limits.file_size.map(|bytes| format!("{} in a file", format_size(bytes))),
    ];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    let most = if bounds.is_empty() { "no limits".to_owned() } else { bounds.join(", ") };
    format!("jobs get {}, by {}; at most {most}", granted.effective, granted.backend.word())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::confinement::{Backend, SandboxProfile};
    use crate::process::cgroup::Controller;
    use crate::service::{Bound, LimitTerms, OnUnavailable};

    const LEVELS: PressureLevels = PressureLevels { cpu: None, memory: Some(30), io: Some(60) };

    fn readings(cpu: u8, memory: u8, io: u8) -> [PressureReading; 3] {
        [
            (HostResource::Cpu, Ok(cpu)),
            (HostResource::Memory, Ok(memory)),
            (HostResource::Io, Ok(io)),
        ]
    }

    #[track_caller]
    fn check(levels: PressureLevels, read: &[PressureReading], expected: &str) {
        assert_eq!(format_findings(&[check_pressure(levels, read)], None), expected);
    }

    #[test]
    fn pressure_is_shown_beside_its_limits() {
        check(
            LEVELS,
            &readings(3, 0, 1),
            "ok    pressure: cpu 3 %, memory 0 %, io 1 %; starts are held back above memory 30 %, io 60 %\n",
        );
        check(
            PressureLevels::default(),
            &readings(3, 0, 1),
            "ok    pressure: cpu 3 %, memory 0 %, io 1 %; starts are never held back\n      \
             to hold starts back under pressure, set pressure.memory or pressure.io\n",
        );
    }

    #[test]
    fn the_finding_says_whether_spans_can_be_exported() {
        let [unset, set] = [None, Some("http://c:4318")].map(check_traces);
        let actual = format_findings(&[unset], None);
        assert!(actual.starts_with("ok    traces: ") && actual.contains("(OTLP)"), "{actual}");
        let level = if OTLP_BUILT_IN { FindingLevel::Ok } else { FindingLevel::Fail };
        assert_eq!(set.level, level, "{set:?}");
        assert_eq!(set.fix.is_some_and(|fix| fix.contains("--features otlp")), !OTLP_BUILT_IN);
    }

    #[test]
    fn an_unwritable_store_fails() {
        let checked =
            |result| format_findings(&[check_store(Path::new("/data/spill"), result)], None);
        assert_eq!(checked(Ok(())), "ok    store: output beyond memory goes to /data/spill\n");
        let actual = checked(Err(io::ErrorKind::PermissionDenied.into()));
        assert!(
            actual.starts_with("fail  store: output beyond memory cannot be stored"),
            "{actual}"
        );
        assert!(actual.contains("\n      set server.data_dir "), "{actual}");
    }

    #[test]
    fn unknown_pressure_is_a_warning_only_if_a_limit_is_set() {
        let missing = HostResource::ALL.map(|resource| (resource, Err(PressureError::Missing)));
        let actual = check_pressure(LEVELS, &missing);
        assert_eq!(actual.level, FindingLevel::Warn);
        assert!(
            actual.detail.starts_with("this kernel ") && actual.detail.ends_with("not held back")
        );
        assert!(actual.fix.is_some_and(|fix| fix.starts_with("boot with psi=1")));
        assert_eq!(check_pressure(PressureLevels::default(), &missing).level, FindingLevel::Ok);
        let mut cpu_is_unknown = readings(3, 0, 1);
        cpu_is_unknown[0].1 = Err(PressureError::Denied);
        check(
            LEVELS,
            &cpu_is_unknown,
            "ok    pressure: memory 0 %, io 1 %; starts are held back above memory 30 %, io 60 %\n",
        );
    }

    #[test]
    fn tools_that_only_a_login_shell_finds_are_named_with_the_fix() {
        let missed = vec!["cargo", "node"];
        let found = check_path(&LoginPath::Known { path: "/h/.cargo/bin:/bin".into(), missed });
        assert_eq!(found.level, FindingLevel::Warn);
        assert!(found.detail.ends_with("only by the login shell: cargo node"), "{found:?}");
        assert!(found.fix.is_some_and(|fix| fix.contains("PATH=/h/.cargo/bin:/bin")));
        let all = LoginPath::Known { path: OsString::new(), missed: Vec::new() };
        assert_eq!(check_path(&all).level, FindingLevel::Ok);
        assert_eq!(check_path(&LoginPath::Unknown).level, FindingLevel::Ok);
    }

    #[test]
    fn problems_come_first_and_are_counted() {
        let mut findings = vec![
            DoctorFinding::ok("a", "fine"),
            DoctorFinding::warn("b", "odd", "fix b"),
            DoctorFinding::fail("c", "broken", "fix c"),
            DoctorFinding::warn("d", "odd", "fix d"),
        ];
        sort_by_severity(&mut findings);
        assert_eq!(findings.iter().map(|finding| finding.what).collect::<String>(), "cbda");
        assert_eq!(format_summary(&findings), "1 problem, 2 warnings, 1 check ok\n\n");
        assert_eq!(format_summary(&findings[3..]), "no problems: 1 check ok\n\n");
    }

    #[test]
    fn low_limits_are_a_warning() {
        let none = ServerRlimits { open_files: None, processes: None, file_size: None };
        assert_eq!(check_limits(none).level, FindingLevel::Ok);
        let found = check_limits(ServerRlimits { open_files: Some(256), ..none });
        assert_eq!(found.level, FindingLevel::Warn);
        assert!(found.detail.starts_with("open files 256, processes unlimited"), "{found:?}");
    }

    #[test]
    fn a_missing_shell_or_directory_fails() {
        assert_eq!(check_shell(&ShellChoice::Path("/no/sh".to_owned())).level, FindingLevel::Fail);
        assert_eq!(check_shell(&ShellChoice::Path("/bin/sh".to_owned())).level, FindingLevel::Ok);
        assert_eq!(check_temp_dir(Path::new("/no/such/place")).level, FindingLevel::Fail);
    }

    fn new_rules(profile: SandboxProfile, strongest: Backend) -> ConfinementRules {
        let processes = Some(Bound::AtMost(512));
        let limits = LimitTerms { processes, ..LimitTerms::NOTHING };
        let support = SandboxSupport {
            namespaces: Ok(()).into(),
            landlock: Ok(7).into(),
            seccomp: Ok(()).into(),
            kernel_settings: Ok(()).into(),
        };
        ConfinementRules {
            all: ConfinementTerms { profile: Some(profile), network: None, limits },
            tenants: BTreeMap::new(),
            lanes: BTreeMap::new(),
            support: support.limited_to(strongest),
            on_unavailable: OnUnavailable::Refuse,
        }
    }

    #[test]
    fn the_finding_names_the_profile_and_its_backend() {
        let found = check_confinement(&new_rules(SandboxProfile::Default, Backend::Namespaces));
        assert_eq!(found.level, FindingLevel::Ok);
        let actual = "jobs get default, network on, by seccomp; at most 512 processes";
        assert_eq!(found.detail, actual);
    }

    #[test]
    fn an_unavailable_profile_fails_unless_degrading_is_allowed() {
        let mut weak = new_rules(SandboxProfile::ReadOnly, Backend::Seccomp);
        let found = check_confinement(&weak);
        assert_eq!(found.level, FindingLevel::Fail);
        assert!(found.detail.contains("read-only, network off is set"), "{found:?}");
        assert!(found.fix.is_some_and(|fix| fix.contains("on_unavailable")));
        weak.on_unavailable = OnUnavailable::Degrade;
        let found = check_confinement(&weak);
        assert_eq!(found.level, FindingLevel::Warn);
        assert!(found.detail.contains("get default, network off, by seccomp"), "{found:?}");
        assert!(found.detail.ends_with("read-only, network off is configured"), "{found:?}");
    }

    #[test]
    fn each_missing_mechanism_has_a_fix() {
        let support = new_rules(SandboxProfile::None, Backend::Nothing).support;
        let all = check_sandbox(&support, &Delegation::Nothing { why: "no".to_owned() });
        // These need no mechanism that could be switched off.
        for found in all.into_iter().filter(|found| found.what != "kernel settings") {
            assert_eq!(found.level, FindingLevel::Warn, "{found:?}");
            assert!(found.fix.is_some(), "{found:?}");
        }
        let support = new_rules(SandboxProfile::None, Backend::Namespaces).support;
        let controllers = vec![Controller::Memory, Controller::Pids];
        let cgroup = Delegation::Controllers { controllers, below: "/sys/fs/cgroup/x".into() };
        let found = check_sandbox(&support, &cgroup);
        assert!(found.iter().all(|found| found.level == FindingLevel::Ok), "{found:?}");
        assert_eq!(found[1].detail, "ABI 7");
    }
}
