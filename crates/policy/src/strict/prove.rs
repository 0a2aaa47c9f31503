//! The proof of which programs a text starts: reads the text, then follows each command's
//! arguments.
//!
//! A line may not write code that it runs: the files that it writes are compared with the files
//! that it runs.

use super::reader::{Facts, Proven, RawRedirect, ShellReader, ValueFacts};
use super::recognise::RawCommand;
use crate::command::{
    Assignment, AssignmentScope, CommandContext, CommandLookup, Effect, Redirect, ScriptReader,
    Shape, ShellSyntax, SimpleCommand, UncertainReason, Uncertainty, VariableValue, Word,
    base_name,
};
use crate::matching::SafeVariables;
use crate::options::has_word;
use crate::rules::{ListKind, PolicyRule, RuleMatch};
use crate::strict::tools::{
    ArgumentEffect, Builtin, consequences, is_assigning_builtin, is_known, is_standard_input,
    look_up_builtin,
};
use crate::wrappers::command_effects;

/// The longest text that is read.
const MAX_BYTES: usize = 64 * 1024;
/// The depth to which commands may start commands.
const MAX_DEPTH: usize = 12;

/// Variables of the shell that hold nothing but numbers and that no text may set.
const COUNTERS: [&str; 8] =
    ["RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "UID", "EUID", "PPID", "BASHPID"];

/// The proven effects of a text: these commands run, and no others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proof {
    /// Every command, in the order of the text.
    pub(crate) commands: Vec<SimpleCommand>,
    /// Redirections of compound commands.
    pub(crate) redirects: Vec<Redirect>,
    /// Files that commands write by their arguments.
    pub(crate) writes: Vec<Word>,
    /// Programs about whose arguments nothing is known.
    pub(crate) unknown: Vec<String>,
}

/// The surroundings of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'c> {
    /// The shell that runs it.
    pub(crate) shell: ShellSyntax,
    /// Variables that may be set.
    pub(crate) safe_variables: &'c SafeVariables,
    /// Variables that the caller sets.
    pub(crate) environment: &'c [(String, String)],
    /// Allow rules that accept arguments whose meaning is not known.
    pub(crate) prefixes: &'c [&'c PolicyRule],
}

/// Proves which programs a text starts.
///
/// # Errors
/// Names the first construct whose effect is not certain.
pub(crate) fn prove_text(text: &str, context: &Context<'_>) -> Proven<Proof> {
    let mut prover = Prover::new(context);
    prover.script(text, context.shell, &[], prover.facts.clone())?;
    prover.finish()
}

/// The same for a program with its arguments, without a shell.
///
/// # Errors
/// Names the first argument whose effect is not certain.
pub(crate) fn prove_call(program: &str, args: &[String], context: &Context<'_>) -> Proven<Proof> {
    let mut prover = Prover::new(context);
    let words = std::iter::once(program).chain(args.iter().map(String::as_str));
    let words: Vec<Word> = words.map(Word::literal).collect();
    prover.run(words, &[], CommandLookup::Path)?;
    prover.finish()
}

#[derive(Debug)]
struct Prover<'c> {
    context: &'c Context<'c>,
    facts: Facts,
    depth: usize,
    proof: Proof,
    /// The code that commands run, each with the number of its command.
    code: Vec<(usize, Code)>,
    /// The files that commands write by their arguments, each with the number of its command.
    made: Vec<(usize, Word)>,
    /// The places at or below which commands write files of any name.
    beneath: Vec<(usize, Word)>,
}

impl<'c> Prover<'c> {
    fn new(context: &'c Context<'c>) -> Self {
        let mut facts = Facts::default();
        for (name, value) in context.environment {
            facts.assign(name, ValueFacts::of_text(value));
        }
        Self {
            context,
            facts,
            depth: 0,
            proof: Proof::default(),
            code: Vec::new(),
            made: Vec::new(),
            beneath: Vec::new(),
        }
    }

