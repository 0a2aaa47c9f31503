//! Interpreters, debuggers and clients of databases, whose languages can start programs; editors, pagers,
//! documents, and programs that belong to no other family.

use std::sync::LazyLock;

use super::entry::{
    ArgumentEffect, Judged, ProgramEntry, behind, code_from_input, command_of, is_one_of,
    is_plain_text, read_as_code, refuse, refuse_argument_files, refuse_arguments,
};
use crate::command::{ShellSyntax, Word};
use crate::options::{Arguments, Doubt, OptionOrder, OptionSet, has_word, require_known};

/// `python -m name` looks for the module in the working directory first.
pub(super) fn python(found: &Arguments) -> Judged {
    let inline = ["-c", "-h", "-V", "-?", "--version", "--help", "--help-all", "--help-env"];
    if found.has(&inline) || found.has(&["--help-xoptions"]) {
        return Ok(Vec::new());
    }
    if let Some(module) = found.values(&["-m"]).last() {
        let name = require_known(module)?.replace('.', "/");
        let files = [format!("{name}.py"), format!("{name}/__main__.py")];
        return Ok(files.map(|file| ArgumentEffect::ReadsCode(Word::literal(file))).to_vec());
    }
    Ok(vec![script_of(&found.operands)])
}

/// Perl and Ruby: with `-i` the operands are files that change.
pub(super) fn perl(found: &Arguments) -> Judged {
    let mut operands = found.operands.as_slice();
    let mut effects = Vec::new();
    if !found.has(&["-e", "-E", "-h", "-v", "-V", "--version", "--help", "--copyright"]) {
        effects.push(script_of(operands));
        operands = operands.get(1..).unwrap_or_default();
    }
    if found.has(&["-i"]) {
        effects.extend(operands.iter().cloned().map(ArgumentEffect::Writes));
    }
    Ok(effects)
}

fn script_of(operands: &[Word]) -> ArgumentEffect {
    match operands.first() {
        Some(word) if !word.is("-") => ArgumentEffect::ReadsCode(word.clone()),
        Some(_) | None => ArgumentEffect::ReadsCodeFromInput,
    }
}

/// A class, or a source file. `@file` holds further options, and so does one after `-jar`, as
/// long as the name of the program has not been read.
pub(super) fn java(found: &Arguments) -> Judged {
    let has_main = found.has(&["-jar", "-m", "--module"]);
    match found.operands.first() {
        Some(word) if !has_main && word.text.starts_with('@') => Err(format!("the word {word}")),
        Some(word) if !has_main && word.text.ends_with(".java") => {
            Ok(vec![ArgumentEffect::ReadsCode(word.clone())])
        }
        Some(_) | None => match found.values(&["-jar", "-m", "--module"]).next() {
            Some(word) if word.text.starts_with('@') => Err(format!("the word {word}")),
            Some(_) | None => Ok(Vec::new()),
        },
    }
}

/// Refuses `@file`, which holds further options, and `/p:name=value`, which is one for MSBuild.
pub(super) fn no_argument_files(found: &Arguments) -> Judged {
    let values = found.options.iter().filter_map(|given| given.value.as_ref());
    let is_option = |word: &&Word| {
        word.text.starts_with('@') || (word.text.starts_with('/') && word.text.contains(':'))
    };
    match found.operands.iter().chain(values).find(is_option) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(Vec::new()),
    }
}

/// Commands of a debugger that only print.
const DEBUGGER_COMMANDS: [&str; 22] = [
    "bt",
    "bt full",
    "backtrace",
    "backtrace full",
    "where",
    "info threads",
    "info registers",
    "info sharedlibrary",
    "info locals",
    "info args",
    "info frame",
    "info line",
    "info signals",
    "thread apply all bt",
    "thread apply all bt full",
    "thread apply all backtrace",
    "thread backtrace all",
    "bt all",
    "quit",
    "q",
    "detach",
    "set pagination off",
];

pub(super) fn gdb(found: &Arguments) -> Judged {
    let is_run = |word: &&Word| ["run", "r", "start"].iter().any(|name| word.is(name));
    let commands: Vec<_> = found.values(&["-ex", "--eval-command", "-o", "--one-line"]).collect();
    let unknown =
        |word: &&Word| !is_run(word) && !DEBUGGER_COMMANDS.iter().any(|known| word.is(known));
    if let Some(word) = commands.iter().copied().find(unknown) {
        return Err(format!("the command {word}"));
    }
    let is_batch = found.has(&["--batch", "-batch", "--batch-silent", "-b"]);
    let mut effects = Vec::new();
    if !is_batch && !found.has(&["--version", "-v", "--help", "-h", "--configuration"]) {
        effects.push(ArgumentEffect::ReadsCodeFromInput);
    }
    let starts = commands.iter().copied().any(|word| is_run(&word));
    let has_program = found.has(&["--args", "-args"]) || starts;
    if has_program && !found.operands.is_empty() {
        effects.push(ArgumentEffect::Runs(found.operands.clone()));
    } else if let Some(word) = found.operands.iter().find(|word| word.text.starts_with('-')) {
        return Err(format!("the word {word}"));
    }
    Ok(effects)
}

