//! Approval of commands that a policy rule lets run only after a person agrees.
//!
//! ```text
//! legacy   elicitation/create while the call waits            → submit, or a refusal
//! modern   reply input_required; the call repeats with answer → submit, or a refusal
//! modern   task input_required; tasks/update has the answer   → the same, if the client has tasks
//! others   the refusal says how to allow the command
//! ```
//!
//! The service judges the command again when the approval arrives. An approval is valid for exactly
//! that command.

use std::future::ready;
use std::ops::ControlFlow;
use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ElicitationSchema, EnumSchema, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};

use super::reply::thousands;
use super::tools::{CallTurn, LongRuns, ToolCall, ToolResponse, WaitEnd, wait_for};
use crate::service::{
    ApprovalQuestion, Consent, JobHandle, NoConsent, ParkedState, ParkedSubmission, Submission,
    SubmitError, SubmitOutcome,
};
use crate::spec::Stdin;

/// The ways to ask the user of a client for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElicitationMode {
    Unsupported,
    /// The server sends `elicitation/create` while the call waits.
    DuringCall,
    /// The reply asks; the client repeats the call with the answer.
    InReply,
}

impl ElicitationMode {
    /// Returns the mode that the client of this request supports.
    fn from_request(request: &RequestContext<RoleServer>) -> Self {
        let capability = request.client_capabilities().and_then(|it| it.elicitation);
        match request.protocol_version() {
            Some(version) => Self::for_version(&version, capability.as_ref()),
            None => Self::Unsupported,
        }
    }

    fn for_version(version: &ProtocolVersion, capability: Option<&ElicitationCapability>) -> Self {
        // A client that names no mode supports forms.
        let shows_forms = capability.is_some_and(|it| it.form.is_some() || it.url.is_none());
        if !shows_forms || *version < ProtocolVersion::V_2025_06_18 {
            Self::Unsupported
        } else if *version < ProtocolVersion::V_2026_07_28 {
            Self::DuringCall
        } else {
            Self::InReply
        }
    }
}

/// Extra time after an elicitation timed out, for the request to be cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The answer that a repeated call carries to the question in an earlier reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApprovalRetry<'a> {
    question: &'a str,
    consent: Option<Consent>,
}

impl<'a> ApprovalRetry<'a> {
    /// Returns `None` for a call that is not a repetition.
    pub(crate) fn from_request(request: &'a CallToolRequestParams) -> Option<Self> {
        let question = request.request_state.as_deref()?;
        let consent = request.input_responses.as_ref().and_then(find_consent);
        Some(Self { question, consent })
    }
}

/// Submits a job, or breaks with the response that asks the client for approval first.
pub(crate) async fn submit(
    call: ToolCall<'_>,
    submission: Submission,
) -> Result<ControlFlow<ToolResponse, JobHandle>, SubmitError> {
    let client = call.client;
    if let Some(ApprovalRetry { question, consent }) = call.approval {
        let answer = consent.ok_or(NoConsent::Declined);
        // Boxed, here and below: otherwise every call would be as large as one that asks.
        return Box::pin(submit_answered(call, submission, question, answer)).await.map(Continue);
    }
    let mode = ElicitationMode::from_request(call.request);
    if mode == ElicitationMode::Unsupported {
        return client.submit(submission).await.map(Continue);
    }
    let question = match client.submit_or_ask(submission.clone()).await? {
        SubmitOutcome::Job(job) => return Ok(Continue(job)),
        SubmitOutcome::Ask(question) => question,
    };
    // The user may take long; later calls of this client need not wait for that.
    CallTurn::end(call.request);
    match mode {
        ElicitationMode::Unsupported | ElicitationMode::DuringCall => {
            let answer = Box::pin(elicit_consent(call, &question)).await;
            Box::pin(submit_answered(call, submission, &question.id, answer)).await.map(Continue)
        }
        // Text to type into a terminal cannot be parked with the submission.
        ElicitationMode::InReply
            if call.long_runs == LongRuns::BecomeTasks && submission.stdin != Stdin::Terminal =>
        {
            let parked = client.park(submission, question);
            Ok(Break(ToolResponse::Parked(Box::new(parked))))
        }
        ElicitationMode::InReply => Ok(Break(ToolResponse::Ask(question))),
    }
}

