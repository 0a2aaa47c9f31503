//! Pages: the document's test table, its request, and what each field says.

use serde_json::{Value, json};

use super::{bytes, chunk, counted, each, exec, runs, whole_file};
use crate::dialect::speaking;
use crate::harness::{Era, Launch};

#[test]
fn small_output_comes_whole() {
    each(|server| {
        let res = exec(server, json!({"cmd": "echo 'hi'"}));
        assert_eq!(res["stdout_chunk"], "hi\n");
        assert_eq!((&res["exit_code"], &res["stderr_chunk"]), (&json!(0), &json!("")));
        assert_eq!((&res["bytes_start"], &res["bytes_end"]), (&json!(0), &json!(2)));
        assert_eq!((&res["total_bytes"], &res["truncated"]), (&json!(3), &json!(false)));
        assert_eq!((&res["spill_uri"], &res["mime"]), (&Value::Null, &json!("text/plain")));
        assert_eq!((&res["line_count"], &res["stderr_count"]), (&json!(1), &json!(0)));
        assert_eq!((&res["head_preview"], &res["tail_preview"]), (&json!("hi\n"), &json!("hi\n")));
        assert_eq!(res.get("next_cursor"), None);
        assert_eq!(
            exec(server, json!({"cmd": "echo", "args": ["$HOME;ls"]}))["stdout_chunk"],
            "$HOME;ls\n"
        );
    });
}

#[test]
fn large_output_is_paged_and_spilled() {
    each(|server| {
        let res = exec(server, json!({"cmd": "ls -R /usr"}));
        let next = res["next_cursor"].as_str().expect("there is more");
        let shown = res["stdout_chunk"].as_str().expect("names are text").len();
        assert!(next.starts_with(&format!("bytes:{shown}")), "{next}");
        assert!(shown <= 65_536 && res["line_count"].as_u64() <= Some(2000), "{res}");
        assert_eq!(res["truncated"], false);
        assert!(res["total_bytes"].as_u64() > Some(65_536), "{res}");
        let uri = res["spill_uri"].clone();
        let first = chunk(server, json!({"uri": uri, "limit_bytes": 1000}));
        let cursor = &first["next_cursor"];
        let second = chunk(server, json!({"uri": uri, "cursor": cursor, "limit_bytes": 1000}));
        let both =
            format!("{}{}", first["data"].as_str().unwrap(), second["data"].as_str().unwrap());
        assert!(res["stdout_chunk"].as_str().expect("text").starts_with(&both));
        assert_eq!(second["total_bytes"], res["total_bytes"]);
    });
}

#[test]
fn the_request_of_the_document_runs_as_it_is_written() {
    each(|server| {
        let request = json!({
            "cmd": "sh",
            "args": counted("echo $AWS_REGION; pwd"),
            "cwd": server.work(),
            "env": {"AWS_REGION": "eu-north-1"},
            "page": {"cursor": "bytes:0", "limit_bytes": 65536, "limit_lines": 2000},
            "on_large_output": "spill"
        });
        let res = exec(server, request.clone());
        let expected = format!("eu-north-1\n{}\n", server.work().display());
        assert_eq!(res["stdout_chunk"], expected.as_str());
        let spilled = whole_file(server, &res["spill_uri"], 65_536);
        assert_eq!(spilled, expected.as_bytes(), "asked for, so it is there");
        assert_eq!(exec(server, request)["stdout_chunk"], expected.as_str());
        assert_eq!(runs(server), 2, "the document's request runs the command, each time");
    });
}

#[test]
fn the_first_position_runs_the_command_every_time() {
    each(|server| {
        let args = counted("wc -l < runs");
        let pages = [
            json!({"cursor": "bytes:0"}),
            json!({"cursor": "bytes:0"}),
            json!({"cursor": "0"}),
            json!({"cursor": ""}),
            json!({"cursor": null}),
            json!({}),
        ];
        for (number, page) in pages.into_iter().enumerate() {
            let res = exec(server, json!({"cmd": "sh", "args": args, "page": page}));
            let printed = res["stdout_chunk"].as_str().expect("text").trim().parse();
            assert_eq!(printed, Ok(number + 1), "{page}");
        }
    });
}

#[test]
fn a_page_ends_at_the_limit_that_is_hit_first() {
    each(|server| {
        let run = |limits: Value| json!({"cmd": "seq 1 5000", "page": limits});
        let res = exec(server, run(json!({"limit_lines": 3})));
        assert_eq!((&res["stdout_chunk"], &res["line_count"]), (&json!("1\n2\n3\n"), &json!(3)));
        let res = exec(server, run(json!({"limit_bytes": 5})));
        assert_eq!((&res["stdout_chunk"], &res["bytes_end"]), (&json!("1\n2\n"), &json!(3)));
        let res = exec(server, run(json!({})));
        assert_eq!(res["line_count"], 2000, "the default");
        let res = exec(server, json!({"cmd": "head -c 70000 /dev/zero | tr '\\0' x"}));
        assert_eq!((&res["bytes_end"], &res["total_bytes"]), (&json!(65535), &json!(70000)));
        assert!(res["next_cursor"].as_str().is_some_and(|next| next.starts_with("bytes:65536")));
    });
}