/// The words of SQL in lower case: everything that is not a letter, digit or `_` separates them.
fn sql_words(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Accepts text in which each statement starts with a known verb and no refused word stands
/// anywhere, not even in a string: names in quotes are names, too.
fn check_sql(word: &Word, refused: &str) -> Result<(), Doubt> {
    const VERBS: &str = "select insert update delete with explain create drop alter pragma begin commit \
        rollback values replace vacuum analyze reindex show describe desc use set truncate \
        grant revoke table";
    let doubt = || format!("the word {word}");
    let text = word.value().ok_or_else(doubt)?;
    // A backslash starts a command of the client, and so does a dot before a line.
    let has_dot = text.lines().any(|line| line.trim_start().starts_with('.'));
    if text.contains('\\') || has_dot || text.contains('\0') {
        return Err(doubt());
    }
    let words = sql_words(text);
    if words.iter().any(|found| has_word(refused, found)) {
        return Err(doubt());
    }
    for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let verb = sql_words(statement).into_iter().next().unwrap_or_default();
        let starts_with_verb = statement.to_ascii_lowercase().starts_with(&verb);
        if !starts_with_verb || !has_word(VERBS, verb.as_str()) {
            return Err(doubt());
        }
    }
    Ok(())
}

/// `sqlite3 FILE SQL…`; without SQL it reads SQL and dot commands from its input.
pub(super) fn sqlite(found: &Arguments) -> Judged {
    // These functions and statements load libraries, start an editor and write files.
    const REFUSED: &str = "load_extension edit writefile attach into_file fts3_tokenizer";
    if found.has(&["-version", "--version", "-help", "--help"]) {
        return Ok(Vec::new());
    }
    let Some(file) = found.operands.first() else {
        return Ok(vec![ArgumentEffect::ReadsCodeFromInput]);
    };
    let statements = behind(&found.operands, 1)?;
    let mut effects = vec![ArgumentEffect::Writes(file.clone())];
    if found.has(&["-readonly", "--readonly"]) || file.is(":memory:") {
        effects.clear();
    }
    if statements.is_empty() {
        effects.push(ArgumentEffect::ReadsCodeFromInput);
    }
    for statement in statements {
        check_sql(statement, REFUSED)?;
        let words = sql_words(&statement.text);
        // `vacuum into` writes another file.
        if words.iter().any(|word| word == "vacuum") && words.iter().any(|word| word == "into") {
            return Err(format!("the word {statement}"));
        }
    }
    Ok(effects)
}

pub(super) fn psql(found: &Arguments) -> Judged {
    // Words by which the server starts programs or reads and writes its own files.
    const REFUSED: &str =
        "program lo_export lo_import pg_file_write language extension copy load system";
    for word in found.values(&["-v", "--set", "--variable", "-P", "--pset"]) {
        const KNOWN: &str =
            "ON_ERROR_STOP AUTOCOMMIT QUIET VERBOSITY format border pager null footer";
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        if !has_word(KNOWN, name) || word.value().is_none() || !is_plain_text(value) {
            return Err(format!("the setting {name}"));
        }
    }
    // A connection may take its key from an engine, which is a library.
    let databases = found.operands.iter().chain(found.values(&["-d", "--dbname"]));
    refuse(databases, |word| word.value().is_none_or(|text| text.contains("engine")))?;
    let commands: Vec<_> = found.values(&["-c", "--command"]).collect();
    for command in &commands {
        if !is_listing(command) {
            check_sql(command, REFUSED)?;
        }
    }
    let is_told = found.has(&["-f", "--file", "-l", "--list", "-V", "--version", "-?", "--help"]);
    let from_input = found.values(&["-f", "--file"]).any(|word| word.is("-"));
    let reads_input = from_input || (commands.is_empty() && !is_told);
    Ok(code_from_input(reads_input))
}

/// `\dt`, `\d+ table`, `\l`: commands of psql that only list.
fn is_listing(word: &Word) -> bool {
    let Some(command) = word.value().and_then(|text| text.strip_prefix('\\')) else {
        return false;
    };
    let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
    let is_name = name == "l" || name == "conninfo" || name == "l+" || name == "z";
    let is_describe = name.starts_with('d')
        && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'+')
        && name.len() <= 4;
    let is_pattern = |letter: char| letter.is_ascii_alphanumeric() || "_.*\"".contains(letter);
    (is_name || is_describe) && rest.chars().all(is_pattern)
}

pub(super) fn mysql(found: &Arguments) -> Judged {
    const REFUSED: &str = "system source pager nopager tee edit outfile dumpfile delimiter load sys_exec sys_eval \
        plugin soname";
    let commands: Vec<_> = found.values(&["-e", "--execute"]).collect();
    commands.iter().try_for_each(|command| check_sql(command, REFUSED))?;
    let is_told = found.has(&["-V", "--version", "-?", "--help"]);
    let reads_input = commands.is_empty() && !is_told;
    Ok(code_from_input(reads_input))
}

/// Commands of Redis that read or change keys, not the server.
const REDIS_COMMANDS: &str = "get set del exists keys scan type ttl pttl expire persist incr decr \
    incrby append strlen mget mset hget hset hgetall hkeys hvals hdel hlen lrange llen lpush rpush \
    lpop rpop smembers sadd srem scard sismember zrange zadd zrem zcard zscore zrevrange xlen xrange \
    xinfo xread ping info dbsize time echo publish subscribe memory object rename unlink flushdb \
    flushall monitor role lastsave randomkey select client slowlog pubsub";

