//! Operations that need the role admin, and their refusals for other roles.

use serde_json::{Value, json};

use super::{Hosted, Who};
use crate::harness::{output_of, text};

/// Everything that concerns all tenants.
const OPERATIONS: [&[&str]; 10] = [
    &["jobs", "--all"],
    &["queue"],
    &["pause"],
    &["pause", "--lane", "build"],
    &["resume"],
    &["drain"],
    &["drain", "--exit", "--wait"],
    &["config", "reload"],
    &["log-level"],
    &["log-level", "trace"],
];

#[test]
fn whoever_is_no_operator_changes_nothing_and_is_told_why() {
    let mut hosted = Hosted::start("");
    for who in [Who::Alice, Who::Reader] {
        for operation in OPERATIONS {
            let refused = hosted.ask(who, operation);
            assert_eq!(refused.status.code(), Some(1), "{operation:?}");
            assert_eq!(text(&refused.stdout), "", "{operation:?}");
            let said = text(&refused.stderr);
            assert!(said.contains("the role admin") && said.contains("--token FILE"), "{said}");
            let refused = hosted.ask(who, &[operation, &["--json"]].concat());
            let answer: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
            assert_eq!(answer["code"], "forbidden", "{operation:?}");
            assert_eq!((refused.status.code(), text(&refused.stderr)), (Some(1), String::new()));
        }
    }
    let queue = hosted.json(Who::Admin, &["queue"]);
    assert_eq!((&queue["paused"], &queue["draining"]), (&json!(false), &json!(false)));
    assert_eq!(hosted.audited(), Vec::<String>::new(), "nothing was done");
    hosted.server.assert_alive();
}

#[test]
fn a_token_counts_on_the_socket_too_and_may_come_from_a_file() {
    let mut hosted = Hosted::start("");
    for (secret, code) in [(hosted.alice.clone(), 1), (hosted.admin.clone(), 0)] {
        let file = hosted.server.sandbox().write("token", &format!("# mine\n{secret}\n"));
        let file = file.to_str().expect("a path");
        let output = hosted.ask(Who::Socket, &["pause", "--token", file]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

#[test]
fn a_token_that_is_not_known_is_told_so() {
    let mut hosted = Hosted::start("");
    let address = format!("http://{}", hosted.server.http().address());
    for token in ["", "sy_unknown"] {
        let mut command = hosted.server.sandbox().command();
        command.args(["pause", "--connect", &address]).env("SHELLYARD_TOKEN", token);
        let output = output_of(command, "");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("a valid token is required"), "{said}");
        assert!(said.contains("SHELLYARD_TOKEN") && !said.contains("sy_unknown"), "{said}");
    }
}
