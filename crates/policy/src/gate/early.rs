//! The early refusal: the first command of a text that is plainly not listed.
//!
//! This is advice. It finds simple commands whose literal name can mean nothing but a program that
//! no rule allows, so that the server can refuse a text before any of it has run. Whatever is less
//! plain runs, and the gate judges each start.

use super::called::{CalledProgram, FileMatch, SHELLS};
use super::judge::Gate;
use super::rules::{ProgramStart, StartedFile};
use super::start_rule::StartRule;
use super::variables::{VariableCheck, find_variable};
use super::verdict::{StartRefusal, StartRefusalReason, StartVerdict};
use crate::command::{
    CommandContext, CommandLookup, Extraction, ShellSyntax, SimpleCommand, UncertainReason,
};
use crate::extract::extract;
use crate::options::has_word;

/// Builtins of bash and other shells. They start no program, so no list names them.
const BUILTINS: &str = ". : [ [[ ]] alias bg bind break builtin caller cd chdir command compgen complete \
    compopt continue coproc declare dirs disown echo enable eval exec exit export false fc fg getopts \
    hash help history inlib jobs kill let local logout mapfile popd printf print pushd pwd read readarray \
    readonly return set setopt shift shopt source suspend test time times trap true type typeset ulimit \
    umask unalias unset unsetopt wait whence autoload emulate zmodload rehash";

/// Words after which a name can mean something else: code from elsewhere, aliases, another PATH.
const CHANGES_NAMES: [&str; 7] =
    ["eval", "source", "alias", "enable", "PATH", "BASH_ENV", "command_not_found_handle"];

impl Gate {
    /// Returns the refusal of the first command that is plainly not listed. `find_file` looks a
    /// name up in the server's PATH, links followed.
    #[must_use]
    pub fn find_plainly_unlisted(
        &self,
        text: &str,
        shell: ShellSyntax,
        find_file: &dyn Fn(&str) -> Option<StartedFile>,
    ) -> Option<StartRefusal> {
        self.allow.as_ref()?;
        let extraction = extract(text, shell, &[]);
        if !is_clear(text, &extraction) {
            return None;
        }
        let commands = extraction.commands.iter();
        let unlisted = commands
            .filter(|command| is_plain(text, command))
            .find(|command| self.is_unlisted(command, find_file))?;
        let words = std::iter::once(&unlisted.program).chain(&unlisted.args);
        let argv: Vec<Vec<u8>> = words.map(|word| word.to_string().into_bytes()).collect();
        Some(StartRefusal::new(&argv, None, StartRefusalReason::NotListed))
    }

    /// Returns the name of a variable of the call that can run code in the shell or in every program.
    #[must_use]
    pub fn find_unsafe_variable(&self, variables: &[(Vec<u8>, Vec<u8>)]) -> Option<String> {
        self.allow.as_ref()?;
        let shells = SHELLS.map(str::to_owned);
        find_variable(variables, VariableCheck::Program { names: &shells, opens: false })
    }

    fn is_unlisted(
        &self,
        command: &SimpleCommand,
        find_file: &dyn Fn(&str) -> Option<StartedFile>,
    ) -> bool {
        let Some(name) = command.program.value() else { return false };
        let Some(file) = find_file(name) else {
            return !SHELLS.contains(&name)
                && !self.rules_for_starts().any(|rule| rule.may_name(name));
        };
        let argv: Option<Vec<Vec<u8>>> = std::iter::once(&command.program)
            .chain(&command.args)
            .map(|word| word.value().map(|text| text.as_bytes().to_vec()))
            .collect();
        match argv {
            Some(argv) => self.refuses_as_unlisted(&file, &argv),
            None => self.refuses_any_arguments(name, &file),
        }
    }

    fn refuses_as_unlisted(&self, file: &StartedFile, argv: &[Vec<u8>]) -> bool {
        let start =
            ProgramStart { file, script: None, argv, changed_variables: &[], starter: None };
        match self.judge(&start) {
            StartVerdict::Refuse(refusal) => refusal.why == StartRefusalReason::NotListed,
            StartVerdict::Allow(_) | StartVerdict::Ask { .. } => false,
        }
    }

