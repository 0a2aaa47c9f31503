//! The decision: everything that a request would run, against every rule.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use super::command::{
    Assignment, Extraction, Lookup, Reach, Reason, Redirect, Shell, SimpleCommand, Uncertain,
    Value, Word,
};
use super::extract::{extract, extract_call};
use super::rules::{Match, Place, Rule, SafeNames, Side, leaves_workspace};
use super::strict::{Context, Proof, prove_call, prove_text};

/// Builtins that start nothing and change nothing: no list needs to name them.
const CONTROL: [&str; 7] = [":", "true", "false", "break", "continue", "return", "exit"];

/// What happens to text that cannot be judged by reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUncertain {
    /// It is refused whenever any list is set.
    #[default]
    Refuse,
    /// It runs in a sandbox that can neither write files nor reach the network.
    Confine,
    /// It runs, if nothing that was found speaks against it.
    Allow,
}

/// The rules of one server. Deny wins over allow, allow over ask.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Nothing else may run; `None` sets no such limit. Rules of other tenants and lanes allow
    /// nothing here, so a list that holds only such rules refuses everything.
    pub allow: Option<Vec<Rule>>,
    /// These may never run.
    pub deny: Vec<Rule>,
    /// These run when somebody says yes.
    pub ask: Vec<Rule>,
    /// What happens to text that cannot be judged.
    pub uncertain: OnUncertain,
    /// The shell that runs the text.
    pub shell: Shell,
    /// Variables that may be set for programs although an allow list is set.
    pub safe_names: SafeNames,
}

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub enum Call<'r> {
    /// Text for the shell.
    Shell(&'r str),
    /// A program with its arguments, with no shell between.
    Direct {
        /// The program.
        program: &'r str,
        /// Its arguments.
        args: &'r [String],
    },
}

/// One request to run something.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// What is to be run.
    pub call: Call<'r>,
    /// Variables that the caller adds.
    pub environment: &'r [(String, String)],
    /// The directory it starts in, resolved.
    pub cwd: &'r str,
    /// Directories that output may be redirected to, resolved; empty means `cwd`.
    pub writable: &'r [String],
    /// Who asks.
    pub tenant: &'r str,
    /// The lane it would queue in.
    pub lane: &'r str,
    /// How the shell reads that runs the text; `None`: as the policy's own.
    pub shell: Option<Shell>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow,
    /// It may run if somebody says yes.
    Ask {
        /// The first command that somebody must agree to.
        command: String,
        /// The rules that say so: of each such command the first.
        rules: Vec<AskRule>,
    },
    /// It cannot be judged by reading it, and may run only in a sandbox without files and network.
    Confine {
        /// The doubt, as a refusal states it.
        doubt: Refusal,
    },
    /// It may not run, and nothing of it was run.
    Deny(Refusal),
}

/// A rule that wants somebody to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskRule {
    /// As it was written.
    pub rule: String,
    /// Where.
    pub place: String,
}

impl fmt::Display for AskRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ask rule \"{}\" ({})", self.rule, self.place)
    }
}

impl AskRule {
    /// All of them in one line.
    #[must_use]
    pub fn listed(rules: &[Self]) -> String {
        rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    }
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A deny rule matches.
    #[error("`{command}` matches deny rule \"{rule}\" ({place})")]
    Denied {
        /// The command found.
        command: String,
        /// The rule as written.
        rule: String,
        /// Where it was written.
        place: String,
    },
    /// An allow list is set and no rule on it matches.
    #[error("`{command}` is not on the allow list")]
    NotAllowed {
        /// The command found.
        command: String,
    },
    /// The text cannot be judged.
    #[error("{doubt}{}", .doubt.advice())]
    Uncertain {
        /// What is in doubt.
        doubt: Uncertain,
    },
    /// A deny rule may match, depending on a value.
    #[error(
        "`{command}` may match deny rule \"{rule}\" ({place}), \
         depending on a value that is known only when it runs"
    )]
    MayBeDenied {
        /// The command found.
        command: String,
        /// The rule as written.
        rule: String,
        /// Where it was written.
        place: String,
    },
    /// A variable that could change what runs.
    #[error("setting {name} is not allowed beside an allow list")]
    Variable {
        /// The variable.
        name: String,
    },
    /// A redirection or an argument that could write where it must not, or open a connection.
    #[error("writing to `{target}` is not allowed beside an allow list")]
    Redirect {
        /// The file.
        target: String,
    },
}

