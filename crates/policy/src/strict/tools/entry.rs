//! Entries of programs that are known by lists of options and subcommands.

use super::consequence::{Consequence, Doubt};
use super::option_spec::OptionSpec;
use super::options::{Arguments, Given, Order, stays_one_word};
use crate::command::Word;

/// A program, or a subcommand of one, with the arguments that are known to be harmless.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolEntry {
    /// Its names, separated by spaces.
    pub(super) names: &'static str,
    /// Its options, as `option_spec` reads them. `*`: no option matters, none is looked at.
    pub(super) options: &'static str,
    /// Options of all its subcommands. They count in front of a subcommand only if `options` lists
    /// them, too: there, a program may read an option of a subcommand without its value.
    pub(super) shared: &'static str,
    /// Its operands.
    pub(super) operands: OperandRole,
    /// `true` for interpreters and build tools, which run code that is not looked into.
    pub(super) opaque: bool,
    /// Options whose value is a file, or a directory of files, that it runs or is configured by.
    pub(super) code: &'static str,
    /// Options whose value is a file that it writes.
    pub(super) writes: &'static str,
    /// Options whose value is a directory into which it writes files of other names.
    pub(super) directories: &'static str,
    /// Files in the working directory that it runs or is configured by, without being told.
    pub(super) files: &'static str,
    /// Options that give the code, or that make it do nothing but print.
    pub(super) inline: &'static str,
}

/// The meaning of a program's operands.
#[derive(Debug, Clone, Copy)]
pub(super) enum OperandRole {
    /// Data: any words.
    Data,
    /// There are none that are known to be harmless.
    Nothing,
    /// A file of code and its arguments; without one, the program reads code from its input.
    Script,
    /// Files of code.
    Code,
    /// Files that the program formats: their new content comes from the old.
    Formatted,
    /// So many words, then another command.
    Command(usize),
    /// The name of a subcommand and its arguments.
    Subcommand(&'static [ToolEntry]),
    /// A meaning of its own.
    Judged(fn(&Arguments) -> Result<Vec<Consequence>, Doubt>),
    /// A meaning of its own, with options only before the first operand.
    JudgedFirst(fn(&Arguments) -> Result<Vec<Consequence>, Doubt>),
}

/// An entry without options, whose operands are data.
pub(super) const PLAIN: ToolEntry = ToolEntry {
    names: "",
    options: "",
    shared: "",
    operands: OperandRole::Data,
    opaque: false,
    code: "",
    writes: "",
    directories: "",
    files: "",
    inline: "",
};

/// An entry of a build tool or an interpreter.
pub(super) const OPAQUE: ToolEntry = ToolEntry { opaque: true, ..PLAIN };

/// An entry of which no argument matters: it starts nothing, whatever its options are.
pub(super) const ANY: ToolEntry = ToolEntry { options: "*", ..PLAIN };

impl OperandRole {
    const fn order(self) -> Order {
        match self {
            Self::Script | Self::Command(_) | Self::Subcommand(_) | Self::JudgedFirst(_) => {
                Order::First
            }
            Self::Data | Self::Nothing | Self::Code | Self::Formatted | Self::Judged(_) => {
                Order::Anywhere
            }
        }
    }
}

/// The commands around a subcommand.
#[derive(Debug, Default)]
struct Outer {
    /// The options that their subcommands take as well.
    shared: Vec<&'static str>,
    /// The options that were given in front of the subcommand.
    options: Vec<Given>,
}

impl Outer {
    /// Hands options that a subcommand knows on to it: `uv --python X run` is `uv run --python X`.
    fn keep_options(&mut self, found: &Arguments) {
        let spec = OptionSpec { tokens: &self.shared, order: Order::First };
        let known = found.options.iter().filter(|given| spec.knows(&given.name));
        self.options = known.cloned().collect();
    }
}

/// The words behind the first `count`, which must each stay one word: another number of them would
/// make a different word the command.
pub(super) fn behind(words: &[Word], count: usize) -> Result<&[Word], Doubt> {
    let (before, rest) = words.split_at(count.min(words.len()));
    refuse(before, |word| !stays_one_word(word))?;
    Ok(rest)
}

/// Files of unknown names and new content appear in a directory, or as this file: unlike files that
/// are only moved or formatted, they may be code that the same line runs.
pub(super) fn download_into(target: Word) -> [Consequence; 2] {
    [Consequence::WritesBeneath(target.clone()), Consequence::Writes(target)]
}

/// The other command that the words are, without `--` in front of it.
pub(super) fn command_of(words: &[Word]) -> Option<Consequence> {
    let words = match words.split_first() {
        Some((first, rest)) if first.is("--") => rest,
        Some(_) | None => words,
    };
    (!words.is_empty()).then(|| Consequence::Runs(words.to_vec()))
}

/// Finds the entry of exactly this name in a table.
fn find<'t>(table: &'t [ToolEntry], name: &str) -> Option<&'t ToolEntry> {
    table.iter().find(|entry| entry.names.split_ascii_whitespace().any(|known| known == name))
}

