//! Plans how a JMESPath query is applied to JSON lines without holding all of them in memory.
//!
//! To a query, JSON lines are one array. Many queries begin with a step that treats each element
//! separately, such as `[?level=='error'].msg`: for two concatenated arrays, its result is the
//! concatenation of the two results. That first part is applied line by line; the rest, if there is
//! any, to the concatenated results.

use std::ops::Range;

use jmespath::ast::Ast;
use memchr::memchr;

use super::{MAX_BYTES, QueryError};
use crate::chunks::{LogChunks, More, TextBlock};
use crate::line_scan::ScanDeadline;
use crate::views::Charset;

/// The most elements that are kept if only the first or the last ones are needed.
const MAX_KEPT: usize = 100_000;

/// A query, split into a part for each line and a rest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryPlan {
    /// Applied to an array of each line alone. The results are concatenated.
    pub(crate) each: Ast,
    /// The elements of the concatenated results that the rest needs.
    pub(crate) keep: NeededElements,
    /// Applied to the kept elements.
    pub(crate) rest: Ast,
}

/// The elements of an array that the rest of a query needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NeededElements {
    All,
    /// This many at the beginning.
    First(usize),
    /// This many at the end.
    Last(usize),
    /// Only the number of elements: the rest is applied to that number.
    Length,
}

impl QueryPlan {
    /// Splits a query. A query that needs all lines at once keeps all of them.
    pub(crate) fn new(query: &Ast) -> Self {
        let whole = || Self { each: IDENTITY, keep: NeededElements::All, rest: query.clone() };
        split_local_prefix(query).unwrap_or_else(whole)
    }

    /// `true` if the result of each line goes into the final result unchanged.
    pub(crate) fn is_all_local(&self) -> bool {
        self.keep == NeededElements::All && is_identity(&self.rest)
    }

    /// Adds the next step of the query, which `wrap` applies to the value so far.
    fn then(mut self, step: &Ast, wrap: impl FnOnce(Box<Ast>) -> Ast) -> Self {
        let is_first = self.is_all_local();
        if is_first && is_length(step) {
            self.keep = NeededElements::Length;
            return self;
        }
        if is_first {
            self.keep = needed_elements(step);
        }
        self.rest = wrap(Box::new(self.rest));
        self
    }
}

const IDENTITY: Ast = Ast::Identity { offset: 0 };

const fn is_identity(ast: &Ast) -> bool {
    matches!(ast, Ast::Identity { .. })
}

/// `true` for `length(@)`.
fn is_length(ast: &Ast) -> bool {
    let Ast::Function { name, args, .. } = ast else { return false };
    name == "length" && matches!(&args[..], [Ast::Identity { .. }])
}

/// The elements of an array that a step needs.
fn needed_elements(step: &Ast) -> NeededElements {
    let kept = match step {
        Ast::Index { idx, .. } if *idx < 0 => NeededElements::Last(idx.unsigned_abs() as usize),
        Ast::Index { idx, .. } => NeededElements::First(idx.unsigned_abs() as usize + 1),
        Ast::Slice { start, stop, step, .. } if *step > 0 => {
            needed_by_slice(start.unwrap_or(0), *stop)
        }
        Ast::Projection { lhs: first, .. }
        | Ast::Subexpr { lhs: first, .. }
        | Ast::Flatten { node: first, .. } => needed_elements(first),
        Ast::Slice { .. }
        | Ast::Comparison { .. }
        | Ast::Condition { .. }
        | Ast::Identity { .. }
        | Ast::Expref { .. }
        | Ast::Function { .. }
        | Ast::Field { .. }
        | Ast::Literal { .. }
        | Ast::MultiList { .. }
        | Ast::MultiHash { .. }
        | Ast::Not { .. }
        | Ast::ObjectValues { .. }
        | Ast::And { .. }
        | Ast::Or { .. } => NeededElements::All,
    };
    match kept {
        NeededElements::First(count) | NeededElements::Last(count) if count > MAX_KEPT => {
            NeededElements::All
        }
        NeededElements::First(_)
        | NeededElements::Last(_)
        | NeededElements::All
        | NeededElements::Length => kept,
    }
}

