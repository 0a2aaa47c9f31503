//! The definition of each tool, and its input schema.
//!
//! Schemas are flat on purpose: several clients drop or refuse a tool whose schema has `$ref`,
//! `oneOf`, null unions or formats. Rules that a flat schema cannot express are checked by the
//! reader of the arguments ([`Args`](super::args::Args)). A schema is never stricter than the
//! reader: some clients check a call by the schema before they send it.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

/// The definition of one tool.
#[derive(Debug)]
pub(crate) struct ToolSpec {
    pub(crate) name: &'static str,
    /// The description for the model.
    pub(crate) about: &'static str,
    pub(crate) effect: ToolEffect,
    /// The arguments, in listing order.
    pub(crate) fields: &'static [ArgSpec],
}

/// The definition of one argument of a tool.
#[derive(Debug)]
pub(crate) struct ArgSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: ArgKind,
    /// The description; empty if the name says everything.
    pub(crate) about: &'static str,
    pub(crate) presence: ArgPresence,
}

impl ArgSpec {
    /// Creates an argument that every call must have.
    pub(crate) const fn required(name: &'static str, kind: ArgKind, about: &'static str) -> Self {
        Self { name, kind, about, presence: ArgPresence::Required }
    }

    /// Creates an argument that may be absent or empty.
    pub(crate) const fn optional(name: &'static str, kind: ArgKind, about: &'static str) -> Self {
        Self { name, kind, about, presence: ArgPresence::Optional }
    }

    /// Creates an argument that may be absent, and whose empty value has a meaning of its own.
    pub(crate) const fn with_empty(name: &'static str, kind: ArgKind, about: &'static str) -> Self {
        Self { name, kind, about, presence: ArgPresence::OptionalOrEmpty }
    }
}

/// `true` in a schema if the argument may be null, which counts as absent. smolagents omits only
/// arguments with this keyword.
const NULLABLE: &str = "nullable";

/// The ways in which an argument may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgPresence {
    /// Every call must have the argument.
    Required,
    /// The argument may be absent. An empty value (`""`, `[]`, 0) counts as absent, because some
    /// models fill in every argument.
    Optional,
    /// The argument may be absent, and an empty value means something else than that.
    OptionalOrEmpty,
}

/// The values that an argument accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArgKind {
    Text,
    /// A whole number, at least 0.
    Whole,
    /// A number of seconds, at least 0, with fractions.
    Seconds,
    Flag,
    Texts,
    Jobs,
    /// An object whose values are texts.
    Pairs,
    /// An object of any shape; the description says which fields it has.
    Object,
    Choice(&'static [&'static str]),
}

/// The possible effect of a call outside the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ToolEffect {
    /// Reads jobs and nothing else.
    Reads,
    /// Reads files of the host.
    ReadsFiles,
    /// Runs a program or sends it input; the program may do anything.
    Runs,
    /// Writes a file; a second identical call changes nothing more.
    Writes,
    /// Stops jobs; a second identical call changes nothing more.
    Ends,
}

impl ToolEffect {
    /// The annotations that clients see.
    pub(crate) fn annotations(self) -> ToolAnnotations {
        match self {
            Self::Reads | Self::ReadsFiles => {
                ToolAnnotations::new().read_only(true).open_world(false)
            }
            Self::Runs => ToolAnnotations::new()
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true),
            Self::Writes | Self::Ends => ToolAnnotations::new()
                .read_only(false)
                .destructive(true)
                .idempotent(true)
                .open_world(false),
        }
    }
}

impl ToolSpec {
    /// The definition that `tools/list` shows.
    pub(crate) fn definition(&self) -> Tool {
        Tool::new(self.name, self.about, self.input_schema())
            .with_annotations(self.effect.annotations())
    }

    fn input_schema(&self) -> JsonObject {
        build_schema(self.fields)
    }
}

/// Builds the schema of an object with these fields.
pub(crate) fn build_schema(fields: &[ArgSpec]) -> JsonObject {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), Value::Object(field.schema()))).collect();
    let required: Vec<&str> = fields
        .iter()
        .filter(|field| field.presence == ArgPresence::Required)
        .map(|field| field.name)
        .collect();
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    schema.insert("additionalProperties".into(), false.into());
    schema
}

impl ArgSpec {
    fn schema(&self) -> JsonObject {
        let mut schema = self.kind.schema();
        if !self.about.is_empty() {
            schema.insert("description".into(), self.about.into());
        }
        if self.presence != ArgPresence::Required {
            schema.insert(NULLABLE.into(), true.into());
        }
        schema
    }
}

/// Marks each property that is not required as nullable, also in objects inside.
pub(crate) fn mark_optional_nullable(schema: &mut JsonObject) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        let Value::Object(property) = property else { continue };
        if !required.contains(&Value::from(name.as_str())) {
            property.insert(NULLABLE.into(), true.into());
        }
        mark_optional_nullable(property);
    }
}

impl ArgKind {
    fn schema(self) -> JsonObject {
        let mut schema = Map::new();
        schema.insert("type".into(), self.json_type().into());
        match self {
            // That numbers are not negative goes without saying.
            Self::Text | Self::Whole | Self::Seconds | Self::Flag | Self::Object => {}
            Self::Texts => {
                schema.insert("items".into(), json!({"type": "string"}));
            }
            Self::Jobs => {
                schema.insert("items".into(), json!({"type": "integer"}));
            }
            Self::Pairs => {
                schema.insert("additionalProperties".into(), json!({"type": "string"}));
            }
            Self::Choice(words) => {
                schema.insert("enum".into(), words.to_vec().into());
            }
        }
        schema
    }

    const fn json_type(self) -> &'static str {
        match self {
            Self::Text | Self::Choice(_) => "string",
            Self::Whole => "integer",
            Self::Seconds => "number",
            Self::Flag => "boolean",
            Self::Texts | Self::Jobs => "array",
            Self::Pairs | Self::Object => "object",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_may_be_absent_may_be_null() {
        let kind = ArgKind::Whole;
        for optional in [ArgSpec::optional("n", kind, ""), ArgSpec::with_empty("n", kind, "")] {
            let schema = Value::Object(optional.schema());
            assert_eq!(schema, json!({"type": "integer", "nullable": true}));
        }
        let schema = Value::Object(ArgSpec::required("n", kind, "").schema());
        assert_eq!(schema, json!({"type": "integer"}));
    }

    #[test]
    fn optional_properties_become_nullable_also_inside_objects() {
        let mut schema = Map::from_iter([
            ("required".to_owned(), json!(["a"])),
            (
                "properties".to_owned(),
                json!({"a": {"type": "string"}, "b": {"properties": {"c": {}}}}),
            ),
        ]);
        mark_optional_nullable(&mut schema);
        let expected = json!({
            "a": {"type": "string"},
            "b": {"properties": {"c": {"nullable": true}}, "nullable": true},
        });
        assert_eq!(schema["properties"], expected);
    }
}
