//! Applies a JMESPath expression to a value.

use std::cmp::Ordering;

use jmespath::ast::{Ast, Comparator};
use jmespath::{ErrorReason, JmespathError, RuntimeError};

use super::Error;
use super::document::Meter;
use super::functions::call;
use super::value::{Fields, List, Value};

/// Everything that an evaluation needs beside the expression and the value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) meter: &'a Meter<'a>,
    /// The expression as it was written, for errors.
    expression: &'a str,
}

impl Context<'_> {
    /// An error at a place in the expression.
    pub(super) fn error(&self, offset: usize, error: RuntimeError) -> Error {
        let reason = ErrorReason::Runtime(error);
        Error::NoFit(Box::new(JmespathError::new(self.expression, offset, reason)))
    }
}

/// Applies `ast`, a part of `expression`, to a value.
pub(crate) fn evaluate<'a>(
    ast: &'a Ast,
    value: &Value<'a>,
    expression: &'a str,
    meter: &'a Meter<'a>,
) -> Result<Value<'a>, Error> {
    apply(ast, value, Context { meter, expression })
}

pub(super) fn apply<'a>(
    ast: &'a Ast,
    value: &Value<'a>,
    context: Context<'a>,
) -> Result<Value<'a>, Error> {
    context.meter.step()?;
    match ast {
        Ast::Identity { .. } => Ok(value.clone()),
        Ast::Field { name, .. } => Ok(value.field(name)),
        Ast::Index { idx, .. } => Ok(index(value, *idx)),
        Ast::Literal { value, .. } => Value::literal(value, context.meter),
        Ast::Expref { ast, .. } => Ok(Value::Expression(ast)),
        Ast::Subexpr { lhs, rhs, .. } => apply(rhs, &apply(lhs, value, context)?, context),
        Ast::Or { lhs, rhs, .. } => {
            let left = apply(lhs, value, context)?;
            if left.is_truthy() { Ok(left) } else { apply(rhs, value, context) }
        }
        Ast::And { lhs, rhs, .. } => {
            let left = apply(lhs, value, context)?;
            if left.is_truthy() { apply(rhs, value, context) } else { Ok(left) }
        }
        Ast::Not { node, .. } => Ok(Value::Bool(!apply(node, value, context)?.is_truthy())),
        Ast::Condition { predicate, then, .. } => {
            let holds = apply(predicate, value, context)?.is_truthy();
            if holds { apply(then, value, context) } else { Ok(Value::Null) }
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
        // Of null, these two are null.
        Ast::MultiList { .. } | Ast::MultiHash { .. } if value.is_null() => Ok(Value::Null),
        Ast::MultiList { elements, .. } => {
            let mut list = List::new(context.meter);
            for ast in elements {
                list.push(apply(ast, value, context)?)?;
            }
            Ok(list.into())
        }
        Ast::MultiHash { elements, .. } => {
            let mut fields = Fields::with_capacity(elements.len(), context.meter)?;
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

/// The element at an index, which counts from the end where it is negative; else null.
fn index<'a>(value: &Value<'a>, index: i32) -> Value<'a> {
    let Some((mut elements, length)) = value.elements() else { return Value::Null };
    let from_start = match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(index.unsigned_abs() as usize),
    };
    from_start.and_then(|index| elements.nth(index)).unwrap_or(Value::Null)
}

/// Applies `ast` to each element, and leaves out what becomes null.
fn project<'a>(value: &Value<'a>, ast: &'a Ast, context: Context<'a>) -> Result<Value<'a>, Error> {
    let Some((elements, _)) = value.elements() else { return Ok(Value::Null) };
    let mut list = List::new(context.meter);
    for element in elements {
        let made = apply(ast, &element, context)?;
        if !made.is_null() {
            list.push(made)?;
        }
    }
    Ok(list.into())
}

