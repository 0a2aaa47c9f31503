//! `policy`: the decision of the rules on a command, without running it.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use super::terminal::{self, read_width};
use super::text_layout::wrap_text;
use crate::exec_gate::{Enforcement, GateSettings};
use crate::policy::rules::{self, RuleError, RuleReference};
use crate::policy::{
    ExplainedCommand, Explanation, Policy, PolicyDecision, PolicyRefusal, PolicyRequest,
    RequestedCommand, RuleOutcome, decide, explain,
};

/// Arguments of the `policy` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyCommand {
    #[command(subcommand)]
    pub verb: PolicyVerb,
    /// Configuration file, instead of the default locations.
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
}

/// The verbs of `policy`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum PolicyVerb {
    /// Decide on one command, or on a file of recorded decisions; exit code 1 if the command may not
    /// run without approval, or if a decision differs from the recorded one.
    Test(PolicyTestFlags),
    /// List each command that a shell text would run, the rule that applies to it, and why.
    Explain(PolicyExplainFlags),
}

/// Flags of `policy test`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyTestFlags {
    /// The shell text to decide on.
    #[arg(required_unless_present = "cases")]
    pub command: Option<String>,
    /// File with one JSON object per line: {"command", "allow", "deny", "expected"}.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub cases: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `policy explain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyExplainFlags {
    /// The shell text to explain; with --json, `-` reads one JSON string per line from stdin.
    pub command: String,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// Runs the `policy` verb and returns the exit code: 0, 1 if a command may not run or a decision
/// differs from the recorded one, or 2 if the input could not be read.
#[must_use]
pub fn run(command: &PolicyCommand, rules: &GateSettings, path: Option<&OsStr>) -> u8 {
    let judge = &PolicyJudge { rules, path };
    let mut out = io::stdout().lock();
    let answered = match &command.verb {
        PolicyVerb::Test(flags) => test(flags, judge, &mut out),
        PolicyVerb::Explain(flags) => explain_all(flags, judge, &mut out),
    };
    answered.unwrap_or_else(|error| {
        terminal::print_message(&error.to_string());
        2
    })
}

/// The rules, and the programs of this host that they name.
struct PolicyJudge<'r> {
    rules: &'r GateSettings,
    path: Option<&'r OsStr>,
}

impl PolicyJudge<'_> {
    fn decide(&self, text: &str) -> PolicyDecision {
        self.with_early_refusal(text, decide(&self.rules.policy, &request(text)))
    }

    fn explain(&self, text: &str) -> Explanation {
        let explained = explain(&self.rules.policy, &request(text));
        let decision = self.with_early_refusal(text, explained.decision);
        Explanation { decision, ..explained }
    }

    fn as_text(&self, explanation: &Explanation) -> String {
        let mut text = String::new();
        for finding in &explanation.commands {
            text.push_str(&format_command(finding));
        }
        let has_list = self.rules.policy.allow.is_some();
        let has_gate = has_list && self.rules.enforcement != Enforcement::Off;
        if let Some(doubt) = explanation.uncertain.as_ref().filter(|_| !has_list) {
            text.push_str(&format!("uncertain: {doubt}\n"));
        }
        let is_refused = matches!(explanation.decision, PolicyDecision::Deny(_));
        let judged =
            if has_gate && !is_refused { "; each program is judged as it starts" } else { "" };
        text + &format!("→ {}{judged}\n", format_reason(&explanation.decision))
    }

    /// Refuses a text that plainly runs a program that is not listed. A certain refusal stays.
    fn with_early_refusal(&self, text: &str, decision: PolicyDecision) -> PolicyDecision {
        if matches!(decision, PolicyDecision::Deny(_)) {
            return decision;
        }
        match self.rules.find_plainly_unlisted(text, self.path) {
            Some(refusal) => PolicyDecision::Deny(PolicyRefusal::not_allowed(&refusal)),
            None => decision,
        }
    }
}

/// Returns a request for this text, of the tenant `local` in the default lane.
const fn request(text: &str) -> PolicyRequest<'_> {
    PolicyRequest {
        command: RequestedCommand::Shell(text),
        environment: &[],
        tenant: "local",
        lane: "default",
        shell: None,
    }
}

const fn decision_word(decision: &PolicyDecision) -> &'static str {
    match decision {
        PolicyDecision::Allow => "allow",
        PolicyDecision::Ask { .. } => "ask",
        PolicyDecision::Confine { .. } => "confine",
        PolicyDecision::Deny(_) => "deny",
    }
}

fn format_reason(decision: &PolicyDecision) -> String {
    match decision {
        PolicyDecision::Allow => "allowed".to_owned(),
        PolicyDecision::Ask { command, rules } => {
            format!("asks: `{command}` matches {}", RuleReference::join_ask_rules(rules))
        }
        PolicyDecision::Confine { doubt } => {
            format!("runs in the read-only sandbox without network: {}", doubt.reason())
        }
        PolicyDecision::Deny(refusal) => format!("refused: {refusal}"),
    }
}

