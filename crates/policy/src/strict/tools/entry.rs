//! The entries of programs: the options, subcommands and operands that are known to be harmless.
//!
//! The keys of a block in a table:
//!
//! - `options`: the options, as `options` reads them. `*`: no option matters, none is checked.
//! - `shared`: options of all subcommands. They count before a subcommand only if `options`
//!   lists them, too: there, a program may read an option of a subcommand without its value.
//! - `order first`: options come only before the first operand. Implied by `operands script`,
//!   `operands command` and subcommands.
//! - `tolerant`, `undashed`: see [`OptionStyle`].
//! - `operands`: see [`Operands`]; `data` if the key is missing.
//! - `opaque`: an interpreter or a build tool, which runs code that is not read.
//! - `code`: options whose value is a file, or a directory of files, that the program runs or is
//!   configured by.
//! - `writes`: options whose value is a file that the program writes.
//! - `directories`: options whose value is a directory into which it writes files of other names.
//! - `files`: files in the working directory that it runs or is configured by, without being told.
//! - `inline`: options that give the code, or that make it do nothing but print.
//! - `arguments`: the function that reads the arguments instead. It may use further keys.

use std::collections::HashMap;

use crate::command::{Shape, ShellSyntax, Word};
use crate::options::{
    Arguments, Block, Doubt, OptionOrder, OptionReader, OptionSet, OptionStyle, ParsedOption,
    has_word, require_known, stays_one_word,
};

/// Judges operands, and options where a table does not say enough.
pub(super) type OperandJudge = fn(&Arguments) -> Judged;

/// Reads the arguments of a program, which is called by this name.
pub(super) type ArgumentJudge = fn(&ProgramEntry, &str, &[Word]) -> Judged;

/// A function that a table names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judge {
    Operands(OperandJudge),
    Arguments(ArgumentJudge),
}

/// A program, or a subcommand of one, with the arguments that are known to be harmless.
#[derive(Debug)]
pub(super) struct ProgramEntry {
    options: OptionSet,
    shared: OptionSet,
    style: OptionStyle,
    /// `true` if no option matters, so none is checked.
    takes_any_option: bool,
    operands: Operands,
    arguments: Option<ArgumentJudge>,
    block: Block,
}

/// The meaning of a program's operands.
#[derive(Debug)]
enum Operands {
    /// `data`: any words are harmless.
    Data,
    /// `nothing`: there are none that are known to be harmless.
    Nothing,
    /// `script`: a file of code and its arguments; without one, the program reads code from its
    /// input.
    Script,
    /// `code`: files of code.
    Code,
    /// `formatted`: files that the program formats, so that their new content comes from the old.
    Formatted,
    /// `written`: files that the program writes.
    Written,
    /// `second_written`: the second, if there is one, is written (`uniq IN OUT`).
    SecondWritten,
    /// `command N`: so many words, then another command.
    Command(usize),
    /// Blocks `subcommand`: the name of a subcommand and its arguments.
    Subcommands(ProgramEntries),
    /// `judged NAME`: a meaning of its own.
    Judged(OperandJudge),
}

/// All keys of a block, including those that only functions named by `arguments` use.
const KEYS: &str = "options shared order tolerant undashed operands opaque code writes directories \
    files inline arguments before assigns inspects bare_shell actions repository merges";

/// Program entries by name.
#[derive(Debug, Default)]
pub(super) struct ProgramEntries {
    all: Vec<ProgramEntry>,
    by_name: HashMap<&'static str, usize>,
}

impl ProgramEntries {
    /// Adds the entry of a block. A block that is not understood refuses every argument.
    pub(super) fn add(
        &mut self,
        block: &Block,
        judge: fn(&str) -> Option<Judge>,
        faults: &mut Vec<String>,
    ) {
        for name in &block.names {
            if self.by_name.insert(name, self.all.len()).is_some() {
                faults.push(format!("{name}: two entries"));
            }
        }
        self.all.push(ProgramEntry::new(block, judge, faults));
    }

    /// Finds the entry of exactly this name.
    pub(super) fn find(&self, name: &str) -> Option<&ProgramEntry> {
        self.all.get(*self.by_name.get(name)?)
    }
}

/// The commands around a subcommand.
#[derive(Debug, Default)]
struct Outer<'e> {
    /// The options that their subcommands take as well.
    shared: Vec<&'e OptionSet>,
    /// The options that were given before the subcommand.
    options: Vec<ParsedOption>,
}

impl Outer<'_> {
    /// Hands options that a subcommand knows on to it: `uv --python X run` is `uv run --python X`.
    fn keep_options(&mut self, found: &Arguments) {
        let is_shared =
            |given: &&ParsedOption| self.shared.iter().any(|set| set.knows(&given.name));
        self.options = found.options.iter().filter(is_shared).cloned().collect();
    }
}

