//! The offered tools, native ones and those of dialects, by name: `tools/list` shows them, `tools/call`
//! runs one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, JsonObject, MetaObject, Tool};
use serde_json::Value;

use super::approvals::question_result;
use super::args::{Args, ToolEffect, ToolSpec, mark_optional_nullable};
use super::dialect::{
    DialectReply, execute, execute_command, read_file_chunk, run_shell_command, shell, shell_exec,
    shell_exec_args,
};
use super::reply::{NextCall, TokenBudget, ToolError, format_unreported};
use super::settings::{DialectSettings, ToolDialect};
use super::tasks;
use super::tools::{
    ToolCall, ToolResponse, list_jobs, read_output, reply_or_failure, run_command, send_input,
    stop_jobs, wait_jobs,
};
use crate::service::CallerRole;

/// The tools of the configured dialects.
#[derive(Debug)]
pub(super) struct ToolSet {
    tools: Vec<OfferedTool>,
    definitions: Vec<Tool>,
}

/// A tool that this server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfferedTool {
    Native(ToolName),
    Dialect(DialectTool),
}

impl ToolSet {
    /// Collects the tools of these dialects, in their order, each once.
    pub(super) fn new(dialects: &[ToolDialect], settings: &DialectSettings) -> Self {
        let mut tools: Vec<OfferedTool> = Vec::new();
        for dialect in dialects {
            for tool in list_tools_of(*dialect) {
                if !tools.contains(&tool) {
                    tools.push(tool);
                }
            }
        }
        let definitions = tools.iter().map(|tool| tool.definition(settings)).collect();
        Self { tools, definitions }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tools.iter().map(|tool| tool.name())
    }

    pub(super) fn definitions(&self) -> &[Tool] {
        &self.definitions
    }

    /// The definitions of the tools that a caller with this role may call.
    pub(super) fn definitions_for(&self, role: CallerRole) -> Vec<Tool> {
        let all = self.tools.iter().zip(&self.definitions);
        all.filter(|(tool, _)| tool.is_allowed_for(role))
            .map(|(_, definition)| definition.clone())
            .collect()
    }

    /// Returns `Some(true)` if a message needs the role `run`: it calls a tool that the role `read`
    /// may not call, or cancels a task or sends it input. `None` if it calls no offered tool and
    /// changes no task. If a key occurs twice, the last one wins, as in rmcp.
    pub(super) fn needs_run_role(&self, message: &[u8]) -> Option<bool> {
        let message: Value = serde_json::from_slice(message).ok()?;
        match message.get("method")?.as_str()? {
            "tools/call" => {
                let tool = self.find(message.get("params")?.get("name")?.as_str()?).ok()?;
                Some(!tool.is_allowed_for(CallerRole::Read))
            }
            "tasks/cancel" | "tasks/update" => Some(true),
            _ => None,
        }
    }

    /// Finds an offered tool by name.
    pub(super) fn find(&self, name: &str) -> Result<OfferedTool, ErrorData> {
        self.tools.iter().copied().find(|tool| tool.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
            let given: String = name.chars().take(60).collect();
            let message = format!("Unknown tool: {given}; this server has {}", known.join(", "));
            ErrorData::invalid_params(message, None)
        })
    }
}

fn list_tools_of(dialect: ToolDialect) -> Vec<OfferedTool> {
    if dialect == ToolDialect::Native {
        return ToolName::ALL.map(OfferedTool::Native).to_vec();
    }
    DialectTool::in_dialect(dialect).iter().copied().map(OfferedTool::Dialect).collect()
}

