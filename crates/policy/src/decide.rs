//! The decision on a request: every command that it would run, matched against every rule.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use thiserror::Error;

use super::command::{
    Assignment, CommandLookup, Extraction, ShellSyntax, SimpleCommand, Uncertainty, VariableValue,
};
use super::extract::{extract, extract_call};
use super::gate::StartRefusal;
use super::rules::{ListKind, PolicyRule, RuleMatch, RuleReference};

/// Builtins that start nothing and change nothing: no list needs to name them.
const CONTROL: [&str; 7] = [":", "true", "false", "break", "continue", "return", "exit"];

/// The treatment of text that cannot be judged by reading it, beside deny and ask lists. An allow list
/// is not judged by reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUncertain {
    /// Refuses the text.
    #[default]
    Refuse,
    /// Runs the text in a sandbox that can neither write files nor reach the network.
    Confine,
    /// Runs the text unless a rule forbids one of the commands that were found.
    Allow,
}

/// The rules of one server. Deny wins over allow, allow over ask.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The only commands that may run; `None` sets no such limit. The gate enforces it at the start
    /// of each program, or [`Gate::check_plain_words`](crate::gate::Gate::check_plain_words).
    pub allow: Option<Vec<PolicyRule>>,
    /// Commands that never run.
    pub deny: Vec<PolicyRule>,
    /// Commands that run only with somebody's approval.
    pub ask: Vec<PolicyRule>,
    /// The treatment of text that cannot be judged, if no allow list is set.
    pub uncertain: OnUncertain,
    /// The syntax of the shell that runs the text.
    pub shell: ShellSyntax,
}

/// The command of a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestedCommand<'r> {
    /// A text for the shell.
    Shell(&'r str),
    /// A program that is started without a shell.
    Direct {
        /// The program's name or path.
        program: &'r str,
        /// The program's arguments.
        args: &'r [String],
    },
}

/// One request to run a command.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'r> {
    /// The command to judge.
    pub command: RequestedCommand<'r>,
    /// Variables that the caller adds.
    pub environment: &'r [(String, String)],
    /// The tenant that sends the request.
    pub tenant: &'r str,
    /// The lane that the job would queue in.
    pub lane: &'r str,
    /// The syntax of the shell that runs the text; `None` means [`Policy::shell`].
    pub shell: Option<ShellSyntax>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyDecision {
    /// The request may run unchanged.
    Allow,
    /// The command may run if somebody approves it.
    Ask {
        /// The first command that needs approval.
        command: String,
        /// The ask rules that match: the first one of each command.
        rules: Vec<RuleReference>,
    },
    /// The text cannot be judged by reading it. It may run only in a sandbox that can neither write
    /// files nor reach the network.
    Confine {
        /// The doubt, as a refusal states it.
        doubt: PolicyRefusal,
    },
    /// The command may not run. No part of it was run.
    Deny(PolicyRefusal),
}

/// The reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyRefusal {
    /// A command matches a deny rule.
    #[error("`{command}` matches deny rule {rule}")]
    Denied {
        /// The command that matches.
        command: String,
        /// The deny rule in question.
        rule: RuleReference,
    },
    /// An allow list is set and plainly no rule on it matches.
    #[error("`{command}` is not on the allow list")]
    NotAllowed {
        /// The command that is not listed.
        command: String,
    },
    /// The text cannot be judged.
    #[error("{doubt}; write the command so that it can be read")]
    Uncertain {
        /// The first construct that is in doubt.
        doubt: Uncertainty,
    },
    /// A deny rule may match, depending on a value.
    #[error(
        "`{command}` may match deny rule {rule}, \
         depending on a value that is known only when it runs"
    )]
    MayBeDenied {
        /// The command that may match.
        command: String,
        /// The deny rule in question.
        rule: RuleReference,
    },
}

impl PolicyRefusal {
    /// Returns the refusal of a program that a gate would not let start.
    #[must_use]
    pub fn not_allowed(start: &StartRefusal) -> Self {
        let command = start.command.split(' ').next().unwrap_or_default().to_owned();
        Self::NotAllowed { command }
    }

    /// Returns the message of the refusal without the advice at its end.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Uncertain { doubt } => doubt.to_string(),
            Self::Denied { .. } | Self::NotAllowed { .. } | Self::MayBeDenied { .. } => {
                self.to_string()
            }
        }
    }

    /// Returns the stable code word of the refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied",
            Self::NotAllowed { .. } => "not_allowed",
            Self::Uncertain { .. } => "uncertain",
            Self::MayBeDenied { .. } => "may_be_denied",
        }
    }
}

/// The result of matching one command against the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleOutcome {
    /// A deny rule certainly matches.
    Denied(RuleReference),
    /// A deny rule matches, depending on a value that is not known yet.
    MayBeDenied(RuleReference),
    /// An allow rule matches.
    Allowed(RuleReference),
    /// An ask rule matches: somebody must approve the command.
    Asks(RuleReference),
    /// No rule on the allow list matches.
    NotListed,
    /// No rule matches, and the command needs none.
    NoRule,
}

