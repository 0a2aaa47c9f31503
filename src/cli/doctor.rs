//! `shellyard doctor`: what jobs get from this host, and what they do not.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::DoctorFlags;
use super::doctor_host as host;
use crate::bounded_read::{SPILL_CHECK_TIMEOUT, run_with_timeout};
use crate::environment::{DroppedVariable, JobEnvironment};
use crate::output::SpillDir;
use crate::process::Host;
use crate::process::load::PressureError;
use crate::process::shell::ShellChoice;
use crate::service::{ConfinementRules, Levels};
use crate::supervisor::read_pressure;
use crate::telemetry::HostResource;
use crate::telemetry::spans::OTLP_BUILT_IN;

pub use super::doctor_host::{ServerRlimits, read_rlimits};

/// What is looked at.
#[derive(Debug)]
pub struct DoctorInput<'a> {
    /// The environment of jobs.
    pub environment: &'a JobEnvironment,
    /// What holds starts back.
    pub levels: Levels,
    /// Where output goes that is too much for memory.
    pub spill_dir: &'a Path,
    /// The collector that spans go to.
    pub collector: Option<&'a str>,
    /// Who runs shell text.
    pub shell: ShellChoice,
    /// The login shell of the user, where it is known.
    pub login_shell: Option<PathBuf>,
    /// Where temporary files go.
    pub temp_dir: PathBuf,
    /// How jobs are to be confined, and what this host can do.
    pub confining: ConfinementRules,
    /// Makes cgroups, to see what this host lets it do.
    pub host: &'a Host,
    /// The limits that this process was started with.
    pub limits: ServerRlimits,
}

/// Tells what was found: of variables the names only, never a value. Returns the exit code, which
/// is 1 where something does not work.
#[must_use]
pub fn run(flags: &DoctorFlags, input: &DoctorInput<'_>) -> u8 {
    let found = look(input);
    let text = if flags.json { as_json(&found, input.environment) } else { as_text(&found) };
    // A reader that went away (`| head`) cannot be told anything any more.
    let is_told = io::stdout().lock().write_all(text.as_bytes()).is_ok();
    u8::from(!is_told || found.iter().any(|finding| finding.level == Level::Fail))
}

fn look(input: &DoctorInput<'_>) -> Vec<Finding> {
    let DoctorInput { environment, levels, spill_dir, collector, confining, .. } = input;
    let read = HostResource::ALL.map(|resource| (resource, read_pressure(resource)));
    let mut found = vec![
        environment_finding(environment),
        host::shell_finding(&input.shell),
        host::path_finding(&host::only_by_login(input.login_shell.as_deref(), environment)),
        store_finding(spill_dir, check_spill_dir(spill_dir)),
        host::temp_finding(&input.temp_dir),
        pressure_finding(*levels, &read),
        host::limits_finding(input.limits),
    ];
    found.extend(host::means_findings(&confining.offer, &input.host.cgroups().delegation()));
    // Looking has made one.
    input.host.cgroups().clean_up();
    found.push(host::effective_finding(confining));
    found.push(traces_finding(*collector));
    found
}

fn check_spill_dir(dir: &Path) -> io::Result<()> {
    let spill = SpillDir::new(dir, Arc::default());
    run_with_timeout(SPILL_CHECK_TIMEOUT, move || spill.check())?
}

fn as_json(found: &[Finding], environment: &JobEnvironment) -> String {
    let one =
        |dropped: &DroppedVariable| json!({ "name": dropped.name, "why": dropped.why.word() });
    let dropped: Vec<_> = environment.dropped.iter().map(one).collect();
    let environment = json!({ "passed": kept(environment), "dropped": dropped });
    let answer = json!({ "findings": found, "environment": environment });
    format!("{answer:#}\n")
}

