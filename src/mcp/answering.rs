//! A tool's answer to one call, whatever happens in it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use rmcp::model::{CallToolResult, JsonObject};

use super::offer::Offered;
use super::reply::{Answer, Foreign, ToolError};
use super::tools::Call;
use crate::telemetry::ErrorType;

/// What `tool` answers, secrets masked and within the call's budget. A caller whose role does not
/// allow it is told so, and nothing is done.
pub(super) async fn answer(
    tool: Offered,
    call: Call<'_>,
    arguments: Option<JsonObject>,
) -> CallToolResult {
    let (format, redactor) = (call.settings.result_format, call.desk.redactor());
    let is_allowed = tool.is_for(call.desk.caller().role);
    let forbidden = (!is_allowed).then_some(ToolError::ReadOnly { tool: tool.name() });
    match (tool, forbidden) {
        (Offered::Native(_), Some(error)) => error.into_answer().into_result(format),
        (Offered::Dialect(_), Some(error)) => Foreign::failure(error.to_string()).into_result(),
        (Offered::Native(tool), None) => answer_of(tool.name(), tool.call(call, arguments))
            .await
            .masked(&redactor)
            .within(call.budget, format)
            .into_result(format),
        (Offered::Dialect(tool), None) => {
            let arguments = arguments.unwrap_or_default();
            reply_of(tool.name(), tool.call(call, arguments)).await.masked(&redactor).into_result()
        }
    }
}

/// A tool's answer. A failure becomes one, and so does a panic: without an answer the caller
/// would wait for ever.
async fn answer_of(tool: &str, run: impl Future<Output = Result<Answer, ToolError>>) -> Answer {
    match AssertUnwindSafe(Box::pin(run)).catch_unwind().await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => error.into_answer(),
        Err(_) => Answer::failure(
            format!("{tool} failed inside the server; list_jobs shows what runs"),
            "internal",
        ),
    }
}

/// The same for a dialect's tool.
async fn reply_of(tool: &str, run: impl Future<Output = Foreign>) -> Foreign {
    let reply = AssertUnwindSafe(Box::pin(run)).catch_unwind().await;
    reply.unwrap_or_else(|_| Foreign::failure(format!("{tool} failed inside the server")))
}

/// What went wrong with a call, if anything did.
pub(super) fn error_of(result: &CallToolResult) -> Option<ErrorType> {
    (result.is_error == Some(true)).then_some(ErrorType::Tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::settings::ResultFormat;

    #[tokio::test]
    async fn a_tool_that_panics_is_answered_for() {
        let answer = answer_of("run_command", async { panic!("boom") }).await;
        assert!(answer.text().contains("run_command failed inside the server"));
        let result = answer.into_result(ResultFormat::Text);
        assert_eq!(error_of(&result), Some(ErrorType::Tool));
        let reply = reply_of("shell", async { panic!("boom") }).await;
        assert!(reply.is_error);
    }
}
