//! `list_directory`: what is in the working directory, or in one beneath it.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::Foreign;
use crate::mcp::schema::{Field, Kind};
use crate::mcp::tools::Call;
use crate::yard::{Listed, Listing};

/// The most that a reply lists.
const MAX_ENTRIES: usize = 10_000;

const FIELDS: [Field; 1] = [Field::optional("path", Kind::Text, "")];

pub(super) const ABOUT: &str = "List a directory in the working directory";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "Path of the directory; default: the working directory"
            }
        }
    })
}

pub(super) async fn call(call: Call<'_>, arguments: JsonObject) -> Foreign {
    let path = match asked(arguments) {
        Ok(path) => path,
        Err(error) => return Foreign::failure(error.to_string()),
    };
    match call.desk.list_directory(&path, MAX_ENTRIES).await {
        Ok(listing) => Foreign::pretty(fields(path, listing)),
        Err(error) => Foreign::failure(error.to_string()),
    }
}

fn asked(arguments: JsonObject) -> Result<String, ArgError> {
    let path = Args::strict(arguments, &FIELDS)?.text("path")?;
    Ok(path.unwrap_or_else(|| ".".to_owned()))
}

fn fields(path: String, listing: Listing) -> JsonObject {
    let entry =
        |Listed { name, kind, size }| json!({"name": name, "type": kind.word(), "size": size});
    let entries: Vec<Value> = listing.entries.into_iter().map(entry).collect();
    let mut fields = JsonObject::new();
    fields.insert("path".into(), path.into());
    fields.insert("entries".into(), entries.into());
    fields.insert("truncated".into(), listing.is_cut.into());
    fields
}
