//! A handler that adds fixtures to the real handler.

use std::borrow::Cow;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, DiscoverResult, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Reference, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::answer;
use super::stored_fixtures::{FIXTURES, Fixtures, fill_template};
use crate::ids::TenantId;
use crate::mcp::handler::Handler;
use crate::mcp::handler::{is_modern, response_meta};
use crate::mcp::settings::ToolDialect;

/// The real handler, with fixtures beside its own tools, prompts and resources if a dialect asks for
/// them.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct WithFixtures {
    handler: Handler,
    fixtures: Option<&'static Fixtures>,
}

impl WithFixtures {
    /// Wraps a handler, whose dialects decide whether there are fixtures.
    pub(in crate::mcp) fn new(handler: Handler) -> Self {
        let is_asked_for = handler.has_dialect(ToolDialect::Conformance);
        Self { handler, fixtures: is_asked_for.then(|| &*FIXTURES) }
    }

    /// The sender of the request, if it is known.
    pub(in crate::mcp) fn find_tenant(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Option<TenantId> {
        self.handler.find_tenant(context)
    }

    /// The word under which calls of this tool are counted.
    pub(in crate::mcp) fn tool_label(&self, name: &str) -> &'static str {
        self.handler.tool_label(name)
    }

    /// Adds what fixtures need to what the handler can do.
    fn extend_capabilities(&self, capabilities: &mut ServerCapabilities) {
        if self.fixtures.is_some() {
            capabilities.logging.get_or_insert_default();
            capabilities.completions.get_or_insert_default();
            capabilities.tools.get_or_insert_default().list_changed = Some(true);
            capabilities.prompts.get_or_insert_default().list_changed = Some(true);
        }
    }

    fn has_resource(&self, uri: &str) -> bool {
        self.fixtures.is_some_and(|fixtures| fixtures.find_contents(uri).is_some())
    }
}

/// Methods that the handler answers by itself.
macro_rules! delegated {
    ($($name:ident($($request:ident: $params:ty)?) -> $result:ty;)+) => {
        $(async fn $name(
            &self,
            $($request: $params,)?
            context: RequestContext<RoleServer>,
        ) -> Result<$result, ErrorData> {
            self.handler.$name($($request,)? context).await
        })+
    };
}

impl ServerHandler for WithFixtures {
    delegated! {
        ping() -> ();
        get_task(request: GetTaskParams) -> GetTaskResult;
        update_task(request: UpdateTaskParams) -> ();
        cancel_task(request: CancelTaskParams) -> ();
        on_custom_request(request: CustomRequest) -> CustomResult;
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.handler.supported_protocol_versions()
    }

    fn get_info(&self) -> ServerConfig {
        let mut info = self.handler.get_info();
        self.extend_capabilities(&mut info.capabilities);
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.handler.initialize(request, context).await?;
        self.extend_capabilities(&mut result.capabilities);
        Ok(result)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let mut result = self.handler.discover(context).await?;
        self.extend_capabilities(&mut result.capabilities);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let fixture = || Some(self.fixtures?.find_tool(name)?.definition.clone());
        self.handler.get_tool(name).or_else(fixture)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut result = self.handler.list_tools(request, context).await?;
        let fixtures = self.fixtures.iter().flat_map(|fixtures| &fixtures.tools);
        result.tools.extend(fixtures.map(|tool| tool.definition.clone()));
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(fixture) = self.fixtures.and_then(|fixtures| fixtures.find_tool(&request.name))
        else {
            return self.handler.call_tool(request, context).await;
        };
        let mut response =
            answer::answer_tool_call(fixture, request, &context, &self.handler).await?;
        if let Some(meta) = response_meta(&mut response) {
            self.handler.stamp_modern(&context, meta);
        }
        Ok(response)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut result = self.handler.list_prompts(request, context).await?;
        let fixtures = self.fixtures.iter().flat_map(|fixtures| &fixtures.prompts);
        result.prompts.extend(fixtures.map(|prompt| prompt.definition.clone()));
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match self.fixtures.and_then(|fixtures| fixtures.find_prompt(&request.name)) {
            Some(fixture) => answer::answer_prompt(fixture, request, &context),
            None => self.handler.get_prompt(request, context).await,
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        match (&request.r#ref, self.fixtures) {
            (Reference::Prompt(prompt), Some(fixtures))
                if fixtures.find_prompt(&prompt.name).is_some() =>
            {
                Ok(CompleteResult::default())
            }
            _ => self.handler.complete(request, context).await,
        }
    }

    #[expect(deprecated, reason = "legacy clients set it")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.fixtures.is_some() && !is_modern(&context) {
            return Ok(());
        }
        self.handler.set_level(request, context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut result = self.handler.list_resources(request, context).await?;
        if result.next_cursor.is_none() {
            let fixtures = self.fixtures.iter().flat_map(|fixtures| &fixtures.resources);
            result.resources.extend(fixtures.map(|document| document.definition.clone()));
        }
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut result = self.handler.list_resource_templates(request, context).await?;
        let fixtures = self.fixtures.iter().flat_map(|fixtures| &fixtures.templates);
        result.resource_templates.extend(fixtures.map(|document| document.definition.clone()));
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some((contents, values)) =
            self.fixtures.and_then(|fixtures| fixtures.find_contents(&request.uri))
        else {
            return self.handler.read_resource(request, context).await;
        };
        let mut result = ReadResourceResult::new(vec![fill_template(contents, &values)?]);
        self.handler.stamp_modern(&context, &mut result.meta);
        Ok(result.into())
    }

    #[expect(deprecated, reason = "legacy clients follow resources by it")]
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.has_resource(&request.uri) {
            return Ok(());
        }
        self.handler.subscribe(request, context).await
    }

    #[expect(deprecated, reason = "legacy clients follow resources by it")]
    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.handler.unsubscribe(request, context).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.handler.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let sink = context.sink().clone();
        tokio::select! {
            answered = self.handler.listen(context) => answered,
            () = answer::forward_changes(sink), if self.fixtures.is_some() => Ok(()),
        }
    }
}
