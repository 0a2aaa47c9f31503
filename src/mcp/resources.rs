//! Each job's output as a resource, for clients that attach resources to a conversation.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use super::address;
use super::reply::resource_contents;
use crate::output::redact::Redactor;
use crate::yard::{JobHandle, Yard};

/// Only so many of the newest jobs are listed; any other can be read by its address.
const LISTED: usize = 100;

/// The newest jobs, newest first.
pub(super) async fn list(yard: &Yard) -> Vec<Resource> {
    let redactor = yard.redactor();
    yard.list().await.iter().take(LISTED).map(|job| describe(job, &redactor)).collect()
}

fn describe(job: &JobHandle, redactor: &Redactor) -> Resource {
    let spec = job.spec();
    let about = spec.description.clone().unwrap_or_else(|| spec.program.display());
    Resource::new(address::of_output(job.id()), format!("job {} output", job.id()))
        .with_description(redactor.mask_text(&about).chars().take(200).collect::<String>())
        .with_mime_type("text/plain")
}

/// The address form of all of them.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new(address::TEMPLATE, "job output")
        .with_description("What a job wrote, both streams in the order in which they came")
        .with_mime_type("text/plain");
    vec![template]
}

/// The output at this address, from its start, up to `max_bytes`.
pub(super) async fn read(
    yard: &Yard,
    uri: &str,
    max_bytes: usize,
) -> Result<ReadResourceResult, ErrorData> {
    let not_found = || {
        let given: String = uri.chars().take(80).collect();
        let message =
            format!("there is no resource `{given}`; job outputs are at {}", address::TEMPLATE);
        ErrorData::resource_not_found(message, Some(serde_json::json!({ "uri": uri })))
    };
    let id = address::job_of(uri).ok_or_else(not_found)?;
    let job = yard.find(id).await.map_err(|_| not_found())?;
    let contents: ResourceContents = resource_contents(&job, uri, max_bytes, &yard.redactor())
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(ReadResourceResult::new(vec![contents]))
}
