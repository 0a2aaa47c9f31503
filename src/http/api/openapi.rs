//! `/openapi.json`: the description of the API, built from the routes, their parameters, the fields of
//! their bodies and those of a job.

use axum::http::Uri;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::request::{ApiError, QueryParams, json_response};
use super::{event_stream, jobs, output};
use crate::http::Route;
use crate::mcp::job_request_schema;

/// One method of a route.
struct ApiOperation {
    method: &'static str,
    route: Route,
    summary: &'static str,
    /// The lowest role that may call it.
    role: &'static str,
    /// The names of its query parameters.
    params: &'static [&'static str],
    body: Option<Value>,
    response: ResponseBody,
}

/// The body of a successful response.
enum ResponseBody {
    /// The state of one job.
    Job,
    /// A list of jobs: `{"jobs": […]}`.
    JobList,
    /// A JSON object of another shape.
    Object,
    /// The bytes of the output.
    Output,
    Events,
}

const TENANT: &[&str] = &["tenant"];

/// Lists every operation of the API.
fn operations() -> Vec<ApiOperation> {
    let mut operations = job_operations();
    operations.append(&mut operator_operations());
    operations
}

/// Lists the operations about jobs, and about the server and its API.
fn job_operations() -> Vec<ApiOperation> {
    let read = |route, summary, params, response| ApiOperation {
        method: "get",
        route,
        summary,
        role: "read-only",
        params,
        body: None,
        response,
    };
    let act = |route, summary, params, body, response| ApiOperation {
        method: "post",
        route,
        summary,
        role: "run",
        params,
        body: Some(body),
        response,
    };
    vec![
        read(Route::Server, "Describe the server", &[], ResponseBody::Object),
        read(Route::OpenApi, "Describe this API", &[], ResponseBody::Object),
        read(Route::Jobs, "List jobs, newest first", &jobs::LIST_PARAMS, ResponseBody::JobList),
        act(Route::Jobs, "Submit a job", &[], submission_schema(), ResponseBody::Job),
        read(Route::Job, "Show a job, or wait for its end", &jobs::SHOW_PARAMS, ResponseBody::Job),
        read(
            Route::JobOutput,
            "Read the output of a job, or follow it",
            &output::PARAMS,
            ResponseBody::Output,
        ),
        read(
            Route::JobStream,
            "Follow the output and the states of a job as server-sent events",
            &event_stream::PARAMS,
            ResponseBody::Events,
        ),
        read(Route::JobDigest, "Show the facts of a job's output", TENANT, ResponseBody::Object),
        act(Route::JobStop, "Stop a job", TENANT, stop_schema(), ResponseBody::Job),
        act(Route::JobInput, "Type into a job", TENANT, input_schema(), ResponseBody::Object),
        act(
            Route::JobResize,
            "Change the size of a job's terminal",
            TENANT,
            resize_schema(),
            ResponseBody::Object,
        ),
    ]
}

/// Lists the operations of operators.
fn operator_operations() -> Vec<ApiOperation> {
    let operate = |method, route, summary, body| ApiOperation {
        method,
        route,
        summary,
        role: "admin",
        params: &[],
        body,
        response: ResponseBody::Object,
    };
    let lane = || Some(object_schema(&[("lane", "string", "One lane; all without it")]));
    vec![
        operate("get", Route::Queue, "Show the queue", None),
        operate("post", Route::QueuePause, "Start no more jobs", lane()),
        operate("post", Route::QueueResume, "Start jobs again", lane()),
        operate("post", Route::Drain, "Accept no more jobs", Some(drain_schema())),
        operate("post", Route::Reload, "Read the settings again", None),
        operate("get", Route::LogLevel, "Show the log filter", None),
        operate("put", Route::LogLevel, "Set the log filter", Some(log_level_schema())),
        operate("get", Route::Upgrade, "Show the generation of the server", None),
        operate("post", Route::Upgrade, "Replace the server", Some(upgrade_schema())),
    ]
}

/// The schema of a submission. Schemas of tools say `nullable`, which OpenAPI 3.1 does not know.
fn submission_schema() -> Value {
    let mut schema = job_request_schema();
    for property in schema["properties"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        let Some(property) = property.as_object_mut() else { continue };
        if property.remove("nullable") != Some(Value::Bool(true)) {
            continue;
        }
        if let Some(kind) = property.get_mut("type") {
            *kind = json!([kind.take(), "null"]);
        }
        if let Some(Value::Array(values)) = property.get_mut("enum") {
            values.push(Value::Null);
        }
    }
    schema
}

