//! `execute`, as its document says.

use serde_json::{Value, json};

use super::{check_listed, names, speaking};
use crate::harness::{
    Era, HttpConnection, HttpRequest, Launch, Reply, Sandbox, TestServer, output_of,
};

const FIELDS: [&str; 7] = [
    "stdout",
    "stderr",
    "exit_code",
    "timed_out",
    "stdout_truncated",
    "stderr_truncated",
    "elapsed_ms",
];

fn each(check: impl Fn(&mut TestServer)) {
    for launch in speaking("execute") {
        check(&mut launch.start());
    }
}

/// The fields, after checking that text and structured content are the same.
#[track_caller]
fn fields(reply: Reply) -> Value {
    let reply = reply.ok();
    let from_text: Value = serde_json::from_str(&reply.text()).expect("the text is JSON");
    assert_eq!(&from_text, reply.structured());
    let mut names: Vec<_> = from_text.as_object().expect("an object").keys().collect();
    names.sort_unstable();
    let mut expected = FIELDS;
    expected.sort_unstable();
    assert_eq!(names, expected);
    from_text
}

#[test]
fn it_is_listed_as_documented() {
    check_listed("execute");
    each(|server| assert_eq!(names(server), ["execute"], "a single tool"));
}

#[test]
fn the_usage_patterns_of_the_document_work() {
    each(|server| {
        let direct = fields(server.call("execute", json!({"command": "echo", "args": ["hello"]})));
        let elapsed = direct["elapsed_ms"].as_u64().expect("a number");
        let expected = json!({
            "stdout": "hello\n",
            "stderr": "",
            "exit_code": 0,
            "timed_out": false,
            "stdout_truncated": false,
            "stderr_truncated": false,
            "elapsed_ms": elapsed
        });
        assert_eq!(direct, expected);
        // A host without perl says so, as its shell does.
        let text = fields(server.call("execute", json!({"command": "perl -e \"print 1;\""})));
        let run = (&text["stdout"], &text["exit_code"]);
        assert!(run == (&json!("1"), &json!(0)) || run == (&json!(""), &json!(127)), "{text}");
    });
}

#[test]
fn both_streams_are_captured() {
    each(|server| {
        let run = json!({"command": "echo out; echo err >&2; exit 7"});
        let fields = fields(server.call("execute", run));
        let streams = (&fields["stdout"], &fields["stderr"], &fields["exit_code"]);
        assert_eq!(streams, (&json!("out\n"), &json!("err\n"), &json!(7)));
    });
}

/// The value of a setting as `config show` prints it, with these variables.
#[track_caller]
fn setting(key: &str, variables: &[(&str, &str)]) -> Value {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.args(["config", "show", "--json"]).envs(variables.iter().copied());
    let output = output_of(command, "");
    assert!(output.status.success(), "{output:?}");
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    shown["settings"][key]["value"].clone()
}

#[test]
fn the_variables_of_the_document_have_its_defaults() {
    for (variable, key, default, given) in [
        ("MCP_EXEC_MAX_OUTPUT_BYTES", "execute.max_output_bytes", json!(40_000), "50000"),
        ("MCP_EXEC_LOG_OUTPUT_BYTES", "execute.log_output_bytes", json!(2048), "1024"),
        ("MCP_EXEC_LOG_FULL_OUTPUT", "execute.log_full_output", json!(false), "1"),
        ("MCP_HTTP_PATH", "http.path", json!("/mcp"), "/exec"),
        // Closed by default, unlike the document's.
        ("MCP_HTTP_BIND", "http.bind", json!("127.0.0.1:8000"), "0.0.0.0:8000"),
    ] {
        assert_eq!(setting(key, &[]), default, "{key}");
        let set = setting(key, &[(variable, given)]);
        assert_ne!(set, default, "{variable} sets {key}");
    }
}

#[test]
fn the_path_of_the_document_moves_the_endpoint() {
    let launch = Launch::http().args(&["--dialect", "execute"]).env("MCP_HTTP_PATH", "/exec");
    let mut server = launch.start_silent();
    let list = Era::Modern.request(1, "tools/list", json!({}));
    for (path, expected) in [("/exec", 200), ("/mcp", 404)] {
        let mut request = HttpRequest::post(path, &list);
        for (name, value) in Era::Modern.headers(&list) {
            request = request.header(&name, &value);
        }
        let mut connection = HttpConnection::open(server.http().address());
        connection.send(&request);
        assert_eq!(connection.answer().status, expected, "{path}");
    }
}

#[test]
fn two_kilobytes_of_each_stream_are_logged_by_default() {
    for launch in speaking("execute") {
        let mut server = launch.start();
        let flood = "head -c 5000 /dev/zero | tr '\\0' q; head -c 5000 /dev/zero | tr '\\0' z >&2";
        server.call("execute", json!({"command": flood})).ok();
        let (out, err) = ("q".repeat(2048), "z".repeat(2048));
        server.expect_log(&format!("stdout=\"{out}\" stderr=\"{err}\""));
    }
}

