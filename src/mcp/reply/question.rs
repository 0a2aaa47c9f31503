//! The question whether a command may run, as clients show it to somebody.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    EnumSchema, InputRequest, InputRequests, InputRequiredResult, InputResponses,
};

use super::words::thousands;
use crate::yard::{Consent, Fate, Parked, Question};

/// The name of the question, and of its one field.
const APPROVAL: &str = "approval";
/// What may be said, and what it means; anything else is a no.
const CHOICES: [(&str, Option<Consent>); 3] =
    [("once", Some(Consent::Once)), ("tenant", Some(Consent::Tenant)), ("no", None)];
/// What is shown of either end of a long command.
const SHOWN_CHARS: usize = 1500;

/// The form in which somebody is asked.
pub(crate) fn question_form(question: &Question) -> ElicitRequestParams {
    let Question { command, cwd, rule, .. } = question;
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
pub(crate) fn question_result(question: &Question) -> InputRequiredResult {
    InputRequiredResult::new(Some(question_requests(question)), Some(question.id.clone()))
}

/// The same as what a task asks for.
pub(crate) fn question_requests(question: &Question) -> InputRequests {
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
pub(crate) fn asking_line(question: &Question) -> String {
    format!("waiting for somebody's yes: {} wants it", question.rule)
}

/// How a submission stands that has asked somebody.
pub(crate) fn parked_line(parked: &Parked) -> String {
    match &parked.fate {
        Fate::Open => asking_line(&parked.question),
        Fate::Refused(error) => format!("refused, nothing was run: {error}"),
        Fate::Cancelled => "cancelled before anybody agreed, nothing was run".to_owned(),
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
    let (head, tail) = (&characters[..SHOWN_CHARS], &characters[SHOWN_CHARS + hidden..]);
    let count = thousands(hidden as u64);
    format!("{}\n[… {count} characters are not shown …]\n{}", plain(head), plain(tail))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
