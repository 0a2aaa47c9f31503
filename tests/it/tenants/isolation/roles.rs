//! The rights of each role, by tool and by route.

use std::fs;

use serde_json::{Value, json};
use shellyard::http::Route;

use super::world::{TenantServer, TenantSession};
use crate::harness::{HttpRequest, Launch};
use crate::tenants::issuer::{AUDIENCE, Issuer, SigningKey};
use crate::tenants::{ask, call};

/// The tools that look at jobs and change nothing, and what to look at in the world of these tests.
fn reading() -> Vec<(&'static str, Value)> {
    vec![
        ("wait_jobs", json!({"jobs": [1]})),
        ("read_output", json!({"job": 1})),
        ("list_jobs", json!({})),
        ("read_shell_output", json!({"job": 1})),
        ("read_file_chunk", json!({"uri": ""})),
    ]
}

/// The routes for operators alone, with the method that they take.
const OPERATORS: [(Route, &str); 8] = [
    (Route::Metrics, "GET"),
    (Route::Queue, "GET"),
    (Route::QueuePause, "POST"),
    (Route::QueueResume, "POST"),
    (Route::Drain, "POST"),
    (Route::Reload, "POST"),
    (Route::LogLevel, "GET"),
    (Route::LogLevel, "PUT"),
];