fn stop_schema() -> Value {
    let mut schema = object_schema(&[("grace_s", "number", "Seconds from the signal to SIGKILL")]);
    schema["properties"]["signal"] = json!({
        "type": ["string", "integer"],
        "description": "First signal, such as SIGINT, TERM or 9; SIGTERM without it",
    });
    schema
}

fn input_schema() -> Value {
    object_schema(&[
        ("text", "string", "Text to type"),
        ("base64", "string", "Bytes to type, instead of text"),
        ("end", "boolean", "End the input afterwards"),
    ])
}

fn resize_schema() -> Value {
    object_schema(&[
        ("rows", "integer", "Height, from 1 to 10000"),
        ("columns", "integer", "Width, from 1 to 10000"),
    ])
}

fn drain_schema() -> Value {
    object_schema(&[
        ("undo", "boolean", "Accept new jobs again"),
        ("exit", "boolean", "Exit once no job is queued or running"),
    ])
}

fn log_level_schema() -> Value {
    object_schema(&[
        ("filter", "string", "New filter; the configured one without it"),
        ("for_s", "number", "Seconds after which the configured filter returns"),
    ])
}

fn upgrade_schema() -> Value {
    object_schema(&[("program", "string", "Path of the new program")])
}

fn object_schema(fields: &[(&str, &str, &str)]) -> Value {
    json!({"type": "object", "properties": properties(fields), "additionalProperties": false})
}

/// Returns the properties of a schema from name, type and meaning of each.
fn properties(fields: &[(&str, &str, &str)]) -> Map<String, Value> {
    let property = |(name, kind, about): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({"type": kind, "description": about}))
    };
    fields.iter().map(property).collect()
}

/// Answers with the description.
pub(in crate::http) async fn describe_api(uri: Uri) -> Result<Response, ApiError> {
    QueryParams::parse(uri.query(), &[])?;
    Ok(json_response(&build_document()))
}

fn build_document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations() {
        let path = operation.route.path("/mcp");
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[operation.method] = operation.to_json();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Shellyard",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Shell commands as jobs: what they are, what they write, and how to stop them.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Job": job_schema(), "Error": error_schema()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        // Over a unix socket, and on a server without tokens, none is needed.
        "security": [{"token": []}, {}],
    })
}

fn error_schema() -> Value {
    let texts = json!({
        "code": {"type": "string", "description": "Stable word"},
        "message": {"type": "string", "description": "What happened, why, and what to do next"},
    });
    let error = json!({"type": "object", "required": ["code", "message"], "properties": texts});
    json!({"type": "object", "required": ["error"], "properties": {"error": error}})
}

impl ApiOperation {
    fn to_json(&self) -> Value {
        let mut parameters = self.describe_params();
        if self.route.path("").contains("{id}") {
            let schema = json!({"type": "integer", "minimum": 1});
            parameters
                .push(json!({"name": "id", "in": "path", "required": true, "schema": schema}));
        }
        let error = json!({"description": "Error", "content": {"application/json":
            {"schema": {"$ref": "#/components/schemas/Error"}}}});
        for (name, about) in self.header_params() {
            let schema = json!({"type": "string"});
            parameters.push(
                json!({"name": name, "in": "header", "schema": schema, "description": about}),
            );
        }
        let (status, content) = self.describe_success();
        let mut success = json!({"description": "Success", "content": content});
        let mut responses = self.describe_other_responses(&success, &error);
        match self.response {
            ResponseBody::Output => success["headers"] = describe_output_headers(),
            ResponseBody::Events => success["description"] = EVENTS.into(),
            ResponseBody::Job | ResponseBody::JobList | ResponseBody::Object => {}
        }
        responses.insert(status.to_owned(), success);
        responses.insert("default".to_owned(), error);
        let mut operation = json!({
            "operationId": self.id(),
            "summary": self.summary,
            "description": format!("Needs the role {}.", self.role),
            "parameters": parameters,
            "responses": responses,
        });
        if let Some(body) = &self.body {
            operation["requestBody"] = json!({"content": {"application/json": {"schema": body}}});
        }
        operation
    }

    fn describe_params(&self) -> Vec<Value> {
        let mut parameters: Vec<Value> = self.params.iter().copied().map(describe_param).collect();
        let follows = match self.response {
            ResponseBody::Events => "1",
            ResponseBody::Output
            | ResponseBody::Job
            | ResponseBody::JobList
            | ResponseBody::Object => "0",
        };
        for parameter in parameters.iter_mut().filter(|parameter| parameter["name"] == "follow") {
            parameter["schema"]["default"] = follows.into();
        }
        parameters
    }

    /// A unique name, such as `get_jobs_id_output`.
    fn id(&self) -> String {
        let path = self.route.path("").replace("/api/v1", "");
        let words = path.replace(['/', '-', '.'], "_").replace(['{', '}'], "");
        format!("{}{words}", self.method)
    }

