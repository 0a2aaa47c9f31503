//! The handler that transports serve: it wraps each request in an [`Operation`], which counts and
//! traces it.
//!
//! **Invariant:** every reply passes this layer: a request is counted once, however it ends, and
//! all log lines about it name its trace. A panic inside becomes an internal error.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use axum::http::HeaderMap;
use axum::http::request::Parts;
use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, DiscoverResult, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tracing::Instrument;

use super::handler::Handler;
use crate::ids::{JobId, TenantId};
use crate::telemetry::events::ActiveOperation;
use crate::telemetry::spans::{SpanKind, TraceSpan};
use crate::telemetry::{ErrorType, events};
use crate::trace::{BegunBy, CallTrace, TraceContext};

#[cfg(feature = "conformance")]
use super::fixtures::WithFixtures;

/// A handler with metrics and tracing for every request. Clones are cheap and belong to the same
/// connection.
#[derive(Debug, Clone)]
pub struct InstrumentedHandler {
    #[cfg(not(feature = "conformance"))]
    handler: Handler,
    #[cfg(feature = "conformance")]
    handler: WithFixtures,
    network: NetworkTransport,
}

impl Handler {
    /// Wraps the handler with metrics and tracing; `network` is the default transport label.
    #[must_use]
    pub fn instrumented(self, network: NetworkTransport) -> InstrumentedHandler {
        InstrumentedHandler {
            #[cfg(not(feature = "conformance"))]
            handler: self,
            #[cfg(feature = "conformance")]
            handler: WithFixtures::new(self),
            network,
        }
    }
}

impl InstrumentedHandler {
    fn request_info<'a>(
        &self,
        method: &'a str,
        context: &RequestContext<RoleServer>,
    ) -> RequestInfo<'a> {
        let tenant = self.handler.find_tenant(context);
        RequestInfo { method, tool: None, tenant, network: self.network }
    }

    /// Runs a request inside an operation.
    async fn instrument<T, F>(
        &self,
        info: RequestInfo<'_>,
        mut context: RequestContext<RoleServer>,
        error_in: fn(&T) -> Option<ErrorType>,
        handle: impl FnOnce(RequestContext<RoleServer>) -> F,
    ) -> Result<T, ErrorData>
    where
        F: Future<Output = Result<T, ErrorData>>,
    {
        let cancelled = context.ct.clone();
        let operation = Operation::begin(info, &context);
        context.extensions.insert(operation.context.clone());
        let log = operation.span.log_span().clone();
        // Boxed: otherwise every transport future would be as large as the largest request future.
        let result = catch_panic(Box::pin(handle(context))).instrument(log).await;
        operation.finish(match &result {
            // Nobody reads this reply.
            Ok(_) if cancelled.is_cancelled() => Some(ErrorType::Other),
            Ok(result) => error_in(result),
            Err(_) => Some(ErrorType::Other),
        });
        result
    }
}

/// Turns a panic into an error: without a reply the caller would wait for ever.
async fn catch_panic<T>(
    request: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    let panicked =
        |_| Err(ErrorData::internal_error("this request failed inside the server", None));
    AssertUnwindSafe(request).catch_unwind().await.unwrap_or_else(panicked)
}

const fn no_error<T>(_: &T) -> Option<ErrorType> {
    None
}

fn find_tool_error(response: &CallToolResponse) -> Option<ErrorType> {
    let CallToolResponse::Complete(result) = response else { return None };
    (result.is_error == Some(true)).then_some(ErrorType::Tool)
}

