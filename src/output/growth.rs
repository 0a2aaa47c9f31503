//! How large the values can get that a JMESPath query makes.
//!
//! `[@,@]` names its input twice; thirty of them in a row name it a billion times, and
//! flattening or `to_string` would then write that out. So a query is measured before it runs.

use jmespath::ast::Ast;

/// How many bytes of input one constant of the query is taken to be repeated for.
const BYTES_PER_ELEMENT: f64 = 16.0;

/// About the size of the largest value that the query can make of so many bytes of JSON. Errs
/// on the large side: fields that are selected beside each other count as if each was all.
pub(super) fn largest_value(query: &Ast, input_bytes: usize) -> f64 {
    let mut largest = 0.0;
    size_of(query, input_bytes as f64, &mut largest);
    largest
}

/// The size of what `ast` makes of `input`; the largest size on the way goes to `largest`.
fn size_of(ast: &Ast, input: f64, largest: &mut f64) -> f64 {
    let mut of = |ast: &Ast, input: f64| size_of(ast, input, largest);
    let size = match ast {
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Slice { .. } => input,
        Ast::Literal { value, .. } => {
            input + input / BYTES_PER_ELEMENT * value.to_string().len() as f64
        }
        Ast::Subexpr { lhs, rhs, .. } | Ast::Projection { lhs, rhs, .. } => {
            let left = of(lhs, input);
            of(rhs, left)
        }
        Ast::Condition { predicate: lhs, then: rhs, .. }
        | Ast::Comparison { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. } => of(lhs, input).max(of(rhs, input)),
        Ast::Not { node, .. } | Ast::Flatten { node, .. } | Ast::ObjectValues { node, .. } => {
            of(node, input)
        }
        Ast::Expref { ast, .. } => of(ast, input),
        Ast::MultiList { elements, .. } => elements.iter().map(|ast| of(ast, input)).sum(),
        Ast::MultiHash { elements, .. } => elements.iter().map(|pair| of(&pair.value, input)).sum(),
        Ast::Function { args, .. } => size_of_call(args, input, &mut of),
    };
    *largest = largest.max(size);
    size
}

/// A function gives at most its arguments, quoted once more; what it applies, it applies to them.
fn size_of_call(args: &[Ast], input: f64, of: &mut dyn FnMut(&Ast, f64) -> f64) -> f64 {
    let is_applied = |ast: &&Ast| matches!(ast, Ast::Expref { .. });
    let data: f64 = args.iter().filter(|ast| !is_applied(ast)).map(|ast| of(ast, input)).sum();
    let applied = args.iter().filter(is_applied).map(|ast| of(ast, data)).fold(0.0, f64::max);
    2.0 * data.max(applied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, allowed: std::ops::RangeInclusive<f64>) {
        let growth = largest_value(&jmespath::parse(query).unwrap(), 1000) / 1000.0;
        assert!(allowed.contains(&growth), "{query}: {growth}");
    }

    #[test]
    fn usual_queries_are_small() {
        check("items[0].name", 1.0..=1.0);
        check("items[?contains(name, 'x') && n > `1`].{a: a, b: b} | [0]", 1.0..=10.0);
        check("sort_by(items, &age)[*].name", 1.0..=4.0);
    }

    #[test]
    fn doubling_in_a_row_is_seen() {
        check(&["[@,@]"; 30].join("|"), 1e9..=2e9);
        check(&["[@,@][]"; 30].join("|"), 1e9..=2e9);
        check(&["{a:@,b:@}"; 100].join("|"), 1e30..=f64::INFINITY);
        check(&["map(&[@,@],@)"; 30].join("|"), 1e9..=f64::INFINITY);
        check(&["to_string([@])"; 40].join("|"), 1e12..=f64::INFINITY);
    }
}
