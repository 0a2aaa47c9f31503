//! The rmcp handler: answers protocol requests from one shared server state.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, DiscoverResult, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerConfig, SubscribeRequestParams, SubscriptionFilter, TaskPayload,
    Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::common::http_header::HEADER_SESSION_ID;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::approvals::ApprovalRetry;
use super::instrumented_handler::OperationContext;
use super::reply::{TokenBudget, read_digest_resource};
use super::server_info::{
    Eras, OfferedMethods, build_server_config, list_methods, method_not_found_error,
    protocol_versions,
};
use super::settings::McpSettings;
use super::subscriptions::{Notifier, Subscriptions};
use super::tool_set::ToolSet;
use super::tools::{CallTurn, ToolCall};
use super::{resources, server_info, tasks};
use crate::ids::{CallerSession, TenantId};
use crate::service::{CallerIdentity, JobService, JobVariables, TenantClient};
use crate::spec::JobClient;
use crate::telemetry::labels;

/// The time for which clients may cache results that cannot change while the server runs.
const TTL_MS: u64 = 3_600_000;

/// The MCP server on top of one job service. Clones are cheap and belong to the same connection.
#[derive(Debug, Clone)]
pub struct Handler {
    pub(super) shared: Arc<ServerState>,
    subscriptions: Arc<Subscriptions>,
    pub(super) callers: CallerSource,
    /// The default directory of jobs, if it is not the server's.
    pub(super) cwd: Option<Arc<Path>>,
    /// The variables that jobs inherit, if they are not the server's.
    variables: Option<Arc<JobVariables>>,
}

#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) service: JobService,
    pub(super) settings: McpSettings,
    pub(super) tool_set: ToolSet,
    pub(super) info: ServerConfig,
    /// The number of connections with a caller of their own so far.
    connections: AtomicU64,
    /// The client that introduced itself first.
    first_client: watch::Sender<Option<JobClient>>,
}

impl Handler {
    /// Creates a handler that runs its tools on `service`; each request carries its caller's
    /// identity.
    #[must_use]
    pub fn new(service: JobService, settings: McpSettings) -> Self {
        let tool_set = ToolSet::new(&settings.dialects, &settings.dialect);
        let info = build_server_config(&settings);
        let shared = Arc::new(ServerState {
            service,
            settings,
            tool_set,
            info,
            connections: AtomicU64::new(0),
            first_client: watch::Sender::default(),
        });
        Self {
            shared,
            subscriptions: Arc::default(),
            callers: CallerSource::PerRequest,
            cwd: None,
            variables: None,
        }
    }

    /// Returns a handler for another connection, without subscriptions.
    #[must_use]
    pub fn for_connection(&self) -> Self {
        Self { subscriptions: Arc::default(), ..self.clone() }
    }

    /// Returns a handler for a connection whose requests all come from one caller.
    #[must_use]
    pub fn for_caller(&self, identity: CallerIdentity) -> Self {
        let connection = self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let callers = CallerSource::Fixed { identity, connection };
        Self { callers, ..self.for_connection() }
    }

    /// Sets the default directory of jobs.
    #[must_use]
    pub fn with_directory(self, cwd: &Path) -> Self {
        Self { cwd: Some(cwd.into()), ..self }
    }

    /// Sets the environment from which jobs inherit. What the server's rules deny does not pass.
    /// `withheld` are the names of variables that the client has but has not sent.
    #[must_use]
    pub fn with_environment(
        self,
        environment: Vec<(OsString, OsString)>,
        withheld: Vec<String>,
    ) -> Self {
        let variables = self.shared.service.select_variables(environment, withheld);
        Self { variables: Some(Arc::new(variables)), ..self }
    }

    /// The client that introduced itself first: the only client of a server on standard input and
    /// output.
    #[must_use]
    pub fn first_client(&self) -> Option<JobClient> {
        self.shared.first_client.borrow().clone()
    }

    /// Returns once a client has introduced itself.
    pub async fn wait_for_client(&self) {
        let mut client = self.shared.first_client.subscribe();
        // The sender lives as long as this handler.
        client.wait_for(Option::is_some).await.ok();
    }

    /// The requests that this server answers on JSON lines.
    #[must_use]
    pub fn offered_methods(&self) -> OfferedMethods {
        self.shared.settings.server_name.into()
    }
}