impl Refusal {
    /// The doubt without the advice that goes with a refusal.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Uncertain { doubt } => doubt.to_string(),
            Self::Denied { .. }
            | Self::NotAllowed { .. }
            | Self::MayBeDenied { .. }
            | Self::Variable { .. }
            | Self::Redirect { .. } => self.to_string(),
        }
    }

    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied",
            Self::NotAllowed { .. } => "not_allowed",
            Self::Uncertain { .. } => "uncertain",
            Self::MayBeDenied { .. } => "may_be_denied",
            Self::Variable { .. } => "variable",
            Self::Redirect { .. } => "redirect",
        }
    }
}

/// Decides on a request.
#[must_use]
pub fn decide(policy: &Policy, request: &Request<'_>) -> Decision {
    Reading::new(policy, request).decision()
}

/// A request under the rules that hold for it. Its text is read when the first answer needs that,
/// and only once.
#[derive(Debug)]
pub struct Reading<'r> {
    pub(super) lists: Lists<'r>,
    request: &'r Request<'r>,
    found: OnceCell<Extraction>,
}

impl<'r> Reading<'r> {
    /// Selects the rules that hold for a request.
    #[must_use]
    pub fn new(policy: &'r Policy, request: &'r Request<'r>) -> Self {
        Self { lists: Lists::of(policy, request), request, found: OnceCell::new() }
    }

    /// Returns everything that the request would run: beside an allow list what was proven, else
    /// what the wide reader found.
    pub fn found(&self) -> &Extraction {
        self.found.get_or_init(|| found_by(&self.lists, self.request))
    }

    /// Decides on the request.
    #[must_use]
    pub fn decision(&self) -> Decision {
        if self.lists.none_is_set() {
            return Decision::Allow;
        }
        judge(&self.lists, self.request, self.found())
    }

    /// Returns where the rules are written that let the commands of the request run.
    #[must_use]
    pub fn allowing_places(&self) -> BTreeSet<&'r str> {
        if self.lists.allow.is_none() {
            return BTreeSet::new();
        }
        let commands = self.found().commands.iter();
        let is_not_denied = |command: &&SimpleCommand| self.lists.denies(command).is_none();
        let place = |command: &SimpleCommand| match self.lists.allows(command) {
            Verdict::By(rule) => Some(rule.place()),
            Verdict::Free | Verdict::Not => None,
        };
        commands.filter(is_not_denied).filter_map(place).collect()
    }

    /// Returns the files that the request writes, as absolute paths, where an allow list is set. The
    /// caller follows links in them and asks [`Reading::refuse_write`] about what they lead to.
    #[must_use]
    pub fn written_files(&self) -> Vec<String> {
        if !self.lists.need_proof() {
            return Vec::new();
        }
        let found = self.found();
        let place = place(&self.lists, self.request, found);
        let targets = redirects(found).filter_map(|redirect| match redirect {
            Redirect::Write(word) => Some(word),
            Redirect::Read(_) | Redirect::Duplicate | Redirect::Text(_) | Redirect::Heredoc => None,
        });
        targets.chain(&found.writes).filter_map(|word| place.absolute(word.value()?)).collect()
    }

    /// Says why the request may not write a file, if so. The path is absolute, links followed.
    #[must_use]
    pub fn refuse_write(&self, path: &str) -> Option<Refusal> {
        if !self.lists.need_proof() {
            return None;
        }
        let place = place(&self.lists, self.request, &Extraction::default());
        let may_write = place.may_write(&Word::literal(path));
        (!may_write).then(|| Refusal::Redirect { target: path.to_owned() })
    }
}

fn found_by(lists: &Lists<'_>, request: &Request<'_>) -> Extraction {
    if !lists.need_proof() {
        return read_widely(lists, request);
    }
    match prove(lists, request) {
        Ok(Proof { commands, redirects, writes, unknown }) => Extraction {
            uncertain: unclear_program(lists, &commands, &unknown),
            commands,
            redirects,
            writes,
            assignments: Vec::new(),
        },
        // Nothing is proven, but a deny rule may still match what the wide reader finds.
        Err(doubt) => Extraction { uncertain: Some(doubt), ..read_widely(lists, request) },
    }
}

