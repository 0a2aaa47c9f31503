//! The rmcp handler: what the protocol asks for, answered from one shared state.

use std::path::Path;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::answering::answer;
use super::approvals::Answered;
use super::caller::Callers;
use super::completion;
use super::dialect::Dialect;
use super::introduction::{self, INSTRUCTIONS, OTHER_INSTRUCTIONS};
use super::offer::Offer;
use super::reply::TokenBudget;
use super::resources;
use super::settings::{McpSettings, ServerName};
use super::sight::note_job;
use super::stamp::{is_modern, meta_of};
use super::subscriptions::Subscriptions;
use super::tasks;
use super::tools::Call;
use super::turn::Turn;
use crate::telemetry::events;
use crate::yard::{Identity, Yard};

/// How long clients may keep what cannot change while the server runs.
const TTL_MS: u64 = 3_600_000;

/// The methods that this server answers, by era; anything else is not found. There is no
/// prompt, and the list says so: the protocol's own caching tests want that list from everyone.
pub const METHODS: [(&str, Eras); 17] = [
    ("completion/complete", Eras::Both),
    ("initialize", Eras::Legacy),
    ("ping", Eras::Legacy),
    ("prompts/get", Eras::Both),
    ("prompts/list", Eras::Both),
    ("resources/list", Eras::Both),
    ("resources/read", Eras::Both),
    ("resources/subscribe", Eras::Legacy),
    ("resources/templates/list", Eras::Both),
    ("resources/unsubscribe", Eras::Legacy),
    ("server/discover", Eras::Modern),
    ("subscriptions/listen", Eras::Modern),
    ("tasks/cancel", Eras::Modern),
    ("tasks/get", Eras::Modern),
    ("tasks/update", Eras::Modern),
    ("tools/call", Eras::Both),
    ("tools/list", Eras::Both),
];

/// In which eras of the protocol a method exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// In those that begin with a handshake.
    Legacy,
    /// From 2026-07-28 on.
    Modern,
    /// In all of them.
    Both,
}

/// The MCP server of one yard. A cheap clone, which stands for the same connection.
#[derive(Debug, Clone)]
pub struct Handler {
    pub(super) shared: Arc<Shared>,
    subscriptions: Arc<Subscriptions>,
    pub(super) callers: Callers,
    /// Where jobs run that name no directory, if not where the server says.
    pub(super) cwd: Option<Arc<Path>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) yard: Yard,
    pub(super) settings: McpSettings,
    pub(super) offer: Offer,
    pub(super) info: ServerConfig,
}

impl Handler {
    /// A handler that runs its tools on `yard`, for requests that each say who sent them.
    #[must_use]
    pub fn new(yard: Yard, settings: McpSettings) -> Self {
        let offer = Offer::of(&settings.dialects, &settings.dialect);
        events::tools_offered(offer.names());
        let info = info(&settings);
        let shared = Arc::new(Shared { yard, settings, offer, info });
        Self { shared, subscriptions: Arc::default(), callers: Callers::Each, cwd: None }
    }

    /// The same server for another connection, which follows nothing yet.
    #[must_use]
    pub fn for_connection(&self) -> Self {
        Self { subscriptions: Arc::default(), ..self.clone() }
    }

    /// The same server for a connection of which all requests come from one caller.
    #[must_use]
    pub fn for_caller(&self, identity: Identity) -> Self {
        Self { callers: Callers::One(identity), ..self.for_connection() }
    }

    /// The same, with jobs that name no directory in this one.
    #[must_use]
    pub fn in_directory(self, cwd: &Path) -> Self {
        Self { cwd: Some(cwd.into()), ..self }
    }

    /// That there is no such method, or none in the era of the request, and where to look. A
    /// server that says of itself only what another one says words it as that one does.
    pub(super) fn unknown_method(&self, name: &str) -> ErrorData {
        let given: String = name.chars().take(60).collect();
        let where_to_look = match self.shared.settings.server_name {
            ServerName::Shellyard => "; server/discover, or initialize, tells what is offered",
            ServerName::McpzShell => "",
        };
        let message = format!("Method not found: {given}{where_to_look}");
        ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.shared.info.clone()
    }

