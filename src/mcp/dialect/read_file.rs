//! `read_file`: a file beneath the working directory, or a part of a large one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::Foreign;
use crate::mcp::schema::{Field, Kind};
use crate::mcp::tools::Call;
use crate::yard::FilePage;

const FIELDS: [Field; 2] =
    [Field::required("path", Kind::Text, ""), Field::optional("offset", Kind::Whole, "")];

pub(super) const ABOUT: &str = "Read a file in the working directory";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file"},
            "offset": {"type": "integer", "minimum": 0, "description": "First byte to read"}
        },
        "required": ["path"]
    })
}

pub(super) async fn call(call: Call<'_>, arguments: JsonObject) -> Foreign {
    let (path, offset) = match asked(arguments) {
        Ok(asked) => asked,
        Err(error) => return Foreign::failure(error.to_string()),
    };
    let most = call.settings.dialect.execute_command.max_output;
    match call.desk.read_file(&path, offset, most).await {
        Ok(page) => Foreign::pretty(fields(path, offset, &page)),
        Err(error) => Foreign::failure(error.to_string()),
    }
}

fn asked(arguments: JsonObject) -> Result<(String, u64), ArgError> {
    let mut args = Args::strict(arguments, &FIELDS)?;
    let path = args.text("path")?.unwrap_or_default();
    // No file is longer than what a seek can be given.
    Ok((path, args.whole("offset", 0..=i64::MAX as u64)?.unwrap_or(0)))
}

fn fields(path: String, offset: u64, page: &FilePage) -> JsonObject {
    let (encoding, content, shown) = content(page);
    let mut fields = JsonObject::new();
    fields.insert("path".into(), path.into());
    fields.insert("encoding".into(), encoding.into());
    fields.insert("content".into(), content.into());
    fields.insert("size".into(), page.size.into());
    fields.insert("truncated".into(), page.is_cut.into());
    if page.is_cut {
        fields.insert("next_offset".into(), (offset + shown as u64).into());
    }
    fields
}

/// The encoding, the content in it, and how many bytes that is. What is no text goes as base64,
/// so that no byte is lost; a cut through a character goes before it.
fn content(page: &FilePage) -> (&'static str, String, usize) {
    let bytes = &page.bytes;
    let whole = match std::str::from_utf8(bytes) {
        Ok(_) => Some(bytes.len()),
        Err(error) if page.is_cut && error.error_len().is_none() => Some(error.valid_up_to()),
        Err(_) => None,
    };
    match whole.filter(|length| *length > 0 || bytes.is_empty()) {
        Some(length) => ("utf-8", String::from_utf8_lossy(&bytes[..length]).into_owned(), length),
        None => ("base64", STANDARD.encode(bytes), bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], is_cut: bool, expected: (&str, &str, usize)) {
        let page = FilePage { bytes: bytes.to_vec(), is_cut, size: 9 };
        let (encoding, content, shown) = content(&page);
        assert_eq!((encoding, content.as_str(), shown), expected);
    }

    #[test]
    fn text_stays_text_and_no_byte_is_lost() {
        check(b"", false, ("utf-8", "", 0));
        check("é\n".as_bytes(), false, ("utf-8", "é\n", 3));
        check(b"a\xc3", true, ("utf-8", "a", 1));
        check(b"a\xc3", false, ("base64", "YcM=", 2));
        check(b"a\xff", true, ("base64", "Yf8=", 2));
        // One byte at a time still goes on.
        check(b"\xc3", true, ("base64", "ww==", 1));
    }

    #[test]
    fn what_is_cut_says_where_it_goes_on() {
        let page = FilePage { bytes: b"ab".to_vec(), is_cut: true, size: 9 };
        assert_eq!(fields("f".to_owned(), 5, &page)["next_offset"], 7);
        let last = FilePage { is_cut: false, ..page };
        assert!(!fields("f".to_owned(), 5, &last).contains_key("next_offset"));
    }
}
