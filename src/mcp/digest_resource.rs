//! The digest of each job's output as a resource: `shellyard://jobs/12/digest`.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, ResourceContents};

use super::reply::{DigestError, read_summary};
use super::resources::{busy_error, find_job};
use crate::ids::JobNumber;
use crate::service::TenantClient;

/// Reads the facts of a job's output as text, at most `max_bytes`. Returns `None` if the URI does not
/// name a digest.
pub(super) async fn read(
    client: &TenantClient,
    uri: &str,
    max_bytes: usize,
) -> Option<Result<ReadResourceResult, ErrorData>> {
    Some(read_facts(client, uri, parse_digest_uri(uri)?, max_bytes).await)
}

async fn read_facts(
    client: &TenantClient,
    uri: &str,
    job: JobNumber,
    max_bytes: usize,
) -> Result<ReadResourceResult, ErrorData> {
    let job = find_job(client, uri, job).await?;
    let found = read_summary(job.output()).await.map_err(|error| match error {
        DigestError::Busy(error) => busy_error(error),
        DigestError::Find(_) | DigestError::Read(_) => {
            ErrorData::internal_error(error.to_string(), None)
        }
    })?;
    let facts = found.summary.text(max_bytes).lines.join("\n");
    let text = client.redactor().mask_text(&facts).into_owned();
    let contents = ResourceContents::text(text, uri).with_mime_type("text/plain");
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Returns the job whose digest this URI names.
fn parse_digest_uri(uri: &str) -> Option<JobNumber> {
    uri.strip_prefix("shellyard://jobs/")?.strip_suffix("/digest")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::resources::TEMPLATES;

    #[test]
    fn a_uri_names_the_digest_of_a_job() {
        let uri = TEMPLATES[4].replace("{job}", "12");
        assert_eq!(parse_digest_uri(&uri), Some(JobNumber::new(12)));
        for foreign in ["shellyard://jobs/12/output", "shellyard://jobs/x/digest", "file:///digest"]
        {
            assert_eq!(parse_digest_uri(foreign), None, "{foreign}");
        }
    }
}
