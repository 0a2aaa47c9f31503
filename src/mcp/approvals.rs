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
    CallToolRequestParams, ClientResult, ConstTitle, ElicitRequest, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ElicitationSchema, EnumSchema,
    InputRequest, InputRequests, InputRequiredResult, InputResponses, LegacyEnumSchema,
    ProtocolVersion, ServerRequest, SingleSelectEnumSchema, TitledSingleSelectEnumSchema,
};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};

use super::reply::{count, thousands};
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
    responses: Option<&'a InputResponses>,
}

impl<'a> ApprovalRetry<'a> {
    /// Returns `None` for a call that is not a repetition.
    pub(crate) fn from_request(request: &'a CallToolRequestParams) -> Option<Self> {
        let question = request.request_state.as_deref()?;
        Some(Self { question, responses: request.input_responses.as_ref() })
    }
}

/// Submits a job, or breaks with the response that asks the client for approval first.
pub(crate) async fn submit(
    call: ToolCall<'_>,
    submission: Submission,
) -> Result<ControlFlow<ToolResponse, JobHandle>, SubmitError> {
    let client = call.client;
    if let Some(ApprovalRetry { question, responses }) = call.approval {
        let answer = responses.map_or(Err(NoConsent::NoChoice), find_answer);
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
    let titles = ChoiceTitles::for_version(call.request.protocol_version().as_ref());
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question_form(question, titles)));
    let options = PeerRequestOptions::with_timeout(limit);
    let elicitation = async {
        let sent = call.request.peer.send_request_with_option(request, options).await?;
        sent.await_response().await
    };
    let message = || ready(awaiting_approval_line(question));
    match wait_for(call, limit + CANCEL_GRACE, elicitation, message).await {
        WaitEnd::Done(Ok(ClientResult::ElicitResult(answer))) => parse_answer(&answer),
        WaitEnd::Done(Err(ServiceError::McpError(error))) => {
            Err(NoConsent::CannotAsk { why: shorten_client_error(&error.message) })
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
/// A choice that the form offers.
#[derive(Debug)]
struct ApprovalChoice {
    /// The word that the answer carries.
    word: &'static str,
    /// The text that the user sees.
    title: &'static str,
    consent: Option<Consent>,
}

/// The choices that the form offers; any other answer is a refusal. The first is the default: a
/// user who accepts the form without a choice wants the command to run now.
const CHOICES: [ApprovalChoice; 3] = [
    ApprovalChoice { word: "once", title: "Run it once", consent: Some(Consent::Once) },
    ApprovalChoice {
        word: "tenant",
        title: "Run it, and do not ask again",
        consent: Some(Consent::Tenant),
    },
    ApprovalChoice { word: "no", title: "Do not run it", consent: None },
];
/// Characters shown of each end of a long command.
const PREVIEW_CHARS: usize = 1500;

/// The keywords with which a form names its choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChoiceTitles {
    /// `enum` and `enumNames`, before 2025-11-25.
    EnumNames,
    /// `oneOf` with `const` and `title`.
    OneOf,
}

impl ChoiceTitles {
    fn for_version(version: Option<&ProtocolVersion>) -> Self {
        match version {
            Some(version) if *version >= ProtocolVersion::V_2025_11_25 => Self::OneOf,
            Some(_) | None => Self::EnumNames,
        }
    }

    /// Returns the schema of the form's only field.
    fn schema(self, title: String) -> EnumSchema {
        let default = CHOICES[0].word.to_owned();
        match self {
            Self::EnumNames => {
                let mut schema =
                    LegacyEnumSchema::new(CHOICES.iter().map(|it| it.word.to_owned()).collect());
                schema.enum_names = Some(CHOICES.iter().map(|it| it.title.to_owned()).collect());
                schema.title = Some(title.into());
                schema.default = Some(default);
                EnumSchema::Legacy(schema)
            }
            Self::OneOf => {
                let choices = CHOICES.iter().map(|it| ConstTitle::new(it.word, it.title));
                let mut schema = TitledSingleSelectEnumSchema::new(choices.collect());
                schema.title = Some(title.into());
                schema.default = Some(default);
                EnumSchema::Single(SingleSelectEnumSchema::Titled(schema))
            }
        }
    }
}

/// Returns the form that asks the user. The command comes first, because clients cut long texts,
/// and the number of its lines shows whether the client shows all of them.
fn question_form(question: &ApprovalQuestion, titles: ChoiceTitles) -> ElicitRequestParams {
    let ApprovalQuestion { command, cwd, rule, .. } = question;
    let lines = count(command.lines().count().max(1) as u64, "line", "lines");
    let message =
        format!("{}\n\n({lines}) to run in {}. It matches {rule}.", preview(command), preview(cwd));
    let choices = titles.schema(format!("May this command of {lines} run?"));
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
    // Only modern clients get input requests.
    let form = question_form(question, ChoiceTitles::OneOf);
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    InputRequests::from([(APPROVAL.to_owned(), request)])
}

/// `true` if the responses hold an answer to the approval question.
pub(crate) fn has_answer(responses: &InputResponses) -> bool {
    responses.contains_key(APPROVAL)
}

/// Returns the consent in an elicitation result; an error unless it is a clear yes.
fn parse_answer(result: &ElicitResult) -> Result<Consent, NoConsent> {
    if result.action == ElicitationAction::Decline {
        return Err(NoConsent::QuestionDeclined);
    }
    // A cancel, or an action of a later version of the protocol.
    if result.action != ElicitationAction::Accept {
        return Err(NoConsent::Dismissed);
    }
    let word = result.content.as_ref().and_then(|content| content.get(APPROVAL)?.as_str());
    let choice = CHOICES.iter().find(|choice| Some(choice.word) == word);
    choice.ok_or(NoConsent::NoChoice)?.consent.ok_or(NoConsent::Declined)
}

/// Returns the consent among the input responses of a call or a task update.
pub(crate) fn find_answer(responses: &InputResponses) -> Result<Consent, NoConsent> {
    let response = responses.get(APPROVAL).ok_or(NoConsent::NoChoice)?;
    match serde_json::from_value(response.clone()) {
        Ok(result) => parse_answer(&result),
        Err(_) => Err(NoConsent::NoChoice),
    }
}

/// Returns the progress message while the call waits for approval.
fn awaiting_approval_line(question: &ApprovalQuestion) -> String {
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
fn shorten_client_error(text: &str) -> String {
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

    fn parsed(answer: Value) -> Result<Consent, NoConsent> {
        find_answer(&[(APPROVAL.to_owned(), answer)].into())
    }

    #[test]
    fn only_a_clear_yes_is_consent() {
        let accepted = |word: &str| json!({"action": "accept", "content": {"approval": word}});
        assert_eq!(parsed(accepted("once")), Ok(Consent::Once));
        assert_eq!(parsed(accepted("tenant")), Ok(Consent::Tenant));
        assert_eq!(parsed(accepted("no")), Err(NoConsent::Declined));
        for without_choice in [
            accepted("yes"),
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {"approval": true}}),
            json!("once"),
        ] {
            assert_eq!(
                parsed(without_choice.clone()),
                Err(NoConsent::NoChoice),
                "{without_choice}"
            );
        }
        let declined = json!({"action": "decline", "content": {"approval": "once"}});
        assert_eq!(parsed(declined), Err(NoConsent::QuestionDeclined));
        assert_eq!(parsed(json!({"action": "cancel"})), Err(NoConsent::Dismissed));
        assert_eq!(find_answer(&InputResponses::new()), Err(NoConsent::NoChoice));
    }

    fn form(command: &str, titles: ChoiceTitles) -> Value {
        let question = ApprovalQuestion {
            id: "1".to_owned(),
            command: command.to_owned(),
            cwd: "/srv".to_owned(),
            rule: "ask rule \"rm\" (policy.ask[0])".to_owned(),
        };
        serde_json::to_value(question_form(&question, titles)).unwrap()
    }

    #[test]
    fn the_command_comes_first_with_its_number_of_lines() {
        for (command, lines) in
            [("rm a", "1 line"), ("rm a\nrm b\nrm c\n", "3 lines"), ("", "1 line")]
        {
            let form = form(command, ChoiceTitles::OneOf);
            let message = form["message"].as_str().unwrap();
            assert!(
                message.starts_with(&format!("{command}\n\n({lines}) to run in /srv. ")),
                "{form}"
            );
            let title = &form["requestedSchema"]["properties"][APPROVAL]["title"];
            assert_eq!(*title, format!("May this command of {lines} run?"));
        }
    }

    #[test]
    fn choices_have_titles_and_a_default_in_the_words_of_the_era() {
        let words = json!(["once", "tenant", "no"]);
        let field = |titles| form("rm", titles)["requestedSchema"]["properties"][APPROVAL].clone();
        let old = field(ChoiceTitles::for_version(Some(&ProtocolVersion::V_2025_06_18)));
        assert_eq!((&old["enum"], &old["default"]), (&words, &json!("once")));
        assert_eq!(old["enumNames"][2], "Do not run it");
        let new = field(ChoiceTitles::for_version(Some(&ProtocolVersion::V_2025_11_25)));
        let offered: Value =
            new["oneOf"].as_array().unwrap().iter().map(|it| it["const"].clone()).collect();
        assert_eq!((&offered, &new["default"]), (&words, &json!("once")));
        assert_eq!(new["oneOf"][0]["title"], "Run it once");
    }

    #[test]
    fn a_long_command_shows_both_ends_and_no_control_characters() {
        let text = format!("\u{1b}[2Kstart{}end", "x".repeat(5000));
        let shown = preview(&text);
        assert!(shown.starts_with("\u{fffd}[2Kstart") && shown.ends_with("end"), "{shown}");
        assert!(shown.contains("[… 2,012 characters are not shown …]"), "{shown}");
    }
}