pub(super) fn redis(found: &Arguments) -> Judged {
    const MODES: [&str; 11] = [
        "--stat",
        "--latency",
        "--latency-history",
        "--bigkeys",
        "--memkeys",
        "--hotkeys",
        "--scan",
        "--version",
        "-v",
        "--help",
        "--askpass",
    ];
    let Some(first) = found.operands.first() else {
        let reads_input = !found.has(&MODES);
        return Ok(code_from_input(reads_input));
    };
    let name = first.value().unwrap_or_default().to_ascii_lowercase();
    let is_config_get = name == "config"
        && found.operands.get(1).is_some_and(|word| word.text.eq_ignore_ascii_case("get"));
    let is_known = has_word(REDIS_COMMANDS, &name);
    if is_known || is_config_get { Ok(Vec::new()) } else { Err(format!("the command {first}")) }
}

pub(super) fn mongo(found: &Arguments) -> Judged {
    let scripts = found.operands.iter().filter(|word| word.text.ends_with(".js"));
    let mut effects: Vec<_> = scripts.cloned().map(ArgumentEffect::ReadsCode).collect();
    let is_told = found.has(&["--eval", "-f", "--file", "--version", "-h", "--help"]);
    if effects.is_empty() && !is_told {
        effects.push(ArgumentEffect::ReadsCodeFromInput);
    }
    Ok(effects)
}

// Editors, pagers, documents and others.

pub(super) fn vim(found: &Arguments) -> Judged {
    const COMMANDS: [&str; 13] =
        ["q", "q!", "qa", "qa!", "qall", "w", "wq", "wq!", "wqa", "x", "xa", "quit", "$"];
    let is_known = |text: &str| {
        let command = text.trim_start_matches(':');
        COMMANDS.contains(&command) || command.bytes().all(|byte| byte.is_ascii_digit())
    };
    for word in found.values(&["-c"]) {
        if !word.value().is_some_and(is_known) {
            return Err(format!("the command {word}"));
        }
    }
    for word in found.operands.iter().filter(|word| word.text.starts_with('+')) {
        if !word.value().is_some_and(|text| is_known(text.trim_start_matches('+'))) {
            return Err(format!("the command {word}"));
        }
    }
    editor(found)
}

/// An editor changes its files, and takes commands from its input.
pub(super) fn editor(found: &Arguments) -> Judged {
    if found.has(&["--version", "--help", "-h"]) {
        return Ok(Vec::new());
    }
    // `ed '!command'` reads the output of a command.
    refuse(&found.operands, |word| word.text.starts_with('!'))?;
    let files = found.operands.iter().filter(|word| !word.text.starts_with('+'));
    let mut effects: Vec<_> = files.cloned().map(ArgumentEffect::Writes).collect();
    effects.push(ArgumentEffect::ReadsCodeFromInput);
    Ok(effects)
}

/// `+G`, `+20`, `+/pattern`; a line end would start another command.
pub(super) fn less(found: &Arguments) -> Judged {
    let commands = found.operands.iter().filter(|word| word.text.starts_with('+'));
    let patterns = found.values(&["-p", "--pattern"]);
    // After `$`, and after a number, further options may stand in the same word.
    let ends = |text: &str| text.contains(|letter: char| letter.is_control() || letter == '$');
    refuse(patterns, |word| word.value().is_none_or(ends))?;
    let is_number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b".,".contains(&byte));
    let numbers = found.values(&["-b", "-h", "-j", "-x", "-y", "-z", "-n", "--tabs", "--window"]);
    refuse(numbers, |word| !word.value().is_some_and(is_number))?;
    refuse(commands, |word| {
        word.value().is_none_or(|text| {
            let command = text.trim_start_matches('+');
            let is_known = command == "G"
                || command == "F"
                || command.bytes().all(|byte| byte.is_ascii_digit())
                || (command.starts_with('/') && !command.contains(char::is_control));
            !is_known
        })
    })?;
    Ok(Vec::new())
}

pub(super) fn no_cache_command(found: &Arguments) -> Judged {
    refuse(found.operands.first(), |word| word.is("cache")).map(|()| Vec::new())
}

/// Without `-dump` a browser takes commands from its input.
pub(super) fn dumped_page(found: &Arguments) -> Judged {
    let is_dump = found.has(&["-dump", "-source", "-version", "--version", "-help", "-listonly"]);
    // `lynxexec:` and `file:///cgi-bin` start programs.
    let is_page = |word: &Word| {
        !word.text.contains(':')
            || word.text.starts_with("http://")
            || word.text.starts_with("https://")
    };
    refuse(&found.operands, |word| !is_page(word))?;
    Ok(code_from_input(!is_dump))
}

/// Options of the commands of tmux that start another command.
static TMUX_START: LazyLock<OptionSet> = LazyLock::new(|| {
    OptionSet::parse("-d -A -D -P -X -s== -n== -t== -x== -y== -c== -h -v -b -l== -p== -a -k")
});

pub(super) fn tmux(found: &Arguments) -> Judged {
    const QUERIES: &str = "ls list-sessions has has-session lsw list-windows lsp list-panes lsc \
        list-clients capturep capture-pane display display-message kill-session kill-window killw \
        kill-pane killp kill-server lscm list-commands lsb list-buffers showb show-buffer rename \
        rename-session rename-window info detach detach-client attach attach-session a at";
    const START: &str = "new new-session neww new-window splitw split-window";
    refuse(&found.operands, |word| {
        word.value().is_none_or(|text| text.contains("#(") || text.ends_with(';'))
    })?;
    let Some((name, args)) = found.operands.split_first() else {
        return Ok(vec![ArgumentEffect::ReadsCodeFromInput]);
    };
    if is_one_of(name, QUERIES) {
        return Ok(Vec::new());
    }
    if !is_one_of(name, START) {
        return Err(format!("the subcommand {name}"));
    }
    tmux_command(&TMUX_START.read(args, OptionOrder::First)?)
}

