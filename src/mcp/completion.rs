//! What an argument of a resource template can be.

use rmcp::ErrorData;
use rmcp::model::{CompleteRequestParams, CompletionInfo, Reference};

use super::address::TEMPLATES;
use crate::spec::Stream;
use crate::yard::Desk;

/// The values that the argument can have and that begin as it does so far: jobs newest first.
pub(super) async fn complete(
    desk: &Desk,
    request: &CompleteRequestParams,
) -> Result<CompletionInfo, ErrorData> {
    check_template(&request.r#ref)?;
    let argument = &request.argument;
    let values = match argument.name.as_str() {
        "job" => desk.list().await.iter().map(|job| job.id().to_string()).collect(),
        "stream" => [Stream::Stdout, Stream::Stderr].map(|it| it.name().to_owned()).to_vec(),
        // A position can be any number.
        "start" | "end" => Vec::new(),
        _ => return Err(refused("the arguments of the templates are job, stream, start and end")),
    };
    beginning_with(&argument.value, values)
}

fn check_template(of: &Reference) -> Result<(), ErrorData> {
    if let Reference::Resource(template) = of
        && TEMPLATES.contains(&template.uri.as_str())
    {
        return Ok(());
    }
    Err(refused("resources/templates/list lists the templates, and there are no prompts"))
}

fn refused(why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is nothing to complete: {why}"), None)
}

/// As many of them as one answer holds, and how many there are.
fn beginning_with(given: &str, mut values: Vec<String>) -> Result<CompletionInfo, ErrorData> {
    values.retain(|value| value.starts_with(given));
    let total = values.len();
    values.truncate(CompletionInfo::MAX_VALUES);
    let has_more = total > values.len();
    CompletionInfo::with_pagination(values, u32::try_from(total).ok(), has_more)
        .map_err(|error| ErrorData::internal_error(error, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let values = |count: u64| (1..=count).rev().map(|job| job.to_string()).collect();
        let some = beginning_with("1", values(12)).unwrap();
        assert_eq!(some.values, ["12", "11", "10", "1"]);
        assert_eq!((some.total, some.has_more), (Some(4), Some(false)));
        let many = beginning_with("", values(250)).unwrap();
        assert_eq!((many.values.len(), many.total, many.has_more), (100, Some(250), Some(true)));
    }

    #[test]
    fn only_our_own_templates_are_completed() {
        check_template(&Reference::for_resource(TEMPLATES[3])).unwrap();
        for foreign in [Reference::for_resource("file:///{path}"), Reference::for_prompt("x")] {
            assert_eq!(check_template(&foreign).unwrap_err().code.0, -32602);
        }
    }
}