/// A program's name without its version: `python3.11`, `gcc-12`.
fn without_version(name: &str) -> &str {
    let digits = |letter: char| letter.is_ascii_digit() || letter == '.';
    name.trim_end_matches(digits).trim_end_matches('-')
}

/// Looks a program up in a table and judges its arguments.
pub(super) fn judge_by(
    table: &[ToolEntry],
    program: &str,
    args: &[Word],
) -> Option<Result<Vec<Consequence>, Doubt>> {
    let entry = find(table, program).or_else(|| find(table, without_version(program)));
    entry.map(|entry| entry.judge(args))
}

impl ToolEntry {
    /// Returns what the arguments lead to.
    ///
    /// # Errors
    /// Names the argument that is not known to be harmless.
    pub(super) fn judge(&self, args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
        self.judge_within(args, &mut Outer::default())
    }

    fn judge_within(&self, args: &[Word], outer: &mut Outer) -> Result<Vec<Consequence>, Doubt> {
        let mut found = self.read(args, &outer.shared)?;
        found.options.splice(0..0, outer.options.iter().cloned());
        let mut effects = self.effects_of_options(&found);
        effects.extend(self.effects_of_operands(&found, outer)?);
        Ok(effects)
    }

    fn read(&self, args: &[Word], shared: &[&'static str]) -> Result<Arguments, Doubt> {
        if self.options == "*" {
            return Ok(Arguments { options: Vec::new(), operands: args.to_vec() });
        }
        let mut tokens = shared.to_vec();
        tokens.push(self.options);
        if !matches!(self.operands, OperandRole::Subcommand(_)) {
            tokens.push(self.shared);
        }
        OptionSpec { tokens: &tokens, order: self.operands.order() }.read(args)
    }

    fn effects_of_options(&self, found: &Arguments) -> Vec<Consequence> {
        let names = |list: &'static str| list.split_ascii_whitespace().collect::<Vec<_>>();
        let mut effects = Vec::new();
        if self.opaque {
            effects.push(Consequence::Opaque);
        }
        effects
            .extend(names(self.files).into_iter().map(Word::literal).map(Consequence::ReadsCode));
        effects.extend(found.values(&names(self.code)).cloned().map(Consequence::ReadsCode));
        // `-o -` is the standard output.
        let written = names(self.writes);
        let written = found.values(&written).filter(|word| !word.is("-")).cloned();
        effects.extend(written.map(Consequence::Writes));
        let directories = names(self.directories);
        effects.extend(found.values(&directories).cloned().map(Consequence::WritesBeneath));
        effects
    }

    fn effects_of_operands(
        &self,
        found: &Arguments,
        outer: &mut Outer,
    ) -> Result<Vec<Consequence>, Doubt> {
        let operands = found.operands.as_slice();
        match self.operands {
            OperandRole::Data => Ok(Vec::new()),
            OperandRole::Nothing => match operands.first() {
                Some(word) => Err(format!("the word {word}")),
                None => Ok(Vec::new()),
            },
            OperandRole::Script => Ok(self.script(found).into_iter().collect()),
            OperandRole::Code => Ok(operands.iter().cloned().map(Consequence::ReadsCode).collect()),
            OperandRole::Formatted => {
                Ok(operands.iter().cloned().map(Consequence::WritesBeneath).collect())
            }
            OperandRole::Command(skip) => {
                Ok(command_of(behind(operands, skip)?).into_iter().collect())
            }
            OperandRole::Subcommand(table) => {
                outer.shared.push(self.shared);
                outer.keep_options(found);
                judge_subcommand(table, operands, outer)
            }
            OperandRole::Judged(judge) | OperandRole::JudgedFirst(judge) => judge(found),
        }
    }

    /// The script of an interpreter.
    fn script(&self, found: &Arguments) -> Option<Consequence> {
        if found.has(&self.inline.split_ascii_whitespace().collect::<Vec<_>>()) {
            return None;
        }
        match found.operands.first() {
            Some(word) if !word.is("-") => Some(Consequence::ReadsCode(word.clone())),
            Some(_) | None => Some(Consequence::ReadsCodeFromInput),
        }
    }
}

fn judge_subcommand(
    table: &[ToolEntry],
    operands: &[Word],
    outer: &mut Outer,
) -> Result<Vec<Consequence>, Doubt> {
    let Some((name, args)) = operands.split_first() else {
        return Ok(Vec::new());
    };
    let Some(text) = name.value() else {
        return Err(format!("the word {name}"));
    };
    match find(table, text) {
        Some(entry) => entry.judge_within(args, outer),
        None => Err(format!("the subcommand {name}")),
    }
}

/// `true` for a known text of letters, digits and `_ . / : + , @ % -`, which means nothing to a
/// shell or a build tool that puts it into a command line.
pub(super) fn is_plain_text(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_./:+,@%-".contains(letter))
}

/// Refuses the first word for which `is_bad` holds.
///
/// # Errors
/// Names that word.
pub(super) fn refuse<'w>(
    words: impl IntoIterator<Item = &'w Word>,
    is_bad: impl Fn(&Word) -> bool,
) -> Result<(), Doubt> {
    match words.into_iter().find(|word| is_bad(word)) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(()),
    }
}

