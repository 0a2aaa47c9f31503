//! The handler as transports serve it: each request that it answers is an [`Operation`].
//!
//! **Invariant:** nothing is answered past this: a request is counted once, however it ends, and
//! all that is logged on its way names its trace. A panic on that way is an error like any other.

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
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
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

/// A handler of which every answer is watched. A cheap clone, which stands for the same
/// connection.
#[derive(Debug, Clone)]
pub struct Watched {
    #[cfg(not(feature = "conformance"))]
    handler: Handler,
    #[cfg(feature = "conformance")]
    handler: WithFixtures,
    network: Network,
}

impl Handler {
    /// It as a transport serves it that carries requests by `network`, unless one says otherwise.
    #[must_use]
    pub fn watched(self, network: Network) -> Watched {
        Watched {
            #[cfg(not(feature = "conformance"))]
            handler: self,
            #[cfg(feature = "conformance")]
            handler: WithFixtures::over(self),
            network,
        }
    }
}

impl Watched {
    fn asked<'a>(&self, method: &'a str, context: &RequestContext<RoleServer>) -> Asked<'a> {
        let tenant = self.handler.tenant_of(context);
        Asked { method, tool: None, tenant, network: self.network }
    }

    /// Has a request answered, and watches it.
    async fn watch<T, F>(
        &self,
        asked: Asked<'_>,
        mut context: RequestContext<RoleServer>,
        error_in: fn(&T) -> Option<ErrorType>,
        answer: impl FnOnce(RequestContext<RoleServer>) -> F,
    ) -> Result<T, ErrorData>
    where
        F: Future<Output = Result<T, ErrorData>>,
    {
        let cancelled = context.ct.clone();
        let operation = Operation::begin(asked, &context);
        context.extensions.insert(operation.place());
        let log = operation.log().clone();
        // Boxed: whatever carries requests would else be as large as the largest answer in the making.
        let answered = caught(Box::pin(answer(context))).instrument(log).await;
        operation.finish(match &answered {
            // Nobody reads that answer.
            Ok(_) if cancelled.is_cancelled() => Some(ErrorType::Other),
            Ok(result) => error_in(result),
            Err(_) => Some(ErrorType::Other),
        });
        answered
    }
}

/// What is answered, also after a panic: its caller would else wait for ever.
async fn caught<T>(answer: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    let panicked =
        |_| Err(ErrorData::internal_error("this request failed inside the server", None));
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(panicked)
}

const fn no_error<T>(_: &T) -> Option<ErrorType> {
    None
}

fn tool_error(response: &CallToolResponse) -> Option<ErrorType> {
    let CallToolResponse::Complete(result) = response else { return None };
    (result.is_error == Some(true)).then_some(ErrorType::Tool)
}