/// The error for a method that does not exist in the era of the request.
fn unknown_method_error(name: &str) -> ErrorData {
    method_not_found_error(name, "; server/discover, or initialize, tells what is offered")
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.shared.info.clone()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(protocol_versions(self.shared.settings.server_name))
    }

    /// Like rmcp's default, but without extensions: the legacy era has none.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        self.remember_client(&self.tenant_client(&context)?);
        result.capabilities.extensions = None;
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.tool_set.definitions().iter().find(|tool| tool.name == name).cloned()
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
        let role = self.callers.identify(&context)?.role;
        let mut tools = self.shared.tool_set.definitions_for(role);
        let client = self.tenant_client(&context)?;
        tools.retain(|tool| client.offers_file_tool(&tool.name));
        let mut result = ListToolsResult::with_all_items(tools);
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
        let ServerState { settings, tool_set, .. } = &*self.shared;
        let tool = tool_set.find(&request.name)?;
        let client = &self.tenant_client(&context)?;
        self.remember_client(client);
        let arguments = request.arguments.take();
        let budget = TokenBudget::from_call(arguments.as_ref(), settings.reply_tokens());
        let approval = ApprovalRetry::from_request(&request);
        let long_runs = tasks::choose_long_runs(&context);
        let call = ToolCall { client, settings, request: &context, budget, long_runs, approval };
        if !tool.starts_jobs() {
            // Only calls that start jobs must keep their order.
            CallTurn::end(&context);
        }
        let mut response = tool.call(call, arguments).await;
        record_job(client, &context);
        if let Some(meta) = response_meta(&mut response) {
            self.stamp_modern(&context, meta);
        }
        Ok(response)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = self.task_client("tasks/get", &context)?;
        let found = tasks::get(&client, &self.shared.settings, &context, &request.task_id).await;
        record_job(&client, &context);
        let mut result = found?;
        self.stamp_task(&mut result);
        Ok(result)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.task_client("tasks/update", &context)?;
        let updated = tasks::update(&client, &request.task_id, &request.input_responses).await;
        record_job(&client, &context);
        updated
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.task_client("tasks/cancel", &context)?;
        let cancelled = tasks::cancel(&client, &request.task_id).await;
        record_job(&client, &context);
        cancelled
    }

    /// rmcp passes every request here that it could not parse: unknown methods, and known ones with
    /// invalid params.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let era = if is_modern(&context) { Eras::Modern } else { Eras::Legacy };
        Err(find_params_error(&request, era)
            .unwrap_or_else(|| unknown_method_error(&request.method)))
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
        let client = self.tenant_client(&context)?;
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
        Err(ErrorData::invalid_params("no such prompt: this server has none", None))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let client = &self.tenant_client(&context)?;
        if !is_modern(&context) {
            // Subscribed before the list is read, so that no job is missed. Clients that never list
            // get no notifications.
            self.subscriptions.follow_list(client, Notifier::for_legacy(&context)).await;
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
        let mut result = ListResourceTemplatesResult::with_all_items(resources::list_templates());
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
        let client = self.tenant_client(&context)?;
        let most = self.shared.settings.max_page_bytes;
        let mut result = match read_digest_resource(&client, &request.uri, most).await {
            Some(digest) => digest?,
            None => resources::read(&client, &request.uri, most).await?,
        };
        self.stamp_modern(&context, &mut result.meta);
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.tenant_client(&context)?;
        self.subscriptions.follow(&client, &request.uri, Notifier::for_legacy(&context)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.unfollow(request.uri).await;
        Ok(())
    }

    /// Accepts every filter. `listen` reports what does not exist, with an error text.
    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let client = self.tenant_client(context.request_context())?;
        self.subscriptions.listen(&client, &context).await
    }
}

/// Returns the error for invalid params of a known method; `None` if the method does not exist in
/// this era.
fn find_params_error(request: &CustomRequest, era: Eras) -> Option<ErrorData> {
    let method = &request.method;
    let is_offered =
        |(offered, eras): &(&str, Eras)| offered == method && (*eras == era || *eras == Eras::Both);
    list_methods().find(is_offered)?;
    let why = match request.params_as::<CallToolRequestParams>() {
        Err(error) if method == "tools/call" => format!(": {error}"),
        Ok(None) if method == "tools/call" => ": there are none".to_owned(),
        Ok(_) | Err(_) => String::new(),
    };
    Some(ErrorData::invalid_params(format!("the params of {method} do not fit{why}"), None))
}

/// The source of a caller's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerSource {
    /// All requests of the connection with this number come from this caller.
    Fixed { identity: CallerIdentity, connection: u64 },
    /// The HTTP guard put the identity into the extensions of each request.
    PerRequest,
}

impl CallerSource {
    /// Returns the sender of a request. An unknown sender is an error: a guess would be a security
    /// hole.
    pub(super) fn identify(
        self,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallerIdentity, ErrorData> {
        match self {
            Self::Fixed { identity, .. } => Ok(identity),
            Self::PerRequest => {
                let parts = context.extensions.get::<Parts>();
                let identity = parts.and_then(|parts| parts.extensions.get::<CallerIdentity>());
                identity.copied().ok_or_else(|| {
                    ErrorData::internal_error("the caller of this request is not known", None)
                })
            }
        }
    }

    /// Returns the session of a request; `None` if its transport has none.
    fn session(self, context: &RequestContext<RoleServer>) -> Option<CallerSession> {
        match self {
            Self::Fixed { connection, .. } => Some(CallerSession::Connection(connection)),
            Self::PerRequest => {
                let id = context.extensions.get::<Parts>()?.headers.get(HEADER_SESSION_ID)?;
                Some(CallerSession::Http(id.to_str().ok()?.into()))
            }
        }
    }
}

const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The first protocol version of the modern era.
const MODERN: ProtocolVersion = ProtocolVersion::V_2026_07_28;

impl Handler {
    /// Adds the server's name to a result's metadata; the modern era requires it on each result.
    pub(super) fn stamp_modern(
        &self,
        context: &RequestContext<RoleServer>,
        meta: &mut Option<MetaObject>,
    ) {
        if is_modern(context) {
            meta.get_or_insert_default().insert(SERVER.to_owned(), self.name());
        }
    }

