//! The functions of JMESPath.

use std::cmp::Ordering;

use jmespath::RuntimeError;
use jmespath::ast::Ast;
use serde_json::Number;

use super::Error;
use super::evaluate::{Context, apply, values};
use super::value::{Fields, JsonText, Kind, List, Value};

/// A type that an argument may have.
#[derive(Debug, Clone, Copy)]
enum Type {
    Of(Kind),
    /// An array with elements of this type alone.
    ArrayOf(Kind),
}

impl Type {
    fn word(self) -> String {
        match self {
            Self::Of(kind) => kind.word().to_owned(),
            Self::ArrayOf(kind) => format!("array[{}]", kind.word()),
        }
    }

    fn has(self, value: &Value<'_>) -> bool {
        match self {
            Self::Of(kind) => value.kind() == kind,
            Self::ArrayOf(kind) => value
                .elements()
                .is_some_and(|(mut elements, _)| elements.all(|element| element.kind() == kind)),
        }
    }
}

/// The types of which an argument has one; any, where there are none.
type Types = &'static [Type];

const ANY: Types = &[];
const NUMBER: Types = &[Type::Of(Kind::Number)];
const STRING: Types = &[Type::Of(Kind::String)];
const ARRAY: Types = &[Type::Of(Kind::Array)];
const OBJECT: Types = &[Type::Of(Kind::Object)];
const EXPRESSION: Types = &[Type::Of(Kind::Expression)];
const NUMBERS: Types = &[Type::ArrayOf(Kind::Number)];
const STRINGS: Types = &[Type::ArrayOf(Kind::String)];
const SORTABLE: Types = &[Type::ArrayOf(Kind::String), Type::ArrayOf(Kind::Number)];
const STRING_OR_ARRAY: Types = &[Type::Of(Kind::String), Type::Of(Kind::Array)];
const WITH_LENGTH: Types = &[Type::Of(Kind::Array), Type::Of(Kind::Object), Type::Of(Kind::String)];
const JSON: Types = &[
    Type::Of(Kind::Object),
    Type::Of(Kind::Array),
    Type::Of(Kind::Boolean),
    Type::Of(Kind::Number),
    Type::Of(Kind::String),
    Type::Of(Kind::Null),
];