    fn finish(self) -> Proven<Proof> {
        for (command, code) in &self.code {
            // A command's own output is not the code that it runs.
            let is_other = |number: usize| number != *command;
            let redirected = self.redirected().filter(|(number, _)| is_other(*number));
            let made = self.made.iter().filter(|(number, _)| is_other(*number));
            let made = made.map(|(_, word)| word);
            let targets: Vec<&Word> = redirected.map(|(_, word)| word).chain(made).collect();
            check_code(code, targets.iter().copied()).map_err(refusal)?;
            // Whatever the line has written can be moved to any name.
            let moved = self.beneath.iter().find(|(number, _)| is_other(*number));
            if let (Some((_, word)), true) = (moved, has_content(&targets)) {
                let code = code.describe();
                return Err(refusal(format!(
                    "a line that writes files, moves them to {word} and {code}"
                )));
            }
        }
        Ok(self.proof)
    }

    /// The files that are redirected to, each with the number of its command.
    fn redirected(&self) -> impl Iterator<Item = (usize, &Word)> {
        let own = (1..).zip(&self.proof.commands);
        let own = own.flat_map(|(number, it)| it.redirects.iter().map(move |it| (number, it)));
        let all = own.chain(self.proof.redirects.iter().map(|redirect| (0, redirect)));
        all.filter_map(|(number, redirect)| match redirect {
            Redirect::Write(word) => Some((number, word)),
            Redirect::Read(_) | Redirect::Duplicate | Redirect::Text(_) | Redirect::Heredoc => None,
        })
    }

    /// Reads a text; `around` is how it is reached, `facts` what is known of its variables.
    fn script(
        &mut self,
        text: &str,
        shell: ShellSyntax,
        around: &[CommandContext],
        facts: Facts,
    ) -> Proven<()> {
        if text.len() > MAX_BYTES {
            return Err(UncertainReason::TooLong { limit: MAX_BYTES }.into());
        }
        let mut reader = ShellReader::new(text, shell, facts);
        reader.script()?;
        let ShellReader { mut facts, arithmetic, counted, assigned, commands, .. } = reader;
        counted.iter().for_each(|name| facts.count(name));
        let safe = self.context.safe_variables;
        if let Some((name, _)) =
            assigned.iter().find(|(name, value)| !safe.allows_in_shell(name, value.as_deref()))
        {
            return Err(UncertainReason::Variable { name: name.clone() }.into());
        }
        let is_number = |name: &String| {
            // Any other name may hold text that the shell itself has put there.
            let is_plain = COUNTERS.contains(&name.as_str()) || safe.allows_in_shell(name, None);
            is_plain && facts.is_arithmetic(name)
        };
        if let Some(name) = arithmetic.iter().find(|name| !is_number(name)) {
            return Err(refusal(format!("arithmetic with {name}, which may hold an expression")));
        }
        let outer = std::mem::replace(&mut self.facts, facts);
        let result = commands.iter().try_for_each(|command| self.command(command, around));
        self.facts = outer;
        result
    }

    fn command(&mut self, raw: &RawCommand, around: &[CommandContext]) -> Proven<()> {
        let path: Vec<CommandContext> = around.iter().chain(&raw.path).cloned().collect();
        let redirects = self.redirects(&raw.redirects)?;
        if raw.words.is_empty() {
            self.proof.redirects.extend(redirects);
            return Ok(());
        }
        for (name, value) in &raw.assignments {
            self.check_environment(name, value.literal())?;
        }
        let words: Vec<Word> = raw.words.iter().map(|word| word.resolve(&self.facts)).collect();
        let index = self.proof.commands.len();
        self.run(words, &path, CommandLookup::Shell)?;
        if let Some(command) = self.proof.commands.get_mut(index) {
            command.redirects = redirects;
            command.assignments = raw.assignments.iter().map(assignment).collect();
        }
        Ok(())
    }

    fn check_environment(&self, name: &str, value: Option<&str>) -> Proven<()> {
        if self.context.safe_variables.allows_in_environment(name, value) {
            return Ok(());
        }
        Err(UncertainReason::Variable { name: name.to_owned() }.into())
    }

