//! The lookup of a command's effects by its name, and the programs that have a command in their
//! arguments or their options: `find -exec`, `fd -x`, `xargs`, `parallel`, editors, pagers, `tar -I`.

use std::sync::LazyLock;

use super::prefix::{self, option_set, scan_options};
use super::{awk_sed, builtins, git, loose, shells};
use crate::command::{Effect, Redirect, SH, ScriptReader, Shape, ShellSyntax, SimpleCommand, Word};
use crate::options::{OptionSet, has_word};

/// Returns the effects of a command, from the table that knows its name.
pub(crate) fn command_effects(command: &SimpleCommand) -> Vec<Effect> {
    let Some(name) = command.name() else {
        return Vec::new();
    };
    builtins::builtin_effects(name, command)
        .or_else(|| shells::shell_program_effects(name, command))
        .or_else(|| prefix::prefix_effects(name, command))
        .or_else(|| loose::loose_effects(name, command))
        .or_else(|| match name {
            "find" => Some(find_effects(command)),
            "fd" | "fdfind" => Some(fd_effects(command)),
            "xargs" => Some(xargs_effects(command)),
            "parallel" => Some(parallel_effects(command)),
            "git" => Some(git::git_effects(command)),
            "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => {
                Some(awk_sed::awk_effects(command))
            }
            "sed" | "gsed" => Some(awk_sed::sed_effects(command)),
            _ => None,
        })
        .or_else(|| editor_effects(name, command))
        .or_else(|| exec_option_effects(name, command))
        .unwrap_or_default()
}

// Programs with options that run another program.

/// Programs with options that run a command line, and options with a value that is not followed.
const PROGRAMS: [(&str, &str, &str); 17] = [
    (
        "tar gtar bsdtar",
        "-I --use-compress-program --to-command --checkpoint-action=exec",
        "-F --info-script --new-volume-script --rsh-command --rmt-command",
    ),
    ("rsync", "-e --rsh", "--rsync-path"),
    ("zip", "-TT --unzip-command", ""),
    ("man", "-P --pager -H --html", "-C"),
    ("sort", "--compress-program", ""),
    ("split", "--filter", ""),
    ("rg", "--pre --hostname-bin", ""),
    ("bat batcat ag delta", "--pager", ""),
    ("tcpdump", "-z", ""),
    ("scp sftp", "", "-S -o -F -D -b"),
    ("wget", "", "--use-askpass -e --execute --config"),
    ("nc ncat netcat", "-e -c --exec --sh-exec", "--lua-exec"),
    ("fzf", "--preview", "--bind --execute --become"),
    ("sdiff diff3", "--diff-program", ""),
    ("install", "--strip-program", ""),
    ("nix-shell", "--run --command", ""),
    ("psql mysql mariadb sqlite3 dc", "", ""),
];

/// Returns the effects of the options of a program in the table; `None` for any other program.
fn exec_option_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let (_, runs, unclear) = PROGRAMS.iter().find(|(names, ..)| has_word(names, name))?;
    let mut effects = Vec::new();
    for (index, word) in command.args.iter().enumerate() {
        // `tar xIf PROGRAM FILE`: the values follow in the order of the letters.
        let is_bundle = index == 0 && name.ends_with("tar") && word.text.contains(['I', 'F']);
        let find =
            |options: &str| options.split(' ').find_map(|option| find_value(&word.text, option));
        let is_unclear = is_bundle && !word.text.starts_with('-')
            || word.value().is_none() && word.text.is_empty() && word.shape == Shape::Many
            || find(unclear).is_some();
        match find(runs) {
            _ if is_unclear => effects.push(Effect::unclear(name, format!("the word {word}"))),
            None => {}
            Some("") => {
                effects.extend(command.args.get(index + 1).map(|text| Effect::script(text, SH)))
            }
            Some(text) => {
                let text = Word { text: text.to_owned(), ..word.clone() };
                effects.push(Effect::script(&text, SH));
            }
        }
    }
    effects.extend(shell_word_effect(name, command));
    Some(effects)
}

