//! Tokens of a file: made, used, expired and revoked, while the server runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use serde_json::{Value, json};

use super::{ask, call, tools_list};
use crate::harness::{
    Era, HttpConnection, HttpRequest, Launch, Sandbox, eventually, run_program, text, token,
};

/// `shellyard token …` on the usual file of this server's data directory.
#[track_caller]
fn token_verb(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let data = sandbox.data();
    let mut all = vec!["token"];
    all.extend(arguments);
    all.extend(["--data-dir", data.to_str().expect("a path")]);
    run_program(sandbox, &all)
}

/// A new token, and its id.
#[track_caller]
pub(crate) fn create_token(sandbox: &Sandbox, arguments: &[&str]) -> (String, String) {
    let output = token_verb(sandbox, &[&["new", "--json"], arguments].concat());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let word = |key: &str| answer[key].as_str().expect("a word").to_owned();
    (word("token"), word("id"))
}

#[test]
fn a_server_requires_tokens_as_soon_as_there_is_one() {
    let mut server = Launch::http().era(Era::Modern).start();
    assert_eq!(ask(&mut server, tools_list(), None).status, 200);
    assert!(
        !server.log_text().contains("token"),
        "a file that nobody made is nothing to complain of"
    );
    let output = token_verb(server.sandbox(), &["new", "ci"]);
    assert!(output.status.success());
    let secret = text(&output.stdout).trim_end().to_owned();
    assert!(secret.starts_with("sy_") && secret.len() == 46, "{secret}");
    assert_eq!(text(&output.stdout).lines().count(), 1, "the token alone");
    let file = server.sandbox().data().join("tokens");
    assert!(text(&output.stderr).contains(file.to_str().expect("a path")), "it says where");
    assert!(!fs::read_to_string(&file).expect("the file").contains(&secret), "only a hash");
    assert_eq!(fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);

    let none = ask(&mut server, tools_list(), None);
    assert_eq!(none.status, 401);
    assert_eq!(none.challenge.as_deref(), Some("Bearer realm=\"shellyard\""));
    let wrong = ask(&mut server, tools_list(), Some("sy_wrong"));
    assert_eq!(wrong.status, 401);
    assert_eq!(
        wrong.challenge.as_deref(),
        Some(
            "Bearer realm=\"shellyard\", error=\"invalid_token\", error_description=\"this token is not known here\""
        )
    );
    server.http().use_token(&secret);
    server.assert_alive();
    assert!(!server.log_text().contains(&secret), "a token never reaches the log");
}

#[test]
fn an_expired_token_is_refused_with_the_reason() {
    let mut server = Launch::http().era(Era::Modern).start();
    let (secret, _) = create_token(server.sandbox(), &["ci", "--expires", "2s"]);
    let mut last = ask(&mut server, tools_list(), Some(&secret));
    eventually("it expires", || {
        last = ask(&mut server, tools_list(), Some(&secret));
        last.status != 200
    });
    assert_eq!(last.status, 401);
    assert!(last.text.contains("this token expired at 20"), "{last:?}");
    assert!(last.challenge.is_some_and(|words| words.contains("this token expired at")));
}

#[test]
fn a_revoked_token_is_refused_without_a_restart() {
    let mut server = Launch::http().era(Era::Modern).start();
    let (kept, _) = create_token(server.sandbox(), &["ci"]);
    let (secret, id) = create_token(server.sandbox(), &["ci"]);
    assert_eq!(ask(&mut server, tools_list(), Some(&secret)).status, 200);
    assert!(token_verb(server.sandbox(), &["revoke", &id]).status.success());
    assert_eq!(ask(&mut server, tools_list(), Some(&secret)).status, 401);
    assert_eq!(ask(&mut server, tools_list(), Some(&kept)).status, 200);
    let again = token_verb(server.sandbox(), &["revoke", &id]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("token list"), "{again:?}");
}

