//! The argument types of the functions of JMESPath.

use jmespath::RuntimeError;

use super::value::{JsonKind, JsonValue};

/// A type that an argument may have.
#[derive(Debug, Clone, Copy)]
enum ArgType {
    Of(JsonKind),
    /// An array with elements of this type alone.
    ArrayOf(JsonKind),
}

impl ArgType {
    fn word(self) -> String {
        match self {
            Self::Of(kind) => kind.word().to_owned(),
            Self::ArrayOf(kind) => format!("array[{}]", kind.word()),
        }
    }

    fn has(self, value: &JsonValue<'_>) -> bool {
        match self {
            Self::Of(kind) => value.kind() == kind,
            Self::ArrayOf(kind) => value
                .elements()
                .is_some_and(|(mut elements, _)| elements.all(|element| element.kind() == kind)),
        }
    }
}

/// The types that an argument may have; any type if empty.
type ArgTypes = &'static [ArgType];

const ANY: ArgTypes = &[];
const NUMBER: ArgTypes = &[ArgType::Of(JsonKind::Number)];
const STRING: ArgTypes = &[ArgType::Of(JsonKind::String)];
const ARRAY: ArgTypes = &[ArgType::Of(JsonKind::Array)];
const OBJECT: ArgTypes = &[ArgType::Of(JsonKind::Object)];
const EXPRESSION: ArgTypes = &[ArgType::Of(JsonKind::Expression)];
const NUMBERS: ArgTypes = &[ArgType::ArrayOf(JsonKind::Number)];
const STRINGS: ArgTypes = &[ArgType::ArrayOf(JsonKind::String)];
const SORTABLE: ArgTypes =
    &[ArgType::ArrayOf(JsonKind::String), ArgType::ArrayOf(JsonKind::Number)];
const STRING_OR_ARRAY: ArgTypes = &[ArgType::Of(JsonKind::String), ArgType::Of(JsonKind::Array)];
const WITH_LENGTH: ArgTypes =
    &[ArgType::Of(JsonKind::Array), ArgType::Of(JsonKind::Object), ArgType::Of(JsonKind::String)];
const JSON: ArgTypes = &[
    ArgType::Of(JsonKind::Object),
    ArgType::Of(JsonKind::Array),
    ArgType::Of(JsonKind::Boolean),
    ArgType::Of(JsonKind::Number),
    ArgType::Of(JsonKind::String),
    ArgType::Of(JsonKind::Null),
];

/// The types of a function's arguments, and of any further ones; `None` if there is no such
/// function.
fn signature(name: &str) -> Option<(&'static [ArgTypes], Option<ArgTypes>)> {
    let fixed: &[ArgTypes] = match name {
        "abs" | "ceil" | "floor" => &[NUMBER],
        "avg" | "sum" => &[NUMBERS],
        "contains" => &[STRING_OR_ARRAY, ANY],
        "ends_with" | "starts_with" => &[STRING, STRING],
        "join" => &[STRING, STRINGS],
        "keys" | "values" => &[OBJECT],
        "length" => &[WITH_LENGTH],
        "map" => &[EXPRESSION, ARRAY],
        "max" | "min" | "sort" => &[SORTABLE],
        "max_by" | "min_by" | "sort_by" => &[ARRAY, EXPRESSION],
        "merge" => return Some((&[OBJECT], Some(OBJECT))),
        "not_null" => return Some((&[ANY], Some(ANY))),
        "reverse" => &[STRING_OR_ARRAY],
        "to_array" | "to_number" | "type" => &[ANY],
        "to_string" => &[JSON],
        _ => return None,
    };
    Some((fixed, None))
}

/// Checks number and types of the arguments of a function.
pub(super) fn check_arguments(name: &str, args: &[JsonValue<'_>]) -> Result<(), RuntimeError> {
    let Some((fixed, more)) = signature(name) else {
        return Err(RuntimeError::UnknownFunction(name.to_owned()));
    };
    let expected = fixed.len();
    let actual = args.len();
    if actual < expected {
        return Err(RuntimeError::NotEnoughArguments { expected, actual });
    }
    if actual > expected && more.is_none() {
        return Err(RuntimeError::TooManyArguments { expected, actual });
    }
    let types = fixed.iter().copied().chain(std::iter::repeat(more.unwrap_or(ANY)));
    for (position, (value, types)) in args.iter().zip(types).enumerate() {
        if !types.is_empty() && !types.iter().any(|expected| expected.has(value)) {
            let words: Vec<String> = types.iter().map(|expected| expected.word()).collect();
            return Err(RuntimeError::InvalidType {
                expected: words.join("|"),
                actual: value.kind().word().to_owned(),
                position,
            });
        }
    }
    Ok(())
}
