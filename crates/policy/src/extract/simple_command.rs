//! Simple commands: assignments, words and redirections, and the programs that they start in turn.
//! Function definitions, which begin like a simple command, start here too.

use super::symbol_table::{
    VariableShape, is_address, is_code_variable, is_name, is_name_byte, is_name_start,
};
use super::text_reader::{
    ListEntry, MAX_COMMANDS, ReadResult, TextKind, TextReader, ends_word, read,
};
use crate::command::{
    Assignment, CommandContext, CommandLookup, Effect, Redirect, ScriptReader, Shape, ShellSyntax,
    SimpleCommand, UncertainReason, VariableValue, Word,
};
use crate::wrappers;

/// Builtins for which bash accepts `name=( … )` as an argument.
const DECLARING_BUILTINS: [&str; 8] =
    ["declare", "typeset", "local", "export", "readonly", "alias", "eval", "let"];

/// The parts of a simple command while it is read.
#[derive(Debug, Default)]
struct CommandParts {
    assignments: Vec<Assignment>,
    words: Vec<Word>,
    redirects: Vec<Redirect>,
}

impl CommandParts {
    /// `true` if an assignment or a redirection was read.
    const fn has_prefix(&self) -> bool {
        !self.assignments.is_empty() || !self.redirects.is_empty()
    }
}

