//! The optional table of the document, and how text is shown.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::{chunk, counted, each, exec, runs, whole_file};

#[test]
fn json_path_gives_the_subset_in_pages() {
    each(|server| {
        let args = counted(r#"echo '{"items": [{"n": 1, "ok": true}, {"n": 2, "ok": false}]}'"#);
        let run = |page: Value| json!({"cmd": "sh", "args": args, "json_path": "items[?ok].n", "page": page});
        let res = exec(server, run(json!({})));
        assert_eq!(
            (&res["stdout_chunk"], &res["mime"]),
            (&json!("[1]"), &json!("application/json"))
        );
        assert_eq!((&res["total_bytes"], &res["bytes_end"]), (&json!(3), &json!(2)));
        let all = json!({"cmd": "sh", "args": args, "json_path": "items[*].ok", "page": {"cursor": "bytes:0@1", "limit_bytes": 6}});
        let first = exec(server, all.clone());
        assert_eq!(first["stdout_chunk"], "[true,");
        let mut next = all;
        next["page"]["cursor"] = first["next_cursor"].clone();
        assert_eq!(exec(server, next)["stdout_chunk"], "false]");
        assert_eq!(runs(server), 1, "a filter on a cursor runs nothing");
        let text = server.call("shell_exec", json!({"cmd": "echo text", "json_path": "a"}));
        assert!(text.error_text().contains("neither JSON nor JSON lines"), "{}", text.0);
    });
}

#[test]
fn grep_gives_the_lines_that_match_in_pages() {
    each(|server| {
        let run = |page: Value| json!({"cmd": "for i in $(seq 1 5000); do echo $i; echo err >&2; done", "grep": "^[0-9]*99$", "page": page});
        let res = exec(server, run(json!({})));
        assert_eq!((&res["matches"], &res["line_count"]), (&json!(50), &json!(50)));
        let (mut all, mut page) = (String::new(), exec(server, run(json!({"limit_lines": 7}))));
        while let Some(cursor) = page.get("next_cursor") {
            all += page["stdout_chunk"].as_str().expect("text");
            page = exec(server, run(json!({"limit_lines": 7, "cursor": cursor})));
        }
        all += page["stdout_chunk"].as_str().expect("text");
        assert_eq!(res["stdout_chunk"], all.as_str());
        assert_eq!(all.lines().next(), Some("99"));
    });
}

#[test]
fn zip_spills_gzip_data() {
    each(|server| {
        let run = json!({"cmd": "seq 1 30000; echo noise >&2", "zip": true});
        let res = exec(server, run);
        let uri = res["spill_uri"].clone();
        assert!(uri.as_str().is_some_and(|uri| uri.ends_with(".out.gz")), "{uri}");
        let first = chunk(server, json!({"uri": uri, "limit_bytes": 1000}));
        assert_eq!(
            (&first["mime"], &first["encoding"]),
            (&json!("application/gzip"), &json!("base64"))
        );
        assert_eq!(
            (&first["bytes_end"], &first["next_cursor"]),
            (&json!(999), &json!("bytes:1000"))
        );
        let data = whole_file(server, &uri, 1000);
        let mut text = String::new();
        GzDecoder::new(&data[..]).read_to_string(&mut text).expect("gzip data");
        let expected: String = (1..=30_000).map(|line| format!("{line}\n")).collect();
        assert!(text == expected, "every byte of stdout");
        assert_eq!(exec(server, json!({"cmd": "echo hi", "zip": true}))["spill_uri"], Value::Null);
    });
}

#[test]
fn the_mime_type_is_told_unless_it_is_not_wanted() {
    each(|server| {
        for (cmd, mime) in [
            ("echo hi", "text/plain"),
            ("echo '[1, 2]'", "application/json"),
            ("printf '{\n\"a\": 1\n}\n'", "application/json"),
            (r#"echo '{"a": 1}'; echo '{"a": 2}'"#, "application/x-ndjson"),
            (r#"yes '{"a": 1}' | head -n 200000"#, "application/x-ndjson"),
            (r#"echo '{"a": 1}'; echo done"#, "text/plain"),
            ("printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR\\0\\0'", "image/png"),
            ("printf '\\037\\213\\010\\000\\000\\000\\000\\000\\000\\003'", "application/gzip"),
        ] {
            assert_eq!(exec(server, json!({"cmd": cmd}))["mime"], mime, "{cmd}");
        }
        assert_eq!(exec(server, json!({"cmd": "echo '[1]'", "mime": false}))["mime"], "text/plain");
    });
}

#[test]
fn a_summary_counts_lines_and_errors_of_everything() {
    each(|server| {
        let cmd = "seq 1 5000; echo 'error: boom'; echo 'fatal: no' >&2";
        let res = exec(server, json!({"cmd": cmd, "summary": true, "page": {"limit_lines": 2}}));
        let expected = json!({"lines": 5001, "errors": 1, "stderr_lines": 1, "stderr_errors": 1});
        assert_eq!((&res["summary"], &res["line_count"]), (&expected, &json!(2)));
        assert_eq!(exec(server, json!({"cmd": cmd})).get("summary"), None);
    });
}

#[test]
fn colours_are_taken_out_and_lines_end_in_lf_unless_kept() {
    each(|server| {
        let cmd = "printf '\\033[31mred\\033[0m\\r\\nb\\n'";
        let mut check = |options: Value, expected: &str| {
            let mut run = json!({"cmd": cmd});
            run.as_object_mut()
                .expect("an object")
                .extend(options.as_object().expect("an object").clone());
            assert_eq!(exec(server, run)["stdout_chunk"], expected, "{options}");
        };
        check(json!({}), "red\nb\n");
        check(json!({"ansi_strip": null, "newline": null}), "red\nb\n");
        check(json!({"ansi_strip": false}), "\x1b[31mred\x1b[0m\nb\n");
        check(json!({"newline": "\r\n"}), "red\r\nb\r\n");
        check(json!({"ansi_strip": false, "newline": "keep"}), "\x1b[31mred\x1b[0m\r\nb\n");
        let spilled =
            exec(server, json!({"cmd": cmd, "on_large_output": "spill"}))["spill_uri"].clone();
        assert_eq!(
            whole_file(server, &spilled, 65_536),
            b"\x1b[31mred\x1b[0m\r\nb\n",
            "as written"
        );
    });
}

#[test]
fn no_half_of_an_escape_code_or_of_a_newline_leaks_at_the_end_of_a_page() {
    each(|server| {
        let cmd = "for i in 1 2 3 4 5 6 7 8 9; do printf 'ab\\033[31;1mcd\\033[0m\\033]0;title\\007'; done; printf '\\r\\nend\\n'";
        for limit in 20..40 {
            let mut res = exec(server, json!({"cmd": cmd, "page": {"limit_bytes": limit}}));
            let mut all = res["stdout_chunk"].as_str().expect("text").to_owned();
            while let Some(cursor) = res.get("next_cursor") {
                res = exec(
                    server,
                    json!({"cmd": cmd, "page": {"limit_bytes": limit, "cursor": cursor}}),
                );
                all += res["stdout_chunk"].as_str().expect("text");
            }
            assert_eq!(all, format!("{}\nend\n", "abcd".repeat(9)), "pages of {limit}");
        }
    });
}

#[test]
fn the_mime_type_is_that_of_the_filtered_text() {
    each(|server| {
        let lines = r#"echo '{"a": 1}'; echo '{"a": 2}'; echo '{"b": 3}'"#;
        for (filter, mime, text) in [
            (json!({"json_path": "[*].a"}), "application/json", "[1,2]"),
            (json!({"grep": "a"}), "application/x-ndjson", "{\"a\": 1}\n{\"a\": 2}\n"),
            (json!({"grep": "c"}), "text/plain", ""),
        ] {
            let mut run = json!({"cmd": lines});
            extend(&mut run, &filter);
            let res = exec(server, run);
            assert_eq!((&res["mime"], &res["stdout_chunk"]), (&json!(mime), &json!(text)));
        }
    });
}

fn extend(run: &mut Value, options: &Value) {
    let options = options.as_object().expect("an object").clone();
    run.as_object_mut().expect("an object").extend(options);
}

#[test]
fn previews_show_the_text_of_the_page_with_its_options() {
    each(|server| {
        let small = "printf '\\033[31mred\\033[0m 50%%\\rred 99%%\\r\\na\\0b\\n\\n\\nc'";
        let large = "for i in $(seq 1 300); do printf '\\033[3%dmé line %d\\033[0m\\r\\n' $((i % 8)) $i; done";
        for options in [
            json!({}),
            json!({"ansi_strip": false}),
            json!({"newline": "\r\n"}),
            json!({"newline": "keep"}),
            json!({"ansi_strip": false, "newline": "keep"}),
        ] {
            let mut run = json!({"cmd": small});
            extend(&mut run, &options);
            let res = exec(server, run);
            assert_eq!(res["head_preview"], res["stdout_chunk"], "{options}");
            assert_eq!(res["tail_preview"], res["stdout_chunk"], "{options}");
            let mut run = json!({"cmd": large});
            extend(&mut run, &options);
            let res = exec(server, run);
            let [chunk, head, tail] = ["stdout_chunk", "head_preview", "tail_preview"]
                .map(|field| res[field].as_str().expect("text"));
            assert_eq!(head.lines().count(), 10, "{options}: {head:?}");
            assert!(chunk.starts_with(head), "{options}: {head:?}");
            assert_eq!(tail.lines().count(), 10, "{options}: {tail:?}");
            assert!(chunk.ends_with(tail), "{options}: {tail:?}");
        }
    });
}

#[test]
fn previews_of_binary_output_are_empty_and_never_show_a_secret() {
    each(|server| {
        let binary = exec(server, json!({"cmd": "head -c 4000 /dev/zero | tr '\\0' '\\377'"}));
        assert_eq!((&binary["head_preview"], &binary["tail_preview"]), (&json!(""), &json!("")));
        let key = "AKIAIOSFODNN7EXAMPLE";
        let cut = format!("printf '%0490d {key} %0490d' 1 2");
        let res = exec(server, json!({"cmd": cut, "ansi_strip": false, "newline": "keep"}));
        assert!(!res.to_string().contains("AKIA"), "{res}");
    });
}