    /// `true` if no rule can match the program, whatever its arguments are.
    fn refuses_any_arguments(&self, name: &str, file: &StartedFile) -> bool {
        let argv = [name.as_bytes().to_vec()];
        let called = match self.files.find(file) {
            FileMatch::Known(program) => CalledProgram::known(program, file, &argv),
            FileMatch::Changed(_) => return false,
            FileMatch::Unknown => CalledProgram::unknown(file, &argv),
        };
        let is_refused = |name: &str| {
            !SHELLS.contains(&name) && !self.rules_for_starts().any(|rule| rule.may_name(name))
        };
        called.names().chain([name]).all(is_refused)
    }

    /// Returns the rules that let a program start, at once or after an approval.
    fn rules_for_starts(&self) -> impl Iterator<Item = &StartRule> {
        self.allow.iter().flatten().chain(&self.ask)
    }
}

/// `true` if the text was read completely, and a name in it means the same everywhere.
fn is_clear(text: &str, extraction: &Extraction) -> bool {
    let is_read = extraction.uncertain.as_ref().is_none_or(|doubt| match doubt.reason {
        UncertainReason::TooLong { .. }
        | UncertainReason::TooDeep { .. }
        | UncertainReason::TooMany { .. }
        | UncertainReason::Syntax(_)
        | UncertainReason::Dialect(_) => false,
        UncertainReason::Dynamic(_)
        | UncertainReason::Connection
        | UncertainReason::Code(_)
        | UncertainReason::Launcher { .. } => true,
    });
    let is_literal = |command: &SimpleCommand| command.program.value().is_some_and(|it| it != ".");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = text.split(|c: char| !is_word(c));
    is_read
        && extraction.commands.iter().all(is_literal)
        && !words.any(|word| CHANGES_NAMES.contains(&word))
}

/// `true` for a command that the shell looks up in PATH as it stands in the text.
fn is_plain(text: &str, command: &SimpleCommand) -> bool {
    let Some(name) = command.program.value() else { return false };
    let is_name = |c: char| c.is_alphanumeric() || "_-.+".contains(c);
    let is_outer = command.path.iter().all(|context| match context {
        CommandContext::Substitution
        | CommandContext::Backticks
        | CommandContext::ProcessSubstitution => true,
        CommandContext::Function(_) | CommandContext::Wrapper(_) | CommandContext::Script(_) => {
            false
        }
    });
    command.lookup == CommandLookup::Shell
        && is_outer
        && !name.is_empty()
        && name.chars().all(is_name)
        && !is_builtin(name)
        && !may_define(text, name)
}

/// `true` for a builtin or keyword of a shell.
pub(super) fn is_builtin(name: &str) -> bool {
    has_word(BUILTINS, name)
}