/// Refuses `@file`, which holds further options.
///
/// # Errors
/// Names the file.
pub(super) fn refuse_argument_files(found: &Arguments) -> Result<(), Doubt> {
    let values = found.options.iter().filter_map(|given| given.value.as_ref());
    refuse(found.operands.iter().chain(values), |word| word.text.starts_with('@'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Shape;

    #[test]
    fn a_word_that_may_become_several_cannot_stand_in_front_of_a_command() {
        let entry = ToolEntry { operands: OperandRole::Command(1), ..PLAIN };
        let command = Word::literal("ls");
        let glob = Word::unknown("c", Shape::Glob);
        assert_eq!(entry.judge(&[glob, command.clone()]), Err("the word c…".to_owned()));
        let one = Word::unknown("c", Shape::One);
        assert_eq!(
            entry.judge(&[one, command.clone()]),
            Ok(vec![Consequence::Runs(vec![command])])
        );
    }

    #[test]
    fn an_option_of_a_subcommand_does_not_count_in_front_of_it() {
        const INNER: &[ToolEntry] = &[ToolEntry { names: "get", ..PLAIN }];
        let operands = OperandRole::Subcommand(INNER);
        let entry = ToolEntry { options: "-n=", shared: "-n= -i", operands, ..PLAIN };
        let judge =
            |line: &str| entry.judge(&line.split(' ').map(Word::literal).collect::<Vec<_>>());
        assert_eq!(judge("-n x get -i"), Ok(Vec::new()));
        assert_eq!(judge("-i get"), Err("the option -i".to_owned()));
        assert_eq!(judge("put"), Err("the subcommand put".to_owned()));
    }

    #[test]
    fn a_version_belongs_to_the_name() {
        const TABLE: &[ToolEntry] = &[ToolEntry { names: "gcc python", ..PLAIN }];
        for name in ["gcc", "gcc-12", "python3", "python3.11"] {
            assert!(judge_by(TABLE, name, &[]).is_some(), "{name}");
        }
        assert!(judge_by(TABLE, "gccx", &[]).is_none());
    }
}
