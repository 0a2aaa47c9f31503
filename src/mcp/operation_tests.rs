//! Operations of real requests, as they are exported.

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::operation::{Asked, Network, Operation, Place};
use crate::ids::{JobId, Tenant};
use crate::telemetry::ErrorType;
use crate::telemetry::spans::{Attribute, EndedSpan, SpanKind, kept};
use crate::trace::{BegunBy, SpanId, TraceContext};

/// Begins an operation for each call, and ends it as the tool's name says.
#[derive(Clone)]
struct Probe;

impl ServerHandler for Probe {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (tool, tenant) = (Some("run_command"), Some(Tenant::LOCAL));
        let asked = Asked { method: "tools/call", tool, tenant, network: Network::Pipe };
        let operation = Operation::begin(asked, &context);
        context.extensions.insert(operation.place());
        Place::note_job(&context, JobId::local(7));
        Place::note_job(&context, JobId::local(8));
        let begun_by = Place::trace(&context).unwrap().begun_by;
        match &*request.name {
            "works" => operation.finish(None),
            "fails" => operation.finish(Some(ErrorType::Tool)),
            _ => drop(operation),
        }
        let told = json!({"by_caller": begun_by == BegunBy::Caller});
        Ok(CallToolResult::structured(told).into())
    }
}

/// Calls a tool of the probe in this context, and gives what it answers.
async fn call(name: &str, meta: Value) -> Value {
    kept::keep();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let server = tokio::spawn(async move { Probe.serve(tokio::io::split(theirs)).await });
    let (input, mut output) = tokio::io::split(ours);
    let mut answers = BufReader::new(input).lines();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let mut answer = Value::Null;
    for (id, method, params) in [
        (Some(1), "initialize", hello),
        (None, "notifications/initialized", json!({})),
        (Some(2), "tools/call", json!({"name": name, "_meta": meta})),
    ] {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(id) = id {
            message["id"] = json!(id);
        }
        output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        if id.is_some() {
            let line = answers.next_line().await.unwrap().unwrap();
            answer = serde_json::from_str(&line).unwrap();
        }
    }
    drop(server.await.unwrap().unwrap());
    answer["result"]["structuredContent"].clone()
}

/// The span of a call in a trace of its own, which a caller keeps.
async fn exported(name: &str) -> (EndedSpan, SpanId) {
    let sent = TraceContext::root();
    let answer = call(name, json!({"traceparent": sent.traceparent(), "tracestate": "a=1"})).await;
    assert_eq!(answer["by_caller"], true);
    let [span] = <[EndedSpan; 1]>::try_from(kept::of_trace(sent.trace_id)).unwrap();
    assert_eq!(span.context.state.as_deref(), Some("a=1"));
    (span, sent.span_id)
}

fn attributes(error: Option<&str>) -> Vec<(&'static str, Attribute)> {
    let mut expected: Vec<(&'static str, Attribute)> = vec![
        ("mcp.method.name", "tools/call".into()),
        ("gen_ai.tool.name", "run_command".into()),
        ("mcp.protocol.version", "2025-11-25".into()),
        ("network.transport", "pipe".into()),
        ("shellyard.tenant", "local".into()),
        ("shellyard.job", 7.into()),
    ];
    expected.extend(error.map(|error| ("error.type", error.into())));
    expected
}

#[tokio::test]
async fn a_call_is_a_span_of_its_callers_trace() {
    let (span, parent) = exported("works").await;
    assert_eq!((span.name.as_str(), span.kind), ("tools/call run_command", SpanKind::Server));
    assert_eq!(span.parent, Some(parent));
    assert_eq!(span.attributes, attributes(None));
    assert_eq!(span.error, None);
}

#[tokio::test]
async fn what_went_wrong_is_told_and_what_was_cut_short_too() {
    for (name, error) in [("fails", "tool_error"), ("is dropped", "_OTHER")] {
        let (span, _) = exported(name).await;
        assert_eq!(span.attributes, attributes(Some(error)));
        assert_eq!(span.error.as_deref(), Some(error));
    }
}

#[tokio::test]
async fn a_call_without_a_context_begins_a_trace() {
    assert_eq!(call("works", json!({})).await["by_caller"], false);
    assert_eq!(call("works", json!({"traceparent": "nonsense"})).await["by_caller"], false);
}
