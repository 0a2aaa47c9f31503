//! How a JMESPath query is applied to JSON lines without all of them in memory.
//!
//! To a query, JSON lines are one array. Many queries begin with something that treats each
//! element by itself, such as `[?level=='error'].msg`: of two arrays in a row it makes the two
//! results in a row. That beginning is applied line by line; the rest, if there is one, to what
//! it leaves.

use jmespath::ast::Ast;

/// So many lines are kept at most where only the first or the last ones are wanted.
const MAX_KEPT: usize = 100_000;

/// A query, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Applied to an array of each line alone; the results in a row are the value so far.
    pub(super) each: Ast,
    /// What of that value is needed.
    pub(super) keep: Keep,
    /// Applied to what was kept.
    pub(super) rest: Ast,
}

/// What of an array the rest of a query needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    All,
    /// This many at its beginning.
    First(usize),
    /// This many at its end.
    Last(usize),
    /// Only its length: the rest is applied to that number.
    Length,
}

impl Plan {
    /// Takes a query apart. One that needs all lines at once keeps all of them.
    pub(super) fn of(query: &Ast) -> Self {
        let whole = || Self { each: IDENTITY, keep: Keep::All, rest: query.clone() };
        beginning(query).unwrap_or_else(whole)
    }

    /// Whether what is left of each line goes into the result as it is.
    pub(super) fn is_all_local(&self) -> bool {
        self.keep == Keep::All && is_identity(&self.rest)
    }

    /// Adds the next step of the query, which `wrap` applies to the value so far.
    fn then(mut self, step: &Ast, wrap: impl FnOnce(Box<Ast>) -> Ast) -> Self {
        let is_first = self.is_all_local();
        if is_first && is_length(step) {
            self.keep = Keep::Length;
            return self;
        }
        if is_first {
            self.keep = needed(step);
        }
        self.rest = wrap(Box::new(self.rest));
        self
    }
}

const IDENTITY: Ast = Ast::Identity { offset: 0 };

const fn is_identity(ast: &Ast) -> bool {
    matches!(ast, Ast::Identity { .. })
}

/// Whether it is `length(@)`.
fn is_length(ast: &Ast) -> bool {
    let Ast::Function { name, args, .. } = ast else { return false };
    name == "length" && matches!(&args[..], [Ast::Identity { .. }])
}

/// What of an array a step looks at.
fn needed(step: &Ast) -> Keep {
    let kept = match step {
        Ast::Index { idx, .. } if *idx < 0 => Keep::Last(idx.unsigned_abs() as usize),
        Ast::Index { idx, .. } => Keep::First(idx.unsigned_abs() as usize + 1),
        Ast::Slice { start, stop, step, .. } if *step > 0 => slice(start.unwrap_or(0), *stop),
        Ast::Projection { lhs: first, .. }
        | Ast::Subexpr { lhs: first, .. }
        | Ast::Flatten { node: first, .. } => needed(first),
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
        | Ast::Or { .. } => Keep::All,
    };
    match kept {
        Keep::First(count) | Keep::Last(count) if count > MAX_KEPT => Keep::All,
        Keep::First(_) | Keep::Last(_) | Keep::All | Keep::Length => kept,
    }
}

/// What a slice looks at that goes forward from `start`.
fn slice(start: i32, stop: Option<i32>) -> Keep {
    match stop {
        Some(stop) if stop >= 0 && start >= 0 => Keep::First(stop.unsigned_abs() as usize),
        None if start < 0 => Keep::Last(start.unsigned_abs() as usize),
        Some(_) | None => Keep::All,
    }
}

/// Whether, of two arrays in a row, the query makes its two results in a row.
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

/// Finds the local part that a query begins with, if it looks at all lines through one alone.
fn beginning(query: &Ast) -> Option<Plan> {
    if is_local(query) {
        return Some(Plan { each: query.clone(), keep: Keep::All, rest: IDENTITY });
    }
    match query.clone() {
        Ast::Index { .. } | Ast::Slice { .. } => {
            Some(beginning(&IDENTITY)?.then(query, |_| query.clone()))
        }
        Ast::Subexpr { offset, lhs, rhs } => {
            Some(beginning(&lhs)?.then(&rhs, |lhs| Ast::Subexpr { offset, lhs, rhs: rhs.clone() }))
        }
        Ast::Projection { offset, lhs, rhs } => {
            Some(beginning(&lhs)?.then(query, |lhs| Ast::Projection { offset, lhs, rhs }))
        }
        Ast::Flatten { offset, node } => {
            Some(beginning(&node)?.then(query, |node| Ast::Flatten { offset, node }))
        }
        Ast::Function { offset, name, args } => call(offset, name, args),
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

/// A function whose other arguments do not look at the lines.
fn call(offset: usize, name: String, mut args: Vec<Ast>) -> Option<Plan> {
    let is_fixed = |arg: &Ast| matches!(arg, Ast::Expref { .. } | Ast::Literal { .. });
    let mut looking = args.iter_mut().filter(|arg| !is_fixed(arg));
    let (Some(arg), None) = (looking.next(), looking.next()) else { return None };
    let plan = beginning(arg)?;
    *arg = IDENTITY;
    let step = Ast::Function { offset, name, args };
    let rhs = Box::new(step.clone());
    Some(plan.then(&step, |lhs| Ast::Subexpr { offset, lhs, rhs }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, each: &str, keep: Keep) {
        let plan = Plan::of(&jmespath::parse(query).unwrap());
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
    fn what_treats_each_line_by_itself_is_applied_to_each_line() {
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
            check(query, query, Keep::All);
            assert!(Plan::of(&jmespath::parse(query).unwrap()).is_all_local(), "{query}");
        }
    }

    #[test]
    fn only_what_the_rest_needs_is_kept() {
        check("length(@)", "@", Keep::Length);
        check("length([?a])", "[?a]", Keep::Length);
        check("[?a].b | length(@)", "[?a].b", Keep::Length);
        check("[0].a", "@", Keep::First(1));
        check("[-2]", "@", Keep::Last(2));
        check("[0:10].a", "@", Keep::First(10));
        check("[-10:]", "@", Keep::Last(10));
        check("[?a].b | [3]", "[?a].b", Keep::First(4));
        check("[?a].b | [:5] | [0]", "[?a].b", Keep::First(5));
        check("sort_by([?a], &b)[0].c", "[?a]", Keep::All);
        check("[1:-1]", "@", Keep::All);
        check("[::-1]", "@", Keep::All);
        check("[?a] | (length(@) | to_string(@))", "[?a]", Keep::All);
    }

    #[test]
    fn what_looks_at_the_lines_more_than_once_needs_all_of_them() {
        for query in ["[@, @]", "{a: [0], b: [1]}", "a || b", "contains(@, @)", "reverse(@)"] {
            check(query, "@", Keep::All);
        }
        check("reverse([*].a)", "[*].a", Keep::All);
    }
}
