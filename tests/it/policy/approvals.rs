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
fn call(yard: &mut TestServer, command: &str, retry: Value) -> Value {
    let mut params = json!({"name": "run_command", "arguments": {"command": command}});
    for (name, value) in retry.as_object().into_iter().flatten() {
        params[name] = value.clone();
    }
    yard.rpc("tools/call", declaring(asks(), params))["result"].clone()
}

/// Calls, and gives back the state of the question that comes.
#[track_caller]
fn submit_question(yard: &mut TestServer, command: &str) -> String {
    let result = call(yard, command, json!({}));
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
fn answer(yard: &mut TestServer, command: &str, state: &str, said: Value) -> Value {
    let retry = json!({"requestState": state, "inputResponses": {"approval": said}});
    call(yard, command, retry)
}

#[track_caller]
fn assert_ran(yard: &TestServer, result: &Value) {
    assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
    std::fs::remove_file(yard.work().join("made")).expect("it was run");
}

#[track_caller]
fn assert_refused(yard: &TestServer, result: &Value, code: &str) {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["structuredContent"]["error_code"], code, "{result}");
    assert!(!yard.work().join("made").exists(), "it was run all the same: {result}");
}

#[test]
fn a_yes_is_good_for_one_run() {
    for mut yard in modern() {
        let state = submit_question(&mut yard, "touch made");
        assert!(!yard.work().join("made").exists(), "nothing runs before the yes");
        let result = answer(&mut yard, "touch made", &state, accepted("once"));
        assert_ran(&yard, &result);
        let again = answer(&mut yard, "touch made", &state, accepted("once"));
        assert_refused(&yard, &again, "not_approved");
        submit_question(&mut yard, "touch made");
    }
}

#[test]
fn a_yes_for_the_tenant_holds_for_that_very_command() {
    for mut yard in modern() {
        let state = submit_question(&mut yard, "touch made");
        let result = answer(&mut yard, "touch made", &state, accepted("tenant"));
        assert_ran(&yard, &result);
        let again = call(&mut yard, "touch made", json!({}));
        assert_ran(&yard, &again);
        submit_question(&mut yard, "touch made made");
        let elsewhere =
            json!({"name": "run_command", "arguments": {"command": "touch made", "cwd": "/tmp"}});
        let result = yard.rpc("tools/call", declaring(asks(), elsewhere))["result"].clone();
        assert_eq!(result["resultType"], "input_required", "another directory: {result}");
    }
}

#[test]
fn whatever_is_no_yes_runs_nothing() {
    for mut yard in modern() {
        for said in [accepted("no"), json!({"action": "decline"}), json!({"action": "cancel"})] {
            let state = submit_question(&mut yard, "touch made");
            let result = answer(&mut yard, "touch made", &state, said);
            assert_refused(&yard, &result, "not_approved");
            let later = answer(&mut yard, "touch made", &state, accepted("once"));
            assert_refused(&yard, &later, "not_approved");
        }
    }
}

#[test]
fn a_yes_is_for_what_was_asked_and_for_nothing_else() {
    for mut yard in modern() {
        let state = submit_question(&mut yard, "touch other");
        let result = answer(&mut yard, "touch made", &state, accepted("once"));
        assert_refused(&yard, &result, "not_approved");
        let made_up = answer(&mut yard, "touch made", "0123456789abcdef", accepted("once"));
        assert_refused(&yard, &made_up, "not_approved");
    }
}

