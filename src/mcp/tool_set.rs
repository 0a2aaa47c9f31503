//! The tools that are offered, by name: `tools/list` shows them, `tools/call` runs one.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, JsonObject, Tool};

use super::approvals::question_result;
use super::args::Args;
use super::dialect::{DialectReply, DialectTool};
use super::reply::{TokenBudget, ToolError};
use super::schema::{Effect, ToolSpec};
use super::settings::{Dialect, DialectSettings};
use super::tasks;
use super::tools::{
    Call, Response, answer_of, list_jobs, read_output, run_command, send_input, stop_jobs,
    wait_jobs,
};
use crate::service::CallerRole;

/// The tools of the dialects that were chosen.
#[derive(Debug)]
pub(super) struct Offer {
    tools: Vec<Offered>,
    definitions: Vec<Tool>,
}

/// A tool that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// One of our own.
    Native(ToolName),
    /// One that a requirement document describes.
    Dialect(DialectTool),
}

impl Offer {
    /// The tools of these dialects, in their order, each once.
    pub(super) fn of(dialects: &[Dialect], settings: &DialectSettings) -> Self {
        let mut tools: Vec<Offered> = Vec::new();
        for dialect in dialects {
            for tool in tools_of(*dialect) {
                if !tools.contains(&tool) {
                    tools.push(tool);
                }
            }
        }
        let definitions = tools.iter().map(|tool| tool.definition(settings)).collect();
        Self { tools, definitions }
    }

    /// The names of all of them.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// What each of them says about itself.
    pub(super) fn definitions(&self) -> &[Tool] {
        &self.definitions
    }

    /// The same of those that a caller in this role may call.
    pub(super) fn definitions_for(&self, role: CallerRole) -> Vec<Tool> {
        let all = self.tools.iter().zip(&self.definitions);
        all.filter(|(tool, _)| tool.is_for(role))
            .map(|(_, definition)| definition.clone())
            .collect()
    }

    /// The tool of this name, if it is offered.
    pub(super) fn find(&self, name: &str) -> Result<Offered, ErrorData> {
        self.tools.iter().copied().find(|tool| tool.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
            let given: String = name.chars().take(60).collect();
            let message = format!("Unknown tool: {given}; this server has {}", known.join(", "));
            ErrorData::invalid_params(message, None)
        })
    }
}

fn tools_of(dialect: Dialect) -> Vec<Offered> {
    if dialect == Dialect::Native {
        return ToolName::ALL.map(Offered::Native).to_vec();
    }
    DialectTool::of(dialect).iter().copied().map(Offered::Dialect).collect()
}

impl Offered {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Native(tool) => tool.name(),
            Self::Dialect(tool) => tool.name(),
        }
    }

    /// Whether a call of it may start a job.
    pub(super) const fn runs(self) -> bool {
        match self {
            Self::Native(tool) => matches!(tool, ToolName::RunCommand),
            Self::Dialect(tool) => tool.runs(),
        }
    }

    /// Whether a caller in this role may call it.
    pub(super) fn is_for(self, role: CallerRole) -> bool {
        let effect = match self {
            Self::Native(tool) => tool.spec().effect,
            Self::Dialect(tool) => tool.effect(),
        };
        match effect {
            Effect::Reads => true,
            // Whoever may look at jobs may not look around on the host.
            Effect::ReadsFiles | Effect::Runs | Effect::Writes | Effect::Ends => {
                role >= CallerRole::Run
            }
        }
    }

    fn definition(self, settings: &DialectSettings) -> Tool {
        match self {
            Self::Native(tool) => tool.spec().definition(),
            Self::Dialect(tool) => tool.definition(settings),
        }
    }
}

/// One of the tools.
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
    /// All of them, in the order in which they are listed.
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

    /// What it says about itself.
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

    pub(crate) async fn call(
        self,
        call: Call<'_>,
        arguments: Option<JsonObject>,
    ) -> Result<Response, ToolError> {
        let mut args = Args::new(arguments, self.spec().fields)?;
        args.whole(TokenBudget::ARGUMENT, TokenBudget::BOUNDS)?;
        match self {
            Self::RunCommand => run_command::call(call, args).await,
            Self::WaitJobs => wait_jobs::call(call, args).await.map(Response::Answer),
            Self::ReadOutput => read_output::call(call, args).await.map(Response::Answer),
            Self::ListJobs => list_jobs::call(call, args).await.map(Response::Answer),
            Self::SendInput => send_input::call(call, args).await.map(Response::Answer),
            Self::StopJobs => stop_jobs::call(call, args).await.map(Response::Answer),
        }
    }
}