/// Submits a job that was approved, or returns the refusal.
async fn submit_answered(
    call: ToolCall<'_>,
    submission: Submission,
    question: &str,
    answer: Result<Consent, NoConsent>,
) -> Result<JobHandle, SubmitError> {
    match answer {
        Ok(consent) => call.client.submit_approved(submission, question, consent).await,
        Err(why) => Err(call.client.decline(question, why)),
    }
}

/// Sends `elicitation/create` and waits for the answer, at most as long as this call may wait.
async fn elicit_consent(
    call: ToolCall<'_>,
    question: &ApprovalQuestion,
) -> Result<Consent, NoConsent> {
    let limit = call.max_wait();
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question_form(question)));
    let options = PeerRequestOptions::with_timeout(limit);
    let elicitation = async {
        let sent = call.request.peer.send_request_with_option(request, options).await?;
        sent.await_response().await
    };
    let message = || ready(awaiting_approval_line(question));
    match wait_for(call, limit + CANCEL_GRACE, elicitation, message).await {
        WaitEnd::Done(Ok(ClientResult::ElicitResult(answer))) => {
            parse_consent(&answer).ok_or(NoConsent::Declined)
        }
        WaitEnd::Done(Err(ServiceError::McpError(error))) => {
            Err(NoConsent::CannotAsk { why: one_line(&error.message) })
        }
        WaitEnd::Done(Ok(_)) => {
            Err(NoConsent::CannotAsk { why: "its answer is none to this question".to_owned() })
        }
        WaitEnd::Done(Err(_)) | WaitEnd::Over => Err(NoConsent::NoAnswer),
        WaitEnd::Cancelled(_) => Err(NoConsent::Withdrawn),
    }
}

/// The key of the question and the name of the form's only field.
const APPROVAL: &str = "approval";
/// The words that the form offers; any other answer is a refusal.
const CHOICES: [(&str, Option<Consent>); 3] =
    [("once", Some(Consent::Once)), ("tenant", Some(Consent::Tenant)), ("no", None)];
/// Characters shown of each end of a long command.
const PREVIEW_CHARS: usize = 1500;

/// Returns the form that asks the user.
pub(crate) fn question_form(question: &ApprovalQuestion) -> ElicitRequestParams {
    let ApprovalQuestion { command, cwd, rule, .. } = question;
    let message = format!(
        "May this command run in {}?\n\n{}\n\nIt matches {rule}. once: run it now. tenant: run it \
         now, and again without asking until the server ends. no: do not run it.",
        preview(cwd),
        preview(command),
    );
    let choices = EnumSchema::builder(CHOICES.map(|(word, _)| word.to_owned()).to_vec()).build();
    let schema = ElicitationSchema::builder().required_enum_schema(APPROVAL, choices);
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema.build_unchecked(),
    }
}

/// Returns the question as the result of a call, which the client then repeats with the answer.
pub(crate) fn question_result(question: &ApprovalQuestion) -> InputRequiredResult {
    InputRequiredResult::new(Some(question_requests(question)), Some(question.id.clone()))
}

/// Returns the question as the input requests of a task.
pub(crate) fn question_requests(question: &ApprovalQuestion) -> InputRequests {
    let request = InputRequest::Elicitation(ElicitRequest::new(question_form(question)));
    InputRequests::from([(APPROVAL.to_owned(), request)])
}

/// `true` if the responses hold an answer to the approval question.
pub(crate) fn has_answer(responses: &InputResponses) -> bool {
    responses.contains_key(APPROVAL)
}

/// Returns the consent in an elicitation result; `None` unless it is a clear yes.
pub(crate) fn parse_consent(result: &ElicitResult) -> Option<Consent> {
    let answer = result.content.as_ref()?.get(APPROVAL)?.as_str()?;
    let choice = CHOICES.into_iter().find(|(word, _)| *word == answer)?;
    choice.1.filter(|_| result.action == ElicitationAction::Accept)
}

