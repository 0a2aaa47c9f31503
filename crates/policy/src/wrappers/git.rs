//! `git`: settings, options and subcommands that run other programs.

use std::sync::LazyLock;

use super::prefix::{ScannedOptions, option_set, scan_options};
use crate::command::{Effect, SH, SimpleCommand, Word};
use crate::options::OptionSet;

/// The options of git before the subcommand.
static GLOBAL: LazyLock<OptionSet> = LazyLock::new(|| option_set("git"));

/// Subcommands of git itself; any other name is a program `git-NAME` or an alias.
const SUBCOMMANDS: &str = "add am annotate apply archive bisect blame branch bundle cat-file check-attr \
    check-ignore check-ref-format checkout checkout-index cherry cherry-pick clean clone \
    commit commit-graph commit-tree config count-objects credential describe diff diff-files \
    diff-index diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch \
    for-each-ref format-patch fsck gc get-tar-commit-id grep hash-object help index-pack \
    init interpret-trailers lfs log ls-files ls-remote ls-tree mailinfo maintenance merge \
    merge-base merge-file merge-tree mergetool mktag mktree mv name-rev notes pack-refs \
    prune pack-objects pull push range-diff read-tree rebase reflog remote repack replace \
    request-pull rerere reset restore rev-list rev-parse revert rm send-email shortlog show \
    show-ref sparse-checkout stash status submodule switch tag update-index update-ref \
    update-server-info var verify-commit verify-pack verify-tag version whatchanged worktree \
    write-tree symbolic-ref stripspace show-branch";

/// Returns the words from the subcommand on; all words if the options are not understood.
pub(crate) fn git_operands(args: &[Word]) -> &[Word] {
    scan_options(args, &GLOBAL).ok().and_then(|scan| args.get(scan.rest..)).unwrap_or(args)
}

pub(super) fn git_effects(command: &SimpleCommand) -> Vec<Effect> {
    let args = command.args.as_slice();
    let scan = match scan_options(args, &GLOBAL) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("git", odd)],
    };
    let mut effects = setting_option_effects(&scan);
    let rest = args.get(scan.rest..).unwrap_or_default();
    let Some((name, rest)) = rest.split_first() else {
        return effects;
    };
    match name.value() {
        Some(text) => effects.extend(subcommand_effects(text, rest)),
        None => effects.push(Effect::unclear("git", format!("the word {name}"))),
    }
    effects
}

/// Returns the effects of `-c name=value`, `--exec-path=…` and `--config-env=…`.
fn setting_option_effects(scan: &ScannedOptions) -> Vec<Effect> {
    let mut effects = Vec::new();
    for option in &scan.options {
        let text = option.value.as_ref().map(|word| (word.text.as_str(), word.value().is_some()));
        match (option.name.as_str(), text) {
            ("c", Some((text, literal))) => effects.extend(setting_effect(text, literal)),
            ("exec-path" | "config-env", Some(_)) => {
                effects.push(Effect::unclear("git", format!("the option --{}", option.name)));
            }
            _ => {}
        }
    }
    effects
}

/// Returns the effect of one setting: it is harmless, text for a shell, or not understood.
fn setting_effect(text: &str, literal: bool) -> Option<Effect> {
    /// Settings that change only the output of git or the files that it writes.
    const HARMLESS: &str = "user. color. advice. init.defaultbranch core.quotepath core.autocrlf core.abbrev \
        core.filemode core.ignorecase diff.renames diff.algorithm merge.ff fetch.prune \
        push.autosetupremote commit.gpgsign tag.gpgsign log. http.postbuffer http.version \
        http.lowspeed push.default pull.rebase";
    let (name, value) = text.split_once('=').unwrap_or((text, "true"));
    let name = name.to_ascii_lowercase();
    if HARMLESS.split_ascii_whitespace().any(|harmless| name.starts_with(harmless)) {
        return None;
    }
    let code = match name.split('.').next() {
        Some("alias") => value.strip_prefix('!'),
        Some("core" | "sequence" | "pager" | "diff" | "merge" | "gpg" | "credential") => {
            Some(value)
        }
        Some(_) | None => None,
    };
    match code {
        Some("cat" | "true" | "false" | "") if literal && is_viewer_setting(&name) => None,
        Some(code) if literal && name.starts_with("alias.") => {
            Some(Effect::Script { text: code.to_owned(), reader: SH })
        }
        Some(_) | None => Some(Effect::unclear("git", format!("the setting {name}"))),
    }
}