/// The elements that a forward slice from `start` needs.
fn needed_by_slice(start: i32, stop: Option<i32>) -> NeededElements {
    match stop {
        Some(stop) if stop >= 0 && start >= 0 => {
            NeededElements::First(stop.unsigned_abs() as usize)
        }
        None if start < 0 => NeededElements::Last(start.unsigned_abs() as usize),
        Some(_) | None => NeededElements::All,
    }
}

/// `true` if the result for two concatenated arrays is the concatenation of the two results.
fn is_local(ast: &Ast) -> bool {
    match ast {
        Ast::Identity { .. } => true,
        Ast::Projection { lhs: node, .. } | Ast::Flatten { node, .. } => is_local(node),
        Ast::Subexpr { lhs, rhs, .. } => is_local(lhs) && is_local(rhs),
        Ast::Comparison { .. }
        | Ast::Condition { .. }
        | Ast::Expref { .. }
        | Ast::Function { .. }
        | Ast::Field { .. }
        | Ast::Index { .. }
        | Ast::Literal { .. }
        | Ast::MultiList { .. }
        | Ast::MultiHash { .. }
        | Ast::Not { .. }
        | Ast::ObjectValues { .. }
        | Ast::And { .. }
        | Ast::Or { .. }
        | Ast::Slice { .. } => false,
    }
}

/// Splits off the local part that a query begins with. `None` if the query uses the lines in more
/// than one range.
fn split_local_prefix(query: &Ast) -> Option<QueryPlan> {
    if is_local(query) {
        return Some(QueryPlan { each: query.clone(), keep: NeededElements::All, rest: IDENTITY });
    }
    match query.clone() {
        Ast::Index { .. } | Ast::Slice { .. } => {
            Some(split_local_prefix(&IDENTITY)?.then(query, |_| query.clone()))
        }
        Ast::Subexpr { offset, lhs, rhs } => {
            Some(split_local_prefix(&lhs)?.then(&rhs, |lhs| Ast::Subexpr {
                offset,
                lhs,
                rhs: rhs.clone(),
            }))
        }
        Ast::Projection { offset, lhs, rhs } => {
            Some(split_local_prefix(&lhs)?.then(query, |lhs| Ast::Projection { offset, lhs, rhs }))
        }
        Ast::Flatten { offset, node } => {
            Some(split_local_prefix(&node)?.then(query, |node| Ast::Flatten { offset, node }))
        }
        Ast::Function { offset, name, args } => plan_call(offset, name, args),
        Ast::Comparison { .. }
        | Ast::Condition { .. }
        | Ast::Identity { .. }
        | Ast::Expref { .. }
        | Ast::Field { .. }
        | Ast::Literal { .. }
        | Ast::MultiList { .. }
        | Ast::MultiHash { .. }
        | Ast::Not { .. }
        | Ast::ObjectValues { .. }
        | Ast::And { .. }
        | Ast::Or { .. } => None,
    }
}

/// Plans a function call in which only one argument uses the lines.
fn plan_call(offset: usize, name: String, mut args: Vec<Ast>) -> Option<QueryPlan> {
    let is_fixed = |arg: &Ast| matches!(arg, Ast::Expref { .. } | Ast::Literal { .. });
    let mut looking = args.iter_mut().filter(|arg| !is_fixed(arg));
    let (Some(arg), None) = (looking.next(), looking.next()) else { return None };
    let plan = split_local_prefix(arg)?;
    *arg = IDENTITY;
    let step = Ast::Function { offset, name, args };
    let rhs = Box::new(step.clone());
    Some(plan.then(&step, |lhs| Ast::Subexpr { offset, lhs, rhs }))
}

/// Reads the lines of a log that are not blank, one whole line at a time. A line that is too long
/// for a query is an error.
#[derive(Debug)]
pub(crate) struct JsonLineReader<'a> {
    block: TextBlock,
    more: More,
    /// The start of the next line in the block.
    at: usize,
    /// The position up to which the next line is known to have no newline.
    scanned: usize,
    /// The number of the next line, counted from 1.
    number: usize,
    deadline: &'a ScanDeadline,
}

/// One line: its number, and its range in the block, valid until the next line is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonLineRange {
    pub(crate) number: usize,
    range: Range<usize>,
}

impl<'a> JsonLineReader<'a> {
    pub(crate) fn new(chunks: LogChunks, charset: Charset, deadline: &'a ScanDeadline) -> Self {
        let block = TextBlock::new(chunks, 0, charset);
        Self { block, more: More::Maybe, at: 0, scanned: 0, number: 1, deadline }
    }