/// One word is a text for the shell, several are a command.
fn tmux_command(found: &Arguments) -> Judged {
    match found.operands.as_slice() {
        [] => Err("tmux without a command, which starts a shell".to_owned()),
        [text] => {
            Ok(vec![ArgumentEffect::Script { text: text.text.clone(), shell: ShellSyntax::Posix }])
        }
        words => Ok(vec![ArgumentEffect::Runs(words.to_vec())]),
    }
}

pub(super) fn screen(found: &Arguments) -> Judged {
    if found.has(&["-ls", "-list", "-wipe", "-v", "-version", "--version"]) {
        return Ok(Vec::new());
    }
    let command = command_of(&found.operands);
    Ok(vec![command.unwrap_or(ArgumentEffect::ReadsCodeFromInput)])
}

/// An address that is a program or a file is not one of a person.
pub(super) fn addresses(found: &Arguments) -> Judged {
    let copies = found.values(&["-c", "-b"]);
    refuse(found.operands.iter().chain(copies), |word| word.text.contains(['|', '/', '!']))?;
    Ok(Vec::new())
}

/// Words by which a project's own tool reads code from its input, or starts another program.
pub(super) fn project(found: &Arguments) -> Judged {
    const OTHER: &str = "shell dbshell exec run-command console edit bench genspider agent";
    let is_other = |word: &Word| word.value().is_none_or(|text| has_word(OTHER, text));
    refuse(found.operands.first(), is_other)?;
    let is_code = |word: &&Word| {
        [".py", ".js", ".ts", ".ipynb", ".bats"].iter().any(|ending| word.text.ends_with(ending))
    };
    // `foreman run command` and `dvc run command` cannot be told from `dbt run`.
    if found.operands.first().is_some_and(|word| word.is("run"))
        && found.operands.get(1).is_some_and(|word| !is_code(&word))
    {
        return Err("the subcommand run".to_owned());
    }
    Ok(read_as_code(found.operands.iter().filter(is_code)))
}

/// `R CMD name` starts another program.
pub(super) fn no_batch(found: &Arguments) -> Judged {
    refuse(&found.operands, |_| true)?;
    let is_told = found.has(&["-e", "-f", "--file", "--version", "--help"]);
    Ok(code_from_input(!is_told))
}

pub(super) fn dc(found: &Arguments) -> Judged {
    let has_command = |word: &Word| word.value().is_none_or(|text| text.contains('!'));
    refuse(found.values(&["-e", "--expression"]), has_command)?;
    let mut effects: Vec<_> = read_as_code(&found.operands);
    // `?` in an expression reads the input as well.
    let asks = found.values(&["-e", "--expression"]).any(|word| word.text.contains('?'));
    if asks || (effects.is_empty() && found.options.is_empty()) {
        effects.push(ArgumentEffect::ReadsCodeFromInput);
    }
    Ok(effects)
}

/// `logsave FILE COMMAND…` stores what the command prints.
pub(super) fn logsave(found: &Arguments) -> Judged {
    let Some(file) = found.operands.first() else {
        return Ok(Vec::new());
    };
    let command = behind(&found.operands, 1)?;
    // Options are read only before the file.
    OptionSet::default().read(command, OptionOrder::First)?;
    Ok(vec![ArgumentEffect::Writes(file.clone()), ArgumentEffect::Runs(command.to_vec())])
}

/// A file; `\input` gives code, and `&name` a format.
pub(super) fn tex(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.text.starts_with(['\\', '&', '|', '"', '*']))?;
    if found.operands.is_empty() && !found.has(&["-version", "--version", "-help", "--help", "-v"])
    {
        return Ok(vec![ArgumentEffect::ReadsCodeFromInput]);
    }
    Ok(read_as_code(&found.operands))
}

/// A format that is a file is a program in Lua. PDF is made by another program.
pub(super) fn pandoc(found: &Arguments) -> Judged {
    let formats = ["-f", "-r", "--from", "--read", "-t", "-w", "--to", "--write"];
    let is_name = |text: &str| {
        text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_+-".contains(letter))
    };
    refuse(found.values(&formats), |word| !word.value().is_some_and(is_name))?;
    let is_pdf =
        |word: &Word| word.value().is_none_or(|text| text.ends_with(".pdf") || text == "pdf");
    refuse(found.values(&["-o", "--output", "-t", "--to"]), is_pdf).map(|()| Vec::new())
}

/// `--java_out=settings:directory` hides the directory after settings.
pub(super) fn protoc(found: &Arguments) -> Judged {
    refuse_argument_files(found)?;
    let outputs = found.options.iter().filter(|given| given.name.ends_with("_out"));
    refuse(outputs.filter_map(|given| given.value.as_ref()), |word| word.text.contains(':'))?;
    Ok(Vec::new())
}

pub(super) fn no_settings(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.value().is_none_or(|text| text.contains('=')))
        .map(|()| Vec::new())
}

pub(super) fn needs_list(found: &Arguments) -> Judged {
    if found.has(&["-l", "--list", "-V", "--version", "-h"]) {
        return Ok(Vec::new());
    }
    Ok(vec![ArgumentEffect::ReadsCodeFromInput])
}

/// Files that are read or written; an address with a colon may be more than a file.
pub(super) fn plain_files(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.text.contains(':') || word.text.starts_with('@'))?;
    Ok(found.operands.iter().cloned().map(ArgumentEffect::Writes).collect())
}

