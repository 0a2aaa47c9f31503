//! The arguments of tools: their definitions, the schemas that clients see, and the reader of a call's
//! arguments, which is tolerant about form and strict about meaning.
//!
//! Models write `"30"` for 30, `null` or an empty value for an absent one and `7` for `[7]`; all of
//! these are accepted. An argument that the tool does not know is an error, because dropping it would run
//! something else than the caller asked for. A number where text is expected is an error too.
//!
//! Schemas are flat on purpose: several clients drop or refuse a tool whose schema has `$ref`,
//! `oneOf`, null unions or formats. [`Args`] checks the rules that a flat schema cannot express. A
//! schema is never stricter than that reader: some clients check a call by the schema before they send
//! it.

use std::ops::RangeInclusive;
use std::time::Duration;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::ids::JobNumber;
use crate::setting_values::{find_most_alike, parse_size};

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
    presence: ArgPresence,
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

    /// `true` if a value of this argument counts as absent.
    fn is_absent(&self, value: &Value) -> bool {
        match (self.presence, value) {
            (_, Value::Null) => true,
            (ArgPresence::Required, _) => false,
            (ArgPresence::Optional, Value::Array(items)) => items.is_empty(),
            // An empty text is never a number, not even one that may be zero.
            (ArgPresence::Optional | ArgPresence::OptionalOrEmpty, Value::String(text))
                if text.is_empty() =>
            {
                self.presence == ArgPresence::Optional || self.kind.is_number()
            }
            (ArgPresence::Optional, Value::Number(_) | Value::String(_)) => {
                self.kind.is_number() && parse_number(value) == Some(0.0)
            }
            (ArgPresence::Optional, Value::Bool(_) | Value::Object(_))
            | (ArgPresence::OptionalOrEmpty, _) => false,
        }
    }

    /// `true` if a value is null, or is an empty text for an optional text.
    fn is_absent_text(&self, value: &Value) -> bool {
        let is_text = matches!(self.kind, ArgKind::Text | ArgKind::Choice(_));
        let is_empty = is_text && value.as_str() == Some("");
        value.is_null() || (is_empty && self.presence == ArgPresence::Optional)
    }

    const fn expected(&self) -> &'static str {
        match self.kind {
            ArgKind::Text | ArgKind::Choice(_) => "a text",
            ArgKind::Whole => "a whole number",
            ArgKind::Seconds => "a number of seconds",
            ArgKind::Flag => "true or false",
            ArgKind::Texts => "a list of texts",
            ArgKind::Jobs => "a list of job numbers, such as [12]",
            ArgKind::Pairs => "an object of texts",
            ArgKind::Object => "an object",
        }
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
        Tool::new(self.name, self.about, build_schema(self.fields))
            .with_annotations(self.effect.annotations())
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

    const fn is_number(self) -> bool {
        matches!(self, Self::Whole | Self::Seconds)
    }

    /// `true` if a value already has this kind's JSON type.
    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Text | Self::Choice(_) => value.is_string(),
            Self::Whole => parse_whole(value).is_some() && value.is_number(),
            Self::Seconds => value.is_number(),
            Self::Flag => value.is_boolean(),
            Self::Texts => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            Self::Jobs => value.as_array().is_some_and(|items| items.iter().all(Value::is_number)),
            Self::Pairs | Self::Object => value.is_object(),
        }
    }
}

/// A suggestion needs a similarity above this; anything lower would be a guess.
const MIN_SIMILARITY: f64 = 0.75_f64.next_up();

/// The reason why a call's arguments were not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ArgError {
    #[error("unknown argument `{given}`{}; allowed: {known}", format_suggestion(.suggestion.as_deref()))]
    Unknown { given: String, suggestion: Option<String>, known: String },
    #[error("missing argument `{name}`: {expected} is required")]
    Missing { name: &'static str, expected: &'static str },
    #[error("argument `{name}` must be {expected}, but {given} was given")]
    WrongType { name: String, expected: String, given: String },
    #[error("argument `{name}` must be {allowed}, but {given} was given")]
    NotAllowed { name: &'static str, allowed: String, given: String },
    #[error("{0}")]
    Conflict(&'static str),
}

fn format_suggestion(word: Option<&str>) -> String {
    word.map(|word| format!(" (did you mean `{word}`?)")).unwrap_or_default()
}

impl ArgError {
    /// Returns the stable code word of the error.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_argument",
            Self::Missing { .. } => "missing_argument",
            Self::WrongType { .. } => "wrong_type",
            Self::NotAllowed { .. } => "not_allowed",
            Self::Conflict(_) => "conflicting_arguments",
        }
    }
}