impl OfferedTool {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Native(tool) => tool.name(),
            Self::Dialect(tool) => tool.name(),
        }
    }

    /// `true` if a call may start a job.
    pub(super) const fn starts_jobs(self) -> bool {
        match self {
            Self::Native(tool) => matches!(tool, ToolName::RunCommand),
            Self::Dialect(tool) => tool.starts_jobs(),
        }
    }

    /// `true` if a caller with this role may call the tool.
    fn is_allowed_for(self, role: CallerRole) -> bool {
        let effect = match self {
            Self::Native(tool) => tool.spec().effect,
            Self::Dialect(tool) => tool.effect(),
        };
        match effect {
            ToolEffect::Reads => role >= CallerRole::Read,
            // The role for reading jobs does not include reading files of the host.
            ToolEffect::ReadsFiles | ToolEffect::Runs | ToolEffect::Writes | ToolEffect::Ends => {
                role >= CallerRole::Run
            }
        }
    }

    /// Calls the tool and returns its result, with secrets masked. If the caller's role does not
    /// allow it, the result says so and nothing is done.
    pub(super) async fn call(
        self,
        call: ToolCall<'_>,
        arguments: Option<JsonObject>,
    ) -> CallToolResponse {
        if !self.is_allowed_for(call.client.caller().role) {
            let refused = ToolError::ReadOnly { tool: self.name() };
            return match self {
                Self::Native(_) => refused.into_reply().into_result(call.settings.result_format),
                Self::Dialect(_) => DialectReply::failure(refused.to_string()).into_result(),
            }
            .into();
        }
        match self {
            Self::Native(tool) => tool.call(call, arguments).await,
            Self::Dialect(tool) => tool.call(call, arguments).await.into(),
        }
    }

    fn definition(self, settings: &DialectSettings) -> Tool {
        match self {
            Self::Native(tool) => tool.definition(),
            Self::Dialect(tool) => tool.definition(settings),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolName {
    RunCommand,
    WaitJobs,
    ReadOutput,
    ListJobs,
    SendInput,
    StopJobs,
}

impl ToolName {
    /// All native tools, in listing order.
    pub(crate) const ALL: [Self; 6] = [
        Self::RunCommand,
        Self::WaitJobs,
        Self::ReadOutput,
        Self::ListJobs,
        Self::SendInput,
        Self::StopJobs,
    ];

    pub(crate) const fn name(self) -> &'static str {
        self.spec().name
    }

    pub(crate) const fn spec(self) -> &'static ToolSpec {
        match self {
            Self::RunCommand => &run_command::SPEC,
            Self::WaitJobs => &wait_jobs::SPEC,
            Self::ReadOutput => &read_output::SPEC,
            Self::ListJobs => &list_jobs::SPEC,
            Self::SendInput => &send_input::SPEC,
            Self::StopJobs => &stop_jobs::SPEC,
        }
    }

    /// The definition that `tools/list` shows.
    fn definition(self) -> Tool {
        let definition = self.spec().definition();
        let sets_budget =
            self.spec().fields.iter().any(|field| field.name == TokenBudget::ARGUMENT);
        if sets_budget { definition.with_meta(build_result_size_meta()) } else { definition }
    }

    /// Calls the tool; the role of the caller was checked. Returns its result, with secrets masked and within the
    /// call's budget.
    async fn call(self, call: ToolCall<'_>, arguments: Option<JsonObject>) -> CallToolResponse {
        let run = async {
            let mut args = Args::new(arguments, self.spec().fields)?;
            args.whole(TokenBudget::ARGUMENT, TokenBudget::BOUNDS)?;
            match self {
                Self::RunCommand => run_command::call(call, args).await,
                Self::WaitJobs => wait_jobs::call(call, args).await.map(ToolResponse::Reply),
                Self::ReadOutput => read_output::call(call, args).await.map(ToolResponse::Reply),
                Self::ListJobs => list_jobs::call(call, args).await.map(ToolResponse::Reply),
                Self::SendInput => send_input::call(call, args).await.map(ToolResponse::Reply),
                Self::StopJobs => stop_jobs::call(call, args).await.map(ToolResponse::Reply),
            }
        };
        match reply_or_failure(self.name(), run).await {
            ToolResponse::Reply(reply) => {
                let notice = report_unreported(call).await;
                call.result_with_notice(reply, notice.as_deref()).into()
            }
            ToolResponse::Task(job) => tasks::create(call, &job).await.into(),
            ToolResponse::Ask(question) => question_result(&question).into(),
            ToolResponse::Parked(parked) => tasks::create_parked(call, &parked).into(),
        }
    }
}

/// The key by which a tool tells Claude Code how many characters its results may have. Without it,
/// a result above a lower limit becomes a file, of which the model sees a preview.
const RESULT_SIZE_KEY: &str = "anthropic/maxResultSizeChars";
/// The largest value of that key.
const MAX_RESULT_CHARS: usize = 500_000;