    /// The next line that is not blank.
    pub(crate) fn next(&mut self) -> Result<Option<JsonLineRange>, QueryError> {
        loop {
            let Some(range) = self.next_line()? else { return Ok(None) };
            let number = self.number;
            self.number += 1;
            if !self.block.bytes()[range.clone()].trim_ascii().is_empty() {
                return Ok(Some(JsonLineRange { number, range }));
            }
        }
    }

    /// The bytes of the line that was read last.
    pub(crate) fn bytes(&self, line: &JsonLineRange) -> &[u8] {
        &self.block.bytes()[line.range.clone()]
    }

    /// `true` if the line is the last one and has no newline.
    pub(crate) fn is_open(&self, line: &JsonLineRange) -> bool {
        self.more == More::No && self.bytes(line).last() != Some(&b'\n')
    }

    fn next_line(&mut self) -> Result<Option<Range<usize>>, QueryError> {
        loop {
            let bytes = self.block.bytes();
            if let Some(newline) = memchr(b'\n', &bytes[self.scanned..]) {
                return Ok(Some(self.take(self.scanned + newline + 1)));
            }
            let end = bytes.len();
            if self.more == More::No {
                return Ok((self.at < end).then(|| self.take(end)));
            }
            self.read_more()?;
        }
    }

    fn take(&mut self, end: usize) -> Range<usize> {
        let line = self.at..end;
        (self.at, self.scanned) = (end, end);
        line
    }

    /// Reads more of the line that has not ended yet.
    fn read_more(&mut self) -> Result<(), QueryError> {
        let unfinished = self.block.bytes().len() - self.at;
        if unfinished > MAX_BYTES {
            return Err(QueryError::too_large("a line of over 16 MiB"));
        }
        if self.deadline.is_over() {
            return Err(QueryError::TimeOver { line: self.number });
        }
        self.more = self.block.fill(self.at)?;
        (self.at, self.scanned) = (0, unfinished);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, each: &str, keep: NeededElements) {
        let plan = QueryPlan::new(&jmespath::parse(query).unwrap());
        assert_eq!(plan.keep, keep, "{query}");
        let each = jmespath::parse(each).unwrap();
        let without_offsets = |ast: &Ast| {
            let words = format!("{ast:?}");
            words
                .split("offset: ")
                .map(|part| part.trim_start_matches(char::is_numeric))
                .collect::<String>()
        };
        assert_eq!(without_offsets(&plan.each), without_offsets(&each), "{query}");
    }

    #[test]
    fn local_steps_are_applied_to_each_line() {
        for query in [
            "[*].a.b",
            "[].a",
            "[?level=='error'].msg",
            "[?a].{x: a, y: b[0]}",
            "[*].a[].b",
            "[*][*].a",
            "[?a] | [?b].c",
            "@",
        ] {
            check(query, query, NeededElements::All);
            assert!(QueryPlan::new(&jmespath::parse(query).unwrap()).is_all_local(), "{query}");
        }
    }

    #[test]
    fn only_elements_that_the_rest_needs_are_kept() {
        check("length(@)", "@", NeededElements::Length);
        check("length([?a])", "[?a]", NeededElements::Length);
        check("[?a].b | length(@)", "[?a].b", NeededElements::Length);
        check("[0].a", "@", NeededElements::First(1));
        check("[-2]", "@", NeededElements::Last(2));
        check("[0:10].a", "@", NeededElements::First(10));
        check("[-10:]", "@", NeededElements::Last(10));
        check("[?a].b | [3]", "[?a].b", NeededElements::First(4));
        check("[?a].b | [:5] | [0]", "[?a].b", NeededElements::First(5));
        check("sort_by([?a], &b)[0].c", "[?a]", NeededElements::All);
        check("[1:-1]", "@", NeededElements::All);
        check("[::-1]", "@", NeededElements::All);
        check("[?a] | (length(@) | to_string(@))", "[?a]", NeededElements::All);
    }

    #[test]
    fn a_query_that_uses_the_lines_twice_needs_all_of_them() {
        for query in ["[@, @]", "{a: [0], b: [1]}", "a || b", "contains(@, @)", "reverse(@)"] {
            check(query, "@", NeededElements::All);
        }
        check("reverse([*].a)", "[*].a", NeededElements::All);
    }
}