/// Puts the elements of arrays in an array in their place.
fn flatten<'a>(value: &Value<'a>, context: Context<'a>) -> Result<Value<'a>, Error> {
    let Some((elements, _)) = value.elements() else { return Ok(Value::Null) };
    let mut list = List::new(context.meter);
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
pub(super) fn values<'a>(value: &Value<'a>, context: Context<'a>) -> Result<Value<'a>, Error> {
    let Some(fields) = value.fields()? else { return Ok(Value::Null) };
    let mut list = List::new(context.meter);
    for (_, value) in fields.pairs() {
        list.push(value.clone())?;
    }
    Ok(list.into())
}

fn compare<'a>(
    left: &Value<'a>,
    comparator: &Comparator,
    right: &Value<'a>,
    context: Context<'a>,
) -> Result<Value<'a>, Error> {
    let holds = match comparator {
        Comparator::Equal => left.equals(right, context.meter)?,
        Comparator::NotEqual => !left.equals(right, context.meter)?,
        // Only numbers have an order in comparisons.
        _ if left.as_number().is_none() || right.as_number().is_none() => return Ok(Value::Null),
        Comparator::LessThan => left.order(right) == Ordering::Less,
        Comparator::LessThanEqual => left.order(right) != Ordering::Greater,
        Comparator::GreaterThan => left.order(right) == Ordering::Greater,
        Comparator::GreaterThanEqual => left.order(right) != Ordering::Less,
    };
    Ok(Value::Bool(holds))
}

/// The elements of an array from `start` to before `stop`, with `step` from one to the next.
fn slice<'a>(
    value: &Value<'a>,
    start: Option<i32>,
    stop: Option<i32>,
    step: i32,
    context: Context<'a>,
) -> Result<Value<'a>, Error> {
    let Some((elements, length)) = value.elements() else { return Ok(Value::Null) };
    let bounds = Bounds::new(length, start, stop, step);
    let mut list = List::new(context.meter);
    for (index, element) in elements.enumerate() {
        context.meter.step()?;
        if bounds.has(index) {
            list.push(element)?;
        }
    }
    if step < 0 {
        list.reverse();
    }
    Ok(list.into())
}

/// The indices that a slice selects.
struct Bounds {
    first: i64,
    stop: i64,
    step: i64,
}

impl Bounds {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::Value as Json;

    use crate::json::*;
    use crate::scan::Patience;

    const LIMIT: usize = 64 * 1024 * 1024;

    /// The result as text, or what is wrong.
    fn evaluated(text: &str, expression: &str) -> Result<String, String> {
        let (patience, _leash) = Patience::start(Duration::from_secs(3600));
        let meter = Meter::new(LIMIT, &patience);
        let ast = jmespath::parse(expression).unwrap();
        let document = Document::parse(text, &meter).unwrap();
        let result = match evaluate(&ast, &document.root(), expression, &meter) {
            Ok(value) => {
                let mut text = JsonText::new(usize::MAX, &meter);
                text.write(&value).unwrap();
                Ok(text.into_parts().0)
            }
            Err(Error::NoFit(error)) => Err(error.to_string()),
            Err(error) => panic!("{error:?}"),
        };
        drop(document);
        // Everything that was charged was given back.
        meter.open().add(LIMIT).unwrap();
        result
    }

    /// The same by the interpreter of `jmespath`.
    fn expected(text: &str, expression: &str) -> Result<String, String> {
        let value: jmespath::Variable = serde_json::from_str(text).unwrap();
        let compiled = jmespath::compile(expression).unwrap();
        let result = compiled.search(jmespath::Rcvar::new(value));
        result.map(|value| value.to_string()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(text: &str, expression: &str) {
        let (ours, theirs) = (evaluated(text, expression), expected(text, expression));
        // The words of an error may be better; that there is one, and where, is the same.
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
        // Errors.
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
    fn each_expression_gives_what_it_should() {
        for expression in EXPRESSIONS {
            check(DOCUMENT, expression);
        }
    }

    #[test]
    fn what_jmespath_leaves_open_is_null() {
        assert_eq!(evaluated("[]", "avg(@)"), Ok("null".to_owned()));
        assert_eq!(evaluated(r#""[1]""#, "to_number(@)"), Ok("null".to_owned()));
    }

    #[test]
    fn every_step_into_a_document_can_be_followed_by_another() {
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
        let (patience, _leash) = Patience::start(Duration::from_secs(3600));
        let meter = Meter::new(6 * text.len(), &patience);
        let document = Document::parse(&text, &meter).unwrap();
        assert_eq!(document.root().elements().unwrap().1, 10_000);
        let tight = Meter::new(text.len(), &patience);
        assert!(matches!(Document::parse(&text, &tight), Err(Error::TooLarge)));
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
        fn any_expression_gives_what_it_should(json in any_json(), expression in any_expression()) {
            check(&json.to_string(), &expression);
        }
    }
}
