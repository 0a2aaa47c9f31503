//! Jobs that were allowed and have no ending in the log: they run, or their server was killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::entry::ParsedLine;
use crate::private_files::Symlinks;

/// The end of the log in which a new server looks for jobs without an ending. Only the last entries
/// of a killed server can be missing.
const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// A job of the log. Several servers may write to one log and use the same numbers, so the trace of
/// the call belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditedJob {
    pub tenant: String,
    pub number: u64,
    pub trace_id: String,
}

/// The jobs without an ending after the lines so far; `P` is what is stored of each decision.
#[derive(Debug)]
pub(super) struct OpenJobs<P> {
    jobs: BTreeMap<AuditedJob, P>,
}

impl<P> OpenJobs<P> {
    pub(super) const fn new() -> Self {
        Self { jobs: BTreeMap::new() }
    }

    /// Handles the next line.
    pub(super) fn add_line(&mut self, line: &ParsedLine, place: impl FnOnce() -> P) {
        if let Some(job) = line.allowed_job() {
            self.jobs.insert(job, place());
        } else if let Some(job) = line.ended_job() {
            self.jobs.remove(&job);
        } else if let Some((tenant, number)) = line.unaccepted_job() {
            self.jobs.retain(|job, _| (job.tenant.as_str(), job.number) != (tenant, number));
        }
    }

    pub(super) fn into_jobs(self) -> BTreeMap<AuditedJob, P> {
        self.jobs
    }
}

/// Returns the jobs without an ending in the end of a log; none if there is no log.
///
/// # Errors
/// If the log cannot be read.
pub fn find_open_jobs(log: &Path) -> io::Result<Vec<AuditedJob>> {
    let mut file = match Symlinks::Follow.options().read(true).open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(find_in_lines(&read_tail(&mut file)?))
}

fn read_tail(file: &mut File) -> io::Result<Vec<u8>> {
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Finds the open jobs of these lines. A line that is no entry, such as the rest of a cut one, is
/// skipped.
fn find_in_lines(text: &[u8]) -> Vec<AuditedJob> {
    let mut open = OpenJobs::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Ok(line) = ParsedLine::parse(line) {
            open.add_line(&line, || ());
        }
    }
    open.into_jobs().into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fields: &str) -> String {
        let hash = "0".repeat(64);
        format!("{{\"seq\":1,\"time\":\"t\",\"prev\":\"{hash}\",{fields}}}\n")
    }

    #[test]
    fn a_job_is_open_from_its_decision_to_its_ending() {
        let decision = |job: u64, verdict: &str| {
            line(&format!(
                "\"event\":\"decision\",\"tenant\":\"a\",\"job\":{job},\"verdict\":\"{verdict}\",\"trace_id\":\"t\""
            ))
        };
        let text = [
            "half a line}\n".to_owned(),
            decision(1, "allowed"),
            decision(2, "allowed"),
            decision(3, "refused"),
            decision(4, "allowed"),
            line("\"event\":\"ending\",\"tenant\":\"a\",\"job\":1,\"trace_id\":\"t\""),
            line("\"event\":\"note\",\"what\":\"not_accepted\",\"detail\":\"job 4 of a: full\""),
            line("\"event\":\"ending\",\"tenant\":\"b\",\"job\":2,\"trace_id\":\"t\""),
            line("\"event\":\"ending\",\"tenant\":\"a\",\"job\":2,\"trace_id\":\"other\""),
        ];
        let open = AuditedJob { tenant: "a".to_owned(), number: 2, trace_id: "t".to_owned() };
        assert_eq!(find_in_lines(text.concat().as_bytes()), [open]);
    }

    #[test]
    fn a_missing_log_has_no_jobs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find_open_jobs(&folder.path().join("none")).unwrap(), []);
    }
}