/// The first program that is not known, unless its rule allows any arguments.
fn unclear_program(
    lists: &Lists<'_>,
    commands: &[SimpleCommand],
    unknown: &[String],
) -> Option<Uncertain> {
    let is_unknown = |command: &&SimpleCommand| {
        command.program.value().is_some_and(|name| unknown.iter().any(|it| it == name))
    };
    let is_unclear = |command: &&SimpleCommand| match lists.allows(command) {
        Verdict::By(rule) => !rule.text().ends_with('*'),
        // A command that is not listed is refused for that.
        Verdict::Free | Verdict::Not => false,
    };
    let program = commands.iter().filter(is_unknown).find(is_unclear)?.program.text.clone();
    Some(Uncertain { reason: Reason::UnknownProgram { program }, at: 0 })
}

fn prove(lists: &Lists<'_>, request: &Request<'_>) -> Result<Proof, Uncertain> {
    let context = Context {
        shell: request.shell.unwrap_or(lists.policy.shell),
        safe_names: &lists.policy.safe_names,
        environment: request.environment,
    };
    match request.call {
        Call::Shell(text) => prove_text(text, &context),
        Call::Direct { program, args } => prove_call(program, args, &context),
    }
}

fn read_widely(lists: &Lists<'_>, request: &Request<'_>) -> Extraction {
    let environment: Vec<Assignment> = request
        .environment
        .iter()
        .map(|(name, value)| Assignment {
            name: name.clone(),
            value: Value::Text(value.clone()),
            reach: Reach::Environment,
        })
        .collect();
    match request.call {
        Call::Shell(text) => {
            extract(text, request.shell.unwrap_or(lists.policy.shell), &environment)
        }
        Call::Direct { program, args } => extract_call(program, args, &environment),
    }
}

/// The rules that hold for one request.
#[derive(Debug)]
pub(super) struct Lists<'p> {
    policy: &'p Policy,
    allow: Option<Vec<&'p Rule>>,
    deny: Vec<&'p Rule>,
    ask: Vec<&'p Rule>,
}

impl<'p> Lists<'p> {
    pub(super) fn of(policy: &'p Policy, request: &Request<'_>) -> Self {
        let covered = |rules: &'p [Rule]| -> Vec<&'p Rule> {
            rules.iter().filter(|rule| rule.covers(request.tenant, request.lane)).collect()
        };
        Self {
            policy,
            allow: policy.allow.as_deref().map(covered),
            deny: covered(&policy.deny),
            ask: covered(&policy.ask),
        }
    }

    pub(super) const fn none_is_set(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty() && self.ask.is_empty()
    }

    /// `true` if only listed programs may run, so that a text must prove what it runs.
    fn need_proof(&self) -> bool {
        let is_everything = |rule: &&Rule| rule.text() == "*";
        self.allow.as_ref().is_some_and(|allow| !allow.iter().any(is_everything))
    }

    pub(super) fn denies(&self, command: &SimpleCommand) -> Option<(&'p Rule, Match)> {
        let matches = |rule: &&'p Rule| (*rule, rule.matches(command, Side::Deny));
        let mut found = self.deny.iter().map(matches).filter(|(_, it)| *it != Match::No);
        let first = found.next()?;
        if first.1 == Match::Yes {
            return Some(first);
        }
        found.find(|(_, it)| *it == Match::Yes).or(Some(first))
    }

    /// The rule that lets a command run.
    pub(super) fn allows(&self, command: &SimpleCommand) -> Verdict<'p> {
        let Some(allow) = &self.allow else {
            return Verdict::Free;
        };
        if let Some(rule) = first(allow, command) {
            return Verdict::By(rule);
        }
        let control = command.program.value().is_some_and(|name| CONTROL.contains(&name));
        match command.lookup {
            Lookup::Function => Verdict::Free,
            Lookup::Shell if control => Verdict::Free,
            Lookup::Shell | Lookup::Path => Verdict::Not,
        }
    }

    pub(super) fn asks(&self, command: &SimpleCommand) -> Option<&'p Rule> {
        let mut matching =
            self.ask.iter().filter(|rule| rule.matches(command, Side::Deny) != Match::No);
        matching.next().copied()
    }
}

/// What an allow list says about a command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict<'p> {
    /// No list speaks about it, and none needs to.
    Free,
    /// This rule lets it run.
    By(&'p Rule),
    /// It is not listed.
    Not,
}

