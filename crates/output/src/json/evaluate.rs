//! Applies a JMESPath expression to a value, and implements the functions of JMESPath.

use std::cmp::Ordering;

use jmespath::ast::{Ast, Comparator};
use jmespath::{ErrorReason, JmespathError, RuntimeError};
use serde_json::Number;

use super::document::{JsonError, Meter};
use super::value::{JsonKind, JsonList, JsonText, JsonValue, ObjectFields, check_arguments};

/// The context of an evaluation.
#[derive(Debug, Clone, Copy)]
pub(super) struct EvalContext<'a> {
    meter: &'a Meter<'a>,
    /// The text of the expression, for errors.
    expression: &'a str,
}

impl EvalContext<'_> {
    /// An error at an offset in the expression.
    fn error(&self, offset: usize, error: RuntimeError) -> JsonError {
        let reason = ErrorReason::Runtime(error);
        JsonError::NoFit(Box::new(JmespathError::new(self.expression, offset, reason)))
    }
}

/// Applies `ast`, a part of `expression`, to a value.
pub(crate) fn evaluate<'a>(
    ast: &'a Ast,
    value: &JsonValue<'a>,
    expression: &'a str,
    meter: &'a Meter<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    apply(ast, value, EvalContext { meter, expression })
}

fn apply<'a>(
    ast: &'a Ast,
    value: &JsonValue<'a>,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    context.meter.step()?;
    match ast {
        Ast::Identity { .. } => Ok(value.clone()),
        Ast::Field { name, .. } => Ok(value.field(name)),
        Ast::Index { idx, .. } => Ok(index(value, *idx)),
        Ast::Literal { value, .. } => JsonValue::literal(value, context.meter),
        Ast::Expref { ast, .. } => Ok(JsonValue::Expression(ast)),
        Ast::Subexpr { lhs, rhs, .. } => apply(rhs, &apply(lhs, value, context)?, context),
        Ast::Or { lhs, rhs, .. } => {
            let left = apply(lhs, value, context)?;
            if left.is_truthy() { Ok(left) } else { apply(rhs, value, context) }
        }
        Ast::And { lhs, rhs, .. } => {
            let left = apply(lhs, value, context)?;
            if left.is_truthy() { apply(rhs, value, context) } else { Ok(left) }
        }
        Ast::Not { node, .. } => Ok(JsonValue::Bool(!apply(node, value, context)?.is_truthy())),
        Ast::Condition { predicate, then, .. } => {
            let holds = apply(predicate, value, context)?.is_truthy();
            if holds { apply(then, value, context) } else { Ok(JsonValue::Null) }
        }
        Ast::Comparison { comparator, lhs, rhs, .. } => {
            let left = apply(lhs, value, context)?;
            let right = apply(rhs, value, context)?;
            compare(&left, comparator, &right, context)
        }
        Ast::ObjectValues { node, .. } => values(&apply(node, value, context)?, context),
        Ast::Projection { lhs, rhs, .. } => project(&apply(lhs, value, context)?, rhs, context),
        Ast::Flatten { node, .. } => flatten(&apply(node, value, context)?, context),
        Ast::Slice { offset, start, stop, step } => match step {
            0 => Err(context.error(*offset, RuntimeError::InvalidSlice)),
            step => slice(value, *start, *stop, *step, context),
        },
        // For null, both are null.
        Ast::MultiList { .. } | Ast::MultiHash { .. } if value.is_null() => Ok(JsonValue::Null),
        Ast::MultiList { elements, .. } => {
            let mut list = JsonList::new(context.meter);
            for ast in elements {
                list.push(apply(ast, value, context)?)?;
            }
            Ok(list.into())
        }
        Ast::MultiHash { elements, .. } => {
            let mut fields = ObjectFields::with_capacity(elements.len(), context.meter)?;
            for pair in elements {
                fields.push(&pair.key, apply(&pair.value, value, context)?)?;
            }
            Ok(fields.into_object())
        }
        Ast::Function { offset, name, args } => {
            let args = args.iter().map(|ast| apply(ast, value, context));
            call(name, &args.collect::<Result<Vec<_>, _>>()?, *offset, context)
        }
    }
}

