//! Each job's output as an MCP resource.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Era, Launch, TestServer};

const BOTH_ERAS: [Era; 2] = [Era::Legacy("2025-11-25"), Era::Modern];

fn read(server: &mut TestServer, uri: &str) -> Value {
    server.rpc("resources/read", json!({"uri": uri}))
}

#[test]
fn jobs_are_listed_as_resources_and_can_be_read() {
    for era in BOTH_ERAS {
        for launch in Launch::both() {
            let mut server = launch.era(era).start();
            server.run("echo one");
            server.run("echo two");
            let listed = server.rpc("resources/list", json!({}))["result"]["resources"].clone();
            assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
            assert_eq!(listed[0]["uri"], "shellyard://jobs/2/output", "the newest first");
            let answer = read(&mut server, "shellyard://jobs/1/output");
            assert_eq!(answer["result"]["contents"][0]["text"], "one\n", "{answer}");
        }
    }
}

#[test]
fn the_template_tells_how_to_address_any_job() {
    let mut server = Launch::stdio().start();
    let answer = server.rpc("resources/templates/list", json!({}));
    let templates = answer["result"]["resourceTemplates"].as_array().expect("a list");
    let uris: Vec<&str> = templates.iter().filter_map(|it| it["uriTemplate"].as_str()).collect();
    let expected = [
        "shellyard://jobs/{job}/output",
        "shellyard://jobs/{job}/output/{stream}",
        "shellyard://jobs/{job}/output{?start,end}",
        "shellyard://jobs/{job}/output/{stream}{?start,end}",
        "shellyard://jobs/{job}/digest",
    ];
    assert_eq!(uris, expected);
}

#[test]
fn the_address_in_a_reply_can_be_read() {
    let mut server = Launch::stdio().structured().start();
    let uri = server.run("echo hello")["uri"].as_str().expect("an address").to_owned();
    let answer = read(&mut server, &uri);
    assert_eq!(answer["result"]["contents"][0]["text"], "hello\n", "{answer}");
    let page = server.call("read_output", json!({"uri": uri})).ok();
    assert_eq!(page["output"], "hello\n");
}

#[test]
fn a_huge_output_is_no_huge_resource() {
    let mut server = Launch::stdio().start();
    server.run("seq 1 2000000");
    let answer = read(&mut server, "shellyard://jobs/1/output");
    assert!(answer.get("result").is_some(), "{answer}");
    assert!(answer.to_string().len() < 3 << 20, "{} bytes", answer.to_string().len());
}

#[test]
fn a_stream_and_a_range_have_addresses_of_their_own() {
    let mut server = Launch::stdio().structured().start();
    let command = "echo out1; read _; echo err1 >&2; read _; echo out2; read _; echo err2 >&2";
    server.run_in_steps(command, &[5, 10, 15]);
    for (address, text) in [
        ("", "out1\nerr1\nout2\nerr2\n"),
        ("/stderr", "err1\nerr2\n"),
        ("/stdout", "out1\nout2\n"),
        ("?start=5&end=9", "err1"),
        ("?start=15", "err2\n"),
        ("/stderr?start=5", "err2\n"),
        ("/stderr?end=3", "err"),
        ("?start=20", ""),
    ] {
        let uri = format!("shellyard://jobs/1/output{address}");
        let answer = read(&mut server, &uri);
        assert_eq!(answer["result"]["contents"][0]["text"], text, "{answer}");
        assert!(answer["result"]["contents"][0]["_meta"].get("next").is_none(), "{answer}");
    }
    let page = server.call("read_output", json!({"uri": "shellyard://jobs/1/output/stderr"})).ok();
    assert_eq!(page["stderr"], "err1\nerr2\n");
}

