//! Environment, store, pressure and traces.

use std::io;
use std::path::Path;

use super::finding::{Finding, Level};
use crate::environment::{Cleaned, DroppedName};
use crate::process::load::PressureError;
use crate::telemetry::Resource;
use crate::telemetry::spans::OTLP_BUILT_IN;
use crate::yard::Levels;

pub(super) fn store_finding(dir: &Path, checked: io::Result<()>) -> Finding {
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

pub(super) fn environment_finding(environment: &Cleaned) -> Finding {
    let mut detail = format!("jobs get {}", kept(environment).join(" "));
    for DroppedName { name, why } in &environment.dropped {
        detail.push_str(&format!("\nleft out: {name} ({})", why.word()));
    }
    let fix = Some("to pass a variable on, name it in environment.pass".to_owned());
    Finding { level: Level::Ok, what: "environment", detail, fix }
}

pub(super) fn kept(environment: &Cleaned) -> Vec<String> {
    environment.kept.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
}

pub(super) fn traces_finding(collector: Option<&str>) -> Finding {
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

pub(super) type Read = (Resource, Result<u8, PressureError>);

pub(super) fn pressure_finding(levels: Levels, read: &[Read]) -> Finding {
    let finding = |level, detail, fix| Finding { level, what: "pressure", detail, fix };
    let is_watched = |resource: Resource| levels.of(resource).is_some();
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
        Resource::ALL.into_iter().filter_map(|resource| Some((resource, levels.of(resource)?)));
    let (now, held) = (percents(now), percents(held));
    if held.is_empty() {
        let fix = "to hold starts back under pressure, set pressure.memory or pressure.io";
        finding(Level::Ok, format!("{now}; starts are never held back"), Some(fix.to_owned()))
    } else {
        finding(Level::Ok, format!("{now}; held at {held}"), None)
    }
}

/// `cpu 3 %, memory 0 %`
fn percents(figures: impl Iterator<Item = (Resource, u8)>) -> String {
    let one = |(resource, percent): (Resource, u8)| format!("{} {percent} %", resource.word());
    figures.map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::finding::as_text;
    use super::*;

    const LEVELS: Levels = Levels { cpu: None, memory: Some(30), io: Some(60) };

    fn known(cpu: u8, memory: u8, io: u8) -> [Read; 3] {
        [(Resource::Cpu, Ok(cpu)), (Resource::Memory, Ok(memory)), (Resource::Io, Ok(io))]
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
        let missing = Resource::ALL.map(|resource| (resource, Err(PressureError::Missing)));
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