/// What `tool` answers, secrets masked and within the call's budget. A caller whose role does not
/// allow it is told so, and nothing is done.
pub(super) async fn answer(
    tool: Offered,
    call: Call<'_>,
    arguments: Option<JsonObject>,
) -> CallToolResponse {
    let format = call.settings.result_format;
    let redactor = call.client.redactor();
    let is_allowed = tool.is_for(call.client.caller().role);
    let forbidden = (!is_allowed).then_some(ToolError::ReadOnly { tool: tool.name() });
    match (tool, forbidden) {
        (Offered::Native(_), Some(error)) => error.into_answer().into_result(format).into(),
        (Offered::Dialect(_), Some(error)) => {
            DialectReply::failure(error.to_string()).into_result().into()
        }
        (Offered::Native(tool), None) => {
            match answer_of(tool.name(), tool.call(call, arguments)).await {
                Response::Answer(answer) => call.result(answer).into(),
                Response::Task(job) => tasks::created(call, &job).await.into(),
                Response::Ask(question) => question_result(&question).into(),
                Response::Parked(parked) => tasks::created_parked(call, &parked).into(),
            }
        }
        (Offered::Dialect(tool), None) => {
            let arguments = arguments.unwrap_or_default();
            let reply = reply_of(tool.name(), tool.call(call, arguments)).await;
            reply.masked(&redactor).into_result().into()
        }
    }
}

/// The same for a dialect's tool.
async fn reply_of(tool: &str, run: impl Future<Output = DialectReply>) -> DialectReply {
    let reply = AssertUnwindSafe(Box::pin(run)).catch_unwind().await;
    reply.unwrap_or_else(|_| DialectReply::failure(format!("{tool} failed inside the server")))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::mcp::reply::Answer;
    use crate::mcp::settings::ResultFormat;

    fn offer(dialects: &[Dialect]) -> Offer {
        Offer::of(dialects, &DialectSettings::default())
    }

    #[test]
    fn a_mix_lists_each_tool_once_in_the_order_of_the_choice() {
        let offer = offer(&[Dialect::Execute, Dialect::Native, Dialect::Execute]);
        let names: Vec<&str> = offer.definitions().iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names[..2], ["execute", "run_command"]);
        assert_eq!(names.len(), 7);
    }

    #[test]
    fn tools_that_do_more_than_look_at_jobs_are_told_apart() {
        let dialects = [Dialect::Native, Dialect::ExecuteCommand, Dialect::ShellExec];
        let offer = offer(&dialects);
        let looking: Vec<&str> = offer
            .tools
            .iter()
            .filter(|tool| tool.is_for(CallerRole::Read))
            .map(|tool| tool.name())
            .collect();
        let expected = ["wait_jobs", "read_output", "list_jobs", "read_file_chunk"];
        assert_eq!(looking, expected);
    }

    #[test]
    fn only_what_is_offered_answers() {
        let offer = offer(&[Dialect::Native]);
        assert!(offer.find("run_command").is_ok());
        let refused = offer.find("execute").unwrap_err();
        assert!(refused.message.contains("this server has run_command"), "{}", refused.message);
    }

    fn listed() -> Vec<Value> {
        let definitions = ToolName::ALL.iter().map(|tool| tool.spec().definition());
        definitions.map(|tool| serde_json::to_value(tool).unwrap()).collect()
    }

    #[test]
    fn the_whole_list_fits_in_six_kilobytes() {
        let size = serde_json::to_string(&listed()).unwrap().len();
        assert!(size <= 6_000, "{size}");
    }

    #[test]
    fn each_description_is_short_enough_for_every_client() {
        for tool in ToolName::ALL {
            assert!(tool.spec().about.len() < 2048, "{}", tool.name());
        }
    }

    #[test]
    fn schemas_hold_nothing_that_a_client_trips_over() {
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
    fn every_tool_says_what_it_does_to_the_world() {
        for (tool, listed) in ToolName::ALL.into_iter().zip(listed()) {
            assert_eq!(listed["name"], tool.name());
            assert!(listed["annotations"]["readOnlyHint"].is_boolean());
        }
    }

    #[tokio::test]
    async fn a_tool_that_panics_is_answered_for() {
        let answer: Answer = answer_of("run_command", async { panic!("boom") }).await;
        assert!(answer.text().contains("run_command failed inside the server"));
        let result = answer.into_result(ResultFormat::Text);
        assert_eq!(result.is_error, Some(true));
        let reply = reply_of("shell", async { panic!("boom") }).await;
        assert!(reply.is_error);
    }
}