#[test]
fn a_range_that_cannot_be_is_refused_with_one_that_can() {
    for era in BOTH_ERAS {
        let mut server = Launch::stdio().era(era).start();
        server.run("echo hello");
        for (query, hint) in [
            ("start=7", "from 0 to 6"),
            ("start=5&end=2", "?start=100&end=200"),
            ("start=-1", "?start=100&end=200"),
            ("start=1&start=2", "?start=100&end=200"),
            ("lines=3", "?start=100&end=200"),
        ] {
            let answer = read(&mut server, &format!("shellyard://jobs/1/output?{query}"));
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            assert!(answer["error"]["message"].as_str().expect("words").contains(hint), "{answer}");
        }
        for (arguments, hint) in [
            (json!({"uri": "shellyard://jobs/1/output?start=2"}), "cursor"),
            (json!({"uri": "shellyard://jobs/1/output/stdout", "stream": "stderr"}), "different"),
        ] {
            let refused = server.call("read_output", arguments);
            assert!(refused.error_text().contains(hint), "{}", refused.0);
        }
    }
}

/// Everything at an address, by following where each answer says that it goes on.
#[track_caller]
fn follow(server: &mut TestServer, first: &str) -> (Vec<u8>, usize) {
    let (mut bytes, mut uri, mut answers) = (Vec::new(), first.to_owned(), 0);
    loop {
        let answer = read(server, &uri);
        let contents = &answer["result"]["contents"][0];
        match contents["text"].as_str() {
            Some(text) => bytes.extend_from_slice(text.as_bytes()),
            None => {
                let blob = contents["blob"].as_str().expect("text or a blob");
                bytes.extend(STANDARD.decode(blob).expect("base64"));
            }
        }
        answers += 1;
        match contents["_meta"]["next"].as_str() {
            Some(next) => next.clone_into(&mut uri),
            None => return (bytes, answers),
        }
    }
}

#[test]
fn following_next_gives_every_byte_of_a_long_output() {
    let mut server =
        Launch::stdio().config("[mcp]\nmax_page_bytes = 5000\npage_bytes = 5000\n").start();
    server.run_separate("seq 1 5000");
    let text: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    let (bytes, answers) = follow(&mut server, "shellyard://jobs/1/output/stdout");
    assert!(bytes == text.as_bytes() && answers > 4, "{} bytes, {answers} answers", bytes.len());
    let (bytes, _) = follow(&mut server, "shellyard://jobs/1/output?start=1&end=20000");
    assert!(bytes == text.as_bytes()[1..20_000], "{} bytes", bytes.len());
    server.run("printf '\\211PNG\\r\\n\\032\\n'; head -c 20000 /dev/zero");
    let (bytes, answers) = follow(&mut server, "shellyard://jobs/2/output");
    assert!(bytes.len() == 20_008 && answers > 4, "{} bytes, {answers} answers", bytes.len());
}

#[test]
fn a_list_has_size_and_kind_and_goes_on_by_cursor() {
    let mut server = Launch::stdio().start();
    server.run("echo hello");
    server.run("printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR'");
    for _ in 0..103 {
        server.run("true");
    }
    let first = server.rpc("resources/list", json!({}))["result"].clone();
    assert_eq!(first["resources"].as_array().map(Vec::len), Some(100));
    server.run("true");
    let cursor = first["nextCursor"].as_str().expect("more");
    let second = server.rpc("resources/list", json!({"cursor": cursor}))["result"].clone();
    let resources = second["resources"].as_array().expect("a list");
    assert_eq!(resources.len(), 5, "{second}");
    assert!(second.get("nextCursor").is_none(), "{second}");
    assert_eq!(resources[0]["uri"], "shellyard://jobs/5/output");
    assert_eq!(
        (&resources[3]["mimeType"], &resources[3]["size"]),
        (&json!("image/png"), &json!(16))
    );
    assert_eq!(
        (&resources[4]["mimeType"], &resources[4]["size"]),
        (&json!("text/plain"), &json!(6))
    );
    let unknown = server.rpc("resources/list", json!({"cursor": "x"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn an_address_of_nothing_is_an_error_that_names_it() {
    for era in BOTH_ERAS {
        let mut server = Launch::stdio().era(era).start();
        for uri in ["shellyard://jobs/99/output", "shellyard://nonsense", "file:///etc/passwd", ""]
        {
            let answer = read(&mut server, uri);
            let message = answer["error"]["message"].as_str().expect("an error");
            assert!(message.contains(uri), "{answer}");
        }
        server.assert_alive();
    }
}
