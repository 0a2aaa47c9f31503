//! Why a decision came out as it did: each command found, and the rule that speaks about it.

use super::command::SimpleCommand;
use super::decide::{Decision, Lists, Policy, Reading, Request, Verdict};
use super::rules::{Match, Rule};

/// A rule, as an explanation names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleName {
    /// The rule as written.
    pub text: String,
    /// Where it was written.
    pub place: String,
}

impl From<&Rule> for RuleName {
    fn from(rule: &Rule) -> Self {
        Self { text: rule.text().to_owned(), place: rule.place().to_owned() }
    }
}

/// What the rules say about one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// A deny rule matches.
    Denied(RuleName),
    /// A deny rule matches if a value turns out so.
    MayBeDenied(RuleName),
    /// A rule of the allow list matches.
    Allowed(RuleName),
    /// Somebody must agree.
    Asks(RuleName),
    /// There is an allow list, and no rule of it matches.
    NotListed,
    /// No rule speaks about it, and none needs to.
    Free,
}

/// One command that would be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The program as written.
    pub program: String,
    /// The whole command, quotes removed.
    pub command: String,
    /// The constructs and programs around it, outermost first.
    pub path: Vec<String>,
    /// What the rules say.
    pub opinion: Opinion,
}

/// Everything behind a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Each command found, in the order of the text.
    pub findings: Vec<Finding>,
    /// Why the text cannot be judged by reading it, if so.
    pub uncertain: Option<String>,
    /// The decision.
    pub decision: Decision,
}

/// Decides on a request and says why.
#[must_use]
pub fn explain(policy: &Policy, request: &Request<'_>) -> Explanation {
    let reading = Reading::new(policy, request);
    let found = reading.found();
    let finding = |command: &SimpleCommand| Finding {
        program: command.program.to_string(),
        command: command.to_string(),
        path: command.path.iter().map(ToString::to_string).collect(),
        opinion: opinion(&reading.lists, command),
    };
    Explanation {
        findings: found.commands.iter().map(finding).collect(),
        uncertain: found.uncertain.as_ref().map(ToString::to_string),
        decision: reading.decision(),
    }
}

fn opinion(lists: &Lists<'_>, command: &SimpleCommand) -> Opinion {
    match lists.denies(command) {
        Some((rule, Match::Yes)) => return Opinion::Denied(rule.into()),
        Some((rule, Match::Maybe | Match::No)) => return Opinion::MayBeDenied(rule.into()),
        None => {}
    }
    match (lists.allows(command), lists.asks(command)) {
        (Verdict::By(rule), _) => Opinion::Allowed(rule.into()),
        (Verdict::Free | Verdict::Not, Some(rule)) => Opinion::Asks(rule.into()),
        (Verdict::Free, None) => Opinion::Free,
        (Verdict::Not, None) => Opinion::NotListed,
    }
}