/// `true` if a text may define a function of this name: `NAME (` or `function NAME`.
fn may_define(text: &str, name: &str) -> bool {
    let is_before_parenthesis = |(at, _): (usize, &str)| {
        text[at + name.len()..].trim_start_matches([' ', '\t']).starts_with('(')
    };
    let mut words = text.split_whitespace();
    text.match_indices(name).any(is_before_parenthesis)
        || (words.any(|word| word.ends_with("function")) && text.matches(name).count() > 1)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::gate::{Gate, GateRule, GateRules, KnownFile, StartedFile};
    use crate::{command::ShellSyntax, rules::parse_patterns};

    /// The programs of the machine; `python` is a link to `python3`.
    const PROGRAMS: &str = "ls cat git rm touch python3 bash find xargs grep pwn";

    fn find_file(name: &str) -> Option<StartedFile> {
        let name = if name == "python" { "python3" } else { name };
        let inode = PROGRAMS.split(' ').position(|it| it == name)? as u64;
        let path = PathBuf::from(format!("/usr/bin/{name}"));
        Some(StartedFile { path, device: 1, inode, changed: (1, 0) })
    }

    fn gate(allow: &[&str]) -> Gate {
        let rules = parse_patterns("allow", allow.iter().copied()).unwrap();
        let new_rule = |rule: &crate::rules::PolicyRule| GateRule {
            text: rule.text().to_owned(),
            location: rule.location().to_owned(),
            path: rule.text().contains('/').then(|| PathBuf::from("/w").join(rule.text())),
        };
        let known = |name: &str| {
            let StartedFile { path, device, inode, changed } = find_file(name)?;
            Some(KnownFile { path, device, inode, changed, names: vec![name.to_owned()] })
        };
        let names = allow.iter().filter_map(|rule| rule.split(' ').next());
        let files = names.chain(["bash"]).filter_map(known).collect();
        let allow = Some(rules.iter().map(new_rule).collect());
        Gate::new(GateRules { allow, files, ..GateRules::default() }).unwrap()
    }

    #[test]
    fn only_what_is_plainly_not_listed_is_refused_early() {
        let gate = gate(&["ls", "git status", "cat", "python3", "find", "xargs", "./bin/tool"]);
        for (text, expected) in [
            ("touch x", Some("touch x (not on the allow list)")),
            ("ls; touch 'a b'", Some("touch 'a b' (not on the allow list)")),
            ("git status && git push", Some("git push (not on the allow list)")),
            ("git -C x status | cat", None),
            ("git $x", None),
            ("rm $x", Some("rm '$x' (not on the allow list)")),
            ("cat <(pwn)", Some("pwn (not on the allow list)")),
            ("echo $(pwn a)", Some("pwn a (not on the allow list)")),
            ("if pwn; then ls; fi", Some("pwn (not on the allow list)")),
            ("not-installed x", Some("not-installed x (not on the allow list)")),
            ("tool x", None),
            ("./x.sh; /usr/bin/touch x", None),
            ("python x.py; python3 y.py; bash z.sh", None),
            ("set -euo pipefail; cd x; read -r a; trap 'touch x' EXIT; wait; [ -f x ]", None),
            ("f() { touch \"$1\"; }; f x", None),
            ("function deploy { ls; }\ndeploy", None),
            ("pwn() { ls; }; pwn", None),
            ("eval \"$x\"; touch x", None),
            ("source .venv/bin/activate && touch x", None),
            (". ./lib.sh; touch x", None),
            ("alias a=b; touch x", None),
            ("PATH=/x:$PATH touch x", None),
            ("$cmd a; touch x", None),
            ("find . -exec touch {} ';'; ls | xargs -I{} touch {}", None),
            ("case $1 in touch) ls;; esac", None),
            ("a=(touch x); ls \"${a[@]}\"", None),
            ("cat <<EOF\ntouch x\nEOF", None),
            ("git status &&", None),
            ("touch x; git log $(", None),
        ] {
            let found = gate.find_plainly_unlisted(text, ShellSyntax::Bash, &find_file);
            assert_eq!(found.map(|it| it.to_string()).as_deref(), expected, "{text}");
        }
    }

    /// A line of the corpora of this project.
    #[derive(serde::Deserialize)]
    struct EarlyCase {
        command: String,
        allow: Vec<String>,
        expected: String,
    }

    #[test]
    fn no_line_of_everyday_work_is_refused_early() {
        let corpora = [
            include_str!("../../../../tests/policy_everyday.jsonl"),
            include_str!("../../../../tests/policy_cases.jsonl"),
        ];
        let cases = corpora.iter().flat_map(|corpus| corpus.lines());
        for case in cases.map(|line| serde_json::from_str::<EarlyCase>(line).unwrap()) {
            let allow: Vec<&str> = case.allow.iter().map(String::as_str).collect();
            if case.expected != "allow" || allow.is_empty() {
                continue;
            }
            let gate = gate(&allow);
            let found = gate.find_plainly_unlisted(&case.command, ShellSyntax::Bash, &find_file);
            assert_eq!(found, None, "{}", case.command);
        }
    }
}
