//! Answers calls of stored tools and prompts.

use std::panic::resume_unwind;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, GetPromptRequestParams,
    GetPromptResponse, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    JsonObject, Prompt, ServerNotification, Tool,
};
use rmcp::service::{RequestContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::stored_fixtures::{ScriptedFixture, fill_template};
use crate::mcp::handler::{Handler, is_modern};

/// Answers a call of a tool. What it runs is run by `handler`, as anyone's.
pub(super) async fn answer_tool_call(
    fixture: &ScriptedFixture<Tool>,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    handler: &Handler,
) -> Result<CallToolResponse, ErrorData> {
    let capabilities = context.client_capabilities().unwrap_or_default();
    check_capabilities(&fixture.requires, &capabilities)?;
    let given = RequestInput {
        responses: request.input_responses.as_ref(),
        state: request.request_state.as_deref(),
        capabilities: &capabilities,
    };
    let answered = match next_step(fixture, given)? {
        FixtureStep::Ask(asked) => return Ok(asked.into()),
        FixtureStep::Answered(answered) => answered,
    };
    if let Some(words) = &fixture.panics {
        resume_unwind(Box::new(words.clone()));
    }
    let mut values = request.arguments.unwrap_or_default();
    values.insert("answer".to_owned(), answered);
    let run_command = |arguments: &Value| {
        let run = CallToolRequestParams::new("run_command");
        fill_template(arguments, &values).map(|arguments| run.with_arguments(arguments))
    };
    if let Some(before) = &fixture.before {
        handler.call_tool(run_command(before)?, context.clone()).await?;
    }
    if let Some(runs) = &fixture.runs {
        return handler.call_tool(run_command(runs)?, context.clone()).await;
    }
    for notice in &fixture.notices {
        notify(notice.clone(), context).await;
    }
    if let Some(change) = &fixture.change {
        broadcast_change(change.clone());
    }
    if let Some(asks) = &fixture.asks {
        values.insert("answer".to_owned(), ask(asks, &values, context).await?);
    }
    fill_template::<rmcp::model::CallToolResult>(&fixture.result, &values).map(Into::into)
}

/// Answers a request for a prompt.
pub(super) fn answer_prompt(
    fixture: &ScriptedFixture<Prompt>,
    request: GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let given = RequestInput {
        responses: request.input_responses.as_ref(),
        state: request.request_state.as_deref(),
        capabilities: &context.client_capabilities().unwrap_or_default(),
    };
    let answered = match next_step(fixture, given)? {
        FixtureStep::Ask(asked) => return Ok(asked.into()),
        FixtureStep::Answered(answered) => answered,
    };
    let mut values = request.arguments.unwrap_or_default();
    values.insert("answer".to_owned(), answered);
    fill_template::<rmcp::model::GetPromptResult>(&fixture.result, &values).map(Into::into)
}

/// Returns an error if the client has not declared what is required.
fn check_capabilities(
    required: &JsonObject,
    capabilities: &ClientCapabilities,
) -> Result<(), ErrorData> {
    let declared = serde_json::to_value(capabilities).unwrap_or_default();
    let required = Value::Object(required.clone());
    if has_all_names(&declared, &required) {
        return Ok(());
    }
    let required: ClientCapabilities = fill_template(&required, &JsonObject::new())?;
    Err(ErrorData::missing_required_client_capability(required))
}

/// `true` if every name of `required` is also in `declared`, at its place.
fn has_all_names(declared: &Value, required: &Value) -> bool {
    let names = required.as_object().into_iter().flatten();
    let mut inner = names.map(|(name, required)| (declared.get(name), required));
    inner.all(|(declared, required)| {
        declared.is_some_and(|declared| has_all_names(declared, required))
    })
}

/// Sends what the client wants to hear: progress where it gave a token, and in the modern era a
/// log message where it named a level.
async fn notify(mut notice: ServerNotification, context: &RequestContext<RoleServer>) {
    let is_wanted = if let ServerNotification::ProgressNotification(progress) = &mut notice {
        let token = context.meta.get_progress_token();
        token.map(|token| progress.params.progress_token = token).is_some()
    } else if let ServerNotification::LoggingMessageNotification(_) = &notice {
        !is_modern(context) || context.meta.log_level().is_some()
    } else {
        true
    };
    if is_wanted {
        // A client that is gone hears nothing.
        context.peer.send_notification(notice).await.ok();
    }
}

/// The answer of a legacy client to a request.
async fn ask(
    asks: &Value,
    values: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let answer = context.peer.send_request(fill_template(asks, values)?).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(serde_json::to_value(answer).unwrap_or_default())
}

/// The parts of a request that a fixture uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestInput<'a> {
    pub(super) responses: Option<&'a InputResponses>,
    pub(super) state: Option<&'a str>,
    pub(super) capabilities: &'a ClientCapabilities,
}