/// Returns the consent among the input responses of a call or a task update.
pub(crate) fn find_consent(responses: &InputResponses) -> Option<Consent> {
    let result = serde_json::from_value(responses.get(APPROVAL)?.clone()).ok()?;
    parse_consent(&result)
}

/// Returns the progress message while the call waits for approval.
pub(crate) fn awaiting_approval_line(question: &ApprovalQuestion) -> String {
    format!("waiting for somebody's yes: {} wants it", question.rule)
}

/// Returns the status line of a submission that waits, or waited, for approval.
pub(crate) fn parked_status_line(parked: &ParkedSubmission) -> String {
    match &parked.state {
        ParkedState::Open => awaiting_approval_line(&parked.question),
        ParkedState::Refused(error) => format!("refused, nothing was run: {error}"),
        ParkedState::Cancelled => "cancelled before anybody agreed, nothing was run".to_owned(),
    }
}

/// Returns the beginning of a client's error message, on one line.
pub(crate) fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    text.chars().take(MAX_CHARS).map(|it| if it.is_control() { ' ' } else { it }).collect()
}

/// Returns both ends of a text. Control characters are replaced, so that they cannot change how the
/// rest is displayed.
fn preview(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let hidden = characters.len().saturating_sub(2 * PREVIEW_CHARS);
    let plain = |characters: &[char]| -> String {
        let plain = |it: &char| if *it == '\n' || !it.is_control() { *it } else { '\u{fffd}' };
        characters.iter().map(plain).collect()
    };
    if hidden == 0 {
        return plain(&characters);
    }
    let head = &characters[..PREVIEW_CHARS];
    let tail = &characters[PREVIEW_CHARS + hidden..];
    let count = thousands(hidden as u64);
    format!("{}\n[… {count} characters are not shown …]\n{}", plain(head), plain(tail))
}

#[cfg(test)]
mod tests {
    use rmcp::model::UrlElicitationCapability;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn elicitation_depends_on_the_era_and_the_client() {
        let forms = ElicitationCapability::new();
        for (version, mode) in [
            (ProtocolVersion::V_2024_11_05, ElicitationMode::Unsupported),
            (ProtocolVersion::V_2025_06_18, ElicitationMode::DuringCall),
            (ProtocolVersion::V_2026_07_28, ElicitationMode::InReply),
        ] {
            assert_eq!(ElicitationMode::for_version(&version, Some(&forms)), mode, "{version}");
            assert_eq!(
                ElicitationMode::for_version(&version, None),
                ElicitationMode::Unsupported,
                "{version}"
            );
            let pages = ElicitationCapability::new().with_url(UrlElicitationCapability::new());
            assert_eq!(
                ElicitationMode::for_version(&version, Some(&pages)),
                ElicitationMode::Unsupported,
                "{version}"
            );
        }
    }

    fn parsed(answer: Value) -> Option<Consent> {
        find_consent(&[(APPROVAL.to_owned(), answer)].into())
    }

    #[test]
    fn only_a_clear_yes_is_consent() {
        let accepted = |word: &str| json!({"action": "accept", "content": {"approval": word}});
        assert_eq!(parsed(accepted("once")), Some(Consent::Once));
        assert_eq!(parsed(accepted("tenant")), Some(Consent::Tenant));
        for no in [
            accepted("no"),
            accepted("yes"),
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {"approval": true}}),
            json!({"action": "decline", "content": {"approval": "once"}}),
            json!({"action": "cancel"}),
            json!("once"),
        ] {
            assert_eq!(parsed(no.clone()), None, "{no}");
        }
        assert_eq!(find_consent(&InputResponses::new()), None);
    }

    #[test]
    fn a_long_command_shows_both_ends_and_no_control_characters() {
        let text = format!("\u{1b}[2Kstart{}end", "x".repeat(5000));
        let shown = preview(&text);
        assert!(shown.starts_with("\u{fffd}[2Kstart") && shown.ends_with("end"), "{shown}");
        assert!(shown.contains("[… 2,012 characters are not shown …]"), "{shown}");
    }
}
