//! Access tokens of an authorization server that the test runs.

use std::fs;

use serde_json::{Value, json};

use super::issuer::{AUDIENCE, Issuer, SigningKey, seconds_from_now};
use super::{ask, call, tools_list};
use crate::harness::{
    Era, HttpConnection, HttpRequest, Launch, Sandbox, TestServer, eventually, make_fifo,
    run_program, text, token,
};

const METADATA: &str = "https://yard.example.org/.well-known/oauth-protected-resource/mcp";
const RUN: &str = "shellyard:run";

/// A server that takes the tokens of this issuer, with these further settings.
fn launch(issuer: &Issuer, more: &str) -> Launch {
    let config =
        format!("[oauth]\nissuer = \"{}\"\nresource = \"{AUDIENCE}\"\n{more}\n", issuer.url());
    Launch::http().era(Era::Modern).config(&config)
}

#[track_caller]
fn status(server: &mut TestServer, token: &str) -> u16 {
    ask(server, tools_list(), Some(token)).status
}

#[test]
fn clients_are_told_where_to_get_a_token() {
    let key = SigningKey::ec("a");
    let issuer = Issuer::with_keys(&[key.public()]);
    let mut server = launch(&issuer, "").start_silent();
    let none = ask(&mut server, tools_list(), None);
    assert_eq!(none.status, 401);
    let challenge = format!(
        "Bearer realm=\"shellyard\", resource_metadata=\"{METADATA}\", scope=\"shellyard:run\""
    );
    assert_eq!(none.challenge.as_deref(), Some(challenge.as_str()));
    for path in ["", "/mcp"] {
        let request = HttpRequest::get(&format!("/.well-known/oauth-protected-resource{path}"));
        let said = ask(&mut server, request.clone(), None);
        assert_eq!(said.status, 200, "{path}");
        let document: Value = serde_json::from_str(&said.text).expect("JSON");
        let expected = json!({
            "resource": AUDIENCE,
            "authorization_servers": [issuer.url()],
            "scopes_supported": ["shellyard:metrics", "shellyard:read", "shellyard:run", "shellyard:admin"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Shellyard",
        });
        assert_eq!(document, expected);
        for (name, value) in [("Host", "evil.example"), ("Origin", "https://evil.example")] {
            assert_eq!(ask(&mut server, request.clone().header(name, value), None).status, 403);
        }
    }
    let good = key.token(&issuer.claims(RUN));
    server.http().use_token(&good);
    server.assert_alive();
    assert!(!server.log_text().contains(&good), "a token never reaches the log");
}

#[test]
fn without_an_issuer_there_is_no_metadata() {
    let mut server = Launch::http().era(Era::Modern).start();
    for path in ["", "/mcp"] {
        let request = HttpRequest::get(&format!("/.well-known/oauth-protected-resource{path}"));
        assert_eq!(ask(&mut server, request, None).status, 404);
    }
}

#[test]
fn metadata_is_also_served_at_the_path_of_a_reverse_proxy() {
    let issuer = Issuer::with_keys(&[SigningKey::ec("a").public()]);
    let resource = "https://shell.example/a{b/mcp";
    let config = format!("[oauth]\nissuer = \"{}\"\nresource = \"{resource}\"\n", issuer.url());
    let mut server = Launch::http().era(Era::Modern).config(&config).start_silent();
    for (path, status) in [("/a{b/mcp", 200), ("/mcp", 200), ("", 200), ("/a{c/mcp", 401)] {
        let request = HttpRequest::get(&format!("/.well-known/oauth-protected-resource{path}"));
        let said = ask(&mut server, request, None);
        assert_eq!((said.status, said.text.contains(resource)), (status, status == 200), "{path}");
    }
}

#[test]
fn an_unconfigured_resource_is_the_url_that_the_client_uses() {
    let issuer = Issuer::with_keys(&[SigningKey::ec("a").public()]);
    let config = format!("[oauth]\nissuer = \"{}\"\naudience = \"{AUDIENCE}\"\n", issuer.url());
    let mut server = Launch::http().era(Era::Modern).config(&config).start_silent();
    let address = server.http().address().to_owned();
    let none = ask(&mut server, tools_list(), None);
    let metadata = format!("http://{address}/.well-known/oauth-protected-resource/mcp");
    let challenge = none.challenge.expect("a challenge");
    assert!(challenge.contains(&format!("resource_metadata=\"{metadata}\"")), "{challenge}");
    let said =
        ask(&mut server, HttpRequest::get("/.well-known/oauth-protected-resource/mcp"), None);
    assert!(said.text.contains(&format!("\"resource\":\"http://{address}/mcp\"")), "{said:?}");
}

#[test]
fn an_invalid_token_is_refused_with_the_reason() {
    let [key, other] = [SigningKey::ec("a"), SigningKey::ec("a")];
    let issuer = Issuer::with_keys(&[key.public()]);
    let mut server = launch(&issuer, "").start_silent();
    let changed = |name: &str, value: Value| {
        let mut claims = issuer.claims(RUN);
        claims[name] = value;
        key.token(&claims)
    };
    for (token, why) in [
        (changed("iss", json!("https://evil.example")), "this token is from another issuer"),
        (changed("aud", json!("https://other.example.org")), "this token is for another audience"),
        (changed("exp", json!(1_700_000_000)), "this token expired at 2023-11-14T22:13:20Z"),
        (changed("nbf", json!(seconds_from_now(3600))), "this token is not valid yet"),
        (changed("sub", Value::Null), "this token has no usable claim sub"),
        (other.token(&issuer.claims(RUN)), "the signature of this token is not valid"),
        ("no-jwt".to_owned(), "this token is not known here"),
    ] {
        let said = ask(&mut server, tools_list(), Some(&token));
        assert_eq!(said.status, 401, "{why}");
        let challenge = format!(
            "Bearer realm=\"shellyard\", resource_metadata=\"{METADATA}\", scope=\"shellyard:run\", error=\"invalid_token\", error_description=\"{why}\""
        );
        assert_eq!(said.challenge, Some(challenge));
        let why = format!("\"a valid token is required: {why}\"");
        assert!(said.text.contains(&why), "{said:?}");
    }
    for (tenant, why) in [
        ("local", "\"the tenant of this token is not allowed here\""),
        ("no tenant", "\"this token's tenant is not a valid tenant name\""),
    ] {
        let said = ask(&mut server, tools_list(), Some(&changed("sub", json!(tenant))));
        assert_eq!((said.status, said.challenge), (403, None), "another token will not do");
        assert!(said.text.contains(why), "{}", said.text);
    }
}

#[test]
fn routes_for_admins_name_the_required_scope() {
    let key = SigningKey::rsa("r");
    let issuer = Issuer::with_keys(&[key.public()]);
    let mut server = launch(&issuer, "").start_silent();
    let run = key.token(&issuer.claims(RUN));
    for path in ["/metrics", "/api/v1/queue", "/api/v1/jobs?all=1"] {
        let said = ask(&mut server, HttpRequest::get(path), Some(&run));
        let words = "Bearer realm=\"shellyard\", error=\"insufficient_scope\"";
        let scope = "scope=\"shellyard:admin\"";
        let challenge = format!("{words}, {scope}, resource_metadata=\"{METADATA}\"");
        assert_eq!((said.status, said.challenge), (403, Some(challenge)), "{path}");
    }
}

#[test]
fn an_insufficient_scope_is_answered_with_the_required_one() {
    let key = SigningKey::rsa("r");
    let issuer = Issuer::with_keys(&[key.public()]);
    let mut server = launch(&issuer, "").start_silent();
    let lacks = |scope: &str| {
        let words = "Bearer realm=\"shellyard\", error=\"insufficient_scope\"";
        Some(format!("{words}, scope=\"{scope}\", resource_metadata=\"{METADATA}\""))
    };
    let read = key.token(&issuer.claims("openid shellyard:read"));
    assert_eq!(status(&mut server, &read), 200);
    assert_eq!(ask(&mut server, call("list_jobs", json!({})), Some(&read)).status, 200);
    for tool in ["run_command", "send_input", "stop_jobs"] {
        let arguments = json!({"command": "touch broke-in", "job": 1, "jobs": [1], "text": "x"});
        let said = ask(&mut server, call(tool, arguments), Some(&read));
        assert_eq!((said.status, said.challenge), (403, lacks(RUN)), "{tool}");
    }
    assert!(!server.work().join("broke-in").exists());
    let nothing = key.token(&issuer.claims("openid"));
    for request in [tools_list(), HttpRequest::get("/metrics"), HttpRequest::get("/api/v1/jobs")] {
        let said = ask(&mut server, request, Some(&nothing));
        assert_eq!((said.status, said.challenge), (403, lacks(RUN)));
    }
    let run = key.token(&issuer.claims(RUN));
    let said = ask(&mut server, call("run_command", json!({"command": "echo hi"})), Some(&run));
    assert!(said.status == 200 && said.text.contains("exit 0"), "{said:?}");
    let said = ask(&mut server, HttpRequest::get("/metrics"), Some(&run));
    assert_eq!((said.status, said.challenge), (403, lacks("shellyard:admin")));
    let admin = key.token(&issuer.claims("shellyard:admin"));
    assert_eq!(ask(&mut server, HttpRequest::get("/metrics"), Some(&admin)).status, 200);
    let metrics = key.token(&issuer.claims("openid shellyard:metrics"));
    assert_eq!(ask(&mut server, HttpRequest::get("/metrics"), Some(&metrics)).status, 200);
    for request in [tools_list(), HttpRequest::get("/api/v1/jobs")] {
        let said = ask(&mut server, request, Some(&metrics));
        assert_eq!((said.status, said.challenge), (403, lacks("shellyard:read")));
    }
}

#[test]
fn a_new_key_of_the_issuer_is_accepted_and_a_withdrawn_one_is_not() {
    let [old, new] = [SigningKey::ec("old"), SigningKey::ec("new")];
    let issuer = Issuer::with_keys(&[old.public()]);
    let mut server = launch(&issuer, "").start_silent();
    let [by_old, by_new] = [&old, &new].map(|key| key.token(&issuer.claims(RUN)));
    assert_eq!(status(&mut server, &by_old), 200);
    assert_eq!(status(&mut server, &by_new), 401);
    issuer.publish(&[new.public()]);
    eventually("the new key is fetched", || status(&mut server, &by_new) == 200);
    let said = ask(&mut server, tools_list(), Some(&by_old));
    assert_eq!(said.status, 401);
    assert!(said.text.contains("a key that the issuer does not publish"), "{said:?}");
}

#[test]
fn keys_stay_valid_when_the_issuer_fails() {
    let key = SigningKey::ec("a");
    let issuer = Issuer::with_keys(&[key.public()]);
    let mut server = launch(&issuer, "jwks_refresh_s = 1").start_silent();
    let good = key.token(&issuer.claims(RUN));
    assert_eq!(status(&mut server, &good), 200);
    issuer.say("/keys", "out of order");
    eventually("a fetch fails", || {
        assert_eq!(status(&mut server, &good), 200);
        server.log_text().contains("keys of the issuer not refreshed")
    });
    assert_eq!(status(&mut server, &good), 200);
}

#[test]
fn an_unreachable_issuer_admits_nobody() {
    let issuer = Issuer::new("");
    let mut server = launch(&issuer, "").start_silent();
    let said =
        ask(&mut server, tools_list(), Some(&SigningKey::ec("a").token(&issuer.claims(RUN))));
    assert_eq!(said.status, 503);
    assert!(said.text.contains("the issuer's keys are not available"), "{said:?}");
    server.expect_log("oauth-authorization-server");
}

#[test]
fn keys_are_found_by_openid_discovery_or_by_their_own_url() {
    let key = SigningKey::ec("a");
    let openid = Issuer::new("/realms/a");
    openid.describe("/realms/a/.well-known/openid-configuration");
    let inserted = Issuer::new("/realms/a");
    inserted.describe("/.well-known/oauth-authorization-server/realms/a");
    let plain = Issuer::new("");
    let more = format!("jwks = \"{}\"", plain.keys_url());
    for (issuer, more) in [(openid, ""), (inserted, ""), (plain, more.as_str())] {
        issuer.publish(&[key.public()]);
        let mut server = launch(&issuer, more).start_silent();
        assert_eq!(status(&mut server, &key.token(&issuer.claims(RUN))), 200, "{issuer:?}");
    }
}

#[test]
fn metadata_of_another_issuer_is_not_used() {
    let key = SigningKey::ec("a");
    let issuer = Issuer::new("");
    issuer.publish(&[key.public()]);
    let foreign = json!({"issuer": "https://id.example.org", "jwks_uri": issuer.keys_url()});
    issuer.say("/.well-known/oauth-authorization-server", &foreign.to_string());
    let mut shellyard = launch(&issuer, "").start_silent();
    assert_eq!(status(&mut shellyard, &key.token(&issuer.claims(RUN))), 503);
}

#[test]
fn keys_in_a_file_are_read_again_when_it_changes() {
    let [old, new] = [SigningKey::ec("old"), SigningKey::rsa("new")];
    let issuer = Issuer::new("");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("jwks.json");
    let publish = |key: &SigningKey| {
        fs::write(&file, json!({"keys": [key.public()]}).to_string()).expect("a file of ours");
    };
    publish(&old);
    let mut server = launch(&issuer, &format!("jwks = \"{}\"", file.display())).start_silent();
    let [by_old, by_new] = [&old, &new].map(|key| key.token(&issuer.claims(RUN)));
    assert_eq!((status(&mut server, &by_old), status(&mut server, &by_new)), (200, 401));
    publish(&new);
    assert_eq!((status(&mut server, &by_old), status(&mut server, &by_new)), (401, 200));
    fs::write(&file, "half a fi").expect("a file of ours");
    assert_eq!(status(&mut server, &by_new), 200, "what cannot be read changes nothing");
    server.expect_log("keys of the issuer not refreshed");
}

#[test]
fn keys_stay_valid_while_a_fifo_replaces_their_file() {
    let key = SigningKey::ec("a");
    let issuer = Issuer::new("");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("jwks.json");
    fs::write(&file, json!({"keys": [key.public()]}).to_string()).expect("a file of ours");
    let mut server = launch(&issuer, &format!("jwks = \"{}\"", file.display())).start_silent();
    let good = key.token(&issuer.claims(RUN));
    assert_eq!(status(&mut server, &good), 200);
    fs::remove_file(&file).expect("ours to remove");
    make_fifo(&file);
    assert_eq!(status(&mut server, &good), 200);
    assert_eq!(status(&mut server, &SigningKey::ec("b").token(&issuer.claims(RUN))), 401);
    server.expect_log("keys of the issuer not refreshed");
    server.expect_log("FIFO");
}

#[test]
fn an_open_stream_ends_when_its_token_expires() {
    let key = SigningKey::ec("a");
    let issuer = Issuer::with_keys(&[key.public()]);
    let mut server = launch(&issuer, "leeway_s = 0").start_silent();
    let mut claims = issuer.claims(RUN);
    assert_eq!(status(&mut server, &key.token(&claims)), 200, "the keys are known");
    claims["exp"] = json!(seconds_from_now(8));
    let token = key.token(&claims);
    let mut long = HttpConnection::open(server.http().address());
    let request = call("run_command", json!({"command": "sleep 600", "wait_s": 40}));
    long.send(&request.header("Authorization", &format!("Bearer {token}")));
    assert_eq!(long.answer().status, 200, "it has begun");
    let rest = long.rest();
    assert!(!rest.contains("\"result\""), "{rest}");
    assert_eq!(status(&mut server, &token), 401);
}

#[test]
fn only_mapped_claim_values_are_admitted() {
    let key = SigningKey::ec("a");
    let issuer = Issuer::with_keys(&[key.public()]);
    let more = "tenant_claim = \"email\"\ntenants = [\"alice@example.org=alice\", \"root=local\"]";
    let mut server = launch(&issuer, more).start_silent();
    for (email, expected) in [
        (json!("alice@example.org"), 200),
        (json!("root"), 200),
        (json!("alice"), 403),
        (json!("local"), 403),
        (json!(["alice@example.org"]), 401),
    ] {
        let mut claims = issuer.claims(RUN);
        claims["email"] = email.clone();
        assert_eq!(status(&mut server, &key.token(&claims)), expected, "{email}");
    }
}

#[test]
fn static_tokens_work_beside_oauth() {
    let key = SigningKey::ec("a");
    let issuer = Issuer::with_keys(&[key.public()]);
    let mut server = launch(&issuer, "").guarded().start_silent();
    assert_eq!(status(&mut server, token()), 200);
    assert_eq!(status(&mut server, &key.token(&issuer.claims(RUN))), 200);
}

#[test]
fn tokens_for_other_servers_are_refused_by_default() {
    let sandbox = Sandbox::new();
    let config = sandbox.write("c.toml", "[oauth]\nissuer = \"https://id.example.org\"\n");
    let output = run_program(&sandbox, &["serve", "--config", config.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("set oauth.resource"), "{output:?}");
}
