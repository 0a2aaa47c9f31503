//! MCP itself: every revision on both transports, the tool list, errors of the protocol.

use serde_json::{Value, json};

use crate::harness::{ERAS, Era, Launch, TestServer, eventually};

const TOOLS: [&str; 6] =
    ["run_command", "wait_jobs", "read_output", "list_jobs", "send_input", "stop_jobs"];

#[test]
fn every_revision_works_on_both_transports() {
    for era in ERAS {
        for launch in Launch::both() {
            let mut server = launch.era(era).start();
            let reply = server.run("echo hello from $((6 * 7))");
            assert!(reply.text().contains("hello from 42"), "{era:?}: {}", reply.0);
        }
    }
}

#[test]
fn initialize_answers_in_the_revision_that_was_asked_for() {
    for era in ERAS {
        let Era::Legacy(version) = era else { continue };
        for launch in Launch::both() {
            let answer = launch.era(era).start_silent().handshake();
            assert_eq!(answer["result"]["protocolVersion"], version);
            assert_eq!(answer["result"]["serverInfo"]["name"], "shellyard");
            assert_eq!(answer["result"]["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        }
    }
}

#[test]
fn an_unknown_revision_is_answered_with_one_that_is_known() {
    let mut server = Launch::stdio().start_silent();
    let params = json!({
        "protocolVersion": "1999-01-01",
        "capabilities": {},
        "clientInfo": {"name": "it", "version": "1"},
    });
    let answer = server.rpc("initialize", params);
    let version = answer["result"]["protocolVersion"].as_str().expect("a revision");
    assert!(ERAS.iter().any(|era| era.version() == version), "{answer}");
}

#[test]
fn discover_tells_what_there_is() {
    for launch in Launch::both() {
        let mut server = launch.era(Era::Modern).start();
        let answer = server.rpc("server/discover", json!({}));
        let versions = answer["result"]["supportedVersions"].to_string();
        assert!(versions.contains("2026-07-28"), "{answer}");
        assert!(answer["result"]["capabilities"]["tools"].is_object(), "{answer}");
        assert!(answer.to_string().contains("shellyard"), "the server names itself: {answer}");
    }
}

#[test]
fn both_eras_work_on_one_stdio_connection() {
    let mut server = Launch::stdio().start();
    server.assert_alive();
    let id = server.fresh_id();
    let message = Era::Modern.request(id, "tools/list", json!({}));
    server.stdio().send(&message);
    let answer = server.stdio().response(id);
    assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(TOOLS.len()), "{answer}");
}

#[test]
fn instructions_are_there_and_short() {
    let answer = Launch::stdio().start_silent().handshake();
    let instructions = answer["result"]["instructions"].as_str().expect("instructions");
    assert!((1..2048).contains(&instructions.len()), "{} bytes", instructions.len());
}

fn tools(server: &mut TestServer) -> Vec<Value> {
    let answer = server.rpc("tools/list", json!({}));
    answer["result"]["tools"].as_array().expect("a list of tools").clone()
}

#[test]
fn the_six_tools_fit_into_7_kb_in_every_era() {
    for era in [Era::Legacy("2025-11-25"), Era::Modern] {
        for launch in Launch::both() {
            let mut server = launch.era(era).start();
            let answer = server.rpc("tools/list", json!({}));
            let bytes = answer["result"].to_string().len();
            assert!(bytes <= 7000, "tools/list takes {bytes} bytes");
            let mut names: Vec<String> =
                tools(&mut server).iter().map(|tool| word(&tool["name"])).collect();
            names.sort();
            let mut expected = TOOLS;
            expected.sort_unstable();
            assert_eq!(names, expected);
        }
    }
}

fn word(value: &Value) -> String {
    value.as_str().expect("a word").to_owned()
}

#[test]
fn every_tool_says_what_it_does_to_the_world() {
    for tool in tools(&mut Launch::stdio().start()) {
        let name = word(&tool["name"]);
        let annotations = &tool["annotations"];
        let reads = ["wait_jobs", "read_output", "list_jobs"].contains(&name.as_str());
        assert_eq!(annotations["readOnlyHint"], reads, "{name}");
        assert!(annotations["openWorldHint"].is_boolean(), "{name}: {annotations}");
        // The protocol gives these two a meaning only for tools that change something.
        for hint in ["destructiveHint", "idempotentHint"] {
            assert!(reads || annotations[hint].is_boolean(), "{name} lacks {hint}: {annotations}");
        }
        let description = word(&tool["description"]);
        assert!((1..2048).contains(&description.len()), "{name}: {} bytes", description.len());
    }
}

#[test]
fn schemas_are_flat_and_portable() {
    for tool in tools(&mut Launch::stdio().start()) {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object");
        assert_portable(&word(&tool["name"]), schema);
        for (name, property) in schema["properties"].as_object().expect("properties") {
            assert!(property["type"].is_string(), "{name} has no plain type: {property}");
        }
    }
}

/// Words that some client is known to stumble over.
#[track_caller]
fn assert_portable(tool: &str, schema: &Value) {
    const UNPORTABLE: [&str; 8] =
        ["$ref", "$schema", "$defs", "definitions", "oneOf", "anyOf", "allOf", "format"];
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                assert!(!UNPORTABLE.contains(&key.as_str()), "{tool} uses {key}: {schema}");
                let is_list_of_types = key == "type" && value.is_array();
                assert!(!is_list_of_types, "{tool} has a union of types: {schema}");
                assert_portable(tool, value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| assert_portable(tool, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn required_arguments_are_those_of_the_contract() {
    let expected = [
        ("run_command", json!(["command"])),
        ("wait_jobs", json!(["jobs"])),
        ("send_input", json!(["job"])),
        ("stop_jobs", json!(["jobs"])),
    ];
    let tools = tools(&mut Launch::stdio().start());
    for (name, required) in expected {
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("it is listed");
        assert_eq!(tool["inputSchema"]["required"], required, "{name}");
    }
}

#[test]
fn numbers_may_come_as_text_and_null_means_absent() {
    let mut server = Launch::stdio().structured().start();
    let arguments = json!({"command": "echo hi", "wait_s": "20", "cwd": null, "env": null});
    let reply = server.call("run_command", arguments).ok();
    assert_eq!(reply["output"], "hi\n");
    let job = reply.job().to_string();
    let page = server.call("read_output", json!({"job": job, "cursor": null})).ok();
    assert_eq!(page["output"], "hi\n");
}

#[test]
fn what_is_not_offered_is_method_not_found() {
    for launch in Launch::both() {
        let mut server = launch.start_silent();
        let capabilities = server.handshake()["result"]["capabilities"].clone();
        let optional = [
            ("prompts", "prompts/list"),
            ("resources", "resources/list"),
            ("resources", "resources/templates/list"),
            ("completions", "completion/complete"),
            ("logging", "logging/setLevel"),
        ];
        for (capability, method) in optional {
            if capabilities.get(capability).is_none() {
                let answer = server.rpc(method, optional_params(method));
                assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
            }
        }
        assert!(server.rpc("ping", json!({}))["result"].is_object(), "ping still works");
    }
}

fn optional_params(method: &str) -> Value {
    match method {
        "completion/complete" => json!({
            "ref": {"type": "ref/prompt", "name": "x"},
            "argument": {"name": "a", "value": "b"},
        }),
        "logging/setLevel" => json!({"level": "info"}),
        _ => json!({}),
    }
}

#[test]
fn an_unknown_method_is_method_not_found() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let answer = server.rpc("no/such/method", json!({}));
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        server.assert_alive();
    }
}

#[test]
fn misshaped_params_of_a_known_method_are_invalid_params() {
    for era in [Era::Legacy("2025-11-25"), Era::Modern] {
        for launch in Launch::both() {
            let mut server = launch.era(era).start();
            let answer = server.rpc("tools/call", json!({"name": 7, "arguments": {}}));
            assert_eq!(answer["error"]["code"], -32602, "{era:?}: {answer}");
            server.assert_alive();
        }
    }
}

#[test]
fn a_notification_as_the_first_message_does_not_end_the_server() {
    let mut server = Launch::stdio().start_silent();
    server.notify("notifications/initialized", json!({}));
    server.notify("notifications/cancelled", json!({"requestId": 99}));
    server.handshake();
    server.assert_alive();
}

#[test]
fn malformed_json_gets_a_parse_error_and_the_server_goes_on() {
    let mut server = Launch::stdio().start();
    server.stdio().send_line("{\"jsonrpc\": \"2.0\", \"id\": 5, ");
    let answer = server.stdio().receive("parse error", |message| message.get("error").is_some());
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    server.stdio().send_line("");
    server.stdio().send_line("[1, 2, 3]");
    server.stdio().send_line("\"text\"");
    server.assert_alive();
}

#[test]
fn malformed_json_over_http_is_an_error_too() {
    use crate::harness::{HttpConnection, HttpRequest};
    let mut server = Launch::http().start();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::post_bytes("/mcp", b"{\"jsonrpc\": ".to_vec()));
    let answer = connection.answer();
    assert!((400..500).contains(&answer.status), "HTTP {}", answer.status);
    assert!(!answer.text().is_empty(), "it says what was wrong");
    server.assert_alive();
}

#[test]
fn stdout_carries_nothing_but_messages() {
    let mut server = Launch::stdio().args(&["--log-format", "json"]).start();
    server.assert_alive();
    server.call("no_such_tool", json!({}));
    for message in server.stdio().take_all() {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
    }
    eventually("the log is on stderr", || !server.log_text().is_empty());
}
