//! The forms of the configurations, and expressions.

use super::{CoreTools, Match, Rule, Side, blocked_commands, core_tools, exclude_tools, wildcards};
use crate::command::{SimpleCommand, Word};

fn command(text: &str) -> SimpleCommand {
    SimpleCommand::of(text.split_whitespace().map(Word::literal).collect()).unwrap()
}

fn texts(rules: &[Rule]) -> Vec<(&str, &str)> {
    rules.iter().map(|rule| (rule.text(), rule.place())).collect()
}

#[test]
fn wildcards_are_separated_by_commas() {
    let rules = wildcards("--deny", "rm*, sudo*,chmod").unwrap();
    assert_eq!(
        texts(&rules),
        [("rm*", "--deny[0]"), ("sudo*", "--deny[1]"), ("chmod", "--deny[2]")]
    );
    assert_eq!(rules[0].matches(&command("rmdir x"), Side::Deny), Match::Yes);
    assert_eq!(rules[2].matches(&command("chmodx"), Side::Deny), Match::No);
    assert_eq!(wildcards("--deny", "rm,,sudo").unwrap_err().code(), "rule_empty");
}

#[test]
fn blocked_commands_may_have_arguments() {
    let rules = blocked_commands("policy.blocked_commands", ["rm -rf", "format", "dd"]).unwrap();
    assert_eq!(rules[0].matches(&command("rm -f -r x"), Side::Deny), Match::Yes);
    assert_eq!(rules[0].matches(&command("rm x"), Side::Deny), Match::No);
    assert_eq!(rules[0].place(), "policy.blocked_commands[0]");
}

#[test]
fn core_tools_restrict_the_shell_tool_and_ignore_others() {
    let CoreTools::Only(rules) =
        core_tools(["read_file", "run_shell_command(git status)", "ShellTool(npm)"]).unwrap()
    else {
        panic!("a restricted tool")
    };
    assert_eq!(
        texts(&rules),
        [("git status", "policy.coreTools[1]"), ("npm", "policy.coreTools[2]")]
    );
    assert!(matches!(core_tools(["run_shell_command"]).unwrap(), CoreTools::Everything));
    let CoreTools::Only(none) = core_tools(["read_file"]).unwrap() else { panic!("left out") };
    assert!(none.is_empty());
}

#[test]
fn exclude_tools_deny_prefixes_or_everything() {
    let rules = exclude_tools(["run_shell_command(git push)", "run_shell_command"]).unwrap();
    assert_eq!(rules[0].matches(&command("git push origin"), Side::Deny), Match::Yes);
    assert_eq!(rules[0].matches(&command("git status"), Side::Deny), Match::No);
    assert_eq!(rules[1].matches(&command("anything"), Side::Deny), Match::Yes);
}

#[test]
fn a_mistyped_or_malformed_tool_is_an_error_with_a_suggestion() {
    let mistyped = exclude_tools(["run_shel_command(rm)"]).unwrap_err();
    assert_eq!(mistyped.code(), "rule_unknown_tool");
    assert!(mistyped.to_string().contains("run_shell_command"), "{mistyped}");
    for entry in ["run_shell_command(rm", "run_shell_command()"] {
        assert_eq!(exclude_tools([entry]).unwrap_err().code(), "rule_malformed", "{entry}");
    }
}

#[test]
fn an_expression_sees_the_command_as_one_line() {
    let rule = Rule::regex("^curl .*evil", "policy.deny[0]").unwrap();
    assert_eq!(rule.matches(&command("/usr/bin/curl -s http://evil"), Side::Deny), Match::Yes);
    assert_eq!(rule.matches(&command("curl http://good"), Side::Deny), Match::No);
    assert_eq!(rule.matches(&command("./curl http://evil"), Side::Allow), Match::No);
    assert_eq!(Rule::regex("(", "policy.deny[1]").unwrap_err().code(), "rule_regex");
}
