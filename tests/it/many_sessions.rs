//! Many agents at one HTTP server: as many sessions as the limit says, each of which lives on.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{
    Era, HttpConnection, HttpLink, Launch, TestServer, eventually, raise_open_files, rss_kib,
};

const LEGACY: Era = Era::Legacy("2025-06-18");

const WAITING_CALLS: &str = "shellyard_mcp_operations_in_flight{class=\"long_poll\"}";
const OPEN_SESSIONS: &str = "shellyard_mcp_sessions{transport=\"http\"}";

fn initialize() -> Value {
    let info = json!({"name": "many", "version": "1"});
    let params =
        json!({"protocolVersion": LEGACY.version(), "capabilities": {}, "clientInfo": info});
    LEGACY.request(1, "initialize", params)
}

/// A client of this server without a session.
fn stranger(server: &mut TestServer) -> HttpLink {
    let mut client = HttpLink::new(LEGACY);
    client.connect_to(server.http().address().to_owned());
    client
}

/// A client with a session of its own.
#[track_caller]
fn newcomer(server: &mut TestServer) -> HttpLink {
    let mut client = stranger(server);
    let answer = client.exchange(&initialize());
    assert!(answer.get("result").is_some(), "{answer}");
    client
}

/// Sends a call without reading its reply.
#[track_caller]
fn begin(client: &HttpLink, tool: &str, arguments: Value) -> HttpConnection {
    let params = json!({"name": tool, "arguments": arguments});
    client.post(&LEGACY.request(2, "tools/call", params))
}

#[track_caller]
fn answer_text(mut call: HttpConnection) -> String {
    let mut answer = call.answer();
    assert_eq!(answer.status, 200);
    let message = answer.message().expect("an answer");
    message["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[test]
fn a_thousand_sessions_of_one_tenant_each_have_a_call_in_flight() {
    raise_open_files();
    let mut server = Launch::http().era(LEGACY).start();
    let gate = server.work().join("gate");
    server.start("until [ -e gate ]; do sleep 0.1; done; echo through");
    let clients: Vec<HttpLink> = (0..1000).map(|_| newcomer(&mut server)).collect();
    let wait = json!({"jobs": [1], "wait_s": 45});
    let calls: Vec<HttpConnection> =
        clients.iter().map(|client| begin(client, "wait_jobs", wait.clone())).collect();
    eventually("all calls are in flight", || server.metric(WAITING_CALLS) >= 1000.0);
    assert_eq!(server.metric(OPEN_SESSIONS), 1001.0, "and that of the test itself");
    fs::write(gate, "").expect("a file of ours");
    for call in calls {
        let text = answer_text(call);
        assert!(text.starts_with("exit 0") && text.contains("through"), "{text}");
    }
    for client in clients.iter().step_by(50) {
        let text = answer_text(begin(client, "list_jobs", json!({})));
        assert!(text.contains("gate"), "{text}");
    }
    assert_eq!(server.metric(OPEN_SESSIONS), 1001.0);
}

#[test]
fn an_idle_session_costs_little_memory() {
    const SESSIONS: u64 = 500;
    const MAX_KIB: u64 = 20;
    let mut server = Launch::http().era(LEGACY).start();
    let use_session = |client: &HttpLink| {
        for (id, method) in [(2, "tools/list"), (3, "resources/list")] {
            let mut connection = client.post(&LEGACY.request(id, method, json!({})));
            assert_eq!(connection.answer().status, 200);
        }
    };
    (0..50).for_each(|_| use_session(&newcomer(&mut server)));
    let before = rss_kib(server.server_pid());
    (0..SESSIONS).for_each(|_| use_session(&newcomer(&mut server)));
    let grown = rss_kib(server.server_pid()).saturating_sub(before);
    assert!(grown < SESSIONS * MAX_KIB, "{grown} KiB for {SESSIONS} sessions");
}

#[test]
fn at_the_limit_a_new_session_is_refused_with_the_reason_and_the_others_live_on() {
    let mut server = Launch::http().config("[http]\nmax_sessions = 3\n").era(LEGACY).start();
    let first = newcomer(&mut server);
    let mut second = newcomer(&mut server);
    let late = stranger(&mut server);
    for _ in 0..5 {
        let mut connection = late.post(&initialize());
        let mut refusal = connection.answer();
        assert_eq!((refusal.status, refusal.header("retry-after")), (503, Some("10")));
        let refusal = refusal.message().expect("a JSON-RPC error");
        let text = refusal["error"]["message"].as_str().expect("a text");
        for words in ["sessions_full", "all 3", "http.max_sessions", "DELETE", "try again"] {
            assert!(text.contains(words), "{text}");
        }
    }
    assert_eq!(server.metric("shellyard_mcp_sessions_limit"), 3.0);
    assert_eq!(server.metric("shellyard_http_refused_total{reason=\"sessions\"}"), 5.0);
    for client in [&first, &second] {
        let text = answer_text(begin(client, "run_command", json!({"command": "echo alive"})));
        assert!(text.contains("alive"), "{text}");
    }
    server.assert_alive();
    second.end_session();
    newcomer(&mut server);
    let text = answer_text(begin(&first, "run_command", json!({"command": "echo alive"})));
    assert!(text.contains("alive"), "{text}");
}

#[test]
fn a_session_asks_its_client_in_each_of_its_calls_with_another_id() {
    let config = "[policy]\nask = [\"touch *\"]\n";
    let mut server = Launch::http().config(config).era(LEGACY).start();
    let mut client = stranger(&mut server);
    let mut hello = initialize();
    hello["params"]["capabilities"] = json!({"elicitation": {}});
    client.exchange(&hello);
    let mut asked = Vec::new();
    for name in ["one", "two"] {
        let mut call = begin(&client, "run_command", json!({"command": format!("touch {name}")}));
        let mut answer = call.answer();
        let question = answer.message().expect("a question");
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let choice = &question["params"]["requestedSchema"]["properties"];
        let field = choice.as_object().and_then(|fields| fields.keys().next()).expect("a field");
        let result = json!({"action": "accept", "content": {field: "once"}});
        client.notify(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
        let reply = answer.message().expect("a reply");
        assert!(reply["result"].to_string().contains("exit 0"), "{reply}");
        asked.push(question["id"].clone());
    }
    assert_ne!(asked[0], asked[1], "ids are unique in a session");
}
