//! Commands that a rule wants somebody's yes for.
//!
//! ```text
//! legacy   elicitation/create while the call waits          → submit, or a refusal
//! modern   input_required, the call comes again with a yes  → submit, or a refusal
//! modern   a task that is input_required, tasks/update      → the same, for clients that know tasks
//! others   the refusal says how to allow the command
//! ```
//!
//! The yard judges the command again when the yes comes, and takes it for that very command alone.

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
use super::tools::{Call, Response, Turn, WaitEnd, wait_for};
use crate::service::{
    ApprovalQuestion, Consent, JobHandle, NoConsent, ParkedState, ParkedSubmission, Submission,
    SubmitError, SubmitOutcome,
};
use crate::spec::Stdin;

/// How somebody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Not at all.
    None,
    /// By a request of our own while the call waits.
    Session,
    /// By the answer to the call, which then comes again.
    Result,
}

impl Way {
    /// What the client of this request can do.
    fn of(request: &RequestContext<RoleServer>) -> Self {
        let asks = request.client_capabilities().and_then(|it| it.elicitation);
        match request.protocol_version() {
            Some(version) => Self::in_era(&version, asks.as_ref()),
            None => Self::None,
        }
    }

    fn in_era(version: &ProtocolVersion, asks: Option<&ElicitationCapability>) -> Self {
        // Who names no mode shows forms.
        let shows_forms = asks.is_some_and(|it| it.form.is_some() || it.url.is_none());
        if !shows_forms || *version < ProtocolVersion::V_2025_06_18 {
            Self::None
        } else if *version < ProtocolVersion::V_2026_07_28 {
            Self::Session
        } else {
            Self::Result
        }
    }
}

/// What a request gets to take itself back, once its time is over.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What a call that comes again says to the question that it was answered with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered<'a> {
    question: &'a str,
    consent: Option<Consent>,
}

impl<'a> Answered<'a> {
    /// Nothing where the call comes for the first time.
    pub(crate) fn by(request: &'a CallToolRequestParams) -> Option<Self> {
        let question = request.request_state.as_deref()?;
        let consent = request.input_responses.as_ref().and_then(consent_among);
        Some(Self { question, consent })
    }
}

/// Accepts a job, or breaks off with what the client is to be asked first.
pub(crate) async fn submit(
    call: Call<'_>,
    submission: Submission,
) -> Result<ControlFlow<Response, JobHandle>, SubmitError> {
    let client = call.client;
    if let Some(Answered { question, consent }) = call.answered {
        let said = consent.ok_or(NoConsent::Declined);
        // Boxed, here and below: a call that nobody is asked about would else be as large.
        return Box::pin(approved(call, submission, question, said)).await.map(Continue);
    }
    let way = Way::of(call.request);
    if way == Way::None {
        return client.submit(submission).await.map(Continue);
    }
    let question = match client.submit_or_ask(submission.clone()).await? {
        SubmitOutcome::Job(job) => return Ok(Continue(job)),
        SubmitOutcome::Ask(question) => question,
    };
    // Whoever is asked may take long, and calls behind this one need not wait for that.
    Turn::end(call.request);
    match way {
        Way::None | Way::Session => {
            let said = Box::pin(ask(call, &question)).await;
            Box::pin(approved(call, submission, &question.id, said)).await.map(Continue)
        }
        // What is typed into a terminal is not a part of what can be parked.
        Way::Result if call.task_after.is_some() && submission.stdin != Stdin::Terminal => {
            let parked = client.park(submission, question);
            Ok(Break(Response::Parked(Box::new(parked))))
        }
        Way::Result => Ok(Break(Response::Ask(question))),
    }
}

/// What becomes of a submission after somebody was asked.
async fn approved(
    call: Call<'_>,
    submission: Submission,
    question: &str,
    said: Result<Consent, NoConsent>,
) -> Result<JobHandle, SubmitError> {
    match said {
        Ok(consent) => call.client.submit_approved(submission, question, consent).await,
        Err(why) => Err(call.client.decline(question, why)),
    }
}

/// Asks by a request of our own, as long as the client bears a call that waits.
async fn ask(call: Call<'_>, question: &ApprovalQuestion) -> Result<Consent, NoConsent> {
    let limit = call.patience();
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question_form(question)));
    let options = PeerRequestOptions::with_timeout(limit);
    let asked = async {
        let sent = call.request.peer.send_request_with_option(request, options).await?;
        sent.await_response().await
    };
    match wait_for(call, limit + LAST_WORD, asked, || ready(asking_line(question))).await {
        WaitEnd::Done(Ok(ClientResult::ElicitResult(said))) => {
            consent_in(&said).ok_or(NoConsent::Declined)
        }
        WaitEnd::Done(Err(ServiceError::McpError(error))) => {
            Err(NoConsent::CannotAsk { why: client_words(&error.message) })
        }
        WaitEnd::Done(Ok(_)) => {
            Err(NoConsent::CannotAsk { why: "its answer is none to this question".to_owned() })
        }
        WaitEnd::Done(Err(_)) | WaitEnd::Over => Err(NoConsent::NoAnswer),
        WaitEnd::Cancelled => Err(NoConsent::Withdrawn),
    }
}

/// The name of the question, and of its one field.
const APPROVAL: &str = "approval";
/// What may be said, and what it means; anything else is a no.
const CHOICES: [(&str, Option<Consent>); 3] =
    [("once", Some(Consent::Once)), ("tenant", Some(Consent::Tenant)), ("no", None)];
