//! `audit verify FILE`.

use std::error::Error;
use std::path::Path;

use serde_json::{Value, json};

use super::terminal::VerbOutput;
use super::{AuditCommand, AuditVerb, AuditVerifyFlags};
use crate::telemetry::audit::{self, EntryStamp, LineLocation, VerifyError, VerifyReport};

/// How the answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    Human,
    /// One JSON object.
    Json,
}

/// Carries out the `audit` verb and returns the exit code.
#[must_use]
pub fn run(command: &AuditCommand) -> u8 {
    let AuditVerb::Verify(AuditVerifyFlags { file, json }) = &command.verb;
    verify(file, if *json { Format::Json } else { Format::Human })
}

/// Checks an audit log and returns the exit code: 0, or 1 when it does not hold.
#[must_use]
pub fn verify(file: &Path, format: Format) -> u8 {
    reply(audit::verify(file), format).print()
}

fn reply(result: Result<VerifyReport, VerifyError>, format: Format) -> VerbOutput {
    match (result, format) {
        (Ok(verified), Format::Human) => {
            VerbOutput { stdout: summary(&verified), stderr: remarks(&verified), code: 0 }
        }
        (Ok(verified), Format::Json) => {
            VerbOutput { stdout: format!("{:#}\n", as_json(&verified)), ..VerbOutput::default() }
        }
        (Err(error), Format::Human) => {
            let stderr = format!("shellyard: {}\n", full_text(&error));
            VerbOutput { stdout: String::new(), stderr, code: 1 }
        }
        (Err(error), Format::Json) => VerbOutput {
            stdout: format!("{:#}\n", problem(&error)),
            code: 1,
            ..VerbOutput::default()
        },
    }
}

fn summary(verified: &VerifyReport) -> String {
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

/// What is no fault of the log, but good to know.
fn remarks(verified: &VerifyReport) -> String {
    let mut text = String::new();
    if let Some(first) = verified.first.as_ref().filter(|first| first.seq > 1) {
        text += &format!(
            "note: the log begins with entry {}; files with older ones were rotated out or moved away\n",
            thousands(first.seq)
        );
    }
    for place in &verified.damaged {
        text += &format!(
            "note: {place} is damaged: its writer was interrupted; the next entry says so\n"
        );
    }
    text
}

fn as_json(verified: &VerifyReport) -> Value {
    json!({
        "ok": true,
        "entries": verified.lines,
        "files": verified.files,
        "first": verified.first.as_ref().map(mark),
        "last": verified.last.as_ref().map(mark),
        "damaged": verified.damaged.iter().map(place).collect::<Vec<_>>(),
    })
}

fn problem(error: &VerifyError) -> Value {
    let mut answer = json!({ "ok": false, "code": error.code(), "message": full_text(error) });
    if let Some(found) = error.place() {
        answer["file"] = json!(found.file.to_string_lossy());
        answer["line"] = json!(found.line);
    }
    answer
}

fn mark(mark: &EntryStamp) -> Value {
    json!({ "seq": mark.seq, "time": mark.time })
}

fn place(place: &LineLocation) -> Value {
    json!({ "file": place.file.to_string_lossy(), "line": place.line })
}

fn full_text(error: &VerifyError) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// `1 entry`, `1,234 entries`.
fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// `1234` as `1,234`.
fn thousands(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000.. => format!("{},{:03}", thousands(number / 1000), number % 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::audit::{AuditLog, AuditLogSettings, NoteEntry};
    use std::fs;

    fn log(folder: &Path, entries: usize) -> std::path::PathBuf {
        let path = folder.join("audit.jsonl");
        let settings =
            AuditLogSettings { path: path.clone(), max_bytes: 150_000, keep: 1, max_queued: 0 };
        let audit = AuditLog::open(settings).unwrap();
        for _ in 0..entries {
            audit.note(&NoteEntry { what: "test", detail: "" });
            // One by one, so that the log is rotated as soon as it is large enough.
            audit.finish();
        }
        path
    }

    fn answer(path: &Path) -> (Value, u8) {
        let reply = reply(audit::verify(path), Format::Json);
        assert_eq!(reply.stderr, "");
        (serde_json::from_str(&reply.stdout).unwrap(), reply.code)
    }

    #[test]
    fn a_log_that_holds_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path(), 1_234);
        let said = reply(audit::verify(&path), Format::Human);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""));
        assert!(said.stdout.starts_with("ok: 1,235 entries in 2 files, 20"), "{said:?}");
        assert_eq!(said.stdout.lines().count(), 1, "{said:?}");
        let (answer, code) = answer(&path);
        assert_eq!((code, &answer["ok"], &answer["entries"]), (0, &json!(true), &json!(1_235)));
        assert_eq!(answer["first"]["seq"], 1);
    }

    #[test]
    fn a_log_whose_beginning_was_rotated_out_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path(), 4_000);
        let said = reply(audit::verify(&path), Format::Human);
        assert_eq!(said.code, 0);
        assert!(said.stderr.starts_with("note: the log begins with entry"), "{said:?}");
    }

    #[test]
    fn a_problem_has_its_place_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path(), 3);
        let text = fs::read_to_string(&path).unwrap().replacen("test", "best", 2);
        fs::write(&path, text).unwrap();
        let said = reply(audit::verify(&path), Format::Human);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        assert!(said.stderr.starts_with(&format!("shellyard: {}:1: ", path.display())), "{said:?}");
        assert!(said.stderr.contains("copy of the log"), "{said:?}");
        let (answer, code) = answer(&path);
        assert_eq!((code, &answer["code"], &answer["line"]), (1, &json!("changed"), &json!(1)));
    }

    #[test]
    fn a_missing_log_and_an_empty_one_differ() {
        let folder = tempfile::tempdir().unwrap();
        let said = reply(audit::verify(&folder.path().join("none")), Format::Human);
        assert_eq!(said.code, 1);
        assert!(said.stderr.contains("No such file"), "{said:?}");
        let said = reply(audit::verify(&log(folder.path(), 0)), Format::Human);
        assert_eq!((said.code, said.stdout.as_str()), (0, "ok: no entries yet\n"));
    }

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 999, 1_000, 1_234_005].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,005"]);
    }
}
