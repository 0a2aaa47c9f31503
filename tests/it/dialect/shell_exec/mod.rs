//! `shell_exec` and `read_file_chunk`, as their document says.

mod agents_md;
mod guards;
mod loops;
mod modes;
mod options;
mod pages;
mod refusals;

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{check_listed, speaking};
use crate::harness::{Reply, TestServer};

/// The fields that every reply of `shell_exec` has.
const FIELDS: [&str; 13] = [
    "exit_code",
    "stdout_chunk",
    "stderr_chunk",
    "bytes_start",
    "bytes_end",
    "total_bytes",
    "truncated",
    "spill_uri",
    "mime",
    "line_count",
    "stderr_count",
    "head_preview",
    "tail_preview",
];

/// A command that writes down that it ran, then runs `rest`.
fn counted(rest: &str) -> Value {
    json!(["-c", format!("echo run >> runs; {rest}")])
}

/// Returns the number of runs of a [`counted`] command.
fn runs(server: &TestServer) -> usize {
    fs::read_to_string(server.work().join("runs")).unwrap_or_default().lines().count()
}

fn each(check: impl Fn(&mut TestServer)) {
    for launch in speaking("shell_exec") {
        check(&mut launch.start());
    }
}

/// The fields of a reply, after checking that text and structured content are the same.
#[track_caller]
fn fields(reply: Reply) -> Value {
    let reply = reply.ok();
    let from_text: Value = serde_json::from_str(&reply.text()).expect("the text is JSON");
    assert_eq!(&from_text, reply.structured());
    from_text
}

/// A page of `shell_exec`.
#[track_caller]
fn exec(server: &mut TestServer, arguments: Value) -> Value {
    let page = fields(server.call("shell_exec", arguments));
    for name in FIELDS {
        assert!(page.get(name).is_some(), "no `{name}` in {page}");
    }
    page
}

/// A chunk of `read_file_chunk`.
#[track_caller]
fn chunk(server: &mut TestServer, arguments: Value) -> Value {
    fields(server.call("read_file_chunk", arguments))
}

/// Returns the content of a page or chunk, as bytes.
#[track_caller]
fn bytes(page: &Value, field: &str, encoding: &str) -> Vec<u8> {
    let text = page[field].as_str().expect("a chunk is a text");
    match page[encoding].as_str() {
        None => text.as_bytes().to_vec(),
        Some("base64") => STANDARD.decode(text).expect("valid base64"),
        Some(other) => panic!("an unknown encoding: {other}"),
    }
}

/// The whole file at an address.
#[track_caller]
fn whole_file(server: &mut TestServer, uri: &Value, limit: u64) -> Vec<u8> {
    let mut piece = chunk(server, json!({"uri": uri, "limit_bytes": limit}));
    let mut all = bytes(&piece, "data", "encoding");
    while let Some(cursor) = piece.get("next_cursor") {
        piece = chunk(server, json!({"uri": uri, "cursor": cursor, "limit_bytes": limit}));
        assert_eq!(piece["bytes_start"], all.len());
        all.extend(bytes(&piece, "data", "encoding"));
    }
    assert_eq!(piece["total_bytes"], all.len());
    all
}

#[test]
fn they_are_listed_as_documented() {
    check_listed("shell_exec");
}