    /// The headers that the operation reads beside the usual ones: name and meaning.
    const fn header_params(&self) -> &'static [(&'static str, &'static str)] {
        match self.response {
            ResponseBody::Output => &[
                ("Range", "A range of positions, such as bytes=0-99; not with from, tail or since"),
                ("If-None-Match", "The ETag of a known copy"),
            ],
            ResponseBody::Events => &[(
                "Last-Event-ID",
                "The id of the last event that was seen: the stream goes on after it",
            )],
            ResponseBody::Job | ResponseBody::JobList | ResponseBody::Object => &[],
        }
    }

    /// Returns the responses beside the usual success and the usual error, by status.
    fn describe_other_responses(&self, success: &Value, error: &Value) -> Map<String, Value> {
        let describe = |response: &Value, about: &str| {
            let mut response = response.clone();
            response["description"] = about.into();
            response
        };
        let gone = "The job was freed, or the position of `from` or Range was not kept";
        let responses = match self.response {
            ResponseBody::Output => {
                let mut part = describe(success, "The requested range, up to its first hole");
                part["headers"] = describe_output_headers();
                vec![
                    ("206", part),
                    ("304", json!({"description": "The known copy is up to date"})),
                    ("410", describe(error, gone)),
                    ("416", describe(error, "The position is after the end of the output")),
                ]
            }
            ResponseBody::Events => vec![
                (
                    "204",
                    json!({"description": "Last-Event-ID is that of `end`, and there is no more to send: do not reconnect"}),
                ),
                ("410", describe(error, "The job was freed")),
                ("416", describe(error, "The position is after the end of the output")),
            ],
            ResponseBody::Job | ResponseBody::JobList | ResponseBody::Object => Vec::new(),
        };
        responses.into_iter().map(|(status, response)| (status.to_owned(), response)).collect()
    }

    fn describe_success(&self) -> (&'static str, Value) {
        let job = json!({"$ref": "#/components/schemas/Job"});
        let json_of = |schema: Value| json!({"application/json": {"schema": schema}});
        let binary = json!({"schema": {"type": "string", "format": "binary"}});
        match self.response {
            ResponseBody::Job if self.route == Route::Jobs => ("202", json_of(job)),
            ResponseBody::Job => ("200", json_of(job)),
            ResponseBody::JobList => {
                let jobs = json!({"type": "array", "items": job});
                ("200", json_of(json!({"type": "object", "properties": {"jobs": jobs}})))
            }
            ResponseBody::Object => ("200", json_of(json!({"type": "object"}))),
            ResponseBody::Output => {
                ("200", json!({"text/plain": binary, "application/octet-stream": binary}))
            }
            ResponseBody::Events => {
                ("200", json!({"text/event-stream": {"schema": {"type": "string"}}}))
            }
        }
    }
}

/// The description of a stream of events.
const EVENTS: &str = "Server-sent events: `state`, `output`, `gap` (a hole, or bytes that were lost before they got positions), and `end`. If the output cannot be read, `error` with `code` and `message` is the last event. Ids are opaque.";

/// Describes the headers of a response with output.
fn describe_output_headers() -> Value {
    let header = |kind: &str, about: &str| json!({"schema": {"type": kind}, "description": about});
    json!({
        "X-Shellyard-Start": header("integer", "Position of the first byte, with from, tail, since or follow"),
        "X-Shellyard-Holes": header(
            "string",
            "Positions without bytes: first-after:why, separated by commas; why is truncated or cut",
        ),
        "X-Shellyard-Dropped-Bytes": header("integer", "Output that could not be kept and has no positions"),
    })
}

fn describe_param(name: &str) -> Value {
    let integer = json!({"type": "integer", "minimum": 0});
    let flag = json!({"type": "string", "enum": ["0", "1"]});
    let (schema, about) = match name {
        "tenant" => {
            (json!({"type": "string"}), "Another tenant; needs the role admin, and is audited")
        }
        "all" => {
            (flag, "1: the jobs of all tenants; needs the role admin; not together with tenant")
        }
        "job" => (json!({"type": "integer", "minimum": 1}), "Only jobs with this number"),
        "limit" => (json!({"type": "integer", "minimum": 1, "maximum": 200}), "Jobs at most"),
        "state" => (
            json!({"type": "string", "enum": ["queued", "running", "stopping", "finished", "all"]}),
            "Only jobs in this state",
        ),
        "wait_s" => (
            json!({"type": "integer", "minimum": 0, "maximum": 60}),
            "Seconds to wait for the end of the job",
        ),
        "stream" => (json!({"type": "string", "enum": ["stdout", "stderr"]}), "Only this stream"),
        "download" => (flag, "1: as a file"),
        "follow" => (flag, "1: until the output is complete; 0: the output that is there now"),
        "from" | "cursor" => (integer, "Position of the first byte"),
        "tail" => (integer, "Start at the last lines; with since, at the last lines since then"),
        "since" => (json!({"type": "string"}), "Start at a time (RFC 3339), or seconds ago"),
        _ => (json!({"type": "string"}), ""),
    };
    json!({"name": name, "in": "query", "schema": schema, "description": about})
}

