//! The handler as transports serve it: each request that it answers is an [`Operation`].
//!
//! **Invariant:** nothing is answered past this: a request is counted once, however it ends, and
//! all that is logged on its way names its trace. A panic on that way is an error like any other.

use std::panic::AssertUnwindSafe;

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

use super::answering::error_of;
#[cfg(feature = "conformance")]
use super::fixtures::WithFixtures;
use super::handler::Handler;
use super::operation::{Asked, Network, Operation};
use crate::telemetry::ErrorType;

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
    if let CallToolResponse::Complete(result) = response { error_of(result) } else { None }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::METHODS;
    use crate::telemetry::labels;

    #[tokio::test]
    async fn a_panic_is_an_internal_error() {
        let answered: Result<(), _> = caught(async { panic!("boom") }).await;
        assert_eq!(answered.unwrap_err().code.0, -32603);
    }

    #[test]
    fn every_method_that_is_answered_has_series_of_its_own() {
        let answered = METHODS.map(|(method, _)| method);
        let (other, counted) = labels::METHODS.split_last().unwrap();
        assert_eq!((answered.as_slice(), labels::OTHER), (counted, *other));
    }
}