/// The arguments of one call. Reading an argument removes it.
#[derive(Debug)]
pub(crate) struct Args {
    values: JsonObject,
}

impl Args {
    /// Checks the names of a call's arguments: unknown names and missing required ones are errors.
    /// Nulls and empty values of optional arguments count as absent.
    pub(crate) fn new(values: Option<JsonObject>, fields: &[ArgSpec]) -> Result<Self, ArgError> {
        Self::without_absent(values.unwrap_or_default(), fields, ArgSpec::is_absent)
    }

    /// Checks the names of the arguments, and removes those whose value counts as absent.
    fn without_absent(
        mut values: JsonObject,
        fields: &[ArgSpec],
        is_absent: fn(&ArgSpec, &Value) -> bool,
    ) -> Result<Self, ArgError> {
        let field = |name: &str| fields.iter().find(|field| field.name == name);
        values.retain(|name, value| {
            !field(name).map_or(value.is_null(), |field| is_absent(field, value))
        });
        if let Some(given) = values.keys().find(|name| field(name).is_none()) {
            return Err(unknown_arg_error(given, fields));
        }
        let missing = |field: &&ArgSpec| {
            field.presence == ArgPresence::Required && !values.contains_key(field.name)
        };
        match fields.iter().find(missing) {
            Some(field) => Err(ArgError::Missing { name: field.name, expected: field.expected() }),
            None => Ok(Self { values }),
        }
    }

