//! The server holds its rules: what is refused did not run, what is only data does not matter.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Launch, Reply, Sandbox, TestServer, run_program, text};

const NO_RM: &str = "[policy]\ndeny = [\"rm*\"]\n";
const NO_TOUCH: &str = "[policy]\ndeny = [\"touch\"]\n";

/// Runs a command of which nothing may run: `made` must not be there afterwards.
#[track_caller]
fn refused(server: &mut TestServer, arguments: Value) -> Reply {
    let reply = server.call("run_command", arguments.clone());
    assert!(reply.is_error(), "{arguments} ran: {}", reply.0);
    assert_eq!(reply["outcome"], "refused", "{arguments}");
    assert!(reply.text().starts_with("refused, nothing was run: "), "{}", reply.text());
    assert!(!server.work().join("made").exists(), "{arguments} was run all the same");
    reply
}

#[track_caller]
fn ran(server: &mut TestServer, arguments: Value) -> Reply {
    server.call("run_command", arguments).ok()
}

#[test]
fn a_refusal_names_the_command_the_rule_and_its_place() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(NO_RM).start();
        let reply = refused(&mut server, json!({"command": "touch made; rm -rf x"}));
        let told = "refused, nothing was run: `rm` matches deny rule \"rm*\" (policy.deny[0])";
        assert_eq!(reply.text(), told);
        assert_eq!(reply["error_code"], "denied", "{}", reply.0);
        server.assert_alive();
    }
}

#[test]
fn a_denied_command_is_found_wherever_it_stands() {
    let lines = [
        "touch made",
        "/usr/bin/touch made",
        "true && touch made",
        "true; touch made",
        "true\ntouch made",
        "true & touch made",
        "false || touch made",
        "true | touch made",
        "(touch made)",
        "{ touch made; }",
        "if true; then touch made; fi",
        "for i in 1; do touch made; done",
        "f() { touch made; }; f",
        "echo $(touch made)",
        "echo \"`touch made`\"",
        "echo $(echo $(touch made))",
        "cat <(touch made)",
        "cat <<E\n$(touch made)\nE",
        "A=$(touch made) true",
        "t''ouch made",
        "\\touch made",
        "env touch made",
        "env -i A=b touch made",
        "command touch made",
        "exec touch made",
        "nohup touch made",
        "timeout 5 touch made",
        "nice -n 3 touch made",
        "echo made | xargs touch",
        "find . -maxdepth 0 -exec touch made \\;",
        "sh -c 'touch made'",
        "bash -lc 'true; touch made'",
        "eval 'touch made'",
        "git -c alias.x='!touch made' x",
    ];
    for launch in Launch::both() {
        let mut server = launch.structured().config(NO_TOUCH).start();
        for line in lines {
            let reply = refused(&mut server, json!({"command": line}));
            let text = reply.text();
            assert!(text.contains("deny rule \"touch\" (policy.deny[0])"), "{line:?}: {text}");
        }
        for arguments in [
            json!({"command": "touch", "args": ["made"]}),
            json!({"command": "env", "args": ["touch", "made"]}),
            json!({"command": "sh", "args": ["-c", "touch made"]}),
        ] {
            refused(&mut server, arguments);
        }
        // The same command runs where no rule is against it: what was refused could have run.
        let mut free = Launch::stdio().start();
        free.run("touch made");
        assert!(free.work().join("made").exists());
    }
}

#[test]
fn data_is_not_a_command() {
    let mut server = Launch::stdio().structured().config(NO_RM).start();
    for line in ["echo \"rm -rf\"", "echo 'a; rm x'", "cat <<'E'\nrm -rf x\n$(rm x)\nE\n"] {
        let reply = ran(&mut server, json!({"command": line}));
        assert!(reply["output"].as_str().is_some_and(|text| text.contains("rm")), "{}", reply.0);
    }
    let commit = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty \
                  -m \"a && rm b\" && git log --format=%s";
    let mut server =
        Launch::stdio().structured().config("[policy]\ndeny = [\"rm*\", \"b\"]\n").start();
    assert_eq!(ran(&mut server, json!({"command": commit}))["output"], "a && rm b\n");
    let heredoc = json!({"command": "cat <<E\nrm -rf x\nE"});
    assert_eq!(ran(&mut server, heredoc)["output"], "rm -rf x\n");
    let stdin = json!({"command": "cat", "stdin": "rm -rf x\n"});
    assert_eq!(ran(&mut server, stdin)["output"], "rm -rf x\n");
}

#[test]
fn an_allow_list_lets_only_listed_programs_run() {
    let config = "[policy]\nallow = [\"echo\", \"git status\", \"ls\"]\n";
    for launch in Launch::both() {
        let mut server = launch.structured().config(config).start();
        assert_eq!(ran(&mut server, json!({"command": "echo a && ls"}))["output"], "a\n");
        for line in ["touch made", "echo a; touch made", "echo $(touch made)", "ls\ntouch made"] {
            let text = refused(&mut server, json!({"command": line})).text();
            assert!(text.contains("`touch` is not on the allow list"), "{line:?}: {text}");
        }
        let other = refused(&mut server, json!({"command": "git push"})).text();
        assert!(other.contains("`git` is not on the allow list"), "{other}");
    }
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let lines = [
        "CMD=touch; $CMD made",
        "C='touch made'; eval \"$C\"",
        ". ./script",
        "source ./script",
        "echo 'touch made' | sh",
        "touch 'unclosed",
        "$(echo touch) made",
    ];
    let mut server = Launch::stdio().structured().config(NO_RM).start();
    fs::write(server.work().join("script"), "touch made\n").expect("a file of ours");
    for line in lines {
        let reply = refused(&mut server, json!({"command": line}));
        assert_eq!(reply["error_code"], "uncertain", "{line:?}: {}", reply.0);
    }
    // What a shell reads from its input is as unknown as a script.
    refused(&mut server, json!({"command": "sh", "stdin": "touch made\n"}));
    refused(&mut server, json!({"command": "true", "env": {"BASH_ENV": "./script"}}));
}

