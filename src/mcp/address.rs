//! The address of a job's output: `shellyard://jobs/12/output`.

use crate::ids::JobId;

/// The form of all such addresses, as a URI template.
pub(super) const TEMPLATE: &str = "shellyard://jobs/{job}/output";

/// The address of this job's output.
pub(super) fn of_output(job: JobId) -> String {
    format!("shellyard://jobs/{job}/output")
}

/// The job whose output an address names; nothing where it names none.
pub(super) fn job_of(uri: &str) -> Option<JobId> {
    uri.strip_prefix("shellyard://jobs/")?.strip_suffix("/output")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_job() {
        let job = JobId::new(12);
        assert_eq!(job_of(&of_output(job)), Some(job));
        assert_eq!(TEMPLATE.replace("{job}", "12"), of_output(job));
        for uri in
            ["", "shellyard://jobs/0/output", "shellyard://jobs/x/output", "http://jobs/1/output"]
        {
            assert_eq!(job_of(uri), None, "{uri}");
        }
    }
}