    /// As rmcp does it, but for the extension, which is none of the legacy era's.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        result.capabilities.extensions = None;
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.offer.definitions().iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.is_some_and(|request| request.cursor.is_some()) {
            let message = "unknown cursor: all tools are on the first page; leave cursor out";
            return Err(ErrorData::invalid_params(message, None));
        }
        let role = self.callers.of(&context)?.role;
        let mut result = ListToolsResult::with_all_items(self.shared.offer.definitions_for(role));
        if is_modern(&context) {
            result = result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private);
        }
        self.stamp_modern(&context, &mut result.meta);
        Ok(result)
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Shared { settings, offer, .. } = &*self.shared;
        let tool = offer.find(&request.name)?;
        let desk = &self.desk(&context)?;
        let arguments = request.arguments.take();
        let budget = TokenBudget::asked(arguments.as_ref(), settings.max_tokens);
        let task_after = tasks::are_known_to(&context).then_some(settings.task_grace);
        let answered = Answered::by(&request);
        let call = Call { desk, settings, request: &context, budget, task_after, answered };
        if !tool.runs() {
            // Only jobs are numbered in the order of their calls.
            Turn::end(&context);
        }
        let mut response = answer(tool, call, arguments).await;
        note_job(desk, &context);
        if let Some(meta) = meta_of(&mut response) {
            self.stamp_modern(&context, meta);
        }
        Ok(response)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let desk = self.task_desk("tasks/get", &context)?;
        let looked = tasks::get(&desk, &self.shared.settings, &context, &request.task_id).await;
        note_job(&desk, &context);
        let mut result = looked?;
        self.stamp_task(&mut result);
        Ok(result)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let desk = self.task_desk("tasks/update", &context)?;
        let updated = tasks::update(&desk, &request.task_id, &request.input_responses).await;
        note_job(&desk, &context);
        updated
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let desk = self.task_desk("tasks/cancel", &context)?;
        let cancelled = tasks::cancel(&desk, &request.task_id).await;
        note_job(&desk, &context);
        cancelled
    }

    /// rmcp hands over every request that it could not read: unknown methods, and known ones
    /// whose params do not fit.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let era = if is_modern(&context) { Eras::Modern } else { Eras::Legacy };
        Err(misfit(&request, era).unwrap_or_else(|| self.unknown_method(&request.method)))
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let result = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let desk = self.desk(&context)?;
        let mut result = CompleteResult::new(completion::complete(&desk, &request).await?);
        self.stamp_modern(&context, &mut result.meta);
        Ok(result)
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut result = ListPromptsResult::default();
        self.stamp_modern(&context, &mut result.meta);
        Ok(result)
    }

    async fn get_prompt(
        &self,
        _request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Err(match self.shared.info.capabilities.prompts {
            Some(_) => ErrorData::invalid_params("no such prompt: this server has none", None),
            None => self.unknown_method("prompts/get"),
        })
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let desk = &self.desk(&context)?;
        if !is_modern(&context) {
            // Before the look at the list, so that no job is missed. Who never looks at it is
            // not bothered.
            self.subscriptions.follow_list(desk, context.peer.clone()).await;
        }
        let cursor = request.and_then(|request| request.cursor);
        let mut result = resources::list(desk, cursor.as_deref()).await?;
        self.stamp_modern(&context, &mut result.meta);
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut result = ListResourceTemplatesResult::with_all_items(resources::templates());
        if is_modern(&context) {
            result = result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public);
        }
        self.stamp_modern(&context, &mut result.meta);
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (desk, most) = (self.desk(&context)?, self.shared.settings.max_page_bytes);
        let mut result = resources::read(&desk, &request.uri, most).await?;
        self.stamp_modern(&context, &mut result.meta);
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let desk = self.desk(&context)?;
        self.subscriptions.follow(&desk, &request.uri, context.peer).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.forget(request.uri).await;
        Ok(())
    }

    /// All that is asked for. What does not exist is told when listening begins, in words.
    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let desk = self.desk(context.request_context())?;
        self.subscriptions.listen(&desk, &context).await
    }
}

/// What the server says of itself.
fn info(settings: &McpSettings) -> ServerConfig {
    // What it says of the native tools would mislead those who do not see them.
    let has_native = settings.dialects.contains(&Dialect::Native);
    let instructions = if has_native { INSTRUCTIONS } else { OTHER_INSTRUCTIONS };
    let tools = ServerCapabilities::builder().enable_tools();
    match settings.server_name {
        ServerName::Shellyard => {
            let tools = if has_native { tools.enable_tasks() } else { tools };
            let capabilities = tools
                .enable_resources()
                .enable_resources_subscribe()
                .enable_resources_list_changed()
                .enable_prompts()
                .enable_completions()
                .build();
            ServerConfig::new(capabilities)
                .with_server_info(introduction::of_shellyard())
                .with_instructions(instructions)
        }
        ServerName::McpzShell => {
            ServerConfig::new(tools.build()).with_server_info(introduction::of("mcpz-shell"))
        }
    }
}

/// What is wrong with the params of a request that rmcp could not read; nothing where the method
/// is not there.
fn misfit(request: &CustomRequest, era: Eras) -> Option<ErrorData> {
    let method = &request.method;
    let is_offered =
        |(offered, eras): &(&str, Eras)| offered == method && (*eras == era || *eras == Eras::Both);
    METHODS.iter().find(|it| is_offered(it))?;
    let why = match request.params_as::<CallToolRequestParams>() {
        Err(error) if method == "tools/call" => format!(": {error}"),
        Ok(None) if method == "tools/call" => ": there are none".to_owned(),
        Ok(_) | Err(_) => String::new(),
    };
    Some(ErrorData::invalid_params(format!("the params of {method} do not fit{why}"), None))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn misshaped_params_of_a_known_method_are_told_from_an_unknown_method() {
        let told = |method: &str, params: Option<Value>, era| {
            let error = misfit(&CustomRequest::new(method, params), era)?;
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{method} {era:?}");
            Some(error.message)
        };
        let params = Some(json!({"name": "run_command", "arguments": "ls"}));
        let message = told("tools/call", params, Eras::Modern).unwrap();
        assert!(message.contains("expected a map"), "{message}");
        assert!(told("tools/call", None, Eras::Legacy).is_some());
        assert_eq!(told("tools/explode", None, Eras::Legacy), None);
        assert!(told("initialize", None, Eras::Legacy).is_some());
        assert_eq!(told("initialize", None, Eras::Modern), None);
        assert!(told("server/discover", None, Eras::Modern).is_some());
    }
}