/// Methods that the handler answers with a result or an error and nothing else.
macro_rules! instrumented {
    ($($(#[$meta:meta])* $method:literal => $name:ident($($request:ident: $params:ty)?) -> $result:ty;)+) => {
        $($(#[$meta])*
        async fn $name(
            &self,
            $($request: $params,)?
            context: RequestContext<RoleServer>,
        ) -> Result<$result, ErrorData> {
            let info = self.request_info($method, &context);
            let handle = |context| self.handler.$name($($request,)? context);
            self.instrument(info, context, no_error, handle).await
        })+
    };
}

impl ServerHandler for InstrumentedHandler {
    instrumented! {
        "initialize" => initialize(request: InitializeRequestParams) -> InitializeResult;
        "ping" => ping() -> ();
        "server/discover" => discover() -> DiscoverResult;
        "completion/complete" => complete(request: CompleteRequestParams) -> CompleteResult;
        #[expect(deprecated, reason = "clients still send it, and the handler refuses it")]
        "logging/setLevel" => set_level(request: rmcp::model::SetLevelRequestParams) -> ();
        "prompts/get" => get_prompt(request: GetPromptRequestParams) -> GetPromptResponse;
        "prompts/list" => list_prompts(request: Option<PaginatedRequestParams>) -> ListPromptsResult;
        "resources/list" => list_resources(request: Option<PaginatedRequestParams>) -> ListResourcesResult;
        "resources/templates/list" =>
            list_resource_templates(request: Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        "resources/read" => read_resource(request: ReadResourceRequestParams) -> ReadResourceResponse;
        #[expect(deprecated, reason = "legacy clients use it to follow outputs")]
        "resources/subscribe" => subscribe(request: SubscribeRequestParams) -> ();
        #[expect(deprecated, reason = "legacy clients use it to follow outputs")]
        "resources/unsubscribe" => unsubscribe(request: UnsubscribeRequestParams) -> ();
        "tasks/cancel" => cancel_task(request: CancelTaskParams) -> ();
        "tasks/get" => get_task(request: GetTaskParams) -> GetTaskResult;
        "tasks/update" => update_task(request: UpdateTaskParams) -> ();
        "tools/list" => list_tools(request: Option<PaginatedRequestParams>) -> ListToolsResult;
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = Some(self.handler.tool_label(&request.name));
        let info = RequestInfo { tool, ..self.request_info("tools/call", &context) };
        let handle = |context| self.handler.call_tool(request, context);
        self.instrument(info, context, find_tool_error, handle).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.clone();
        let info = self.request_info(&method, &context);
        let handle = |context| self.handler.on_custom_request(request, context);
        self.instrument(info, context, no_error, handle).await
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let request = context.request_context();
        let operation =
            Operation::begin(self.request_info("subscriptions/listen", request), request);
        let log = operation.span.log_span().clone();
        let result = catch_panic(Box::pin(self.handler.listen(context))).instrument(log).await;
        // It ends when the client closes the stream, which is not an error.
        operation.finish(result.is_err().then_some(ErrorType::Other));
        result
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.handler.accepted_subscription_filter(requested)
    }

    fn get_info(&self) -> ServerConfig {
        self.handler.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.handler.supported_protocol_versions()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.handler.get_tool(name)
    }
}

/// The transport of a request, in OpenTelemetry's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkTransport {
    /// Standard input and output.
    Pipe,
    Tcp,
    Unix,
}

impl NetworkTransport {
    const fn word(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        }
    }
}

/// The request that an operation is about.
#[derive(Debug, Clone, Copy)]
struct RequestInfo<'a> {
    method: &'a str,
    /// The tool, for a `tools/call`.
    tool: Option<&'static str>,
    tenant: Option<TenantId>,
    /// The transport label of requests that carry none.
    network: NetworkTransport,
}

/// A request that is being answered. Dropping it without [`Operation::finish`], as cancellation
/// may, records it as failed.
#[derive(Debug)]
#[must_use = "dropping the operation ends it"]
struct Operation {
    active: Option<ActiveOperation>,
    error: Option<ErrorType>,
    span: TraceSpan,
    context: OperationContext,
}

/// The part of an operation that handlers see, in the request's extensions.
#[derive(Debug, Clone)]
pub(super) struct OperationContext {
    trace: CallTrace,
    job: Arc<OnceLock<JobId>>,
}

impl OperationContext {
    /// The trace context of this request, if it has one.
    pub(super) fn trace(context: &RequestContext<RoleServer>) -> Option<CallTrace> {
        context.extensions.get::<Self>().map(|operation| operation.trace.clone())
    }

    /// Records that this request is about a job; only the first job counts.
    pub(super) fn record_job(context: &RequestContext<RoleServer>, job: JobId) {
        if let Some(operation) = context.extensions.get::<Self>() {
            // Only the first job is recorded.
            operation.job.set(job).ok();
        }
    }
}

impl Operation {
    /// Starts an operation for a request.
    fn begin(info: RequestInfo<'_>, context: &RequestContext<RoleServer>) -> Self {
        let active = events::operation_started(info.method, info.tool);
        let name = match active.tool() {
            Some(tool) => format!("{} {tool}", active.method()),
            None => active.method().to_owned(),
        };
        let sent = find_caller_trace_context(context);
        let mut span = TraceSpan::start(SpanKind::Server, name, sent.as_ref());
        set_attributes(&mut span, &active, info, context);
        let begun_by = if sent.is_some() { BegunBy::Caller } else { BegunBy::Server };
        let trace = CallTrace { context: span.context().clone(), begun_by };
        let context = OperationContext { trace, job: Arc::default() };
        Self { active: Some(active), error: Some(ErrorType::Other), span, context }
    }

    /// Marks the request as answered, with or without an error.
    fn finish(mut self, error: Option<ErrorType>) {
        self.error = error;
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(job) = self.context.job.get() {
            self.span
                .set_attribute("shellyard.job", i64::try_from(job.number()).unwrap_or(i64::MAX));
        }
        if let Some(error) = self.error {
            self.span.set_attribute("error.type", error.word());
            self.span.set_error(&error.word());
        }
        let active = self.active.take();
        let error = self.error;
        self.span.log_span().in_scope(|| active.map(|active| active.finish(error)));
    }
}

fn set_attributes(
    span: &mut TraceSpan,
    active: &ActiveOperation,
    info: RequestInfo<'_>,
    context: &RequestContext<RoleServer>,
) {
    span.set_attribute("mcp.method.name", active.method());
    if let Some(tool) = active.tool() {
        span.set_attribute("gen_ai.tool.name", tool);
    }
    if let Some(version) = context.protocol_version() {
        span.set_attribute("mcp.protocol.version", version.as_str());
    }
    let transport =
        request_parts(context).and_then(|parts| parts.extensions.get::<NetworkTransport>());
    span.set_attribute("network.transport", transport.copied().unwrap_or(info.network).word());
    if let Some(tenant) = info.tenant {
        span.set_attribute("shellyard.tenant", tenant.name());
    }
}

fn request_parts(context: &RequestContext<RoleServer>) -> Option<&Parts> {
    context.extensions.get::<Parts>()
}

/// Returns the caller's trace context, from the request itself or else from its headers.
fn find_caller_trace_context(context: &RequestContext<RoleServer>) -> Option<TraceContext> {
    let meta = &context.meta;
    let headers = request_parts(context).map(|parts| &parts.headers);
    let from_request = meta.get_traceparent();
    let from_request = from_request.and_then(|it| TraceContext::parse(it, meta.get_tracestate()));
    from_request.or_else(|| headers.and_then(trace_context_from_headers))
}

/// Returns the trace context in the headers of a request.
pub(crate) fn trace_context_from_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (parent, None) = (parents.next()?, parents.next()) else { return None };
    // `tracestate` may be split over several headers.
    let states: Vec<&str> =
        headers.get_all("tracestate").iter().filter_map(|it| it.to_str().ok()).collect();
    TraceContext::parse(parent.to_str().ok()?, Some(states.join(",").as_str()))
}

