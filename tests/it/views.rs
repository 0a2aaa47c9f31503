//! Views of output: as bytes, as a screen, and in the character set in which it was written.

use serde_json::{Value, json};

use crate::harness::{Launch, TestServer, bytes_of};

fn read(server: &mut TestServer, job: u64, mut arguments: Value) -> Value {
    arguments["job"] = json!(job);
    server.call("read_output", arguments).ok().structured().clone()
}

/// Runs `printf` with these bytes, and gives the job's number.
fn write(server: &mut TestServer, bytes: &[u8]) -> u64 {
    let file = server.work().join("bytes");
    std::fs::write(&file, bytes).expect("a file");
    server.run("cat bytes").job()
}

#[test]
fn a_hexdump_has_the_offsets_of_the_log_and_pages_by_cursor() {
    let mut server = Launch::stdio().structured().start();
    let job = write(&mut server, b"0123456789abcdef\x00\xff tail");
    let page = read(&mut server, job, json!({"view": "hexdump"}));
    let expected = "\
00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|
00000010  00 ff 20 74 61 69 6c                              |.. tail|
00000017
";
    assert_eq!(page["output"], expected);
    assert_eq!((&page["encoding"], &page["bytes_end"]), (&json!("hexdump"), &json!(23)));
    let first = read(&mut server, job, json!({"view": "hexdump", "max_bytes": 6}));
    assert_eq!(first["next_cursor"], "bytes:6");
    let next =
        read(&mut server, job, json!({"view": "hexdump", "cursor": "bytes:6", "max_bytes": 4}));
    assert!(next["output"].as_str().is_some_and(|dump| dump.starts_with("00000006  36 37 38 39 ")));
    assert_eq!((&next["bytes_start"], &next["bytes_end"]), (&json!(6), &json!(10)));
}

#[test]
fn a_hexdump_of_one_stream_has_true_offsets_across_the_other() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run_in_steps("printf ab; read _; printf xyz >&2; read _; printf cd", &[2, 5]);
    let page = read(&mut server, job, json!({"view": "hexdump", "stream": "stdout"}));
    let offsets: Vec<&str> =
        page["stdout"].as_str().expect("a dump").lines().map(|line| &line[..8]).collect();
    assert_eq!(offsets, ["00000000", "00000005", "00000007"], "{page}");
}

#[test]
fn base64_is_raw_and_text_is_next() {
    let mut server = Launch::stdio().structured().start();
    let job = write(&mut server, b"a\xff\0b\nline two\n");
    let raw = read(&mut server, job, json!({"view": "raw"}));
    assert_eq!(raw, read(&mut server, job, json!({"view": "base64"})));
    assert_eq!(bytes_of(&raw), b"a\xff\0b\nline two\n");
    let text = read(&mut server, job, json!({"view": "text", "line": 2}));
    assert_eq!(text, read(&mut server, job, json!({"view": "next", "line": 2})));
    assert_eq!(text["output"], "line two\n");
}

#[test]
fn a_view_that_does_not_fit_is_refused_with_what_would_work() {
    let mut server = Launch::stdio().start();
    let job = server.run("echo hi").job();
    for (arguments, words) in [
        (json!({"job": job, "view": "hexdump", "grep": "x"}), "leave `view` out"),
        (json!({"job": job, "view": "base64", "query": "a"}), "leave `view` out"),
        (
            json!({"job": job, "view": "octal"}),
            "next, head, tail, text, hexdump, base64, raw, screen, digest",
        ),
        (json!({"job": job, "view": "tail", "line": 3}), "leave `view` out"),
    ] {
        let error = server.call("read_output", arguments).error_text();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn progress_that_goes_up_is_shown_as_on_a_screen() {
    let mut server = Launch::stdio().structured().start();
    let command = r"printf 'start\n'; for i in 1 50 100; do
        [ $i = 1 ] || printf '\033[2A'
        printf 'layer a: %s%%\033[K\nlayer b: %s%%\033[K\n' $i $i
    done; printf 'error: kept\n'";
    let reply = server.run(command);
    let expected = "start\nlayer a: 100%\nlayer b: 100%\nerror: kept\n";
    assert_eq!(reply["output"], expected);
    assert_eq!(reply["bytes_end"], reply["total_bytes"]);
    let page = read(&mut server, reply.job(), json!({}));
    assert_eq!(page["output"], expected);
    let found = server.call("read_output", json!({"job": reply.job(), "grep": "50%"})).ok();
    assert_eq!(found["matches"], 2, "what was written over is still there");
}

#[test]
fn a_real_terminal_program_is_shown_by_its_last_screen() {
    let mut server = Launch::stdio().structured().start();
    let script = "import sys\nfor i in range(40):\n  sys.stdout.write(f'a {i}\\nb {i}\\n')\n  \
                  sys.stdout.write('' if i == 39 else '\\x1b[2F\\x1b[J')\n";
    std::fs::write(server.work().join("bar.py"), script).expect("a script");
    let arguments = json!({"command": "python3 bar.py", "tty": true});
    assert_eq!(server.call("run_command", arguments).ok()["output"], "a 39\nb 39\n");
}

#[test]
fn output_in_other_character_sets_is_decoded_and_named() {
    let text = "エラー: ファイルが見つかりません。設定を確認してください。\n".repeat(40);
    for (encoding, charset) in
        [(encoding_rs::SHIFT_JIS, "shift_jis"), (encoding_rs::EUC_JP, "euc-jp")]
    {
        let mut server = Launch::stdio().structured().start();
        let (bytes, _, _) = encoding.encode(&text);
        let job = write(&mut server, &bytes);
        let whole = read(&mut server, job, json!({"max_lines": 2}));
        assert_eq!(whole["charset"], charset);
        assert_eq!(
            whole["output"],
            text.lines().next().unwrap().to_owned() + "\n" + text.lines().next().unwrap() + "\n"
        );
        assert_eq!(whole.get("bad_bytes"), None);
        let mut pages = String::new();
        let mut cursor = json!("bytes:0");
        while cursor.is_string() {
            let page = read(&mut server, job, json!({"cursor": cursor, "max_bytes": 7}));
            assert_eq!(page.get("bad_bytes"), None, "no character is split: {page}");
            pages += page["output"].as_str().expect("text");
            cursor = page["next_cursor"].clone();
        }
        assert_eq!(pages, text);
    }
}

#[test]
fn wide_text_is_decoded_and_a_picture_is_not() {
    let mut server = Launch::stdio().start();
    let wide: Vec<u8> =
        "\u{feff}größer 日本\r\nline two\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let job = write(&mut server, &wide);
    let text = server.call("read_output", json!({"job": job})).ok().text();
    assert!(text.contains("decoded from utf-16le\ngrößer 日本\nline two"), "{text}");
    let text = server.call("read_output", json!({"job": job, "line": 2})).ok().text();
    assert!(text.ends_with("\nline two"), "{text}");
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    let job = write(&mut server, &png.repeat(9));
    let text = server.call("read_output", json!({"job": job})).ok().text();
    assert!(text.contains("[binary output: image/png"), "{text}");
}
