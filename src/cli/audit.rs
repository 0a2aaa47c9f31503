//! `audit verify FILE`: checks an audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::terminal::{OutputFormat, VerbOutput, format_with_causes, read_width};
use super::text_layout::wrap_text;
use crate::mcp::{count, thousands};
use crate::telemetry::audit::{
    self, AuditedJob, EntryStamp, LineLocation, VerifyError, VerifyReport,
};

/// Arguments of the `audit` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AuditCommand {
    #[command(subcommand)]
    pub verb: AuditVerb,
}

/// The verbs of `audit`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum AuditVerb {
    /// Find changed, missing or reordered entries; exit code 1 if there are any.
    Verify(AuditVerifyFlags),
}

/// Flags of `audit verify`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AuditVerifyFlags {
    /// The audit log; its rotated files are found beside it.
    pub file: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Runs the `audit` verb and returns the exit code: 0, or 1 if the log is not valid.
#[must_use]
pub fn run(command: &AuditCommand) -> u8 {
    let AuditVerb::Verify(AuditVerifyFlags { file, json }) = &command.verb;
    reply(audit::verify(file), OutputFormat::from_json_flag(*json)).print()
}

fn reply(result: Result<VerifyReport, VerifyError>, format: OutputFormat) -> VerbOutput {
    match (result, format) {
        (Ok(verified), OutputFormat::Human) => VerbOutput {
            stdout: wrap_text(&format_summary(&verified), read_width(&std::io::stdout())),
            stderr: format_notes(&verified),
            code: 0,
        },
        (Ok(verified), OutputFormat::Json) => VerbOutput::json(&as_json(&verified), 0),
        (Err(error), OutputFormat::Human) => VerbOutput::failure(&format_with_causes(&error)),
        (Err(error), OutputFormat::Json) => VerbOutput::json(&problem_json(&error), 1),
    }
}

fn format_summary(verified: &VerifyReport) -> String {
    let (Some(first), Some(last)) = (&verified.first, &verified.last) else {
        return "ok: no entries yet\n".to_owned();
    };
    format!(
        "ok: {} in {}, {} to {}\n",
        count(verified.lines, "entry", "entries"),
        count(verified.files as u64, "file", "files"),
        first.time,
        last.time,
    )
}

/// Notes about a valid log that the reader should know.
fn format_notes(verified: &VerifyReport) -> String {
    let mut text = String::new();
    if let Some(first) = verified.first.as_ref().filter(|first| first.seq > 1) {
        text += &format!(
            "note: the log begins with entry {}; files with older ones were rotated out or moved away\n",
            thousands(first.seq)
        );
    }
    for location in &verified.damaged {
        text += &format!(
            "note: {location} is damaged: its writer was interrupted; the next entry says so\n"
        );
    }
    text + &format_open_jobs(&verified.open_jobs)
}

/// The number of jobs without an ending that are named.
const MAX_NAMED_JOBS: usize = 10;

/// Names the decisions without an ending.
fn format_open_jobs(open: &[(AuditedJob, LineLocation)]) -> String {
    if open.is_empty() {
        return String::new();
    }
    let jobs = open.iter().take(MAX_NAMED_JOBS);
    let named = jobs.map(|(job, at)| format!("job {} of {} ({at})", job.number, job.tenant));
    let mut named: Vec<String> = named.collect();
    if open.len() > MAX_NAMED_JOBS {
        named.push(format!("{} more", open.len() - MAX_NAMED_JOBS));
    }
    format!(
        "note: {} no ending: {}; such a job still runs, or its server was killed: a durable server writes the ending when it starts again\n",
        count(open.len() as u64, "decision has", "decisions have"),
        named.join(", "),
    )
}