/// What is shown of either end of a long command.
const SHOWN_CHARS: usize = 1500;

/// The form in which somebody is asked.
pub(crate) fn question_form(question: &ApprovalQuestion) -> ElicitRequestParams {
    let ApprovalQuestion { command, cwd, rule, .. } = question;
    let message = format!(
        "May this command run in {}?\n\n{}\n\nIt matches {rule}. once: run it now. tenant: run it \
         now, and again without asking until the server ends. no: do not run it.",
        shown(cwd),
        shown(command),
    );
    let choices = EnumSchema::builder(CHOICES.map(|(word, _)| word.to_owned()).to_vec()).build();
    let schema = ElicitationSchema::builder().required_enum_schema(APPROVAL, choices);
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema.build_unchecked(),
    }
}

/// The same as the answer to a call, which is to be sent again with what was said.
pub(crate) fn question_result(question: &ApprovalQuestion) -> InputRequiredResult {
    InputRequiredResult::new(Some(question_requests(question)), Some(question.id.clone()))
}

/// The same as what a task asks for.
pub(crate) fn question_requests(question: &ApprovalQuestion) -> InputRequests {
    let request = InputRequest::Elicitation(ElicitRequest::new(question_form(question)));
    InputRequests::from([(APPROVAL.to_owned(), request)])
}

/// Whether the question is among those that were answered.
pub(crate) fn is_answered(responses: &InputResponses) -> bool {
    responses.contains_key(APPROVAL)
}

/// What was said to a question; `None` where that is no yes.
pub(crate) fn consent_in(result: &ElicitResult) -> Option<Consent> {
    let said = result.content.as_ref()?.get(APPROVAL)?.as_str()?;
    let choice = CHOICES.into_iter().find(|(word, _)| *word == said)?;
    choice.1.filter(|_| result.action == ElicitationAction::Accept)
}

/// The same among the answers that came with a call.
pub(crate) fn consent_among(responses: &InputResponses) -> Option<Consent> {
    let result = serde_json::from_value(responses.get(APPROVAL)?.clone()).ok()?;
    consent_in(&result)
}

/// What a client that waits is told in between.
pub(crate) fn asking_line(question: &ApprovalQuestion) -> String {
    format!("waiting for somebody's yes: {} wants it", question.rule)
}

/// How a submission stands that has asked somebody.
pub(crate) fn parked_line(parked: &ParkedSubmission) -> String {
    match &parked.fate {
        ParkedState::Open => asking_line(&parked.question),
        ParkedState::Refused(error) => format!("refused, nothing was run: {error}"),
        ParkedState::Cancelled => "cancelled before anybody agreed, nothing was run".to_owned(),
    }
}

/// The beginning of what a client said of itself, in one line.
pub(crate) fn client_words(text: &str) -> String {
    const SAID_CHARS: usize = 200;
    text.chars().take(SAID_CHARS).map(|it| if it.is_control() { ' ' } else { it }).collect()
}

/// Both ends of a text, with nothing in it that could change how the rest is shown.
fn shown(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let hidden = characters.len().saturating_sub(2 * SHOWN_CHARS);
    let plain = |characters: &[char]| -> String {
        let plain = |it: &char| if *it == '\n' || !it.is_control() { *it } else { '\u{fffd}' };
        characters.iter().map(plain).collect()
    };
    if hidden == 0 {
        return plain(&characters);
    }
    let head = &characters[..SHOWN_CHARS];
    let tail = &characters[SHOWN_CHARS + hidden..];
    let count = thousands(hidden as u64);
    format!("{}\n[… {count} characters are not shown …]\n{}", plain(head), plain(tail))
}

#[cfg(test)]
mod tests {
    use rmcp::model::UrlElicitationCapability;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_way_follows_from_the_era_and_the_client() {
        let forms = ElicitationCapability::new();
        for (version, way) in [
            (ProtocolVersion::V_2024_11_05, Way::None),
            (ProtocolVersion::V_2025_06_18, Way::Session),
            (ProtocolVersion::V_2026_07_28, Way::Result),
        ] {
            assert_eq!(Way::in_era(&version, Some(&forms)), way, "{version}");
            assert_eq!(Way::in_era(&version, None), Way::None, "{version}");
            let pages = ElicitationCapability::new().with_url(UrlElicitationCapability::new());
            assert_eq!(Way::in_era(&version, Some(&pages)), Way::None, "{version}");
        }
    }

    fn said(answer: Value) -> Option<Consent> {
        consent_among(&[(APPROVAL.to_owned(), answer)].into())
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let accepted = |word: &str| json!({"action": "accept", "content": {"approval": word}});
        assert_eq!(said(accepted("once")), Some(Consent::Once));
        assert_eq!(said(accepted("tenant")), Some(Consent::Tenant));
        for no in [
            accepted("no"),
            accepted("yes"),
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {"approval": true}}),
            json!({"action": "decline", "content": {"approval": "once"}}),
            json!({"action": "cancel"}),
            json!("once"),
        ] {
            assert_eq!(said(no.clone()), None, "{no}");
        }
        assert_eq!(consent_among(&InputResponses::new()), None);
    }

    #[test]
    fn a_long_command_shows_both_ends_and_no_control_characters() {
        let text = format!("\u{1b}[2Kstart{}end", "x".repeat(5000));
        let shown = shown(&text);
        assert!(shown.starts_with("\u{fffd}[2Kstart") && shown.ends_with("end"), "{shown}");
        assert!(shown.contains("[… 2,012 characters are not shown …]"), "{shown}");
    }
}