#[test]
fn what_an_interpreter_does_with_a_file_is_its_own_affair() {
    let mut server = Launch::stdio().structured().config(NO_TOUCH).start();
    fs::write(server.work().join("script"), "touch made\n").expect("a file of ours");
    ran(&mut server, json!({"command": "sh ./script"}));
    assert!(server.work().join("made").exists(), "a deny list is no boundary");
    let config = "[policy]\nallow = [\"touch\", \"ls\"]\n";
    let mut server = Launch::stdio().structured().config(config).start();
    fs::write(server.work().join("script"), "touch made\n").expect("a file of ours");
    ran(&mut server, json!({"command": "sh ./script"}));
    assert!(server.work().join("made").exists(), "what a listed program does is its own affair");
}

#[test]
fn what_cannot_be_judged_runs_where_a_setting_says_so() {
    let config = "[policy]\ndeny = [\"rm*\"]\nuncertain = \"allow\"\n";
    let mut server = Launch::stdio().structured().config(config).start();
    assert_eq!(ran(&mut server, json!({"command": "C='echo hi'; $C"}))["output"], "hi\n");
    let text = refused(&mut server, json!({"command": "eval x; rm y"})).text();
    assert!(text.contains("deny rule"), "what is found still counts: {text}");
}

#[test]
fn the_forms_of_other_tools_are_the_same_rules() {
    let config = "[policy]\ncoreTools = [\"run_shell_command(git status)\", \
                  \"run_shell_command(echo)\", \"run_shell_command(touch)\"]\n\
                  excludeTools = [\"run_shell_command(touch)\"]\n\
                  blocked_commands = [\"echo secret\"]\n";
    let mut server = Launch::stdio().structured().config(config).start();
    assert_eq!(ran(&mut server, json!({"command": "echo a"}))["output"], "a\n");
    let unlisted = refused(&mut server, json!({"command": "ls"})).text();
    assert!(unlisted.contains("`ls` is not on the allow list"), "{unlisted}");
    let excluded = refused(&mut server, json!({"command": "echo; touch made"})).text();
    assert!(excluded.contains("excludeTools[0]"), "deny wins over allow: {excluded}");
    let blocked = refused(&mut server, json!({"command": "echo secret x"})).text();
    assert!(blocked.contains("blocked_commands[0]"), "{blocked}");
}

#[test]
fn a_rule_holds_for_its_lanes_only() {
    let config = "[policy]\ndeny = [\"[lane=build] touch\"]\n";
    let mut server = Launch::stdio().structured().config(config).start();
    refused(&mut server, json!({"command": "touch made", "lane": "build"}));
    ran(&mut server, json!({"command": "touch made", "lane": "net"}));
    ran(&mut server, json!({"command": "touch made"}));
    assert!(server.work().join("made").exists());
}

#[test]
fn an_ask_rule_refuses_and_says_how_to_allow() {
    let config = "[policy]\nask = [\"touch\"]\n";
    for launch in Launch::both() {
        let mut server = launch.structured().config(config).start();
        let reply = refused(&mut server, json!({"command": "true; touch made"}));
        let text = reply.text();
        assert!(text.contains("`touch` matches ask rule \"touch\" (policy.ask[0])"), "{text}");
        assert!(text.contains("take the rule out of policy.ask"), "{text}");
        assert_eq!(reply["error_code"], "needs_approval", "{}", reply.0);
        server.assert_alive();
    }
}

#[test]
fn judged_text_is_run_by_bash_without_start_up_files() {
    let config = "[policy]\ndeny = [\"rm*\"]\n[environment]\ninherit = \"all\"\n\
                  pass = [\"BASH_ENV\", \"ENV\"]\n";
    let startup = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(startup.path(), "echo started\n").expect("a file of ours");
    let file = startup.path().to_str().expect("a path of ours");
    let launch = Launch::stdio().structured().config(config);
    let mut server = launch.env("BASH_ENV", file).env("ENV", file).start();
    let profile = server.sandbox().path().join("home/.bashrc");
    fs::write(profile, "echo started\n").expect("a file of ours");
    let reply = ran(&mut server, json!({"command": "echo ${BASH_VERSION:+bash}"}));
    assert_eq!(reply["output"], "bash\n", "even a line of plain words: {}", reply.0);
}

#[test]
fn run_from_the_command_line_is_held_to_the_same_rules() {
    let sandbox = Sandbox::new();
    let config = sandbox.write("config.toml", NO_TOUCH);
    let config = config.to_str().expect("a path of ours");
    let arguments = ["run", "--config", config, "--", "sh", "-c", "touch made"];
    let output = run_program(&sandbox, &arguments);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.contains("`touch` matches deny rule \"touch\" (policy.deny[0])"), "{told}");
    assert!(!sandbox.work().join("made").exists());
}