#[test]
fn a_bare_cursor_reads_the_latest_run_of_the_same_command() {
    each(|server| {
        let run = |page: Value| json!({"cmd": "sh", "args": counted("wc -l < runs; seq 9"), "page": page});
        exec(server, run(json!({})));
        exec(server, run(json!({"cursor": "bytes:0"})));
        let res = exec(server, run(json!({"cursor": "bytes:2", "limit_lines": 1})));
        assert_eq!(res["stdout_chunk"], "1\n");
        assert_eq!(res["head_preview"].as_str().expect("text").lines().next(), Some("2"));
        let first = exec(server, run(json!({"cursor": "bytes:0@1"})));
        assert_eq!(first["head_preview"].as_str().expect("text").lines().next(), Some("1"));
        let end = exec(server, run(json!({"cursor": "bytes:20"})));
        assert_eq!((&end["stdout_chunk"], &end["truncated"]), (&json!(""), &json!(false)));
        assert_eq!(end.get("next_cursor"), None);
        let error = server.call("shell_exec", run(json!({"cursor": "bytes:21"}))).error_text();
        assert!(error.contains("past the end of the output, which has 20 bytes"), "{error}");
        assert_eq!(runs(server), 2);
    });
}

#[test]
fn a_bare_cursor_reads_only_runs_of_its_own_session() {
    let [_, http] = speaking("shell_exec");
    let mut server = http.start();
    let run = |page: Value| json!({"cmd": "sh", "args": counted("seq 9"), "page": page});
    exec(&mut server, run(json!({})));
    server.http().end_session();
    server.handshake();
    let error = server.call("shell_exec", run(json!({"cursor": "bytes:2"}))).error_text();
    assert!(error.contains("no run of this command in this session is kept"), "{error}");
    assert!(error.contains("without page.cursor"), "{error}");
    let named = exec(&mut server, run(json!({"cursor": "bytes:16@1"})));
    assert_eq!(named["stdout_chunk"], "9\n", "a returned cursor works in any session");
    assert_eq!(runs(&server), 1);
    exec(&mut server, run(json!({"cursor": "bytes:0"})));
    assert_eq!(runs(&server), 2, "another session's run is not this one's");
    exec(&mut server, run(json!({"cursor": "bytes:2"})));
    assert_eq!(runs(&server), 2);
}

#[test]
fn a_client_without_sessions_reads_on_by_its_name() {
    let [_, http] = speaking("shell_exec");
    let mut server = http.era(Era::Modern).start();
    let run = |page: Value| json!({"cmd": "sh", "args": counted("seq 9"), "page": page});
    exec(&mut server, run(json!({"cursor": "bytes:0"})));
    let rest = exec(&mut server, run(json!({"cursor": "bytes:14"})));
    assert_eq!((&rest["stdout_chunk"], runs(&server)), (&json!("8\n9\n"), 1));
}

#[test]
fn each_proxy_is_a_session_of_its_own() {
    let mut server = Launch::http().args(&["--dialect", "shell_exec"]).start();
    let url = format!("http://{}", server.http().address());
    let launch = || Launch::stdio().args(&["--connect", &url]);
    let run = |page: Value| json!({"cmd": "seq", "args": ["9"], "cwd": "/", "page": page});
    let (mut one, mut two) = (launch().start(), launch().start());
    exec(&mut one, run(json!({})));
    let error = two.call("shell_exec", run(json!({"cursor": "bytes:2"}))).error_text();
    assert!(error.contains("no run of this command in this session is kept"), "{error}");
    assert_eq!(exec(&mut one, run(json!({"cursor": "bytes:16"})))["stdout_chunk"], "9\n");
}

#[test]
fn bytes_that_are_no_text_come_back_as_base64() {
    each(|server| {
        let expected: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        std::fs::write(server.work().join("data"), &expected).expect("a file of ours");
        let mut res = exec(server, json!({"cmd": "cat", "args": ["data"]}));
        assert_eq!(res["mime"], "application/octet-stream");
        let uri = res["spill_uri"].clone();
        let mut all = bytes(&res, "stdout_chunk", "encoding");
        while let Some(cursor) = res.get("next_cursor") {
            res = exec(server, json!({"cmd": "cat", "args": ["data"], "page": {"cursor": cursor}}));
            all.extend(bytes(&res, "stdout_chunk", "encoding"));
        }
        assert!(all == expected, "every byte by pages");
        assert!(whole_file(server, &uri, 4096) == expected, "every byte of the file");
    });
}