impl TextReader<'_, '_> {
    pub(super) fn read_simple_command(&mut self) -> ReadResult<ListEntry> {
        let mut parts = CommandParts::default();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b'\n' | b';' | b'|' | b')') => break,
                Some(b'(') => return self.read_function(&parts),
                Some(b'&') if self.peek_second() != Some(b'>') => break,
                Some(_) => self.read_command_part(&mut parts)?,
            }
        }
        self.finish_simple_command(parts)?;
        Ok(ListEntry::Plain)
    }

    fn read_command_part(&mut self, parts: &mut CommandParts) -> ReadResult<()> {
        if let Some(redirect) = self.read_redirect()? {
            parts.redirects.push(redirect);
            return Ok(());
        }
        if parts.words.is_empty() {
            let reserved = self.peek_keyword().is_some_and(|(found, _)| found != "in");
            if reserved && parts.has_prefix() {
                return self.fail_syntax("a reserved word after an assignment or a redirection");
            }
            return self.read_assignment_or_program(parts);
        }
        let declares = parts
            .words
            .first()
            .and_then(Word::value)
            .is_some_and(|program| DECLARING_BUILTINS.contains(&program));
        let word = match if declares { self.read_array_declaration()? } else { None } {
            // An array is not a single word; its elements were read already.
            Some(name) => Word::unknown(name, Shape::Process),
            None => self.read_word()?,
        };
        parts.words.push(word);
        Ok(())
    }

    /// Reads the next assignment, or the program.
    fn read_assignment_or_program(&mut self, parts: &mut CommandParts) -> ReadResult<()> {
        if let Some((name, value)) = self.read_assignment()? {
            parts.assignments.push(Assignment { name, value });
            return Ok(());
        }
        let word = self.read_word()?;
        if looks_like_assignment(&word.text) {
            return self.fail_syntax("a command whose name looks like an assignment");
        }
        parts.words.push(word);
        Ok(())
    }

    /// Reads `NAME=VALUE`, `NAME+=VALUE`, `NAME[…]=VALUE` or `NAME=( … )` at the start of a
    /// command.
    fn read_assignment(&mut self) -> ReadResult<Option<(String, VariableValue)>> {
        self.peek();
        let start = self.pos;
        let name = self.read_plain_name();
        if name.is_empty() {
            return Ok(None);
        }
        if self.byte_at(self.pos) == Some(b'[') {
            self.require_bash("a subscript")?;
            self.pos += 1;
            self.one_level_deeper(Self::read_subscript)?;
            self.state.symbols.note_array(&name);
            if !matches!(self.byte_at(self.pos), Some(b'=' | b'+')) {
                return self.fail_syntax("a subscript without an assignment");
            }
        }
        let appends = self.byte_at(self.pos) == Some(b'+');
        if self.byte_at(self.pos + usize::from(appends)) != Some(b'=') {
            self.pos = start;
            return Ok(None);
        }
        self.pos += 1 + usize::from(appends);
        if appends {
            self.require_bash("`+=`")?;
        }
        let value = self.read_assigned_value(&name)?;
        Ok(Some((name, value)))
    }

    fn read_plain_name(&mut self) -> String {
        let start = self.pos;
        if self.byte_at(start).is_some_and(is_name_start) {
            while self.byte_at(self.pos).is_some_and(is_name_byte) {
                self.pos += 1;
            }
        }
        self.text_since(start).to_owned()
    }

    fn read_assigned_value(&mut self, name: &str) -> ReadResult<VariableValue> {
        match self.peek() {
            Some(b'(') => {
                self.require_bash("an array")?;
                self.pos += 1;
                self.one_level_deeper(|reader| reader.read_array(name))?;
                // Each element was noted separately.
                Ok(VariableValue::Text(String::new()))
            }
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b')') => {
                Ok(VariableValue::Text(String::new()))
            }
            Some(_) => self.read_optional_word().map(|word| VariableValue::from(&word)),
        }
    }

    /// Reads the elements of `( … )` and notes each value for the array.
    fn read_array(&mut self, name: &str) -> ReadResult<()> {
        let start = self.pos;
        self.state.symbols.note_array(name);
        self.read_elements(name)?;
        // Bash 5.2 prints a substitution as text before it runs it, and prints this one wrong.
        let escapes = self.text_since(start).replace("\\\n", "").contains('\\');
        if escapes && self.is_in_substitution() {
            return self.fail_syntax("a backslash in an array inside a substitution");
        }
        // The word continues after the parenthesis: `a=()#b` is not a comment.
        if self.peek().is_some_and(|byte| !ends_word(byte) || matches!(byte, b'(' | b'<' | b'>')) {
            return self.fail_syntax("text after an array");
        }
        Ok(())
    }

    fn read_elements(&mut self, name: &str) -> ReadResult<()> {
        let before = self.pending_heredocs.len();
        loop {
            self.skip_lines()?;
            if self.pending_heredocs.len() != before {
                return self.fail_syntax("a here-document inside an array");
            }
            match self.peek() {
                None => return self.fail_syntax("an array without `)`"),
                Some(b')') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'[') => {
                    self.pos += 1;
                    self.read_subscript()?;
                    self.expect(b'=', "a subscript without a value")?;
                    let word = self.read_optional_word()?;
                    self.note_assignment(name, VariableValue::from(&word));
                }
                Some(_) => {
                    let word = self.read_word()?;
                    self.note_assignment(name, VariableValue::from(&word));
                }
            }
        }
    }

    /// Reads `name=( … )` as an argument of a declaring builtin, and returns the name if it is
    /// there.
    fn read_array_declaration(&mut self) -> ReadResult<Option<String>> {
        self.peek();
        let start = self.pos;
        let name = self.read_plain_name();
        let appends = usize::from(self.byte_at(self.pos) == Some(b'+'));
        let at = self.pos + appends;
        if name.is_empty() || self.byte_at(at) != Some(b'=') || self.byte_at(at + 1) != Some(b'(') {
            self.pos = start;
            return Ok(None);
        }
        self.require_bash("an array")?;
        self.pos = at + 2;
        self.note_assignment(&name, VariableValue::Text(String::new()));
        self.one_level_deeper(|reader| reader.read_array(&name))?;
        Ok(Some(name))
    }

    fn read_function(&mut self, parts: &CommandParts) -> ReadResult<ListEntry> {
        let [name] = parts.words.as_slice() else {
            return self.fail_syntax("`(` in a command");
        };
        if parts.has_prefix() {
            return self.fail_syntax("`(` in a command");
        }
        self.pos += 1;
        self.skip_blanks();
        self.expect(b')', "`(` in a command")?;
        self.read_function_body(name)
    }

    fn finish_simple_command(&mut self, parts: CommandParts) -> ReadResult<()> {
        let CommandParts { assignments, words, redirects } = parts;
        for Assignment { name, value, .. } in &assignments {
            self.state.symbols.assign(name, value.clone());
            self.check_assignment(name, value);
        }
        let Some(mut command) = SimpleCommand::from_words(words) else {
            if assignments.len() + self.state.assignments > MAX_COMMANDS {
                return self.fail(UncertainReason::TooMany { limit: MAX_COMMANDS });
            }
            if assignments.is_empty() && redirects.is_empty() {
                return self.fail_syntax("a missing command");
            }
            self.state.assignments += assignments.len();
            self.state.redirects += redirects.len();
            return Ok(());
        };
        command.assignments = assignments;
        command.redirects = redirects;
        command.lookup = CommandLookup::Shell;
        self.add_command(command)
    }

    /// Notes that the shell itself sets a variable: a loop, `read`, `${x:=…}`.
    pub(super) fn note_assignment(&mut self, name: &str, value: VariableValue) {
        self.check_assignment(name, &value);
        self.state.symbols.assign(name, value);
        self.state.assignments += 1;
    }

    /// Notes a doubt if a variable is code, or changes how the shell parses text.
    fn check_assignment(&mut self, name: &str, value: &VariableValue) {
        if is_code_variable(name) {
            self.note_doubt(UncertainReason::Code("a variable that the shell evaluates"));
        }
        if matches!(name, "LC_ALL" | "LC_CTYPE" | "LANG") && !is_known_locale(value) {
            self.note_doubt(UncertainReason::Dialect("text in another character set"));
        }
    }
}

