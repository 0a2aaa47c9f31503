//! The judgement of one program start.

use super::called::{CalledProgram, ENV, FileMatch, FileTable, SHELLS};
use super::helper_table::{Helper, find_helper, has_helpers};
use super::rules::{GateRules, ProgramStart, StartedFile, file_name};
use super::start_rule::StartRule;
use super::variables::{VariableCheck, find_variable, own_variables};
use super::verdict::{
    AwaitedInterpreter, ProgramKind, RunningProgram, StartRefusal, StartRefusalReason, StartVerdict,
};
use crate::command::base_name;
use crate::rules::{RuleError, RuleReference, matches_wildcard};

/// The compiled rules of one job.
#[derive(Debug, Clone)]
pub struct Gate {
    pub(super) allow: Option<Vec<StartRule>>,
    deny: Vec<StartRule>,
    pub(super) ask: Vec<StartRule>,
    opens: Vec<String>,
    pub(super) files: FileTable,
}

/// A start with the names of its files.
#[derive(Debug)]
struct NamedStart<'s> {
    start: &'s ProgramStart<'s>,
    /// The script, or else the program.
    named: CalledProgram,
    /// The interpreter of a script.
    interpreter: Option<CalledProgram>,
    /// `true` if the named file has changed since the rules were read.
    is_changed: bool,
    /// `true` if the kernel loads the known `env` to find the interpreter of a script.
    is_env: bool,
}

/// A program that may start, and the part of the variable table that it needs.
struct Permitted {
    program: RunningProgram,
    is_helper: bool,
}

impl Gate {
    /// Compiles the rules of a job.
    ///
    /// # Errors
    /// The first rule that is not valid.
    pub fn new(rules: GateRules) -> Result<Self, RuleError> {
        Ok(Self {
            allow: rules.allow.as_deref().map(StartRule::compile).transpose()?,
            deny: StartRule::compile(&rules.deny)?,
            ask: StartRule::compile(&rules.ask)?,
            files: FileTable::new(&rules.files),
            opens: rules.opens,
        })
    }

    /// Judges one start. Deny wins over allow, allow over ask.
    #[must_use]
    pub fn judge(&self, start: &ProgramStart<'_>) -> StartVerdict {
        let named = self.name_files(start);
        match self.decide(&named) {
            Ok(verdict) => verdict,
            Err(why) => StartVerdict::Refuse(StartRefusal::new(start.argv, start.starter, why)),
        }
    }

    fn decide(&self, named: &NamedStart<'_>) -> Result<StartVerdict, StartRefusalReason> {
        if let Some(rule) = self.deny.iter().find(|rule| named.is_denied_by(rule)) {
            return Err(StartRefusalReason::Denied(rule.reference.clone()));
        }
        let asking = self.ask.iter().filter(|rule| named.is_denied_by(rule));
        let rules: Vec<RuleReference> = asking.map(|rule| rule.reference.clone()).collect();
        let permitted = match self.permit(named) {
            Ok(permitted) => permitted,
            Err(StartRefusalReason::NotListed) if self.asks_for_file(named) => {
                let program = named.new_program(ProgramKind::Judged, None);
                Permitted { program, is_helper: false }
            }
            Err(why) => return Err(why),
        };
        self.check_variables(named, &permitted)?;
        let then = permitted.program;
        if rules.is_empty() || self.allow_rule(named).is_some() {
            return Ok(StartVerdict::Allow(then));
        }
        Ok(StartVerdict::Ask { rules, then })
    }

    fn name_files<'s>(&self, start: &'s ProgramStart<'s>) -> NamedStart<'s> {
        let file = start.named_file();
        let (named, is_changed) = match self.files.find(file) {
            FileMatch::Known(program) => (CalledProgram::known(program, file, start.argv), false),
            FileMatch::Changed(program) => (CalledProgram::known(program, file, start.argv), true),
            FileMatch::Unknown => (CalledProgram::unknown(file, start.argv), false),
        };
        let interpreter = start.script.map(|script| self.name_interpreter(start, script));
        let is_env = matches!(&interpreter, Some(it) if it.names().any(|name| name == ENV));
        NamedStart { start, named, interpreter, is_changed, is_env }
    }

