//! Changing the log filter of a running server, by the verb and by the API.

use serde_json::{Value, json};

use super::{Hosted, OPERATORS, Who};
use crate::harness::{HttpConnection, HttpRequest, eventually, text};

/// Returns the API's answer to the operator.
#[track_caller]
fn put(hosted: &mut Hosted, body: &str) -> (u16, Value) {
    let request = HttpRequest { method: "PUT", ..HttpRequest::get("/api/v1/log-level") };
    let request = HttpRequest { body: body.into(), ..request }
        .header("Authorization", &format!("Bearer {}", hosted.admin));
    let mut connection = HttpConnection::open(hosted.server.http().address());
    connection.send(&request);
    let answer = connection.answer();
    (answer.status, serde_json::from_str(&answer.text()).expect("JSON"))
}

#[test]
fn the_level_changes_at_once_and_is_taken_back() {
    for who in OPERATORS {
        let mut hosted = Hosted::start("");
        assert_eq!(hosted.ask_for_text(who, &["log-level"]), ("info\n".to_owned(), String::new()));
        hosted.server.run("true");
        assert!(!hosted.server.log_text().contains("DEBUG"), "{}", hosted.server.log_text());

        let (filter, log_text) = hosted.ask_for_text(who, &["log-level", "warn,shellyard=debug"]);
        assert_eq!(filter, "warn,shellyard=debug\n");
        assert!(log_text.contains("`shellyard log-level --reset` restores info"), "{log_text}");
        hosted.server.run("true");
        hosted.server.expect_log("DEBUG shellyard::");

        let answer = hosted.json(who, &["log-level", "--reset"]);
        assert_eq!(answer, json!({"filter": "info", "configured": "info"}));
        let job = hosted.server.start("true");
        hosted.server.wait_finished(job);
        let mark = "info, as configured";
        eventually("the job is told of", || {
            let log_text = hosted.server.log_text();
            log_text.split_once(mark).is_some_and(|(_, after)| after.contains("job finished"))
        });
        let log_text = hosted.server.log_text();
        let (_, after) = log_text.split_once(mark).expect("it is there");
        assert!(!after.contains("DEBUG"), "{after}");

        let by = who.tenant();
        hosted.assert_audited(&format!("log_filter_changed: warn,shellyard=debug (by {by})"));
        hosted.assert_audited(&format!("log_filter_changed: info, as configured (by {by})"));
    }
}

#[test]
fn a_level_for_a_time_ends_with_it() {
    let mut hosted = Hosted::start("");
    let answer = hosted.json(Who::Admin, &["log-level", "debug", "--for", "10m"]);
    assert_eq!((&answer["filter"], &answer["configured"]), (&json!("debug"), &json!("info")));
    assert!((1..=600).contains(&answer["for_s"].as_u64().expect("a number")), "{answer}");
    hosted.assert_audited("log_filter_changed: debug for 600s (by ops)");
    let (status, _) = put(&mut hosted, r#"{"filter": "trace", "for_s": 0.2}"#);
    assert_eq!(status, 200);
    hosted.server.expect_log("configured log filter restored");
    assert_eq!(
        hosted.json(Who::Admin, &["log-level"]),
        json!({"filter": "info", "configured": "info"})
    );
}

#[test]
fn what_is_no_filter_or_no_time_changes_nothing() {
    let mut hosted = Hosted::start("");
    hosted.ask_for_text(Who::Admin, &["log-level", "debug"]);
    for who in OPERATORS {
        let refused = hosted.ask(who, &["log-level", "shellyard=loud"]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("`shellyard=loud` is not a log filter"), "{said}");
        assert!(said.contains("the old filter stays in force"), "{said}");
    }
    // It would be taken for a part of the program, and silence all others.
    let refused = hosted.ask(Who::Admin, &["log-level", "debgu"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("did you mean `debug`?"), "{refused:?}");
    for (body, code) in [
        (r#"{"filter": "a=b=c"}"#, "log_filter"),
        (r#"{"filter": ""}"#, "log_filter"),
        (r#"{"filter": "trace", "for_s": 0}"#, "bad_body"),
        (r#"{"for_s": 5}"#, "bad_body"),
        (r#"{"level": "trace"}"#, "bad_body"),
        (r#"["trace"]"#, "bad_body"),
    ] {
        let (status, answer) = put(&mut hosted, body);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{body}");
    }
    assert_eq!(hosted.json(Who::Admin, &["log-level"])["filter"], "debug");
    hosted.assert_audited("log_filter_changed: debug (by ops)");
    assert_eq!(hosted.audited().len(), 1);
    for wrong in [&["--for", "10m"][..], &["debug", "--for", "10"], &["debug", "--reset"]] {
        let refused = hosted.ask(Who::Admin, &[&["log-level"], wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}
