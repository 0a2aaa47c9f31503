//! `write_file`: a file beneath the working directory, replaced as a whole.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::Foreign;
use crate::mcp::schema::{Field, Kind};
use crate::mcp::tools::Call;
use crate::yard::Written;

const FIELDS: [Field; 2] =
    [Field::required("path", Kind::Text, ""), Field::required("content", Kind::Text, "")];

pub(super) const ABOUT: &str = "Write a file in the working directory";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file"},
            "content": {"type": "string", "description": "All of its new content"}
        },
        "required": ["path", "content"]
    })
}

pub(super) async fn call(call: Call<'_>, arguments: JsonObject) -> Foreign {
    let (path, content) = match asked(arguments) {
        Ok(asked) => asked,
        Err(error) => return Foreign::failure(error.to_string()),
    };
    let bytes = content.len();
    match call.desk.write_file(&path, content).await {
        Ok(written) => Foreign::pretty(fields(path, bytes, written)),
        Err(error) => Foreign::failure(error.to_string()),
    }
}

fn asked(arguments: JsonObject) -> Result<(String, String), ArgError> {
    let mut args = Args::strict(arguments, &FIELDS)?;
    let path = args.text("path")?.unwrap_or_default();
    Ok((path, args.text("content")?.unwrap_or_default()))
}

fn fields(path: String, bytes: usize, written: Written) -> JsonObject {
    let is_new = match written {
        Written::Created => true,
        Written::Replaced => false,
    };
    let mut fields = JsonObject::new();
    fields.insert("path".into(), path.into());
    fields.insert("bytes_written".into(), bytes.into());
    fields.insert("created".into(), is_new.into());
    fields
}
