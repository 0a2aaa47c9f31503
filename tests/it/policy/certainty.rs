//! Lines that cannot be judged by reading them, beside a deny list; and the locale of judged lines.

use serde_json::json;

use crate::harness::{Launch, TestServer};

const CONFINE: &str = "[policy]\ndeny = [\"rm\"]\nuncertain = \"confine\"\n";
const DENY: &str = "[policy]\ndeny = [\"rm\"]\n";
const ALLOW: &str = "[policy]\nallow = [\"echo\", \"printenv\"]\n";

/// The name of a command is known only when this runs.
const UNCERTAIN: &str = "x=echo; $x seen; echo x > made";

#[track_caller]
fn refusal(server: &mut TestServer, command: &str) -> String {
    let reply = server.call("run_command", json!({"command": command}));
    assert!(reply.is_error(), "{command:?} ran: {}", reply.0);
    reply.text()
}

#[test]
fn an_uncertain_line_runs_read_only_and_the_reply_says_so() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(CONFINE).start();
        let reply = server.call("run_command", json!({"command": UNCERTAIN}));
        let text = reply.text();
        assert!(reply["output"].as_str().is_some_and(|it| it.contains("seen")), "{}", reply.0);
        assert!(text.contains("confined: read-only, no network"), "{text}");
        assert!(text.contains("sandboxed because the name of a command"), "{text}");
        let confinement = &reply["confinement"];
        assert_eq!(
            (&confinement["profile"], &confinement["network"]),
            (&json!("read-only"), &json!("off"))
        );
        let why = confinement["because"].as_str();
        assert!(why.is_some_and(|it| it.contains("the name of a command")));
        assert!(!server.work().join("made").exists(), "it wrote to its workspace");
    }
}

#[test]
fn a_line_that_is_certain_is_judged_as_before_where_others_are_confined() {
    let mut server = Launch::stdio().structured().config(CONFINE).start();
    let told = refusal(&mut server, "rm made");
    assert!(told.contains("`rm` matches deny rule"), "{told}");
    let reply = server.call("run_command", json!({"command": "echo a > out.txt"})).ok();
    assert_eq!(reply["confinement"]["profile"], "default");
    assert!(server.work().join("out.txt").exists());
}

#[test]
fn an_uncertain_line_is_refused_by_default_and_the_construct_is_named() {
    let mut server = Launch::stdio().structured().config(DENY).start();
    for (line, construct) in [
        (UNCERTAIN, "the name of a command"),
        ("eval \"$x\"", "the text of `eval`"),
        ("RANDOM='a[$(touch made)]'", "a value used in arithmetic"),
        ("echo 'made", "a quote without its end"),
    ] {
        let told = refusal(&mut server, line);
        assert!(told.contains(construct), "{line:?}: {told}");
        assert!(!server.work().join("made").exists(), "{line:?} was run");
    }
}

#[test]
fn judged_text_is_read_in_a_fixed_locale() {
    let mut server = Launch::stdio().structured().config(ALLOW).start();
    let reply = server.call("run_command", json!({"command": "printenv LC_ALL"})).ok();
    assert_eq!(reply["output"], "C.UTF-8\n");
    let chosen = json!({"command": "printenv LC_ALL", "env": {"LC_ALL": "C"}});
    assert_eq!(server.call("run_command", chosen).ok()["output"], "C\n");
}