    fn redirects(&self, raw: &[RawRedirect]) -> Proven<Vec<Redirect>> {
        let redirect = |redirect: &RawRedirect| match redirect {
            RawRedirect::Read(word) => {
                let word = word.resolve(&self.facts);
                check_read(&word).map_err(refusal)?;
                Ok(Redirect::Read(word))
            }
            RawRedirect::Write(word) => Ok(Redirect::Write(word.resolve(&self.facts))),
            RawRedirect::Duplicate => Ok(Redirect::Duplicate),
            RawRedirect::Feed => Ok(Redirect::Text(None)),
        };
        raw.iter().map(redirect).collect()
    }

    /// Notes a command, and follows what it starts.
    fn run(
        &mut self,
        words: Vec<Word>,
        path: &[CommandContext],
        lookup: CommandLookup,
    ) -> Proven<()> {
        let Some(mut command) = SimpleCommand::from_words(words) else { return Ok(()) };
        let Some(program) = command.program.value().map(str::to_owned) else {
            return Err(UncertainReason::Dynamic("the name of a command").into());
        };
        if program.is_empty() || program.starts_with(['~', '=']) {
            return Err(refusal(format!("a command named `{program}`")));
        }
        path.clone_into(&mut command.path);
        command.lookup = lookup;
        let args = command.args.clone();
        self.proof.commands.push(command.clone());
        let number = self.proof.commands.len();
        let is_builtin = lookup == CommandLookup::Shell && !program.contains('/');
        if is_builtin && let Some(builtin) = look_up_builtin(&program, &args) {
            return self.builtin(&program, builtin.map_err(refusal)?, path);
        }
        let name = base_name(&program).to_owned();
        // A rule that names a path is about a program of the operator's own.
        if !program.contains('/') && !is_known(&name) {
            self.proof.unknown.push(name.clone());
        }
        let found = match consequences(&name, &args) {
            Ok(found) => found,
            Err(_) if self.has_trusted_prefix(&command) => {
                known_consequences(&name, &command, self.context.shell)?
            }
            Err(what) => {
                return Err(UncertainReason::Launcher { program: name, what }.into());
            }
        };
        found.into_iter().try_for_each(|it| self.follow(number, &name, it, path))
    }

    /// `true` if an allow rule accepts the command with arguments whose meaning is not known.
    fn has_trusted_prefix(&self, command: &SimpleCommand) -> bool {
        let matches = |rule: &&PolicyRule| rule.matches(command, ListKind::Allow) == RuleMatch::Yes;
        self.context.prefixes.iter().any(matches)
    }

    fn builtin(&mut self, name: &str, builtin: Builtin, path: &[CommandContext]) -> Proven<()> {
        match builtin {
            Builtin::Harmless => Ok(()),
            Builtin::Exports(variables) => variables
                .iter()
                .try_for_each(|(name, value)| self.check_environment(name, value.as_deref())),
            Builtin::Runs(words) => {
                let inner = words.first().and_then(Word::value).unwrap_or_default();
                if is_assigning_builtin(inner) {
                    return Err(refusal(format!("`{name} {inner}`")));
                }
                self.nested(|prover| {
                    let path = with(path, CommandContext::Wrapper(name.to_owned()));
                    prover.run(words, &path, CommandLookup::Shell)
                })
            }
        }
    }

