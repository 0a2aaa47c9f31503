//! `$`: variables, substitutions, arithmetic, and the two quotes that start with it.

use super::arith::Closing;
use super::cursor::{in_name, starts_name};
use super::walker::{Walk, Walker};
use super::word::{Draft, Quotes};
use crate::command::{Redirect, Shape, SimpleCommand, Via, Word};

impl Walker<'_, '_> {
    /// What a `$` starts, or the `$` itself.
    pub(super) fn dollar(&mut self, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        let next = self.peek_second();
        self.pos = self.past_continuations(self.pos + 1);
        match next {
            Some(b'(') => self.parens(draft, quotes),
            Some(b'{') => {
                self.pos += 1;
                self.nested(|walker| walker.parameter(draft, quotes))
            }
            Some(b'[') => self.syntax("`$[`"),
            Some(b'\'') if quotes == Quotes::None => {
                self.bash_only("`$'`")?;
                self.ansi_quoted(draft)
            }
            Some(b'"') if quotes == Quotes::None => {
                self.bash_only("`$\"`")?;
                self.pos += 1;
                self.double_quoted(draft)
            }
            Some(byte) if starts_name(byte) => {
                let name = self.variable_name();
                draft.push_variable(quotes, &name);
                Ok(())
            }
            Some(byte) if byte.is_ascii_digit() || b"@*#?$!-".contains(&byte) => {
                self.pos += 1;
                draft.push_variable(quotes, special_name(byte).as_str());
                Ok(())
            }
            Some(_) | None => {
                draft.push("$");
                Ok(())
            }
        }
    }

    /// A name; line continuations inside it vanish.
    pub(super) fn variable_name(&mut self) -> String {
        let mut name = String::new();
        while let Some(byte) = self.peek().filter(|byte| in_name(*byte)) {
            name.push(char::from(byte));
            self.pos += 1;
        }
        name
    }

    /// `$( … )` and `$(( … ))`.
    fn parens(&mut self, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        self.pos += 1;
        if self.eat(b'(') {
            self.nested(|walker| walker.arithmetic(Closing::Parens))?;
            draft.push_variable(quotes, "#");
            return Ok(());
        }
        let (first, loose) = (self.sink.commands.len(), self.sink.redirects.len());
        self.via(Via::Substitution, Self::commands_in_parens)?;
        match self.sink.commands.get(first..) {
            Some([command]) if prints_number(command) && self.sink.redirects.len() == loose => {
                if let Some(name) = command.name() {
                    self.sink.scope.count_on(name);
                }
                draft.push_variable(quotes, "#");
            }
            _ => draft.push_unknown(if quotes == Quotes::None { Shape::Many } else { Shape::One }),
        }
        Ok(())
    }
}

/// The name under which a special parameter is followed: `#` for all that are numbers.
pub(super) fn special_name(byte: u8) -> String {
    let name = if b"#?$!".contains(&byte) { b'#' } else { byte };
    char::from(name).to_string()
}

/// Whether all that a command prints is one number.
fn prints_number(command: &SimpleCommand) -> bool {
    let args: Option<Vec<&str>> = command.args.iter().map(Word::value).collect();
    let reads = command.redirects.iter().all(|redirect| matches!(redirect, Redirect::Read(_)));
    match (command.program.value(), args.as_deref()) {
        (Some("date"), Some(["+%s" | "+%s%N" | "+%s%3N"])) | (Some("nproc"), Some([])) => {
            command.redirects.is_empty()
        }
        (Some("wc"), Some(["-l" | "-c" | "-w"])) => reads,
        _ => false,
    }
}