/// The types of a function's arguments, and of any that follow; `None` if there is no such function.
fn signature(name: &str) -> Option<(&'static [Types], Option<Types>)> {
    let fixed: &[Types] = match name {
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

fn check(name: &str, args: &[Value<'_>]) -> Result<(), RuntimeError> {
    let Some((fixed, more)) = signature(name) else {
        return Err(RuntimeError::UnknownFunction(name.to_owned()));
    };
    let (expected, actual) = (fixed.len(), args.len());
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

/// Calls a function that stands at `offset` in the expression.
pub(super) fn call<'a>(
    name: &str,
    args: &[Value<'a>],
    offset: usize,
    context: Context<'a>,
) -> Result<Value<'a>, Error> {
    check(name, args).map_err(|error| context.error(offset, error))?;
    match (name, args) {
        ("not_null", args) => {
            Ok(args.iter().find(|arg| !arg.is_null()).cloned().unwrap_or(Value::Null))
        }
        ("merge", args) => merge(args, context),
        (_, [value]) => call_one(name, value, context),
        ("map", [Value::Expression(ast), array]) => map(array, ast, context),
        ("sort_by", [array, Value::Expression(ast)]) => sort_by(array, ast, offset, context),
        ("max_by", [array, Value::Expression(ast)]) => {
            best_by(array, ast, Ordering::Greater, offset, context)
        }
        ("min_by", [array, Value::Expression(ast)]) => {
            best_by(array, ast, Ordering::Less, offset, context)
        }
        ("contains", [within, wanted]) => contains(within, wanted, context),
        ("join", [glue, array]) => join(glue, array, context),
        (_, [left, right]) => {
            let (left, right) = (left.as_str().unwrap_or(""), right.as_str().unwrap_or(""));
            Ok(Value::Bool(match name {
                "ends_with" => left.ends_with(right),
                _ => left.starts_with(right),
            }))
        }
        (_, _) => Ok(Value::Null),
    }
}

/// The functions of one argument.
fn call_one<'a>(name: &str, value: &Value<'a>, context: Context<'a>) -> Result<Value<'a>, Error> {
    let in_number = |function: fn(f64) -> f64| number(function(value.as_number().unwrap_or(0.0)));
    Ok(match name {
        "abs" => in_number(f64::abs),
        "ceil" => in_number(f64::ceil),
        "floor" => in_number(f64::floor),
        "sum" => number(sum(value).0),
        "avg" => match sum(value) {
            (_, 0) => Value::Null,
            (sum, length) => number(sum / length as f64),
        },
        "keys" => keys(value, context)?,
        "values" => values(value, context)?,
        "length" => length(value)?,
        "max" => best(value, |order| order != Ordering::Less),
        "min" => best(value, |order| order == Ordering::Less),
        "sort" => {
            let mut list = copy(value, context)?;
            list.sort_by(Value::order);
            list.into()
        }
        "reverse" => reverse(value, context)?,
        "to_array" if value.kind() == Kind::Array => value.clone(),
        "to_array" => {
            let mut list = List::new(context.meter);
            list.push(value.clone())?;
            list.into()
        }
        "to_number" => to_number(value),
        "to_string" if value.as_str().is_some() => value.clone(),
        "to_string" => to_string(value, context)?,
        "type" => Value::Str(value.kind().word()),
        _ => Value::Null,
    })
}

/// A number; null where it is not finite, as JSON has no other.
fn number(number: f64) -> Value<'static> {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// The sum of numbers and how many they are.
fn sum(value: &Value<'_>) -> (f64, usize) {
    let Some((elements, length)) = value.elements() else { return (0.0, 0) };
    let numbers = elements.filter_map(|element| element.as_number());
    // An empty sum of floats would be -0.0.
    (numbers.fold(0.0, |sum, number| sum + number), length)
}

fn keys<'a>(value: &Value<'a>, context: Context<'a>) -> Result<Value<'a>, Error> {
    let mut list = List::new(context.meter);
    if let Some(fields) = value.fields()? {
        for (key, _) in fields.pairs() {
            list.push(Value::Str(key))?;
        }
    }
    Ok(list.into())
}

fn length<'a>(value: &Value<'a>) -> Result<Value<'a>, Error> {
    let length = match (value.as_str(), value.elements()) {
        (Some(string), _) => string.chars().count(),
        (None, Some((_, length))) => length,
        (None, None) => value.fields()?.map_or(0, |fields| fields.pairs().len()),
    };
    Ok(Value::Number(length.into()))
}

/// The element that takes the place of the best one so far, if its order to that one says so.
fn best<'a>(value: &Value<'a>, is_better: impl Fn(Ordering) -> bool) -> Value<'a> {
    let elements = value.elements().into_iter().flat_map(|(elements, _)| elements);
    let best = elements.reduce(|best, next| if is_better(next.order(&best)) { next } else { best });
    best.unwrap_or(Value::Null)
}

/// A copy of an array, to be changed.
fn copy<'a>(value: &Value<'a>, context: Context<'a>) -> Result<List<'a>, Error> {
    let mut list = List::new(context.meter);
    for element in value.elements().into_iter().flat_map(|(elements, _)| elements) {
        context.meter.step()?;
        list.push(element)?;
    }
    Ok(list)
}

fn reverse<'a>(value: &Value<'a>, context: Context<'a>) -> Result<Value<'a>, Error> {
    let Some(string) = value.as_str() else {
        let mut list = copy(value, context)?;
        list.reverse();
        return Ok(list.into());
    };
    let mut charge = context.meter.open();
    charge.add(string.len())?;
    Ok(Value::made_string(string.chars().rev().collect(), charge))
}

/// The number that a string says; null for other strings and values.
fn to_number<'a>(value: &Value<'a>) -> Value<'a> {
    if value.as_number().is_some() {
        return value.clone();
    }
    let said = value.as_str().and_then(|string| serde_json::from_str(string).ok());
    said.map_or(Value::Null, Value::Number)
}

fn to_string<'a>(value: &Value<'a>, context: Context<'a>) -> Result<Value<'a>, Error> {
    let mut text = JsonText::new(usize::MAX, context.meter);
    text.write(value)?;
    let (string, charge) = text.into_parts();
    Ok(Value::made_string(string, charge))
}

