//! Rules that cannot be read: the server does not start, and says where and what to do.

use serde_json::Value;

use crate::harness::{Sandbox, output_of, run_program, text};

/// Starts a server with this configuration; it must refuse, in these words, and `config check` does
/// the same.
#[track_caller]
pub(crate) fn refused(config: &str, words: &[&str]) {
    check_refused("config.toml", config, words);
    refused_by_server(config, words);
}

/// Starts a server with this configuration; it must refuse, in these words.
#[track_caller]
pub(crate) fn refused_by_server(config: &str, words: &[&str]) {
    for verb in ["stdio", "serve"] {
        let sandbox = Sandbox::new();
        let file = sandbox.write("config.toml", config);
        let mut command = sandbox.command();
        command.arg(verb).arg("--config").arg(file).arg("--data-dir").arg(sandbox.data());
        if verb == "serve" {
            command.args(["--bind", "127.0.0.1:0"]);
        }
        let output = output_of(command, "");
        let told = text(&output.stderr);
        assert!(!output.status.success(), "{verb} started with {config:?}: {told}");
        for word in words {
            assert!(told.contains(word), "{verb}, {config:?}: `{word}` is missing in: {told}");
        }
    }
}

#[track_caller]
fn check_refused(name: &str, config: &str, words: &[&str]) {
    let sandbox = Sandbox::new();
    let file = sandbox.write(name, config);
    let file = file.to_str().expect("a path");
    let checked = run_program(&sandbox, &["config", "check", file]);
    let json = run_program(&sandbox, &["config", "check", "--json", file]);
    assert_eq!((checked.status.code(), json.status.code()), (Some(1), Some(1)), "{config:?}");
    let answer: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(answer["ok"], false, "{answer}");
    let told = text(&checked.stderr);
    for word in words {
        assert!(told.contains(word), "{config:?}: `{word}` is missing in: {told}");
    }
}

#[test]
fn config_check_refuses_settings_with_which_no_server_starts() {
    let settings = "{\n  \"coreTools\": [\"run_shell_command(git\"]\n}\n";
    check_refused("settings.json", settings, &["settings.json:2", "coreTools[0]"]);
    let oauth = "[oauth]\naudience = \"x\"\n";
    check_refused("config.toml", oauth, &["oauth.issuer"]);
}

#[test]
fn a_bad_regular_expression_is_named_with_file_and_line() {
    let config = "[policy]\n# one good, one bad\ndeny = [\"rm*\", \"re:git (push\"]\n";
    refused(config, &["config.toml:3", "policy.deny[1]", "git (push", "correct"]);
}

#[test]
fn an_unknown_key_is_named_with_file_line_and_what_was_meant() {
    refused("[policy]\nalow = [\"ls\"]\n", &["config.toml:2", "policy.alow", "`policy.allow`"]);
    refused("[redact]\n\npattern = []\n", &["config.toml:3", "redact.pattern", "redact.patterns"]);
}

#[test]
fn a_value_of_the_wrong_kind_is_named_with_file_and_line() {
    refused("[policy]\nuncertain = \"maybe\"\n", &["config.toml:2", "uncertain", "refuse"]);
    refused("[policy]\ndeny = \"rm\"\n", &["config.toml:2", "policy.deny"]);
    refused("[audit]\non_failure = \"ignore\"\n", &["config.toml:2", "on_failure", "count"]);
}

#[test]
fn rules_that_say_nothing_or_name_no_tool_are_refused() {
    refused("[policy]\ndeny = [\"\"]\n", &["config.toml:2", "policy.deny", "empty"]);
    refused(
        "[policy]\ncoreTools = [\"run_shel_command(ls)\"]\n",
        &["config.toml:2", "coreTools[0]", "run_shell_command"],
    );
    refused("[policy]\nallow = [\"[lan=x] ls\"]\n", &["config.toml:2", "policy.allow[0]", "lane="]);
}

#[test]
fn a_bad_redact_pattern_is_named() {
    let config = "[redact]\npatterns = [\"ok\", \"(?<=x)y\"]\n";
    refused(config, &["config.toml:2", "redact.patterns", "(?<=x)y", "secret"]);
}

#[test]
fn a_missing_allowed_directory_is_named() {
    let config = "[policy]\nallowed_directories = [\"/\", \"/no/such/place\"]\n";
    refused(config, &["config.toml:2", "policy.allowed_directories", "/no/such/place", "exists"]);
}

#[test]
fn a_bad_name_in_the_environment_is_named() {
    refused("[environment]\npass = [\"A=b\"]\n", &["config.toml:2", "environment.pass", "A=b"]);
}

#[test]
fn rules_that_could_never_match_are_refused() {
    for (rule, word) in [
        ("[lane=build rm", "[lane=NAME"),
        ("[tenant=] rm", "[tenant=NAME"),
        ("[lane=buidl] rm", "the lanes are default, build, net"),
        ("rm;", "shell line"),
        ("rm && ls", "shell line"),
        ("'rm'", "shell line"),
        ("re:", "empty"),
    ] {
        let config = format!("[policy]\ndeny = [\"{rule}\"]\n");
        refused(&config, &["config.toml:2", "policy.deny[0]", word]);
    }
}
