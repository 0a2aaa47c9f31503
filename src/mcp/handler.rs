//! The rmcp handler: protocol requests in, results from one shared state out.

use std::path::Path;
use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerConfig, SubscribeRequestParams, SubscriptionFilter, TaskPayload,
    Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::approvals::Answered;
use super::instrumented_handler::Place;
use super::reply::TokenBudget;
use super::server_info::{Eras, methods, server_config};
use super::settings::{McpSettings, ServerName};
use super::subscriptions::Subscriptions;
use super::tool_set::Offer;
use super::tool_set::answer;
use super::tools::{Call, Turn};
use super::{resources, server_info, tasks};
use crate::ids::TenantId;
use crate::service::{CallerIdentity, CallerRole, JobHandle, JobService, TenantClient};
use crate::telemetry::{events, labels};

/// How long clients may keep what cannot change while the server runs.
const TTL_MS: u64 = 3_600_000;

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
    pub(super) service: JobService,
    pub(super) settings: McpSettings,
    pub(super) offer: Offer,
    pub(super) info: ServerConfig,
}

impl Handler {
    /// A handler that runs its tools on `service`, for requests that each say who sent them.
    #[must_use]
    pub fn new(service: JobService, settings: McpSettings) -> Self {
        let offer = Offer::of(&settings.dialects, &settings.dialect);
        events::tools_offered(offer.names());
        let info = server_config(&settings);
        let shared = Arc::new(Shared { service, settings, offer, info });
        Self { shared, subscriptions: Arc::default(), callers: Callers::Each, cwd: None }
    }

    /// The same server for another connection, which follows nothing yet.
    #[must_use]
    pub fn for_connection(&self) -> Self {
        Self { subscriptions: Arc::default(), ..self.clone() }
    }

    /// The same server for a connection of which all requests come from one caller.
    #[must_use]
    pub fn for_caller(&self, identity: CallerIdentity) -> Self {
        Self { callers: Callers::One(identity), ..self.for_connection() }
    }

    /// The same, with jobs that name no directory in this one.
    #[must_use]
    pub fn with_directory(self, cwd: &Path) -> Self {
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
        let client = &self.client(&context)?;
        let arguments = request.arguments.take();
        let budget = TokenBudget::asked(arguments.as_ref(), settings.max_tokens);
        let task_after = tasks::are_known_to(&context).then_some(settings.task_grace);
        let answered = Answered::by(&request);
        let call = Call { client, settings, request: &context, budget, task_after, answered };
        if !tool.runs() {
            // Only jobs are numbered in the order of their calls.
            Turn::end(&context);
        }
        let mut response = answer(tool, call, arguments).await;
        note_job(client, &context);
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
        let client = self.task_desk("tasks/get", &context)?;
        let looked = tasks::get(&client, &self.shared.settings, &context, &request.task_id).await;
        note_job(&client, &context);
        let mut result = looked?;
        self.stamp_task(&mut result);
        Ok(result)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.task_desk("tasks/update", &context)?;
        let updated = tasks::update(&client, &request.task_id, &request.input_responses).await;
        note_job(&client, &context);
        updated
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.task_desk("tasks/cancel", &context)?;
        let cancelled = tasks::cancel(&client, &request.task_id).await;
        note_job(&client, &context);
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
        let client = self.client(&context)?;
        let mut result = CompleteResult::new(resources::complete(&client, &request).await?);
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
        let client = &self.client(&context)?;
        if !is_modern(&context) {
            // Before the look at the list, so that no job is missed. Who never looks at it is
            // not bothered.
            self.subscriptions.follow_list(client, context.peer.clone()).await;
        }
        let cursor = request.and_then(|request| request.cursor);
        let mut result = resources::list(client, cursor.as_deref()).await?;
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
        let client = self.client(&context)?;
        let most = self.shared.settings.max_page_bytes;
        let mut result = resources::read(&client, &request.uri, most).await?;
        self.stamp_modern(&context, &mut result.meta);
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.client(&context)?;
        self.subscriptions.follow(&client, &request.uri, context.peer).await
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
        let client = self.client(context.request_context())?;
        self.subscriptions.listen(&client, &context).await
    }
}

/// What is wrong with the params of a request that rmcp could not read; nothing where the method
/// is not there.
fn misfit(request: &CustomRequest, era: Eras) -> Option<ErrorData> {
    let method = &request.method;
    let is_offered =
        |(offered, eras): &(&str, Eras)| offered == method && (*eras == era || *eras == Eras::Both);
    methods().find(is_offered)?;
    let why = match request.params_as::<CallToolRequestParams>() {
        Err(error) if method == "tools/call" => format!(": {error}"),
        Ok(None) if method == "tools/call" => ": there are none".to_owned(),
        Ok(_) | Err(_) => String::new(),
    };
    Some(ErrorData::invalid_params(format!("the params of {method} do not fit{why}"), None))
}

/// Where a handler learns who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callers {
    /// All requests of this connection come from one.
    One(CallerIdentity),
    /// The HTTP guard left it beside each request.
    Each,
}

impl Callers {
    /// Who sent this request; an error where nobody said, since guessing would open a door.
    pub(super) fn of(
        self,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallerIdentity, ErrorData> {
        match self {
            Self::One(identity) => Ok(identity),
            Self::Each => {
                let parts = context.extensions.get::<Parts>();
                let identity = parts.and_then(|parts| parts.extensions.get::<CallerIdentity>());
                identity.copied().ok_or_else(|| {
                    ErrorData::internal_error("the caller of this request is not known", None)
                })
            }
        }
    }
}

const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The first version of the modern era.
const MODERN: ProtocolVersion = ProtocolVersion::V_2026_07_28;

impl Handler {
    /// Names this server in a result's metadata, as the modern era wants it on each result.
    pub(super) fn stamp_modern(
        &self,
        context: &RequestContext<RoleServer>,
        meta: &mut Option<MetaObject>,
    ) {
        if is_modern(context) {
            meta.get_or_insert_default().insert(SERVER.to_owned(), self.name());
        }
    }