    /// Follows one effect of the command of this number and name.
    fn follow(
        &mut self,
        number: usize,
        name: &str,
        consequence: ArgumentEffect,
        path: &[CommandContext],
    ) -> Proven<()> {
        match consequence {
            ArgumentEffect::Runs(words) => self.nested(|prover| {
                let path = with(path, CommandContext::Wrapper(name.to_owned()));
                prover.run(words, &path, CommandLookup::Path)
            }),
            ArgumentEffect::Script { text, shell } => self.nested(|prover| {
                let path = with(path, CommandContext::Script(name.to_owned()));
                if starts_shell(name) {
                    // The program starts a shell for the text, which must be listed as well.
                    let mut sh = SimpleCommand::from_words(vec![Word::literal("sh")]);
                    sh.iter_mut().for_each(|sh| sh.path.clone_from(&path));
                    prover.proof.commands.extend(sh);
                }
                prover.script(&text, shell, &path, prover.facts.clone())
            }),
            ArgumentEffect::Sets { name, value } => {
                self.facts.assign(&name, ValueFacts::UNKNOWN);
                self.check_environment(&name, value.as_deref())
            }
            ArgumentEffect::Writes(word) => {
                self.made.push((number, word.clone()));
                self.proof.writes.push(word);
                Ok(())
            }
            ArgumentEffect::WritesBeneath(word) => {
                self.beneath.push((number, word.clone()));
                self.proof.writes.push(word);
                Ok(())
            }
            ArgumentEffect::ReadsCode(word)
                if is_standard_input(&word) && !is_interpreter(name) =>
            {
                Err(refusal(format!("{word}, which `{name}` runs as code,")))
            }
            ArgumentEffect::ReadsCode(word) if is_configured_by_argument(name) => {
                Err(refusal(format!("the file {word}, which may name programs for `{name}`,")))
            }
            ArgumentEffect::ReadsCode(word) => {
                self.code.push((number, Code::File(word)));
                Ok(())
            }
            // The same code could be handed over as an argument.
            ArgumentEffect::ReadsCodeFromInput if is_interpreter(name) => Ok(()),
            ArgumentEffect::ReadsCodeFromInput => {
                Err(refusal(format!("the input of `{name}`, which it runs as code,")))
            }
            ArgumentEffect::ChecksOut(word) => {
                self.proof.writes.push(word);
                Ok(())
            }
            ArgumentEffect::Opaque => {
                if !is_interpreter(name) {
                    self.code.push((number, Code::Conventional(name.to_owned())));
                }
                Ok(())
            }
        }
    }

    fn nested(&mut self, follow: impl FnOnce(&mut Self) -> Proven<()>) -> Proven<()> {
        if self.depth == MAX_DEPTH {
            return Err(UncertainReason::TooDeep { limit: MAX_DEPTH }.into());
        }
        self.depth += 1;
        let result = follow(self);
        self.depth -= 1;
        result
    }
}

/// Returns what a command with a trusted prefix is known to start. Arguments that are not known to
/// start anything are accepted: the author of the rule trusts the program with them.
fn known_consequences(
    name: &str,
    command: &SimpleCommand,
    shell: ShellSyntax,
) -> Proven<Vec<ArgumentEffect>> {
    let mut found = Vec::new();
    for effect in command_effects(command) {
        match effect {
            // An alias, or a program of git's own directory.
            Effect::Runs(inner) if name == "git" && is_git_program(&inner) => {}
            Effect::Runs(inner) if inner.assignments.is_empty() => {
                let SimpleCommand { program, args, .. } = *inner;
                found.push(ArgumentEffect::Runs(std::iter::once(program).chain(args).collect()));
            }
            Effect::Script { text, reader } => {
                let shell = match reader {
                    ScriptReader::Same => shell,
                    ScriptReader::Other(other) => other,
                };
                found.push(ArgumentEffect::Script { text, shell });
            }
            Effect::Unclear(reason) => return Err(reason.into()),
            Effect::Runs(_)
            | Effect::Assigns { .. }
            | Effect::Evaluates(_)
            | Effect::IsArray(_)
            | Effect::Declares(_)
            | Effect::ReliesOnOneWord(_)
            | Effect::RemovesFunctions => {
                return Err(refusal(format!("a variable that `{name}` sets or evaluates")));
            }
        }
    }
    Ok(found)
}

/// `true` for the program that git starts for a subcommand that is not its own.
fn is_git_program(command: &SimpleCommand) -> bool {
    let is_name = |program: &str| program.starts_with("git-") && !program.contains('/');
    command.program.value().is_some_and(is_name)
}

fn with(path: &[CommandContext], via: CommandContext) -> Vec<CommandContext> {
    path.iter().cloned().chain([via]).collect()
}

fn refusal(construct: impl Into<String>) -> Uncertainty {
    UncertainReason::Unproven { construct: construct.into() }.into()
}

fn assignment((name, value): &(String, super::reader::RawWord)) -> Assignment {
    let value =
        value.literal().map_or(VariableValue::Unknown, |text| VariableValue::Text(text.to_owned()));
    Assignment { name: name.clone(), value, scope: AssignmentScope::Environment }
}

// Files that one command of a line writes and another one runs.