/// One command that a request would run, with the result of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedCommand {
    /// The program as written.
    pub program: String,
    /// The whole command, quotes removed.
    pub command: String,
    /// The constructs and programs around the command, outermost first.
    pub path: Vec<String>,
    /// The result of the rules.
    pub outcome: RuleOutcome,
}

/// A decision with everything that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Each command found, in the order of the text.
    pub commands: Vec<ExplainedCommand>,
    /// The reason why the text cannot be judged by reading it, if there is one.
    pub uncertain: Option<String>,
    /// The decision on the request.
    pub decision: PolicyDecision,
}

/// Decides on a request.
#[must_use]
pub fn decide(policy: &Policy, request: &PolicyRequest<'_>) -> PolicyDecision {
    PolicyEvaluation::new(policy, request).decision()
}

/// Decides on a request and reports the rule that each of its commands matches.
#[must_use]
pub fn explain(policy: &Policy, request: &PolicyRequest<'_>) -> Explanation {
    let evaluation = PolicyEvaluation::new(policy, request);
    let extraction = evaluation.extraction();
    let explain_command = |command: &SimpleCommand| ExplainedCommand {
        program: command.program.to_string(),
        command: command.to_string(),
        path: command.path.iter().map(ToString::to_string).collect(),
        outcome: evaluation.rules.outcome(command),
    };
    Explanation {
        commands: extraction.commands.iter().map(explain_command).collect(),
        uncertain: extraction.uncertain.as_ref().map(ToString::to_string),
        decision: evaluation.decision(),
    }
}

/// A request with the rules that apply to it. Its text is read once, when a method first needs it.
#[derive(Debug)]
pub struct PolicyEvaluation<'r> {
    rules: ApplicableRules<'r>,
    request: &'r PolicyRequest<'r>,
    extraction: OnceCell<Extraction>,
}

impl<'r> PolicyEvaluation<'r> {
    /// Selects the rules that apply to a request.
    #[must_use]
    pub fn new(policy: &'r Policy, request: &'r PolicyRequest<'r>) -> Self {
        Self {
            rules: ApplicableRules::select(policy, request),
            request,
            extraction: OnceCell::new(),
        }
    }

    /// Returns every command that the reader finds in the request.
    pub fn extraction(&self) -> &Extraction {
        self.extraction.get_or_init(|| read_request(&self.rules, self.request))
    }

    /// Decides on the request.
    #[must_use]
    pub fn decision(&self) -> PolicyDecision {
        if self.rules.is_empty() {
            return PolicyDecision::Allow;
        }
        apply_rules(&self.rules, self.extraction())
    }

    /// Returns the locations of the allow rules that let the commands of the request run.
    #[must_use]
    pub fn allow_rule_locations(&self) -> BTreeSet<&'r str> {
        if self.rules.allow.is_none() {
            return BTreeSet::new();
        }
        let commands = self.extraction().commands.iter();
        let is_not_denied = |command: &&SimpleCommand| self.rules.find_deny(command).is_none();
        let location = |command: &SimpleCommand| match self.rules.find_allow(command) {
            AllowListMatch::By(rule) => Some(rule.location()),
            AllowListMatch::NotNeeded | AllowListMatch::NotListed => None,
        };
        commands.filter(is_not_denied).filter_map(location).collect()
    }
}

fn read_request(rules: &ApplicableRules<'_>, request: &PolicyRequest<'_>) -> Extraction {
    let environment: Vec<Assignment> = request
        .environment
        .iter()
        .map(|(name, value)| Assignment {
            name: name.clone(),
            value: VariableValue::Text(value.clone()),
        })
        .collect();
    match request.command {
        RequestedCommand::Shell(text) => {
            extract(text, request.shell.unwrap_or(rules.policy.shell), &environment)
        }
        RequestedCommand::Direct { program, args } => extract_call(program, args, &environment),
    }
}

/// The rules of a policy that apply to the tenant and lane of one request.
#[derive(Debug)]
struct ApplicableRules<'p> {
    policy: &'p Policy,
    allow: Option<Vec<&'p PolicyRule>>,
    deny: Vec<&'p PolicyRule>,
    ask: Vec<&'p PolicyRule>,
}

impl<'p> ApplicableRules<'p> {
    fn select(policy: &'p Policy, request: &PolicyRequest<'_>) -> Self {
        let select = |rules: &'p [PolicyRule]| -> Vec<&'p PolicyRule> {
            rules.iter().filter(|rule| rule.covers(request.tenant, request.lane)).collect()
        };
        Self {
            policy,
            allow: policy.allow.as_deref().map(select),
            deny: select(&policy.deny),
            ask: select(&policy.ask),
        }
    }

    /// `true` if only listed programs may run.
    fn has_list(&self) -> bool {
        let allows_everything = |rule: &&PolicyRule| rule.text() == "*";
        self.allow.as_ref().is_some_and(|allow| !allow.iter().any(allows_everything))
    }

    const fn is_empty(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty() && self.ask.is_empty()
    }

