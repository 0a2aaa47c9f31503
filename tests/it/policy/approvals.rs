//! Commands that a rule wants somebody's yes for: asked in both eras, over both transports.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Era, Launch, TestServer, declaring, eventually};

const ASK: &str = "[policy]\nask = [\"touch\"]\n";

/// The capabilities of a client that can ask a person.
fn asks() -> Value {
    json!({"elicitation": {}})
}

fn accepted(word: &str) -> Value {
    json!({"action": "accept", "content": {"approval": word}})
}

fn modern() -> [TestServer; 2] {
    Launch::both().map(|launch| launch.era(Era::Modern).structured().config(ASK).start())
}

/// Calls `run_command` as a modern client that can ask somebody.
#[track_caller]
fn call(server: &mut TestServer, command: &str, retry: Value) -> Value {
    let mut params = json!({"name": "run_command", "arguments": {"command": command}});
    for (name, value) in retry.as_object().into_iter().flatten() {
        params[name] = value.clone();
    }
    server.rpc("tools/call", declaring(asks(), params))["result"].clone()
}

/// Calls, and gives back the state of the question that comes.
#[track_caller]
fn submit_question(server: &mut TestServer, command: &str) -> String {
    let result = call(server, command, json!({}));
    assert_eq!(result["resultType"], "input_required", "{result}");
    let form = &result["inputRequests"]["approval"];
    assert_eq!(form["method"], "elicitation/create", "{result}");
    let message = form["params"]["message"].as_str().expect("words");
    assert!(message.contains(command) && message.contains("policy.ask[0]"), "{message}");
    let choices = &form["params"]["requestedSchema"]["properties"]["approval"]["oneOf"];
    let words = choices.as_array().expect("choices").iter().map(|choice| choice["const"].clone());
    assert_eq!(Value::from_iter(words), json!(["once", "tenant", "no"]), "{result}");
    result["requestState"].as_str().expect("a state").to_owned()
}

#[track_caller]
fn answer(server: &mut TestServer, command: &str, state: &str, said: Value) -> Value {
    let retry = json!({"requestState": state, "inputResponses": {"approval": said}});
    call(server, command, retry)
}

#[track_caller]
fn assert_ran(server: &TestServer, result: &Value) {
    assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
    std::fs::remove_file(server.work().join("made")).expect("it was run");
}

#[track_caller]
fn assert_refused(server: &TestServer, result: &Value, code: &str) {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["structuredContent"]["error_code"], code, "{result}");
    assert!(!server.work().join("made").exists(), "it was run all the same: {result}");
}

#[test]
fn a_yes_is_good_for_one_run() {
    for mut server in modern() {
        let state = submit_question(&mut server, "touch made");
        assert!(!server.work().join("made").exists(), "nothing runs before the yes");
        let result = answer(&mut server, "touch made", &state, accepted("once"));
        assert_ran(&server, &result);
        let again = answer(&mut server, "touch made", &state, accepted("once"));
        assert_refused(&server, &again, "not_approved");
        submit_question(&mut server, "touch made");
    }
}

#[test]
fn a_yes_for_the_tenant_holds_for_that_very_command() {
    for mut server in modern() {
        let state = submit_question(&mut server, "touch made");
        let result = answer(&mut server, "touch made", &state, accepted("tenant"));
        assert_ran(&server, &result);
        let again = call(&mut server, "touch made", json!({}));
        assert_ran(&server, &again);
        submit_question(&mut server, "touch made made");
        let elsewhere =
            json!({"name": "run_command", "arguments": {"command": "touch made", "cwd": "/tmp"}});
        let result = server.rpc("tools/call", declaring(asks(), elsewhere))["result"].clone();
        assert_eq!(result["resultType"], "input_required", "another directory: {result}");
    }
}

#[test]
fn whatever_is_no_yes_runs_nothing() {
    for mut server in modern() {
        for said in [accepted("no"), json!({"action": "decline"}), json!({"action": "cancel"})] {
            let state = submit_question(&mut server, "touch made");
            let result = answer(&mut server, "touch made", &state, said);
            assert_refused(&server, &result, "not_approved");
            let later = answer(&mut server, "touch made", &state, accepted("once"));
            assert_refused(&server, &later, "not_approved");
        }
    }
}

#[test]
fn a_yes_is_for_what_was_asked_and_for_nothing_else() {
    for mut server in modern() {
        let state = submit_question(&mut server, "touch other");
        let result = answer(&mut server, "touch made", &state, accepted("once"));
        assert_refused(&server, &result, "not_approved");
        let made_up = answer(&mut server, "touch made", "0123456789abcdef", accepted("once"));
        assert_refused(&server, &made_up, "not_approved");
    }
}

#[test]
fn who_cannot_ask_is_told_how_to_allow_it() {
    for mut server in modern() {
        let reply = server.call("run_command", json!({"command": "touch made"}));
        assert_refused(&server, &reply.0["result"], "needs_approval");
        assert!(reply.text().contains("take the rule out of policy.ask"), "{}", reply.text());
    }
}