/// The next step of a fixture.
#[derive(Debug)]
pub(super) enum FixtureStep {
    /// The client is asked.
    Ask(InputRequiredResult),
    /// All was answered, with this.
    Answered(Value),
}

/// The next step of an fixture. A state that is not ours is an error.
pub(super) fn next_step<T>(
    fixture: &ScriptedFixture<T>,
    given: RequestInput<'_>,
) -> Result<FixtureStep, ErrorData> {
    let rounds: Vec<InputRequests> =
        fixture.rounds.iter().map(|round| select_declared(round, given.capabilities)).collect();
    let asked = count_questions(fixture, given)?;
    let is_answered = asked.checked_sub(1).and_then(|last| rounds.get(last)).is_some_and(|round| {
        round.keys().all(|key| {
            given.responses.and_then(|responses| responses.get(key)).is_some_and(Value::is_object)
        })
    });
    let next = if is_answered { asked } else { asked.saturating_sub(1) };
    Ok(match rounds.into_iter().nth(next) {
        Some(round) => {
            let state = fixture.sealed.then(|| seal(next + 1));
            FixtureStep::Ask(InputRequiredResult::new(Some(round), state))
        }
        None => FixtureStep::Answered(serde_json::to_value(given.responses).unwrap_or_default()),
    })
}

/// Returns the number of questions that were asked, if their answers are present.
fn count_questions<T>(
    fixture: &ScriptedFixture<T>,
    given: RequestInput<'_>,
) -> Result<usize, ErrorData> {
    match given.state {
        Some(state) if fixture.sealed => open(state)
            .ok_or_else(|| ErrorData::invalid_params("the requestState is not ours", None)),
        None if fixture.sealed => Ok(0),
        Some(_) | None => Ok(usize::from(given.responses.is_some())),
    }
}

/// The requests that a client has declared to answer.
fn select_declared(round: &InputRequests, capabilities: &ClientCapabilities) -> InputRequests {
    let can = |request: &InputRequest| match request {
        InputRequest::CreateMessage(_) => capabilities.sampling.is_some(),
        InputRequest::Elicitation(_) => capabilities.elicitation.is_some(),
        InputRequest::ListRoots(_) => capabilities.roots.is_some(),
        _ => false,
    };
    let declared = round.iter().filter(|(_, request)| can(request));
    declared.map(|(key, request)| (key.clone(), request.clone())).collect()
}

/// The key of sealed states. It protects nothing, so it is not secret.
const KEY: &[u8] = b"the rounds of a fixture are no secret";

/// A state that says how many rounds were asked.
pub(super) fn seal(asked: usize) -> String {
    let tag = sign(&new_key(), asked.to_string().as_bytes());
    format!("{asked}.{}", BASE64.encode(tag.as_ref()))
}

/// Returns the content of a state, if the server has sealed it.
pub(super) fn open(state: &str) -> Option<usize> {
    let (asked, tag) = state.split_once('.')?;
    let tag = BASE64.decode(tag).ok()?;
    verify(&new_key(), asked.as_bytes(), &tag).ok()?;
    asked.parse().ok()
}