/// Returns the value in a word that has this option, in full, abbreviated or in a cluster; empty if
/// the value is the next word.
fn find_value<'t>(text: &'t str, option: &str) -> Option<&'t str> {
    if let Some((name, wanted)) = option.split_once('=') {
        let value = find_value(text, name)?;
        return value.strip_prefix(wanted)?.strip_prefix('=');
    }
    if option.starts_with("--") {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        return (name.len() > 3 && option.starts_with(name)).then_some(value);
    }
    let cluster = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))?;
    let letters = option.strip_prefix('-').filter(|letters| !letters.is_empty())?;
    cluster.split_once(letters).map(|(_, value)| value)
}

/// Returns the words that run a shell in the language of an interpreter; empty for other programs.
fn shell_words(name: &str) -> &'static [&'static str] {
    match name {
        "psql" | "mysql" | "mariadb" => &["\\!", "program", "system"],
        "sqlite3" => &[".shell", ".system", "|", "edit(", "load_extension"],
        "dc" => &["!"],
        _ => &[],
    }
}

/// `true` if a command would run a shell when it reads this input.
pub(crate) fn runs_shell_on_input(command: &SimpleCommand, input: &str) -> bool {
    let input = input.to_ascii_lowercase();
    let name = command.name().unwrap_or_default();
    shell_words(name).iter().any(|marker| input.contains(marker))
}

/// Returns a doubt if the arguments or the input of an interpreter may run a shell.
fn shell_word_effect(name: &str, command: &SimpleCommand) -> Option<Effect> {
    let markers = shell_words(name);
    if markers.is_empty() {
        return None;
    }
    let fed = |redirect: &Redirect| match redirect {
        Redirect::Text(Some(text)) => runs_shell_on_input(command, text),
        Redirect::Text(None) => true,
        Redirect::Read(_) | Redirect::Write(_) | Redirect::Duplicate | Redirect::Heredoc => false,
    };
    if command.redirects.iter().any(fed) {
        return Some(Effect::unclear(name, "what it is fed"));
    }
    let args = command.args.iter().map(|word| (word, word.text.to_ascii_lowercase()));
    let found = args.filter(|(word, text)| {
        word.value().is_none() || markers.iter().any(|marker| text.contains(marker))
    });
    found.map(|(word, _)| Effect::unclear(name, format!("the word {word}"))).next()
}

// `find -exec` and `fd -x`: commands in the arguments.

/// Actions that run the words up to `;` or `+`.
const ACTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Returns the effects of `find`: the command of each action. A word that could become an action is
/// uncertain.
fn find_effects(command: &SimpleCommand) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut index = 0;
    let mut expression = false;
    while let Some(word) = command.args.get(index) {
        index += 1;
        // A pattern may match several files, but nobody names files like an action. Any other word
        // that may become several words could become an action.
        let value_of_test = expression
            && index >= 2
            && word.shape != Shape::Many
            && is_test_with_value(command.args.get(index - 2));
        if word.may_become_option() && !value_of_test {
            effects.push(Effect::unclear("find", format!("the word {word}")));
        }
        expression |= word.text.starts_with('-') || word.is("(") || word.is("!");
        if word.value().is_some_and(|text| ACTIONS.contains(&text)) {
            let rest = command.args.get(index..).unwrap_or_default();
            let Some(length) = action_length(rest) else {
                effects.push(Effect::unclear("find", "an action without its end"));
                return effects;
            };
            let words: Vec<Word> =
                rest.iter().take(length).map(|word| replace_path_placeholder(word, "{}")).collect();
            effects.extend(Effect::runs(&words));
            index += length + 1;
        }
    }
    effects
}

/// Returns the number of words up to `;`, or up to a `+` directly after `{}`.
fn action_length(words: &[Word]) -> Option<usize> {
    let ends = |index: usize| {
        let after_path =
            || index.checked_sub(1).and_then(|it| words.get(it)).is_some_and(|it| it.is("{}"));
        words.get(index).is_some_and(|word| word.is(";") || (word.is("+") && after_path()))
    };
    (0..words.len()).find(|index| ends(*index))
}