fn test(flags: &PolicyTestFlags, judge: &PolicyJudge<'_>, out: &mut impl Write) -> io::Result<u8> {
    if let Some(file) = &flags.cases {
        return test_cases(file, judge, out);
    }
    let command = flags.command.as_deref().unwrap_or_default();
    let decision = judge.decide(command);
    if flags.json {
        let answer =
            json!({ "decision": decision_word(&decision), "reason": format_reason(&decision) });
        writeln!(out, "{answer}")?;
    } else {
        writeln!(out, "{}", wrap_text(&format_reason(&decision), read_width(&io::stdout())))?;
    }
    Ok(u8::from(decision != PolicyDecision::Allow))
}

/// A recorded decision. Other fields of the line are for people.
#[derive(Debug, Deserialize)]
struct RecordedDecision {
    command: String,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    expected: String,
}

fn test_cases(file: &Path, judge: &PolicyJudge<'_>, out: &mut impl Write) -> io::Result<u8> {
    let text = fs::read_to_string(file)
        .map_err(|error| io::Error::other(format!("cannot read {}: {error}", file.display())))?;
    let mut passed = 0;
    let mut failed = 0;
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match check_case(line, judge) {
            Ok(()) => passed += 1,
            Err(difference) => {
                failed += 1;
                writeln!(out, "{number}: {difference}")?;
            }
        }
    }
    writeln!(out, "{passed} passed, {failed} failed")?;
    Ok(u8::from(failed > 0))
}

/// Compares the decision with the recorded one; the error is the difference, or the reason why the
/// line is not a recorded decision.
fn check_case(line: &str, judge: &PolicyJudge<'_>) -> Result<(), String> {
    let case: RecordedDecision =
        serde_json::from_str(line).map_err(|error| format!("not a recorded decision: {error}"))?;
    let decision = decide_case(&case, judge).map_err(|error| error.to_string())?;
    if decision_word(&decision) == case.expected {
        return Ok(());
    }
    let RecordedDecision { command, expected, .. } = &case;
    Err(format!("{command:?}: expected {expected}, {}", format_reason(&decision)))
}

fn decide_case(
    case: &RecordedDecision,
    judge: &PolicyJudge<'_>,
) -> Result<PolicyDecision, RuleError> {
    let texts = |list: &[String]| list.to_vec();
    let allow = texts(&case.allow);
    let deny = texts(&case.deny);
    let allow = rules::parse_patterns("allow", allow.iter().map(String::as_str))?;
    let policy = Policy {
        allow: (!allow.is_empty()).then_some(allow),
        deny: rules::parse_patterns("deny", deny.iter().map(String::as_str))?,
        ..Policy::default()
    };
    let rules = &GateSettings { policy, ..judge.rules.clone() };
    Ok(PolicyJudge { rules, ..*judge }.decide(&case.command))
}

fn explain_all(
    flags: &PolicyExplainFlags,
    judge: &PolicyJudge<'_>,
    out: &mut impl Write,
) -> io::Result<u8> {
    match (flags.json, flags.command.as_str()) {
        (true, "-") => {
            for line in io::stdin().lock().lines() {
                let text: String = serde_json::from_str(&line?).map_err(|error| {
                    io::Error::other(format!("each line must be one JSON string: {error}"))
                })?;
                writeln!(out, "{}", as_json(&judge.explain(&text)))?;
            }
        }
        (true, text) => writeln!(out, "{}", as_json(&judge.explain(text)))?,
        (false, text) => {
            let explained = judge.as_text(&judge.explain(text));
            write!(out, "{}", wrap_text(&explained, read_width(&io::stdout())))?;
        }
    }
    Ok(0)
}

fn as_json(explanation: &Explanation) -> Value {
    let programs: Vec<&str> =
        explanation.commands.iter().map(|finding| finding.program.as_str()).collect();
    json!({ "programs": programs, "uncertain": explanation.uncertain })
}

fn format_command(finding: &ExplainedCommand) -> String {
    let way = if finding.path.is_empty() {
        String::new()
    } else {
        format!("  (in {})", finding.path.join(" › "))
    };
    format!("{}{way}: {}\n", finding.command, format_rule_outcome(&finding.outcome))
}

fn format_rule_outcome(outcome: &RuleOutcome) -> String {
    match outcome {
        RuleOutcome::Denied(rule) => format!("denied by \"{}\" ({})", rule.text, rule.location),
        RuleOutcome::MayBeDenied(rule) => {
            format!("may be denied by \"{}\" ({}), depending on a value", rule.text, rule.location)
        }
        RuleOutcome::Allowed(rule) => format!("allowed by \"{}\" ({})", rule.text, rule.location),
        RuleOutcome::Asks(rule) => format!("asks by \"{}\" ({})", rule.text, rule.location),
        RuleOutcome::NotListed => "not on the allow list".to_owned(),
        RuleOutcome::NoRule => "no rule mentions it".to_owned(),
    }
}
