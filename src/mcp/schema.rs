//! What each tool says about itself, and the input schema that follows from it.
//!
//! Schemas are flat on purpose: several clients drop or refuse a tool whose schema has
//! `$ref`, `oneOf`, null unions or formats. What a schema cannot say that way, the reader
//! of the arguments ([`Args`](super::args::Args)) checks.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

/// One tool as it is listed.
#[derive(Debug)]
pub(crate) struct ToolSpec {
    pub(crate) name: &'static str,
    /// What it does, for the model.
    pub(crate) about: &'static str,
    /// What a call of it can do to the world.
    pub(crate) effect: Effect,
    /// Its arguments, in the order in which they are listed.
    pub(crate) fields: &'static [Field],
}

/// One argument of a tool.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// What values it takes.
    pub(crate) kind: Kind,
    /// What it means; empty where the name says it all.
    pub(crate) about: &'static str,
    /// Whether a call must give it.
    pub(crate) need: Need,
}

impl Field {
    /// An argument that every call must give.
    pub(crate) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about, need: Need::Required }
    }

    /// An argument that may be left out.
    pub(crate) const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about, need: Need::Optional }
    }
}

/// Whether a call must give an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
}

/// What values an argument takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A whole number from 0.
    Whole,
    /// A whole number from this one on.
    From(u64),
    /// A number of seconds from 0, fractions included.
    Seconds,
    /// Yes or no.
    Flag,
    /// A list of texts.
    Texts,
    /// A list of job numbers.
    Jobs,
    /// Names and their values.
    Pairs,
    /// Anything with names; what it is about says which.
    Object,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// What a call of a tool can do to the world.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// It only looks at jobs.
    Reads,
    /// It only looks, at files of the host.
    ReadsFiles,
    /// It runs or feeds a program, which may do anything.
    Runs,
    /// It writes what it is given; doing it twice changes nothing more.
    Writes,
    /// It ends work; doing it twice changes nothing more.
    Ends,
}

impl Effect {
    /// What clients are told of it.
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
        let properties: Map<String, Value> = self
            .fields
            .iter()
            .map(|field| (field.name.to_owned(), Value::Object(field.schema())))
            .collect();
        let required: Vec<&str> = self
            .fields
            .iter()
            .filter(|field| field.need == Need::Required)
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
}

impl Field {
    fn schema(&self) -> JsonObject {
        let mut schema = self.kind.schema();
        if !self.about.is_empty() {
            schema.insert("description".into(), self.about.into());
        }
        schema
    }
}

impl Kind {
    fn schema(self) -> JsonObject {
        let mut schema = Map::new();
        schema.insert("type".into(), self.json_type().into());
        match self {
            Self::Text | Self::Flag | Self::Object => {}
            Self::Whole | Self::Seconds => {
                schema.insert("minimum".into(), 0.into());
            }
            Self::From(least) => {
                schema.insert("minimum".into(), least.into());
            }
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
            Self::Whole | Self::From(_) => "integer",
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
    fn a_number_says_where_it_starts() {
        for (kind, minimum) in [(Kind::Whole, 0), (Kind::From(1), 1), (Kind::From(500), 500)] {
            let schema = Value::Object(Field::optional("number", kind, "").schema());
            assert_eq!(schema, json!({"type": "integer", "minimum": minimum}));
        }
    }
}