/// `true` for a test of `find` whose value is the next word.
fn is_test_with_value(word: Option<&Word>) -> bool {
    const TESTS: &str = "-name -iname -path -ipath -wholename -regex -iregex -type -user -group -newer -size \
        -perm -mtime -mmin -atime -amin -ctime -cmin -maxdepth -mindepth -printf -samefile \
        -lname";
    word.and_then(Word::value).is_some_and(|text| has_word(TESTS, text))
}

/// Replaces a placeholder by an unknown path. It is below a starting point, so it is not an option.
fn replace_path_placeholder(word: &Word, placeholder: &str) -> Word {
    match word.text.split_once(placeholder) {
        Some(("", _)) => Word::unknown("./", Shape::One),
        Some((before, _)) => Word::unknown(before, Shape::One),
        None => word.clone(),
    }
}

/// Returns the effects of `fd`: all words after `-x` or `-X`, up to `;`, are a command.
fn fd_effects(command: &SimpleCommand) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut words = command.args.iter().enumerate();
    while let Some((index, word)) = words.next() {
        if word.may_become_option() {
            effects.push(Effect::unclear("fd", format!("the word {word}")));
        }
        let text = word.text.as_str();
        let (long, attached) = text.split_once('=').unwrap_or((text, ""));
        let executes =
            is_short_exec_option(text) || (long.len() > 4 && "--exec-batch".starts_with(long));
        if !executes {
            continue;
        }
        if !attached.is_empty() || (is_short_exec_option(text) && !text.ends_with(['x', 'X'])) {
            effects.push(Effect::unclear("fd", format!("the word {word}")));
        }
        let rest = command.args.get(index + 1..).unwrap_or_default();
        let length = rest.iter().position(|word| word.is(";")).unwrap_or(rest.len());
        let inner: Vec<Word> =
            rest.iter().take(length).map(|word| replace_path_placeholder(word, "{")).collect();
        effects.extend(Effect::runs(&inner));
        words.by_ref().take(length + 1).for_each(drop);
    }
    effects
}

fn is_short_exec_option(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--") && text.contains(['x', 'X'])
}

// `xargs` and `parallel`: commands that get more arguments from the input.

static XARGS: LazyLock<OptionSet> = LazyLock::new(|| option_set("xargs"));

/// Returns the effects of `xargs`: its command gets words from the input, at the end or instead of
/// the placeholder of `-I`.
fn xargs_effects(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan_options(args, &XARGS) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("xargs", odd)],
    };
    // Without a command `xargs` runs `echo`.
    let echo = [Word::literal("echo")];
    let command = args.get(scan.rest..).unwrap_or_default();
    let rest = if command.is_empty() { echo.as_slice() } else { command };
    let placeholder = match (scan.value(&["I"]), scan.value(&["replace"]), scan.has(&["replace"])) {
        (Some(word), ..) | (None, Some(word), _) => match word.value() {
            Some(text) => Some(text),
            None => return vec![Effect::unclear("xargs", "the option -I")],
        },
        (None, None, true) => Some("{}"),
        (None, None, false) => None,
    };
    let words: Vec<Word> = match placeholder {
        Some(text) => rest.iter().map(|word| replace_input_placeholder(word, text)).collect(),
        None => rest.iter().cloned().chain([Word::unknown("", Shape::Many)]).collect(),
    };
    Effect::runs(&words)
}

fn replace_input_placeholder(word: &Word, placeholder: &str) -> Word {
    match word.text.split_once(placeholder) {
        Some((before, _)) if !placeholder.is_empty() => Word::unknown(before, Shape::One),
        Some(_) | None => word.clone(),
    }
}

static PARALLEL: LazyLock<OptionSet> = LazyLock::new(|| option_set("parallel"));

