//! Taking down what was found, and following the programs that run others.

use super::compound::is_name;
use super::scope::Settled;
use super::walker::{Kind, Walk, Walker, read};
use crate::command::{
    Assignment, Lookup, Reach, Reason, Redirect, Shape, Shell, SimpleCommand, Value, Via, Word,
};
use crate::wrappers::{self, Effect, Reader};

impl Walker<'_, '_> {
    /// Takes a command down, with everything that it would run in turn.
    pub(super) fn emit(&mut self, mut command: SimpleCommand) -> Walk<()> {
        self.charge_command(&command)?;
        let pending = self.pending.len() - heredocs(&command).min(self.pending.len());
        let first = self.sink.commands.len();
        command.path.clone_from(&self.sink.path);
        self.check_program(&mut command);
        command.args.iter_mut().for_each(|word| self.settle(word));
        command.args.iter().for_each(|word| self.sink.scope.note_word(&word.text));
        let effects = wrappers::effects(&command);
        self.sink.commands.push(command);
        for effect in effects {
            self.carry_out(effect, first)?;
        }
        let readers = first..self.sink.commands.len();
        self.feed(pending, &readers);
        Ok(())
    }

    fn check_program(&mut self, command: &mut SimpleCommand) {
        match command.program.value() {
            None => self.doubt(Reason::Dynamic("the name of a command")),
            Some(text) if text.starts_with('~') => {
                self.doubt(Reason::Dynamic("a command in somebody's home directory"));
            }
            // The path of a program to zsh, which is among the POSIX shells here.
            Some(text) if text.starts_with('=') => {
                self.doubt(Reason::Dialect("a command that starts with `=`"));
            }
            Some(text) => {
                if command.lookup == Lookup::Shell && self.sink.scope.defines(text) {
                    command.lookup = Lookup::Function;
                }
            }
        }
    }

    /// Uses what the text says about a variable that is a whole word.
    fn settle(&mut self, word: &mut Word) {
        if word.plain {
            return self.sink.scope.rely_on_roots();
        }
        let Some(name) = word.variable.as_deref().filter(|name| is_name(name)) else { return };
        match self.sink.scope.settle(name) {
            Settled::Plain => word.plain = true,
            Settled::File => word.shape = Shape::Glob,
            Settled::Open => {}
        }
    }

    fn carry_out(&mut self, effect: Effect, of: usize) -> Walk<()> {
        let starter = self.sink.commands.get(of).and_then(SimpleCommand::name).unwrap_or_default();
        let starter = starter.to_owned();
        match effect {
            Effect::Runs(mut inner) => {
                if let Some(outer) = self.sink.commands.get(of) {
                    inner.redirects.clone_from(&outer.redirects);
                }
                self.via(Via::Wrapper(starter), |walker| walker.emit(*inner))
            }
            Effect::Script { text, reader } => {
                let shell = match reader {
                    Reader::Same => self.shell,
                    Reader::Other(shell) => shell,
                };
                self.script(&text, shell, Via::Script(starter))
            }
            Effect::Assigns { name, value, reach } => {
                self.assign_word(&name, value, reach);
                Ok(())
            }
            Effect::Evaluates(word) => {
                self.evaluate_word(&word);
                Ok(())
            }
            Effect::IsArray(name) => {
                self.sink.scope.note_array(&name);
                Ok(())
            }
            Effect::Declares(name) => {
                self.sink.scope.note_declared(&name);
                Ok(())
            }
            Effect::ReliesOnOneWord(names) => {
                self.sink.scope.rely_on_one_word(names);
                Ok(())
            }
            Effect::RemovesFunctions => {
                self.sink.scope.remove_functions();
                Ok(())
            }
            Effect::Unclear(reason) => {
                self.doubt(reason);
                Ok(())
            }
        }
    }

    /// A builtin sets `NAME` or `NAME[subscript]`.
    fn assign_word(&mut self, target: &str, value: Value, reach: Reach) {
        let (name, subscript) = target.split_once('[').unwrap_or((target, ""));
        if !subscript.is_empty() && !self.sink.scope.evaluate_text(subscript.trim_end_matches(']'))
        {
            self.doubt(Reason::Code("a subscript"));
        }
        if !subscript.is_empty() {
            self.sink.scope.note_array(name);
        }
        self.check_assignment(name, &value);
        self.sink.scope.assign(name, value.clone());
        self.sink.assignments.push(Assignment { name: name.to_owned(), value, reach });
    }

    /// Reads text that is run as commands. A doubt inside it does not hide what stands outside.
    pub(super) fn script(&mut self, text: &str, shell: Shell, via: Via) -> Walk<()> {
        // Another shell does not know this one's functions.
        let own = via == Via::Backticks;
        let functions = if own { None } else { Some(self.sink.scope.hide_functions()) };
        self.sink.path.push(via);
        let result = read(text, shell, Kind::Script, self.sink);
        self.sink.path.pop();
        if let Some(functions) = functions {
            self.sink.scope.show_functions(functions);
        }
        if let Err(uncertain) = result {
            self.sink.note(uncertain);
        }
        Ok(())
    }
}

fn heredocs(command: &SimpleCommand) -> usize {
    command.redirects.iter().filter(|redirect| **redirect == Redirect::Heredoc).count()
}