/// The element at an index, which counts from the end if it is negative; null if there is none.
fn index<'a>(value: &JsonValue<'a>, index: i32) -> JsonValue<'a> {
    let Some((mut elements, length)) = value.elements() else { return JsonValue::Null };
    let from_start = match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(index.unsigned_abs() as usize),
    };
    from_start.and_then(|index| elements.nth(index)).unwrap_or(JsonValue::Null)
}

/// Applies `ast` to each element, and leaves out results that are null.
fn project<'a>(
    value: &JsonValue<'a>,
    ast: &'a Ast,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let Some((elements, _)) = value.elements() else { return Ok(JsonValue::Null) };
    let mut list = JsonList::new(context.meter);
    for element in elements {
        let made = apply(ast, &element, context)?;
        if !made.is_null() {
            list.push(made)?;
        }
    }
    Ok(list.into())
}

/// Replaces each array in an array by its elements.
fn flatten<'a>(
    value: &JsonValue<'a>,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let Some((elements, _)) = value.elements() else { return Ok(JsonValue::Null) };
    let mut list = JsonList::new(context.meter);
    for element in elements {
        let Some((inner, _)) = element.elements() else {
            list.push(element)?;
            continue;
        };
        for element in inner {
            context.meter.step()?;
            list.push(element)?;
        }
    }
    Ok(list.into())
}

/// The values of an object as an array.
fn values<'a>(value: &JsonValue<'a>, context: EvalContext<'a>) -> Result<JsonValue<'a>, JsonError> {
    let Some(fields) = value.fields()? else { return Ok(JsonValue::Null) };
    let mut list = JsonList::new(context.meter);
    for (_, value) in &fields.pairs {
        list.push(value.clone())?;
    }
    Ok(list.into())
}

fn compare<'a>(
    left: &JsonValue<'a>,
    comparator: &Comparator,
    right: &JsonValue<'a>,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let holds = match comparator {
        Comparator::Equal => left.equals(right, context.meter)?,
        Comparator::NotEqual => !left.equals(right, context.meter)?,
        // Comparisons order only numbers.
        _ if left.as_number().is_none() || right.as_number().is_none() => {
            return Ok(JsonValue::Null);
        }
        Comparator::LessThan => left.order(right) == Ordering::Less,
        Comparator::LessThanEqual => left.order(right) != Ordering::Greater,
        Comparator::GreaterThan => left.order(right) == Ordering::Greater,
        Comparator::GreaterThanEqual => left.order(right) != Ordering::Less,
    };
    Ok(JsonValue::Bool(holds))
}

/// The elements of an array from `start` to before `stop`, in steps of `step`.
fn slice<'a>(
    value: &JsonValue<'a>,
    start: Option<i32>,
    stop: Option<i32>,
    step: i32,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let Some((elements, length)) = value.elements() else { return Ok(JsonValue::Null) };
    let bounds = SliceBounds::new(length, start, stop, step);
    let mut list = JsonList::new(context.meter);
    for (index, element) in elements.enumerate() {
        context.meter.step()?;
        if bounds.has(index) {
            list.push(element)?;
        }
    }
    if step < 0 {
        list.values.reverse();
    }
    Ok(list.into())
}

/// The indices that a slice selects.
struct SliceBounds {
    first: i64,
    stop: i64,
    step: i64,
}

impl SliceBounds {
    fn new(length: usize, start: Option<i32>, stop: Option<i32>, step: i32) -> Self {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let (lowest, highest) = if step < 0 { (-1, length - 1) } else { (0, length) };
        let place = |given: i32| {
            let given = i64::from(given);
            let from_start = if given < 0 { given + length } else { given };
            from_start.clamp(lowest, highest)
        };
        let (from, to) = if step < 0 { (highest, lowest) } else { (lowest, highest) };
        Self {
            first: start.map_or(from, place),
            stop: stop.map_or(to, place),
            step: i64::from(step),
        }
    }

    fn has(&self, index: usize) -> bool {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        let is_inside = if self.step < 0 {
            index <= self.first && index > self.stop
        } else {
            index >= self.first && index < self.stop
        };
        is_inside && (index - self.first) % self.step == 0
    }
}