/// Methods that the handler answers with a result or an error, and nothing else.
macro_rules! watched {
    ($($(#[$meta:meta])* $method:literal => $name:ident($($request:ident: $params:ty)?) -> $result:ty;)+) => {
        $($(#[$meta])*
        async fn $name(
            &self,
            $($request: $params,)?
            context: RequestContext<RoleServer>,
        ) -> Result<$result, ErrorData> {
            let asked = self.asked($method, &context);
            let answer = |context| self.handler.$name($($request,)? context);
            self.watch(asked, context, no_error, answer).await
        })+
    };
}

impl ServerHandler for Watched {
    watched! {
        "initialize" => initialize(request: InitializeRequestParams) -> InitializeResult;
        "ping" => ping() -> ();
        "server/discover" => discover() -> DiscoverResult;
        "completion/complete" => complete(request: CompleteRequestParams) -> CompleteResult;
        #[expect(deprecated, reason = "it is asked for, and refused, all the same")]
        "logging/setLevel" => set_level(request: rmcp::model::SetLevelRequestParams) -> ();
        "prompts/get" => get_prompt(request: GetPromptRequestParams) -> GetPromptResponse;
        "prompts/list" => list_prompts(request: Option<PaginatedRequestParams>) -> ListPromptsResult;
        "resources/list" => list_resources(request: Option<PaginatedRequestParams>) -> ListResourcesResult;
        "resources/templates/list" =>
            list_resource_templates(request: Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        "resources/read" => read_resource(request: ReadResourceRequestParams) -> ReadResourceResponse;
        #[expect(deprecated, reason = "legacy clients follow outputs by it")]
        "resources/subscribe" => subscribe(request: SubscribeRequestParams) -> ();
        #[expect(deprecated, reason = "legacy clients follow outputs by it")]
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
        let tool = Some(self.handler.tool_word(&request.name));
        let asked = Asked { tool, ..self.asked("tools/call", &context) };
        let answer = |context| self.handler.call_tool(request, context);
        self.watch(asked, context, tool_error, answer).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.clone();
        let asked = self.asked(&method, &context);
        let answer = |context| self.handler.on_custom_request(request, context);
        self.watch(asked, context, no_error, answer).await
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let request = context.request_context();
        let operation = Operation::begin(self.asked("subscriptions/listen", request), request);
        let log = operation.log().clone();
        let answered = caught(Box::pin(self.handler.listen(context))).instrument(log).await;
        // It lasts until the client wants it no longer: that is no error.
        operation.finish(answered.is_err().then_some(ErrorType::Other));
        answered
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

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.handler.get_tool(name)
    }
}

/// What carries a request, in OpenTelemetry's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Standard input and output.
    Pipe,
    /// A network connection.
    Tcp,
    /// A unix socket.
    Unix,
}

impl Network {
    const fn word(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        }
    }
}

/// What is asked for, and by whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    /// The tool that is called, if one is.
    pub(super) tool: Option<&'static str>,
    pub(super) tenant: Option<TenantId>,
    /// What carries requests that do not say.
    pub(super) network: Network,
}

/// A request that is being answered. Dropping it, as cancellation may, ends it as one that was
/// cut short.
#[derive(Debug)]
#[must_use = "dropping the operation ends it"]
pub(super) struct Operation {
    active: Option<ActiveOperation>,
    error: Option<ErrorType>,
    span: TraceSpan,
    place: Place,
}

/// What those who answer a request know of its operation: it stands in the request's extensions.
#[derive(Debug, Clone)]
pub(super) struct Place {
    trace: CallTrace,
    job: Arc<OnceLock<JobId>>,
}

impl Place {
    /// Where this request stands in a trace, where that is known.
    pub(super) fn trace(context: &RequestContext<RoleServer>) -> Option<CallTrace> {
        context.extensions.get::<Self>().map(|place| place.trace.clone())
    }

    /// Tells that this request is about a job.
    pub(super) fn note_job(context: &RequestContext<RoleServer>, job: JobId) {
        if let Some(place) = context.extensions.get::<Self>() {
            // The first one is what it is about.
            place.job.set(job).ok();
        }
    }
}

impl Operation {
    /// Begins to answer a request.
    pub(super) fn begin(asked: Asked<'_>, context: &RequestContext<RoleServer>) -> Self {
        let active = events::operation_started(asked.method, asked.tool);
        let name = match active.tool() {
            Some(tool) => format!("{} {tool}", active.method()),
            None => active.method().to_owned(),
        };
        let sent = sent_context(context);
        let mut span = TraceSpan::start(SpanKind::Server, name, sent.as_ref());
        describe(&mut span, &active, asked, context);
        let begun_by = if sent.is_some() { BegunBy::Caller } else { BegunBy::Server };
        let trace = CallTrace { context: span.context().clone(), begun_by };
        let place = Place { trace, job: Arc::default() };
        Self { active: Some(active), error: Some(ErrorType::Other), span, place }
    }

    /// What the request is given, for those who answer it.
    pub(super) fn place(&self) -> Place {
        self.place.clone()
    }

    /// What log lines about it are written in.
    pub(super) const fn log(&self) -> &tracing::Span {
        self.span.log()
    }

    /// It was answered. Without this it counts as cut short.
    pub(super) fn finish(mut self, error: Option<ErrorType>) {
        self.error = error;
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(job) = self.place.job.get() {
            self.span
                .set_attribute("shellyard.job", i64::try_from(job.number()).unwrap_or(i64::MAX));
        }
        if let Some(error) = self.error {
            self.span.set_attribute("error.type", error.word());
            self.span.set_error(&error.word());
        }
        let active = self.active.take();
        let error = self.error;
        self.span.log().in_scope(|| active.map(|active| active.finish(error)));
    }
}

fn describe(
    span: &mut TraceSpan,
    active: &ActiveOperation,
    asked: Asked<'_>,
    context: &RequestContext<RoleServer>,
) {
    span.set_attribute("mcp.method.name", active.method());
    if let Some(tool) = active.tool() {
        span.set_attribute("gen_ai.tool.name", tool);
    }
    if let Some(version) = context.protocol_version() {
        span.set_attribute("mcp.protocol.version", version.as_str());
    }
    let told = parts(context).and_then(|parts| parts.extensions.get::<Network>());
    span.set_attribute("network.transport", told.copied().unwrap_or(asked.network).word());
    if let Some(tenant) = asked.tenant {
        span.set_attribute("shellyard.tenant", tenant.name());
    }
}

fn parts(context: &RequestContext<RoleServer>) -> Option<&Parts> {
    context.extensions.get::<Parts>()
}

/// The place in a trace that the caller told: in the request itself, else in its headers.
fn sent_context(context: &RequestContext<RoleServer>) -> Option<TraceContext> {
    let meta = &context.meta;
    let headers = parts(context).map(|parts| &parts.headers);
    let of_request = meta.get_traceparent();
    let of_request = of_request.and_then(|it| TraceContext::parse(it, meta.get_tracestate()));
    of_request.or_else(|| headers.and_then(context_of_headers))
}

/// The place in a trace that the headers of a request tell.
pub(crate) fn context_of_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (parent, None) = (parents.next()?, parents.next()) else { return None };
    // It may come in several headers, which count as one.
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
    use crate::mcp::{Eras, methods};
    use crate::telemetry::labels;
    use crate::telemetry::spans::{FinishedSpan, SpanAttribute, recorded};
    use crate::trace::SpanId;

    #[tokio::test]
    async fn a_panic_is_an_internal_error() {
        let answered: Result<(), _> = caught(async { panic!("boom") }).await;
        assert_eq!(answered.unwrap_err().code.0, -32603);
    }

    #[test]
    fn every_method_that_is_answered_has_series_of_its_own() {
        assert_eq!(methods().count() + 1, labels::METHODS.len(), "and one for all others");
        for eras in [Eras::Legacy, Eras::Modern, Eras::Both] {
            let some = methods().filter(|(_, it)| *it == eras).count();
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
        context_of_headers(&map)
    }

    #[test]
    fn headers_tell_one_context_or_none() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("tracestate", "a=1")]), None);
        let plain = read(&[("traceparent", PARENT)]).unwrap();
        assert_eq!((plain.traceparent().as_str(), plain.state), (PARENT, None));
        let stated =
            read(&[("tracestate", "a=1"), ("traceparent", PARENT), ("tracestate", "b=2")]).unwrap();
        assert_eq!(stated.state.as_deref(), Some("a=1,b=2"));
        assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None, "which one?");
        assert_eq!(read(&[("traceparent", "00-nonsense")]), None);
    }

    /// Begins an operation for each call, and ends it as the tool's name says.
    #[derive(Clone)]
    struct Probe;

    impl ServerHandler for Probe {
        async fn call_tool(
            &self,
            request: CallToolRequestParams,
            mut context: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, ErrorData> {
            let (tool, tenant) = (Some("run_command"), Some(TenantId::LOCAL));
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
        recorded::start();
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
    async fn exported(name: &str) -> (FinishedSpan, SpanId) {
        let sent = TraceContext::root();
        let answer =
            call(name, json!({"traceparent": sent.traceparent(), "tracestate": "a=1"})).await;
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
}