/// Returns the metadata of a tool whose calls set the budget of their replies. Clients read it with
/// the definition, before any call, so it holds for the largest budget that a call can ask for. That
/// is above the largest value of the key.
fn build_result_size_meta() -> MetaObject {
    let largest = TokenBudget::from_tokens(*TokenBudget::BOUNDS.end()).bytes();
    let characters = largest.min(MAX_RESULT_CHARS).into();
    MetaObject(JsonObject::from_iter([(RESULT_SIZE_KEY.to_owned(), characters)]))
}

/// Returns the lines about jobs whose calls this client gave up, without those that this call is
/// about; `None` if this call is given up itself.
async fn report_unreported(call: ToolCall<'_>) -> Option<String> {
    if call.request.ct.is_cancelled() {
        return None;
    }
    let mut unreported = Vec::new();
    for job in call.client.take_unreported().await {
        if !call.client.has_named(job.id()) {
            // Masked before it is cut: half a secret would not be recognized.
            let command =
                call.client.redactor().mask_text(&job.spec().program.display()).into_owned();
            unreported.push((call.snapshot(&job).await, command));
        }
    }
    format_unreported(&unreported, NextCall::for_dialects(&call.settings.dialects))
}

/// Runs a dialect's tool; a panic becomes a failure reply.
async fn dialect_reply_or_failure(
    tool: &str,
    run: impl Future<Output = DialectReply>,
) -> DialectReply {
    let reply = AssertUnwindSafe(Box::pin(run)).catch_unwind().await;
    reply.unwrap_or_else(|_| DialectReply::failure(format!("{tool} failed inside the server")))
}

/// A tool of one of the dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialectTool {
    Shell,
    Execute,
    RunShellCommand,
    ReadShellOutput,
    ExecuteCommand,
    ReadFile,
    WriteFile,
    ListDirectory,
    ShellExec,
    ReadFileChunk,
}