/// Code that a command of the line runs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Code {
    /// The content of this file.
    File(Word),
    /// The files that this build tool looks for by itself: makefiles, manifests, settings.
    Conventional(String),
}

impl Code {
    /// Says in a refusal how the command runs the code.
    fn describe(&self) -> String {
        match self {
            Self::File(word) => format!("runs {word}"),
            Self::Conventional(program) => format!("lets `{program}` run what it finds"),
        }
    }
}

/// Interpreters that run whatever code their arguments hold: a file that the same line writes gives
/// them no power that `-c` does not.
const INTERPRETERS: &str =
    "python python3 node deno bun perl ruby php lua luajit Rscript julia tclsh";

/// Programs that read shell text themselves.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash"];

/// Endings of files that no tool runs or takes for its settings.
const DATA: &str = "log txt out err csv tsv diff patch md xml html json jsonl bak tmp tgz gz zip";
/// Files with such an ending that tools do read.
const SETTINGS: &str = "CMakeLists.txt package.json package-lock.json tsconfig.json composer.json deno.json \
    project.json nx.json lerna.json pom.xml build.xml";

/// `true` for the name of a file that no tool runs or takes for its settings.
fn is_data_name(name: &str) -> bool {
    let has_ending = name.rsplit_once('.').is_some_and(|(_, ending)| has_word(DATA, ending));
    let is_settings = has_word(SETTINGS, name)
        || name.starts_with('.')
        || name.contains("config")
        || name.contains("requirements");
    has_ending && !is_settings
}

/// `true` for an interpreter whose code the line may as well hand over as an argument.
fn is_interpreter(program: &str) -> bool {
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    INTERPRETERS
        .split_ascii_whitespace()
        .any(|known| program.strip_prefix(known).is_some_and(is_version))
}

/// For a program that runs shell text in its arguments: `true` if it starts a local shell for it.
/// Shells read it themselves, and `ssh` has it read on another host.
fn starts_shell(program: &str) -> bool {
    !SHELLS.contains(&program) && program != "ssh"
}

/// `true` for a program that is no build tool, but whose settings or batch file may name programs:
/// an earlier line may have written the file.
fn is_configured_by_argument(program: &str) -> bool {
    matches!(program, "ssh" | "scp" | "sftp")
}

/// Checks that none of the files which a line writes is the code that a command of it runs.
/// The error names the file that is written and the command that may run it.
fn check_code<'w>(code: &Code, mut targets: impl Iterator<Item = &'w Word>) -> Result<(), String> {
    let runner = code.describe();
    match targets.find(|target| !is_data(target, code)) {
        Some(target) => Err(format!("a line that writes {target} and {runner}")),
        None => Ok(()),
    }
}

/// `true` if one of these is more than a device or a pipe.
fn has_content(targets: &[&Word]) -> bool {
    let is_device = |word: &Word| word.value().is_some_and(|path| path.starts_with("/dev/"));
    targets.iter().any(|word| word.shape != Shape::Process && !is_device(word))
}

/// `true` for a file that is certainly not the code.
fn is_data(target: &Word, code: &Code) -> bool {
    if target.shape == Shape::Process {
        return true;
    }
    let Some(path) = target.value() else { return false };
    if path.starts_with("/dev/") {
        return true;
    }
    let name = base_name(path);
    let is_code = match code {
        Code::File(word) => word.value().is_none_or(|file| base_name(file) == name),
        Code::Conventional(_) => false,
    };
    is_data_name(name) && !is_code
}

/// Checks a file that is opened for reading: bash opens connections for `/dev/tcp/…`.
fn check_read(word: &Word) -> Result<(), String> {
    let is_fine = match (word.shape, word.value()) {
        (_, Some(path)) => {
            !path.starts_with("/dev/") || path == "/dev/null" || path == "/dev/stdin"
        }
        (Shape::Process, None) => true,
        (Shape::One, None) => word.plain && !word.text.is_empty() && !word.text.starts_with('/'),
        (Shape::Glob | Shape::Many | Shape::Literal, None) => false,
    };
    if is_fine { Ok(()) } else { Err(format!("reading from {word}")) }
}
