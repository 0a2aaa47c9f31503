//! The fields of a job for callers outside MCP that replies of tools do not have: its times, its
//! directory, its limits and its processes.

use std::time::{Duration, UNIX_EPOCH};

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::reply::client_fields;
use super::snapshot::State;
use crate::outcome::signal_name;
use crate::service::{JobHandle, JobTimes, ProcessInfo};
use crate::spec::{JobSpec, NO_TIMEOUT, Priority, Stdin};
use crate::telemetry::audit::format_rfc3339;

/// Returns the fields that identify a job beside its number, and those of its request. `state` is the
/// one that the caller sees: the job may be further now, and its times must not contradict it.
pub(super) fn request_fields(job: &JobHandle, state: &State) -> JsonObject {
    let spec = job.spec();
    let mut fields = JsonObject::new();
    fields.insert("command".into(), spec.program.display().into());
    let texts = [("description", &spec.description), ("key", &spec.key)];
    for (name, text) in texts {
        fields.extend(text.as_deref().map(|text| (name.to_owned(), text.into())));
    }
    fields.insert("trace_id".into(), spec.trace.context.trace_id.to_string().into());
    fields.extend(client_fields(&spec.client));
    fields.insert("directory".into(), spec.cwd.to_string_lossy().into());
    fields.insert("terminal".into(), (spec.stdin == Stdin::Terminal).into());
    fields.insert("lane".into(), spec.lane.as_str().into());
    fields.insert("priority".into(), priority_word(spec.priority).into());
    fields.insert("limits".into(), limit_fields(spec));
    fields.extend(time_fields(times_in_state(job.status().times, state)));
    if let State::Running(_) | State::Stopping = state {
        fields.extend(job.leader_pid().map(|pid| ("pid".to_owned(), pid.into())));
    }
    if let State::Finished(ending) = state {
        let kill = ending.kill.map(|kill| signal_name(kill.last_signal()));
        fields.extend(kill.map(|signal| ("kill_signal".to_owned(), signal.into())));
    }
    fields
}

/// Returns the times up to a state that the job had a moment ago.
const fn times_in_state(times: JobTimes, state: &State) -> JobTimes {
    match state {
        State::Queued(_) => JobTimes { started_ms: None, finished_ms: None, ..times },
        State::Running(_) | State::Stopping => JobTimes { finished_ms: None, ..times },
        State::Finished(_) => times,
    }
}

fn priority_word(wanted: Priority) -> &'static str {
    let known = Priority::WORDS.iter().find(|(_, priority)| *priority == wanted);
    known.map_or("normal", |(word, _)| word)
}

/// Returns the times at which the job was accepted, started and finished, as far as it has come.
fn time_fields(times: JobTimes) -> impl Iterator<Item = (String, Value)> {
    let JobTimes { submitted_ms, started_ms, finished_ms } = times;
    let times = [
        ("submitted_at", Some(submitted_ms)),
        ("started_at", started_ms),
        ("finished_at", finished_ms),
    ];
    times.into_iter().filter_map(|(name, time)| Some((name.to_owned(), format_ms(time?).into())))
}

/// Formats milliseconds since 1970 as `2026-11-15T04:01:21.042Z`.
fn format_ms(time: u64) -> String {
    let moment = UNIX_EPOCH.checked_add(Duration::from_millis(time));
    format_rfc3339(moment.unwrap_or(UNIX_EPOCH))
}

/// Returns the limits of a job; one that does not exist is absent.
fn limit_fields(spec: &JobSpec) -> Value {
    let limits = spec.limits;
    let resources = spec.resources;
    let fields = [
        ("timeout_s", (limits.timeout < NO_TIMEOUT).then(|| json!(limits.timeout.as_secs_f64()))),
        ("grace_s", Some(json!(limits.grace.as_secs_f64()))),
        ("output_bytes", finite(limits.output_bytes)),
        ("output_lines", finite(limits.output_lines)),
        ("memory", resources.memory.map(Value::from)),
        ("cpu_s", resources.cpu.map(|time| json!(time.as_secs_f64()))),
        ("processes", resources.processes.map(Value::from)),
        ("open_files", resources.open_files.map(Value::from)),
        ("file_size", resources.file_size.map(Value::from)),
        ("nice", (resources.nice > 0).then(|| resources.nice.into())),
    ];
    let set = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(set.collect())
}

/// Returns a limit, unless it is the number that stands for none.
fn finite(limit: u64) -> Option<Value> {
    (limit < u64::MAX).then(|| limit.into())
}

/// Returns the living processes of a job, the leader first.
pub(super) fn process_fields(processes: Vec<ProcessInfo>) -> Value {
    let to_fields = |process: ProcessInfo| {
        json!({
            "pid": process.pid,
            "parent_pid": process.parent,
            "command": process.command,
            "cpu_ms": u64::try_from(process.cpu.as_millis()).unwrap_or(u64::MAX),
            "rss_bytes": process.rss_bytes,
        })
    };
    processes.into_iter().map(to_fields).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::spec;
    use crate::spec::RunLimits;

    #[test]
    fn a_limit_that_does_not_exist_is_absent() {
        let mut spec = spec("true");
        spec.limits = RunLimits {
            timeout: NO_TIMEOUT,
            grace: Duration::from_millis(500),
            output_bytes: 1000,
            output_lines: u64::MAX,
            large_bytes: 10,
        };
        spec.resources.cpu = Some(Duration::from_secs(60));
        let expected = json!({"grace_s": 0.5, "output_bytes": 1000, "cpu_s": 60.0});
        assert_eq!(limit_fields(&spec), expected);
    }

    #[test]
    fn times_are_there_as_far_as_the_job_has_come() {
        let queued =
            JobTimes { submitted_ms: 1_795_000_000_042, started_ms: None, finished_ms: None };
        let fields: Vec<_> = time_fields(queued).collect();
        assert_eq!(fields, [("submitted_at".to_owned(), json!("2026-11-18T11:06:40.042Z"))]);
        let all = JobTimes { started_ms: Some(1), finished_ms: Some(2), ..queued };
        let names: Vec<String> = time_fields(all).map(|(name, _)| name).collect();
        assert_eq!(names, ["submitted_at", "started_at", "finished_at"]);
        assert_eq!(times_in_state(all, &State::Queued(None)), queued);
        let running = times_in_state(all, &State::Running(None));
        assert_eq!((running.started_ms, running.finished_ms), (Some(1), None));
    }
}