/// A legacy server whose client can ask somebody.
#[track_caller]
fn legacy(launch: Launch) -> TestServer {
    legacy_with(launch, ASK)
}

#[track_caller]
fn legacy_with(launch: Launch, config: &str) -> TestServer {
    legacy_of("2025-11-25", launch, config)
}

#[track_caller]
fn legacy_of(version: &str, launch: Launch, config: &str) -> TestServer {
    let mut server = launch.structured().config(config).start_silent();
    let client = json!({"name": "it", "version": "1.0.0"});
    let greeting = json!({
        "protocolVersion": version, "capabilities": asks(), "clientInfo": client,
    });
    server.rpc("initialize", greeting);
    server.notify("notifications/initialized", json!({}));
    server
}

/// Calls over stdio, and says this to the question that comes.
#[track_caller]
fn call_and_say(server: &mut TestServer, said: Value) -> Value {
    let id = server.begin("run_command", json!({"command": "touch made"}));
    let question = server.stdio().receive("a question", |it| it["method"] == "elicitation/create");
    let message = question["params"]["message"].as_str().expect("words");
    assert!(message.contains("touch made"), "{question}");
    server.stdio().send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": said}));
    server.finish(id).0["result"].clone()
}

#[test]
fn a_legacy_session_is_asked_while_the_call_waits() {
    let mut server = legacy(Launch::stdio());
    let result = call_and_say(&mut server, json!({"action": "decline"}));
    assert_refused(&server, &result, "not_approved");
    let result = call_and_say(&mut server, accepted("once"));
    assert_ran(&server, &result);
    let result = call_and_say(&mut server, accepted("tenant"));
    assert_ran(&server, &result);
    let result = server.call("run_command", json!({"command": "touch made"})).ok();
    assert_ran(&server, &result.0["result"]);
}

#[test]
fn the_question_shows_the_command_first_and_titles_for_its_choices() {
    for (version, keyword) in [("2025-06-18", "enumNames"), ("2025-11-25", "oneOf")] {
        let mut server = legacy_of(version, Launch::stdio(), ASK);
        let command = "echo one\ntouch made";
        let id = server.begin("run_command", json!({"command": command}));
        let question =
            server.stdio().receive("a question", |it| it["method"] == "elicitation/create");
        let message = question["params"]["message"].as_str().expect("words");
        assert!(message.starts_with("echo one\ntouch made\n\n(2 lines) "), "{message}");
        let field = &question["params"]["requestedSchema"]["properties"]["approval"];
        assert_eq!(field["title"], "May this command of 2 lines run?", "{field}");
        assert_eq!(field["default"], "once", "{field}");
        let last = &field[keyword][2];
        let title = if last.is_string() { last } else { &last["title"] };
        assert_eq!(title, "Do not run it", "{field}");
        let said = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted("once")});
        server.stdio().send(&said);
        let result = server.finish(id).0["result"].clone();
        assert_ran(&server, &result);
    }
}

/// Waits for as long as a person needs at least to read a question.
fn read_question() {
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_question_dismissed_at_once_asked_nobody() {
    let told = "nobody was asked: the client dismissed the question within 100 ms";
    let mut server = legacy(Launch::stdio());
    for action in ["decline", "cancel"] {
        // On a busy machine some answers take longer.
        eventually("a dismissal in time", || {
            let result = call_and_say(&mut server, json!({"action": action}));
            assert_refused(&server, &result, "not_approved");
            result.to_string().contains(told)
        });
    }
    for mut server in modern() {
        eventually("a dismissal in time", || {
            let state = submit_question(&mut server, "touch made");
            let result = answer(&mut server, "touch made", &state, json!({"action": "decline"}));
            assert_refused(&server, &result, "not_approved");
            result.to_string().contains(told)
        });
        let state = submit_question(&mut server, "touch made");
        let chosen = answer(&mut server, "touch made", &state, accepted("no"));
        assert!(chosen.to_string().contains("it was declined"), "a choice is an answer: {chosen}");
        let state = submit_question(&mut server, "touch made");
        read_question();
        let slow = answer(&mut server, "touch made", &state, json!({"action": "cancel"}));
        assert!(slow.to_string().contains("it was dismissed"), "{slow}");
        let state = submit_question(&mut server, "touch made");
        read_question();
        let slow = answer(&mut server, "touch made", &state, json!({"action": "decline"}));
        assert!(slow.to_string().contains("it was declined"), "{slow}");
    }
}

#[test]
fn an_answer_without_a_choice_runs_nothing_and_says_so() {
    for without_choice in [json!({"action": "accept"}), accepted("")] {
        let mut server = legacy(Launch::stdio());
        let result = call_and_say(&mut server, without_choice.clone());
        assert_refused(&server, &result, "not_approved");
        assert!(result.to_string().contains("the answer had no choice"), "{result}");
        for mut server in modern() {
            let state = submit_question(&mut server, "touch made");
            let result = answer(&mut server, "touch made", &state, without_choice.clone());
            assert_refused(&server, &result, "not_approved");
            assert!(result.to_string().contains("the answer had no choice"), "{result}");
        }
    }
}

#[test]
fn other_calls_go_on_while_somebody_is_asked() {
    let mut server = legacy(Launch::stdio());
    let id = server.begin("run_command", json!({"command": "touch made"}));
    let question = server.stdio().receive("a question", |it| it["method"] == "elicitation/create");
    server.run("echo meanwhile");
    server.notify("notifications/cancelled", json!({"requestId": id}));
    // The question is over with its call: a late yes runs nothing.
    let late = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted("once")});
    eventually("the refusal is written down", || audit(&server).contains("not_approved"));
    server.stdio().send(&late);
    server.run("echo after");
    assert!(!server.work().join("made").exists());
}