#[test]
fn who_cannot_ask_is_told_how_to_allow_it() {
    for mut yard in modern() {
        let reply = yard.call("run_command", json!({"command": "touch made"}));
        assert_refused(&yard, &reply.0["result"], "needs_approval");
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
    let mut yard = launch.structured().config(config).start_silent();
    let client = json!({"name": "it", "version": "1.0.0"});
    let greeting = json!({
        "protocolVersion": version, "capabilities": asks(), "clientInfo": client,
    });
    yard.rpc("initialize", greeting);
    yard.notify("notifications/initialized", json!({}));
    yard
}

/// Calls over stdio, and says this to the question that comes.
#[track_caller]
fn call_and_say(yard: &mut TestServer, said: Value) -> Value {
    let id = yard.begin("run_command", json!({"command": "touch made"}));
    let question = yard.stdio().receive("a question", |it| it["method"] == "elicitation/create");
    let message = question["params"]["message"].as_str().expect("words");
    assert!(message.contains("touch made"), "{question}");
    yard.stdio().send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": said}));
    yard.finish(id).0["result"].clone()
}

#[test]
fn a_legacy_session_is_asked_while_the_call_waits() {
    let mut yard = legacy(Launch::stdio());
    let result = call_and_say(&mut yard, json!({"action": "decline"}));
    assert_refused(&yard, &result, "not_approved");
    let result = call_and_say(&mut yard, accepted("once"));
    assert_ran(&yard, &result);
    let result = call_and_say(&mut yard, accepted("tenant"));
    assert_ran(&yard, &result);
    let result = yard.call("run_command", json!({"command": "touch made"})).ok();
    assert_ran(&yard, &result.0["result"]);
}

#[test]
fn the_question_shows_the_command_first_and_titles_for_its_choices() {
    for (version, keyword) in [("2025-06-18", "enumNames"), ("2025-11-25", "oneOf")] {
        let mut yard = legacy_of(version, Launch::stdio(), ASK);
        let command = "echo one\ntouch made";
        let id = yard.begin("run_command", json!({"command": command}));
        let question =
            yard.stdio().receive("a question", |it| it["method"] == "elicitation/create");
        let message = question["params"]["message"].as_str().expect("words");
        assert!(message.starts_with("echo one\ntouch made\n\n(2 lines) "), "{message}");
        let field = &question["params"]["requestedSchema"]["properties"]["approval"];
        assert_eq!(field["title"], "May this command of 2 lines run?", "{field}");
        assert_eq!(field["default"], "once", "{field}");
        let last = &field[keyword][2];
        let title = if last.is_string() { last } else { &last["title"] };
        assert_eq!(title, "Do not run it", "{field}");
        let said = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted("once")});
        yard.stdio().send(&said);
        let result = yard.finish(id).0["result"].clone();
        assert_ran(&yard, &result);
    }
}

/// Waits for as long as a person needs at least to read a question.
fn read_question() {
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_question_dismissed_at_once_asked_nobody() {
    let told = "nobody was asked: the client dismissed the question within 100 ms";
    let mut yard = legacy(Launch::stdio());
    for action in ["decline", "cancel"] {
        // On a busy machine some answers take longer.
        eventually("a dismissal in time", || {
            let result = call_and_say(&mut yard, json!({"action": action}));
            assert_refused(&yard, &result, "not_approved");
            result.to_string().contains(told)
        });
    }
    for mut yard in modern() {
        eventually("a dismissal in time", || {
            let state = submit_question(&mut yard, "touch made");
            let result = answer(&mut yard, "touch made", &state, json!({"action": "decline"}));
            assert_refused(&yard, &result, "not_approved");
            result.to_string().contains(told)
        });
        let state = submit_question(&mut yard, "touch made");
        let chosen = answer(&mut yard, "touch made", &state, accepted("no"));
        assert!(chosen.to_string().contains("it was declined"), "a choice is an answer: {chosen}");
        let state = submit_question(&mut yard, "touch made");
        read_question();
        let slow = answer(&mut yard, "touch made", &state, json!({"action": "cancel"}));
        assert!(slow.to_string().contains("it was declined"), "{slow}");
    }
}

#[test]
fn other_calls_go_on_while_somebody_is_asked() {
    let mut yard = legacy(Launch::stdio());
    let id = yard.begin("run_command", json!({"command": "touch made"}));
    let question = yard.stdio().receive("a question", |it| it["method"] == "elicitation/create");
    yard.run("echo meanwhile");
    yard.notify("notifications/cancelled", json!({"requestId": id}));
    // The question is over with its call: a late yes runs nothing.
    let late = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted("once")});
    eventually("the refusal is written down", || audit(&yard).contains("not_approved"));
    yard.stdio().send(&late);
    yard.run("echo after");
    assert!(!yard.work().join("made").exists());
}