#[test]
fn revoking_a_token_ends_its_open_streams() {
    let mut server = Launch::http().start_silent();
    let (secret, id) = create_token(server.sandbox(), &["ci"]);
    server.http().use_token(&secret);
    server.handshake();
    let mut stream = server.http().open_stream();
    assert_eq!(stream.answer().status, 200);
    let wait = json!({"name": "run_command", "arguments": {"command": "sleep 600", "wait_s": 40}});
    let mut request =
        HttpRequest::post("/mcp", &Era::Modern.request(1, "tools/call", wait.clone()));
    request.headers.extend(Era::Modern.headers(&json!({"method": "tools/call", "params": wait})));
    let mut long = HttpConnection::open(server.http().address());
    long.send(&request.header("Authorization", &format!("Bearer {secret}")));
    assert_eq!(long.answer().status, 200, "it has begun");
    assert!(token_verb(server.sandbox(), &["revoke", &id]).status.success());
    // Both would stay open for much longer than any deadline of ours.
    stream.rest();
    let rest = long.rest();
    assert!(!rest.contains("\"result\""), "{rest}");
}

#[test]
fn a_message_after_a_revocation_is_refused_on_an_upgraded_connection() {
    let mut server = Launch::http().start_silent();
    let url = format!("http://{}", server.http().address());
    let (kept, _) = create_token(server.sandbox(), &["ci"]);
    for round in 0..3 {
        let (secret, id) = create_token(server.sandbox(), &["ci"]);
        let launch =
            |secret| Launch::stdio().args(&["--connect", &url]).env("SHELLYARD_TOKEN", secret);
        let mut proxy = launch(&secret).start();
        let mut bystander = launch(&kept).start();
        proxy.run("echo before");
        let trace = server.work().join(format!("trace-{round}"));
        let run = json!({"name": "run_command", "arguments": {"command": format!("touch {}", trace.display())}});
        assert!(token_verb(server.sandbox(), &["revoke", &id]).status.success());
        let answer = proxy.rpc("tools/call", run.clone());
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("revoked"), "{answer}");
        assert_eq!(answer["error"]["data"]["code"], "token_ended", "{answer}");
        // A call may cross the end of the connection, and then reads as one that was lost with it.
        eventually("a new connection is turned away", || {
            let again = proxy.rpc("tools/call", run.clone());
            assert!(again.get("result").is_none(), "{again}");
            again["error"]["message"].to_string().contains("401")
        });
        assert!(!trace.exists(), "it was acted on");
        bystander.rpc("tools/call", run);
        assert!(trace.exists(), "others go on");
    }
}

#[test]
fn a_message_after_a_revocation_is_refused_on_a_keep_alive_connection() {
    let mut server = Launch::http().era(Era::Modern).start();
    let (secret, id) = create_token(server.sandbox(), &["ci"]);
    let trace = server.work().join("trace");
    let touch = || {
        let request = call("run_command", json!({"command": format!("touch {}", trace.display())}));
        request.header("Authorization", &format!("Bearer {secret}"))
    };
    let mut kept = HttpConnection::open(server.http().address());
    kept.send(&touch());
    let answer = kept.answer();
    assert_eq!(answer.status, 200);
    drop(answer.text());
    fs::remove_file(&trace).expect("it ran");
    // The head of a request comes while the token is good, and its message when it is not.
    let mut slow = HttpConnection::open(server.http().address());
    let request = touch();
    let mut head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n",
        request.body.len()
    );
    for (name, value) in &request.headers {
        head += &format!("{name}: {value}\r\n");
    }
    slow.send_bytes(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes());
    assert_eq!(slow.try_status(), Some(100), "the token was good");
    assert!(token_verb(server.sandbox(), &["revoke", &id]).status.success());
    slow.send_bytes(&request.body);
    // The rest of the interim answer.
    assert_eq!(slow.try_status(), None);
    let answer = slow.answer();
    assert_eq!(answer.status, 401);
    let said = answer.text();
    assert!(said.contains("this token is not known here"), "{said}");
    kept.send(&touch());
    assert_eq!(kept.answer().status, 401);
    assert!(!trace.exists(), "it was acted on");
}

