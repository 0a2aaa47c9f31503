//! The two example loops of the document, on 50 MB.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{chunk, counted, exec, runs};
use crate::dialect::speaking;

/// Masking is tested elsewhere, and takes most of the time of an unoptimised server.
const UNMASKED: &str = "[redact]\nbuiltin = false\n";
const LINES: usize = 524_288;

/// 50 MiB in lines of 100 bytes, and what writes them.
fn huge() -> (&'static str, String) {
    let mut expected = String::with_capacity(LINES * 100);
    for line in 1..=LINES {
        writeln!(expected, "{line:099}").expect("a string takes it");
    }
    ("seq -f '%099.0f' 1 524288", expected)
}

/// Checks that a page holds what belongs there, and gives the offset after it.
#[track_caller]
fn follow(page: &Value, field: &str, expected: &str, from: usize) -> usize {
    let text = page[field].as_str().expect("plain text");
    let end = from + text.len();
    assert_eq!(page["bytes_start"], from);
    assert_eq!(page["bytes_end"], end - 1);
    assert_eq!(page["total_bytes"], expected.len());
    // Not assert_eq: nobody wants to read 64 KiB of difference.
    assert!(text == &expected[from..end], "the bytes from {from} on differ");
    end
}

#[test]
fn the_loop_over_pages_gives_back_every_byte_and_runs_once() {
    let [stdio, _] = speaking("shell_exec");
    let mut server = stdio.config(UNMASKED).start();
    let (command, expected) = huge();
    let args = counted(command);
    let mut res =
        exec(&mut server, json!({"cmd": "sh", "args": args, "page": {"limit_bytes": 65536}}));
    let mut end = follow(&res, "stdout_chunk", &expected, 0);
    while let Some(cursor) = res.get("next_cursor") {
        res = exec(&mut server, json!({"cmd": "sh", "args": args, "page": {"cursor": cursor}}));
        end = follow(&res, "stdout_chunk", &expected, end);
    }
    assert_eq!(end, expected.len());
    assert_eq!(runs(&server), 1);
}

#[test]
fn the_loop_over_a_spilled_file_gives_back_every_byte() {
    let [_, http] = speaking("shell_exec");
    let mut server = http.config(UNMASKED).start();
    let (command, expected) = huge();
    exec(&mut server, json!({"cmd": format!("{command} > huge.log")}));
    let res = exec(&mut server, json!({"cmd": "cat", "args": ["huge.log"]}));
    let uri = &res["spill_uri"];
    assert!(uri.as_str().is_some_and(|uri| uri.starts_with("mcp://tmp/exec-")), "{uri}");
    let limit = 1024 * 1024;
    let mut piece = chunk(&mut server, json!({"uri": uri, "limit_bytes": limit}));
    let mut end = follow(&piece, "data", &expected, 0);
    while let Some(cursor) = piece.get("next_cursor") {
        assert_eq!(cursor, &json!(format!("bytes:{end}")));
        let next = json!({"uri": uri, "cursor": cursor, "limit_bytes": limit});
        piece = chunk(&mut server, next);
        end = follow(&piece, "data", &expected, end);
    }
    assert_eq!(end, expected.len());
}
