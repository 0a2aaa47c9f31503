//! Reads a call's arguments: tolerant about form, strict about meaning.
//!
//! Models write `"30"` for 30, `null` for nothing and `7` for `[7]`; all of these are
//! taken. An argument that the tool does not know is an error, since dropping it would
//! run something else than what was asked for; so is a number where a text is wanted, since
//! no text was meant.

use std::ops::RangeInclusive;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;
use thiserror::Error;

use super::schema::{Field, Kind, Need};
use crate::did_you_mean::most_alike;
use crate::ids::JobNumber;
use crate::size;

/// At or below three quarters a suggestion would be a guess.
const ALIKE: f64 = 0.75_f64.next_up();

/// Why a call's arguments were not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ArgError {
    #[error("unknown argument `{given}`{}; allowed: {known}", did_you_mean(.meant.as_deref()))]
    Unknown { given: String, meant: Option<String>, known: String },
    #[error("missing argument `{name}`: {wanted} is required")]
    Missing { name: &'static str, wanted: &'static str },
    #[error("argument `{name}` must be {wanted}, but {given} was given")]
    WrongType { name: String, wanted: String, given: String },
    #[error("argument `{name}` must be {allowed}, but {given} was given")]
    NotAllowed { name: &'static str, allowed: String, given: String },
    #[error("{0}")]
    Conflict(&'static str),
}

fn did_you_mean(word: Option<&str>) -> String {
    word.map(|word| format!(" (did you mean `{word}`?)")).unwrap_or_default()
}

impl ArgError {
    /// The stable word that clients may match on.
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

/// The arguments of one call. Each is taken out as it is read.
#[derive(Debug)]
pub(crate) struct Args {
    values: JsonObject,
}

impl Args {
    /// Takes the arguments of a call, refusing names that the tool does not have and
    /// missing ones that it needs. A null is the same as nothing.
    pub(crate) fn new(values: Option<JsonObject>, fields: &[Field]) -> Result<Self, ArgError> {
        let mut values = values.unwrap_or_default();
        values.retain(|_, value| !value.is_null());
        if let Some(given) = values.keys().find(|name| !fields.iter().any(|f| f.name == **name)) {
            return Err(unknown(given, fields));
        }
        let missing =
            |field: &&Field| field.need == Need::Required && !values.contains_key(field.name);
        match fields.iter().find(missing) {
            Some(field) => Err(ArgError::Missing { name: field.name, wanted: field.wanted() }),
            None => Ok(Self { values }),
        }
    }

    /// Whether one of these was given and not yet taken.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.values.contains_key(*name))
    }

    /// The same, but every value must be of the type that the schema names: a document that
    /// another program speaks by leaves nothing to guess.
    pub(crate) fn strict(values: JsonObject, fields: &[Field]) -> Result<Self, ArgError> {
        let args = Self::new(Some(values), fields)?;
        for field in fields {
            if let Some(value) = args.values.get(field.name)
                && !field.kind.takes(value)
            {
                return Err(wrong(field.name, field.wanted(), value));
            }
        }
        Ok(args)
    }

    /// A text, and nothing else.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, ArgError> {
        self.values.remove(name).map(|value| into_text(value, name, "a text")).transpose()
    }

    /// A text that may be a number, such as a signal or a place; a number is taken as written.
    pub(crate) fn text_or_number(
        &mut self,
        name: &'static str,
    ) -> Result<Option<String>, ArgError> {
        let value = self.values.remove(name).map(|value| match &value {
            Value::Number(number) => Value::String(number.to_string()),
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => value,
        });
        value.map(|value| into_text(value, name, "a text or a number")).transpose()
    }

    /// A whole number within `allowed`.
    pub(crate) fn whole(
        &mut self,
        name: &'static str,
        allowed: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let number = whole(&value).ok_or_else(|| wrong(name, "a whole number", &value))?;
        if allowed.contains(&number) {
            return Ok(Some(number));
        }
        let allowed = match *allowed.end() {
            u64::MAX => format!("at least {}", allowed.start()),
            most => format!("from {} to {most}", allowed.start()),
        };
        Err(ArgError::NotAllowed { name, allowed, given: number.to_string() })
    }

    /// A time of zero or more seconds.
    pub(crate) fn seconds(&mut self, name: &'static str) -> Result<Option<Duration>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let wanted = "a number of seconds";
        let seconds = number(&value).ok_or_else(|| wrong(name, wanted, &value))?;
        Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| ArgError::NotAllowed {
            name,
            allowed: "zero or more seconds".to_owned(),
            given: seconds.to_string(),
        })
    }

    /// Yes or no; absent is no.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, ArgError> {
        match self.values.remove(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(word)) if word == "true" => Ok(true),
            Some(Value::String(word)) if word == "false" => Ok(false),
            Some(other) => Err(wrong(name, "true or false", &other)),
        }
    }

    /// A list of texts; one text alone is a list of one.
    pub(crate) fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let items = if let Value::Array(items) = value { items } else { vec![value] };
        items
            .into_iter()
            .map(|item| into_text(item, name, "a list of texts"))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// A job's number.
    pub(crate) fn job(&mut self, name: &'static str) -> Result<Option<JobNumber>, ArgError> {
        self.values.remove(name).map(|value| job(&value, name)).transpose()
    }

    /// A list of job numbers, in the order given, each once; one number alone is a list of one.
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
            let job = job(item, name)?;
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        Ok(jobs)
    }

    /// Names and their values, which are texts; nulls are left out.
    pub(crate) fn pairs(&mut self, name: &'static str) -> Result<Vec<(String, String)>, ArgError> {
        let wanted = "an object of texts, such as {\"NAME\": \"value\"}";
        match self.values.remove(name) {
            None => Ok(Vec::new()),
            Some(Value::Object(pairs)) => pairs
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| {
                    let value = into_text(value, &format!("{name}.{}", clipped(&key)), "a text")?;
                    Ok((key, value))
                })
                .collect(),
            Some(other) => Err(wrong(name, wanted, &other)),
        }
    }

    /// Names and their values, of any kind.
    pub(crate) fn object(&mut self, name: &'static str) -> Result<Option<JsonObject>, ArgError> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields)),
            Some(other) => Err(wrong(name, "an object", &other)),
        }
    }

    /// A size of at least one byte: a number of bytes, or a text with a unit.
    pub(crate) fn size(&mut self, name: &'static str) -> Result<Option<u64>, ArgError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let bytes = value.as_str().map_or_else(|| whole(&value), size::parse);
        let bytes = bytes.filter(|bytes| *bytes > 0);
        bytes.map(Some).ok_or_else(|| wrong(name, "a size such as 65536 or \"2 GB\"", &value))
    }

    /// One of the words that `meanings` pairs with what they stand for.
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
                Err(ArgError::NotAllowed { name, allowed, given: quoted(&word) })
            }
        }
    }
}