/// Files appear beneath a directory.
pub(super) fn unpack(found: &Arguments) -> Judged {
    let directory = found.values(&["-d", "-o"]).last().cloned();
    Ok(vec![ArgumentEffect::WritesBeneath(directory.unwrap_or_else(|| Word::literal(".")))])
}

pub(super) fn pg_ctl(found: &Arguments) -> Judged {
    const ACTIONS: [&str; 5] = ["start", "stop", "restart", "reload", "status"];
    let unknown = |word: &Word| !ACTIONS.iter().any(|action| word.is(action));
    refuse(&found.operands, unknown).map(|()| Vec::new())
}

/// Verbs with their options, joined by `then`, and files.
pub(super) fn mlr(found: &Arguments) -> Judged {
    const VERBS: &str = "cat head tail sort uniq count count-distinct count-values cut join nest reorder \
        rename regularize rename sec2gmt seqgen stats1 stats2 step tac top unsparsify sort-within-records \
        label json-parse json-stringify flatten unflatten fill-down fill-empty group-by group-like \
        having-fields histogram merge-fields most-frequent least-frequent nothing grep decimate \
        bar bootstrap shuffle sample reshape altkv summary";
    let is_verb = |word: &Word| is_one_of(word, VERBS);
    refuse(&found.operands, |word| word.value().is_none())?;
    let behind_then = found.operands.iter().zip(found.operands.iter().skip(1));
    let behind_then = behind_then.filter(|(then, _)| then.is("then")).map(|(_, verb)| verb);
    let verbs = found.operands.first().into_iter().chain(behind_then);
    // Options of `join` name a program that prepares its input.
    refuse(&found.operands, |word| word.text.starts_with("--prepipe"))?;
    refuse(verbs, |word| !is_verb(word)).map(|()| Vec::new())
}

/// Without `-o` the name of the file stands in the input.
pub(super) fn uudecode(found: &Arguments) -> Judged {
    if found.has(&["-o", "--version", "--help"]) {
        return Ok(Vec::new());
    }
    Err("uudecode without the option -o".to_owned())
}

pub(super) fn all_written(found: &Arguments) -> Judged {
    Ok(found.operands.iter().cloned().map(ArgumentEffect::Writes).collect())
}

/// Only the version and the help of such a program are known to be harmless. Many of them read
/// commands from their input without an argument.
pub(super) fn unread(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    if args.is_empty() {
        return Err(format!("{program} without an argument"));
    }
    entry.judge_by_table(args)
}

/// The input or the arguments are a language that no entry reads.
pub(super) fn version_only(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    match args {
        [] => Ok(Vec::new()),
        [only] if only.is("--version") || only.is("--help") => Ok(Vec::new()),
        _ => refuse_arguments(entry, program, args),
    }
}

#[cfg(test)]
mod tests {
    use crate::strict::tests::{check, harmless};

    #[test]
    fn everyday_use_of_interpreters_is_known() {
        harmless(
            "python -m pytest -q tests/test_api.py::test_login
        python3 -c 'print(1); print(2)'
        python3 -u -W ignore script.py --flag -x
        python3 -m venv .venv
        python3 -m pip install -r requirements.txt
        python3 -m json.tool data.json
        python3 -m http.server 8000
        python3.11 -X dev -m unittest discover -s tests
        python3 --version
        python -V
        python manage.py migrate
        node --version
        node -e 'console.log(1)'
        node -p process.version
        node --test
        node --test --test-reporter=spec test/
        node --max-old-space-size=4096 build.js --watch
        node --experimental-vm-modules node_modules/jest/bin/jest.js --ci
        node -r dotenv/config server.js
        node --check index.js
        deno run --allow-net main.ts
        deno test -A
        deno fmt --check
        deno task build
        ruby -v
        ruby -Ilib -Itest test/x_test.rb
        ruby -e 'puts 1'
        ruby -rjson -e 'puts 1'
        perl -ne 'print if /x/' file.txt
        perl -pi -e 's/a/b/' file.txt
        perl -MData::Dumper -e 'print 1'
        perl -lane 'print $F[0]' f
        perl script.pl a b
        php -v
        php -l index.php
        php artisan migrate --force
        php -r 'echo 1;'
        php -S localhost:8000 -t public
        lua script.lua
        Rscript -e '1+1'
        julia --project=. test/runtests.jl
        java -version
        java -jar app.jar --server.port=8080
        java -Xmx2g -cp build/classes:lib/x.jar com.example.Main -x
        java Main.java
        javac -d out src/Main.java
        dotnet build -c Release
        dotnet test --no-build --filter Name=x
        swift build -c release
        mix test test/x_test.exs
        gdb -batch -ex bt ./app core
        gdb -p 1234 --batch -ex 'thread apply all bt'
        octave --eval 1+1",
        );
    }

    #[test]
    fn scripts_are_named() {
        check(
            "python x.py -c => opaque; code x.py
        python -m tool.x => code tool/x.py; code tool/x/__main__.py
        python => code from input
        python - => code from input
        node => code from input
        node -r ./hook.js app.js => code ./hook.js; code app.js
        perl x.pl => code x.pl
        perl -pi -e 's/a/b/' f g => writes f; writes g
        perl => code from input
        ruby -I lib x.rb => code lib; code x.rb
        php => code from input
        java -cp x.jar Main => code x.jar
        java -jar x.jar => code x.jar
        tclsh => code from input
        gdb --args ./app x => runs ./app x
        gdb -batch -ex run ./app => runs ./app
        gdb ./app => code from input
        lua -e 1 => opaque",
        );
    }