/// `true` if quotes mean the same in this locale as in UTF-8. In some multi-byte character sets a
/// quote or a backslash can be the second half of a character.
fn is_known_locale(value: &VariableValue) -> bool {
    match value {
        VariableValue::Text(text) => {
            let name = text.split('@').next().unwrap_or_default();
            let set = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
            matches!(set.as_str(), "" | "c" | "posix" | "utf-8" | "utf8")
        }
        VariableValue::Copy(other) => other == "LANG" || other.starts_with("LC_"),
        VariableValue::Number | VariableValue::File | VariableValue::Unknown => false,
    }
}

/// `true` if some shell would take a word for an assignment. A second check after the reader.
fn looks_like_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        is_name(name.split_once('[').map_or(name, |(name, _)| name))
    })
}

// Redirections: before, between and after the words of a command.

/// The most digits of a descriptor before a redirection.
const MAX_DIGITS: usize = 4;

impl TextReader<'_, '_> {
    /// Reads all redirections at the current position.
    pub(super) fn read_redirects(&mut self) -> ReadResult<Vec<Redirect>> {
        let mut found = Vec::new();
        loop {
            self.skip_blanks();
            match self.read_redirect()? {
                Some(redirect) => found.push(redirect),
                None => return Ok(found),
            }
        }
    }

    /// Reads the redirection at the current position, if there is one.
    fn read_redirect(&mut self) -> ReadResult<Option<Redirect>> {
        self.peek();
        let start = self.pos;
        self.read_descriptor()?;
        let explicit = self.pos != start;
        match (self.peek(), self.peek_second()) {
            (Some(b'<' | b'>'), Some(b'(')) if !explicit => Ok(None),
            (Some(b'<' | b'>'), Some(b'(')) => self.fail_syntax("`n<(`"),
            (Some(b'<'), _) => self.read_input_redirect().map(Some),
            (Some(b'>'), _) => self.read_output_redirect().map(Some),
            (Some(b'&'), Some(b'>')) if !explicit => {
                self.require_bash("`&>`")?;
                self.eat_all("&>");
                self.eat(b'>');
                self.read_file_target().map(|word| Some(Redirect::Write(word)))
            }
            _ => {
                self.pos = start;
                Ok(None)
            }
        }
    }