#[track_caller]
fn tools(client: &mut TenantSession) -> Vec<String> {
    let listed = client.rpc("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("a list").clone();
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_read_only_token_reads_and_changes_nothing() {
    let mut world = TenantServer::new();
    let mut runner = world.client("bob");
    runner.call("run_command", json!({"command": "echo hi > note; cat note"})).ok();
    let spilled =
        runner.call("shell_exec", json!({"cmd": "echo hi", "on_large_output": "spill"})).ok();
    let token = world.token("bob", "read-only");
    let mut reader = TenantSession::open(&world.address(), &token);
    let reading = reading();
    let names: Vec<&str> = reading.iter().map(|(tool, _)| *tool).collect();
    assert_eq!(tools(&mut reader), names);
    for (tool, mut arguments) in reading {
        if tool == "read_file_chunk" {
            arguments["uri"] = spilled["spill_uri"].clone();
        }
        reader.call(tool, arguments).ok();
    }
    let changing: Vec<_> =
        tools(&mut runner).into_iter().filter(|tool| !names.contains(&tool.as_str())).collect();
    assert_eq!(changing.len(), 11, "{changing:?}");
    for tool in changing {
        let wish = json!({"command": "touch broke-in", "cmd": "touch broke-in", "path": "broke-in", "content": ""});
        let refused = reader.call(&tool, wish);
        let words = format!(
            "this token may only look at jobs (role read-only); {tool} needs one with the role run"
        );
        assert!(refused.error_text().contains(&words), "{}", refused.0);
        let code = &refused.0["result"]["structuredContent"]["error_code"];
        assert!(code.is_null() || code == "forbidden", "{}", refused.0);
    }
    let (path, note) = (json!({"path": "note"}), "hi\n");
    assert_eq!(fs::read_to_string(world.server.work().join("note")).expect("a file"), note);
    for (tool, arguments) in [("read_file", path), ("list_directory", json!({}))] {
        let shown = runner.call(tool, arguments.clone()).ok();
        assert!(shown.0.to_string().contains("hi") || shown.0.to_string().contains("note"));
        let refused = reader.call(tool, arguments);
        assert!(refused.error_text().contains("(role read-only)"), "{}", refused.0);
        assert!(!refused.0.to_string().contains("note"), "{}", refused.0);
    }
    assert!(!world.server.work().join("broke-in").exists());
    assert_eq!(runner.jobs("all").len(), 2);
}

#[test]
fn a_read_scope_reads_and_changes_nothing() {
    let key = SigningKey::ec("a");
    let issuer = Issuer::with_keys(&[key.public()]);
    let config = format!("[oauth]\nissuer = \"{}\"\nresource = \"{AUDIENCE}\"\n", issuer.url());
    let dialects = ["--dialect", super::world::DIALECTS];
    let mut server = Launch::http().args(&dialects).config(&config).start_silent();
    let [run, read] =
        ["run", "read"].map(|it| key.token(&issuer.claims(&format!("shellyard:{it}"))));
    let listed = |server: &mut _, token: &str| {
        let said = ask(server, crate::tenants::tools_list(), Some(token));
        let answer: Value = serde_json::from_str(&said.text).expect("JSON");
        let tools = answer["result"]["tools"].as_array().expect("a list").clone();
        tools
            .iter()
            .map(|tool| tool["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    let readable = listed(&mut server, &read);
    assert_eq!(readable, reading().iter().map(|(tool, _)| *tool).collect::<Vec<_>>());
    for tool in listed(&mut server, &run) {
        let status = ask(&mut server, call(&tool, json!({})), Some(&read)).status;
        assert_eq!(status, if readable.contains(&tool) { 200 } else { 403 }, "{tool}");
    }
}

#[test]
fn a_metrics_token_reads_metrics_and_nothing_else() {
    let mut world = TenantServer::new();
    let mut runner = world.client("bob");
    runner.call("run_command", json!({"command": "echo secret-word"})).ok();
    let token = world.token("bob", "metrics");
    for route in Route::ALL {
        let path = route.path("/mcp").replace("{id}", "1");
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let request = HttpRequest { method, ..HttpRequest::get(&path) };
            let (status, text) = world.ask(request, &token);
            match (route, method) {
                (Route::Metrics | Route::Healthz | Route::Readyz, "GET") => {
                    assert_eq!(status, 200, "{route:?}: {text}");
                }
                (Route::Metrics | Route::Healthz | Route::Readyz, _) => {
                    assert_eq!(status, 405, "{method} {route:?}: {text}");
                }
                // Public, and 404 without OAuth.
                (Route::ProtectedResource | Route::ProtectedResourceOfMcp, _) => {}
                _ => {
                    assert_eq!(status, 403, "{method} {route:?}: {text}");
                    assert!(text.contains("a token with the role read-only"), "{text}");
                    let is_api = path.starts_with("/api/");
                    assert_eq!(text.contains(r#""code":"forbidden""#), is_api, "{path}: {text}");
                }
            }
            assert!(!text.contains("secret-word"), "{route:?}: {text}");
        }
    }
    let (status, _) = world.ask(HttpRequest::get("/api/v1/nothing"), &token);
    assert_eq!(status, 403, "an unknown path tells nothing either");
    let refused = world.ask(call("list_jobs", json!({})), &token);
    assert!(refused.0 == 403 && !refused.1.contains("secret-word"), "{refused:?}");
}

#[test]
fn routes_about_all_tenants_need_the_role_admin() {
    let mut world = TenantServer::new();
    let tokens = ["run", "read-only"].map(|role| world.token("bob", role));
    let mut before = Vec::new();
    for (route, method) in OPERATORS {
        let request = HttpRequest { method, ..HttpRequest::get(&route.path("/mcp")) };
        for token in &tokens {
            let (status, text) = world.ask(request.clone(), token);
            assert_eq!(status, 403, "{route:?}: {text}");
            before.push(text);
        }
    }
    let mut alice = world.client("alice");
    alice.call("run_command", json!({"command": "true"})).ok();
    let mut after = Vec::new();
    for (route, method) in OPERATORS {
        let request = HttpRequest { method, ..HttpRequest::get(&route.path("/mcp")) };
        for token in &tokens {
            after.push(world.ask(request.clone(), token).1);
        }
    }
    assert_eq!(before, after, "with alice, and without");
    for tenant in ["alice", "nobody", "bob"] {
        for path in ["jobs", "jobs/1", "jobs/1/output"] {
            let request = HttpRequest::get(&format!("/api/v1/{path}?tenant={tenant}"));
            let (status, text) = world.ask(request, &tokens[0]);
            assert!(status == 403 && text.contains("forbidden"), "{path} {tenant}: {text}");
        }
    }
    let admin = world.token("ops", "admin");
    let (status, text) = world.ask(HttpRequest::get("/api/v1/jobs?tenant=alice"), &admin);
    assert!(status == 200 && text.contains("\"job\":1"), "{text}");
}