impl ProgramEntry {
    fn new(block: &Block, judge: fn(&str) -> Option<Judge>, faults: &mut Vec<String>) -> Self {
        let mut reader = BlockReader { block, judge, faults };
        reader.check_keys();
        let arguments = reader.arguments();
        let operands = reader.operands();
        let is_first =
            matches!(operands, Operands::Script | Operands::Command(_) | Operands::Subcommands(_))
                || block.words("order") == ["first"];
        let order = if is_first { OptionOrder::First } else { OptionOrder::Anywhere };
        Self {
            options: reader.option_set("options"),
            shared: reader.option_set("shared"),
            style: OptionStyle {
                order,
                is_tolerant: block.has("tolerant"),
                is_undashed: block.has("undashed"),
                is_negated: false,
            },
            takes_any_option: block.words("options") == ["*"],
            operands,
            arguments,
            block: Block { subcommands: Vec::new(), ..block.clone() },
        }
    }

    /// The options, and how they are read.
    pub(super) fn options(&self) -> (&OptionSet, OptionStyle) {
        (&self.options, self.style)
    }

    /// Returns the words of a key.
    pub(super) fn words(&self, key: &str) -> &[&'static str] {
        self.block.words(key)
    }

    /// `true` if the block has the key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.block.has(key)
    }

    /// The subcommand of this name.
    pub(super) fn subcommand(&self, name: &str) -> Option<&Self> {
        match &self.operands {
            Operands::Subcommands(entries) => entries.find(name),
            Operands::Data
            | Operands::Nothing
            | Operands::Script
            | Operands::Code
            | Operands::Formatted
            | Operands::Written
            | Operands::SecondWritten
            | Operands::Command(_)
            | Operands::Judged(_) => None,
        }
    }

    /// Returns what the arguments lead to.
    ///
    /// # Errors
    /// Names the argument that is not known to be harmless.
    pub(super) fn judge(&self, program: &str, args: &[Word]) -> Judged {
        match self.arguments {
            Some(judge) => judge(self, program, args),
            None => self.judge_by_table(args),
        }
    }

    /// Returns what the arguments lead to, without a look at the key `arguments`.
    ///
    /// # Errors
    /// Names the argument that is not known to be harmless.
    pub(super) fn judge_by_table(&self, args: &[Word]) -> Judged {
        self.judge_within(args, &mut Outer::default())
    }

    /// Sorts the arguments into options and operands.
    ///
    /// # Errors
    /// Names the first word that is not a known option and may be one when it runs.
    pub(super) fn read(&self, args: &[Word]) -> Result<Arguments, Doubt> {
        OptionReader { sets: &[&self.options], style: self.style }.read(args)
    }

    fn judge_within<'e>(&'e self, args: &[Word], outer: &mut Outer<'e>) -> Judged {
        let mut found = self.read_within(args, &outer.shared)?;
        found.options.splice(0..0, outer.options.iter().cloned());
        let mut effects = self.effects_of_options(&found);
        effects.extend(self.effects_of_operands(&found, outer)?);
        Ok(effects)
    }

    fn read_within(&self, args: &[Word], shared: &[&OptionSet]) -> Result<Arguments, Doubt> {
        if self.takes_any_option {
            return Ok(Arguments { options: Vec::new(), operands: args.to_vec() });
        }
        let mut sets = shared.to_vec();
        sets.push(&self.options);
        if !matches!(self.operands, Operands::Subcommands(_)) {
            sets.push(&self.shared);
        }
        OptionReader { sets: &sets, style: self.style }.read(args)
    }

    fn effects_of_options(&self, found: &Arguments) -> Vec<ArgumentEffect> {
        let mut effects = Vec::new();
        if self.has("opaque") {
            effects.push(ArgumentEffect::Opaque);
        }
        let files = self.words("files").iter().copied().map(Word::literal);
        effects.extend(files.map(ArgumentEffect::ReadsCode));
        effects.extend(found.values(self.words("code")).cloned().map(ArgumentEffect::ReadsCode));
        effects.extend(written(found.values(self.words("writes"))));
        let directories = found.values(self.words("directories")).cloned();
        effects.extend(directories.map(ArgumentEffect::WritesBeneath));
        effects
    }

    fn effects_of_operands<'e>(&'e self, found: &Arguments, outer: &mut Outer<'e>) -> Judged {
        let operands = found.operands.as_slice();
        Ok(match &self.operands {
            Operands::Data => Vec::new(),
            Operands::Nothing => match operands.first() {
                Some(word) => return Err(format!("the word {word}")),
                None => Vec::new(),
            },
            Operands::Script => self.script(found).into_iter().collect(),
            Operands::Code => operands.iter().cloned().map(ArgumentEffect::ReadsCode).collect(),
            Operands::Formatted => {
                operands.iter().cloned().map(ArgumentEffect::WritesBeneath).collect()
            }
            Operands::Written => written(operands),
            // A word that becomes several shifts the others.
            Operands::SecondWritten if !operands.iter().all(stays_one_word) => written(operands),
            Operands::SecondWritten => written(operands.iter().skip(1)),
            Operands::Command(skip) => command_of(behind(operands, *skip)?).into_iter().collect(),
            Operands::Subcommands(entries) => {
                outer.shared.push(&self.shared);
                outer.keep_options(found);
                return judge_subcommand(entries, operands, outer);
            }
            Operands::Judged(judge) => return judge(found),
        })
    }

    /// The script of an interpreter.
    fn script(&self, found: &Arguments) -> Option<ArgumentEffect> {
        if found.has(self.words("inline")) {
            return None;
        }
        match found.operands.first() {
            Some(word) if !word.is("-") => Some(ArgumentEffect::ReadsCode(word.clone())),
            Some(_) | None => Some(ArgumentEffect::ReadsCodeFromInput),
        }
    }
}