#[test]
fn tokens_stay_required_even_if_their_file_is_gone() {
    let mut server = Launch::http().era(Era::Modern).start();
    let (secret, id) = create_token(server.sandbox(), &["ci"]);
    assert!(token_verb(server.sandbox(), &["revoke", &id]).status.success());
    assert_eq!(ask(&mut server, tools_list(), None).status, 401, "an empty file lets nobody in");
    let file = server.sandbox().data().join("tokens");
    fs::remove_file(&file).expect("the file");
    assert_eq!(ask(&mut server, tools_list(), None).status, 401, "nor does none");
    assert_eq!(ask(&mut server, tools_list(), Some(&secret)).status, 401);
    server.expect_log("token file not readable");
    let (new, _) = create_token(server.sandbox(), &["ci"]);
    assert_eq!(ask(&mut server, tools_list(), Some(&new)).status, 200);
}

#[test]
fn the_good_lines_of_a_broken_token_file_stay_valid() {
    let mut server = Launch::http().era(Era::Modern).start();
    let (kept, _) = create_token(server.sandbox(), &["ci"]);
    let (cut, _) = create_token(server.sandbox(), &["ci"]);
    assert_eq!(ask(&mut server, tools_list(), Some(&cut)).status, 200);
    let file = server.sandbox().data().join("tokens");
    let whole = fs::read_to_string(&file).expect("the file");
    fs::write(&file, &whole[..whole.len() - 20]).expect("a file of ours");
    assert_eq!(ask(&mut server, tools_list(), Some(&cut)).status, 401);
    assert_eq!(ask(&mut server, tools_list(), Some(&kept)).status, 200);
    server.expect_log("line of the token file ignored");
}

#[test]
fn a_bad_token_line_is_refused_at_start_with_its_line_number() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.data().join("tokens"), "# mine\nsha256:12 tenant=ci\n")
        .expect("a file of ours");
    let data = sandbox.data();
    let output = run_program(
        &sandbox,
        &["serve", "--bind", "127.0.0.1:0", "--data-dir", data.to_str().expect("a path")],
    );
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("tokens:2") && said.contains("64 hex digits"), "{said}");
}

#[test]
fn metrics_need_the_role_metrics_or_admin() {
    let mut server = Launch::http().era(Era::Modern).start();
    let metrics = || HttpRequest::get("/metrics");
    assert_eq!(ask(&mut server, metrics(), None).status, 200, "everybody on loopback, at first");
    for (role, status, own) in
        [("metrics", 200, 403), ("read-only", 403, 200), ("run", 403, 200), ("admin", 200, 200)]
    {
        let (secret, _) = create_token(server.sandbox(), &["ci", "--role", role]);
        let said = ask(&mut server, metrics(), Some(&secret));
        assert_eq!(said.status, status, "{role}");
        let refusal = "this needs a token with the role metrics or admin";
        assert_eq!(said.text.contains(refusal), status == 403, "{role}: {}", said.text);
        assert_eq!(ask(&mut server, tools_list(), Some(&secret)).status, own, "{role}");
    }
    assert_eq!(ask(&mut server, metrics(), None).status, 401);
}

#[test]
fn a_plain_secret_belongs_to_the_operator() {
    let mut server = Launch::http().era(Era::Modern).guarded().start();
    assert_eq!(ask(&mut server, HttpRequest::get("/metrics"), Some(token())).status, 200);
    assert_eq!(ask(&mut server, HttpRequest::get("/metrics"), Some("other")).status, 401);
}