// One finding, and how it is shown.

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What was looked at, in a word.
    pub(super) what: &'static str,
    /// What was found.
    pub(super) detail: String,
    /// What to do about it, or how to change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// How a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Something is missing that jobs can do without.
    Warn,
    /// Something does not work.
    Fail,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Finding {
    pub(super) fn ok(what: &'static str, detail: impl Into<String>) -> Self {
        Self { level: Level::Ok, what, detail: detail.into(), fix: None }
    }

    pub(super) fn warn(what: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { level: Level::Warn, what, detail: detail.into(), fix: Some(fix.to_owned()) }
    }

    pub(super) fn fail(what: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { level: Level::Fail, ..Self::warn(what, detail, fix) }
    }
}

/// A line for each, with what else there is to say below it.
fn as_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { level, what, detail, fix } in findings {
        let lines = detail.lines().chain(fix.as_deref());
        for (number, line) in lines.enumerate() {
            match number {
                0 => text.push_str(&format!("{:<5} {what}: {line}\n", level.word())),
                _ => text.push_str(&format!("      {line}\n")),
            }
        }
    }
    text
}

// Environment, store, pressure and traces.

fn store_finding(dir: &Path, checked: io::Result<()>) -> Finding {
    let finding = |level, detail, fix| Finding { level, what: "store", detail, fix };
    let dir = dir.display();
    match checked {
        Ok(()) => finding(Level::Ok, format!("output beyond memory goes to {dir}"), None),
        Err(error) => {
            let fix = "set server.data_dir to a directory that can be written".to_owned();
            let detail = format!("output beyond memory cannot be kept in {dir} ({error})");
            finding(Level::Fail, detail, Some(fix))
        }
    }
}

fn environment_finding(environment: &JobEnvironment) -> Finding {
    let mut detail = format!("jobs get {}", kept(environment).join(" "));
    for DroppedVariable { name, why } in &environment.dropped {
        detail.push_str(&format!("\nleft out: {name} ({})", why.word()));
    }
    let fix = Some("to pass a variable on, name it in environment.pass".to_owned());
    Finding { level: Level::Ok, what: "environment", detail, fix }
}

fn kept(environment: &JobEnvironment) -> Vec<String> {
    environment.kept.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
}

fn traces_finding(collector: Option<&str>) -> Finding {
    const BUILD: &str = "build it with `cargo build --release --features otlp`";
    let finding = |level, detail: String, fix: Option<&str>| {
        let fix = fix.map(str::to_owned);
        Finding { level, what: "traces", detail, fix }
    };
    match (OTLP_BUILT_IN, collector) {
        (true, Some(collector)) => finding(Level::Ok, format!("spans go to {collector}"), None),
        (true, None) => {
            let fix = "to send spans to a collector, set trace.otlp_endpoint";
            finding(Level::Ok, "spans can be sent (OTLP), and are not".to_owned(), Some(fix))
        }
        (false, Some(collector)) => {
            let detail = format!("spans shall go to {collector}, and this program cannot send any");
            finding(Level::Fail, detail, Some(BUILD))
        }
        (false, None) => {
            let detail = "this program was built without the export of spans (OTLP)".to_owned();
            finding(Level::Ok, detail, Some(BUILD))
        }
    }
}

type Read = (HostResource, Result<u8, PressureError>);

fn pressure_finding(levels: Levels, read: &[Read]) -> Finding {
    let finding = |level, detail, fix| Finding { level, what: "pressure", detail, fix };
    let is_watched = |resource: HostResource| levels.of(resource).is_some();
    let unknown = read.iter().find_map(|(resource, read)| {
        let why = read.as_ref().err()?;
        (is_watched(*resource) || !levels.is_any()).then_some(*why)
    });
    if let Some(why) = unknown {
        let level = if levels.is_any() { Level::Warn } else { Level::Ok };
        let detail = format!("{why}; starts are not held back");
        let or_not = "or set pressure.cpu, pressure.memory and pressure.io to 0";
        return finding(level, detail, Some(format!("{}, {or_not}", why.fix())));
    }
    let now = read.iter().filter_map(|(resource, read)| Some((*resource, (*read).ok()?)));
    let held =
        HostResource::ALL.into_iter().filter_map(|resource| Some((resource, levels.of(resource)?)));
    let now = percents(now);
    let held = percents(held);
    if held.is_empty() {
        let fix = "to hold starts back under pressure, set pressure.memory or pressure.io";
        finding(Level::Ok, format!("{now}; starts are never held back"), Some(fix.to_owned()))
    } else {
        finding(Level::Ok, format!("{now}; held at {held}"), None)
    }
}

