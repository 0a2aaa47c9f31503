//! Bad input: a clear error, and nothing is run.

use serde_json::{Value, json};

use super::{each, exec};

#[test]
fn bad_arguments_run_nothing() {
    each(|server| {
        let touch = "touch ran";
        for (bad, said) in [
            (json!({}), "missing argument `cmd`"),
            (json!({"cmd": 7}), "`cmd`"),
            (json!({"cmd": " "}), "empty"),
            (json!({"cmd": touch, "args": [1]}), "`args`"),
            (json!({"cmd": "touch", "args": "ran"}), "`args`"),
            (json!({"cmd": touch, "zip": "true"}), "`zip`"),
            (json!({"cmd": touch, "page": {"limit_bytes": "65536"}}), "`limit_bytes`"),
            (json!({"cmd": touch, "cwd": 7}), "`cwd`"),
            (json!({"cmd": touch, "env": {"A": 1}}), "`env.A`"),
            (json!({"cmd": touch, "env": {"A=B": "1"}}), "environment variable"),
            (json!({"cmd": touch, "page": "bytes:0"}), "`page`"),
            (json!({"cmd": touch, "page": {"limit_bytes": 0}}), "`limit_bytes`"),
            (json!({"cmd": touch, "page": {"limit_bytes": 1_048_577}}), "`limit_bytes`"),
            (json!({"cmd": touch, "page": {"limit_lines": -1}}), "`limit_lines`"),
            (json!({"cmd": touch, "page": {"limit": 1}}), "`limit`"),
            (json!({"cmd": touch, "page": {"cursor": "page:2"}}), "is not a cursor"),
            (json!({"cmd": touch, "page": {"cursor": "bytes:-1"}}), "is not a cursor"),
            (json!({"cmd": touch, "page": {"cursor": "line:1"}}), "is not a cursor"),
            (json!({"cmd": touch, "on_large_output": "explode"}), "spill, truncate, error"),
            (json!({"cmd": touch, "timeout": 5}), "unknown argument `timeout`"),
            (json!({"cmd": touch, "json_path": "a["}), "JMESPath"),
            (json!({"cmd": touch, "grep": "("}), "regular expression"),
            (json!({"cmd": touch, "grep": "a", "json_path": "a"}), "not both"),
            (json!({"cmd": touch, "zip": true, "on_large_output": "truncate"}), "`zip`"),
            (json!({"cmd": touch, "zip": "maybe"}), "`zip`"),
            (json!({"cmd": touch, "summary": 3}), "`summary`"),
            (json!({"cmd": touch, "mime": "text/csv"}), "`mime`"),
            (json!({"cmd": touch, "ansi_strip": []}), "`ansi_strip`"),
            (json!({"cmd": touch, "newline": "\r"}), "`newline`"),
        ] {
            let error = server.call("shell_exec", bad.clone()).error_text();
            assert!(error.contains(said), "{bad}: {error}");
        }
        assert!(!server.work().join("ran").exists());
    });
}

#[test]
fn a_cursor_that_fits_no_run_of_the_command_runs_nothing() {
    each(|server| {
        exec(server, json!({"cmd": "seq 1 9"}));
        let touch = |page: Value| json!({"cmd": "touch ran", "page": page});
        for (cursor, said) in [
            ("bytes:5", "no run of this command in this session is kept"),
            ("5", "no run of this command in this session is kept"),
            ("bytes:5@1", "belongs to another command"),
            ("bytes:0@1", "belongs to another command"),
            ("bytes:5@77", "not known or no longer kept"),
            ("job:77:bytes:0", "not known or no longer kept"),
        ] {
            let error = server.call("shell_exec", touch(json!({"cursor": cursor}))).error_text();
            assert!(error.contains(said), "{cursor}: {error}");
            assert!(error.contains("nothing was run"), "{cursor}: {error}");
        }
        for other in [json!({"cwd": "/"}), json!({"env": {"A": "1"}}), json!({"args": ["1"]})] {
            let mut run = json!({"cmd": "seq 1 9", "page": {"cursor": "bytes:5@1"}});
            run.as_object_mut()
                .expect("an object")
                .extend(other.as_object().expect("an object").clone());
            let error = server.call("shell_exec", run).error_text();
            assert!(error.contains("belongs to another command"), "{other}: {error}");
        }
        assert!(!server.work().join("ran").exists());
        let rest = exec(server, json!({"cmd": "seq 1 9", "page": {"cursor": "bytes:14@1"}}));
        assert_eq!(rest["stdout_chunk"], "8\n9\n");
    });
}

#[test]
fn an_address_that_was_not_given_out_reads_nothing() {
    each(|server| {
        let run = json!({"cmd": "seq 1 9", "on_large_output": "spill"});
        let uri = exec(server, run)["spill_uri"].as_str().expect("an address").to_owned();
        let forged = uri.replacen("exec-1-", "exec-2-", 1);
        let guessed = format!("mcp://tmp/exec-1-{}.out", "0".repeat(32));
        for bad in [
            "",
            "mcp://tmp/exec-abc123.out",
            "mcp://tmp/../../etc/passwd",
            "mcp://tmp/exec-../../../etc/passwd.out",
            "mcp://tmp/exec-1.out",
            "file:///etc/passwd",
            "/etc/passwd",
            &forged,
            &guessed,
        ] {
            let error = server.call("read_file_chunk", json!({"uri": bad})).error_text();
            assert!(error.contains("not the address of any kept output"), "{bad}: {error}");
        }
        for (bad, said) in [
            (json!({}), "missing argument `uri`"),
            (json!({"uri": 7}), "`uri`"),
            (json!({"uri": uri, "cursor": "x"}), "is not a cursor"),
            (json!({"uri": uri, "cursor": "bytes:1@2"}), "belongs to another output"),
            (
                json!({"uri": uri, "cursor": "bytes:19"}),
                "past the end of the output, which has 18 bytes",
            ),
            (json!({"uri": uri, "limit_bytes": 3}), "`limit_bytes`"),
            (json!({"uri": uri, "limit_bytes": 1_048_577}), "`limit_bytes`"),
            (json!({"uri": uri, "path": "x"}), "unknown argument `path`"),
        ] {
            let error = server.call("read_file_chunk", bad.clone()).error_text();
            assert!(error.contains(said), "{bad}: {error}");
        }
    });
}

#[test]
fn a_program_that_there_is_not_is_named() {
    each(|server| {
        let missing = server.call("shell_exec", json!({"cmd": "no-such-program", "args": ["x"]}));
        assert!(missing.error_text().contains("`no-such-program` was not found"));
    });
}

#[test]
fn a_cursor_that_no_reply_returned_gets_the_way_to_one() {
    each(|server| {
        for cursor in ["page:2", "bytes:", "bytes:-1", "bytes:1.5", "line:3", "bytes:1@x", "next"] {
            let run = json!({"cmd": "touch ran", "page": {"cursor": cursor}});
            let error = server.call("shell_exec", run).error_text();
            let start =
                format!("page.cursor `{cursor}` is not a cursor of shell_exec; nothing was run");
            assert!(error.starts_with(&start), "{error}");
            assert!(error.contains("without page.cursor, or with \"bytes:0\""), "{error}");
        }
        assert!(!server.work().join("ran").exists());
    });
}
