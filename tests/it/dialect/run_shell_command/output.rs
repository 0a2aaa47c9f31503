//! Output above the limit of a reply, and the tool that reads the rest.

use serde_json::{Value, json};

use super::super::speaking;
use super::{each, fields, run};
use crate::harness::TestServer;

const SMALL_PAGES: &str = "[mcp]\npage_bytes = 1024\nmax_page_bytes = 4096\n";

/// Sends the call that a reply names: `read_shell_output(job=1, stream="stdout", offset=4096)`.
#[track_caller]
fn follow(server: &mut TestServer, call: &str) -> Value {
    let (_, inside) = call.split_once("read_shell_output(").expect("the name of the tool");
    let (inside, _) = inside.split_once(')').expect("its arguments");
    let arguments = inside.split(", ").map(|pair| {
        let (name, value) = pair.split_once('=').expect("a name and a value");
        (name.to_owned(), serde_json::from_str(value).expect("a JSON value"))
    });
    let arguments = Value::Object(arguments.collect());
    server.call("read_shell_output", arguments).ok().structured().clone()
}

/// The rest of a stream, by the calls that each page names.
#[track_caller]
fn read_on(server: &mut TestServer, first: &str) -> String {
    let mut text = String::new();
    let mut next = Some(first.to_owned());
    while let Some(call) = next {
        let page = follow(server, &call);
        let output = page["Output"].as_str().expect("a text");
        assert!(!output.is_empty() && output.len() <= 16_384, "{page}");
        text.push_str(output);
        next = page["Next Call"].as_str().map(str::to_owned);
        assert_eq!(next.is_none(), page["End"] == page["Total"], "{page}");
    }
    text
}

#[test]
fn a_cut_is_a_field_and_the_rest_can_be_read() {
    let numbers = |last: u32| (1..=last).map(|n| format!("{n}\n")).collect::<String>();
    for launch in speaking("run_shell_command") {
        let mut server = launch.config(SMALL_PAGES).start();
        let command = "seq 3000; seq 2000 >&2";
        let cut = run(&mut server, json!({"command": command, "is_background": false})).ok();
        assert!(cut.text().contains("\nTruncated: stdout shows "), "{}", cut.text());
        let cut = fields(cut);
        let truncated = cut["Truncated"].as_str().expect("a text");
        let (stdout, stderr) = truncated.split_once("; ").expect("both streams");
        assert!(stdout.contains("of 13893 bytes") && stderr.contains("of 8893 bytes"), "{cut}");
        for (name, note, whole) in
            [("Stdout", stdout, numbers(3000)), ("Stderr", stderr, numbers(2000))]
        {
            let shown = cut[name].as_str().expect("a text").to_owned();
            assert_eq!(shown + &read_on(&mut server, note), whole, "{name}");
        }
    }
}

/// The most lines of a reply: some clients show only the first 2,000.
const MAX_LINES: usize = 1900;

#[test]
fn a_reply_has_no_more_lines_than_clients_show() {
    let numbers = |last: u32| (1..=last).map(|n| format!("{n}\n")).collect::<String>();
    let comment = "# line\n".repeat(3000);
    each(|server| {
        for (lines, command) in [
            ([5000, 4000], "seq 5000; seq 4000 >&2".to_owned()),
            ([4000, 3], "seq 4000; seq 3 >&2".to_owned()),
            ([1700, 0], "seq 1700".to_owned()),
            ([2000, 2000], format!("{comment}seq 2000; seq 2000 >&2")),
        ] {
            let reply = run(server, json!({"command": command, "is_background": false}));
            let text = reply.text();
            assert!(text.lines().count() <= MAX_LINES, "{}", text.lines().count());
            let reply = fields(reply);
            assert_eq!(reply["Command"], command);
            let mut notes = reply["Truncated"].as_str().unwrap_or_default().split("; ");
            for (name, last) in ["Stdout", "Stderr"].into_iter().zip(lines) {
                let mut shown = reply[name].as_str().expect("a text").to_owned();
                if shown != numbers(last) {
                    shown += &read_on(server, notes.next().expect("a call that reads on"));
                }
                assert_eq!(shown, numbers(last), "{name}");
            }
            assert_eq!(reply.get("Truncated").is_none(), lines == [1700, 0]);
        }
        let whole = json!({"job": 1, "max_bytes": 1_000_000});
        let page = server.call("read_shell_output", whole).ok();
        assert!(page.text().lines().count() <= MAX_LINES);
        assert!(page.structured()["Next Call"].is_string());
    });
}

#[test]
fn what_fits_has_no_such_field() {
    each(|server| {
        let command = "head -c 1000000 /dev/zero | tr '\\0' x";
        let whole = fields(run(server, json!({"command": command, "is_background": false})));
        assert_eq!(whole["Stdout"].as_str().map(str::len), Some(1_000_000));
        assert!(whole.get("Truncated").is_none() && whole.get("Job").is_none());
    });
}

#[test]
fn the_limit_of_a_reply_cuts_no_output_silently() {
    let [stdio, _] = speaking("run_shell_command");
    let mut server = stdio.start();
    let command = "head -c 3000000 /dev/zero | tr '\\0' x";
    let cut = fields(run(&mut server, json!({"command": command, "is_background": false})));
    let shown = cut["Stdout"].as_str().map(str::len).expect("a text");
    let note = cut["Truncated"].as_str().expect("a text").to_owned();
    assert!(note.contains(&format!("shows {shown} of 3000000 bytes")), "{note}");
    let offset = json!({"job": cut["Job"], "offset": 2_999_990, "max_bytes": 1_000_000});
    let page = server.call("read_shell_output", offset).ok();
    assert_eq!(page.structured()["Output"], "x".repeat(10));
    assert_eq!(page.structured()["Next Call"], Value::Null);
}

#[test]
fn bad_arguments_of_the_reading_tool_are_told() {
    each(|server| {
        run(server, json!({"command": "sleep 300 &", "is_background": false})).ok();
        for (bad, said) in [
            (json!({}), "`job`"),
            (json!({"job": 99}), "no job 99; give the field Job of a run_shell_command reply"),
            (json!({"job": "one"}), "`job`"),
            (json!({"job": 1, "stream": "both"}), "stdout, stderr"),
            (json!({"job": 1, "offset": -1}), "`offset`"),
            (json!({"job": 1, "max_bytes": 0}), "`max_bytes`"),
            (json!({"job": 1, "line": 3}), "`line`"),
        ] {
            let error = server.call("read_shell_output", bad.clone()).error_text();
            assert!(error.starts_with("Error: ") && error.contains(said), "{bad}: {error}");
        }
    });
}
