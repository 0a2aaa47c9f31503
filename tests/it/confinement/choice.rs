//! The choice of a sandbox: settings, then lane and tenant, then a call that can only tighten.

use serde_json::{Value, json};

use crate::harness::{Launch, Reply, TestServer};

/// A tenant whose jobs are shut in, on a host that need not be able to.
const TIGHT: &str = "[confinement]\nprofile = \"workspace-write\"\nbackend = \"seccomp\"\n\
                     on_unavailable = \"degrade\"\n[limits]\nprocesses = 100\nnice = 5\n";

#[track_caller]
fn refused(server: &mut TestServer, arguments: Value, code: &str) -> String {
    let reply = server.call("run_command", arguments.clone());
    assert!(reply.is_error(), "{arguments} ran: {}", reply.0);
    assert_eq!(reply["outcome"], "refused", "{arguments}");
    assert_eq!(reply["error_code"], code, "{arguments}");
    assert!(!server.work().join("made").exists(), "{arguments} was run all the same");
    reply.text()
}

#[track_caller]
fn ran(server: &mut TestServer, arguments: Value) -> Reply {
    server.call("run_command", arguments).ok()
}

/// Returns the sandbox that a job asked for in the end.
fn requested_sandbox(reply: &Reply) -> (Value, Value) {
    let confinement = &reply["confinement"];
    let asked = confinement.get("asked").unwrap_or(confinement);
    (asked["profile"].clone(), asked["network"].clone())
}

#[test]
fn a_call_that_would_loosen_is_refused_and_told_what_its_tenant_has() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(TIGHT).start();
        for (asked, words) in [
            (json!({"confinement": "none"}), "tenant local in lane default have confinement"),
            (json!({"confinement": "default"}), "have confinement workspace-write"),
            (json!({"network": "on"}), "have network off"),
            (json!({"confinement": "read-only", "network": "on"}), "have network off"),
            (json!({"limits": {"processes": 101}}), "have processes 100"),
            (json!({"limits": {"nice": 4}}), "have nice 5"),
        ] {
            let mut arguments = asked;
            arguments["command"] = "touch made".into();
            let told = refused(&mut server, arguments.clone(), "confinement_loosened");
            assert!(told.contains(words) && told.contains("only tighten"), "{arguments}: {told}");
        }
        let tighter = json!({"command": "true", "confinement": "read-only", "limits":
            {"processes": 50, "memory": "1 GB", "cpu_s": 60, "file_size": 4096, "nice": 5}});
        assert_eq!(
            requested_sandbox(&ran(&mut server, tighter)),
            ("read-only".into(), "off".into())
        );
    }
}

#[test]
fn what_a_tenant_or_a_lane_says_replaces_what_holds_for_all() {
    let own = "[tenants.local]\nconfinement = \"none\"\nprocesses = \"none\"\n\
               [queue.lanes.net]\nnetwork = \"off\"\n";
    let mut server = Launch::stdio().structured().config(&format!("{TIGHT}{own}")).start();
    let plain = ran(&mut server, json!({"command": "true"}));
    assert_eq!(requested_sandbox(&plain), ("none".into(), "on".into()));
    let in_lane = ran(&mut server, json!({"command": "true", "lane": "net"}));
    assert_eq!(requested_sandbox(&in_lane), ("none".into(), "off".into()));
    let more = json!({"command": "true", "limits": {"processes": 5000}});
    ran(&mut server, more);
    let online = json!({"command": "touch made", "lane": "net", "network": "on"});
    let told = refused(&mut server, online, "confinement_loosened");
    assert!(told.contains("in lane net have network off"), "{told}");
}

#[test]
fn what_this_host_cannot_give_is_refused() {
    let config = "[confinement]\nbackend = \"seccomp\"\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let wish = json!({"command": "touch made", "confinement": "read-only"});
    let told = refused(&mut server, wish, "confinement_unavailable");
    assert!(told.contains("no namespaces") && told.contains("no Landlock"), "{told}");
    ran(&mut server, json!({"command": "true", "network": "off"}));
}

#[test]
fn an_invalid_request_is_refused_by_name() {
    let mut server = Launch::stdio().structured().start();
    for (asked, word) in [
        (json!({"confinement": "jail"}), "read-only"),
        (json!({"network": "auto"}), "one of on, off"),
        (json!({"limits": {"memroy": 1}}), "did you mean `memory`?"),
        (json!({"limits": {"memory": "lots"}}), "2 GB"),
    ] {
        let mut arguments = asked;
        arguments["command"] = "touch made".into();
        let reply = server.call("run_command", arguments.clone());
        assert!(reply.is_error() && reply.text().contains(word), "{arguments}: {}", reply.0);
    }
    assert!(!server.work().join("made").exists());
}

#[test]
fn files_are_not_written_for_callers_whose_jobs_may_not() {
    let dialect = "[mcp]\ndialects = [\"execute_command\"]\n";
    let write = json!({"path": "made", "content": "x"});
    let mut server = Launch::stdio().config(&format!("{TIGHT}{dialect}")).start();
    assert!(!server.call("write_file", write.clone()).is_error());
    let tighter = TIGHT.replace("workspace-write", "read-only");
    let mut server = Launch::stdio().config(&format!("{tighter}{dialect}")).start();
    let reply = server.call("write_file", write);
    assert!(reply.0.to_string().contains("confinement read-only"), "{}", reply.0);
    assert!(!server.work().join("made").exists());
}

#[test]
fn a_reload_takes_a_new_profile_over_or_keeps_the_old_one() {
    let mut server =
        Launch::http().structured().config("[confinement]\nprofile = \"none\"\n").start();
    let profile =
        |server: &mut TestServer| requested_sandbox(&ran(server, json!({"command": "true"}))).0;
    assert_eq!(profile(&mut server), "none");
    let file = server.sandbox().path().join("config.toml");
    let rewrite = |text: &str| std::fs::write(&file, text).expect("a file of ours");
    rewrite("[confinement]\nprofile = \"default\"\n");
    server.signal(rustix::process::Signal::HUP);
    server.expect_log("settings reloaded");
    assert_eq!(profile(&mut server), "default");
    rewrite("[confinement]\nprofile = \"read-only\"\nbackend = \"none\"\n");
    server.signal(rustix::process::Signal::HUP);
    server.expect_log("on_unavailable");
    assert_eq!(profile(&mut server), "default");
}