    /// Finds the names of a script's interpreter, called as the kernel calls it.
    fn name_interpreter(&self, start: &ProgramStart<'_>, script: &StartedFile) -> CalledProgram {
        let path = |file: &StartedFile| file.path.to_string_lossy().into_owned().into_bytes();
        let mut argv = vec![path(start.file), path(script)];
        argv.extend(start.argv.iter().skip(1).cloned());
        match self.files.find(start.file) {
            FileMatch::Known(program) => CalledProgram::interpreter(program, start.file, &argv),
            FileMatch::Changed(_) | FileMatch::Unknown => CalledProgram::unknown(start.file, &argv),
        }
    }

    /// Returns the program that may start, or the reason why none may.
    fn permit(&self, named: &NamedStart<'_>) -> Result<Permitted, StartRefusalReason> {
        let listed = |program| Permitted { program, is_helper: false };
        if self.allow.is_none() {
            return Ok(listed(named.new_program(ProgramKind::Judged, None)));
        }
        let starter = named.start.starter;
        if let Some(starter) = starter
            && named.is_awaited_by(starter)
        {
            return Ok(listed(RunningProgram { awaits: None, ..starter.clone() }));
        }
        if let Some(starter) = starter.filter(|starter| starter.kind == ProgramKind::Opens) {
            let program = named.new_program(ProgramKind::Opens, starter.rule.clone());
            return Ok(Permitted { program, is_helper: true });
        }
        let permitted = self.permit_by_rule(named).ok_or_else(|| self.explain_unlisted(named))?;
        let is_by_path = self.allow_rule(named).is_some_and(StartRule::is_independent_of_file);
        if named.is_changed && !is_by_path {
            return Err(StartRefusalReason::Changed);
        }
        Ok(permitted)
    }

    /// Permits a listed program, a shell, or a helper of the starter.
    fn permit_by_rule(&self, named: &NamedStart<'_>) -> Option<Permitted> {
        let starter = named.start.starter;
        let helper = starter.and_then(|starter| find_helper(starter, &named.named));
        let is_helper = helper.is_some();
        if let Some(rule) = self.allow_rule(named) {
            let location = Some(rule.reference.location.clone());
            let kind = self.kind_of(named, rule);
            return Some(Permitted { program: named.new_program(kind, location), is_helper });
        }
        if named.is_shell() {
            let program = named.new_program(ProgramKind::Shell, None);
            return Some(Permitted { program, is_helper });
        }
        let Helper { name, helpers_of } = helper?;
        let program = named.new_program(ProgramKind::Judged, None);
        let program = RunningProgram { name, helpers_of, ..program };
        Some(Permitted { program, is_helper })
    }

    fn allow_rule(&self, named: &NamedStart<'_>) -> Option<&StartRule> {
        let file = named.start.named_file();
        self.allow.iter().flatten().find(|rule| rule.allows(&named.named, file))
    }

    /// `true` if an ask rule means this very file: then a person may allow it although no rule on
    /// the allow list does.
    fn asks_for_file(&self, named: &NamedStart<'_>) -> bool {
        let file = named.start.named_file();
        !named.is_changed && self.ask.iter().any(|rule| rule.asks_for_file(&named.named, file))
    }

    fn kind_of(&self, named: &NamedStart<'_>, rule: &StartRule) -> ProgramKind {
        if named.is_shell() {
            return ProgramKind::Shell;
        }
        let mut names: Vec<&str> = named.named.names().collect();
        let path_name = file_name(&named.start.named_file().path);
        if !named.named.is_multi_call {
            names.push(&path_name);
        }
        names.extend(rule.program().map(base_name));
        let opens = |name: &&str| self.opens.iter().any(|it| matches_wildcard(it, name));
        if names.iter().any(opens) { ProgramKind::Opens } else { ProgramKind::Judged }
    }

    fn check_variables(
        &self,
        named: &NamedStart<'_>,
        permitted: &Permitted,
    ) -> Result<(), StartRefusalReason> {
        let is_below_opens =
            named.start.starter.is_some_and(|starter| starter.kind == ProgramKind::Opens);
        if self.allow.is_none() || is_below_opens {
            return Ok(());
        }
        let names = named.reader_names();
        let check = if permitted.is_helper {
            VariableCheck::Helper
        } else {
            let opens = permitted.program.kind == ProgramKind::Opens;
            VariableCheck::Program { names: &names, opens }
        };
        let own = named.start.starter.and_then(own_variables);
        let is_own = |name: &[u8]| own.is_some_and(|prefix| name.starts_with(prefix));
        let changed = named.start.changed_variables.iter().filter(|(name, _)| !is_own(name));
        match find_variable(changed, check) {
            Some(name) => Err(StartRefusalReason::Variable { name }),
            None => Ok(()),
        }
    }