/// `true` if a setting names a program that only shows or edits a text.
fn is_viewer_setting(name: &str) -> bool {
    name.starts_with("pager.") || ["core.pager", "core.editor", "sequence.editor"].contains(&name)
}

fn subcommand_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    let mut effects = if starts_git_editor(name, args) { git_editor_effects() } else { Vec::new() };
    effects.extend(launch_effects(name, args));
    effects
}

fn launch_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    match name {
        "bisect" => bisect_effects(args),
        "submodule" => submodule_effects(args),
        "rebase" => code_option_effects(name, args, &["-x", "--exec"]),
        "difftool" => code_option_effects(name, args, &["-x", "--extcmd", "-t", "--tool"]),
        "filter-branch" => vec![Effect::unclear("git filter-branch", "a filter")],
        "grep" => code_option_effects(name, args, &["-O", "--open-files-in-pager"]),
        "clone" | "fetch" | "pull" | "push" | "ls-remote" | "fetch-pack" | "archive" | "remote" => {
            transport_effects(name, args)
        }
        "config" => config_effects(args),
        "init" => code_option_effects(name, args, &["--template"]),
        "send-email" | "mergetool" | "credential" | "maintenance" => {
            vec![Effect::unclear(&format!("git {name}"), "what it starts")]
        }
        _ if SUBCOMMANDS.split(' ').any(|known| known == name) => Vec::new(),
        _ => {
            // An alias in a configuration file, or a program on PATH.
            let mut words = vec![Word::literal(format!("git-{name}"))];
            words.extend_from_slice(args);
            Effect::runs(&words)
        }
    }
}

/// Returns the effects of options whose value a shell runs. A word that could become such an option
/// is uncertain.
fn code_option_effects(name: &str, args: &[Word], options: &[&str]) -> Vec<Effect> {
    let program = format!("git {name}");
    let mut effects = Vec::new();
    for (index, word) in args.iter().enumerate() {
        if word.may_become_option() {
            effects.push(Effect::unclear(&program, format!("the word {word}")));
        }
        let Some(option) = options.iter().find(|option| is_option(&word.text, option)) else {
            continue;
        };
        let attached = if option.starts_with("--") {
            word.text.split_once('=').map(|(_, value)| value)
        } else {
            word.text.get(option.len()..).filter(|value| !value.is_empty())
        };
        let first = option.starts_with("--") || word.text.starts_with(option);
        effects.push(match (attached, word.value().filter(|_| first), args.get(index + 1)) {
            (Some(code), Some(_), _) => Effect::Script { text: code.to_owned(), reader: SH },
            (None, Some(_), Some(next)) => Effect::script(next, SH),
            _ => Effect::unclear(&program, format!("the word {word}")),
        });
    }
    effects
}

/// `true` if a word is this option: in full, abbreviated, or with its value attached.
pub(super) fn is_option(text: &str, option: &str) -> bool {
    if !option.starts_with("--") {
        let letter = option.get(1..).unwrap_or_default();
        return text.starts_with('-') && !text.starts_with("--") && text.contains(letter);
    }
    let name = text.split('=').next().unwrap_or(text);
    name.len() > 2 && option.starts_with(name)
}

