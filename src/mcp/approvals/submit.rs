//! Submits, and asks somebody where a rule wants that.

use std::future::ready;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ClientResult, ElicitRequest, ServerRequest};
use rmcp::service::{PeerRequestOptions, ServiceError};

use super::way::Way;
use crate::mcp::reply::{asking_line, client_words, consent_among, consent_in, question_form};
use crate::mcp::tools::{Call, Response};
use crate::mcp::turn::Turn;
use crate::mcp::wait::{WaitEnd, wait_for};
use crate::spec::Stdin;
use crate::yard::{Consent, JobHandle, NoConsent, Question, Submission, SubmitError, Submitted};

/// What a request gets to take itself back, once its time is over.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What a call that comes again says to the question that it was answered with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered<'a> {
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
    let desk = call.desk;
    if let Some(Answered { question, consent }) = call.answered {
        let said = consent.ok_or(NoConsent::Declined);
        // Boxed, here and below: a call that nobody is asked about would else be as large.
        return Box::pin(approved(call, submission, (question, said))).await.map(Continue);
    }
    let way = Way::of(call.request);
    if way == Way::None {
        return desk.submit(submission).await.map(Continue);
    }
    let question = match desk.submit_or_ask(submission.clone()).await? {
        Submitted::Job(job) => return Ok(Continue(job)),
        Submitted::Ask(question) => question,
    };
    // Whoever is asked may take long, and calls behind this one need not wait for that.
    Turn::end(call.request);
    match way {
        Way::None | Way::Session => {
            let said = Box::pin(ask(call, &question)).await;
            Box::pin(approved(call, submission, (&question.id, said))).await.map(Continue)
        }
        // What is typed into a terminal is not a part of what can be parked.
        Way::Result if call.task_after.is_some() && submission.stdin != Stdin::Terminal => {
            let parked = desk.park(submission, question);
            Ok(Break(Response::Parked(Box::new(parked))))
        }
        Way::Result => Ok(Break(Response::Ask(question))),
    }
}

/// What becomes of a submission after somebody was asked.
async fn approved(
    call: Call<'_>,
    submission: Submission,
    (question, said): (&str, Result<Consent, NoConsent>),
) -> Result<JobHandle, SubmitError> {
    match said {
        Ok(consent) => call.desk.submit_approved(submission, question, consent).await,
        Err(why) => Err(call.desk.decline(question, why)),
    }
}

/// Asks by a request of our own, as long as the client bears a call that waits.
async fn ask(call: Call<'_>, question: &Question) -> Result<Consent, NoConsent> {
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
