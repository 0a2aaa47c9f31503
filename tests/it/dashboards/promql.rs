//! Reading PromQL with a lexer that is just good enough to tell metrics from functions and labels.

/// The metrics and labels of a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// The series that it reads.
    pub(super) selectors: Vec<Selector>,
    /// The labels that it keeps (`by`).
    pub(super) kept: Vec<String>,
}

/// Series that a query reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selector {
    /// The name of the metric.
    pub(super) metric: String,
    /// The label matchers of the metrics.
    pub(super) matchers: Vec<Matcher>,
}

/// A label and the values that it must have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matcher {
    pub(super) label: String,
    /// `=`, `!=`, `=~` or `!~`.
    pub(super) operator: String,
    /// A value or a pattern.
    pub(super) value: String,
}

/// Words of the language that name no metric and are followed by no parenthesis.
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];
/// Words of the language that a list of labels follows.
const LISTS: [&str; 6] = ["by", "on", "without", "ignoring", "group_left", "group_right"];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// Reads the metrics and labels of this text.
pub(super) fn read(text: &str) -> Query {
    let tokens = tokens(text);
    let mut query = Query::default();
    let mut rest = &tokens[..];
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        let Token::Word(word) = token else { continue };
        let is_call = after.first().is_some_and(opens_call);
        if LISTS.contains(&&**word) {
            let (labels, after) = enclosed(after, ')');
            rest = after;
            if word == "by" {
                query.kept.extend(words(labels));
            }
        } else if !is_call && !OPERATORS.contains(&&**word) {
            let has_matchers = after.first() == Some(&Token::Sign('{'));
            let (inside, after) =
                if has_matchers { enclosed(after, '}') } else { (&[][..], after) };
            rest = after;
            query.selectors.push(Selector { metric: word.clone(), matchers: matchers(inside) });
        }
    }
    query
}

/// The labels that a legend shows: `{{label}}`.
pub(super) fn labels_of_legend(legend: &str) -> Vec<&str> {
    let parts = legend.split("{{").skip(1);
    parts.filter_map(|part| part.split_once("}}").map(|(label, _)| label.trim())).collect()
}

/// `true` if the word before this one is a function: `rate(…)`, `sum by (…) (…)`.
fn opens_call(next: &Token) -> bool {
    match next {
        Token::Word(word) => word == "by" || word == "without",
        Token::Sign(sign) => *sign == '(',
        Token::Text(_) => false,
    }
}

/// Returns the text between the first bracket and `close`, and the text after it.
fn enclosed(tokens: &[Token], close: char) -> (&[Token], &[Token]) {
    let end = tokens.iter().position(|token| *token == Token::Sign(close));
    let end = end.unwrap_or(tokens.len());
    (tokens.get(1..end).unwrap_or_default(), tokens.get(end + 1..).unwrap_or_default())
}

fn words(tokens: &[Token]) -> impl Iterator<Item = String> {
    tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.clone()),
        Token::Text(_) | Token::Sign(_) => None,
    })
}

fn matchers(tokens: &[Token]) -> Vec<Matcher> {
    let parts = tokens.split(|token| *token == Token::Sign(','));
    let matcher = |part: &[Token]| match part {
        [Token::Word(label), signs @ .., Token::Text(value)] => {
            let sign = |token: &Token| match token {
                Token::Sign(sign) => Some(*sign),
                Token::Word(_) | Token::Text(_) => None,
            };
            let operator = signs.iter().filter_map(sign).collect();
            Some(Matcher { label: label.clone(), operator, value: value.clone() })
        }
        _ => None,
    };
    parts.filter_map(matcher).collect()
}

/// Words, quoted texts and signs. Numbers and ranges in brackets speak of nothing.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
        let length = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            _ if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        match first {
            '"' => tokens.push(Token::Text(token.trim_matches('"').to_owned())),
            '[' | '.' | '0'..='9' => {}
            _ if is_part(first) => tokens.push(Token::Word(token.to_owned())),
            _ => tokens.push(Token::Sign(first)),
        }
        rest = after.trim_start();
    }
    tokens
}

#[test]
fn a_query_is_read() {
    let query = read(
        r#"histogram_quantile(0.95, sum by (le, tool) (rate(a_bucket{job=~"$job", x!="y"}[5m])))
            / clamp_min(b, 1e-9) and on (job) c == 1 or vector(0)"#,
    );
    let names: Vec<&str> = query.selectors.iter().map(|selector| &*selector.metric).collect();
    assert_eq!(names, ["a_bucket", "b", "c"]);
    assert_eq!(query.kept, ["le", "tool"]);
    let expected = [("job", "=~", "$job"), ("x", "!=", "y")].map(|(label, operator, value)| {
        Matcher { label: label.to_owned(), operator: operator.to_owned(), value: value.to_owned() }
    });
    assert_eq!(query.selectors[0].matchers, expected);
    assert_eq!(query.selectors[1].matchers, []);
}

#[test]
fn a_legend_is_read() {
    assert_eq!(labels_of_legend("{{a}} of {{ b }} (limit)"), ["a", "b"]);
    assert!(labels_of_legend("p95").is_empty());
}