impl Field {
    const fn wanted(&self) -> &'static str {
        match self.kind {
            Kind::Text | Kind::Choice(_) => "a text",
            Kind::Whole | Kind::From(_) => "a whole number",
            Kind::Seconds => "a number of seconds",
            Kind::Flag => "true or false",
            Kind::Texts => "a list of texts",
            Kind::Jobs => "a list of job numbers, such as [12]",
            Kind::Pairs => "an object of texts",
            Kind::Object => "an object",
        }
    }
}

impl Kind {
    /// Whether a value is of this kind as it stands.
    fn takes(self, value: &Value) -> bool {
        match self {
            Self::Text | Self::Choice(_) => value.is_string(),
            Self::Whole | Self::From(_) => whole(value).is_some() && value.is_number(),
            Self::Seconds => value.is_number(),
            Self::Flag => value.is_boolean(),
            Self::Texts => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            Self::Jobs => value.as_array().is_some_and(|items| items.iter().all(Value::is_number)),
            // What is wrong with one of them is told when they are read.
            Self::Pairs | Self::Object => value.is_object(),
        }
    }
}

fn unknown(given: &str, fields: &[Field]) -> ArgError {
    // `cmd` is nearer to `cwd` by its letters, but it is `command` with some left out.
    let likeness = |name: &str| {
        strsim::jaro_winkler(name, given) + if abbreviates(given, name) { 0.2 } else { 0.0 }
    };
    let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
    let meant = most_alike(known.iter().copied(), likeness, ALIKE).map(str::to_owned);
    ArgError::Unknown { given: clipped(given), meant, known: known.join(", ") }
}