    #[test]
    fn options_that_name_programs_are_in_doubt() {
        check(
            "node --openssl-config=x a.js => the option --openssl-config
        node --env-file=.env a.js => the option --env-file
        java -XX:OnError=id Main => the option -XX:OnError
        java -XX:OnOutOfMemoryError=id Main => the option -XX:OnOutOfMemoryError
        java -javaagent:x.jar Main => the option -javaagent:x.jar
        java -agentlib:jdwp=launch=id Main => the option -agentlib:jdwp
        java @args => the word @args
        javac @args => the word @args
        javac -J-XX:OnError=id X.java => the option -J-XX:OnError
        javac -processor X X.java => the option -processor
        php -d extension=x.so a.php => the option -d
        php -c . a.php => the option -c
        php -z x.so => the option -z
        gdb -batch -ex '!id' => the command !id
        gdb -batch -ex 'shell id' => the command shell id
        gdb -x cmds => the option -x
        lldb -b -o 'platform shell id' => the command platform shell id
        ghc -pgmF ./x a.hs => the option -pgmF
        ghc -e 1 => the option -e
        dotnet exec x.dll => the subcommand exec
        dotnet build -p:X=Y => the option -p
        dotnet build /p:X=Y => the word /p:X=Y
        mix cmd id => the subcommand cmd
        swift build -Xlinker x => the option -X
        deno repl => the subcommand repl
        octave --persist => the option --persist",
        );
    }

    #[test]
    fn plain_sql_is_known() {
        harmless(
            "sqlite3 app.db 'select count(*) from users;'
        sqlite3 -header -column app.db 'SELECT * FROM t LIMIT 5'
        sqlite3 -json app.db 'select 1'
        sqlite3 --version
        sqlite3 app.db 'insert into t values (1); select 2'
        psql -c 'select 1'
        psql -h localhost -U postgres -d app -tAc 'SELECT version()'
        psql -U postgres -c '\\dt'
        psql -c '\\d+ public.users'
        psql -l
        psql -f schema.sql
        psql -v ON_ERROR_STOP=1 -f schema.sql
        psql --version
        mysql -u root -e 'show databases'
        mysql -uroot -psecret app -e 'select * from t'
        mysqldump -u root app
        pg_dump -Fc -f out.dump app
        pg_isready -h localhost
        redis-cli ping
        redis-cli -h localhost get key
        redis-cli KEYS pattern
        redis-cli config get maxmemory
        mongosh --quiet --eval 'db.stats()'",
        );
    }

    #[test]
    fn commands_of_clients_are_in_doubt() {
        check(
            "sqlite3 => code from input
        sqlite3 :memory: => code from input
        sqlite3 a.db 'select 1' => writes a.db
        sqlite3 a.db '.shell id' => the word .shell id
        sqlite3 a.db ' .system id' => the word  .system id
        sqlite3 a.db 'select load_extension(1)' => the word select load_extension(1)
        sqlite3 a.db 'select edit (1, 2)' => the word select edit (1, 2)
        sqlite3 a.db 'select writefile(1,2)' => the word select writefile(1,2)
        sqlite3 a.db 'vacuum into 1' => the word vacuum into 1
        sqlite3 a.db 'attach 1 as x' => the word attach 1 as x
        sqlite3 a.db -cmd '.shell id' => the option -cmd
        sqlite3 -init x a.db => the option -init
        sqlite3 --cmd x => the option --cmd
        sqlite3 -A c => the option -A
        psql => code from input
        psql -c '\\! id' => the word \\! id
        psql -c '\\dt `id`' => the word \\dt `id`
        psql -c 'select 1 \\g |id' => the word select 1 \\g |id
        psql -c 'copy t from program x' => the word copy t from program x
        psql -c 'COPY t TO PROGRAM x' => the word COPY t TO PROGRAM x
        psql -o '|id' -c 'select 1' => the option -o
        psql -v PROMPT1=x => the setting PROMPT1
        psql 'sslkey=engine:x' -c 'select 1' => the word sslkey=engine:x
        psql -f - => code from input
        psql -P pager_x=1 -c 'select 1' => the setting pager_x
        mysql -e 'system id' => the word system id
        mysql -e '\\! id' => the word \\! id
        mysql --pager=id -e 'select 1' => the option --pager
        mysql -e 'select 1 into outfile 2' => the word select 1 into outfile 2
        mysql --plugin-dir=x => the option --plugin-dir
        mysql --defaults-file=x => the option --defaults-file
        mysql db => code from input
        redis-cli config set dir /x => the command config
        redis-cli eval x 0 => the command eval
        redis-cli module load x => the command module
        redis-cli --eval x => the option --eval
        redis-cli -x set k => the option -x
        redis-cli => code from input
        mongosh => code from input
        mongosh x.js => code x.js
        duckdb x => the word x",
        );
    }

    #[test]
    fn everyday_use_of_viewers_is_known() {
        harmless(
            "less README.md
        less -RFX +G app.log
        less -N +/error app.log
        more -20 x
        man -k printf
        man 3 printf
        man ls
        bat --style=plain -r 1:20 src/lib.rs
        bat -p --paging=never x
        lynx -dump https://example.org
        tmux ls
        tmux has-session -t dev
        tmux kill-session -t dev
        tmux capture-pane -p -t dev
        screen -ls
        vim --version
        nano --version
        code --version
        mail -s hello a@example.org
        info -o - ls",
        );
    }

