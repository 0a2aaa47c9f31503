//! stdout and stderr of a job: in one pipe and in order, or apart.

use std::fs::{self, File};

use serde_json::{Value, json};

use crate::harness::{HttpConnection, HttpRequest, Launch, Sandbox, TestServer, output_of};

const BOTH: &str = "echo a; echo b >&2";

/// The way to get separate streams, which every refusal names.
const ADVICE: &str = "run_command(…, streams=\"separate\")";

/// Checks that a single stream is refused, and that the refusal says how to get it.
#[track_caller]
fn assert_refused(server: &mut TestServer, arguments: Value) {
    let refused = server.call("read_output", arguments);
    assert!(refused.error_text().contains(ADVICE), "{}", refused.0);
    assert_eq!(refused["error_code"], "merged_streams");
}

#[test]
fn three_hundred_commands_at_once_never_swap_their_streams() {
    let mut server = Launch::stdio().structured().start();
    let calls: Vec<u64> =
        (0..300).map(|_| server.begin("run_command", json!({"command": BOTH}))).collect();
    for call in calls {
        assert_eq!(server.finish(call).ok()["output"], "a\nb\n");
    }
}

#[test]
fn programs_without_a_shell_and_background_jobs_keep_the_order_too() {
    let mut server = Launch::http().structured().start();
    let script = "for i in 1 2 3 4; do echo out $i; echo err $i >&2; done";
    let expected: String = (1..=4).map(|i| format!("out {i}\nerr {i}\n")).collect();
    let direct = json!({"command": "sh", "args": ["-c", script]});
    assert_eq!(server.call("run_command", direct).ok()["output"], expected);
    let job = server.start(script);
    server.wait_finished(job);
    assert_eq!(server.call("read_output", json!({"job": job})).ok()["output"], expected);
}

#[test]
fn one_stream_of_a_merged_job_is_refused_with_the_way_to_get_it() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run(BOTH).job();
    for stream in ["stdout", "stderr"] {
        assert_refused(&mut server, json!({"job": job, "stream": stream}));
        assert_refused(&mut server, json!({"job": job, "stream": stream, "view": "raw"}));
        assert_refused(&mut server, json!({"job": job, "stream": stream, "view": "digest"}));
        assert_refused(&mut server, json!({"job": job, "stream": stream, "grep": "a"}));
        assert_refused(&mut server, json!({"job": job, "stream": stream, "query": "a"}));
        assert_refused(
            &mut server,
            json!({"uri": format!("shellyard://jobs/{job}/output/{stream}")}),
        );
    }
    let arguments = json!({"command": BOTH, "tty": true});
    let job = server.call("run_command", arguments).ok().job();
    assert_refused(&mut server, json!({"job": job, "stream": "stderr"}));
    let refused = server.call("read_output", json!({"job": job, "stream": "stderr"}));
    assert!(refused.error_text().contains("terminal"), "{}", refused.0);
}

#[test]
fn resources_and_the_api_refuse_one_stream_of_a_merged_job() {
    let mut server = Launch::http().structured().start();
    server.run(BOTH);
    for method in ["resources/read", "resources/subscribe"] {
        let uri = "shellyard://jobs/1/output/stderr";
        let answer = server.rpc(method, json!({"uri": uri}));
        let error = &answer["error"];
        assert!(error["message"].as_str().is_some_and(|text| text.contains(ADVICE)), "{answer}");
        assert_eq!(error["data"], json!({"uri": uri, "error_code": "merged_streams"}));
    }
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/api/v1/jobs/1/output?stream=stderr"));
    let answer = connection.answer();
    let status = answer.status;
    let error: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!((status, &error["error"]["code"]), (404, &json!("merged_streams")), "{error}");
    let message = error["error"]["message"].as_str().expect("a text");
    assert!(message.contains(r#"`"streams": "separate"`"#), "{message}");
}

#[test]
fn a_search_of_one_stream_names_the_jobs_that_it_left_out() {
    let mut server = Launch::stdio().structured().start();
    server.run(BOTH);
    let separate = server.run_separate(BOTH).job();
    let found = server.call("read_output", json!({"grep": "b", "stream": "stderr"})).ok();
    assert_eq!((&found["matches"], &found["jobs"][0]["job"]), (&json!(1), &json!(separate)));
    assert_eq!((&found["searched_jobs"], &found["unsearched_jobs"]), (&json!(1), &json!(1)));
    let mut server = Launch::stdio().start();
    server.run(BOTH);
    let verdict =
        server.call("read_output", json!({"grep": "b", "stream": "stderr"})).ok().verdict();
    assert!(verdict.contains("1 job not searched") && verdict.contains(ADVICE), "{verdict}");
    let verdict = server.call("read_output", json!({"grep": "b"})).ok().verdict();
    assert_eq!(verdict, "1 line matches, in 1 of 1 job");
}

#[test]
fn the_argument_wins_over_the_setting() {
    let separate = "[job]\nstreams = \"separate\"\n";
    for (config, argument, is_separate) in [
        ("", None, false),
        ("", Some("separate"), true),
        (separate, None, true),
        (separate, Some("merged"), false),
    ] {
        let mut server = Launch::stdio().structured().config(config).start();
        let mut arguments = json!({"command": BOTH});
        if let Some(streams) = argument {
            arguments["streams"] = json!(streams);
        }
        let job = server.call("run_command", arguments).ok().job();
        let errors = server.call("read_output", json!({"job": job, "stream": "stderr"}));
        assert_eq!(!errors.is_error(), is_separate, "{config}{argument:?}: {}", errors.0);
        if is_separate {
            assert_eq!(errors["stderr"], "b\n");
        }
    }
}

#[test]
fn a_terminal_has_no_separate_streams() {
    let mut server = Launch::stdio().structured().start();
    let arguments = json!({"command": BOTH, "tty": true, "streams": "separate"});
    let refused = server.call("run_command", arguments);
    assert!(refused.error_text().contains("`tty` or `streams`"), "{}", refused.0);
    let both = json!({"command": BOTH, "tty": true, "streams": "merged"});
    assert_eq!(server.call("run_command", both).ok()["output"], "a\nb\n");
}

#[test]
fn the_limits_count_both_streams_together() {
    let config = "[job]\nmax_output = 1000\nmax_lines = 20\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let bytes = server.run("printf '%0800d' 1; printf '%0800d' 2 >&2; sleep 300");
    assert_eq!((&bytes["outcome"], &bytes["total_bytes"]), (&json!("limit"), &json!(1000)));
    let lines = server.run("seq 1 15; seq 1 15 >&2; sleep 300");
    assert_eq!((&lines["outcome"], &lines["limit"]), (&json!("limit"), &json!("output_lines")));
}

#[test]
fn run_keeps_the_order_where_both_streams_go_to_one_file() {
    let sandbox = Sandbox::new();
    let path = sandbox.work().join("log");
    let file = File::create(&path).expect("a file of ours");
    let script = "for i in $(seq 1 200); do echo out $i; echo err $i >&2; done";
    let mut command = sandbox.command();
    command.args(["run", "--", "sh", "-c", script]);
    command.stdout(file.try_clone().expect("a second one")).stderr(file);
    assert!(command.status().expect("the binary starts").success());
    let expected: String = (1..=200).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(fs::read_to_string(path).expect("a file of ours"), expected);
    let mut command = sandbox.command();
    command.args(["run", "--", "sh", "-c", BOTH]);
    let apart = output_of(command, "");
    assert_eq!((&apart.stdout[..], &apart.stderr[..]), (&b"a\n"[..], &b"b\n"[..]));
}