    /// `true` if one of these arguments is present and was not read yet.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.values.contains_key(*name))
    }

    /// Like [`Args::new`], but every value must have the type that the schema names, and of the
    /// empty values only texts count as absent. The tools of dialects are strict, as their
    /// documents are.
    pub(crate) fn strict(values: JsonObject, fields: &[ArgSpec]) -> Result<Self, ArgError> {
        let args = Self::without_absent(values, fields, ArgSpec::is_absent_text)?;
        for field in fields {
            let Some(value) = args.values.get(field.name) else { continue };
            if !field.kind.accepts(value) {
                return Err(wrong_type_error(field.name, field.expected(), value));
            }
            let pairs = value.as_object().filter(|_| matches!(field.kind, ArgKind::Pairs));
            let other = pairs.into_iter().flatten().find(|(_, value)| !value.is_string());
            if let Some((key, value)) = other {
                return Err(wrong_type_error(
                    &format!("{}.{}", field.name, shorten_value(key)),
                    "a text",
                    value,
                ));
            }
        }
        Ok(args)
    }

    /// Reads a text; other types are errors.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, ArgError> {
        self.values.remove(name).map(|value| into_text(value, name, "a text")).transpose()
    }

    /// Reads a text that may be written as a number, such as a signal or a cursor.
    pub(crate) fn text_or_number(
        &mut self,
        name: &'static str,
    ) -> Result<Option<String>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        if let Value::Number(number) = value {
            return Ok(Some(number.to_string()));
        }
        into_text(value, name, "a text or a number").map(Some)
    }

    /// Reads a whole number within `allowed`.
    pub(crate) fn whole(
        &mut self,
        name: &'static str,
        allowed: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let number =
            parse_whole(&value).ok_or_else(|| wrong_type_error(name, "a whole number", &value))?;
        if allowed.contains(&number) {
            return Ok(Some(number));
        }
        let allowed = match *allowed.end() {
            u64::MAX => format!("at least {}", allowed.start()),
            most => format!("from {} to {most}", allowed.start()),
        };
        Err(ArgError::NotAllowed { name, allowed, given: number.to_string() })
    }

    /// Reads a time of zero or more seconds.
    pub(crate) fn seconds(&mut self, name: &'static str) -> Result<Option<Duration>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let expected = "a number of seconds";
        let seconds =
            parse_number(&value).ok_or_else(|| wrong_type_error(name, expected, &value))?;
        Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| ArgError::NotAllowed {
            name,
            allowed: "zero or more seconds".to_owned(),
            given: seconds.to_string(),
        })
    }

    /// Reads a flag; absent means `false`.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, ArgError> {
        match self.values.remove(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(word)) if word == "true" => Ok(true),
            Some(Value::String(word)) if word == "false" => Ok(false),
            Some(other) => Err(wrong_type_error(name, "true or false", &other)),
        }
    }

    /// Reads a list of texts; a single text is a list of one.
    pub(crate) fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let items = if let Value::Array(items) = value { items } else { vec![value] };
        items
            .into_iter()
            .map(|item| into_text(item, name, "a list of texts"))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Reads the number of a job.
    pub(crate) fn job(&mut self, name: &'static str) -> Result<Option<JobNumber>, ArgError> {
        self.values.remove(name).map(|value| parse_job(&value, name)).transpose()
    }

    /// Reads a list of job numbers, in the order given, without duplicates; a single number is a
    /// list of one.
    pub(crate) fn jobs(&mut self, name: &'static str) -> Result<Vec<JobNumber>, ArgError> {
        let items = match self.values.remove(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            // Some clients send a list as its JSON text.
            Some(Value::String(text)) if text.trim_start().starts_with('[') => {
                serde_json::from_str(&text).unwrap_or_else(|_| vec![Value::String(text)])
            }
            Some(single) => vec![single],
        };
        let mut jobs = Vec::with_capacity(items.len());
        for item in &items {
            let job = parse_job(item, name)?;
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        Ok(jobs)
    }

    /// Reads an object whose values are texts; nulls are left out.
    pub(crate) fn pairs(&mut self, name: &'static str) -> Result<Vec<(String, String)>, ArgError> {
        let expected = "an object of texts, such as {\"NAME\": \"value\"}";
        match self.values.remove(name) {
            None => Ok(Vec::new()),
            Some(Value::Object(pairs)) => pairs
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| {
                    let value =
                        into_text(value, &format!("{name}.{}", shorten_value(&key)), "a text")?;
                    Ok((key, value))
                })
                .collect(),
            Some(other) => Err(wrong_type_error(name, expected, &other)),
        }
    }

    /// Reads an object with values of any type.
    pub(crate) fn object(&mut self, name: &'static str) -> Result<Option<JsonObject>, ArgError> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields)),
            Some(other) => Err(wrong_type_error(name, "an object", &other)),
        }
    }

    /// Reads a size of at least one byte: a number of bytes, or a text with a unit.
    pub(crate) fn size(&mut self, name: &'static str) -> Result<Option<u64>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let bytes = value.as_str().map_or_else(|| parse_whole(&value), parse_size);
        let bytes = bytes.filter(|bytes| *bytes > 0);
        bytes.map(Some).ok_or_else(|| {
            wrong_type_error(name, "a size with its unit, such as \"200 MB\" or \"2 GB\"", &value)
        })
    }

    /// Reads one of the words in `meanings` and returns its value.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        meanings: &[(&'static str, T)],
    ) -> Result<Option<T>, ArgError> {
        let Some(word) = self.text(name)? else { return Ok(None) };
        match meanings.iter().find(|(known, _)| *known == word) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let known: Vec<&str> = meanings.iter().map(|(known, _)| *known).collect();
                let allowed = format!("one of {}", known.join(", "));
                Err(ArgError::NotAllowed { name, allowed, given: quote(&word) })
            }
        }
    }
}

fn unknown_arg_error(given: &str, fields: &[ArgSpec]) -> ArgError {
    // By similarity `cmd` is closer to `cwd`, but it abbreviates `command`.
    let similarity = |name: &str| {
        strsim::jaro_winkler(name, given) + if is_abbreviation(given, name) { 0.2 } else { 0.0 }
    };
    let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
    let suggestion =
        find_most_alike(known.iter().copied(), similarity, MIN_SIMILARITY).map(str::to_owned);
    ArgError::Unknown { given: shorten_value(given), suggestion, known: known.join(", ") }
}

/// `true` if all letters of `short` occur in `long`, in the same order.
fn is_abbreviation(short: &str, long: &str) -> bool {
    let mut letters = long.chars();
    short.chars().all(|letter| letters.any(|other| other == letter))
}

fn parse_job(value: &Value, name: &'static str) -> Result<JobNumber, ArgError> {
    parse_whole(value).filter(|number| *number > 0).map(JobNumber::new).ok_or_else(|| {
        wrong_type_error(name, "job numbers (whole numbers from 1, such as 12)", value)
    })
}

