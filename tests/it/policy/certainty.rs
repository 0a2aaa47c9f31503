//! Beside an allow list: lines that cannot be proven, files behind links, and the locale.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::harness::{Launch, TestServer};

const CONFINE: &str = "[policy]\nallow = [\"echo\", \"printenv\"]\nuncertain = \"confine\"\n";
const ECHO: &str = "[policy]\nallow = [\"echo\", \"printenv\", \"sh\"]\n";

/// A function is beyond what an allow list accepts, whatever is in it.
const UNCERTAIN: &str = "f() { echo seen; echo x > made; }; f";

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
        assert!(text.contains("sandboxed because a function"), "{text}");
        let confinement = &reply["confinement"];
        assert_eq!(
            (&confinement["profile"], &confinement["network"]),
            (&json!("read-only"), &json!("off"))
        );
        assert!(confinement["because"].as_str().is_some_and(|it| it.contains("a function")));
        assert!(!server.work().join("made").exists(), "it wrote to its workspace");
    }
}

#[test]
fn a_line_that_is_certain_is_judged_as_before_where_others_are_confined() {
    let mut server = Launch::stdio().structured().config(CONFINE).start();
    let told = refusal(&mut server, "touch made");
    assert!(told.contains("`touch` is not on the allow list"), "{told}");
    let reply = server.call("run_command", json!({"command": "echo a > out.txt"})).ok();
    assert_eq!(reply["confinement"]["profile"], "default");
    assert_eq!(fs::read_to_string(server.work().join("out.txt")).ok().as_deref(), Some("a\n"));
}

#[test]
fn an_uncertain_line_is_refused_by_default_and_the_construct_is_named() {
    let mut server = Launch::stdio().structured().config(ECHO).start();
    for (line, construct) in [
        (UNCERTAIN, "a function"),
        ("RANDOM='a[$(touch made)]'", "setting RANDOM"),
        ("x='($(touch made))'; declare -a a=$x", "the builtin `declare`"),
        ("echo -{e.\\\n.e}xec", "braces"),
        ("LC_ALL=zh_CN.gbk echo x", "setting LC_ALL"),
    ] {
        let told = refusal(&mut server, line);
        assert!(told.contains(construct), "{line:?}: {told}");
        assert!(!server.work().join("made").exists(), "{line:?} was run");
    }
}

#[test]
fn a_file_is_judged_by_where_its_links_lead() {
    let mut server = Launch::stdio().structured().config(ECHO).start();
    let work = server.work();
    fs::create_dir_all(work.join(".git/hooks")).expect("a directory of ours");
    fs::create_dir(work.join("plain")).expect("a directory of ours");
    fs::write(work.join(".git/config"), "old").expect("a file of ours");
    symlink(".git/config", work.join("note.txt")).expect("a link of ours");
    symlink(".git/hooks", work.join("dir")).expect("a link of ours");
    symlink("../.git/hooks/pre-commit", work.join("plain/new.txt")).expect("a link of ours");
    symlink("/", work.join("root")).expect("a link of ours");
    for target in ["note.txt", "dir/x.txt", "plain/new.txt", "root/srv-made.txt", ".git/config"] {
        let told = refusal(&mut server, &format!("echo x > {target}"));
        assert!(told.contains("writing to"), "{target}: {told}");
    }
    assert_eq!(fs::read_to_string(work.join(".git/config")).ok().as_deref(), Some("old"));
    assert!(!work.join(".git/hooks/pre-commit").exists());
    server.call("run_command", json!({"command": "echo x > plain/a.txt"})).ok();
}

#[test]
fn a_line_does_not_write_what_it_runs() {
    let mut server = Launch::stdio().structured().config(ECHO).start();
    let told = refusal(&mut server, "echo 'touch made' > s.sh; sh s.sh");
    assert!(told.contains("a line that writes s.sh and runs s.sh"), "{told}");
    assert!(!server.work().join("made").exists());
}

#[test]
fn judged_text_is_read_in_a_fixed_locale() {
    let mut server = Launch::stdio().structured().config(ECHO).start();
    let reply = server.call("run_command", json!({"command": "printenv LC_ALL"})).ok();
    assert_eq!(reply["output"], "C.UTF-8\n");
    let chosen = json!({"command": "printenv LC_ALL", "env": {"LC_ALL": "C"}});
    assert_eq!(server.call("run_command", chosen).ok()["output"], "C\n");
    let other = json!({"command": "echo a", "env": {"LC_ALL": "zh_CN.gbk"}});
    assert!(server.call("run_command", other).is_error());
}
