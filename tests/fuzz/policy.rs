//! Command lines, as the policy reads them.

use shellyard_policy::rules::PolicyRule;
use shellyard_policy::{Policy, PolicyDecision, PolicyRequest, RequestedCommand, decide, explain};

use super::mutation::{Plan, Seeds};

fn request(text: &str) -> PolicyRequest<'_> {
    PolicyRequest {
        command: RequestedCommand::Shell(text),
        environment: &[],
        tenant: "local",
        lane: "default",
        shell: None,
    }
}

fn rule(text: &str) -> PolicyRule {
    PolicyRule::parse(text, "fuzz").expect("a rule")
}

fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let request = request(&text);
    let allow = Policy { allow: Some(vec![rule("ls"), rule("git status")]), ..Policy::default() };
    let explanation = explain(&allow, &request);
    assert_eq!(explanation.decision, decide(&allow, &request), "{text:?}");
    for command in &explanation.commands {
        check_denied(&command.program, request);
    }
}

/// A program that was found in a text is found by a rule that denies it.
fn check_denied(program: &str, request: PolicyRequest<'_>) {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if program.is_empty() || !program.chars().all(is_plain) {
        return;
    }
    let deny = Policy { deny: vec![rule(program)], ..Policy::default() };
    let decision = decide(&deny, &request);
    assert!(matches!(decision, PolicyDecision::Deny(_)), "{program}: {decision:?} on {request:?}");
}

#[test]
fn any_text_is_judged_and_every_program_that_is_found_can_be_denied() {
    let seeds = Seeds::load("policy");
    seeds.iter().for_each(check);
    bolero::check!().with_iterations(3_000).for_each(|plan: &[u8]| {
        check(&seeds.mutate(&mut Plan::new(plan)));
    });
}