/// Returns the effects of `parallel`: it joins the words up to `:::`, fills in quoted values, and
/// passes the text to a shell.
fn parallel_effects(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan_options(args, &PARALLEL) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("parallel", odd)],
    };
    let rest = args.get(scan.rest..).unwrap_or_default();
    let is_end = |word: &Word| word.text.starts_with(":::");
    let words = rest.split(is_end).next().unwrap_or_default();
    let texts: Option<Vec<&str>> = words.iter().map(Word::value).collect();
    match texts {
        Some(texts) if !texts.is_empty() && !texts.iter().any(|text| text.starts_with('{')) => {
            vec![Effect::Script {
                text: texts.join(" "),
                reader: ScriptReader::Other(ShellSyntax::Bash),
            }]
        }
        Some(_) | None => vec![Effect::unclear("parallel", "a command from its input")],
    }
}

// Editors and pagers: commands in their options.

/// Returns the effects of an editor or a pager; `None` for any other program.
fn editor_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let effects = match name {
        "vi" | "vim" | "nvim" | "view" | "gvim" | "vimdiff" | "rvim" | "rview" | "gview"
        | "gvimdiff" | "rgvim" | "rgview" | "evim" | "eview" | "nvi" | "vim.tiny" | "vim.basic"
        | "vimx" => vim_effects(name, &command.args),
        // These editors read commands from their input, including `!`.
        "ed" | "ex" | "red" => vec![Effect::unclear(name, "what it reads")],
        "emacs" | "emacsclient" => {
            dangerous_option_effects(name, &command.args, &["--eval", "--execute", "-l", "-f"])
        }
        // `less '+!command'` and `less -k file` can run commands.
        "less" | "more" | "most" => {
            dangerous_option_effects(name, &command.args, &["+", "-k", "--lesskey"])
        }
        _ => return None,
    };
    Some(effects)
}

/// Accepts only flags that are known to run nothing, and checks the commands of the editor.
fn vim_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    const FLAGS: &str = "AbCdfFgHhLmMnNoOpRrTvxXyZ0123456789";
    const LONG: [&str; 7] =
        ["--", "--version", "--help", "--noplugin", "--clean", "--not-a-term", "--literal"];
    let mut effects = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if word.is("-c") || word.is("--cmd") {
            match words.next() {
                Some(code) => effects.extend(ex_command_effect(name, code.value())),
                None => effects.push(Effect::unclear(name, "an option without its value")),
            }
            continue;
        }
        if text.starts_with('+') {
            let code = word.value().map(|_| text.trim_start_matches('+'));
            effects.extend(ex_command_effect(name, code));
            continue;
        }
        let harmless = match text.strip_prefix('-') {
            Some(_) if text.starts_with("--") => LONG.contains(&text),
            Some(cluster) => cluster.chars().all(|letter| FLAGS.contains(letter)),
            None => true,
        };
        if !harmless || word.may_become_option() {
            effects.push(Effect::unclear(name, format!("the word {word}")));
        }
    }
    effects
}

/// Returns the effect of an editor command: a few are harmless, `!` runs a shell, and the others
/// are not understood.
fn ex_command_effect(name: &str, code: Option<&str>) -> Option<Effect> {
    const HARMLESS: [&str; 14] =
        ["", "q", "q!", "qa", "qa!", "qall", "w", "wq", "wq!", "wqa", "x", "xa", "$", "quit"];
    let Some(code) = code else {
        return Some(Effect::unclear(name, "a command of unknown value"));
    };
    let code = code.trim_start_matches([':', ' ', '\t']);
    if HARMLESS.contains(&code) || code.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match code.strip_prefix('!') {
        Some(text) => Some(Effect::Script { text: text.to_owned(), reader: SH }),
        None => Some(Effect::unclear(name, format!("the command {code}"))),
    }
}

fn dangerous_option_effects(name: &str, args: &[Word], dangerous: &[&str]) -> Vec<Effect> {
    let odd = args.iter().filter(|word| {
        word.may_become_option() || dangerous.iter().any(|option| word.text.starts_with(option))
    });
    odd.map(|word| Effect::unclear(name, format!("the word {word}"))).collect()
}