    /// Returns the reason for refusing a program that no rule allows.
    fn explain_unlisted(&self, named: &NamedStart<'_>) -> StartRefusalReason {
        let file = named.start.named_file();
        if let FileMatch::Known(_) = self.files.find(file) {
            // It is the program that its name stands for.
            return StartRefusalReason::NotListed;
        }
        let path = &file.path;
        let called = named.start.argv.first().map(|word| String::from_utf8_lossy(word));
        let names = [file_name(path), called.map_or_else(String::new, |it| base_name(&it).into())];
        let listed = self
            .allow
            .iter()
            .flatten()
            .filter_map(StartRule::program)
            .find(|program| !program.contains('/') && names.iter().any(|name| name == program));
        match listed.and_then(|name| self.files.path_of(name)).filter(|listed| listed != path) {
            Some(listed) => {
                StartRefusalReason::OtherFile { path: path.clone(), listed: listed.into() }
            }
            None => StartRefusalReason::NotListed,
        }
    }
}

impl NamedStart<'_> {
    fn is_denied_by(&self, rule: &StartRule) -> bool {
        rule.denies(&self.named, self.start.named_file())
            || self.interpreter.as_ref().is_some_and(|it| rule.denies(it, self.start.file))
    }

    /// `true` for a known shell that is started itself, not as the interpreter of a script.
    fn is_shell(&self) -> bool {
        self.interpreter.is_none() && self.named.names().any(|name| SHELLS.contains(&name))
    }

    /// `true` if `env` starts the interpreter of its script: a known file of that name, whatever
    /// PATH the job has, with words that end with the script and its arguments.
    fn is_awaited_by(&self, starter: &RunningProgram) -> bool {
        let Some(awaited) = &starter.awaits else { return false };
        let Some(words) = self.start.argv.strip_suffix(awaited.args.as_slice()) else {
            return false;
        };
        let (Some(called), Some(script)) = (words.first(), words.get(1..).and_then(<[_]>::last))
        else {
            return false;
        };
        let (called, script) = (String::from_utf8_lossy(called), String::from_utf8_lossy(script));
        let is_script = awaited.script_names.iter().any(|name| name == base_name(&script));
        // `python` of a virtual environment is `python3` or `python3.11` of the system.
        let plain = |name: &str| without_version(base_name(name)).to_owned();
        let is_called = self.named.names().any(|name| plain(name) == plain(&called));
        is_script && is_called && self.interpreter.is_none() && !self.is_changed
    }

    /// Describes the program after it has started.
    fn new_program(&self, kind: ProgramKind, rule: Option<String>) -> RunningProgram {
        let path_name = file_name(&self.start.named_file().path);
        let own_path = rule.is_some().then_some(path_name.as_str());
        let own = self.named.names().chain(own_path).find(|name| has_helpers(name));
        let own = own.map(str::to_owned);
        let name = self.display_name().unwrap_or(path_name);
        let helpers_of = match kind {
            ProgramKind::Shell => self.start.starter.and_then(|it| it.helpers_of.clone()),
            ProgramKind::Judged | ProgramKind::Opens => own,
        };
        let awaits = self.is_env.then(|| self.awaited_interpreter());
        RunningProgram { name, kind, rule, helpers_of, awaits }
    }

    /// Returns the name that the program is called by if the file has that name, or else the
    /// file's first name.
    fn display_name(&self) -> Option<String> {
        let called = self.start.argv.first().map(|word| String::from_utf8_lossy(word).into_owned());
        let called = called.as_deref().map(base_name).unwrap_or_default();
        let mut names: Vec<&str> = self.named.names().collect();
        names.sort_by_key(|name| *name != called);
        names.first().map(|name| (*name).to_owned())
    }

    fn awaited_interpreter(&self) -> AwaitedInterpreter {
        let called = self.start.argv.first().map(|word| String::from_utf8_lossy(word).into_owned());
        let mut script_names = vec![file_name(&self.start.named_file().path)];
        script_names.extend(called.map(|path| base_name(&path).to_owned()));
        AwaitedInterpreter {
            script_names,
            args: self.start.argv.get(1..).unwrap_or_default().to_vec(),
        }
    }

    /// Returns the names under which the variable table knows the program and its interpreter.
    fn reader_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.named.names().map(str::to_owned).collect();
        names.push(file_name(&self.start.named_file().path));
        names.push(file_name(&self.start.file.path));
        names
    }
}

fn without_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}