fn judge_subcommand<'e>(
    entries: &'e ProgramEntries,
    operands: &[Word],
    outer: &mut Outer<'e>,
) -> Judged {
    let Some((name, args)) = operands.split_first() else {
        return Ok(Vec::new());
    };
    let Some(text) = name.value() else {
        return Err(format!("the word {name}"));
    };
    match entries.find(text) {
        Some(entry) => entry.judge_within(args, outer),
        None => Err(format!("the subcommand {name}")),
    }
}

/// Refuses all arguments: for a program whose input or arguments are a language that no entry reads,
/// and for a block whose `arguments` names no such function.
pub(super) fn refuse_arguments(_: &ProgramEntry, program: &str, _: &[Word]) -> Judged {
    Err(format!("the arguments of {program}"))
}

/// Reads the fields of a block, and collects what is not understood.
struct BlockReader<'b> {
    block: &'b Block,
    judge: fn(&str) -> Option<Judge>,
    faults: &'b mut Vec<String>,
}

impl BlockReader<'_> {
    fn fault(&mut self, what: &str) {
        self.faults.push(format!("{:?}: {what}", self.block.names));
    }

    fn check_keys(&mut self) {
        for (key, words) in &self.block.fields {
            let is_known = has_word(KEYS, key);
            let is_flag = matches!(
                *key,
                "tolerant" | "undashed" | "opaque" | "assigns" | "bare_shell" | "merges"
            );
            if !is_known || is_flag != words.is_empty() {
                self.fault(key);
            }
        }
        if self.block.has("order") && self.block.words("order") != ["first"] {
            self.fault("order");
        }
    }

    fn option_set(&mut self, key: &str) -> OptionSet {
        for token in self.block.words(key).iter().filter(|token| **token != "*") {
            if !OptionSet::is_token(token) {
                self.fault(token);
            }
        }
        OptionSet::from_tokens(self.block.words(key).iter().copied())
    }

    fn arguments(&mut self) -> Option<ArgumentJudge> {
        let [name] = self.block.words("arguments") else { return None };
        match (self.judge)(name) {
            Some(Judge::Arguments(judge)) => Some(judge),
            Some(Judge::Operands(_)) | None => {
                self.fault(name);
                Some(refuse_arguments)
            }
        }
    }

    fn operands(&mut self) -> Operands {
        if !self.block.subcommands.is_empty() {
            let mut entries = ProgramEntries::default();
            for block in &self.block.subcommands {
                entries.add(block, self.judge, self.faults);
            }
            return Operands::Subcommands(entries);
        }
        match self.block.words("operands") {
            [] | ["data"] => Operands::Data,
            ["nothing"] => Operands::Nothing,
            ["script"] => Operands::Script,
            ["code"] => Operands::Code,
            ["formatted"] => Operands::Formatted,
            ["written"] => Operands::Written,
            ["second_written"] => Operands::SecondWritten,
            ["command"] => Operands::Command(0),
            ["command", "1"] => Operands::Command(1),
            ["judged", name] if let Some(Judge::Operands(judge)) = (self.judge)(name) => {
                Operands::Judged(judge)
            }
            words => {
                self.fault(&words.join(" "));
                Operands::Nothing
            }
        }
    }
}

// The effects of a command's arguments, and helpers to report them.