    /// Reads `3` or `{name}` directly before a redirection; otherwise reads nothing.
    fn read_descriptor(&mut self) -> ReadResult<()> {
        let start = self.pos;
        let name = self.eat(b'{');
        let inner = self.pos;
        while self
            .peek()
            .is_some_and(|byte| if name { is_name_byte(byte) } else { byte.is_ascii_digit() })
        {
            self.pos += 1;
        }
        let length = self.pos - inner;
        let text = self.text_since(inner).replace("\\\n", "");
        let closed = !name || self.eat(b'}');
        if length == 0 || !closed || !matches!(self.peek(), Some(b'<' | b'>')) {
            self.pos = start;
            return Ok(());
        }
        if !name && length > MAX_DIGITS {
            return self.fail_syntax("a large descriptor");
        }
        if name {
            self.require_bash("`{name}>`")?;
            if !text.bytes().next().is_some_and(is_name_start) {
                return self.fail_syntax("a number in braces before a redirection");
            }
            self.note_assignment(&text, VariableValue::Number);
        }
        Ok(())
    }

    fn read_input_redirect(&mut self) -> ReadResult<Redirect> {
        if self.eat_all("<<<") {
            self.require_bash("`<<<`")?;
            let word = self.read_target()?;
            return Ok(Redirect::Text(word.value().map(str::to_owned)));
        }
        if self.eat_all("<<-") {
            self.read_heredoc_delimiter(true)?;
            return Ok(Redirect::Heredoc);
        }
        if self.eat_all("<<") {
            self.read_heredoc_delimiter(false)?;
            return Ok(Redirect::Heredoc);
        }
        if self.eat_all("<>") {
            return self.read_file_target().map(Redirect::Write);
        }
        if self.eat_all("<&") {
            self.read_target()?;
            return Ok(Redirect::Duplicate);
        }
        self.eat(b'<');
        self.read_file_target().map(Redirect::Read)
    }

    fn read_output_redirect(&mut self) -> ReadResult<Redirect> {
        if self.eat_all(">&") {
            let word = self.read_file_target()?;
            let digits = word.text.strip_suffix('-').unwrap_or(&word.text);
            if word.value().is_some() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Ok(Redirect::Duplicate);
            }
            self.require_bash("`>&word`")?;
            return Ok(Redirect::Write(word));
        }
        if !self.eat_all(">>") && !self.eat_all(">|") {
            self.eat(b'>');
        }
        self.read_file_target().map(Redirect::Write)
    }

    fn read_target(&mut self) -> ReadResult<Word> {
        self.skip_blanks();
        self.read_word()
    }

    /// Reads the name of the file that a redirection opens. Bash opens connections for some names.
    fn read_file_target(&mut self) -> ReadResult<Word> {
        let word = self.read_target()?;
        let may_become = |address: &str| address.starts_with(&word.text);
        if is_address(&word.text) {
            self.note_doubt(UncertainReason::Connection);
        } else if matches!(word.shape, Shape::One | Shape::Many | Shape::Glob)
            && ["/dev/tcp/", "/dev/udp/"].into_iter().any(may_become)
        {
            self.state.symbols.note_unknown_redirect();
            if word.text.starts_with("/dev/") {
                self.note_doubt(UncertainReason::Connection);
            }
        }
        Ok(word)
    }
}

// Recording commands, and following the programs that run others.

impl TextReader<'_, '_> {
    /// Records a command and everything that it would run in turn.
    pub(super) fn add_command(&mut self, mut command: SimpleCommand) -> ReadResult<()> {
        self.count_command(&command)?;
        let pending_heredocs =
            self.pending_heredocs.len() - heredocs(&command).min(self.pending_heredocs.len());
        let first = self.state.commands.len();
        command.path.clone_from(&self.state.path);
        self.check_program(&mut command);
        command.args.iter_mut().for_each(|word| self.refine_variable_word(word));
        command.args.iter().for_each(|word| self.state.symbols.note_word(&word.text));
        let effects = wrappers::command_effects(&command);
        self.state.commands.push(command);
        for effect in effects {
            self.apply_effect(effect, first)?;
        }
        let readers = first..self.state.commands.len();
        self.set_heredoc_readers(pending_heredocs, &readers);
        Ok(())
    }

