//! The allow list on a host without the gate: plain words whose programs the rules name.

use std::path::Path;

use super::judge::Gate;
use super::plain_words::{PlainWordsError, read_plain_words};
use super::variables::{VariableCheck, find_variable};
use super::verdict::{StartRefusal, StartRefusalReason};
use crate::command::{CommandLookup, Extraction, ShellSyntax, SimpleCommand, Word};
use crate::decide::RequestedCommand;
use crate::extract::{extract, extract_call};
use crate::options::has_word;

/// Builtins that start nothing and change no name: no rule needs to name them.
const HARMLESS: &str = ": true false echo pwd wait cd";
/// Builtins that a rule may name, if no argument can hold code.
const LISTED: &str = "[ test printf kill";
/// Variables that change what a name or a line means.
const NAMES: [&str; 5] = ["PATH", "IFS", "CDPATH", "SHELLOPTS", "BASHOPTS"];

/// A request on a host without the gate.
#[derive(Debug, Clone, Copy)]
pub struct PlainRequest<'r> {
    /// The command to judge.
    pub command: RequestedCommand<'r>,
    /// The syntax of the shell that runs the text.
    pub shell: ShellSyntax,
    /// The absolute directory that the command starts in.
    pub cwd: &'r Path,
    /// The variables that the call adds.
    pub variables: &'r [(Vec<u8>, Vec<u8>)],
}

/// Returns an option of `env` that changes the directory, or splits text into words.
fn find_env_option(command: &SimpleCommand) -> Option<&str> {
    let words = command.args.iter().filter_map(Word::value);
    let mut options = words.take_while(|word| word.starts_with('-') || word.contains('='));
    let is_odd = |word: &&str| {
        ["-C", "-S", "--c", "--s"].iter().any(|odd| word.starts_with(odd)) || word.contains("LD_")
    };
    options.find(is_odd).filter(|_| command.name() == Some("env"))
}

