//! The responses that a tenant got, without the parts that always differ.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::alice::SECRET;
use crate::harness::{HttpConnection, HttpRequest};

/// One answer: what was done, and all that came back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) attempt: String,
    pub(super) answer: String,
}

/// Masks times, random names, and lengths that depend on them, and nothing else.
static VOLATILE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        // Where JSON is in a text, its quotes are escaped.
        (r#""(\w+_ms)(\\?)": ?[0-9]+"#, r#""$1$2":T"#),
        (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
        (r"\b[0-9]+(\.[0-9]+)? ?(ms|s)\b", "T"),
        (r"(?m)^date: .*$", "date: T"),
        (r"(?m)^content-length: .*$", "content-length: N"),
        (r#"(?m)^etag: (W/)?"[0-9a-f]+-"#, r#"etag: "SERVER-"#),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.[\w-]+\.[\w-]+)?", "SESSION"),
        (r"-[0-9a-f]{32}\b", "-PROOF"),
        (r#""trace_id": ?"[0-9a-f]{32}""#, r#""trace_id":"TRACE""#),
        (r"127\.0\.0\.1:[0-9]+", "ADDRESS"),
        (r#""(pid|parent_pid)": ?[0-9]+"#, r#""$1":PID"#),
    ]
    .map(|(pattern, mask)| (Regex::new(pattern).expect("a pattern"), mask))
    .into()
});

/// Masks what is volatile by nature. `roots` are where the server and its client keep everything.
pub(super) fn masked(text: &str, roots: &[String]) -> String {
    let text = roots.iter().fold(text.to_owned(), |text, root| text.replace(root, "ROOT"));
    VOLATILE.iter().fold(text, |text, (pattern, mask)| pattern.replace_all(&text, *mask).into())
}

/// Sends a request, and takes down all of its answer.
#[track_caller]
pub(super) fn answer_to(address: &str, request: &HttpRequest) -> (u16, String) {
    let mut connection = HttpConnection::open(address);
    connection.send(request);
    let answer = connection.answer();
    let status = answer.status;
    let mut headers: Vec<String> =
        answer.headers().iter().map(|(name, value)| format!("{name}: {value}")).collect();
    headers.sort();
    // The answer to HEAD has the length of a body, and none.
    let body = if request.method == "HEAD" { String::new() } else { answer.text() };
    if request.method == "POST" && request.path == "/mcp" {
        headers.retain(|header| !BY_PATIENCE.iter().any(|name| header.starts_with(name)));
        let messages: Vec<String> = messages(&body).iter().map(Value::to_string).collect();
        return (status, format!("{status}\n{}\n\n{}", headers.join("\n"), messages.join("\n")));
    }
    (status, format!("{status}\n{}\n\n{body}", headers.join("\n")))
}

/// Headers that say whether an answer is one message or a stream of them. Which of the two it is
/// depends on how long it took.
const BY_PATIENCE: [&str; 5] =
    ["cache-control:", "content-", "transfer-encoding:", "vary:", "x-accel-buffering:"];

/// The messages of an answer, without those that say that it takes a while.
fn messages(body: &str) -> Vec<Value> {
    let events = body.lines().filter_map(|line| line.strip_prefix("data:"));
    let texts: Vec<&str> = if body.starts_with('{') { vec![body] } else { events.collect() };
    let all = texts.into_iter().filter(|text| !text.trim().is_empty());
    let read = |text| serde_json::from_str::<Value>(text).expect("JSON");
    all.map(read).filter(|message| message["method"] != "notifications/progress").collect()
}

/// Checks that an answer tells nothing of alice.
#[track_caller]
pub(super) fn assert_nothing_of_alice(observations: &Observation) {
    for word in [SECRET, "alice"] {
        assert!(
            !observations.answer.contains(word),
            "{}: {}",
            observations.attempt,
            observations.answer
        );
    }
}

#[test]
fn times_and_random_names_are_masked_and_numbers_are_not() {
    let roots = ["/tmp/x".to_owned()];
    let text = "job 12 · exit 0 in 1.5s · 3 of 4 · \"elapsed_ms\": 17 · /tmp/x/work · 120 bytes";
    let expected = "job 12 · exit 0 in T · 3 of 4 · \"elapsed_ms\":T · ROOT/work · 120 bytes";
    assert_eq!(masked(text, &roots), expected);
    let ticket = "mcp://tmp/exec-7-00112233445566778899aabbccddeeff.out";
    assert_eq!(masked(ticket, &roots), "mcp://tmp/exec-7-PROOF.out");
}
