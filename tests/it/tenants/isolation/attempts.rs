//! Everything that bob tries against alice.

use serde_json::{Value, json};
use shellyard::http::Route;

use super::alice::{AttackTargets, COMMAND, KEY, REQUEST};
use super::world::initialize;
use crate::harness::{HttpRequest, TASKS, declaring};

pub(super) const HTTP_METHODS: [&str; 7] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The tool calls of bob.
pub(super) fn calls(targets: &AttackTargets) -> Vec<(&'static str, Value)> {
    let mut calls = about_jobs(targets);
    calls.extend(about_all_jobs());
    calls.extend(runs(targets));
    calls.extend(about_files(targets));
    calls
}

/// Tools that take a job, with each of hers.
fn about_jobs(targets: &AttackTargets) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for job in targets.jobs() {
        let uri = format!("shellyard://jobs/{job}/output");
        calls.extend([
            ("read_output", json!({"job": job})),
            ("read_output", json!({"job": job, "view": "raw"})),
            ("read_output", json!({"job": job, "grep": "."})),
            ("read_output", json!({"job": job, "cursor": format!("bytes:0@{job}")})),
            ("read_shell_output", json!({"job": job})),
            ("read_output", json!({"uri": uri})),
            ("read_output", json!({"uri": format!("{uri}/stderr")})),
            ("wait_jobs", json!({"jobs": [job], "wait_s": 1})),
            ("wait_jobs", json!({"jobs": [job], "until": ".", "wait_s": 1})),
            ("send_input", json!({"job": job, "text": "from bob\n"})),
            ("send_input", json!({"job": job, "key": "ctrl-c"})),
            ("send_input", json!({"job": job, "eof": true})),
            ("stop_jobs", json!({"jobs": [job], "signal": "KILL", "grace_s": 0})),
        ]);
    }
    calls.push(("wait_jobs", json!({"jobs": targets.jobs(), "mode": "all", "wait_s": 1})));
    calls.push(("stop_jobs", json!({"jobs": targets.jobs()})));
    calls
}

/// Tools that look at all jobs.
fn about_all_jobs() -> Vec<(&'static str, Value)> {
    let states = ["queued", "running", "stopping", "finished", "all"];
    let mut calls: Vec<_> =
        states.iter().map(|state| ("list_jobs", json!({"state": state, "limit": 200}))).collect();
    calls.extend([
        ("list_jobs", json!({})),
        ("list_jobs", json!({"text": COMMAND})),
        ("list_jobs", json!({"grep": "okka"})),
        ("read_output", json!({"grep": "okka"})),
    ]);
    calls
}

/// Tools that run commands, with her words.
fn runs(targets: &AttackTargets) -> Vec<(&'static str, Value)> {
    let page = |cursor: &str| json!({"cmd": COMMAND, "page": {"cursor": cursor, "limit_lines": 2}});
    vec![
        // Before bob has run the command himself: her run must not count.
        ("shell_exec", page("bytes:6")),
        ("shell_exec", page(&targets.cursor)),
        ("shell_exec", json!({"cmd": COMMAND, "page": {"limit_lines": 2}, "summary": true})),
        ("shell_exec", page("bytes:6")),
        ("run_command", json!({"command": "echo mine", "key": KEY, "description": KEY})),
        ("run_command", json!({"command": "echo mine", "key": KEY, "description": KEY})),
        ("run_command", json!({"command": "echo built", "lane": "build"})),
        ("run_command", json!({"command": "echo lost", "lane": "hers"})),
        ("run_command", json!({"command": "echo $WORD"})),
        ("execute", json!({"command": "echo", "args": ["mine"]})),
        ("shell", json!({"command": "echo mine"})),
        ("run_shell_command", json!({"command": "echo mine", "is_background": false})),
        ("execute_command", json!({"command": "echo mine"})),
        ("list_jobs", json!({"state": "finished"})),
        ("read_output", json!({"grep": "mine"})),
    ]
}

/// Tools that take a path or an address.
fn about_files(targets: &AttackTargets) -> Vec<(&'static str, Value)> {
    let guessed = format!("mcp://tmp/exec-{}-{}.out", targets.finished, "0".repeat(32));
    vec![
        ("read_file_chunk", json!({"uri": targets.spilled})),
        ("read_file_chunk", json!({"uri": targets.spilled.replace(".out", ".err")})),
        ("read_file_chunk", json!({"uri": format!("{}.gz", targets.spilled)})),
        ("read_file_chunk", json!({"uri": targets.spilled, "cursor": targets.cursor})),
        ("read_file_chunk", json!({"uri": guessed})),
        ("read_file", json!({"path": "../data/tokens"})),
        ("write_file", json!({"path": "of-bob", "content": "mine"})),
        ("read_file", json!({"path": "of-bob"})),
        ("list_directory", json!({})),
        ("list_directory", json!({"path": "../data"})),
    ]
}

/// All that an argument of a resource template can be.
fn completion(argument: &str) -> Value {
    let template = json!({"type": "ref/resource", "uri": "shellyard://jobs/{job}/output"});
    json!({"ref": template, "argument": {"name": argument, "value": ""}})
}