#[test]
fn arguments_go_to_the_program_without_a_shell() {
    each(|server| {
        let run = json!({"command": "echo", "args": ["hello", "$HOME;ls"]});
        let fields = fields(server.call("execute", run));
        assert_eq!(
            (&fields["stdout"], &fields["exit_code"]),
            (&json!("hello $HOME;ls\n"), &json!(0))
        );
        assert_eq!(fields["timed_out"], false);
        assert!(fields["elapsed_ms"].is_u64(), "{fields}");
    });
}

#[test]
fn a_command_alone_goes_to_sh() {
    each(|server| {
        let run = json!({"command": "perl -e \"print 1;\" || printf 1"});
        assert_eq!(fields(server.call("execute", run))["stdout"], "1");
        let shell = fields(
            server.call("execute", json!({"command": "echo $0 ${BASH_VERSION:-none}; exit 3"})),
        );
        assert_eq!((&shell["stdout"], &shell["exit_code"]), (&json!("sh none\n"), &json!(3)));
    });
}

#[test]
fn input_is_passed_on() {
    each(|server| {
        let fields =
            fields(server.call("execute", json!({"command": "cat", "args": [], "stdin": "a\nb"})));
        assert_eq!(fields["stdout"], "a\nb");
    });
}

#[test]
fn a_timeout_kills_the_process_and_keeps_what_it_wrote() {
    each(|server| {
        let run = json!({"command": "echo before; sleep 600", "timeout_ms": 5000});
        let fields = fields(server.call("execute", run));
        assert_eq!((&fields["timed_out"], &fields["exit_code"]), (&json!(true), &Value::Null));
        assert_eq!(fields["stdout"], "before\n");
    });
}

#[test]
fn output_is_cut_to_the_limit_of_both_streams_together() {
    each(|server| {
        let flood = "head -c 100000 /dev/zero | tr '\\0' o; echo trouble >&2";
        let fields = fields(server.call("execute", json!({"command": flood})));
        assert_eq!(fields["stderr"], "trouble\n");
        assert_eq!(fields["stdout"].as_str().map(str::len), Some(40_000 - "trouble\n".len()));
        assert_eq!(
            (&fields["stdout_truncated"], &fields["stderr_truncated"]),
            (&json!(true), &json!(false))
        );
    });
}

#[test]
fn the_limit_and_the_log_follow_the_environment() {
    let flood = json!({"command": "seq -s '' 0 9 | tr 0-9 k-t; echo abcdefghij >&2"});
    for launch in speaking("execute") {
        let launch = launch.env("MCP_EXEC_MAX_OUTPUT_BYTES", "10");
        let mut server = launch.env("MCP_EXEC_LOG_OUTPUT_BYTES", "3").start();
        let fields = fields(server.call("execute", flood.clone()));
        assert_eq!((&fields["stdout"], &fields["stderr"]), (&json!("klmno"), &json!("abcde")));
        server.expect_log(r#"stdout="klm""#);
        assert!(!server.log_text().contains("klmn"), "{}", server.log_text());
    }
    let mut server = Launch::stdio()
        .args(&["--dialect", "execute"])
        .env("MCP_EXEC_LOG_FULL_OUTPUT", "1")
        .start();
    server.call("execute", flood).ok();
    server.expect_log("klmnopqrst");
}

#[test]
fn the_error_texts_are_those_of_the_document() {
    each(|server| {
        for empty in ["", " \t\n"] {
            let refused = server.call("execute", json!({"command": empty}));
            assert_eq!(refused.error_text(), "Error: command: empty");
        }
        let missing = server.call("execute", json!({"command": "/no/such/program", "args": []}));
        assert_eq!(missing.error_text(), "Error: execute: spawn failed");
    });
}

#[test]
fn bad_arguments_run_nothing() {
    each(|server| {
        let marker = server.work().join("ran");
        let touch = format!("touch {}", marker.display());
        for (bad, said) in [
            (json!({}), "`command`"),
            (json!({"command": 7}), "`command`"),
            (json!({"command": touch, "args": [1]}), "`args`"),
            (json!({"command": "touch", "args": marker}), "`args`"),
            (json!({"command": touch, "timeout_ms": "500"}), "`timeout_ms`"),
            (json!({"command": touch, "timeout_ms": 0}), "`timeout_ms`"),
            (json!({"command": touch, "timeout_ms": "soon"}), "`timeout_ms`"),
            (json!({"command": touch, "stdin": {}}), "`stdin`"),
            (json!({"command": touch, "cwd": "/"}), "`cwd`"),
        ] {
            let error = server.call("execute", bad.clone()).error_text();
            assert!(error.starts_with("Error: ") && error.contains(said), "{bad}: {error}");
        }
        assert!(!marker.exists());
    });
}

#[test]
fn the_limit_holds_for_text_that_was_no_text() {
    each(|server| {
        let fields = fields(
            server
                .call("execute", json!({"command": "head -c 30000 /dev/zero | tr '\\0' '\\377'"})),
        );
        let length = fields["stdout"].as_str().map_or(0, str::len);
        assert!(length <= 40_000 && length > 39_990, "{length}");
        assert_eq!(fields["stdout_truncated"], true);
    });
}
