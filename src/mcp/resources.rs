//! Each job's output as a resource, for clients that attach resources to a conversation.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{ListResourcesResult, ReadResourceResult, ResourceTemplate};

use super::address::{Address, AddressError, TEMPLATES};
use super::reply::{ContentsError, listed_resources, resource_contents};
use crate::ids::JobNumber;
use crate::output::{BlockingReader, ReadBusy};
use crate::yard::{Desk, FindError, JobHandle};

/// The memory of a read beside what it shows.
const BASE_MEMORY: usize = 1024 * 1024;
/// The memory for each byte of a resource: as it was written, as text and in an answer.
const MEMORY_PER_BYTE: usize = 3;
/// A read waits for memory at most this long.
const MEMORY_WAIT: Duration = Duration::from_secs(10);
/// So many jobs are on one page of the list.
const PAGE: usize = 100;

/// The newest jobs, newest first; from the cursor on where one is given.
pub(super) async fn list(
    desk: &Desk,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let before = cursor.map(before_of).transpose()?;
    let mut jobs = desk.list().await;
    jobs.retain(|job| before.is_none_or(|before| job.id().in_tenant() < before));
    let is_all = jobs.len() <= PAGE;
    jobs.truncate(PAGE);
    let next = jobs.last().filter(|_| !is_all).map(|job| format!("before:{}", job.id()));
    let redactor = desk.redactor();
    let resources = listed_resources(&jobs, &redactor).await;
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = next;
    Ok(result)
}

/// The job before which a page begins. A cursor names a job, not a number of them, so that jobs
/// that appear meanwhile move nothing.
fn before_of(cursor: &str) -> Result<JobNumber, ErrorData> {
    cursor.strip_prefix("before:").and_then(|id| id.parse().ok()).ok_or_else(|| {
        let message = "unknown cursor: give a nextCursor of resources/list, or leave it out";
        ErrorData::invalid_params(message, None)
    })
}

/// The address forms of all of them.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    const ABOUT: [(&str, &str); TEMPLATES.len()] = [
        ("job output", "What a job wrote, both streams in the order in which they came"),
        ("job stream", "What a job wrote on one stream: stdout or stderr"),
        ("part of a job's output", "Bytes from start, up to end where that is given"),
        ("part of a job's stream", "Bytes from start, counted in that stream"),
    ];
    let template = |(uri, (name, about)): (&str, (&str, &str))| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type("text/plain")
    };
    TEMPLATES.into_iter().zip(ABOUT).map(template).collect()
}

/// The output at this address, up to `max_bytes`.
pub(super) async fn read(
    desk: &Desk,
    uri: &str,
    max_bytes: usize,
) -> Result<ReadResourceResult, ErrorData> {
    let (address, job) = find(desk, uri).await?;
    let redactor = desk.redactor();
    let memory = job.output().reserve(BASE_MEMORY + MEMORY_PER_BYTE * max_bytes, MEMORY_WAIT);
    let memory = memory.await.map_err(busy)?;
    let read = move |log: &BlockingReader| {
        Ok((resource_contents(log, &address, max_bytes, &redactor), memory))
    };
    let read = job.output().read_with(read).await.map_err(ContentsError::Read);
    match read.and_then(|(contents, _memory)| contents) {
        Ok(contents) => Ok(ReadResourceResult::new(vec![contents])),
        Err(error @ ContentsError::Outside { .. }) => {
            Err(ErrorData::invalid_params(error.to_string(), None))
        }
        Err(error @ ContentsError::Read(_)) => {
            Err(ErrorData::internal_error(error.to_string(), None))
        }
    }
}

/// The job at an address.
pub(super) async fn find(desk: &Desk, uri: &str) -> Result<(Address, JobHandle), ErrorData> {
    let given: String = uri.chars().take(80).collect();
    let not_found = |why: &str| {
        let data = serde_json::json!({ "uri": uri });
        ErrorData::resource_not_found(format!("there is no resource `{given}`; {why}"), Some(data))
    };
    let address = Address::parse(uri).map_err(|error| match error {
        AddressError::Foreign => not_found(&error.to_string()),
        AddressError::Range => {
            ErrorData::invalid_params(format!("`{given}` names no part; {error}"), None)
        }
    })?;
    let job = desk.find(desk.job(address.job)).await.map_err(|error| match error {
        FindError::Unknown { .. } => not_found(&error.to_string()),
        FindError::Freed { .. } => {
            let data = serde_json::json!({ "uri": uri, "error_code": error.code() });
            ErrorData::resource_not_found(error.to_string(), Some(data))
        }
        FindError::Unavailable { .. } => ErrorData::internal_error(error.to_string(), None),
    })?;
    Ok((address, job))
}

fn busy(error: ReadBusy) -> ErrorData {
    let data = serde_json::json!({ "error_code": error.code() });
    ErrorData::internal_error(error.to_string(), Some(data))
}