/// Returns the variables that `env` sets for the program behind it.
fn list_env_variables(command: &SimpleCommand) -> Vec<(Vec<u8>, Vec<u8>)> {
    let is_env = command.name() == Some("env");
    let words = command.args.iter().filter(|_| is_env).filter_map(Word::value);
    let pairs = words.filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

impl Gate {
    /// Checks a request where no gate can judge each start. Deny rules are not checked here.
    ///
    /// # Errors
    /// The line is not made of plain words, or starts a program that no rule allows.
    pub fn check_plain_words(&self, request: &PlainRequest<'_>) -> Result<(), PlainWordsError> {
        if self.allow.is_none() {
            return Ok(());
        }
        let extraction = match request.command {
            RequestedCommand::Shell(text) => {
                let commands = read_plain_words(text)?;
                check_builtins(&commands)?;
                extract(text, request.shell, &[])
            }
            RequestedCommand::Direct { program, args } => extract_call(program, args, &[]),
        };
        self.check_commands(request, &extraction)
    }

    /// Checks every command that the wide reader finds: also those behind programs that start
    /// others.
    fn check_commands(
        &self,
        request: &PlainRequest<'_>,
        extraction: &Extraction,
    ) -> Result<(), PlainWordsError> {
        let refuse = |command: &SimpleCommand, why| {
            let words = std::iter::once(&command.program).chain(&command.args);
            let argv: Vec<Vec<u8>> = words.map(|word| word.to_string().into_bytes()).collect();
            PlainWordsError::Start(StartRefusal::new(&argv, None, why))
        };
        for command in &extraction.commands {
            let is_builtin = command.lookup == CommandLookup::Shell
                && command.program.value().is_some_and(|name| has_word(HARMLESS, name));
            if !is_builtin && !self.lists(command, request.cwd) {
                return Err(refuse(command, StartRefusalReason::NotListed));
            }
            if let Some(option) = find_env_option(command) {
                return Err(PlainWordsError::new(format!("`env {option}`")));
            }
            let set = list_env_variables(command);
            let variables = request.variables.iter().chain(&set).cloned().collect::<Vec<_>>();
            if let Some(name) = find_changed_variable(command, &variables) {
                return Err(refuse(command, StartRefusalReason::Variable { name }));
            }
        }
        match &extraction.uncertain {
            Some(doubt) => Err(PlainWordsError::new(format!("the line ({doubt})"))),
            None => Ok(()),
        }
    }

    /// `true` if an allow or ask rule names the command as it is written.
    fn lists(&self, command: &SimpleCommand, cwd: &Path) -> bool {
        let mut rules = self.allow.iter().flatten().chain(&self.ask);
        rules.any(|rule| rule.allows_text(command, cwd))
    }
}

/// Refuses builtins that can run code or change names, and a relative program after `cd`.
fn check_builtins(commands: &[SimpleCommand]) -> Result<(), PlainWordsError> {
    let changes_directory = commands.iter().any(|command| command.program.is("cd"));
    for command in commands {
        let Some(name) = command.program.value() else { continue };
        let has_code = |word: &Word| word.text.contains(['$', '`', '(']);
        let is_listed = has_word(LISTED, name) && !command.args.iter().any(has_code);
        if super::early::is_builtin(name) && !has_word(HARMLESS, name) && !is_listed {
            return Err(PlainWordsError::new(format!("the builtin `{name}`")));
        }
        if changes_directory && name.contains('/') && !name.starts_with('/') {
            return Err(PlainWordsError::new("a relative program beside `cd`"));
        }
    }
    Ok(())
}

fn find_changed_variable(
    command: &SimpleCommand,
    variables: &[(Vec<u8>, Vec<u8>)],
) -> Option<String> {
    let names = [command.name().unwrap_or_default().to_owned(), "bash".to_owned()];
    let is_name = |(name, _): &&(Vec<u8>, Vec<u8>)| NAMES.iter().any(|it| it.as_bytes() == name);
    let changed = variables.iter().find(is_name);
    changed
        .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
        .or_else(|| find_variable(variables, VariableCheck::Program { names: &names, opens: true }))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::gate::{GateRule, GateRules};
    use crate::rules::parse_patterns;

    fn gate(allow: &[&str]) -> Gate {
        let rules = parse_patterns("allow", allow.iter().copied()).unwrap();
        let new_rule = |rule: &crate::rules::PolicyRule| GateRule {
            text: rule.text().to_owned(),
            location: rule.location().to_owned(),
            path: rule.text().contains('/').then(|| PathBuf::from("/w/build.sh")),
        };
        let allow = Some(rules.iter().map(new_rule).collect());
        Gate::new(GateRules { allow, ..GateRules::default() }).unwrap()
    }

    fn check(gate: &Gate, text: &str, variables: &[(Vec<u8>, Vec<u8>)]) -> String {
        let request = PlainRequest {
            command: RequestedCommand::Shell(text),
            shell: ShellSyntax::Bash,
            cwd: Path::new("/w/sub"),
            variables,
        };
        gate.check_plain_words(&request).map_or_else(|it| it.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn plain_words_run_if_every_program_is_listed() {
        let gate = gate(&[
            "git status",
            "ls",
            "head",
            "find",
            "xargs",
            "test",
            "env",
            "cargo",
            "eval",
            "./build.sh",
        ]);
        for (text, expected) in [
            ("git status && ls | head -n 3 >out.txt 2>&1", "ok"),
            ("git -C x --no-pager status", "ok"),
            ("cd src && ls", "ok"),
            ("cargo test; echo done", "ok"),
            ("test -f x && ls", "ok"),
            ("find . -name '*.rs' -type f", "ok"),
            ("/usr/bin/ls", "ok"),
            ("../build.sh --x", "ok"),
            ("env A=b ls", "ok"),
            ("touch x", "touch x (not on the allow list)"),
            ("git push", "git push (not on the allow list)"),
            ("git -C status push", "git -C status push (not on the allow list)"),
            ("./build.sh", "./build.sh (not on the allow list)"),
            ("./ls", "./ls (not on the allow list)"),
            ("/tmp/ls", "/tmp/ls (not on the allow list)"),
            ("find . -exec touch x ';'", "touch x (not on the allow list)"),
            ("ls | xargs touch", "touch '…' (not on the allow list)"),
            ("env touch x", "touch x (not on the allow list)"),
        ] {
            assert_eq!(check(&gate, text, &[]), expected, "{text}");
        }
        for (text, construct) in [
            ("eval ls", "the builtin `eval`"),
            ("test -v 'a[$(x)]'", "the builtin `test`"),
            ("cd x; ../build.sh", "a relative program beside `cd`"),
            ("ls $x", "an expansion (`$`)"),
        ] {
            assert!(check(&gate, text, &[]).starts_with(construct), "{text}");
        }
    }

    #[test]
    fn a_variable_that_changes_names_or_runs_code_refuses_the_line() {
        let gate = gate(&["ls"]);
        for (name, is_refused) in [
            ("PATH", true),
            ("LD_PRELOAD", true),
            ("BASH_ENV", true),
            ("BASH_FUNC_ls%%", true),
            ("CI", false),
        ] {
            let variables = [(name.as_bytes().to_vec(), b"x".to_vec())];
            assert_eq!(check(&gate, "ls", &variables) != "ok", is_refused, "{name}");
        }
    }

    /// A line of the corpora of this project.
    #[derive(serde::Deserialize)]
    struct PlainCase {
        id: String,
        command: String,
        allow: Vec<String>,
        deny: Vec<String>,
        expected: String,
    }

    #[test]
    fn no_attack_is_plain_words() {
        let corpora = [
            include_str!("../../../../tests/policy_attacks.jsonl"),
            include_str!("../../../../tests/policy_cases.jsonl"),
        ];
        let cases = corpora.iter().flat_map(|corpus| corpus.lines());
        for case in cases.map(|line| serde_json::from_str::<PlainCase>(line).unwrap()) {
            let allow: Vec<&str> = case.allow.iter().map(String::as_str).collect();
            let is_for_allow_lists = !allow.is_empty() && case.deny.is_empty();
            // Files that a line writes are the sandbox's business.
            let is_redirection = case.id.starts_with("redir");
            if case.expected == "deny" && is_for_allow_lists && !is_redirection {
                let verdict = check(&gate(&allow), &case.command, &[]);
                assert_ne!(verdict, "ok", "{}", case.command);
            }
        }
    }
}