/// The fields of a job: name, type and meaning. A field that does not apply is absent.
const JOB_FIELDS: &[(&str, &str, &str)] = &[
    ("background_pids", "array", "Processes that outlived the job; empty if they cannot be read"),
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
    ("dropped_at_most", "boolean", "Fewer bytes may be missing: the server crashed"),
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
    ("set_aside", "array", "Protected files that appeared while the job ran and were renamed"),
    (
        "refused_programs",
        "array",
        "Programs that the allow list kept from starting while the job ran",
    ),
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

fn job_schema() -> Value {
    let required = ["job", "state", "command"];
    json!({"type": "object", "required": required, "properties": properties(JOB_FIELDS)})
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::super::jobs::{InputArgs, ResizeArgs, StopArgs};
    use super::super::operator::{DrainArgs, LaneArgs, LogLevelArgs, UpgradeArgs};
    use super::super::request::parse_body;
    use super::*;

    #[test]
    fn every_route_of_the_api_is_described_and_no_other() {
        let described: Vec<String> = operations().iter().map(|it| it.route.path("/mcp")).collect();
        for route in Route::ALL {
            let path = route.path("/mcp");
            assert_eq!(described.contains(&path), path.starts_with("/api/"), "{path}");
        }
        let document = build_document();
        let methods: usize = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .map(|methods| methods.as_object().unwrap().len())
            .sum();
        assert_eq!(methods, operations().len(), "each operation once");
        let mut ids: Vec<String> = operations().iter().map(ApiOperation::id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), operations().len());
    }

    /// Every key of the document, at any depth.
    fn list_keys(value: &Value, keys: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                keys.extend(fields.keys().cloned());
                fields.values().for_each(|value| list_keys(value, keys));
            }
            Value::Array(values) => values.iter().for_each(|value| list_keys(value, keys)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn optional_fields_may_be_null_in_the_words_of_openapi_3_1() {
        let mut keys = Vec::new();
        list_keys(&build_document(), &mut keys);
        assert!(!keys.contains(&"nullable".to_owned()));
        let submission = submission_schema();
        assert_eq!(submission["properties"]["description"]["type"], json!(["string", "null"]));
        let priorities = &submission["properties"]["priority"];
        assert!(priorities["enum"].as_array().unwrap().contains(&Value::Null), "{priorities}");
    }

    #[test]
    fn the_default_of_following_is_that_of_the_route() {
        let document = build_document();
        for (path, default) in [("output", "0"), ("stream", "1")] {
            let parameters = &document["paths"][format!("/api/v1/jobs/{{id}}/{path}")]["get"];
            let parameters = parameters["parameters"].as_array().unwrap();
            let follow = parameters.iter().find(|it| it["name"] == "follow").unwrap();
            assert_eq!(follow["schema"]["default"], default, "{path}");
        }
    }

    #[test]
    fn every_parameter_is_explained() {
        for operation in operations() {
            for name in operation.params {
                assert_ne!(describe_param(name)["description"], "", "{name}");
            }
        }
    }

    /// Checks that a body accepts exactly the fields of its schema.
    #[track_caller]
    fn check_body<T: DeserializeOwned + Default>(schema: &Value) {
        let error =
            parse_body::<T>(br#"{"no such field": 1}"#).map(|_| ()).unwrap_err().to_string();
        let (_, expected) = error.split_once("expected").unwrap();
        let mut accepted: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let mut described: Vec<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        accepted.sort_unstable();
        described.sort_unstable();
        assert_eq!(accepted, described);
    }

    #[test]
    fn bodies_accept_the_fields_that_are_described() {
        check_body::<StopArgs>(&stop_schema());
        check_body::<InputArgs>(&input_schema());
        check_body::<ResizeArgs>(&resize_schema());
        check_body::<DrainArgs>(&drain_schema());
        check_body::<LogLevelArgs>(&log_level_schema());
        check_body::<UpgradeArgs>(&upgrade_schema());
        let lane = operations().into_iter().find(|it| it.route == Route::QueuePause);
        check_body::<LaneArgs>(&lane.unwrap().body.unwrap());
    }
}