#[test]
fn stderr_is_beside_stdout_and_never_lost() {
    each(|server| {
        let res = exec(server, json!({"cmd": "echo out; echo err >&2; exit 3"}));
        assert_eq!(
            (&res["stdout_chunk"], &res["stderr_chunk"]),
            (&json!("out\n"), &json!("err\n"))
        );
        assert_eq!((&res["stderr_count"], &res["exit_code"]), (&json!(1), &json!(3)));
        assert_eq!(res["total_bytes"], 4, "offsets count stdout alone");
        let flood = "for i in 1 2 3; do echo out$i; seq 1 9000 >&2; done";
        let mut res = exec(server, json!({"cmd": flood, "page": {"limit_lines": 1}}));
        assert_eq!((&res["stdout_chunk"], &res["stderr_chunk"]), (&json!("out1\n"), &json!("1\n")));
        assert_eq!(res["stderr_count"], 27_000);
        let all = whole_file(server, &res["stderr_spill_uri"], 65_536);
        assert_eq!(all.iter().filter(|byte| **byte == b'\n').count(), 27_000);
        let mut stdout = String::new();
        while let Some(cursor) = res.get("next_cursor") {
            stdout += res["stdout_chunk"].as_str().expect("text");
            res = exec(server, json!({"cmd": flood, "page": {"limit_lines": 1, "cursor": cursor}}));
            assert_eq!(res["stderr_chunk"], "", "it was on the first page");
        }
        assert_eq!(stdout + res["stdout_chunk"].as_str().expect("text"), "out1\nout2\nout3\n");
    });
}

#[test]
fn previews_show_both_ends_of_a_large_output() {
    each(|server| {
        let res = exec(server, json!({"cmd": "seq 1 30000"}));
        assert_eq!(res["head_preview"], "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
        let tail = res["tail_preview"].as_str().expect("text");
        assert!(tail.starts_with("29991\n") && tail.ends_with("30000\n"), "{tail}");
    });
}

#[test]
fn what_did_not_exit_by_itself_never_reads_as_a_success() {
    for launch in speaking("shell_exec") {
        let mut server = launch.config("[job]\ntimeout_s = 5\n").start();
        let killed = exec(&mut server, json!({"cmd": "echo before; kill -9 $$"}));
        assert_eq!(
            (&killed["exit_code"], &killed["stdout_chunk"]),
            (&Value::Null, &json!("before\n"))
        );
        assert_eq!(killed["error"], "killed by SIGKILL");
        let late = exec(&mut server, json!({"cmd": "echo before; sleep 600"}));
        assert_eq!((&late["exit_code"], &late["stdout_chunk"]), (&Value::Null, &json!("before\n")));
        assert_eq!(late["error"], "timed out after 5s");
    }
}

#[test]
fn a_run_that_never_started_has_nothing_to_read() {
    each(|server| {
        let later = |page: Value| json!({"cmd": "./later", "args": ["x"], "page": page});
        let shell = |server: &mut _, cmd: &str| drop(exec(server, json!({"cmd": cmd})));
        let error = server.call("shell_exec", later(json!({"cursor": "bytes:0"}))).error_text();
        assert!(error.contains("later"), "{error}");
        let error = server.call("shell_exec", later(json!({"cursor": "bytes:1"}))).error_text();
        assert!(error.contains("no run of this command"), "{error}");
        // By a job: what this process writes, a child of another test may keep open as it is born.
        shell(server, "printf '#!/bin/sh\\nseq 9\\n' > later; chmod 755 later");
        exec(server, later(json!({"cursor": "bytes:0"})));
        shell(server, "rm later");
        assert!(server.call("shell_exec", later(json!({}))).is_error());
        assert_eq!(exec(server, later(json!({"cursor": "bytes:16"})))["stdout_chunk"], "9\n");
    });
}

#[test]
fn an_empty_list_of_arguments_means_none() {
    each(|server| {
        let res = exec(server, json!({"cmd": "echo a; echo b", "args": []}));
        assert_eq!(res["stdout_chunk"], "a\nb\n");
    });
}

#[test]
fn a_chunk_has_the_documented_size_and_fields() {
    each(|server| {
        let res = exec(server, json!({"cmd": "head -c 70000 /dev/zero | tr '\\0' x"}));
        let uri = &res["spill_uri"];
        for first in [json!({"uri": uri}), json!({"uri": uri, "cursor": "bytes:0"})] {
            let expected = json!({
                "data": "x".repeat(65_536),
                "bytes_start": 0,
                "bytes_end": 65_535,
                "total_bytes": 70_000,
                "next_cursor": "bytes:65536",
                "mime": "text/plain",
            });
            assert!(chunk(server, first) == expected);
        }
        let last =
            chunk(server, json!({"uri": uri, "cursor": "bytes:65536", "limit_bytes": 65536}));
        assert_eq!((&last["bytes_start"], &last["bytes_end"]), (&json!(65_536), &json!(69_999)));
        assert_eq!(last.get("next_cursor"), None, "omitted at the end");
    });
}