fn as_json(verified: &VerifyReport) -> Value {
    json!({
        "ok": true,
        "entries": verified.lines,
        "files": verified.files,
        "first": verified.first.as_ref().map(stamp_json),
        "last": verified.last.as_ref().map(stamp_json),
        "damaged": verified.damaged.iter().map(location_json).collect::<Vec<_>>(),
        "without_ending": verified.open_jobs.iter().map(open_job_json).collect::<Vec<_>>(),
    })
}

fn problem_json(error: &VerifyError) -> Value {
    let mut answer =
        json!({ "ok": false, "code": error.code(), "message": format_with_causes(error) });
    if let Some(found) = error.location() {
        answer["file"] = json!(found.file.to_string_lossy());
        answer["line"] = json!(found.line);
    }
    answer
}

fn stamp_json(stamp: &EntryStamp) -> Value {
    json!({ "seq": stamp.seq, "time": stamp.time })
}

fn open_job_json((job, at): &(AuditedJob, LineLocation)) -> Value {
    let mut fields = location_json(at);
    fields["tenant"] = json!(job.tenant);
    fields["job"] = json!(job.number);
    fields
}

fn location_json(location: &LineLocation) -> Value {
    json!({ "file": location.file.to_string_lossy(), "line": location.line })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::telemetry::audit::{AuditLog, AuditLogSettings, NoteEntry};

    fn log(folder: &Path, entries: usize) -> PathBuf {
        let path = folder.join("audit.jsonl");
        let settings =
            AuditLogSettings { path: path.clone(), max_bytes: 150_000, keep: 1, max_queued: 0 };
        let audit = AuditLog::open(settings).unwrap();
        for _ in 0..entries {
            audit.record_note(&NoteEntry { what: "test", detail: "" });
            // Entries are written one by one, so that the log is rotated as soon as it is large enough.
            audit.finish();
        }
        path
    }

    fn answer(path: &Path) -> (Value, u8) {
        let reply = reply(audit::verify(path), OutputFormat::Json);
        assert_eq!(reply.stderr, "");
        (serde_json::from_str(&reply.stdout).unwrap(), reply.code)
    }

    #[test]
    fn a_valid_log_gives_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path(), 1_234);
        let said = reply(audit::verify(&path), OutputFormat::Human);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""));
        assert!(said.stdout.starts_with("ok: 1,235 entries in 2 files, 20"), "{said:?}");
        assert_eq!(said.stdout.lines().count(), 1, "{said:?}");
        let (answer, code) = answer(&path);
        assert_eq!((code, &answer["ok"], &answer["entries"]), (0, &json!(true), &json!(1_235)));
        assert_eq!(answer["first"]["seq"], 1);
    }

    #[test]
    fn a_note_says_that_the_oldest_entries_were_rotated_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path(), 4_000);
        let said = reply(audit::verify(&path), OutputFormat::Human);
        assert_eq!(said.code, 0);
        assert!(said.stderr.starts_with("note: the log begins with entry"), "{said:?}");
    }

    #[test]
    fn a_problem_is_reported_with_its_line_and_advice() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path(), 3);
        let text = fs::read_to_string(&path).unwrap().replacen("test", "best", 2);
        fs::write(&path, text).unwrap();
        let said = reply(audit::verify(&path), OutputFormat::Human);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        assert!(said.stderr.starts_with(&format!("shellyard: {}:1: ", path.display())), "{said:?}");
        assert!(said.stderr.contains("copy of the log"), "{said:?}");
        let (answer, code) = answer(&path);
        assert_eq!((code, &answer["code"], &answer["line"]), (1, &json!("changed"), &json!(1)));
    }

    #[test]
    fn a_missing_log_is_an_error_and_an_empty_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let said = reply(audit::verify(&folder.path().join("none")), OutputFormat::Human);
        assert_eq!(said.code, 1);
        assert!(said.stderr.contains("No such file"), "{said:?}");
        let said = reply(audit::verify(&log(folder.path(), 0)), OutputFormat::Human);
        assert_eq!((said.code, said.stdout.as_str()), (0, "ok: no entries yet\n"));
    }
}
