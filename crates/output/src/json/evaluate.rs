//! Applies a JMESPath expression to a value.

use std::cmp::Ordering;

use jmespath::ast::{Ast, Comparator};
use jmespath::{ErrorReason, JmespathError, RuntimeError};

use super::Error;
use super::functions::call;
use super::meter::Meter;
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
            let (left, right) = (apply(lhs, value, context)?, apply(rhs, value, context)?);
            compare(&left, comparator, &right, context)
        }
        Ast::ObjectValues { node, .. } => values(&apply(node, value, context)?, context),
        Ast::Projection { lhs, rhs, .. } => project(&apply(lhs, value, context)?, rhs, context),
        Ast::Flatten { node, .. } => flatten(&apply(node, value, context)?, context),
        Ast::Slice { offset, start, stop, step } => match step {
            0 => Err(context.error(*offset, RuntimeError::InvalidSlice)),
            step => slice(value, (*start, *stop), *step, context),
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
    (start, stop): (Option<i32>, Option<i32>),
    step: i32,
    context: Context<'a>,
) -> Result<Value<'a>, Error> {
    let Some((elements, length)) = value.elements() else { return Ok(Value::Null) };
    let bounds = Bounds::new(length, (start, stop), step);
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
    fn new(length: usize, (start, stop): (Option<i32>, Option<i32>), step: i32) -> Self {
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