/// Whether all letters of `short` are in `long`, in their order.
fn abbreviates(short: &str, long: &str) -> bool {
    let mut letters = long.chars();
    short.chars().all(|letter| letters.any(|other| other == letter))
}

fn job(value: &Value, name: &'static str) -> Result<JobNumber, ArgError> {
    whole(value)
        .filter(|number| *number > 0)
        .map(JobNumber::new)
        .ok_or_else(|| wrong(name, "job numbers (whole numbers from 1, such as 12)", value))
}

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_u64().or_else(|| whole_of_float(number.as_f64()?)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `7.0` is 7: some clients send every number as a float.
fn whole_of_float(number: f64) -> Option<u64> {
    (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok())?
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_f64(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn into_text(value: Value, name: &str, wanted: &str) -> Result<String, ArgError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong(name, wanted, &value))
        }
    }
}

fn wrong(name: &str, wanted: &str, given: &Value) -> ArgError {
    let given = match given {
        Value::Null => "null".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(_) | Value::Object(_) | Value::Bool(_) | Value::Number(_) => {
            clipped(&given.to_string())
        }
    };
    ArgError::WrongType { name: name.to_owned(), wanted: wanted.to_owned(), given }
}

fn quoted(text: &str) -> String {
    format!("{:?}", clipped(text))
}

/// A short form of what was given, so that an error cannot be as long as its cause.
fn clipped(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FIELDS: [Field; 7] = [
        Field::required("command", Kind::Text, ""),
        Field::optional("cwd", Kind::Text, ""),
        Field::optional("jobs", Kind::Jobs, ""),
        Field::optional("wait_s", Kind::Seconds, ""),
        Field::optional("args", Kind::Texts, ""),
        Field::optional("env", Kind::Pairs, ""),
        Field::optional("limit", Kind::Whole, ""),
    ];

    fn args(mut given: Value) -> Args {
        given["command"] = "x".into();
        Args::new(given.as_object().cloned(), &FIELDS).unwrap()
    }

    fn refused(given: Value) -> String {
        Args::new(given.as_object().cloned(), &FIELDS).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_argument_is_named_with_the_one_that_was_meant() {
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
    fn numbers_are_taken_from_numbers_floats_and_texts() {
        for given in [json!(7), json!(7.0), json!("7"), json!(" 7 ")] {
            let mut args = args(json!({"limit": given, "wait_s": given}));
            assert_eq!(args.whole("limit", 1..=9).unwrap(), Some(7));
            assert_eq!(args.seconds("wait_s").unwrap(), Some(Duration::from_secs(7)));
        }
        assert_eq!(args(json!({"limit": null})).whole("limit", 0..=9).unwrap(), None);
    }

    #[test]
    fn a_number_that_cannot_be_used_is_refused_with_what_is_allowed() {
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
    fn what_is_no_text_is_refused_with_what_was_given() {
        for (given, shown) in
            [(json!(5), "5"), (json!(true), "true"), (json!([]), "[]"), (json!({}), "{}")]
        {
            let error = args(json!({"cwd": given})).text("cwd").unwrap_err().to_string();
            let expected = format!("argument `cwd` must be a text, but {shown} was given");
            assert_eq!(error, expected);
        }
        let error = args(json!({"args": ["-n", 3]})).texts("args").unwrap_err().to_string();
        assert_eq!(error, "argument `args` must be a list of texts, but 3 was given");
    }

    #[test]
    fn a_number_is_a_text_only_where_a_number_is_meant() {
        assert_eq!(args(json!({"cwd": 5})).text_or_number("cwd").unwrap(), Some("5".into()));
        assert_eq!(args(json!({"cwd": "a"})).text_or_number("cwd").unwrap(), Some("a".into()));
        args(json!({"cwd": true})).text_or_number("cwd").unwrap_err();
    }

    #[test]
    fn what_is_no_job_number_is_refused() {
        for given in [json!(0), json!("a"), json!([1, "b"]), json!([[1]]), json!(-4), json!(true)] {
            let error = args(json!({"jobs": given})).jobs("jobs").unwrap_err().to_string();
            assert!(error.contains("whole numbers from 1"), "{error}");
        }
    }

    #[test]
    fn pairs_take_texts_and_nothing_else() {
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
