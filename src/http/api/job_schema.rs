//! The schema of a job in the description of the API.

use serde_json::{Map, Value, json};

/// The fields of a job: name, type and meaning. A field that does not apply is absent.
const FIELDS: &[(&str, &str, &str)] = &[
    ("background_pids", "array", "Processes that outlived the job"),
    ("bytes_end", "integer", "End of the shown output: none is shown here"),
    ("bytes_start", "integer", "Start of the shown output"),
    ("client", "string", "Program that submitted the job"),
    ("client_directory", "string", "Directory in which that program was started"),
    ("client_version", "string", "Version of that program"),
    ("command", "string", "Shell text, or program and arguments"),
    ("confinement", "object", "Sandbox of the job"),
    ("cpu_ms", "integer", "CPU time so far, or in all"),
    ("description", "string", "The submitter's description"),
    ("directory", "string", "Working directory"),
    ("dropped_bytes", "integer", "Output that could not be kept"),
    ("dropped_why", "string", "Why output was not kept"),
    ("elapsed_ms", "integer", "Run time so far, or in all"),
    ("end", "string", "more, caught_up or complete: what a reader at the start would find"),
    ("error", "string", "Why the job did not start, or was lost"),
    ("error_code", "string", "Stable word for that"),
    ("estimated_start_ms", "integer", "Estimated wait for the start"),
    ("exit_code", "integer", "Exit code of the first process"),
    ("finished_at", "string", "Time of the end, RFC 3339 in UTC"),
    ("held_by", "array", "Own jobs that hold the slots that this one waits for"),
    ("held_by_others", "integer", "Further such jobs"),
    ("job", "integer", "Number of the job, unique within its tenant"),
    ("key", "string", "Idempotency key of the request"),
    ("kill_signal", "string", "Last signal that the server sent to end the process tree"),
    ("killed", "string", "How the process tree was ended"),
    ("lane", "string", "Queue lane"),
    ("last_output_ms_ago", "integer", "Time since the last output"),
    ("limit", "string", "Limit that ended the job"),
    (
        "limits",
        "object",
        "timeout_s, grace_s, output_bytes, output_lines, memory, cpu_s, processes, open_files, file_size, nice",
    ),
    ("lines", "integer", "Lines of output"),
    ("max_rss_bytes", "integer", "Largest resident memory of a process"),
    ("next_cursor", "string", "Cursor for read_output of MCP"),
    ("not_run", "boolean", "The job was ended before it had a process"),
    ("outcome", "string", "exited, signaled, timed_out, stopped, limit, failed_to_start or lost"),
    ("peak_memory_bytes", "integer", "Largest memory of all processes together"),
    ("pid", "integer", "First process, while the job runs"),
    ("pipeline_exit_codes", "array", "Exit codes of the last pipeline"),
    ("priority", "string", "low, normal or high"),
    ("processes", "array", "Living processes of a running job, the first one first; not in lists"),
    ("prompt", "string", "Line at which the job waits for input"),
    ("queue_length", "integer", "Waiting jobs"),
    ("queue_position", "integer", "Place among them"),
    ("queued_ms", "integer", "Wait for the start"),
    ("removed_bytes", "integer", "Output that was removed again"),
    ("signal", "string", "Signal that ended the first process"),
    ("started_at", "string", "Time of the start, RFC 3339 in UTC"),
    ("state", "string", "queued, running, stopping or finished"),
    ("stopped_by", "string", "client, operator, cancel, shutdown or no_slot"),
    ("submitted_at", "string", "Time at which the job was accepted, RFC 3339 in UTC"),
    ("tenant", "string", "Tenant, in lists of all tenants"),
    ("terminal", "boolean", "The job runs in a terminal"),
    ("total_bytes", "integer", "Bytes of output"),
    ("trace_id", "string", "Trace of the request"),
    ("uri", "string", "Address of the output as an MCP resource"),
    ("waiting_for_input", "boolean", "A process waits for input"),
    ("waits_for", "string", "What the job waits for in the queue"),
];

/// Returns the schema of a job.
pub(super) fn job_schema() -> Value {
    let property = |(name, kind, about): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({"type": kind, "description": about}))
    };
    let properties: Map<String, Value> = FIELDS.iter().map(property).collect();
    json!({"type": "object", "required": ["job", "state", "command"], "properties": properties})
}