impl DialectTool {
    /// The tools of a dialect, in listing order. Native tools are not among them.
    const fn in_dialect(dialect: ToolDialect) -> &'static [Self] {
        match dialect {
            ToolDialect::Native => &[],
            #[cfg(feature = "conformance")]
            ToolDialect::Conformance => &[],
            ToolDialect::Shell => &[Self::Shell],
            ToolDialect::Execute => &[Self::Execute],
            ToolDialect::RunShellCommand => &[Self::RunShellCommand, Self::ReadShellOutput],
            ToolDialect::ExecuteCommand => {
                &[Self::ExecuteCommand, Self::ReadFile, Self::WriteFile, Self::ListDirectory]
            }
            ToolDialect::ShellExec => &[Self::ShellExec, Self::ReadFileChunk],
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Execute => "execute",
            Self::RunShellCommand => "run_shell_command",
            Self::ReadShellOutput => run_shell_command::READ_SHELL_OUTPUT,
            Self::ExecuteCommand => "execute_command",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::ListDirectory => "list_directory",
            Self::ShellExec => "shell_exec",
            Self::ReadFileChunk => "read_file_chunk",
        }
    }

    /// `true` if a call may start a job.
    pub(crate) const fn starts_jobs(self) -> bool {
        matches!(self.effect(), ToolEffect::Runs)
    }

    /// The definition that `tools/list` shows.
    pub(crate) fn definition(self, settings: &DialectSettings) -> Tool {
        let (about, schema) = match self {
            Self::Shell => (shell::ABOUT, shell::schema(&settings.shell)),
            Self::Execute => (execute::ABOUT, execute::schema()),
            Self::RunShellCommand => (run_shell_command::ABOUT, run_shell_command::schema()),
            Self::ReadShellOutput => (
                run_shell_command::READ_SHELL_OUTPUT_ABOUT,
                run_shell_command::read_shell_output_schema(),
            ),
            Self::ExecuteCommand => (execute_command::ABOUT, execute_command::schema()),
            Self::ReadFile => {
                (execute_command::READ_FILE_ABOUT, execute_command::read_file_schema())
            }
            Self::WriteFile => {
                (execute_command::WRITE_FILE_ABOUT, execute_command::write_file_schema())
            }
            Self::ListDirectory => {
                (execute_command::LIST_DIRECTORY_ABOUT, execute_command::list_directory_schema())
            }
            Self::ShellExec => (shell_exec_args::ABOUT, shell_exec_args::schema()),
            Self::ReadFileChunk => (read_file_chunk::ABOUT, read_file_chunk::schema()),
        };
        // A test checks that each schema is an object.
        let mut schema = schema.as_object().cloned().unwrap_or_default();
        mark_optional_nullable(&mut schema);
        let tool = Tool::new(self.name(), about, Arc::new(schema));
        // The document of `execute_command` prints the whole definition. Without annotations the
        // defaults of the protocol hold, which are those of a tool that runs commands.
        if self == Self::ExecuteCommand {
            return tool;
        }
        tool.with_annotations(self.effect().annotations())
    }

    /// Calls the tool; the role of the caller was checked. Returns its result, with secrets masked.
    async fn call(self, call: ToolCall<'_>, arguments: Option<JsonObject>) -> CallToolResult {
        let redactor = call.client.redactor();
        let run = self.run(call, arguments.unwrap_or_default());
        let reply = dialect_reply_or_failure(self.name(), run).await;
        let mut result = reply.masked(&redactor).into_result();
        if let Some(notice) = report_unreported(call).await {
            let notice = redactor.mask_text(&notice);
            // Some clients show nothing but structured content.
            if let Some(Value::Object(fields)) = &mut result.structured_content {
                fields.insert("notice".into(), notice.as_ref().into());
            }
            // A block of its own, after those that the dialect's document describes.
            result.content.push(ContentBlock::text(notice));
        }
        result
    }

    async fn run(self, call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
        match self {
            Self::Shell => shell::call(call, arguments).await,
            Self::Execute => execute::call(call, arguments).await,
            Self::RunShellCommand => run_shell_command::call(call, arguments).await,
            Self::ReadShellOutput => run_shell_command::read_shell_output(call, arguments).await,
            Self::ExecuteCommand => execute_command::call(call, arguments).await,
            Self::ReadFile => execute_command::read_file(call, arguments).await,
            Self::WriteFile => execute_command::write_file(call, arguments).await,
            Self::ListDirectory => execute_command::list_directory(call, arguments).await,
            Self::ShellExec => shell_exec::call(call, arguments).await,
            Self::ReadFileChunk => read_file_chunk::call(call, arguments).await,
        }
    }

    pub(crate) const fn effect(self) -> ToolEffect {
        match self {
            Self::Shell
            | Self::Execute
            | Self::RunShellCommand
            | Self::ExecuteCommand
            | Self::ShellExec => ToolEffect::Runs,
            Self::WriteFile => ToolEffect::Writes,
            Self::ReadFile | Self::ListDirectory => ToolEffect::ReadsFiles,
            Self::ReadFileChunk | Self::ReadShellOutput => ToolEffect::Reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::reply::ToolReply;
    use crate::mcp::settings::ResultFormat;

    fn tool_set(dialects: &[ToolDialect]) -> ToolSet {
        ToolSet::new(dialects, &DialectSettings::default())
    }

    #[test]
    fn mixed_dialects_list_each_tool_once_in_the_configured_order() {
        let tool_set = tool_set(&[ToolDialect::Execute, ToolDialect::Native, ToolDialect::Execute]);
        let names: Vec<&str> =
            tool_set.definitions().iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names[..2], ["execute", "run_command"]);
        assert_eq!(names.len(), 7);
    }

    #[test]
    fn the_read_role_allows_only_tools_that_read_jobs() {
        let dialects = [
            ToolDialect::Native,
            ToolDialect::RunShellCommand,
            ToolDialect::ExecuteCommand,
            ToolDialect::ShellExec,
        ];
        let tool_set = tool_set(&dialects);
        let looking: Vec<&str> = tool_set
            .tools
            .iter()
            .filter(|tool| tool.is_allowed_for(CallerRole::Read))
            .map(|tool| tool.name())
            .collect();
        let expected =
            ["wait_jobs", "read_output", "list_jobs", "read_shell_output", "read_file_chunk"];
        assert_eq!(looking, expected);
    }

    #[test]
    fn a_privileged_call_is_recognised_in_any_message() {
        let tool_set = tool_set(&[ToolDialect::Native]);
        let needs_run_role = |message: &str| tool_set.needs_run_role(message.as_bytes());
        let call = |tool: &str| {
            json!({"id": 1, "method": "tools/call", "params": {"name": tool}}).to_string()
        };
        assert_eq!(needs_run_role(&call("run_command")), Some(true));
        assert_eq!(needs_run_role(&call("list_jobs")), Some(false));
        assert_eq!(needs_run_role(&call("execute")), None, "not offered");
        let twice = r#"{"method":"ping","params":{"name":"list_jobs","name":"stop_jobs"},"method":"tools/call"}"#;
        assert_eq!(needs_run_role(twice), Some(true));
        for change in ["tasks/cancel", "tasks/update"] {
            assert_eq!(needs_run_role(&json!({"method": change}).to_string()), Some(true));
        }
        let look = r#"{"method":"tasks/get","params":{"taskId":"1"}}"#;
        let list = r#"{"method":"tools/list","params":{"name":"run_command"}}"#;
        for other in ["", "[]", "{}", look, list] {
            assert_eq!(needs_run_role(other), None, "{other}");
        }
    }

    #[test]
    fn only_offered_tools_are_found() {
        let tool_set = tool_set(&[ToolDialect::Native]);
        assert!(tool_set.find("run_command").is_ok());
        let refused = tool_set.find("execute").unwrap_err();
        assert!(refused.message.contains("this server has run_command"), "{}", refused.message);
    }

    fn listed() -> Vec<Value> {
        let definitions = ToolName::ALL.iter().map(|tool| tool.definition());
        definitions.map(|tool| serde_json::to_value(tool).unwrap()).collect()
    }

    #[test]
    fn the_whole_list_fits_in_seven_kilobytes() {
        let size = serde_json::to_string(&listed()).unwrap().len();
        assert!(size <= 7_000, "{size}");
    }

    #[test]
    fn tools_whose_calls_set_the_budget_name_their_largest_result() {
        let key = "anthropic/maxResultSizeChars";
        for tool in listed() {
            let sets_budget = tool["inputSchema"]["properties"].get("max_tokens").is_some();
            let expected = if sets_budget { Value::from(500_000) } else { Value::Null };
            assert_eq!(tool["_meta"][key], expected, "{tool}");
        }
    }

    #[test]
    fn each_description_is_short_enough_for_every_client() {
        for tool in ToolName::ALL {
            assert!(tool.spec().about.len() < 2048, "{}", tool.name());
        }
    }

    #[test]
    fn schemas_avoid_keywords_that_clients_reject() {
        const FORBIDDEN: [&str; 9] =
            ["$ref", "$schema", "$defs", "oneOf", "anyOf", "allOf", "format", "null", "const"];
        for tool in listed() {
            let schema = tool["inputSchema"].to_string();
            for word in FORBIDDEN {
                assert!(!schema.contains(&format!("\"{word}\"")), "{word} in {schema}");
            }
            assert_eq!(tool["inputSchema"]["additionalProperties"], Value::Bool(false));
            for (name, property) in tool["inputSchema"]["properties"].as_object().unwrap() {
                assert!(property["type"].is_string(), "{name}: {property}");
            }
        }
    }

    #[test]
    fn every_tool_has_annotations() {
        for (tool, listed) in ToolName::ALL.into_iter().zip(listed()) {
            assert_eq!(listed["name"], tool.name());
            assert!(listed["annotations"]["readOnlyHint"].is_boolean());
        }
    }

    #[tokio::test]
    async fn a_panic_in_a_tool_becomes_a_reply() {
        let reply: ToolReply = reply_or_failure("run_command", async { panic!("boom") }).await;
        assert!(reply.text().contains("run_command failed inside the server"));
        let result = reply.into_result(ResultFormat::Text);
        assert_eq!(result.is_error, Some(true));
        let reply = dialect_reply_or_failure("shell", async { panic!("boom") }).await;
        assert!(reply.is_error);
    }

    #[test]
    fn every_tool_has_a_schema_and_a_short_description() {
        let dialects = [
            ToolDialect::Shell,
            ToolDialect::Execute,
            ToolDialect::RunShellCommand,
            ToolDialect::ExecuteCommand,
            ToolDialect::ShellExec,
        ];
        for tool in dialects.into_iter().flat_map(DialectTool::in_dialect) {
            let definition = tool.definition(&DialectSettings::default());
            assert_eq!(definition.input_schema["type"], "object", "{}", tool.name());
            assert!(definition.input_schema["properties"].is_object(), "{}", tool.name());
            let about = definition.description.unwrap_or_default();
            assert!(!about.is_empty() && about.len() < 2048, "{}", tool.name());
        }
    }
}