/// Calls a function that is at `offset` in the expression.
fn call<'a>(
    name: &str,
    args: &[JsonValue<'a>],
    offset: usize,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    check_arguments(name, args).map_err(|error| context.error(offset, error))?;
    match (name, args) {
        ("not_null", args) => {
            Ok(args.iter().find(|arg| !arg.is_null()).cloned().unwrap_or(JsonValue::Null))
        }
        ("merge", args) => merge(args, context),
        (_, [value]) => call_one(name, value, context),
        ("map", [JsonValue::Expression(ast), array]) => map(array, ast, context),
        ("sort_by", [array, JsonValue::Expression(ast)]) => sort_by(array, ast, offset, context),
        ("max_by", [array, JsonValue::Expression(ast)]) => {
            best_by(array, ast, Ordering::Greater, offset, context)
        }
        ("min_by", [array, JsonValue::Expression(ast)]) => {
            best_by(array, ast, Ordering::Less, offset, context)
        }
        ("contains", [within, wanted]) => contains(within, wanted, context),
        ("join", [glue, array]) => join(glue, array, context),
        (_, [left, right]) => {
            let left = left.as_str().unwrap_or("");
            let right = right.as_str().unwrap_or("");
            Ok(JsonValue::Bool(match name {
                "ends_with" => left.ends_with(right),
                _ => left.starts_with(right),
            }))
        }
        (_, _) => Ok(JsonValue::Null),
    }
}

/// Calls a function of one argument.
fn call_one<'a>(
    name: &str,
    value: &JsonValue<'a>,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let in_number = |function: fn(f64) -> f64| number(function(value.as_number().unwrap_or(0.0)));
    Ok(match name {
        "abs" => in_number(f64::abs),
        "ceil" => in_number(f64::ceil),
        "floor" => in_number(f64::floor),
        "sum" => number(sum(value).0),
        "avg" => match sum(value) {
            (_, 0) => JsonValue::Null,
            (sum, length) => number(sum / length as f64),
        },
        "keys" => keys(value, context)?,
        "values" => values(value, context)?,
        "length" => length(value)?,
        "max" => best(value, |order| order != Ordering::Less),
        "min" => best(value, |order| order == Ordering::Less),
        "sort" => {
            let mut list = copy(value, context)?;
            list.values.sort_by(JsonValue::order);
            list.into()
        }
        "reverse" => reverse(value, context)?,
        "to_array" if value.kind() == JsonKind::Array => value.clone(),
        "to_array" => {
            let mut list = JsonList::new(context.meter);
            list.push(value.clone())?;
            list.into()
        }
        "to_number" => to_number(value),
        "to_string" if value.as_str().is_some() => value.clone(),
        "to_string" => to_string(value, context)?,
        "type" => JsonValue::Str(value.kind().word()),
        _ => JsonValue::Null,
    })
}

/// A number; null if it is not finite, because JSON has no other numbers.
fn number(number: f64) -> JsonValue<'static> {
    Number::from_f64(number).map_or(JsonValue::Null, JsonValue::Number)
}

/// The sum and the count of numbers.
fn sum(value: &JsonValue<'_>) -> (f64, usize) {
    let Some((elements, length)) = value.elements() else { return (0.0, 0) };
    let numbers = elements.filter_map(|element| element.as_number());
    // An empty sum of floats would be -0.0.
    (numbers.fold(0.0, |sum, number| sum + number), length)
}

fn keys<'a>(value: &JsonValue<'a>, context: EvalContext<'a>) -> Result<JsonValue<'a>, JsonError> {
    let mut list = JsonList::new(context.meter);
    if let Some(fields) = value.fields()? {
        for (key, _) in &fields.pairs {
            list.push(JsonValue::Str(key))?;
        }
    }
    Ok(list.into())
}

fn length<'a>(value: &JsonValue<'a>) -> Result<JsonValue<'a>, JsonError> {
    let length = match (value.as_str(), value.elements()) {
        (Some(string), _) => string.chars().count(),
        (None, Some((_, length))) => length,
        (None, None) => value.fields()?.map_or(0, |fields| fields.pairs.len()),
    };
    Ok(JsonValue::Number(length.into()))
}