fn first<'p>(rules: &[&'p Rule], command: &SimpleCommand) -> Option<&'p Rule> {
    rules.iter().find(|rule| rule.matches(command, Side::Allow) == Match::Yes).copied()
}

fn judge(lists: &Lists<'_>, request: &Request<'_>, found: &Extraction) -> Decision {
    let doubt = match denied(lists, found) {
        Denial::Certain(refusal) => return Decision::Deny(refusal),
        Denial::Doubtful(refusal) => Some(refusal),
        Denial::None => None,
    };
    match (doubt, lists.policy.uncertain) {
        (Some(doubt), OnUncertain::Refuse) => return Decision::Deny(doubt),
        (Some(doubt), OnUncertain::Confine) => return Decision::Confine { doubt },
        (Some(_), OnUncertain::Allow) | (None, _) => {}
    }
    if let Some(refusal) = beside_allow_list(lists, request, found) {
        return Decision::Deny(refusal);
    }
    let mut first = None;
    let mut rules = Vec::new();
    for command in &found.commands {
        let asked = match lists.allows(command) {
            Verdict::By(_) => None,
            Verdict::Free => lists.asks(command),
            Verdict::Not => match lists.asks(command) {
                Some(rule) => Some(rule),
                None => return Decision::Deny(Refusal::NotAllowed { command: shown(command) }),
            },
        };
        let Some(rule) = asked else { continue };
        first.get_or_insert(command);
        let rule = AskRule { rule: rule.text().to_owned(), place: rule.place().to_owned() };
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    match first {
        Some(command) => Decision::Ask { command: shown(command), rules },
        None => Decision::Allow,
    }
}

/// The answer of the deny rules and of the reader.
enum Denial {
    /// A deny rule matches.
    Certain(Refusal),
    /// Something is in doubt.
    Doubtful(Refusal),
    /// Nothing speaks against the request.
    None,
}

fn denied(lists: &Lists<'_>, found: &Extraction) -> Denial {
    let hits = found.commands.iter().filter_map(|it| lists.denies(it).map(|hit| (it, hit)));
    let mut may_be = None;
    for (command, (rule, hit)) in hits {
        let command = shown(command);
        let rule_text = rule.text().to_owned();
        let place = rule.place().to_owned();
        if hit == Match::Yes {
            return Denial::Certain(Refusal::Denied { command, rule: rule_text, place });
        }
        may_be.get_or_insert(Refusal::MayBeDenied { command, rule: rule_text, place });
    }
    let doubt = found.uncertain.clone().map(|doubt| Refusal::Uncertain { doubt });
    doubt.or(may_be).map_or(Denial::None, Denial::Doubtful)
}

/// With an allow list, variables and redirections must not open another way.
fn beside_allow_list(
    lists: &Lists<'_>,
    request: &Request<'_>,
    found: &Extraction,
) -> Option<Refusal> {
    if !lists.need_proof() {
        return None;
    }
    let safe = &lists.policy.safe_names;
    let mut given = request.environment.iter();
    if let Some((name, _)) = given.find(|(name, value)| !safe.in_environment(name, Some(value))) {
        return Some(Refusal::Variable { name: name.clone() });
    }
    let place = place(lists, request, found);
    let redirect = redirects(found).find_map(|redirect| place.objects(redirect));
    let target = redirect.or_else(|| found.writes.iter().find(|word| !place.may_write(word)))?;
    Some(Refusal::Redirect { target: target.to_string() })
}

fn redirects(found: &Extraction) -> impl Iterator<Item = &Redirect> {
    found.redirects.iter().chain(found.commands.iter().flat_map(|command| &command.redirects))
}

fn place<'r>(lists: &Lists<'r>, request: &Request<'r>, found: &Extraction) -> Place<'r> {
    let moves = |it: &SimpleCommand| matches!(it.name(), Some("cd" | "pushd" | "popd"));
    let allow = lists.allow.as_deref().unwrap_or_default();
    Place {
        cwd: request.cwd,
        writable: request.writable,
        leaves: found.commands.iter().any(leaves_workspace),
        moves: found.commands.iter().any(moves),
        listed: allow.iter().map(|rule| rule.text()).collect(),
    }
}

/// The program as a refusal names it.
fn shown(command: &SimpleCommand) -> String {
    command.program.to_string()
}
