//! A host that gives no namespaces, as containers do.

use serde_json::Value;

use crate::harness::{Launch, Sandbox, output_of, text};

/// In a user namespace in which no further one may be made.
const WITHOUT_NAMESPACES: [&str; 6] = [
    "unshare",
    "--user",
    "--map-root-user",
    "sh",
    "-c",
    "echo 0 >/proc/sys/user/max_user_namespaces; exec \"$0\" \"$@\"",
];
const FILES: &str = "[confinement]\nprofile = \"workspace-write\"\n";

#[test]
fn without_namespaces_landlock_is_taken_and_replies_say_so() {
    let launch = Launch::stdio().structured().through(&WITHOUT_NAMESPACES);
    let mut server = launch.config(FILES).start();
    let reply = server.run("echo x >mine; echo x >../outside || echo kept");
    assert_eq!(reply["confinement"]["backend"], "landlock", "{}", reply.0);
    assert_eq!(reply["confinement"]["degraded"], false, "{}", reply.0);
    assert!(reply["output"].as_str().is_some_and(|it| it.contains("kept\n")), "{}", reply.0);
    assert!(
        server.work().join("mine").exists() && !server.sandbox().path().join("outside").exists()
    );
}

#[test]
fn the_doctor_says_what_is_missing_and_what_is_used_instead() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("config.toml", FILES);
    let mut command = sandbox.command_through(&WITHOUT_NAMESPACES);
    command.args(["doctor", "--json", "--config"]).arg(file);
    let output = output_of(command, "");
    let answer: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    let findings = answer["findings"].as_array().expect("a list");
    let find = |what| findings.iter().find(|finding| finding["what"] == what).expect("a finding");
    assert_eq!(find("namespaces")["level"], "warn", "{answer}");
    assert_eq!(find("landlock")["level"], "ok", "{answer}");
    let detail = find("confinement")["detail"].as_str().expect("text");
    assert!(detail.starts_with("jobs get workspace-write, network off, by landlock"), "{detail}");
}
