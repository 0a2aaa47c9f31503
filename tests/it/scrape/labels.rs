//! Nothing that comes from outside becomes a label.

use serde_json::{Value, json};

use super::{call, modern, series};
use crate::harness::{Era, HttpConnection, HttpRequest, Launch, TestServer, run_program};

/// A word that nobody but this test knows.
const ODD: &str = "zq7-odd";

/// Makes a token of this tenant.
fn token(server: &TestServer, tenant: &str, role: &str) -> String {
    let data = server.sandbox().data();
    let data = data.to_str().expect("a path");
    let arguments = ["token", "new", "--json", tenant, "--role", role, "--data-dir", data];
    let output = run_program(server.sandbox(), &arguments);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["token"].as_str().expect("a token").to_owned()
}

#[track_caller]
fn answered(server: &mut TestServer, request: HttpRequest, token: &str) -> String {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&request.header("Authorization", &format!("Bearer {token}")));
    connection.answer().text()
}

/// Requests that name everything oddly that can be named.
fn oddities() -> Vec<HttpRequest> {
    vec![
        call("run_command", json!({"command": format!("echo {ODD}\"}} 1\n{ODD}")})),
        call("run_command", json!({"command": format!("/{ODD}/{ODD}"), "args": ["x"]})),
        call("run_command", json!({"command": "exit 77", "cwd": "/tmp", "key": ODD})),
        call("run_command", json!({"command": "true", "cwd": format!("/{ODD}")})),
        call("run_command", json!({"command": "true", "lane": ODD})),
        call("run_command", json!({"command": "true", "env": {ODD: ODD}, "description": ODD})),
        call("run_command", json!({"command": "kill -9 $$", "lane": "build"})),
        call("read_output", json!({"job": 424_242, "grep": ODD})),
        call(ODD, json!({})),
        modern(ODD, json!({})),
        modern("resources/read", json!({"uri": format!("shellyard://jobs/{ODD}/output")})),
        HttpRequest::get(&format!("/{ODD}")),
        HttpRequest::get(&format!("/api/v1/jobs/{ODD}")).header("Origin", &format!("http://{ODD}")),
    ]
}

#[test]
fn odd_commands_tenants_tools_and_paths_add_no_series() {
    let config = "[tenants.ci]\nweight = 2\n";
    let mut server = Launch::http().era(Era::Modern).config(config).start();
    let admin = token(&server, "ci", "admin");
    let strangers = [format!("{ODD}@one"), format!("{ODD}/two")];
    let strangers = strangers.map(|tenant| token(&server, &tenant, "run"));
    let mut ask_everything = || {
        for token in strangers.iter().chain([&admin]) {
            for request in oddities() {
                answered(&mut server, request, token);
            }
        }
        answered(&mut server, HttpRequest::get("/metrics"), &admin)
    };
    // The first requests register the series of their tools and methods.
    let before = ask_everything();
    let after = ask_everything();
    assert_eq!(series(&after), series(&before));
    assert!(
        !after.contains(ODD) && !after.contains("424242") && !after.contains("/tmp"),
        "{after}"
    );
    for (metric, least) in [("submitted", 5.0), ("rejected", 1.0), ("finished", 5.0)] {
        let of = |tenant| {
            let series = format!("shellyard_tenant_jobs_{metric}_total{{tenant=\"{tenant}\"}}");
            super::value(&after, &series)
        };
        assert!(of("ci") >= least, "{metric}: {}", of("ci"));
        assert_eq!((of("other"), of("local")), (2.0 * of("ci"), 0.0), "{metric}");
    }
}