fn merge<'a>(args: &[Value<'a>], context: Context<'a>) -> Result<Value<'a>, Error> {
    let mut merged = Fields::new(context.meter);
    for arg in args {
        for (key, value) in arg.fields()?.iter().flat_map(|fields| fields.pairs()) {
            merged.push(key, value.clone())?;
        }
    }
    Ok(merged.into_object())
}

fn map<'a>(array: &Value<'a>, ast: &'a Ast, context: Context<'a>) -> Result<Value<'a>, Error> {
    let mut list = List::new(context.meter);
    for element in array.elements().into_iter().flat_map(|(elements, _)| elements) {
        list.push(apply(ast, &element, context)?)?;
    }
    Ok(list.into())
}

fn contains<'a>(
    within: &Value<'a>,
    wanted: &Value<'a>,
    context: Context<'a>,
) -> Result<Value<'a>, Error> {
    if let Some(string) = within.as_str() {
        return Ok(Value::Bool(wanted.as_str().is_some_and(|wanted| string.contains(wanted))));
    }
    for element in within.elements().into_iter().flat_map(|(elements, _)| elements) {
        if element.equals(wanted, context.meter)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn join<'a>(glue: &Value<'a>, array: &Value<'a>, context: Context<'a>) -> Result<Value<'a>, Error> {
    let glue = glue.as_str().unwrap_or("");
    let mut joined = JsonText::new(usize::MAX, context.meter);
    let elements = array.elements().into_iter().flat_map(|(elements, _)| elements);
    for (index, element) in elements.enumerate() {
        joined.push(if index == 0 { "" } else { glue })?;
        joined.push(element.as_str().unwrap_or(""))?;
    }
    let (string, charge) = joined.into_parts();
    Ok(Value::made_string(string, charge))
}

/// The keys by which elements are ordered: what an expression makes of each of them.
struct Keys<'a> {
    ast: &'a Ast,
    /// All keys are of the type of the first one.
    kind: Option<Kind>,
    count: usize,
    offset: usize,
    context: Context<'a>,
}

impl<'a> Keys<'a> {
    const fn new(ast: &'a Ast, offset: usize, context: Context<'a>) -> Self {
        Self { ast, kind: None, count: 0, offset, context }
    }

    /// The key of the next element.
    fn next(&mut self, element: &Value<'a>) -> Result<Value<'a>, Error> {
        let key = apply(self.ast, element, self.context)?;
        let actual = key.kind();
        let is_right = match &self.kind {
            None => actual == Kind::String || actual == Kind::Number,
            Some(kind) => actual == *kind,
        };
        if !is_right {
            let expected = match &self.kind {
                None => "expression->string|expression->number".to_owned(),
                Some(kind) => format!("expression->{}", kind.word()),
            };
            let (actual, invocation) = (actual.word().to_owned(), self.count.max(1));
            let error =
                RuntimeError::InvalidReturnType { expected, actual, position: 1, invocation };
            return Err(self.context.error(self.offset, error));
        }
        self.kind = Some(actual);
        self.count += 1;
        Ok(key)
    }
}

fn sort_by<'a>(
    array: &Value<'a>,
    ast: &'a Ast,
    offset: usize,
    context: Context<'a>,
) -> Result<Value<'a>, Error> {
    let mut keys = Keys::new(ast, offset, context);
    let mut pairs = Vec::new();
    let mut charge = context.meter.open();
    for element in array.elements().into_iter().flat_map(|(elements, _)| elements) {
        charge.reserve_one(&mut pairs)?;
        pairs.push((keys.next(&element)?, element));
    }
    pairs.sort_by(|(left, _), (right, _)| left.order(right));
    let mut sorted = List::new(context.meter);
    for (_, element) in pairs {
        sorted.push(element)?;
    }
    Ok(sorted.into())
}

/// The first element whose key no other is better than; null of none.
fn best_by<'a>(
    array: &Value<'a>,
    ast: &'a Ast,
    better: Ordering,
    offset: usize,
    context: Context<'a>,
) -> Result<Value<'a>, Error> {
    let mut keys = Keys::new(ast, offset, context);
    let mut best: Option<(Value<'a>, Value<'a>)> = None;
    for element in array.elements().into_iter().flat_map(|(elements, _)| elements) {
        let key = keys.next(&element)?;
        if best.as_ref().is_none_or(|(best, _)| key.order(best) == better) {
            best = Some((key, element));
        }
    }
    Ok(best.map_or(Value::Null, |(_, element)| element))
}