/// The MCP requests of bob besides tool calls.
pub(super) fn requests(targets: &AttackTargets) -> Vec<(&'static str, Value)> {
    let mut requests = vec![
        ("completion/complete", completion("job")),
        ("initialize", initialize()),
        ("ping", json!({})),
        ("prompts/get", json!({"name": "x"})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/list", json!({"cursor": format!("before:{}", targets.queued)})),
        ("resources/read", json!({"uri": targets.spilled})),
        ("resources/templates/list", json!({})),
        ("server/discover", json!({})),
        ("tasks/get", with_tasks(&targets.task)),
        ("tasks/get", with_tasks("1-8000-0")),
        ("tasks/update", with_answers(&targets.task)),
        ("tasks/cancel", with_tasks(&targets.task)),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "list_jobs"})),
        ("tools/call", json!({"name": "no_such_tool"})),
    ];
    for job in targets.jobs() {
        let uri = format!("shellyard://jobs/{job}/output");
        requests.extend([
            ("resources/read", json!({"uri": uri})),
            ("resources/read", json!({"uri": format!("{uri}/stdout?start=0&end=4")})),
            ("resources/subscribe", json!({"uri": uri})),
            ("resources/unsubscribe", json!({"uri": uri})),
            ("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [uri]}})),
        ]);
    }
    requests
}

/// Returns the params of a client that supports tasks.
fn with_tasks(task: &str) -> Value {
    declaring(json!({"extensions": {TASKS: {}}}), json!({"taskId": task}))
}

fn with_answers(task: &str) -> Value {
    let mut params = with_tasks(task);
    params["inputResponses"] = json!({"approval": {"action": "accept"}});
    params
}

/// The notifications of bob.
pub(super) fn notices() -> Vec<(&'static str, Value)> {
    vec![
        ("notifications/cancelled", json!({"requestId": REQUEST, "reason": "bob"})),
        ("notifications/cancelled", json!({"requestId": REQUEST.to_string()})),
    ]
}

/// The requests of bob to a route with this HTTP method, in every way that could lead to alice.
pub(super) fn http(
    route: Route,
    method: &'static str,
    targets: &AttackTargets,
) -> Vec<HttpRequest> {
    let path = route.path("/mcp");
    let at = |path: &str| HttpRequest { method, ..HttpRequest::get(path) };
    match route {
        Route::Mcp => sessions(&at(&path), targets),
        Route::Job | Route::JobOutput | Route::JobDigest | Route::JobStream => targets
            .jobs()
            .iter()
            .flat_map(|job| of_job(&at(&path.replace("{id}", &job.to_string()))))
            .collect(),
        Route::Jobs => ["", "?all=1", "?all=0", "?tenant=alice", "?tenant=nobody", "?state=queued"]
            .iter()
            .map(|query| at(&format!("{path}{query}")))
            .collect(),
        Route::JobStop => {
            with_bodies(&at, &path, targets, &["", r#"{"signal":"KILL","grace_s":0}"#])
        }
        Route::JobInput => {
            with_bodies(&at, &path, targets, &[r#"{"text":"from bob\n"}"#, r#"{"end":true}"#])
        }
        Route::JobResize => with_bodies(&at, &path, targets, &[r#"{"rows":7,"columns":7}"#]),
        Route::QueuePause | Route::QueueResume => {
            ["", "{}", r#"{"lane":"build"}"#, r#"{"lane":"x"}"#]
                .iter()
                .map(|body| HttpRequest { body: body.as_bytes().to_vec(), ..at(&path) })
                .collect()
        }
        Route::Drain => ["", r#"{"exit":true}"#, r#"{"undo":true}"#]
            .iter()
            .map(|body| HttpRequest { body: body.as_bytes().to_vec(), ..at(&path) })
            .collect(),
        Route::LogLevel => ["", r#"{"filter":"trace"}"#]
            .iter()
            .map(|body| HttpRequest { body: body.as_bytes().to_vec(), ..at(&path) })
            .collect(),
        Route::ProtectedResource
        | Route::ProtectedResourceOfMcp
        | Route::Healthz
        | Route::Readyz
        | Route::Metrics
        | Route::Server
        | Route::OpenApi
        | Route::Queue
        | Route::Reload
        | Route::Upgrade => vec![at(&path), at(&format!("{path}?tenant=alice"))],
    }
}

/// Each of her jobs with each of these bodies, as hers and as his own.
fn with_bodies(
    at: &impl Fn(&str) -> HttpRequest,
    path: &str,
    targets: &AttackTargets,
    bodies: &[&str],
) -> Vec<HttpRequest> {
    let mut requests = Vec::new();
    for job in targets.jobs() {
        let path = path.replace("{id}", &job.to_string());
        for body in bodies {
            for query in ["", "?tenant=alice", "?tenant=nobody"] {
                let body = body.as_bytes().to_vec();
                requests.push(HttpRequest { body, ..at(&format!("{path}{query}")) });
            }
        }
    }
    requests
}

/// Her session, and one that nobody has.
fn sessions(request: &HttpRequest, targets: &AttackTargets) -> Vec<HttpRequest> {
    let message = json!({"jsonrpc": "2.0", "id": REQUEST, "method": "tools/list", "params": {}});
    let in_session = |session: &str| {
        let body = if request.method == "POST" { message.to_string() } else { String::new() };
        HttpRequest { body: body.into_bytes(), ..request.clone() }
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25")
            .header("Mcp-Session-Id", session)
    };
    vec![
        in_session(&targets.session),
        in_session("no-such-session"),
        in_session(&targets.session).header("Last-Event-ID", "0/0"),
    ]
}

/// One of her jobs, and parts of what it wrote.
fn of_job(request: &HttpRequest) -> Vec<HttpRequest> {
    let with =
        |query: &str| HttpRequest { path: format!("{}{query}", request.path), ..request.clone() };
    vec![
        with(""),
        with("?tenant=alice"),
        with("?tenant=nobody"),
        with("?stream=stderr"),
        with("").header("Range", "bytes=0-3"),
        with("").header("If-None-Match", "*"),
    ]
}
