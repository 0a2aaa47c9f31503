//! Completions in the real shells, with the jobs and lanes of a running server.

use std::process::{Command, Output};

use crate::harness::{
    Era, Launch, Sandbox, TestServer, eventually_some, output_of, run_program, tested_program, text,
};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Writes the script of a shell to a file.
fn script(sandbox: &Sandbox, shell: &str) -> std::path::PathBuf {
    let output = run_program(sandbox, &["completions", shell]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    sandbox.write(&format!("script.{shell}"), &text(&output.stdout))
}

/// A shell that finds the program under its name.
fn shell(sandbox: &Sandbox, name: &str) -> Command {
    let program = tested_program();
    let folder = program.parent().expect("a folder").display();
    let mut command = Command::new(name);
    command.env_clear().env("HOME", sandbox.path()).env("LANG", "C.UTF-8");
    command.env("PATH", format!("{folder}:/usr/local/bin:/usr/bin:/bin"));
    command.current_dir(sandbox.work());
    command
}

#[test]
fn the_scripts_are_valid() {
    let sandbox = Sandbox::new();
    for name in SHELLS {
        let file = script(&sandbox, name);
        let checked = Command::new(name).arg("-n").arg(&file).output().expect("the shell");
        assert!(checked.status.success(), "{name}: {checked:?}");
    }
    let unknown = run_program(&sandbox, &["completions", "tcsh"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}

/// The candidates that a shell offers once one of them is wanted: a completion gives up early
/// rather than keep a person waiting, which may happen on a busy machine.
#[track_caller]
fn offered(ask: impl Fn() -> Vec<String>, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    eventually_some("it is offered", || {
        Some(ask()).filter(|found| found.iter().any(|name| is_wanted(name)))
    })
}

fn hosted() -> TestServer {
    Launch::http().era(Era::Modern).config("[queue.lanes.slow]\nslots = 1\n").start()
}

/// The candidates for the last of these words, as bash would offer them.
fn in_bash(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let file = script(sandbox, "bash");
    let mut command = shell(sandbox, "bash");
    let code = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
                _clap_complete_shellyard shellyard \"${!#}\" \"${COMP_WORDS[COMP_CWORD-1]}\" 2>/dev/null; \
                printf '%s\\n' \"${COMPREPLY[@]}\"";
    command.args(["--norc", "-c", code, "bash"]).arg(file).args(words);
    lines(&output_of(command, ""))
}

/// The same in fish, with the explanations.
fn in_fish(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let file = script(sandbox, "fish");
    let mut command = shell(sandbox, "fish");
    let line = words.join(" ");
    command
        .args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"])
        .arg(file)
        .arg(line);
    lines(&output_of(command, ""))
}

/// The same as the script of zsh asks for it.
fn for_zsh(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let mut command = sandbox.command();
    command.env("SHELLYARD_COMPLETE", "zsh").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    command.arg("--").args(words);
    lines(&output_of(command, ""))
}

#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn verbs_and_flags_complete_without_a_server() {
    let sandbox = Sandbox::new();
    for verbs in [in_bash(&sandbox, &["shellyard", "dr"]), in_fish(&sandbox, &["shellyard", "dr"])]
    {
        assert!(verbs.iter().any(|verb| verb.starts_with("drain")), "{verbs:?}");
        assert!(!verbs.iter().any(|verb| verb.starts_with("serve")), "{verbs:?}");
    }
    let flags = in_bash(&sandbox, &["shellyard", "serve", "--tok"]);
    assert!(flags.iter().any(|flag| flag.trim() == "--token-file"), "{flags:?}");
    // No server: no lanes, no message and no hang.
    let nothing = in_bash(&sandbox, &["shellyard", "pause", "--lane", "s"]);
    assert!(nothing.iter().all(String::is_empty), "{nothing:?}");
}

#[test]
fn lanes_of_the_server_complete_in_each_shell() {
    let server = hosted();
    let sandbox = server.sandbox();
    let data = sandbox.data();
    let data = data.to_str().expect("a path");
    let words = ["shellyard", "pause", "--data-dir", data, "--lane", "s"];
    for ask in [in_bash, in_fish, for_zsh] {
        let found = offered(|| ask(sandbox, &words), |lane| lane.starts_with("slow"));
        assert!(!found.iter().any(|lane| lane.starts_with("build")), "{found:?}");
    }
    offered(|| in_fish(sandbox, &words), |lane| lane.contains("0 running, 0 queued"));
}

#[test]
fn job_numbers_complete_in_each_shell() {
    let mut server = hosted();
    let job = server.start("sleep 600").to_string();
    let sandbox = server.sandbox();
    let data = sandbox.data();
    let data = data.to_str().expect("a path");
    for verb in ["stop", "logs", "show", "wait"] {
        let words = ["shellyard", verb, "--data-dir", data, ""];
        offered(|| for_zsh(sandbox, &words), |name| name.starts_with(&job));
    }
    let words = ["shellyard", "stop", "--data-dir", data, &job];
    for ask in [in_bash, in_fish] {
        offered(|| ask(sandbox, &words), |name| name.trim().starts_with(&job));
    }
    offered(|| in_fish(sandbox, &words), |name| name.contains("running: sleep 600"));
}
