//! The last resort for an answer that is over its budget whatever was left out of it: it is cut, and
//! says so.

use std::io;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::words::{count, size};

/// Texts of the structured form are cut to so many bytes.
const TEXT_BYTES: usize = 120;
/// Lists of numbers are cut to so many.
const LISTED: usize = 8;
/// The field that says how many jobs are left out of `jobs`.
const LEFT_OUT: &str = "jobs_left_out";

/// At most `limit` bytes of a text, cut after a whole line where there is one, and how much is
/// missing.
pub(super) fn trim_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mark = |kept: usize| {
        let cut = size((text.len() - kept) as u64);
        format!("\n[… {cut} cut to keep the reply in its token budget]")
    };
    let room = limit.saturating_sub(mark(0).len());
    let end = text.floor_char_boundary(room);
    let end = text[..end].rfind('\n').unwrap_or(end);
    let whole = format!("{}{}", &text[..end], mark(end));
    whole[..whole.floor_char_boundary(limit)].to_owned()
}

/// Cuts the structured form until it takes at most `limit` bytes. How tools ended goes first; then
/// output, as a whole, so that the bytes it stands for stay true; then the errors that were hidden
/// in it; then long texts and lists; then jobs.
pub(super) fn trim_fields(fields: &mut JsonObject, limit: usize) {
    let steps: [fn(&mut JsonObject); 4] =
        [without_endings, without_output, without_hidden_errors, shortened];
    for step in steps {
        if json_size(fields) <= limit {
            return;
        }
        each_job(fields, step);
    }
    let mut left_out = 0_u64;
    while json_size(fields) > limit {
        let Some(Value::Array(jobs)) = fields.get_mut("jobs") else { return };
        // Some at a time where there are many: each look at the size costs a walk.
        let fewer = jobs.len() - jobs.len().div_ceil(8);
        left_out += (jobs.len() - fewer) as u64;
        if fewer == jobs.len() {
            return;
        }
        jobs.truncate(fewer);
        fields.insert(LEFT_OUT.to_owned(), left_out.into());
        let hint = format!("{} left out: ask about fewer", count(left_out, "job is", "jobs are"));
        fields.insert("hint".to_owned(), hint.into());
    }
}

/// The bytes of the structured form.
pub(super) fn json_size(fields: &JsonObject) -> usize {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, fields).map_or(usize::MAX, |()| counted.0)
}

/// Counts what is written, and keeps nothing of it.
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn each_job(fields: &mut JsonObject, step: fn(&mut JsonObject)) {
    if let Some(Value::Array(jobs)) = fields.get_mut("jobs") {
        jobs.iter_mut().filter_map(Value::as_object_mut).for_each(step);
    }
    step(fields);
}

fn without_endings(fields: &mut JsonObject) {
    if let Some(Value::Object(digest)) = fields.get_mut("digest") {
        digest.remove("endings");
    }
}

/// Their number stays.
fn without_hidden_errors(fields: &mut JsonObject) {
    fields.remove("hidden_errors");
}

/// Takes output out: reading starts again where it would have started.
fn without_output(fields: &mut JsonObject) {
    let shown = ["output", "stdout", "stderr"].into_iter().find(|name| fields.contains_key(*name));
    let (Some(shown), Some(start)) = (shown, fields.get("bytes_start").cloned()) else { return };
    for name in ["tail", "tail_bytes_start"] {
        fields.remove(name);
    }
    let cursor = format!("bytes:{start}");
    for (name, value) in [
        (shown, json!("")),
        ("bytes_end", start),
        ("next_cursor", json!(cursor)),
        ("end", json!("more")),
        ("truncated", json!(true)),
    ] {
        fields.insert(name.to_owned(), value);
    }
}

fn shortened(fields: &mut JsonObject) {
    let mut is_cut = false;
    for value in fields.values_mut() {
        match value {
            Value::String(text) if text.len() > TEXT_BYTES => {
                let kept = text.floor_char_boundary(TEXT_BYTES);
                *text = format!("{}… [+{}]", &text[..kept], size((text.len() - kept) as u64));
            }
            Value::Array(items) if items.len() > LISTED && items.iter().all(Value::is_number) => {
                items.truncate(LISTED);
                is_cut = true;
            }
            Value::String(_)
            | Value::Array(_)
            | Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_) => {}
        }
    }
    if is_cut {
        fields.insert("truncated".to_owned(), true.into());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_text_is_cut_after_a_whole_line_and_says_how_much_is_missing() {
        let text = "line\n".repeat(100);
        let cut = trim_text(&text, 100);
        assert!(cut.len() <= 100 && cut.starts_with("line\nline"), "{cut}");
        assert!(
            cut.ends_with("line\n[… 461 bytes cut to keep the reply in its token budget]"),
            "{cut}"
        );
        assert_eq!(trim_text("short", 5), "short");
    }

    #[test]
    fn without_its_output_an_answer_says_where_reading_starts() {
        let mut fields = object(json!({
            "job": 1, "output": "x".repeat(500), "tail": "y", "tail_bytes_start": 600,
            "bytes_start": 7, "bytes_end": 507, "end": "complete",
        }));
        trim_fields(&mut fields, 200);
        assert_eq!(
            Value::Object(fields),
            json!({
                "job": 1, "output": "", "bytes_start": 7, "bytes_end": 7, "end": "more",
                "next_cursor": "bytes:7", "truncated": true,
            })
        );
    }

    #[test]
    fn jobs_that_have_no_room_are_counted() {
        let job = json!({"job": 1, "command": "x".repeat(5000), "background_pids": vec![1; 50]});
        let mut fields = object(json!({"jobs": vec![job; 100]}));
        trim_fields(&mut fields, 3000);
        assert!(json_size(&fields) <= 3000);
        let shown = fields["jobs"].as_array().unwrap().len() as u64;
        assert!(shown > 3 && fields["jobs_left_out"] == 100 - shown, "{shown}");
        assert_eq!(fields["jobs"][0]["background_pids"].as_array().unwrap().len(), 8);
    }

    proptest! {
        #[test]
        fn any_text_is_within_its_limit(text in any::<String>(), limit in 0..200_usize) {
            prop_assert!(trim_text(&text, limit).len() <= limit);
        }
    }
}