    /// Returns the first deny rule that certainly matches, or else the first that may match.
    fn find_deny(&self, command: &SimpleCommand) -> Option<(&'p PolicyRule, RuleMatch)> {
        let matches = |rule: &&'p PolicyRule| (*rule, rule.matches(command, ListKind::Deny));
        let mut found = self.deny.iter().map(matches).filter(|(_, it)| *it != RuleMatch::No);
        let first = found.next()?;
        if first.1 == RuleMatch::Yes {
            return Some(first);
        }
        found.find(|(_, it)| *it == RuleMatch::Yes).or(Some(first))
    }

    fn find_allow(&self, command: &SimpleCommand) -> AllowListMatch<'p> {
        let Some(allow) = &self.allow else {
            return AllowListMatch::NotNeeded;
        };
        if let Some(rule) = first_match(allow, command) {
            return AllowListMatch::By(rule);
        }
        let control = command.program.value().is_some_and(|name| CONTROL.contains(&name));
        match command.lookup {
            CommandLookup::Function => AllowListMatch::NotNeeded,
            CommandLookup::Shell if control => AllowListMatch::NotNeeded,
            CommandLookup::Shell | CommandLookup::Path => AllowListMatch::NotListed,
        }
    }

    fn find_ask(&self, command: &SimpleCommand) -> Option<&'p PolicyRule> {
        let matches = |rule: &&&PolicyRule| rule.matches(command, ListKind::Deny) != RuleMatch::No;
        self.ask.iter().find(matches).copied()
    }

    fn outcome(&self, command: &SimpleCommand) -> RuleOutcome {
        match self.find_deny(command) {
            Some((rule, RuleMatch::Yes)) => return RuleOutcome::Denied(rule.into()),
            Some((rule, RuleMatch::Maybe | RuleMatch::No)) => {
                return RuleOutcome::MayBeDenied(rule.into());
            }
            None => {}
        }
        match (self.find_allow(command), self.find_ask(command)) {
            (AllowListMatch::By(rule), _) => RuleOutcome::Allowed(rule.into()),
            (AllowListMatch::NotNeeded | AllowListMatch::NotListed, Some(rule)) => {
                RuleOutcome::Asks(rule.into())
            }
            (AllowListMatch::NotNeeded, None) => RuleOutcome::NoRule,
            (AllowListMatch::NotListed, None) => RuleOutcome::NotListed,
        }
    }
}

/// The result of matching a command against the allow list.
#[derive(Debug, Clone, Copy)]
enum AllowListMatch<'p> {
    /// No allow list is set, or the command may run without being listed.
    NotNeeded,
    By(&'p PolicyRule),
    NotListed,
}

fn first_match<'p>(rules: &[&'p PolicyRule], command: &SimpleCommand) -> Option<&'p PolicyRule> {
    rules.iter().find(|rule| rule.matches(command, ListKind::Allow) == RuleMatch::Yes).copied()
}

/// Refuses what a deny rule certainly matches, and asks where an ask rule matches and no allow rule
/// does. Beside an allow list everything else passes: the list is enforced when programs start.
fn apply_rules(rules: &ApplicableRules<'_>, extraction: &Extraction) -> PolicyDecision {
    let doubt = match check_denied(rules, extraction) {
        Denial::Certain(refusal) => return PolicyDecision::Deny(refusal),
        Denial::Doubtful(refusal) => Some(refusal).filter(|_| !rules.has_list()),
        Denial::None => None,
    };
    match (doubt, rules.policy.uncertain) {
        (Some(doubt), OnUncertain::Refuse) => return PolicyDecision::Deny(doubt),
        (Some(doubt), OnUncertain::Confine) => return PolicyDecision::Confine { doubt },
        (Some(_), OnUncertain::Allow) | (None, _) => {}
    }
    let mut first = None;
    let mut asking = Vec::new();
    for command in &extraction.commands {
        let rule = match (rules.find_allow(command), rules.find_ask(command)) {
            (AllowListMatch::By(_), _) | (_, None) => continue,
            (AllowListMatch::NotNeeded | AllowListMatch::NotListed, Some(rule)) => rule,
        };
        first.get_or_insert_with(|| command.program.to_string());
        let rule = RuleReference::from(rule);
        if !asking.contains(&rule) {
            asking.push(rule);
        }
    }
    match first {
        Some(command) => PolicyDecision::Ask { command, rules: asking },
        None => PolicyDecision::Allow,
    }
}

/// The result of the deny rules, and of the reader where it was uncertain.
enum Denial {
    Certain(PolicyRefusal),
    Doubtful(PolicyRefusal),
    None,
}

fn check_denied(rules: &ApplicableRules<'_>, extraction: &Extraction) -> Denial {
    let mut may_be = None;
    for command in &extraction.commands {
        let Some((rule, rule_match)) = rules.find_deny(command) else { continue };
        let command = command.program.to_string();
        let rule = RuleReference::from(rule);
        if rule_match == RuleMatch::Yes {
            return Denial::Certain(PolicyRefusal::Denied { command, rule });
        }
        may_be.get_or_insert(PolicyRefusal::MayBeDenied { command, rule });
    }
    let doubt = extraction.uncertain.clone().map(|doubt| PolicyRefusal::Uncertain { doubt });
    doubt.or(may_be).map_or(Denial::None, Denial::Doubtful)
}