/// `cpu 3 %, memory 0 %`
fn percents(figures: impl Iterator<Item = (HostResource, u8)>) -> String {
    let one = |(resource, percent): (HostResource, u8)| format!("{} {percent} %", resource.word());
    figures.map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::as_text;
    use super::*;

    const LEVELS: Levels = Levels { cpu: None, memory: Some(30), io: Some(60) };

    fn known(cpu: u8, memory: u8, io: u8) -> [Read; 3] {
        [
            (HostResource::Cpu, Ok(cpu)),
            (HostResource::Memory, Ok(memory)),
            (HostResource::Io, Ok(io)),
        ]
    }

    #[track_caller]
    fn check(levels: Levels, read: &[Read], expected: &str) {
        assert_eq!(as_text(&[pressure_finding(levels, read)]), expected);
    }

    #[test]
    fn pressure_is_told_beside_its_levels() {
        check(
            LEVELS,
            &known(3, 0, 1),
            "ok    pressure: cpu 3 %, memory 0 %, io 1 %; held at memory 30 %, io 60 %\n",
        );
        check(
            Levels::default(),
            &known(3, 0, 1),
            "ok    pressure: cpu 3 %, memory 0 %, io 1 %; starts are never held back\n      \
             to hold starts back under pressure, set pressure.memory or pressure.io\n",
        );
    }

    #[test]
    fn whether_spans_can_be_sent_is_told() {
        let [unset, set] = [None, Some("http://c:4318")].map(traces_finding);
        let told = as_text(&[unset]);
        assert!(told.starts_with("ok    traces: ") && told.contains("(OTLP)"), "{told}");
        let level = if OTLP_BUILT_IN { Level::Ok } else { Level::Fail };
        assert_eq!(set.level, level, "{set:?}");
        assert_eq!(set.fix.is_some_and(|fix| fix.contains("--features otlp")), !OTLP_BUILT_IN);
    }

    #[test]
    fn a_store_that_cannot_be_written_fails() {
        let checked = |result| as_text(&[store_finding(Path::new("/data/spill"), result)]);
        assert_eq!(checked(Ok(())), "ok    store: output beyond memory goes to /data/spill\n");
        let told = checked(Err(io::ErrorKind::PermissionDenied.into()));
        assert!(told.starts_with("fail  store: output beyond memory cannot be kept"), "{told}");
        assert!(told.contains("\n      set server.data_dir "), "{told}");
    }

    #[test]
    fn a_kernel_that_does_not_tell_is_warned_of_where_it_matters() {
        let missing = HostResource::ALL.map(|resource| (resource, Err(PressureError::Missing)));
        let told = pressure_finding(LEVELS, &missing);
        assert_eq!(told.level, Level::Warn);
        assert!(told.detail.starts_with("this kernel ") && told.detail.ends_with("not held back"));
        assert!(told.fix.is_some_and(|fix| fix.starts_with("boot with psi=1")));
        assert_eq!(pressure_finding(Levels::default(), &missing).level, Level::Ok);
        let mut cpu_is_unknown = known(3, 0, 1);
        cpu_is_unknown[0].1 = Err(PressureError::Denied);
        check(
            LEVELS,
            &cpu_is_unknown,
            "ok    pressure: memory 0 %, io 1 %; held at memory 30 %, io 60 %\n",
        );
    }
}