    /// Adds the server's name to a task result, and to the call result inside a completed task.
    fn stamp_task(&self, task: &mut GetTaskResult) {
        if let TaskPayload::Completed { result } = &mut task.task.payload {
            result.insert("_meta".to_owned(), json!({SERVER: self.name()}));
        }
        task.meta.get_or_insert_default().insert(SERVER.to_owned(), self.name());
    }

    fn name(&self) -> Value {
        server_info::stamp(&self.shared.info.server_info)
    }
}

/// `true` if a request uses a protocol version of the modern era.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= MODERN)
}

/// Returns the metadata of a response.
pub(super) fn response_meta(response: &mut CallToolResponse) -> Option<&mut Option<MetaObject>> {
    match response {
        CallToolResponse::Complete(result) => Some(&mut result.meta),
        CallToolResponse::InputRequired(result) => Some(&mut result.meta),
        CallToolResponse::Task(result) => Some(&mut result.meta),
        _ => None,
    }
}

impl Handler {
    /// Returns the service as the caller of this request may use it.
    pub(super) fn tenant_client(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<TenantClient, ErrorData> {
        let info = context.client_info();
        let identity = self.callers.identify(context)?;
        let name = info.as_ref().map_or("unknown", |info| info.name.as_str());
        let client = self.shared.service.tenant_client(identity, name);
        let client = match &info {
            Some(info) => client.with_client_version(&info.version),
            None => client,
        };
        let client = match self.callers.session(context) {
            Some(session) => client.with_session(session),
            None => client,
        };
        let client = match OperationContext::trace(context) {
            Some(trace) => client.with_trace(trace),
            None => client,
        };
        let client = match &self.cwd {
            Some(cwd) => client.with_directory(Arc::clone(cwd)),
            None => client,
        };
        Ok(match &self.variables {
            Some(variables) => client.with_variables(Arc::clone(variables)),
            None => client,
        })
    }

    /// Remembers the first client. Modern clients introduce themselves with each call.
    fn remember_client(&self, client: &TenantClient) {
        self.shared.first_client.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(|| client.caller().job_client());
            is_first
        });
    }

    /// The tenant of a request, if it is known.
    pub(super) fn find_tenant(&self, context: &RequestContext<RoleServer>) -> Option<TenantId> {
        self.callers.identify(context).ok().map(|identity| identity.tenant)
    }

    /// The metric label of a tool: its name, if this server offers it.
    pub(super) fn tool_label(&self, name: &str) -> &'static str {
        self.shared.tool_set.names().find(|offered| *offered == name).unwrap_or(labels::OTHER)
    }

    /// `true` if this dialect is configured.
    #[cfg(feature = "conformance")]
    pub(super) fn has_dialect(&self, dialect: super::settings::ToolDialect) -> bool {
        self.shared.settings.dialects.contains(&dialect)
    }

    /// Returns the service as a caller outside MCP may use it.
    pub(super) fn client_for(&self, identity: CallerIdentity) -> TenantClient {
        self.shared.service.tenant_client(identity, "api")
    }

    /// `true` if this message calls a tool that runs, types, writes, stops or reads files of the
    /// host, or changes a task. Text that is not a message, or calls nothing that exists, does not.
    #[must_use]
    pub fn needs_run_role(&self, message: &[u8]) -> bool {
        self.shared.tool_set.needs_run_role(message).unwrap_or(false)
    }

    /// Returns the service for a task request; in the legacy era the method does not exist.
    fn task_client(
        &self,
        method: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<TenantClient, ErrorData> {
        if is_modern(context) {
            self.tenant_client(context)
        } else {
            Err(unknown_method_error(method))
        }
    }
}

/// Records which job a request was about, if any.
pub(super) fn record_job(client: &TenantClient, context: &RequestContext<RoleServer>) {
    if let Some(job) = client.first_job() {
        OperationContext::record_job(context, job);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[test]
    fn invalid_params_of_a_known_method_differ_from_an_unknown_method() {
        let error_message = |method: &str, params: Option<Value>, era| {
            let error = find_params_error(&CustomRequest::new(method, params), era)?;
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{method} {era:?}");
            Some(error.message)
        };
        let params = Some(json!({"name": "run_command", "arguments": "ls"}));
        let message = error_message("tools/call", params, Eras::Modern).unwrap();
        assert!(message.contains("expected a map"), "{message}");
        assert!(error_message("tools/call", None, Eras::Legacy).is_some());
        assert_eq!(error_message("tools/explode", None, Eras::Legacy), None);
        assert!(error_message("initialize", None, Eras::Legacy).is_some());
        assert_eq!(error_message("initialize", None, Eras::Modern), None);
        assert!(error_message("server/discover", None, Eras::Modern).is_some());
    }
}
