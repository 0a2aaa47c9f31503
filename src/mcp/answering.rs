//! A tool's answer to one call, whatever happens in it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use rmcp::model::{CallToolResponse, CallToolResult, JsonObject};

use super::offer::Offered;
use super::reply::{Answer, Foreign, ToolError, question_result};
use super::tasks;
use super::tools::{Call, Response};
use crate::telemetry::ErrorType;

/// What `tool` answers, secrets masked and within the call's budget. A caller whose role does not
/// allow it is told so, and nothing is done.
pub(super) async fn answer(
    tool: Offered,
    call: Call<'_>,
    arguments: Option<JsonObject>,
) -> CallToolResponse {
    let (format, redactor) = (call.settings.result_format, call.desk.redactor());
    let is_allowed = tool.is_for(call.desk.caller().role);
    let forbidden = (!is_allowed).then_some(ToolError::ReadOnly { tool: tool.name() });
    match (tool, forbidden) {
        (Offered::Native(_), Some(error)) => error.into_answer().into_result(format).into(),
        (Offered::Dialect(_), Some(error)) => {
            Foreign::failure(error.to_string()).into_result().into()
        }
        (Offered::Native(tool), None) => {
            match answer_of(tool.name(), tool.call(call, arguments)).await {
                Response::Answer(answer) => sent(call, answer).into(),
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

/// An answer as it goes to the client of a call.
pub(super) fn sent(call: Call<'_>, answer: Answer) -> CallToolResult {
    let format = call.settings.result_format;
    answer.masked(&call.desk.redactor()).within(call.budget, format).into_result(format)
}

/// What is said to a call. A failure is said as well, and so is a panic: without an answer the
/// caller would wait for ever.
pub(super) async fn answer_of<T: From<Answer>>(
    tool: &str,
    run: impl Future<Output = Result<T, ToolError>>,
) -> T {
    match AssertUnwindSafe(Box::pin(run)).catch_unwind().await {
        Ok(Ok(said)) => said,
        Ok(Err(error)) => error.into_answer().into(),
        Err(_) => Answer::failure(
            format!("{tool} failed inside the server; list_jobs shows what runs"),
            "internal",
        )
        .into(),
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
        let answer: Answer = answer_of("run_command", async { panic!("boom") }).await;
        assert!(answer.text().contains("run_command failed inside the server"));
        let result = answer.into_result(ResultFormat::Text);
        assert_eq!(error_of(&result), Some(ErrorType::Tool));
        let reply = reply_of("shell", async { panic!("boom") }).await;
        assert!(reply.is_error);
    }
}