#[test]
fn a_session_does_not_exist_for_another_tenant() {
    let mut server = Launch::http().start_silent();
    let (ours, _) = create_token(server.sandbox(), &["ours"]);
    let (also_ours, _) = create_token(server.sandbox(), &["ours"]);
    let (theirs, _) = create_token(server.sandbox(), &["theirs"]);
    server.http().use_token(&ours);
    server.handshake();
    let session = server.http().session().to_owned();
    let message = Era::Legacy("2025-11-25").request(7, "tools/list", json!({}));
    let list = |session: &str| {
        let request =
            HttpRequest::post("/mcp", &message).header("MCP-Protocol-Version", "2025-11-25");
        request.header("Mcp-Session-Id", session)
    };
    let open = |method: &'static str, session: &str| {
        let request = HttpRequest { method, ..HttpRequest::get("/mcp") };
        request.header("Accept", "text/event-stream").header("Mcp-Session-Id", session)
    };
    let requests: [&dyn Fn(&str) -> HttpRequest; 3] =
        [&list, &|session| open("GET", session), &|session| open("DELETE", session)];
    for request in requests {
        let foreign = ask(&mut server, request(&session), Some(&theirs));
        let unknown = ask(&mut server, request("no-such-session"), Some(&theirs));
        assert_eq!(foreign, unknown);
    }
    assert_eq!(ask(&mut server, list(&session), Some(&theirs)).status, 404);
    assert_eq!(ask(&mut server, list(&session), Some(&also_ours)).status, 200, "it is still there");
}

#[test]
fn tokens_are_listed_without_secrets_and_hashes() {
    let sandbox = Sandbox::new();
    let (secret, id) = create_token(
        &sandbox,
        &["ci", "--role", "read-only", "--expires", "30d", "--note", "build host"],
    );
    create_token(&sandbox, &["local"]);
    let human = text(&token_verb(&sandbox, &["list"]).stdout);
    let row = human.lines().find(|line| line.starts_with(&id)).expect("a row");
    assert!(
        row.contains("ci") && row.contains("read-only") && row.ends_with("build host"),
        "{row}"
    );
    let output = token_verb(&sandbox, &["list", "--json"]).stdout;
    let json: Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!(json["tokens"][0]["id"], json!(id));
    assert_eq!(json["tokens"][1]["tenant"], "local");
    let file = fs::read_to_string(sandbox.data().join("tokens")).expect("the file");
    let hash = &file["sha256:".len()..][..64];
    for told in [human, text(&output)] {
        assert!(!told.contains(&secret) && !told.contains(hash), "{told}");
    }
}

#[test]
fn invalid_token_arguments_are_refused_with_a_reason() {
    let sandbox = Sandbox::new();
    for (arguments, said) in [
        (&["new", "a b"][..], "cannot be a tenant's name"),
        (&["new", "ci", "--role", "root"], "metrics, read-only, run and admin"),
        (&["new", "ci", "--expires", "yesterday"], "30d"),
        (&["new", "ci", "--note", "two\nlines"], "one line"),
        (&["revoke", "x"], "token list"),
    ] {
        let output = token_verb(&sandbox, arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {output:?}");
    }
    assert!(!sandbox.data().join("tokens").exists());
}

#[test]
fn tokens_that_are_created_at_once_are_all_stored() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.data().join("tokens"), "# mine\nplain\n").expect("a file of ours");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| create_token(&sandbox, &["ci"]));
        }
    });
    let file = fs::read_to_string(sandbox.data().join("tokens")).expect("the file");
    assert!(file.starts_with("# mine\nplain\n"), "{file}");
    assert_eq!(file.lines().count(), 10, "{file}");
}

#[test]
fn a_read_only_token_can_list_jobs() {
    let mut server = Launch::http().era(Era::Modern).start();
    let (secret, _) = create_token(server.sandbox(), &["ci", "--role", "read-only"]);
    let said = ask(&mut server, call("list_jobs", json!({})), Some(&secret));
    assert_eq!(said.status, 200, "{said:?}");
}