    /// The same in what a task tells, and in the result that one has which is over.
    pub(super) fn stamp_task(&self, looked: &mut GetTaskResult) {
        if let TaskPayload::Completed { result } = &mut looked.task.payload {
            result.insert("_meta".to_owned(), json!({SERVER: self.name()}));
        }
        looked.meta.get_or_insert_default().insert(SERVER.to_owned(), self.name());
    }

    fn name(&self) -> Value {
        server_info::stamp(&self.shared.info.server_info)
    }
}

/// Whether a request is of the modern era.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= MODERN)
}

/// Where the metadata of a response stands.
pub(super) fn meta_of(response: &mut CallToolResponse) -> Option<&mut Option<MetaObject>> {
    match response {
        CallToolResponse::Complete(result) => Some(&mut result.meta),
        CallToolResponse::InputRequired(result) => Some(&mut result.meta),
        CallToolResponse::Task(result) => Some(&mut result.meta),
        _ => None,
    }
}

impl Handler {
    /// What the caller of a request sees of the yard.
    pub(super) fn client(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<TenantClient, ErrorData> {
        let client = context.client_info().map(|info| info.name);
        let identity = self.callers.of(context)?;
        let client =
            self.shared.service.tenant_client(identity, client.as_deref().unwrap_or("unknown"));
        let client = match Place::trace(context) {
            Some(trace) => client.with_trace(trace),
            None => client,
        };
        Ok(match &self.cwd {
            Some(cwd) => client.with_directory(Arc::clone(cwd)),
            None => client,
        })
    }

    /// Whose request it is, where that is known.
    pub(super) fn tenant_of(&self, context: &RequestContext<RoleServer>) -> Option<TenantId> {
        self.callers.of(context).ok().map(|identity| identity.tenant)
    }

    /// The word under which calls of this tool are counted: its name, if it is offered.
    pub(super) fn tool_word(&self, name: &str) -> &'static str {
        self.shared.offer.names().find(|offered| *offered == name).unwrap_or(labels::OTHER)
    }

    /// Whether this dialect was chosen.
    #[cfg(feature = "conformance")]
    pub(super) fn speaks(&self, dialect: super::settings::Dialect) -> bool {
        self.shared.settings.dialects.contains(&dialect)
    }

    /// The jobs of all tenants, newest first.
    pub(super) async fn all(&self) -> Vec<JobHandle> {
        self.shared.service.list_all().await
    }

    /// What a caller sees of the yard who is no MCP client.
    pub(super) fn desk_of(&self, identity: CallerIdentity) -> TenantClient {
        self.shared.service.tenant_client(identity, "api")
    }

    /// Whether this message calls a tool that runs, types, writes or stops, or changes a task.
    /// What is no message, or calls nothing that there is, does not.
    #[must_use]
    pub fn needs_run(&self, message: &[u8]) -> bool {
        match Called::by(message) {
            Some(Called::Tool(name)) => {
                self.shared.offer.find(&name).is_ok_and(|tool| !tool.is_for(CallerRole::Read))
            }
            Some(Called::TaskChange) => true,
            None => false,
        }
    }

    /// What a caller sees of the yard who asks for a task; those who came before tasks know none.
    pub(super) fn task_desk(
        &self,
        method: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<TenantClient, ErrorData> {
        if is_modern(context) { self.client(context) } else { Err(self.unknown_method(method)) }
    }
}

/// Tells which job a request was about, if it was about one.
pub(super) fn note_job(client: &TenantClient, context: &RequestContext<RoleServer>) {
    if let Some(job) = client.first_job() {
        Place::note_job(context, job);
    }
}

/// What a message does that not everybody may do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// It calls the tool of this name.
    Tool(String),
    /// It ends a task, or answers one.
    TaskChange,
}

impl Called {
    /// Read as rmcp reads it: the last of two equal keys counts.
    pub(super) fn by(message: &[u8]) -> Option<Self> {
        let message: Value = serde_json::from_slice(message).ok()?;
        match message.get("method")?.as_str()? {
            "tools/call" => {
                let name = message.get("params")?.get("name")?.as_str()?;
                Some(Self::Tool(name.to_owned()))
            }
            "tasks/cancel" | "tasks/update" => Some(Self::TaskChange),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn what_a_message_calls_is_found_in_any_form() {
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "run_command"}});
        let tool = |name: &str| Some(Called::Tool(name.to_owned()));
        assert_eq!(Called::by(call.to_string().as_bytes()), tool("run_command"));
        let twice = br#"{"method":"ping","params":{"name":"a","name":"b"},"method":"tools/call"}"#;
        assert_eq!(Called::by(twice), tool("b"));
        for change in ["tasks/cancel", "tasks/update"] {
            let message = json!({"method": change}).to_string();
            assert_eq!(Called::by(message.as_bytes()), Some(Called::TaskChange));
        }
        let look = r#"{"method":"tasks/get","params":{"taskId":"1"}}"#;
        let list = r#"{"method":"tools/list","params":{"name":"run_command"}}"#;
        for other in ["", "[]", "{}", look, list] {
            assert_eq!(Called::by(other.as_bytes()), None, "{other}");
        }
    }
}
