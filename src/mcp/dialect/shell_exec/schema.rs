//! What `shell_exec` says about itself.

use serde_json::{Value, json};

use crate::mcp::schema::{Field, Kind};

pub(crate) const ABOUT: &str = "Executes shell commands in a controlled environment. Supports \
    pagination via `limit_bytes` and `next_cursor`: send the same call again with \
    page.cursor = next_cursor, nothing is run twice. Automatically spills large outputs to file \
    with `spill_uri`, to be read with read_file_chunk.";

/// Its arguments.
pub(super) const FIELDS: [Field; 13] = [
    Field::required("cmd", Kind::Text, ""),
    Field::optional("args", Kind::Texts, ""),
    Field::optional("cwd", Kind::Text, ""),
    Field::optional("env", Kind::Pairs, ""),
    Field::optional("page", Kind::Pairs, ""),
    Field::optional("on_large_output", Kind::Text, ""),
    Field::optional("json_path", Kind::Text, ""),
    Field::optional("grep", Kind::Text, ""),
    Field::optional("zip", Kind::Flag, ""),
    Field::optional("mime", Kind::Flag, ""),
    Field::optional("summary", Kind::Flag, ""),
    Field::optional("ansi_strip", Kind::Flag, ""),
    Field::optional("newline", Kind::Text, ""),
];

/// The arguments inside of `page`.
pub(super) const PAGE_FIELDS: [Field; 3] = [
    Field::optional("cursor", Kind::Text, ""),
    Field::optional("limit_bytes", Kind::Whole, ""),
    Field::optional("limit_lines", Kind::Whole, ""),
];

pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "cmd": {"type": "string", "description": "Program; shell text where args is left out"},
            "args": {"type": "array", "items": {"type": "string"}},
            "cwd": {"type": "string"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "page": {
                "type": "object",
                "properties": {
                    "cursor": {"type": "string", "description": "A next_cursor; opaque"},
                    "limit_bytes": {"type": "integer", "minimum": 4, "default": 65536},
                    "limit_lines": {"type": "integer", "minimum": 1, "default": 2000}
                }
            },
            "on_large_output": {
                "type": "string", "enum": ["spill", "truncate", "error"], "default": "spill"
            },
            "json_path": {"type": "string", "description": "JMESPath on JSON output"},
            "grep": {"type": "string", "description": "Regex: only lines that match"},
            "zip": {"type": "boolean", "default": false, "description": "Spill as gzip"},
            "mime": {"type": "boolean", "default": true, "description": "Detect the MIME type"},
            "summary": {"type": "boolean", "default": false, "description": "Count lines, errors"},
            "ansi_strip": {"type": "boolean", "default": true},
            "newline": {"type": "string", "enum": ["\n", "\r\n", "keep"], "default": "\n"}
        },
        "required": ["cmd"]
    })
}