/// Returns doubts for addresses and options that run a command: `ext::`, and options that name the
/// program on the remote side.
fn transport_effects(name: &str, args: &[Word]) -> Vec<Effect> {
    const OPTIONS: [&str; 5] =
        ["--upload-pack", "--receive-pack", "--exec", "--template", "--config"];
    let program = format!("git {name}");
    let mut effects = Vec::new();
    for (index, word) in args.iter().enumerate() {
        let named = OPTIONS.iter().any(|option| is_option(&word.text, option));
        let short = name == "clone" && is_option(&word.text, "-u");
        let setting = name == "clone" && is_option(&word.text, "-c");
        let value = index.checked_sub(1).and_then(|index| args.get(index));
        let free = word.value().is_none()
            && word.text.is_empty()
            && !value.is_some_and(|option| option.is("-b") || option.is("--branch"));
        if named || short || setting || free || word.text.contains("::") {
            effects.push(Effect::unclear(&program, format!("the word {word}")));
        }
    }
    effects
}

fn bisect_effects(args: &[Word]) -> Vec<Effect> {
    match args {
        [first, rest @ ..] if first.is("run") => Effect::runs(rest),
        [first, ..] if first.value().is_none() => {
            vec![Effect::unclear("git bisect", format!("the word {first}"))]
        }
        _ => Vec::new(),
    }
}

/// Returns the effects of `git submodule foreach TEXT`: git joins several words and passes the text
/// to a shell.
fn submodule_effects(args: &[Word]) -> Vec<Effect> {
    let Some(position) = args.iter().position(|word| word.is("foreach")) else {
        let odd = args.iter().find(|word| word.may_become_option());
        let odd = odd.map(|word| Effect::unclear("git submodule", format!("the word {word}")));
        return odd.into_iter().collect();
    };
    let rest = args.get(position + 1..).unwrap_or_default();
    let rest: Vec<&Word> = rest.iter().filter(|word| !word.text.starts_with("--")).collect();
    let texts: Option<Vec<&str>> = rest.iter().map(|word| word.value()).collect();
    match texts {
        Some(texts) => vec![Effect::Script { text: texts.join(" "), reader: SH }],
        None => vec![Effect::unclear("git submodule", "text of unknown value")],
    }
}

/// The options of `git config`.
static CONFIG: LazyLock<OptionSet> = LazyLock::new(|| option_set("git_config"));

