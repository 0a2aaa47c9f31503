//! Which tools there are, in the order in which they are listed.

use rmcp::model::JsonObject;

use super::call::Call;
use super::response::Response;
use super::{list_jobs, read_output, run_command, send_input, stop_jobs, wait_jobs};
use crate::mcp::args::Args;
use crate::mcp::reply::{TokenBudget, ToolError};
use crate::mcp::schema::ToolSpec;

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

    /// Its name on the wire.
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

    /// Runs it.
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

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
}