fn new_key() -> Key {
    Key::new(HMAC_SHA256, KEY)
}

/// The changes that are kept for a slow listener; it misses older ones.
const MAX_MISSED_CHANGES: usize = 16;

// Modern HTTP creates a handler for each request, so the listeners and the fixtures that report
// changes share only the process.
static CHANGES: LazyLock<broadcast::Sender<ServerNotification>> =
    LazyLock::new(|| broadcast::Sender::new(MAX_MISSED_CHANGES));

/// Sends a change to all listeners.
pub(super) fn broadcast_change(change: ServerNotification) {
    // A change without listeners is not an error.
    CHANGES.send(change).ok();
}

/// Forwards changes to a subscriber, for as long as it is polled.
pub(super) async fn forward_changes(sink: SubscriptionSink) {
    let mut changes = CHANGES.subscribe();
    loop {
        match changes.recv().await {
            // The sink refuses what its client did not ask for.
            Ok(change) => drop(sink.send(change).await),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn new_fixture(sealed: bool) -> ScriptedFixture<Value> {
        let form = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "?",
            "requestedSchema": {"type": "object", "properties": {}}}});
        let rounds = json!([{"first": form, "roots": {"method": "roots/list"}}, {"second": form}]);
        let rounds = if sealed { rounds } else { json!([rounds[0]]) };
        let fixture = json!({"definition": {}, "sealed": sealed, "rounds": rounds, "result": {}});
        serde_json::from_value(fixture).unwrap()
    }

    /// Returns the next question and its state; none once all are answered.
    fn next(
        fixture: &ScriptedFixture<Value>,
        answers: &[&str],
        state: Option<&str>,
    ) -> Option<(String, String)> {
        let capabilities = serde_json::from_value(json!({"elicitation": {}})).unwrap();
        let responses: InputResponses =
            answers.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
        let responses = (!answers.is_empty()).then_some(&responses);
        match next_step(fixture, RequestInput { responses, state, capabilities: &capabilities })
            .unwrap()
        {
            FixtureStep::Ask(asked) => {
                let keys: Vec<String> = asked.input_requests.unwrap().into_keys().collect();
                Some((keys.join(" "), asked.request_state.unwrap_or_default()))
            }
            FixtureStep::Answered(_) => None,
        }
    }

    #[test]
    fn a_client_is_asked_until_it_has_answered_what_it_can() {
        let fixture = new_fixture(false);
        let asked = Some(("first".to_owned(), String::new()));
        assert_eq!(next(&fixture, &[], None), asked);
        assert_eq!(next(&fixture, &["other"], None), asked);
        assert_eq!(next(&fixture, &["first", "other"], None), None);
    }

    #[test]
    fn rounds_follow_each_other_by_their_sealed_state() {
        let fixture = new_fixture(true);
        let (_, first) = next(&fixture, &["first"], None).unwrap();
        assert_eq!(next(&fixture, &[], Some(&first)).unwrap().0, "first");
        let (asked, second) = next(&fixture, &["first"], Some(&first)).unwrap();
        assert_eq!(asked, "second");
        assert_eq!(next(&fixture, &["second"], Some(&second)), None);
    }

    #[test]
    fn a_state_that_is_not_ours_is_refused() {
        let capabilities = ClientCapabilities::default();
        let given =
            RequestInput { responses: None, state: Some("1.forged"), capabilities: &capabilities };
        assert!(next_step(&new_fixture(true), given).is_err());
    }

    #[test]
    fn only_what_was_sealed_can_be_opened() {
        assert_eq!(open(&seal(2)), Some(2));
        let forged = seal(2).replacen('2', "1", 1);
        for other in ["", "2", "2.", "2.AAAA", forged.as_str()] {
            assert_eq!(open(other), None, "{other}");
        }
    }
}