/// The best element: each element replaces the best one so far if `is_better` says so about their
/// order.
fn best<'a>(value: &JsonValue<'a>, is_better: impl Fn(Ordering) -> bool) -> JsonValue<'a> {
    let elements = value.elements().into_iter().flat_map(|(elements, _)| elements);
    let best = elements.reduce(|best, next| if is_better(next.order(&best)) { next } else { best });
    best.unwrap_or(JsonValue::Null)
}

/// A copy of an array that can be changed.
fn copy<'a>(value: &JsonValue<'a>, context: EvalContext<'a>) -> Result<JsonList<'a>, JsonError> {
    let mut list = JsonList::new(context.meter);
    for element in value.elements().into_iter().flat_map(|(elements, _)| elements) {
        context.meter.step()?;
        list.push(element)?;
    }
    Ok(list)
}

fn reverse<'a>(
    value: &JsonValue<'a>,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let Some(string) = value.as_str() else {
        let mut list = copy(value, context)?;
        list.values.reverse();
        return Ok(list.into());
    };
    let mut charge = context.meter.open();
    charge.add(string.len())?;
    Ok(JsonValue::built_string(string.chars().rev().collect(), charge))
}

/// The number in a string; null for other strings and values.
fn to_number<'a>(value: &JsonValue<'a>) -> JsonValue<'a> {
    if value.as_number().is_some() {
        return value.clone();
    }
    let said = value.as_str().and_then(|string| serde_json::from_str(string).ok());
    said.map_or(JsonValue::Null, JsonValue::Number)
}

fn to_string<'a>(
    value: &JsonValue<'a>,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let mut text = JsonText::new(usize::MAX, context.meter);
    text.write(value)?;
    let (string, charge) = text.into_parts();
    Ok(JsonValue::built_string(string, charge))
}

fn merge<'a>(args: &[JsonValue<'a>], context: EvalContext<'a>) -> Result<JsonValue<'a>, JsonError> {
    let mut merged = ObjectFields::new(context.meter);
    for arg in args {
        for (key, value) in arg.fields()?.iter().flat_map(|fields| &fields.pairs) {
            merged.push(key, value.clone())?;
        }
    }
    Ok(merged.into_object())
}

fn map<'a>(
    array: &JsonValue<'a>,
    ast: &'a Ast,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let mut list = JsonList::new(context.meter);
    for element in array.elements().into_iter().flat_map(|(elements, _)| elements) {
        list.push(apply(ast, &element, context)?)?;
    }
    Ok(list.into())
}

fn contains<'a>(
    within: &JsonValue<'a>,
    wanted: &JsonValue<'a>,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    if let Some(string) = within.as_str() {
        return Ok(JsonValue::Bool(wanted.as_str().is_some_and(|wanted| string.contains(wanted))));
    }
    for element in within.elements().into_iter().flat_map(|(elements, _)| elements) {
        if element.equals(wanted, context.meter)? {
            return Ok(JsonValue::Bool(true));
        }
    }
    Ok(JsonValue::Bool(false))
}

fn join<'a>(
    glue: &JsonValue<'a>,
    array: &JsonValue<'a>,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let glue = glue.as_str().unwrap_or("");
    let mut joined = JsonText::new(usize::MAX, context.meter);
    let elements = array.elements().into_iter().flat_map(|(elements, _)| elements);
    for (index, element) in elements.enumerate() {
        joined.push(if index == 0 { "" } else { glue })?;
        joined.push(element.as_str().unwrap_or(""))?;
    }
    let (string, charge) = joined.into_parts();
    Ok(JsonValue::built_string(string, charge))
}

/// The sort keys of elements: the results of an expression for each element.
struct SortKeys<'a> {
    ast: &'a Ast,
    /// The type of the first key. All keys must have it.
    kind: Option<JsonKind>,
    count: usize,
    offset: usize,
    context: EvalContext<'a>,
}

impl<'a> SortKeys<'a> {
    const fn new(ast: &'a Ast, offset: usize, context: EvalContext<'a>) -> Self {
        Self { ast, kind: None, count: 0, offset, context }
    }

