//! Everything that bob does, aimed at what alice has.

use serde_json::{Value, json};
use shellyard::http::Route;

use super::alice::{Aims, COMMAND, KEY, REQUEST};
use super::world::initialize;
use crate::harness::{Request, TASKS, declaring};

/// The methods of HTTP.
pub(super) const HTTP_METHODS: [&str; 7] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// What bob calls tools with.
pub(super) fn calls(aims: &Aims) -> Vec<(&'static str, Value)> {
    let mut calls = about_jobs(aims);
    calls.extend(about_all_jobs());
    calls.extend(runs(aims));
    calls.extend(about_files(aims));
    calls
}

/// Tools that take a job, with each of hers.
fn about_jobs(aims: &Aims) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for job in aims.jobs() {
        let uri = format!("shellyard://jobs/{job}/output");
        calls.extend([
            ("read_output", json!({"job": job})),
            ("read_output", json!({"job": job, "view": "raw"})),
            ("read_output", json!({"job": job, "grep": "."})),
            ("read_output", json!({"job": job, "cursor": format!("bytes:0@{job}")})),
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
    calls.push(("wait_jobs", json!({"jobs": aims.jobs(), "mode": "all", "wait_s": 1})));
    calls.push(("stop_jobs", json!({"jobs": aims.jobs()})));
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

/// Tools that run, with her words.
fn runs(aims: &Aims) -> Vec<(&'static str, Value)> {
    let page = |cursor: &str| json!({"cmd": COMMAND, "page": {"cursor": cursor, "limit_lines": 2}});
    vec![
        // Before bob has run it himself: her run is none of his.
        ("shell_exec", page("bytes:6")),
        ("shell_exec", page(&aims.cursor)),
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
fn about_files(aims: &Aims) -> Vec<(&'static str, Value)> {
    let guessed = format!("mcp://tmp/exec-{}-{}.out", aims.finished, "0".repeat(32));
    vec![
        ("read_file_chunk", json!({"uri": aims.spilled})),
        ("read_file_chunk", json!({"uri": aims.spilled.replace(".out", ".err")})),
        ("read_file_chunk", json!({"uri": format!("{}.gz", aims.spilled)})),
        ("read_file_chunk", json!({"uri": aims.spilled, "cursor": aims.cursor})),
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

/// What bob asks for beside tools.
pub(super) fn requests(aims: &Aims) -> Vec<(&'static str, Value)> {
    let mut requests = vec![
        ("completion/complete", completion("job")),
        ("initialize", initialize()),
        ("ping", json!({})),
        ("prompts/get", json!({"name": "x"})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/list", json!({"cursor": format!("before:{}", aims.queued)})),
        ("resources/read", json!({"uri": aims.spilled})),
        ("resources/templates/list", json!({})),
        ("server/discover", json!({})),
        ("tasks/get", with_tasks(&aims.task)),
        ("tasks/get", with_tasks("1-8000-0")),
        ("tasks/update", with_answers(&aims.task)),
        ("tasks/cancel", with_tasks(&aims.task)),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "list_jobs"})),
        ("tools/call", json!({"name": "no_such_tool"})),
    ];
    for job in aims.jobs() {
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

/// Of a client that knows tasks.
fn with_tasks(task: &str) -> Value {
    declaring(json!({"extensions": {TASKS: {}}}), json!({"taskId": task}))
}

fn with_answers(task: &str) -> Value {
    let mut params = with_tasks(task);
    params["inputResponses"] = json!({"approval": {"action": "accept"}});
    params
}

/// What bob says and gets no answer to.
pub(super) fn notices() -> Vec<(&'static str, Value)> {
    vec![
        ("notifications/cancelled", json!({"requestId": REQUEST, "reason": "bob"})),
        ("notifications/cancelled", json!({"requestId": REQUEST.to_string()})),
    ]
}

/// What bob asks of a route with this method of HTTP, in every way that could lead to alice.
pub(super) fn http(route: Route, method: &'static str, aims: &Aims) -> Vec<Request> {
    let path = route.path("/mcp");
    let at = |path: &str| Request { method, ..Request::get(path) };
    match route {
        Route::Mcp => sessions(&at(&path), aims),
        Route::Job | Route::JobOutput => aims
            .jobs()
            .iter()
            .flat_map(|job| of_job(&at(&path.replace("{id}", &job.to_string()))))
            .collect(),
        Route::Jobs => ["", "?all=1", "?all=0", "?tenant=alice", "?tenant=nobody", "?state=queued"]
            .iter()
            .map(|query| at(&format!("{path}{query}")))
            .collect(),
        Route::QueuePause | Route::QueueResume => {
            ["", "{}", r#"{"lane":"build"}"#, r#"{"lane":"x"}"#]
                .iter()
                .map(|body| Request { body: body.as_bytes().to_vec(), ..at(&path) })
                .collect()
        }
        Route::Drain => ["", r#"{"exit":true}"#, r#"{"undo":true}"#]
            .iter()
            .map(|body| Request { body: body.as_bytes().to_vec(), ..at(&path) })
            .collect(),
        Route::LogLevel => ["", r#"{"filter":"trace"}"#]
            .iter()
            .map(|body| Request { body: body.as_bytes().to_vec(), ..at(&path) })
            .collect(),
        Route::ProtectedResource
        | Route::ProtectedResourceOfMcp
        | Route::Healthz
        | Route::Readyz
        | Route::Metrics
        | Route::Queue
        | Route::Reload => vec![at(&path), at(&format!("{path}?tenant=alice"))],
    }
}

/// Her session, and one that nobody has.
fn sessions(request: &Request, aims: &Aims) -> Vec<Request> {
    let message = json!({"jsonrpc": "2.0", "id": REQUEST, "method": "tools/list", "params": {}});
    let in_session = |session: &str| {
        let body = if request.method == "POST" { message.to_string() } else { String::new() };
        Request { body: body.into_bytes(), ..request.clone() }
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25")
            .header("Mcp-Session-Id", session)
    };
    vec![
        in_session(&aims.session),
        in_session("no-such-session"),
        in_session(&aims.session).header("Last-Event-ID", "0/0"),
    ]
}

/// One of her jobs, and parts of what it wrote.
fn of_job(request: &Request) -> Vec<Request> {
    let with =
        |query: &str| Request { path: format!("{}{query}", request.path), ..request.clone() };
    vec![
        with(""),
        with("?tenant=alice"),
        with("?tenant=nobody"),
        with("?stream=stderr"),
        with("").header("Range", "bytes=0-3"),
        with("").header("If-None-Match", "*"),
    ]
}
