//! The `rmcp` client against the server, in both eras and over both transports.

use std::process::Stdio;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Launch, Sandbox};

type SdkClient = RunningService<RoleClient, ()>;

fn lifecycles() -> [ClientLifecycleMode; 3] {
    let modern = vec![ProtocolVersion::V_2026_07_28];
    [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover { preferred_versions: modern.clone() },
        ClientLifecycleMode::Auto { preferred_versions: modern, legacy_version: None },
    ]
}

async fn within_deadline<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("never came true: {what}"),
    }
}

async fn call(client: &SdkClient, tool: &'static str, arguments: Value) -> CallToolResult {
    let arguments = arguments.as_object().expect("an object").clone();
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    within_deadline(tool, client.call_tool(params)).await.expect("the call works")
}

fn text_of(result: &CallToolResult) -> String {
    let content = serde_json::to_value(&result.content).expect("JSON");
    let blocks = content.as_array().expect("a list").clone();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect()
}

/// Does what any client does in its first minute: list tools, run, start, wait, read, stop.
async fn exercise(client: SdkClient) {
    let tools = within_deadline("tools", client.list_all_tools()).await.expect("tools");
    assert_eq!(tools.len(), 6);
    let text = text_of(&call(&client, "run_command", json!({"command": "echo hi"})).await);
    assert!(text.starts_with("exit 0") && text.contains("hi"), "{text}");
    let background = json!({"command": "echo one; read x; echo $x", "wait_s": 0});
    call(&client, "run_command", background).await;
    call(&client, "send_input", json!({"job": 2, "text": "two\n"})).await;
    let text = text_of(&call(&client, "wait_jobs", json!({"jobs": [2], "wait_s": 40})).await);
    assert!(text.contains("exit 0"), "{text}");
    let text = text_of(&call(&client, "read_output", json!({"job": 2})).await);
    assert!(text.contains("one\ntwo"), "{text}");
    let refused = call(&client, "read_output", json!({"job": 99})).await;
    assert_eq!(refused.is_error, Some(true), "{refused:?}");
    within_deadline("the end", client.cancel()).await.expect("a clean end");
}

#[tokio::test]
async fn the_rust_client_works_over_stdio() {
    for lifecycle in lifecycles() {
        let sandbox = Sandbox::new();
        let mut command = tokio::process::Command::from(sandbox.command());
        command.arg("stdio").arg("--data-dir").arg(sandbox.data());
        let (transport, _) = TokioChildProcess::builder(command)
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let client = ().serve_with_lifecycle(transport, lifecycle.clone());
        let client = within_deadline("a connection", client).await.expect("a connection");
        exercise(client).await;
    }
}

#[tokio::test]
async fn the_rust_client_works_over_http() {
    for lifecycle in lifecycles() {
        let mut server = Launch::http().start_silent();
        let url = format!("http://{}/mcp", server.http().address());
        let transport = StreamableHttpClientTransport::from_uri(url);
        let client = ().serve_with_lifecycle(transport, lifecycle);
        let client = within_deadline("a connection", client).await.expect("a connection");
        exercise(client).await;
        drop(server);
    }
}

// The wait for the process blocks its thread; the client needs another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_client_gives_up_leaves_its_job_running() {
    let marker = crate::harness::Marker::new();
    let mut server = Launch::http().start_silent();
    let url = format!("http://{}/mcp", server.http().address());
    let lifecycle =
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let transport = StreamableHttpClientTransport::from_uri(url);
    let client = ().serve_with_lifecycle(transport, lifecycle);
    let client = within_deadline("a connection", client).await.expect("a connection");
    let arguments = json!({"command": format!("sleep {marker}")});
    let job_runs = async {
        while marker.alive().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = job_runs => {} // Dropping the call gives it up.
        result = call(&client, "run_command", arguments) => panic!("it was answered: {result:?}"),
    }
    let text = text_of(&call(&client, "list_jobs", json!({"state": "running"})).await);
    assert!(text.contains(&format!("sleep {marker}")), "{text}");
    marker.wait_alive();
    within_deadline("the end", client.cancel()).await.expect("a clean end");
}