    /// The key of the next element.
    fn next(&mut self, element: &JsonValue<'a>) -> Result<JsonValue<'a>, JsonError> {
        let key = apply(self.ast, element, self.context)?;
        let actual = key.kind();
        let is_right = match &self.kind {
            None => actual == JsonKind::String || actual == JsonKind::Number,
            Some(kind) => actual == *kind,
        };
        if !is_right {
            let expected = match &self.kind {
                None => "expression->string|expression->number".to_owned(),
                Some(kind) => format!("expression->{}", kind.word()),
            };
            let actual = actual.word().to_owned();
            let invocation = self.count.max(1);
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
    array: &JsonValue<'a>,
    ast: &'a Ast,
    offset: usize,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let mut keys = SortKeys::new(ast, offset, context);
    let mut pairs = Vec::new();
    let mut charge = context.meter.open();
    for element in array.elements().into_iter().flat_map(|(elements, _)| elements) {
        charge.reserve_one(&mut pairs)?;
        pairs.push((keys.next(&element)?, element));
    }
    pairs.sort_by(|(left, _), (right, _)| left.order(right));
    let mut sorted = JsonList::new(context.meter);
    for (_, element) in pairs {
        sorted.push(element)?;
    }
    Ok(sorted.into())
}

/// The first element with the best key; null if there are no elements.
fn best_by<'a>(
    array: &JsonValue<'a>,
    ast: &'a Ast,
    better: Ordering,
    offset: usize,
    context: EvalContext<'a>,
) -> Result<JsonValue<'a>, JsonError> {
    let mut keys = SortKeys::new(ast, offset, context);
    let mut best: Option<(JsonValue<'a>, JsonValue<'a>)> = None;
    for element in array.elements().into_iter().flat_map(|(elements, _)| elements) {
        let key = keys.next(&element)?;
        if best.as_ref().is_none_or(|(best, _)| key.order(best) == better) {
            best = Some((key, element));
        }
    }
    Ok(best.map_or(JsonValue::Null, |(_, element)| element))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::Value as Json;

    use super::super::document::{JsonDocument, JsonError, Meter};
    use super::super::value::JsonText;
    use super::evaluate;
    use crate::line_scan::ScanDeadline;

    const LIMIT: usize = 64 * 1024 * 1024;

    /// The result as text, or the error.
    fn evaluated(text: &str, expression: &str) -> Result<String, String> {
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        let meter = Meter::new(LIMIT, &deadline);
        let ast = jmespath::parse(expression).unwrap();
        let document = JsonDocument::parse(text, &meter).unwrap();
        let result = match evaluate(&ast, &document.root(), expression, &meter) {
            Ok(value) => {
                let mut text = JsonText::new(usize::MAX, &meter);
                text.write(&value).unwrap();
                Ok(text.into_parts().0)
            }
            Err(JsonError::NoFit(error)) => Err(error.to_string()),
            Err(error) => panic!("{error:?}"),
        };
        drop(document);
        // Checks that every charge was released.
        meter.open().add(LIMIT).unwrap();
        result
    }

    /// The result of the interpreter in `jmespath`.
    fn expected(text: &str, expression: &str) -> Result<String, String> {
        let value: jmespath::Variable = serde_json::from_str(text).unwrap();
        let compiled = jmespath::compile(expression).unwrap();
        let result = compiled.search(jmespath::Rcvar::new(value));
        result.map(|value| value.to_string()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(text: &str, expression: &str) {
        let ours = evaluated(text, expression);
        let theirs = expected(text, expression);
        // Our message may be better; the position of the error must be the same.
        match (&ours, &theirs) {
            (Err(ours), Err(theirs)) => {
                let place = |error: &str| error.rsplit_once(" (line ").map(|(_, at)| at.to_owned());
                assert_eq!(place(ours), place(theirs), "{expression} of {text}\n{ours}\n{theirs}");
            }
            _ => assert_eq!(ours, theirs, "{expression} of {text}"),
        }
    }

    const DOCUMENT: &str = r#"{
    "b": 2, "a": 1, "b": 3, "empty": [], "none": null, "no": false, "float": -1.5, "big": 18446744073709551615,
    "text": "h\u00e9llo \"you\"", "escaped\nkey": "é€", "word": "abc", "digits": "12.50", "": "nameless",
    "numbers": [3, 1.5, 2, -7, 2.0], "words": ["pear", "apple", "fig", "apple"], "mixed": [1, "a", null, [2], {"a": 3}],
    "items": [
        {"name": "one", "age": 30, "ok": true, "tags": ["x", "y"], "in": {"k": 1}},
        {"name": "two", "age": 20, "ok": false, "tags": []},
        {"age": 25, "name": "three", "tags": [["z"], "w"], "in": {"k": 2, "j": [1, 2]}}
    ],
    "map": {"z": {"v": 1}, "y": {"v": 2}, "x": {"v": null}}
}"#;

    const EXPRESSIONS: &[&str] = &[
        "@",
        "a",
        "b",
        "\"escaped\\nkey\"",
        "\"\"",
        "missing",
        "a.b.c",
        "items",
        "items[0]",
        "items[-1].name",
        "items[9]",
        "items[-9]",
        "a[0]",
        "items[*].name",
        "items[].tags",
        "items[].tags[]",
        "items[*].tags[]",
        "items[*].tags[*]",
        "items[?ok].name",
        "items[?age > `20`].name",
        "items[?age >= `25` && ok].name",
        "items[?!ok].name",
        "items[?name == 'two']",
        "items[?tags]",
        "items[?in.k == `2`] | [0].name",
        "items[?name < 'z']",
        "map.*",
        "map.*.v",
        "*",
        "*.v",
        "items[*].in.*",
        "items[1:]",
        "items[:1].name",
        "numbers[::-1]",
        "numbers[::2]",
        "numbers[-2:]",
        "numbers[5:0:-2]",
        "numbers[10:-10:-1]",
        "numbers[3:1]",
        "numbers[-100:100]",
        "numbers[::-2]",
        "a[1:]",
        "[a, b]",
        "{x: a, y: b, x: text}",
        "items[*].{n: name, a: age}",
        "items[*].[name, age]",
        "missing.[a]",
        "missing.{a: a}",
        "a || b",
        "missing || a",
        "empty || a",
        "a && b",
        "empty && a",
        "!a",
        "!missing",
        "a == `1`",
        "a != `1`",
        "text == 'x'",
        "items == items",
        "map == map",
        "map.x == `{\"v\": null}`",
        "numbers[1] == `1.5`",
        "`0.30000000000000004` == `0.3`",
        "a < 'x'",
        "a <= b",
        "`[1, {\"a\": 2}]`",
        "`{\"z\": 1, \"a\": [null]}`",
        "'raw'",
        "mixed[]",
        "mixed[*].a",
        "mixed[?@ == `1`]",
        "abs(float)",
        "abs(a)",
        "avg(numbers)",
        "ceil(float)",
        "floor(float)",
        "sum(numbers)",
        "sum(empty)",
        "contains(words, 'fig')",
        "contains(words, `1`)",
        "contains(word, 'b')",
        "contains(word, `1`)",
        "contains(mixed, `[2]`)",
        "ends_with(word, 'c')",
        "starts_with(word, 'c')",
        "join(', ', words)",
        "join('', empty)",
        "keys(map)",
        "keys(@)",
        "values(map)",
        "length(items)",
        "length(text)",
        "length(map)",
        "length(@)",
        "map(&name, items)",
        "map(&missing, items)",
        "max(numbers)",
        "min(numbers)",
        "max(words)",
        "min(empty)",
        "max(empty)",
        "max_by(items, &age)",
        "min_by(items, &name).name",
        "max_by(empty, &a)",
        "merge(map, {z: a}, {new: b})",
        "not_null(missing, none, a)",
        "not_null(none)",
        "reverse(numbers)",
        "reverse(text)",
        "sort(numbers)",
        "sort(words)",
        "sort_by(items, &age)[*].name",
        "sort_by(items, &name)[0]",
        "sort_by(empty, &a)",
        "to_array(a)",
        "to_array(items)",
        "to_number(digits)",
        "to_number(a)",
        "to_number(word)",
        "to_number(none)",
        "to_string(items[0])",
        "to_string(text)",
        "to_string(a)",
        "type(a)",
        "type(@)",
        "type(text)",
        "type(items)",
        "type(no)",
        "type(none)",
        "big",
        "items[*].to_string(@)",
        // Expressions that give errors.
        "abs(text)",
        "length(a)",
        "sum(words)",
        "avg(mixed)",
        "unknown(a)",
        "abs()",
        "abs(a, b)",
        "not_null()",
        "join(a, words)",
        "sort(mixed)",
        "sort_by(items, &tags)",
        "sort_by(items, &in.k)",
        "max_by(items, &ok)",
        "max_by(mixed, &@)",
        "items[*].abs(name)",
        "map(&abs(name), items)",
        "merge(map, a)",
        "keys(items)",
        "numbers[::0]",
        "starts_with(word, a)",
        "sort_by(items, age)",
    ];

    #[test]
    fn each_expression_gives_the_result_of_jmespath() {
        for expression in EXPRESSIONS {
            check(DOCUMENT, expression);
        }
    }

    #[test]
    fn results_that_jmespath_does_not_define_are_null() {
        assert_eq!(evaluated("[]", "avg(@)"), Ok("null".to_owned()));
        assert_eq!(evaluated(r#""[1]""#, "to_number(@)"), Ok("null".to_owned()));
    }

    #[test]
    fn every_expression_can_follow_every_other() {
        for first in [
            "@",
            "items",
            "items[*]",
            "map",
            "map.*",
            "words",
            "numbers[1:]",
            "[items, map]",
            "mixed[]",
        ] {
            for second in EXPRESSIONS {
                check(DOCUMENT, &format!("{first} | {second}"));
            }
        }
    }

    #[test]
    fn a_document_takes_little_memory() {
        let item = r#"{"id":12345,"name":"item 12345","ok":true,"tags":["a","b"]}"#;
        let text = format!("[{}]", vec![item; 10_000].join(","));
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        let meter = Meter::new(6 * text.len(), &deadline);
        let document = JsonDocument::parse(&text, &meter).unwrap();
        assert_eq!(document.root().elements().unwrap().1, 10_000);
        let tight = Meter::new(text.len(), &deadline);
        assert!(matches!(JsonDocument::parse(&text, &tight), Err(JsonError::TooLarge)));
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            (-5_i64..5).prop_map(Json::from),
            (-5_i32..5).prop_map(|half| Json::from(f64::from(half) / 2.0)),
            "[ab\"\\\\é\n]{0,3}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                prop::collection::hash_map("[abc]", inner, 0..4).prop_map(|pairs| Json::from(
                    pairs.into_iter().collect::<serde_json::Map<_, _>>()
                )),
            ]
        })
    }

    fn any_expression() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec![
            "a",
            "b",
            "c",
            "@",
            "[0]",
            "[-1]",
            "[*]",
            "[]",
            "*",
            "`1`",
            "'a'",
            "`null`",
            "[1:]",
            "[::-1]",
            "length(@)",
            "keys(@)",
            "sort(@)",
            "max(@)",
            "to_string(@)",
            "type(@)",
            "to_array(@)",
            "reverse(@)",
            "values(@)",
            "not_null(a, b)",
            "sort_by(@, &a)",
            "map(&a, @)",
            "contains(@, `1`)",
        ]);
        leaf.prop_map(str::to_owned).prop_recursive(3, 12, 2, |inner| {
            let pair = (inner.clone(), inner);
            prop_oneof![
                pair.clone().prop_map(|(left, right)| format!("({left}) | ({right})")),
                pair.clone().prop_map(|(left, right)| format!("({left}) == ({right})")),
                pair.clone().prop_map(|(left, right)| format!("({left}) && ({right})")),
                pair.clone().prop_map(|(left, right)| format!("({left}) || !({right})")),
                pair.clone().prop_map(|(left, right)| format!("[{left}, {right}]")),
                pair.clone().prop_map(|(left, right)| format!("{{b: {left}, a: {right}}}")),
                pair.prop_map(|(left, right)| format!("to_array({left})[?{right}]")),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_expression_gives_the_result_of_jmespath(json in any_json(), expression in any_expression()) {
            check(&json.to_string(), &expression);
        }
    }
}