fn parse_whole(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_u64().or_else(|| convert_whole_float(number.as_f64()?)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `7.0` is 7: some clients send every number as a float.
fn convert_whole_float(number: f64) -> Option<u64> {
    (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok())?
}

fn parse_number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_f64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn into_text(value: Value, name: &str, expected: &str) -> Result<String, ArgError> {
    let Value::String(text) = value else { return Err(wrong_type_error(name, expected, &value)) };
    Ok(text)
}

fn wrong_type_error(name: &str, expected: &str, given: &Value) -> ArgError {
    let given = given.as_str().map_or_else(|| shorten_value(&given.to_string()), quote);
    ArgError::WrongType { name: name.to_owned(), expected: expected.to_owned(), given }
}

fn quote(text: &str) -> String {
    format!("{:?}", shorten_value(text))
}

/// Shortens a value, so that an error message cannot be as long as its cause.
fn shorten_value(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
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

    const FIELDS: [ArgSpec; 10] = [
        ArgSpec::required("command", ArgKind::Text, ""),
        ArgSpec::optional("cwd", ArgKind::Text, ""),
        ArgSpec::with_empty("stdin", ArgKind::Text, ""),
        ArgSpec::optional("tty", ArgKind::Flag, ""),
        ArgSpec::optional("jobs", ArgKind::Jobs, ""),
        ArgSpec::with_empty("wait_s", ArgKind::Seconds, ""),
        ArgSpec::optional("timeout_s", ArgKind::Seconds, ""),
        ArgSpec::optional("args", ArgKind::Texts, ""),
        ArgSpec::optional("env", ArgKind::Pairs, ""),
        ArgSpec::optional("limit", ArgKind::Whole, ""),
    ];

    fn args(mut given: Value) -> Args {
        given["command"] = "x".into();
        Args::new(given.as_object().cloned(), &FIELDS).unwrap()
    }

    fn refused(given: Value) -> String {
        Args::new(given.as_object().cloned(), &FIELDS).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_argument_is_reported_with_a_suggestion() {
        let error = refused(json!({"command": "x", "wait": 3}));
        assert!(error.contains("`wait`") && error.contains("did you mean `wait_s`"), "{error}");
        assert!(refused(json!({"cmd": "x"})).contains("did you mean `command`"));
        let error = refused(json!({"command": "x", "zzz": 3}));
        assert!(!error.contains("did you mean") && error.contains("allowed: command"), "{error}");
    }

    #[test]
    fn a_missing_or_null_required_argument_is_refused() {
        assert!(refused(json!({})).contains("missing argument `command`"));
        assert!(refused(json!({"command": null})).contains("missing argument `command`"));
    }

    #[test]
    fn an_empty_value_counts_as_absent() {
        for (name, given) in [
            ("cwd", json!("")),
            ("args", json!([])),
            ("args", json!("")),
            ("limit", json!(0)),
            ("limit", json!("0")),
            ("limit", json!("")),
            ("timeout_s", json!(0.0)),
            ("tty", json!("")),
            ("wait_s", json!("")),
            ("stdin", json!(null)),
        ] {
            assert!(!args(json!({name: given})).has_any(&[name]), "{name}: {given}");
        }
        assert!(refused(json!({"command": "x", "cwdd": ""})).contains("did you mean `cwd`"));
    }

    #[test]
    fn a_value_with_a_meaning_is_not_empty() {
        for (name, given) in [
            ("stdin", json!("")),
            ("wait_s", json!(0)),
            ("wait_s", json!("0")),
            ("cwd", json!(" ")),
            ("cwd", json!("0")),
            ("args", json!([""])),
            ("tty", json!(false)),
        ] {
            assert!(args(json!({name: given})).has_any(&[name]), "{name}: {given}");
        }
        let empty = json!({"command": ""});
        assert!(Args::new(empty.as_object().cloned(), &FIELDS).unwrap().has_any(&["command"]));
    }

    #[test]
    fn a_strict_reader_takes_only_an_empty_text_for_absent() {
        let strict = |mut given: Value| {
            given["command"] = "x".into();
            Args::strict(given.as_object().cloned().unwrap(), &FIELDS)
        };
        assert!(!strict(json!({"cwd": ""})).unwrap().has_any(&["cwd"]));
        for (name, given) in [
            ("args", json!([])),
            ("limit", json!(0)),
            ("timeout_s", json!(0)),
            ("stdin", json!("")),
        ] {
            assert!(strict(json!({name: given})).unwrap().has_any(&[name]), "{name}: {given}");
        }
        assert!(strict(json!({"limit": ""})).is_err());
    }

    #[test]
    fn numbers_are_read_from_integers_floats_and_texts() {
        for given in [json!(7), json!(7.0), json!("7"), json!(" 7 ")] {
            let mut args = args(json!({"limit": given, "wait_s": given}));
            assert_eq!(args.whole("limit", 1..=9).unwrap(), Some(7));
            assert_eq!(args.seconds("wait_s").unwrap(), Some(Duration::from_secs(7)));
        }
        assert_eq!(args(json!({"limit": null})).whole("limit", 0..=9).unwrap(), None);
    }

    #[test]
    fn an_invalid_number_is_refused_with_the_allowed_range() {
        for (given, word) in [
            (json!({"limit": 7.5}), "whole number"),
            (json!({"limit": -1}), "whole number"),
            (json!({"limit": "many"}), "\"many\""),
            (json!({"limit": 10}), "from 1 to 9"),
            (json!({"limit": 1e300}), "whole number"),
        ] {
            let error = args(given.clone()).whole("limit", 1..=9).unwrap_err().to_string();
            assert!(error.contains(word), "{given}: {error}");
        }
        for given in [json!(-1), json!(1e300), json!("NaN"), json!([1])] {
            assert!(args(json!({"wait_s": given})).seconds("wait_s").is_err(), "{given}");
        }
    }

    #[test]
    fn a_single_value_is_a_list_of_one() {
        let twelve = vec![JobNumber::new(12)];
        for given in
            [json!(12), json!("12"), json!([12]), json!(["12"]), json!("[12]"), json!([12, 12])]
        {
            assert_eq!(args(json!({"jobs": given})).jobs("jobs").unwrap(), twelve, "{given}");
        }
        assert_eq!(args(json!({"args": "-l"})).texts("args").unwrap(), Some(vec!["-l".into()]));
    }

    #[test]
    fn a_value_that_is_not_text_is_refused_and_quoted() {
        for (given, shown) in
            [(json!(5), "5"), (json!(true), "true"), (json!([1]), "[1]"), (json!({}), "{}")]
        {
            let error = args(json!({"cwd": given})).text("cwd").unwrap_err().to_string();
            let expected = format!("argument `cwd` must be a text, but {shown} was given");
            assert_eq!(error, expected);
        }
        let error = args(json!({"args": ["-n", 3]})).texts("args").unwrap_err().to_string();
        assert_eq!(error, "argument `args` must be a list of texts, but 3 was given");
    }

    #[test]
    fn a_number_is_a_text_only_where_numbers_are_allowed() {
        assert_eq!(args(json!({"cwd": 5})).text_or_number("cwd").unwrap(), Some("5".into()));
        assert_eq!(args(json!({"cwd": "a"})).text_or_number("cwd").unwrap(), Some("a".into()));
        args(json!({"cwd": true})).text_or_number("cwd").unwrap_err();
    }

    #[test]
    fn an_invalid_job_number_is_refused() {
        for given in [json!(0), json!("a"), json!([1, "b"]), json!([[1]]), json!(-4), json!(true)] {
            let error = args(json!({"jobs": given})).jobs("jobs").unwrap_err().to_string();
            assert!(error.contains("whole numbers from 1"), "{error}");
        }
    }

    #[test]
    fn pairs_accept_only_texts() {
        let pairs = args(json!({"env": {"A": "1", "C": null}})).pairs("env").unwrap();
        assert_eq!(pairs, [("A".into(), "1".into())]);
        for given in [json!({"A": []}), json!({"A": 1}), json!({"A": true}), json!("A=1")] {
            args(json!({"env": given})).pairs("env").unwrap_err();
        }
        let error = args(json!({"env": {"A": 1}})).pairs("env").unwrap_err().to_string();
        assert_eq!(error, "argument `env.A` must be a text, but 1 was given");
    }

    #[test]
    fn an_error_is_short_even_when_its_cause_is_not() {
        let error = args(json!({"limit": "x".repeat(100_000)})).whole("limit", 0..=1).unwrap_err();
        assert!(error.to_string().len() < 300);
    }
}