#[test]
fn a_legacy_session_over_http_is_asked_on_the_stream_of_its_call() {
    let mut yard = legacy(Launch::http());
    let params = json!({"name": "run_command", "arguments": {"command": "touch made"}});
    let message = Era::Legacy("2025-11-25").request(4711, "tools/call", params);
    let mut connection = yard.http().post(&message);
    let mut stream = connection.answer();
    let question = stream.message().expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let said = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted("once")});
    yard.http().notify(&said);
    let answer = stream.message().expect("an answer");
    assert_ran(&yard, &answer["result"]);
}

#[test]
fn one_question_is_about_all_that_a_line_would_have_to_ask() {
    let config = "[policy]\nask = [\"touch\", \"mkdir\"]\n";
    let mut yard = Launch::stdio().era(Era::Modern).structured().config(config).start();
    let command = "touch made && mkdir dir";
    let result = call(&mut yard, command, json!({}));
    let message = result["inputRequests"]["approval"]["params"]["message"].as_str();
    let message = message.expect("words");
    for rule in ["ask rule \"touch\" (policy.ask[0])", "ask rule \"mkdir\" (policy.ask[1])"] {
        assert!(message.contains(rule), "{message}");
    }
    let state = result["requestState"].as_str().expect("a state").to_owned();
    let result = answer(&mut yard, command, &state, accepted("once"));
    assert_ran(&yard, &result);
    assert!(yard.work().join("dir").exists(), "{result}");
}

#[test]
fn a_question_that_nobody_answers_is_over_with_the_patience_of_its_call() {
    let config = format!("[mcp]\nwait_s = 1\nmax_wait_s = 1\n{ASK}");
    let mut yard = legacy_with(Launch::stdio(), &config);
    let id = yard.begin("run_command", json!({"command": "touch made"}));
    yard.stdio().receive("a question", |it| it["method"] == "elicitation/create");
    let result = yard.finish(id).0["result"].clone();
    assert_refused(&yard, &result, "not_approved");
    assert!(result.to_string().contains("nobody answered in time"), "{result}");
}

#[test]
fn a_client_that_fails_to_ask_is_quoted() {
    let mut yard = legacy(Launch::stdio());
    let id = yard.begin("run_command", json!({"command": "touch made"}));
    let question = yard.stdio().receive("a question", |it| it["method"] == "elicitation/create");
    let error = json!({"code": -32603, "message": "no window\nto ask in"});
    yard.stdio().send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": error}));
    let result = yard.finish(id).0["result"].clone();
    assert_refused(&yard, &result, "not_approved");
    let told = "the client could not ask for it: no window to ask in";
    assert!(result.to_string().contains(told), "{result}");
}

#[test]
fn each_step_of_an_approval_is_counted() {
    let mut yard = Launch::http().era(Era::Modern).structured().config(ASK).start();
    for said in [accepted("once"), json!({"action": "decline"}), accepted("tenant")] {
        let state = submit_question(&mut yard, "touch made");
        read_question();
        answer(&mut yard, "touch made", &state, said);
    }
    answer(&mut yard, "touch made", "0123456789abcdef", accepted("once"));
    let metrics = yard.metrics();
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
fn audit(yard: &TestServer) -> String {
    let file = yard.sandbox().data().join("audit.jsonl");
    std::fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn the_audit_log_says_who_agreed_to_what_and_how() {
    for mut yard in modern() {
        let state = submit_question(&mut yard, "touch made");
        answer(&mut yard, "touch made", &state, accepted("once"));
        let state = submit_question(&mut yard, "touch made");
        read_question();
        answer(&mut yard, "touch made", &state, json!({"action": "decline"}));
        for words in ["approved once, asked through it", "it was declined (local through it)"] {
            eventually(words, || audit(&yard).contains(words));
        }
    }
}