#[test]
fn a_legacy_session_over_http_is_asked_on_the_stream_of_its_call() {
    let mut server = legacy(Launch::http());
    let params = json!({"name": "run_command", "arguments": {"command": "touch made"}});
    let message = Era::Legacy("2025-11-25").request(4711, "tools/call", params);
    let mut connection = server.http().post(&message);
    let mut stream = connection.answer();
    let question = stream.message().expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let said = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted("once")});
    server.http().notify(&said);
    let answer = stream.message().expect("an answer");
    assert_ran(&server, &answer["result"]);
}

#[test]
fn one_question_is_about_all_that_a_line_would_have_to_ask() {
    let config = "[policy]\nask = [\"touch\", \"mkdir\"]\n";
    let mut server = Launch::stdio().era(Era::Modern).structured().config(config).start();
    let command = "touch made && mkdir dir";
    let result = call(&mut server, command, json!({}));
    let message = result["inputRequests"]["approval"]["params"]["message"].as_str();
    let message = message.expect("words");
    for rule in ["ask rule \"touch\" (policy.ask[0])", "ask rule \"mkdir\" (policy.ask[1])"] {
        assert!(message.contains(rule), "{message}");
    }
    let state = result["requestState"].as_str().expect("a state").to_owned();
    let result = answer(&mut server, command, &state, accepted("once"));
    assert_ran(&server, &result);
    assert!(server.work().join("dir").exists(), "{result}");
}

#[test]
fn a_question_that_nobody_answers_is_over_with_the_patience_of_its_call() {
    let config = format!("[mcp]\nwait_s = 1\nmax_wait_s = 1\n{ASK}");
    let mut server = legacy_with(Launch::stdio(), &config);
    let id = server.begin("run_command", json!({"command": "touch made"}));
    server.stdio().receive("a question", |it| it["method"] == "elicitation/create");
    let result = server.finish(id).0["result"].clone();
    assert_refused(&server, &result, "not_approved");
    assert!(result.to_string().contains("nobody answered in time"), "{result}");
}

#[test]
fn a_client_that_fails_to_ask_is_quoted() {
    let mut server = legacy(Launch::stdio());
    let id = server.begin("run_command", json!({"command": "touch made"}));
    let question = server.stdio().receive("a question", |it| it["method"] == "elicitation/create");
    let error = json!({"code": -32603, "message": "no window\nto ask in"});
    server.stdio().send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": error}));
    let result = server.finish(id).0["result"].clone();
    assert_refused(&server, &result, "not_approved");
    let told = "the client could not ask for it: no window to ask in";
    assert!(result.to_string().contains(told), "{result}");
}

#[test]
fn each_step_of_an_approval_is_counted() {
    let mut server = Launch::http().era(Era::Modern).structured().config(ASK).start();
    for said in [accepted("once"), json!({"action": "decline"}), accepted("tenant")] {
        let state = submit_question(&mut server, "touch made");
        read_question();
        answer(&mut server, "touch made", &state, said);
    }
    answer(&mut server, "touch made", "0123456789abcdef", accepted("once"));
    let metrics = server.metrics();
    for (step, count) in [
        ("asked", 3),
        ("once", 1),
        ("declined", 1),
        ("tenant", 1),
        ("not_asked", 1),
        ("no_answer", 0),
    ] {
        let line = format!("shellyard_approvals_total{{step=\"{step}\"}} {count}");
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
}

/// The audit log, as it is.
fn audit(server: &TestServer) -> String {
    let file = server.sandbox().data().join("audit.jsonl");
    std::fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn the_audit_log_says_who_agreed_to_what_and_how() {
    for mut server in modern() {
        let state = submit_question(&mut server, "touch made");
        answer(&mut server, "touch made", &state, accepted("once"));
        let state = submit_question(&mut server, "touch made");
        read_question();
        answer(&mut server, "touch made", &state, json!({"action": "decline"}));
        for words in ["approved once, asked through it", "it was declined (local through it)"] {
            eventually(words, || audit(&server).contains(words));
        }
    }
}