/// One effect of a command's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentEffect {
    /// The command starts another one: its program and arguments.
    Runs(Vec<Word>),
    /// A shell reads this text as commands.
    Script { text: String, shell: ShellSyntax },
    /// The command sets this variable in the environment of what it starts.
    Sets {
        name: String,
        /// The value, if it is known.
        value: Option<String>,
    },
    /// The command creates, changes or removes this file.
    Writes(Word),
    /// The command may create, change or remove this file, or any file beneath it if it is a
    /// directory: the names come from an archive, a source directory or a pattern.
    WritesBeneath(Word),
    /// The command fills this directory with files of a repository: their content and their names
    /// come from its history, not from the line.
    ChecksOut(Word),
    /// The command runs the content of this file as code: a script, a makefile, a configuration.
    ReadsCode(Word),
    /// The command runs its standard input as code.
    ReadsCodeFromInput,
    /// The command is an interpreter or a build tool: the code that it runs is not read.
    Opaque,
}

/// The effects of a command's arguments, or the argument that is in doubt.
pub(super) type Judged = Result<Vec<ArgumentEffect>, Doubt>;

/// Reports files as written. `-` is the standard output; a process substitution is a pipe.
pub(super) fn written<'w>(words: impl IntoIterator<Item = &'w Word>) -> Vec<ArgumentEffect> {
    let files = words.into_iter().filter(|word| !word.is("-") && word.shape != Shape::Process);
    files.cloned().map(ArgumentEffect::Writes).collect()
}

/// Reports files as code that the command runs.
pub(super) fn read_as_code<'w>(words: impl IntoIterator<Item = &'w Word>) -> Vec<ArgumentEffect> {
    words.into_iter().cloned().map(ArgumentEffect::ReadsCode).collect()
}

/// Reports text that the command hands to a shell.
pub(super) fn script(text: &Word, shell: ShellSyntax) -> Judged {
    Ok(vec![ArgumentEffect::Script { text: require_known(text)?.to_owned(), shell }])
}

/// `true` if the word is one of a list that is separated by white space.
pub(super) fn is_one_of(word: &Word, list: &str) -> bool {
    word.value().is_some_and(|text| has_word(list, text))
}

/// Reports the standard input as code if the command reads it.
pub(super) fn code_from_input(reads_input: bool) -> Vec<ArgumentEffect> {
    reads_input.then_some(ArgumentEffect::ReadsCodeFromInput).into_iter().collect()
}

/// Returns the path of a file in a directory.
pub(super) fn join(directory: &str, name: &str) -> Word {
    let slash = if directory.ends_with('/') || directory.is_empty() { "" } else { "/" };
    Word::literal(format!("{directory}{slash}{name}"))
}

/// Returns the words after the first `count`. Each of those must stay one word: otherwise a
/// different word would be the command.
pub(super) fn behind(words: &[Word], count: usize) -> Result<&[Word], Doubt> {
    let (before, rest) = words.split_at(count.min(words.len()));
    refuse(before, |word| !stays_one_word(word))?;
    Ok(rest)
}

/// Reports files with unknown names and new content in a directory, or as this file. Unlike files
/// that are only moved or formatted, they may be code that the same line runs.
pub(super) fn download_into(target: Word) -> [ArgumentEffect; 2] {
    [ArgumentEffect::WritesBeneath(target.clone()), ArgumentEffect::Writes(target)]
}

/// Returns the command that the words form, without a leading `--`.
pub(super) fn command_of(words: &[Word]) -> Option<ArgumentEffect> {
    let words = match words.split_first() {
        Some((first, rest)) if first.is("--") => rest,
        Some(_) | None => words,
    };
    (!words.is_empty()).then(|| ArgumentEffect::Runs(words.to_vec()))
}

/// `true` for a text of letters, digits and `_ . / : + , @ % -`, which has no special meaning to a
/// shell or a build tool that puts it into a command line.
pub(super) fn is_plain_text(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_./:+,@%-".contains(letter))
}

/// Refuses the first word for which `is_bad` holds.
///
/// # Errors
/// The first such word.
pub(super) fn refuse<'w>(
    words: impl IntoIterator<Item = &'w Word>,
    is_bad: impl Fn(&Word) -> bool,
) -> Result<(), Doubt> {
    match words.into_iter().find(|word| is_bad(word)) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(()),
    }
}

/// Refuses `@file`, which contains further options.
///
/// # Errors
/// The first such file.
pub(super) fn refuse_argument_files(found: &Arguments) -> Result<(), Doubt> {
    let values = found.options.iter().filter_map(|given| given.value.as_ref());
    refuse(found.operands.iter().chain(values), |word| word.text.starts_with('@'))
}

/// `true` for a path that is the command's input rather than a file: `-`, a pipe, `/dev/stdin`.
pub(crate) fn is_standard_input(word: &Word) -> bool {
    let is_input =
        |path: &str| path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/");
    word.shape == Shape::Process || word.value().is_some_and(is_input)
}