    fn check_program(&mut self, command: &mut SimpleCommand) {
        match command.program.value() {
            None => self.note_doubt(UncertainReason::Dynamic("the name of a command")),
            Some(text) if text.starts_with('~') => {
                self.note_doubt(UncertainReason::Dynamic("a command in somebody's home directory"));
            }
            // zsh, which counts as a POSIX shell here, expands this to the path of a program.
            Some(text) if text.starts_with('=') => {
                self.note_doubt(UncertainReason::Dialect("a command that starts with `=`"));
            }
            Some(text) => {
                if command.lookup == CommandLookup::Shell && self.state.symbols.defines(text) {
                    command.lookup = CommandLookup::Function;
                }
            }
        }
    }

    /// Refines a word that is one variable by the values that the text gives the variable.
    fn refine_variable_word(&mut self, word: &mut Word) {
        if word.plain {
            return self.state.symbols.assume_path_variables();
        }
        let Some(name) = word.variable.as_deref().filter(|name| is_name(name)) else { return };
        match self.state.symbols.assume_shape(name) {
            VariableShape::Plain => word.plain = true,
            VariableShape::File => word.shape = Shape::Glob,
            VariableShape::Unknown => {}
        }
    }

    fn apply_effect(&mut self, effect: Effect, command: usize) -> ReadResult<()> {
        let starter =
            self.state.commands.get(command).and_then(SimpleCommand::name).unwrap_or_default();
        let starter = starter.to_owned();
        match effect {
            Effect::Runs(mut inner) => {
                if let Some(outer) = self.state.commands.get(command) {
                    inner.redirects.clone_from(&outer.redirects);
                }
                self.in_context(CommandContext::Wrapper(starter), |reader| {
                    reader.add_command(*inner)
                })
            }
            Effect::Script { text, reader } => {
                let shell = match reader {
                    ScriptReader::Same => self.shell,
                    ScriptReader::Other(shell) => shell,
                };
                self.read_script(&text, shell, CommandContext::Script(starter))
            }
            Effect::Assigns { name, value } => {
                self.assign_word(&name, value);
                Ok(())
            }
            Effect::Evaluates(word) => {
                self.note_evaluated_word(&word);
                Ok(())
            }
            Effect::IsArray(name) => {
                self.state.symbols.note_array(&name);
                Ok(())
            }
            Effect::Declares(name) => {
                self.state.symbols.note_declared(&name);
                Ok(())
            }
            Effect::RemovesFunctions => {
                self.state.symbols.remove_functions();
                Ok(())
            }
            Effect::Unclear(reason) => {
                self.note_doubt(reason);
                Ok(())
            }
        }
    }

    /// Notes that a builtin sets `NAME` or `NAME[subscript]`.
    fn assign_word(&mut self, target: &str, value: VariableValue) {
        let (name, subscript) = target.split_once('[').unwrap_or((target, ""));
        if !subscript.is_empty()
            && !self.state.symbols.note_evaluated_text(subscript.trim_end_matches(']'))
        {
            self.note_doubt(UncertainReason::Code("a subscript"));
        }
        if !subscript.is_empty() {
            self.state.symbols.note_array(name);
        }
        self.check_assignment(name, &value);
        self.state.symbols.assign(name, value);
        self.state.assignments += 1;
    }

    /// Reads text that runs as commands. A doubt inside it does not stop the reader of the outer
    /// text.
    pub(super) fn read_script(
        &mut self,
        text: &str,
        shell: ShellSyntax,
        via: CommandContext,
    ) -> ReadResult<()> {
        // Another shell does not know the functions of this one.
        let is_same_shell = via == CommandContext::Backticks;
        let functions =
            if is_same_shell { None } else { Some(self.state.symbols.hide_functions()) };
        self.state.path.push(via);
        let result = read(text, shell, TextKind::Script, self.state);
        self.state.path.pop();
        if let Some(functions) = functions {
            self.state.symbols.restore_functions(functions);
        }
        if let Err(uncertain) = result {
            self.state.note_doubt(uncertain);
        }
        Ok(())
    }
}

fn heredocs(command: &SimpleCommand) -> usize {
    command.redirects.iter().filter(|redirect| **redirect == Redirect::Heredoc).count()
}
