//! The server's description of itself and its lists, and completions for the arguments of its
//! templates.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use shellyard::mcp::{Eras, list_methods};

use crate::harness::{Era, Launch, TASKS, TestServer, declaring, eventually_some};

const ERAS: [Era; 2] = [Era::Legacy("2025-11-25"), Era::Modern];
const STAMP: &str = "io.modelcontextprotocol/serverInfo";
const TEMPLATE: &str = "shellyard://jobs/{job}/output/{stream}";

fn completion(argument: &str, value: &str) -> Value {
    json!({
        "ref": {"type": "ref/resource", "uri": TEMPLATE},
        "argument": {"name": argument, "value": value},
    })
}

#[track_caller]
fn completed(server: &mut TestServer, argument: &str, value: &str) -> Value {
    let answer = server.rpc("completion/complete", completion(argument, value));
    answer["result"]["completion"].clone()
}

#[test]
fn job_numbers_and_streams_are_completed_in_both_eras() {
    for era in ERAS {
        for launch in Launch::both() {
            let mut server = launch.era(era).start();
            for _ in 0..11 {
                server.run("true");
            }
            let jobs = completed(&mut server, "job", "1");
            assert_eq!(jobs, json!({"values": ["11", "10", "1"], "total": 3, "hasMore": false}));
            assert_eq!(completed(&mut server, "stream", "stde")["values"], json!(["stderr"]));
            assert_eq!(completed(&mut server, "start", "")["values"], json!([]));
            let foreign = server.rpc("completion/complete", completion("path", ""));
            assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
        }
    }
}

#[test]
fn completions_are_declared() {
    let answer = Launch::stdio().start_silent().handshake();
    assert!(answer["result"]["capabilities"]["completions"].is_object(), "{answer}");
    let answer = Launch::http().era(Era::Modern).start().rpc("server/discover", json!({}));
    assert!(answer["result"]["capabilities"]["completions"].is_object(), "{answer}");
}

#[test]
fn the_server_has_a_picture_and_its_results_have_none() {
    let answer = Launch::stdio().start_silent().handshake();
    let picture = &answer["result"]["serverInfo"]["icons"][0];
    let source = picture["src"].as_str().expect("a picture");
    assert!(source.starts_with("data:image/png;base64,"), "{picture}");
    let mut server = Launch::stdio().era(Era::Modern).start();
    let found = server.rpc("server/discover", json!({}));
    assert_eq!(found["result"]["_meta"][STAMP]["icons"][0]["src"], source, "{found}");
    let listed = server.rpc("tools/list", json!({}));
    assert!(!listed.to_string().contains("data:"), "{listed}");
}

/// Methods of the modern era, and those that answer only with an error, a stream, or an
/// acknowledgement that the SDK makes.
const UNNAMED: [&str; 4] = ["prompts/get", "subscriptions/listen", "tasks/cancel", "tasks/update"];

#[test]
fn every_modern_result_names_the_server() {
    for launch in Launch::both() {
        let mut server = launch.era(Era::Modern).start();
        server.run("echo hi");
        let command = "until [ -e go ]; do sleep 0.05; done; echo hi";
        let arguments = json!({"command": command, "wait_s": 0.1});
        let run = json!({"name": "run_command", "arguments": arguments});
        let knows = json!({"extensions": {TASKS: {}}});
        let created = server.rpc("tools/call", declaring(knows.clone(), run));
        let task = json!({"taskId": created["result"]["taskId"]});
        assert_eq!(created["result"]["_meta"][STAMP]["name"], "shellyard", "{created}");
        let results = [
            ("server/discover", json!({})),
            ("tools/list", json!({})),
            ("tools/call", json!({"name": "list_jobs", "arguments": {}})),
            ("prompts/list", json!({})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "shellyard://jobs/1/output"})),
            ("completion/complete", completion("job", "")),
            ("tasks/get", declaring(knows.clone(), task.clone())),
        ];
        let named = results.iter().map(|(method, _)| *method);
        let named: BTreeSet<&str> = named.chain(UNNAMED).collect();
        let modern = list_methods().filter(|(_, eras)| *eras != Eras::Legacy);
        assert_eq!(named, modern.map(|(method, _)| method).collect(), "all are looked at");
        for (method, params) in results {
            let answer = server.rpc(method, params);
            assert_eq!(answer["result"]["_meta"][STAMP]["name"], "shellyard", "{method}: {answer}");
        }
        fs::write(server.work().join("go"), "").expect("a file of ours");
        let over = eventually_some("the task is over", || {
            let looked = server.rpc("tasks/get", declaring(knows.clone(), task.clone()));
            (looked["result"]["status"] == "completed").then(|| looked["result"].clone())
        });
        let direct = server.run("echo hi");
        assert_eq!(over["result"]["_meta"], direct.0["result"]["_meta"], "{over}");
    }
}

#[test]
fn there_is_no_prompt_and_asking_for_one_says_so() {
    for era in ERAS {
        for launch in Launch::both() {
            let mut server = launch.era(era).start();
            let listed = server.rpc("prompts/list", json!({}));
            assert_eq!(listed["result"]["prompts"], json!([]), "{listed}");
            let answer = server.rpc("prompts/get", json!({"name": "greet"}));
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            let message = answer["error"]["message"].as_str().expect("words");
            assert!(message.starts_with("no such prompt"), "{answer}");
        }
    }
}

#[test]
fn a_method_that_is_not_there_is_named_with_where_to_look() {
    for era in ERAS {
        let answer = Launch::stdio().era(era).start().rpc("tools/explode", json!({}));
        let message = answer["error"]["message"].as_str().expect("words");
        assert!(message.starts_with("Method not found: tools/explode; "), "{answer}");
        assert!(message.contains("server/discover"), "{answer}");
    }
}

#[test]
fn what_cannot_change_may_be_kept_and_what_can_may_not() {
    let mut server = Launch::http().era(Era::Modern).start();
    let mut hint = |method: &str| {
        let answer = server.rpc(method, json!({}));
        let result = &answer["result"];
        (result["ttlMs"].as_u64().expect("a time"), result["cacheScope"].clone())
    };
    assert_eq!(hint("server/discover"), (3_600_000, json!("public")));
    assert_eq!(hint("resources/templates/list"), (3_600_000, json!("public")));
    assert_eq!(hint("tools/list"), (3_600_000, json!("private")), "it is as the caller's role");
    assert_eq!(hint("resources/list").0, 0);
}

#[test]
fn lists_are_the_same_each_time_and_everywhere() {
    for method in ["tools/list", "resources/templates/list", "prompts/list"] {
        let lists = Launch::both().map(|launch| {
            let mut server = launch.start();
            let [first, second] =
                [(); 2].map(|()| server.rpc(method, json!({}))["result"].to_string());
            assert_eq!(first, second);
            first
        });
        assert_eq!(lists[0], lists[1], "{method}");
    }
}
