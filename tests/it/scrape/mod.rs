//! A scrape of `/metrics`: its content and its cost.

mod compressed;
mod figures;
mod flat;
mod labels;

use serde_json::{Value, json};

use crate::harness::{Era, HttpConnection, HttpRequest, TestServer};

/// The text of one scrape.
#[track_caller]
fn scraped(server: &mut TestServer) -> String {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/metrics"));
    let answer = connection.answer();
    assert_eq!(answer.status, 200);
    answer.text()
}

/// The value of one series, spelled as in the text.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {series} in {text}")).parse().expect("a number")
}

/// The text without its values: help, types and series, in order.
fn series(text: &str) -> Vec<&str> {
    let without_value = |line| match line {
        comment if str::starts_with(comment, "#") => comment,
        sample => sample.rsplit_once(' ').map_or(sample, |(series, _)| series),
    };
    let mut series: Vec<&str> = text.lines().map(without_value).collect();
    series.sort_unstable();
    series
}

/// A request of the modern era.
fn modern(method: &str, params: Value) -> HttpRequest {
    let message = Era::Modern.request(1, method, params);
    let mut request = HttpRequest::post("/mcp", &message);
    request.headers.extend(Era::Modern.headers(&message));
    request
}

fn call(tool: &str, arguments: Value) -> HttpRequest {
    modern("tools/call", json!({"name": tool, "arguments": arguments}))
}