    #[test]
    fn commands_and_files_are_named() {
        check(
            "vim x => writes x; code from input
        vi -c :q x => writes x
        ed x => writes x; code from input
        nano x => code from input
        tmux new-session -d -s x 'id && ls' => Posix script id && ls
        tmux new -d id -u => runs id -u
        tmux neww id => Posix script id
        tmux => code from input
        screen -dmS x id -u => runs id -u
        screen -d -m id => runs id
        screen => code from input
        lynx https://x => code from input",
        );
    }

    #[test]
    fn commands_that_start_programs_are_in_doubt() {
        check(
            "vim -c ':!id' => the command :!id
        vim '+!id' => the command +!id
        vim +:!id x => the command +:!id
        vim --cmd x => the option --cmd
        vim -S x => the option -S
        vim -u x => the option -u
        vim -es x => the option -s
        vim -c 'py3 x' => the command py3 x
        ed '!id' => the word !id
        nano -s ./e x => the option -s
        nano --speller=./e x => the option --speller
        emacs --eval x => the option --eval
        emacs x => the word x
        emacsclient -e x => the option -e
        code --install-extension x => the option --install-extension
        less '+!id' x => the word +!id
        less -k x y => the option -k
        less -b5kx y => the word 5kx
        less '-px$-kx' y => the word x$-kx
        tmux new -d -f ls 'touch x' => the option -f
        screen -dm -h ls touch x => the option -h
        nvim -l x.lua => the option -l
        less --lesskey-src=x y => the option --lesskey-src
        less -o x y => the option -o
        more '+!id' x => the word +!id
        man -P ./e ls => the option -P
        man --pager=./e ls => the option --pager
        man -H./e ls => the option -H
        man -C x ls => the option -C
        man --page=./e ls => the option --page
        bat --pager ./e x => the option --pager
        delta --pager=./e => the option --pager
        lynx -editor=./e x => the option -editor
        lynx -dump lynxexec:id => the word lynxexec:id
        tmux new -d => tmux without a command, which starts a shell
        tmux new-session -d -s dev => tmux without a command, which starts a shell
        mail -E 'shell id' => the option -E
        tmux run-shell id => the subcommand run-shell
        tmux send-keys id Enter => the subcommand send-keys
        tmux display -p '#(id)' => the word #(id)
        tmux ls ; run id => the word ;
        tmux -c id => the option -c
        tmux -f x new => the option -f
        tmux if-shell id x => the subcommand if-shell
        screen -X exec id => the option -X
        mail --exec='!id' => the option --exec
        mail -s x '|id' => the word |id
        mutt -F x => the option -F
        xdg-open x => the word x
        kitty -e id => the option -e
        vipw -q => the option -q",
        );
    }

    #[test]
    fn everyday_use_of_other_programs_is_known() {
        harmless(
            "alembic upgrade head
        flask --app app run
        celery -A app worker -l info
        manage.py migrate
        sphinx-build -b html docs out
        uvicorn app:app --reload --port 8000
        gunicorn -w 4 app:app
        bats test/x.bats
        hugo --minify
        ipython -c 1
        R -e 1
        dc -e '2 2 + p'
        hg status
        hg log -l 5
        svn update
        svn log -l 3
        gpg --verify x.asc x
        gpg --list-keys
        pdflatex -interaction=nonstopmode main.tex
        pandoc -f markdown -t html README.md -o out.html
        xmllint --noout x.xml
        protoc -I. --python_out=out x.proto
        bison -d x.y
        sysctl -n kernel.hostname
        sysctl -a
        fdisk -l
        ffmpeg -i a.mp4 -c:v libx264 b.mp4
        cowsay hello
        msgfmt -o x.mo x.po
        dmsetup ls --tree
        mount
        crash --version",
        );
    }

    #[test]
    fn rest_commands_and_files_are_named() {
        check(
            "protoc --python_out=.git/hooks x.proto => writes beneath .git/hooks
        protoc --java_out=lite:.git x.proto => the word lite:.git
        pdflatex -output-directory=.git/hooks x.tex => writes beneath .git/hooks
        asciidoctor -D out x.adoc => writes beneath out
        pandoc --extract-media=x y.docx => writes beneath x
        valgrind --leak-check=full ./app x => runs ./app x
        rlwrap id => runs id
        grc id => runs id
        logsave x.log id => writes x.log; runs id
        msgfilter -i x id => runs id
        bats x.bats => code x.bats
        dc => code from input
        dc x => code x
        dc -e '?' => code from input
        irb => code from input
        R => code from input
        pdflatex x.tex => code x.tex
        latex => code from input
        pandoc x -o y.html => writes y.html
        logrotate -f x => code x
        gpg -o x -d y => writes x
        fdisk /dev/sda => code from input
        bpftrace x.bt => code x.bt
        unsquashfs -d out x => writes beneath out",
        );
    }