#[cfg(test)]
mod tests {
    use rmcp::ServiceExt;
    use rmcp::model::CallToolResult;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;
    use crate::mcp::{Eras, list_methods};
    use crate::telemetry::labels;
    use crate::telemetry::spans::{FinishedSpan, SpanAttribute, recorded};
    use crate::trace::SpanId;

    #[tokio::test]
    async fn a_panic_is_an_internal_error() {
        let result: Result<(), _> = catch_panic(async { panic!("boom") }).await;
        assert_eq!(result.unwrap_err().code.0, -32603);
    }

    #[test]
    fn every_method_has_its_own_metric_series() {
        assert_eq!(
            list_methods().count() + 1,
            labels::METHODS.len(),
            "each method has a label, and all others share one"
        );
        for eras in [Eras::Legacy, Eras::Modern, Eras::Both] {
            let some = list_methods().filter(|(_, it)| *it == eras).count();
            assert_eq!(
                some,
                match eras {
                    Eras::Legacy => 4,
                    Eras::Modern => 5,
                    Eras::Both => 8,
                }
            );
        }
    }

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(headers: &[(&'static str, &'static str)]) -> Option<TraceContext> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        trace_context_from_headers(&map)
    }

    #[test]
    fn headers_hold_one_trace_context_or_none() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("tracestate", "a=1")]), None);
        let plain = read(&[("traceparent", PARENT)]).unwrap();
        assert_eq!((plain.format_traceparent().as_str(), plain.state), (PARENT, None));
        let stated =
            read(&[("tracestate", "a=1"), ("traceparent", PARENT), ("tracestate", "b=2")]).unwrap();
        assert_eq!(stated.state.as_deref(), Some("a=1,b=2"));
        assert_eq!(
            read(&[("traceparent", PARENT), ("traceparent", PARENT)]),
            None,
            "two parents are ambiguous"
        );
        assert_eq!(read(&[("traceparent", "00-nonsense")]), None);
    }

    /// A server that starts an operation for each call and ends it as the tool's name says.
    #[derive(Clone)]
    struct OperationProbe;

    impl ServerHandler for OperationProbe {
        async fn call_tool(
            &self,
            request: CallToolRequestParams,
            mut context: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            let tool = Some("run_command");
            let tenant = Some(TenantId::LOCAL);
            let info =
                RequestInfo { method: "tools/call", tool, tenant, network: NetworkTransport::Pipe };
            let operation = Operation::begin(info, &context);
            context.extensions.insert(operation.context.clone());
            OperationContext::record_job(&context, JobId::local(7));
            OperationContext::record_job(&context, JobId::local(8));
            let begun_by = OperationContext::trace(&context).unwrap().begun_by;
            match &*request.name {
                "works" => operation.finish(None),
                "fails" => operation.finish(Some(ErrorType::Tool)),
                _ => drop(operation),
            }
            let reply = json!({"by_caller": begun_by == BegunBy::Caller});
            Ok(CallToolResult::structured(reply).into())
        }
    }

    /// Calls a tool of the probe with this metadata and returns the reply.
    async fn call(name: &str, meta: Value) -> Value {
        recorded::start();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let server =
            tokio::spawn(async move { OperationProbe.serve(tokio::io::split(theirs)).await });
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

    /// Returns the exported span of a call that continues a caller's trace, and the caller's span
    /// id.
    async fn exported(name: &str) -> (FinishedSpan, SpanId) {
        let sent = TraceContext::root();
        let answer =
            call(name, json!({"traceparent": sent.format_traceparent(), "tracestate": "a=1"}))
                .await;
        assert_eq!(answer["by_caller"], true);
        let [span] =
            <[FinishedSpan; 1]>::try_from(recorded::spans_of_trace(sent.trace_id)).unwrap();
        assert_eq!(span.context.state.as_deref(), Some("a=1"));
        (span, sent.span_id)
    }

    fn attributes(error: Option<&str>) -> Vec<(&'static str, SpanAttribute)> {
        let mut expected: Vec<(&'static str, SpanAttribute)> = vec![
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
    async fn failed_and_dropped_operations_are_recorded_as_errors() {
        for (name, error) in [("fails", "tool_error"), ("is dropped", "_OTHER")] {
            let (span, _) = exported(name).await;
            assert_eq!(span.attributes, attributes(Some(error)));
            assert_eq!(span.error.as_deref(), Some(error));
        }
    }

    #[tokio::test]
    async fn a_call_without_a_trace_context_starts_a_trace() {
        assert_eq!(call("works", json!({})).await["by_caller"], false);
        assert_eq!(call("works", json!({"traceparent": "nonsense"})).await["by_caller"], false);
    }
}
