//! One compiled rule, and its match with a started program.

use std::path::Path;

use super::called::CalledProgram;
use super::rules::{GateRule, StartedFile};
use crate::command::{SimpleCommand, Word, base_name};
use crate::matching::{match_args_by_meaning, match_leading_args, normalize_path};
use crate::rules::{ListKind, PolicyRule, RuleError, RuleMatch, RuleReference, matches_wildcard};
use crate::wrappers::git_operands;

/// One rule, compiled for the judgement of starts.
#[derive(Debug, Clone)]
pub(super) struct StartRule {
    rule: PolicyRule,
    /// The path that a path rule names.
    path: Option<String>,
    pub(super) reference: RuleReference,
}

impl StartRule {
    pub(super) fn new(rule: &GateRule) -> Result<Self, RuleError> {
        Ok(Self {
            rule: PolicyRule::from_gate_text(&rule.text, &rule.location)?,
            path: rule.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
            reference: RuleReference { text: rule.text.clone(), location: rule.location.clone() },
        })
    }

    /// Compiles the rules of one list.
    pub(super) fn compile(rules: &[GateRule]) -> Result<Vec<Self>, RuleError> {
        rules.iter().map(Self::new).collect()
    }

    /// Returns the program's pattern; `None` for a regular expression.
    pub(super) fn program(&self) -> Option<&str> {
        self.rule.words().map(|(program, _)| program)
    }

    /// `true` if the rule may name a program that is called by this name, whatever its arguments.
    pub(super) fn may_name(&self, name: &str) -> bool {
        self.program().is_none_or(|program| matches_wildcard(base_name(program), name))
    }

    /// `true` if the rule holds for a path or for everything, whatever the file is.
    pub(super) fn is_independent_of_file(&self) -> bool {
        self.path.is_some() || self.program() == Some("*")
    }

    /// `true` if the rule, on an allow list, names this start.
    pub(super) fn allows(&self, called: &CalledProgram, file: &StartedFile) -> bool {
        match (&self.path, self.rule.words()) {
            (Some(path), Some((program, args))) => {
                self.is_at_path(path, called, file)
                    && Self::path_forms(program, called)
                        .iter()
                        .any(|form| match_leading_args(args, &form.args) == RuleMatch::Yes)
            }
            (None, Some(("*", args))) => called
                .denied
                .iter()
                .any(|form| match_leading_args(args, &form.args) == RuleMatch::Yes),
            (None, _) => called.listed.iter().any(|form| self.matches(form, ListKind::Allow)),
            (Some(_), None) => false,
        }
    }

    /// `true` if the rule, on an allow list, names a command as a text writes it. A path counts
    /// by its text alone: links are not followed.
    pub(super) fn allows_text(&self, command: &SimpleCommand, cwd: &Path) -> bool {
        let is_git = command.name() == Some("git");
        let args = if is_git { git_operands(&command.args) } else { &command.args };
        let stripped = SimpleCommand { args: args.to_vec(), ..command.clone() };
        let name = command.program.value().unwrap_or_default();
        match (&self.path, self.rule.words()) {
            (Some(path), Some((_, wanted))) => {
                let absolute = cwd.join(name);
                let is_at_path = name.contains('/')
                    && matches_wildcard(path, &normalize_path(&absolute.to_string_lossy()));
                is_at_path && match_leading_args(wanted, args) == RuleMatch::Yes
            }
            (Some(_), None) => false,
            (None, _) => {
                [command, &stripped].into_iter().any(|it| self.matches(it, ListKind::Allow))
            }
        }
    }

    /// `true` if the rule, on a deny or ask list, names this start.
    pub(super) fn denies(&self, called: &CalledProgram, file: &StartedFile) -> bool {
        self.denies_one_of(&called.denied, called, file)
    }

    /// `true` if the rule, on an ask list, names this start and means this very file.
    pub(super) fn asks_for_file(&self, called: &CalledProgram, file: &StartedFile) -> bool {
        self.denies_one_of(&called.listed, called, file)
    }

    fn denies_one_of(
        &self,
        forms: &[SimpleCommand],
        called: &CalledProgram,
        file: &StartedFile,
    ) -> bool {
        let by_path = match (&self.path, self.rule.words()) {
            (Some(path), Some((program, args))) => {
                self.is_at_path(path, called, file)
                    && Self::path_forms(program, called)
                        .iter()
                        .any(|form| match_args_by_meaning(args, form) != RuleMatch::No)
            }
            (Some(_) | None, _) => false,
        };
        by_path || forms.iter().any(|form| self.matches(form, ListKind::Deny))
    }

    fn matches(&self, form: &SimpleCommand, list: ListKind) -> bool {
        match list {
            ListKind::Allow => self.rule.matches(form, list) == RuleMatch::Yes,
            ListKind::Deny => self.rule.matches(form, list) != RuleMatch::No,
        }
    }

    /// `true` if the file is at the path of the rule. If the name decides what the program does,
    /// it must be called by the name in the rule, too.
    fn is_at_path(&self, path: &str, called: &CalledProgram, file: &StartedFile) -> bool {
        let name = self.program().map_or("", base_name);
        let is_called = |form: &SimpleCommand| {
            form.program.value().is_some_and(|it| matches_wildcard(name, it))
        };
        matches_wildcard(path, &file.path.to_string_lossy())
            && (!called.is_multi_call || called.denied.iter().any(is_called))
    }

    /// Returns the forms whose arguments a path rule is compared with.
    fn path_forms(program: &str, called: &CalledProgram) -> Vec<SimpleCommand> {
        let name = base_name(program);
        let has_name = |form: &&SimpleCommand| {
            let is_named = |word: &Word| word.value().is_some_and(|it| matches_wildcard(name, it));
            !called.is_multi_call || is_named(&form.program)
        };
        called.denied.iter().filter(has_name).cloned().collect()
    }
}