    #[test]
    fn other_arguments_are_in_doubt() {
        check(
            "ld.so /bin/id => the word /bin/id
        ld-linux-x86-64.so.2 /bin/rm x => the word /bin/rm
        check_by_ssh -o ProxyCommand=id => the option -o
        check_log -F x => the option -F
        capsh -- -c id => the word -c
        dc -e '!id' => the word !id
        flask shell => the word shell
        foreman run id => the subcommand run
        dvc run id => the subcommand run
        R CMD id => the word CMD
        hg --config alias.x=!id x => the option --config
        hg x => the subcommand x
        svn --config-option=x status => the option --config-option
        svn diff --diff-cmd ./e => the option --diff-cmd
        svn commit --editor-cmd ./e => the option --editor-cmd
        gpg --photo-viewer ./e => the option --photo-viewer
        gpg --homedir . --list-keys => the option --homedir
        gpg --agent-program ./e => the option --agent-program
        pdflatex -shell-escape x => the option -shell-escape
        latex --shell-escape x => the option --shell-escape
        pdflatex '\\input{|id}' => the word \\input{|id}
        latexmk -e x => the option -e
        latexmk -pdflatex=./e x => the option -pdflatex
        groff -U x => the option -U
        pic -U x => the option -U
        pandoc -F ./e x => the option -F
        pandoc --lua-filter x y => the option --lua-filter
        pandoc -t x.lua y => the word x.lua
        pandoc --pdf-engine=./e x => the option --pdf-engine
        protoc --plugin=x y => the option --plugin
        protoc --go_out=. x => the option --go_out
        sysctl kernel.core_pattern=x => the word kernel.core_pattern=x
        sysctl -w a=b => the option -w
        sysctl -p x => the option -p
        ldconfig -f x => the option -f
        mount -o loop x y => the option -o
        pidstat -e id => the option -e
        dstat --x => the option --x
        bpftrace -c id x => the option -c
        bpftrace --unsafe -e x => the option --unsafe
        cowsay -f ./e x => the option -f
        pygmentize -x -l ./e.py => the option -x
        valgrind --tool=./e id => the option --tool
        csvtool call id x => the subcommand call
        dmsetup ls --exec id => the option --exec
        xsltproc --load-trace x => the option --load-trace
        libreoffice macro:///x => the word macro:///x
        gsettings set a b c => the subcommand set
        jupyter evil => the subcommand evil
        concurrently id => the word id
        mpirun id => the word id
        borg create --rsh ./e => the option --rsh
        xdotool exec id => the word exec
        scanmem -c id => the option -c
        wrk -s x.lua http://y => code x.lua",
        );
    }

    #[test]
    fn everyday_use_is_known() {
        harmless(
            "raku x.raku
        sbcl --script x.lisp
        clojure -e '(+ 1 2)'
        ocaml x.ml
        nim c -r x.nim
        crystal spec
        zig build test
        zig version
        prove -lrv t
        behave features
        robot tests
        gulp build
        dot -Tpng x.dot -o x.png
        nasm -f elf64 x.asm -o x.o
        kustomize build overlays/dev
        scalac -d out x.scala
        grunt
        karma start --single-run
        node-gyp rebuild
        dune build
        bmake -j4 all
        argocd app list
        flux get kustomizations -A
        etcdctl get foo --prefix
        pgbench -c 10 -T 60 db
        pg_ctl -D data status
        redis-server --port 6380 --save ''
        sqlite-utils tables x.db --counts
        mlr --icsv --opprint sort -nr x then head -n 5 data.csv
        xmlstarlet sel -t -v //a x.xml
        xq -r .a x.xml
        tomlq .a x.toml
        dotenv --version
        qemu-img --version",
        );
    }

    #[test]
    fn unread_commands_and_files_are_named() {
        check(
            "systemd-cat -t x id -u => runs id -u
        ocaml x.ml => opaque; code x.ml
        sbcl --script x.lisp => code x.lisp
        erb x.erb => code x.erb
        erb => code from input
        pydoc evil => code evil
        prove t/x.t => code t/x.t
        pgbench -f x.sql db => code x.sql
        redis-server x.conf => code x.conf
        pg_ctl -D data -l log start => code data; writes log
        robot -d out tests => writes beneath out; code tests
        zipalign 4 a.apk run.sh => writes run.sh
        dot -Tpng x.dot -o Makefile => writes Makefile
        nasm -fbin x.asm -o.git/config => writes .git/config
        scalac -d .git/hooks x.scala => writes beneath .git/hooks
        kustomize build -o x . => writes x
        uudecode -o x y => writes x",
        );
    }

    #[test]
    fn arguments_that_are_not_listed_are_in_doubt() {
        check(
            "cross-env A=1 id => the word A=1
        dotenv -- id => the word id
        onchange x -- id => the word x
        modd -f x => the option -f
        kustomize build --enable-exec . => the option --enable-exec
        ocamlc -pp id x.ml => the option -pp
        as @file => the word @file
        login -f root => the option -f
        wine x.exe => the word x.exe
        qemu-x86_64 ./x => the word ./x
        uftrace ./x => the word ./x
        systemd-socket-activate -l 1 ./x => the option -l
        xe id => the word id
        prove -e id t => the option -e
        prove --exec id t => the option --exec
        nim c --cc:env x.nim => the option --cc:env
        gulp --gulpfile x => the option --gulpfile
        bmake SHELL=./e => the word SHELL=./e
        helmfile apply => the word apply
        etcdctl lock x id => the subcommand lock
        etcdctl watch x -- id => the subcommand watch
        pg_ctl -D d -p ./e start => the option -p
        redis-server --loadmodule ./x.so => the option --loadmodule
        sqlite-utils convert x.db t c 'import os' => the subcommand convert
        mlr -n put 'end{system(1)}' => the option -n
        mlr --icsv cat then put 'system(1)' x => the word put
        mlr --icsv tee Makefile x => the word tee
        mlr --icsv join --prepipe id -f x y => the word --prepipe
        xmlstarlet ed -L -d //a x.xml => the subcommand ed
        tomlq -i .a x => the option -i
        uudecode x => uudecode without the option -o
        rename.ul x.txt Makefile x.txt => the word x.txt
        dpkg-reconfigure tzdata => the word tzdata
        plink host id => the word host
        sox '|id' x => the word |id
        postgres -D x => the option -D",
        );
    }
}