/// Returns the effects of `git config name value`, which is a permanent `-c name=value`.
fn config_effects(args: &[Word]) -> Vec<Effect> {
    const ACTIONS: [&str; 5] = ["get", "list", "set", "unset", "edit"];
    const READS: [&str; 8] =
        ["get", "get-all", "get-regexp", "get-urlmatch", "list", "l", "unset", "unset-all"];
    let odd = |what: String| vec![Effect::unclear("git config", what)];
    let mut given = Vec::new();
    let mut rest = args;
    let mut action = None;
    loop {
        let scan = match scan_options(rest, &CONFIG) {
            Ok(scan) => scan,
            Err(what) => return odd(what),
        };
        rest = rest.get(scan.rest..).unwrap_or_default();
        given.extend(scan.options);
        let first = rest.first().and_then(Word::value);
        match first.and_then(|first| ACTIONS.iter().find(|it| **it == first)) {
            Some(found) if action.is_none() => action = Some(*found),
            Some(_) | None => break,
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    let has = |names: &[&str]| given.iter().any(|it| names.contains(&it.name.as_str()));
    if action == Some("edit") || has(&["e", "edit"]) {
        return git_editor_effects();
    }
    if matches!(action, Some("get" | "list" | "unset")) || (action.is_none() && has(&READS)) {
        return Vec::new();
    }
    match rest {
        [name] if name.value().is_some() && action.is_none() => Vec::new(),
        [_, _, ..] if has(&["f", "file"]) => odd("another file".to_owned()),
        [name, value, ..] => {
            let literal = name.value().is_some() && value.value().is_some();
            setting_effect(&format!("{}={}", name.text, value.text), literal).into_iter().collect()
        }
        [] | [_] => odd("what it changes".to_owned()),
    }
}

// The cases in which git starts an editor.

/// Returns the effect of starting git's configured editor, for which `editor` stands.
fn git_editor_effects() -> Vec<Effect> {
    Effect::runs(&[Word::literal("editor")])
}

/// `true` if a subcommand of git starts an editor.
fn starts_git_editor(name: &str, args: &[Word]) -> bool {
    let end = args.iter().position(|word| word.is("--")).unwrap_or(args.len());
    let words = args.get(..end).unwrap_or_default();
    let has = |options: &[&str]| {
        words.iter().any(|word| options.iter().any(|option| is_option(&word.text, option)))
    };
    match name {
        "commit" => message_source(words) != MessageSource::Argument,
        "tag" => match message_source(words) {
            MessageSource::Argument => false,
            MessageSource::Editor => true,
            MessageSource::None => has(&["-a", "-s", "-u", "--annotate", "--sign", "--local-user"]),
        },
        "notes" => match words.iter().find(|word| !word.text.starts_with('-')) {
            Some(word) if word.is("add") || word.is("edit") || word.is("append") => {
                message_source(words) != MessageSource::Argument
            }
            Some(word) => word.value().is_none(),
            None => false,
        },
        "rebase" => has(&["-i", "--interactive", "--edit-todo"]),
        "branch" => has(&["--edit-description"]),
        "merge" | "pull" | "cherry-pick" | "revert" | "add" | "replace" => has(&["-e", "--edit"]),
        _ => false,
    }
}

/// The source of a commit message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageSource {
    None,
    Argument,
    Editor,
}

/// Finds the source of the message in the options of `commit`, `tag` and `notes`.
fn message_source(words: &[Word]) -> MessageSource {
    const ARGUMENT: [&str; 6] =
        ["--message", "--file", "--reuse-message", "--no-edit", "--fixup", "--dry-run"];
    const EDITOR: [&str; 2] = ["--edit", "--reedit-message"];
    let mut message = MessageSource::None;
    let mut value = false;
    let mut fixup = false;
    for word in words {
        let reworded = std::mem::take(&mut fixup) && has_fixup_action(word);
        if std::mem::take(&mut value) && !reworded {
            continue;
        }
        if reworded {
            return MessageSource::Editor;
        }
        let text = word.text.as_str();
        if word.may_become_option() && !text.starts_with('-') {
            return MessageSource::Editor;
        }
        if text.starts_with("--") {
            let (name, attached) = text.split_once('=').map_or((text, ""), |(n, v)| (n, v));
            fixup = is_option(name, "--fixup");
            let reworded = fixup && attached.contains(':');
            if reworded || EDITOR.iter().any(|option| is_option(name, option)) {
                return MessageSource::Editor;
            }
            if ARGUMENT.contains(&name) {
                message = MessageSource::Argument;
            }
            value = !text.contains('=') && takes_next_word(name);
            fixup &= value;
        } else if let Some(cluster) = text.strip_prefix('-') {
            let end = cluster.find(['m', 'F', 'C', 'c', 't', 'S', 'u']).unwrap_or(cluster.len());
            let (flags, rest) = cluster.split_at(end);
            if flags.contains('e') || rest.starts_with('c') {
                return MessageSource::Editor;
            }
            if rest.starts_with(['m', 'F', 'C']) {
                message = MessageSource::Argument;
            }
            value = rest.len() == 1 && rest.starts_with(['m', 'F', 'C', 't']);
        }
    }
    message
}

/// `true` for `amend:COMMIT` and `reword:COMMIT` after `--fixup`, which open an editor.
fn has_fixup_action(word: &Word) -> bool {
    word.value().is_none_or(|text| text.contains(':'))
}

/// `true` if the value of a long option of `commit`, `tag` or `notes` is the next word.
fn takes_next_word(name: &str) -> bool {
    const VALUES: &str = "--message --file --reuse-message --fixup --squash --author --date --template --cleanup \
        --trailer --pathspec-from-file --local-user --ref";
    VALUES.split_ascii_whitespace().any(|option| is_option(name, option))
}
