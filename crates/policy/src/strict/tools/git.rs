//! git: its own options, settings given on the command line, and subcommands.

use super::entry::{ArgumentEffect, Judged, ProgramEntry, is_standard_input, join, written};
use crate::command::{Shape, Word};
use crate::options::{
    Arguments, Doubt, OptionReader, OptionStyle, has_word, require_known, stays_one_word,
};

/// Options before the subcommand, git(1) 2.47.3. `--exec-path=`, `--git-dir`, `--work-tree`,
/// `--config-env` and `--bare` name other programs and settings.
const GLOBAL: &str = "-p --paginate -P --no-pager --no-replace-objects --literal-pathspecs --glob-pathspecs \
    --noglob-pathspecs --icase-pathspecs --no-optional-locks --no-lazy-fetch --no-advice";

/// Options that print and end.
const PRINTING: [&str; 8] =
    ["-v", "--version", "-h", "--help", "--exec-path", "--html-path", "--man-path", "--info-path"];

/// git-merge(1): `-s NAME` starts `git-merge-NAME`.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// Judges the arguments of `git`, or of a program such as `git-log`.
pub(super) fn git(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    match program.strip_prefix("git-") {
        Some(subcommand) => judge_subcommand(entry, subcommand, args),
        None => judge(entry, args),
    }
}

fn judge(entry: &ProgramEntry, args: &[Word]) -> Judged {
    let mut all = Vec::new();
    let mut directory: Option<Word> = None;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = require_known(word)?;
        match text {
            "-c" => {
                let setting = words.next().ok_or("the option -c without a value")?;
                all.extend(judge_setting(setting)?);
            }
            "-C" => {
                let value = words.next().ok_or("the option -C without a value")?;
                if directory.is_some() || !stays_one_word(value) {
                    return Err(format!("the directory {value}"));
                }
                directory = Some(value.clone());
            }
            _ if has_word(GLOBAL, text) => {}
            _ if PRINTING.contains(&text) && words.len() == 0 => return Ok(Vec::new()),
            _ if text.starts_with('-') => {
                let name = text.split('=').next().unwrap_or(text);
                return Err(format!("the option {name}"));
            }
            _ => {
                let found = judge_subcommand(entry, text, words.as_slice())?;
                all.extend(found.into_iter().map(|it| moved(it, directory.as_ref())));
                return Ok(all);
            }
        }
    }
    Ok(Vec::new())
}

/// A consequence of a command that runs in another directory.
fn moved(consequence: ArgumentEffect, directory: Option<&Word>) -> ArgumentEffect {
    let Some(directory) = directory else { return consequence };
    let path = |word: Word| match (directory.value(), word.value()) {
        (_, Some(file)) if file.starts_with('/') => word,
        (Some(directory), Some(file)) => join(directory, file),
        _ => Word::unknown(directory.text.clone(), Shape::One),
    };
    match consequence {
        ArgumentEffect::Writes(word) => ArgumentEffect::Writes(path(word)),
        ArgumentEffect::WritesBeneath(word) => ArgumentEffect::WritesBeneath(path(word)),
        ArgumentEffect::ChecksOut(word) => ArgumentEffect::ChecksOut(path(word)),
        ArgumentEffect::ReadsCode(word) => ArgumentEffect::ReadsCode(path(word)),
        other @ (ArgumentEffect::Runs(_)
        | ArgumentEffect::Script { .. }
        | ArgumentEffect::Sets { .. }
        | ArgumentEffect::ReadsCodeFromInput
        | ArgumentEffect::Opaque) => other,
    }
}

fn judge_subcommand(git: &ProgramEntry, name: &str, args: &[Word]) -> Judged {
    let Some(entry) = git.subcommand(name) else { return Err(format!("the subcommand {name}")) };
    let subcommand = Subcommand { name, entry };
    let found = subcommand.read(args)?;
    if name == "config" {
        return configure(&found);
    }
    subcommand.check_action(&found)?;
    subcommand.check_strategy(&found)?;
    subcommand.check_repository(&found)?;
    check_editor(name, &found)?;
    let mut all = written(found.values(entry.words("writes")));
    if name == "clone" {
        for setting in found.values(&["-c", "--config"]) {
            all.extend(judge_setting(setting)?);
        }
    }
    all.extend(subcommand.local_repositories(&found).map(ArgumentEffect::ReadsCode));
    all.extend(files_of_work_tree(name, &found)?);
    Ok(all)
}

/// The files that a subcommand puts into the work tree, as far as the line can decide on them.
///
/// A patch gives content to files of any name, and `mv` gives files other names. That holds for the
/// index as well (`apply --cached`), from which a later command of the line takes the files.
/// Commands that only take files out of the history, the index or the stash (checkout, restore,
/// switch, reset, merge, pull, rebase, cherry-pick, revert, stash, submodule) report nothing:
/// whatever the line itself has put there keeps the name under which it was written, and that write
/// counts; a repository on this host, which the line may have made, is reported as code.
fn files_of_work_tree(name: &str, found: &Arguments) -> Judged {
    let here = || Word::literal(".");
    let is_add = found.operands.first().is_some_and(|action| action.is("add"));
    Ok(match name {
        "apply" if is_dry(found) => Vec::new(),
        "apply" | "am" => {
            let goes_on =
                ["--continue", "--resolved", "-r", "--skip", "--abort", "--quit", "--retry"];
            let is_from_input = found.operands.is_empty() && !found.has(&goes_on);
            // Such a patch may be part of the line, and may hold a repository with settings.
            if is_from_input || found.operands.iter().any(is_standard_input) {
                return Err("a patch from the input".to_owned());
            }
            vec![ArgumentEffect::WritesBeneath(here())]
        }
        "mv" => {
            found.operands.last().cloned().map(ArgumentEffect::WritesBeneath).into_iter().collect()
        }
        "clone" => clone_target(found).map(ArgumentEffect::ChecksOut).into_iter().collect(),
        "worktree" if is_add => {
            found.operands.get(1).cloned().map(ArgumentEffect::ChecksOut).into_iter().collect()
        }
        _ => Vec::new(),
    })
}

/// `true` if `git apply` only looks at a patch.
fn is_dry(found: &Arguments) -> bool {
    found.has(&["--check", "--stat", "--numstat", "--summary"])
        && !found.has(&["--apply", "--no-check", "--no-stat", "--no-numstat", "--no-summary"])
}

/// The directory that `git clone` makes: the last operand, or the last part of the repository.
fn clone_target(found: &Arguments) -> Option<Word> {
    let repository = found.operands.first()?;
    let directory = found.operands.get(1);
    if let Some(directory) = directory {
        return Some(directory.clone());
    }
    let text = repository.value()?.trim_end_matches('/').trim_end_matches("/.git");
    let name = text.rsplit(['/', ':']).next().unwrap_or(text);
    Some(Word::literal(name.strip_suffix(".git").unwrap_or(name)))
}

/// A subcommand and its entry. Keys of its own:
///
/// - `actions`: the words that may follow as a second name; without the key the operands are free.
/// - `repository first`, `repository any`: the operands that may be a repository, which may name a
///   transport.
/// - `merges`: the option `-s` names a merge strategy.
struct Subcommand<'e> {
    name: &'e str,
    entry: &'e ProgramEntry,
}

impl Subcommand<'_> {
    /// Sorts the arguments into options and operands.
    fn read(&self, args: &[Word]) -> Result<Arguments, Doubt> {
        let (options, style) = self.entry.options();
        let style = OptionStyle { is_negated: true, ..style };
        let found = OptionReader { sets: &[options], style }.read(args)?;
        if !EDITING.contains(&self.name) || keeps_editor_out(self.name, &found) {
            return Ok(found);
        }
        let takes_patterns = self.name == "add" || self.name == "reset";
        let is_pattern = |word: &&Word| takes_patterns && is_pattern_with_ending(word);
        let others: Vec<Word> = args.iter().filter(|word| !is_pattern(word)).cloned().collect();
        let style = OptionStyle { is_tolerant: false, ..style };
        OptionReader { sets: &[options], style }.read(&others)?;
        Ok(found)
    }

    /// Checks the second name: `git stash pop`, `git bisect start`.
    fn check_action(&self, found: &Arguments) -> Result<(), Doubt> {
        let actions = self.entry.words("actions");
        let Some(action) = found.operands.first().filter(|_| !actions.is_empty()) else {
            return Ok(());
        };
        let action_name = require_known(action)?;
        if actions.contains(&action_name) {
            return Ok(());
        }
        Err(format!("the subcommand {} {action}", self.name))
    }

    fn check_strategy(&self, found: &Arguments) -> Result<(), Doubt> {
        let merges = self.entry.has("merges");
        let names: &[&str] = if merges { &["-s", "--strategy"] } else { &["--strategy"] };
        for value in found.values(names) {
            if !STRATEGIES.contains(&require_known(value)?) {
                return Err(format!("the strategy {value}"));
            }
        }
        Ok(())
    }

    /// The number of operands that may be a repository.
    fn repositories(&self, found: &Arguments) -> usize {
        match self.entry.words("repository") {
            ["first"] => 1,
            ["any"] => found.operands.len(),
            _ => 0,
        }
    }

    /// The repositories on this host whose files the command fetches.
    fn local_repositories(&self, found: &Arguments) -> impl Iterator<Item = Word> {
        let sends = matches!(self.name, "push" | "ls-remote");
        let count = if sends { 0 } else { self.repositories(found) };
        let local = found.operands.iter().take(count).filter(|word| is_local(word));
        local.cloned().collect::<Vec<_>>().into_iter()
    }

    /// Checks that no operand names a transport: `ext::command` starts the command.
    fn check_repository(&self, found: &Arguments) -> Result<(), Doubt> {
        let count = self.repositories(found);
        let may_be_helper = |index: usize, word: &Word| match word.shape {
            Shape::Literal => after_scheme(word).starts_with("::"),
            Shape::One | Shape::Many | Shape::Glob | Shape::Process if index < count => {
                matches!(after_scheme(word), "" | ":") || after_scheme(word).starts_with("::")
            }
            Shape::One | Shape::Many | Shape::Glob | Shape::Process => false,
        };
        let mut operands = found.operands.iter().enumerate();
        match operands.find(|(index, word)| count > 0 && may_be_helper(*index, word)) {
            Some((_, word)) => Err(format!("the repository {word}")),
            None => Ok(()),
        }
    }
}

/// `true` for a repository that may be a directory or a bundle on this host. A name without a dot
/// and a slash is that of a remote.
fn is_local(word: &Word) -> bool {
    let text = word.text.as_str();
    match text.split_once("://") {
        Some((scheme, _)) => scheme.eq_ignore_ascii_case("file"),
        None => {
            // `host:path`, unless a slash comes before the colon.
            let start = text.split('/').next().unwrap_or(text);
            !start.contains(':') && text.contains(['.', '/'])
        }
    }
}

/// Checks that the command asks for no editor, which would be another program.
///
/// A command that goes on after a conflict (`--continue`) may open the user's editor; it is known
/// by its name, and the line cannot change which editor that is.
fn check_editor(name: &str, found: &Arguments) -> Result<(), Doubt> {
    let is_action = |names: &[&str]| {
        found.operands.first().is_some_and(|action| names.iter().any(|name| action.is(name)))
    };
    let is_interactive =
        |word: &Word| !["true", "false", "merges", "m"].iter().any(|mode| word.is(mode));
    let edits = match name {
        "add" => found.has(&["-e", "--edit", "-i", "--interactive", "-p", "--patch"]),
        "commit" => found.has(&["-e", "--edit", "--interactive", "-p", "--patch"]),
        "checkout" | "restore" | "reset" => found.has(&["-p", "--patch"]),
        "stash" => found.has(&["-p", "--patch"]) && !is_action(&["show", "list"]),
        "am" => found.has(&["-i", "--interactive"]),
        "tag" | "merge" | "cherry-pick" | "revert" => found.has(&["-e", "--edit"]),
        "pull" => found.has(&["--edit"]) || found.values(&["-r", "--rebase"]).any(is_interactive),
        "rebase" => found.has(&["-i", "--interactive", "--edit-todo"]),
        "branch" => found.has(&["--edit-description"]),
        _ => false,
    };
    let messages = ["-m", "--message", "-F", "--file", "-C", "--reuse-message"];
    let has_message = found.has(&messages);
    let lacks_message = match name {
        "commit" => {
            let is_plain = |word: &Word| !word.text.contains(':') || word.text.starts_with(":/");
            let mut fixups = found.values(&["--fixup"]).peekable();
            let only_fixes = fixups.peek().is_some() && fixups.all(is_plain);
            let has_odd_fixup = found.has(&["--fixup"]) && !only_fixes;
            let prints = found.has(&["--dry-run", "--short", "--porcelain", "--long", "--no-edit"]);
            has_odd_fixup
                || found.has(&["-c", "--reedit-message"])
                || !(has_message || only_fixes || prints)
        }
        "tag" => {
            let annotates = ["-a", "--annotate", "-s", "--sign", "-u", "--local-user", "--trailer"];
            found.has(&annotates) && !has_message
        }
        "notes" => {
            is_action(&["add", "append", "edit"]) && !has_message
                || found.has(&["-c", "--reedit-message"])
        }
        _ => false,
    };
    match (edits, lacks_message) {
        (true, _) => Err(format!("the editor that git {name} opens")),
        (false, true) => Err(format!("the editor that git {name} opens without a message")),
        (false, false) => Ok(()),
    }
}

/// Subcommands with options that open an editor, none of which an unknown word may become.
const EDITING: [&str; 8] = ["add", "commit", "checkout", "restore", "reset", "am", "branch", "tag"];

/// `true` if the options that are given make git refuse those that open an editor.
fn keeps_editor_out(name: &str, found: &Arguments) -> bool {
    match name {
        "tag" => found.has(&["-d", "--delete", "-l", "--list", "-v", "--verify"]),
        "reset" => found.has(&["--hard", "--soft", "--mixed", "--merge", "--keep"]),
        "branch" => {
            const MODES: [&str; 14] = [
                "-d",
                "--delete",
                "-m",
                "--move",
                "-c",
                "--copy",
                "-l",
                "--list",
                "--show-current",
                "--contains",
                "--no-contains",
                "--merged",
                "--no-merged",
                "--points-at",
            ];
            let unknown = found.operands.iter().filter(|word| word.value().is_none());
            let shapes: Vec<Shape> = unknown.map(|word| word.shape).collect();
            // `--no-delete` could switch the mode off, but then no word is left for an editor.
            let is_single = matches!(shapes.as_slice(), [] | [Shape::One]);
            found.has(&["-D", "-M", "-C"]) || (is_single && found.has(&MODES))
        }
        _ => false,
    }
}

/// `true` for a pattern such as `*.rs`: no option that opens an editor ends like this, and `git
/// add` and `git reset` have no short option with a value that such an ending could be.
fn is_pattern_with_ending(word: &Word) -> bool {
    let is_simple = |letter: char| letter.is_ascii_alphanumeric() || "_-./*?".contains(letter);
    let is_ending = |(_, ending): (&str, &str)| {
        !ending.is_empty() && ending.chars().all(|letter| letter.is_ascii_alphanumeric())
    };
    word.shape == Shape::Glob
        && word.source.chars().all(is_simple)
        && word.source.rsplit_once('.').is_some_and(is_ending)
}

/// The text after the letters that may name a transport.
fn after_scheme(word: &Word) -> &str {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    word.text.trim_start_matches(is_scheme)
}

fn configure(found: &Arguments) -> Judged {
    let reads = [
        "-l",
        "--list",
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--get-color",
        "--get-colorbool",
    ];
    let lists = found.has(&["-l", "--list"]);
    if found.has(&reads) && (!lists || found.operands.is_empty()) {
        return Ok(Vec::new());
    }
    let unsets = found.has(&["--unset", "--unset-all"]);
    let editor = match found.operands.as_slice() {
        [] => None,
        [action, ..] if action.is("list") || action.is("get") => None,
        [action, ..] if action.is("edit") => return Err("the editor that git config opens".into()),
        [action, name] if action.is("unset") => judge_pair(require_known(name)?, None)?,
        [action, name, value, ..] if action.is("set") => {
            judge_pair(require_known(name)?, value.value())?
        }
        [_] if !unsets => None,
        [name] => judge_pair(require_known(name)?, None)?,
        [name, value, ..] => judge_pair(require_known(name)?, value.value())?,
    };
    Ok(editor.into_iter().collect())
}

/// Settings that name no program, no file of settings and no directory of hooks, whatever their
/// value is. In lower case, and exact: `diff.renamesx.textconv` is another setting.
const SETTINGS: &str = "advice.addignoredfile advice.detachedhead advice.diverging advice.statushints \
    advice.pushupdaterejected advice.skippedcherrypicks apply.whitespace blame.date \
    blame.coloring blame.showemail branch.autosetupmerge branch.autosetuprebase branch.sort \
    checkout.defaultremote checkout.guess clean.requireforce clone.defaultremotename \
    color.branch color.diff color.grep color.pager color.status color.ui column.ui \
    commit.cleanup commit.gpgsign commit.status commit.verbose core.abbrev core.autocrlf \
    core.bigfilethreshold core.commentchar core.compression core.eol core.filemode \
    core.ignorecase core.logallrefupdates core.longpaths core.precomposeunicode \
    core.preloadindex core.quotepath core.safecrlf core.symlinks core.untrackedcache \
    core.whitespace diff.algorithm diff.colormoved diff.colormovedws diff.context diff.dirstat \
    diff.ignoresubmodules diff.indentheuristic diff.interhunkcontext diff.mnemonicprefix \
    diff.noprefix diff.relative diff.renamelimit diff.renames diff.statgraphwidth diff.submodule \
    diff.suppressblankempty diff.wordregex diff.wserrorhighlight fetch.fsckobjects \
    fetch.parallel fetch.prune fetch.prunetags fetch.recursesubmodules fetch.showforcedupdates \
    fetch.writecommitgraph gc.auto gc.autodetach gc.pruneexpire grep.column grep.extendedregexp \
    grep.fullname grep.linenumber grep.patterntype grep.threads http.extraheader \
    http.lowspeedlimit http.lowspeedtime http.maxrequests http.postbuffer http.sslverify \
    http.version index.threads index.version init.defaultbranch log.abbrevcommit log.date \
    log.decorate log.follow log.mailmap log.showroot maintenance.auto merge.autostash \
    merge.conflictstyle merge.directoryrenames merge.ff merge.log merge.renamelimit \
    merge.renames merge.stat merge.verbosity notes.rewritemode pack.threads pack.windowmemory \
    protocol.version pull.ff pull.octopus push.autosetupremote push.default \
    push.followtags rebase.abbreviatecommands rebase.autosquash rebase.autostash \
    rebase.missingcommitscheck rebase.stat rebase.updaterefs rerere.autoupdate rerere.enabled \
    stash.showpatch stash.showstat status.aheadbehind status.branch status.relativepaths \
    status.renames status.short status.showstash status.showuntrackedfiles submodule.fetchjobs \
    submodule.recurse tag.sort transfer.fsckobjects user.email user.name \
    user.useconfigonly worktree.guessremote";

/// Settings with the values that switch a feature off, or that open no editor.
const SWITCHED_OFF: &[(&str, &[&str])] = &[
    ("core.pager", &["cat", ""]),
    ("core.editor", &[":"]),
    ("sequence.editor", &[":"]),
    ("core.fsmonitor", &["false", ""]),
    ("core.hookspath", &["/dev/null"]),
    ("core.askpass", &[""]),
    ("credential.helper", &[""]),
    ("diff.external", &[""]),
    ("pager.branch", &["false"]),
    ("pager.diff", &["false"]),
    ("pager.log", &["false"]),
    ("pager.show", &["false"]),
    ("log.showsignature", &["false"]),
    ("pull.rebase", &["true", "false", "merges"]),
    ("tag.gpgsign", &["false"]),
];

/// Settings that name an editor. An editor that only succeeds is a program like others.
const EDITORS: [&str; 2] = ["core.editor", "sequence.editor"];

/// Judges `name=value`, or a name alone, which switches the setting on.
///
/// # Errors
/// Names the setting.
fn judge_setting(word: &Word) -> Result<Option<ArgumentEffect>, Doubt> {
    match word.text.split_once('=') {
        Some((name, value)) if stays_one_word(word) => {
            judge_pair(name, (word.shape == Shape::Literal).then_some(value))
        }
        None if word.shape == Shape::Literal => judge_pair(&word.text, Some("true")),
        _ => Err(format!("the word {word}")),
    }
}

/// Judges a setting and its value, where that is known.
///
/// # Errors
/// Names the setting.
fn judge_pair(name: &str, value: Option<&str>) -> Result<Option<ArgumentEffect>, Doubt> {
    let lower = name.to_ascii_lowercase();
    let is_off = |(known, values): &(&str, &[&str])| {
        *known == lower && value.is_some_and(|value| values.contains(&value))
    };
    if SETTINGS.split_whitespace().any(|known| known == lower) || SWITCHED_OFF.iter().any(is_off) {
        return Ok(None);
    }
    if EDITORS.contains(&lower.as_str()) && value == Some("true") {
        return Ok(Some(ArgumentEffect::Runs(vec![Word::literal("true")])));
    }
    Err(format!("the setting {name}"))
}

#[cfg(test)]
mod tests {
    use crate::strict::tests::{assert_doubts, assert_harmless, judged};

    const EVERYDAY: &[&str] = &[
        "git",
        "git --version",
        "git status",
        "git status -s",
        "git status -sb --porcelain=v1 -uno",
        "git --no-pager log --oneline -n 20",
        "git log --oneline -20",
        "git log -p -S foo --since='2 weeks ago' -- src/lib.rs",
        "git log --graph --all --decorate --pretty=format:'%h %s' --author=me",
        "git log main..HEAD --stat --no-merges --first-parent",
        "git log -1 --format=%H",
        "git log -L 10,20:src/lib.rs",
        "git diff",
        "git diff --stat HEAD~1",
        "git diff --cached --name-only",
        "git diff origin/main...HEAD -- '*.rs'",
        "git diff -U10 --ignore-all-space --no-color",
        "git diff --no-ext-diff --word-diff",
        "git show HEAD:src/lib.rs",
        "git show --stat abc123",
        "git add -A",
        "git add *.rs src/* ./$x",
        "git add -- $x @m",
        "git commit -m 'fix: handle empty input'",
        "git commit -am wip --no-verify",
        "git commit --amend --no-edit",
        "git commit -m $x",
        "git commit -F - --signoff",
        "git push",
        "git push -u origin main",
        "git push origin HEAD --force-with-lease",
        "git push origin --delete old",
        "git push origin main:$x",
        "git pull --rebase origin main",
        "git pull --ff-only",
        "git fetch origin",
        "git fetch --all --prune --tags",
        "git fetch origin pull/12/head:pr-12",
        "git clone --depth=1 https://github.com/$x",
        "git rebase origin/main",
        "git rebase --autosquash HEAD~3",
        "git commit --fixup HEAD~1",
        "git commit --fixup=abc -a",
        "git notes add -m x",
        "git rebase --continue",
        "git rebase --onto main a b",
        "git merge --no-ff feature -m 'merge it'",
        "git merge -s ours old",
        "git merge --abort",
        "git checkout -b feature/x origin/main",
        "git checkout -- src/lib.rs",
        "git checkout -- $x @m",
        "git checkout -b $x origin/main",
        "git checkout feature/$x",
        "git switch $x",
        "git branch -D @m",
        "git branch -d $x",
        "git branch --contains $x",
        "git tag v$x",
        "git tag -d @m",
        "git tag v$x -m $x",
        "git reset --hard $x",
        "git stash list -p",
        "git switch -c new",
        "git restore --staged .",
        "git branch --show-current",
        "git branch -a -vv --sort=-committerdate",
        "git branch -D old",
        "git tag -a v1 -m 'release 1'",
        "git tag -l 'v*'",
        "git stash",
        "git stash push -m wip -- src",
        "git stash pop",
        "git stash show -p",
        "git stash list",
        "git remote -v",
        "git remote add origin https://x/y.git",
        "git remote get-url origin",
        "git blame -L 10,20 src/lib.rs",
        "git ls-files '*.rs'",
        "git ls-files --others --exclude-standard",
        "git ls-tree -r --name-only HEAD",
        "git rev-parse --short HEAD",
        "git rev-parse --abbrev-ref HEAD",
        "git rev-parse --show-toplevel",
        "git rev-list --count HEAD",
        "git describe --tags --always --dirty",
        "git grep -n 'fn main' -- src",
        "git grep -l -i -e foo --and -e bar",
        "git reset --hard HEAD~1",
        "git reset HEAD -- $x",
        "git revert --no-edit HEAD",
        "git cherry-pick -x abc",
        "git worktree list --porcelain",
        "git submodule update --init --recursive",
        "git submodule status",
        "git clean -fdx -e .env",
        "git rm -r --cached dir",
        "git init -q",
        "git init -b main repo",
        "git bisect start HEAD v1",
        "git bisect good",
        "git shortlog -sn --no-merges",
        "git apply --check fix.patch",
        "git reflog -n 10",
        "git reflog show --date=iso",
        "git cat-file -p HEAD",
        "git for-each-ref --format='%(refname)' refs/heads",
        "git symbolic-ref --short HEAD",
        "git merge-base main HEAD",
        "git config user.name",
        "git config --get remote.origin.url",
        "git config --list --show-origin",
        "git config user.email me@example.com",
        "git config --global init.defaultBranch main",
        "git config set user.name me",
        "git config get core.pager",
        "git config core.hooksPath /dev/null",
        "git -c user.name=x -c user.email=$x commit -m y",
        "git -c color.ui=always diff",
        "git -c core.pager=cat log",
        "git -C sub/dir status",
        "git -C $x log --oneline",
        "git ls-remote --heads origin",
        "git count-objects -vH",
        "git check-ignore -v target",
        "git notes show",
        "git sparse-checkout set src",
        "git show-ref --tags",
        "git range-diff a b c",
        "git version",
        "git fsck --full",
        "git gc --prune=now",
    ];

    #[test]
    fn everyday_lines_have_no_doubt() {
        assert_harmless(EVERYDAY);
    }

    #[test]
    fn written_files_are_reported() {
        for (line, expected) in [
            ("git diff --output=.git/config", "writes .git/config"),
            ("git -C sub log --output out", "writes sub/out"),
            ("git -C $x log --output=out", "writes …"),
            ("git archive -o x.tgz HEAD", "writes x.tgz"),
            ("git format-patch -o out HEAD~2", "writes out"),
            ("git clone git@github.com:a/b.git dir", "checks out dir"),
            ("git clone https://github.com/a/b.git", "checks out b"),
            ("git clone --depth 1 -b main git@github.com:b.git", "checks out b"),
            ("git clone -c core.autocrlf=input https://x/y/", "checks out y"),
            ("git clone ../x.txt", "code ../x.txt, checks out x.txt"),
            ("git -C sub pull ./x.txt main", "code sub/./x.txt"),
            ("git fetch x.bundle main", "code x.bundle"),
            ("git fetch file:///tmp/x.txt", "code file:///tmp/x.txt"),
            ("git remote add y ./x.txt", "code ./x.txt"),
            ("git worktree add ../wt -b new", "checks out ../wt"),
            ("git apply -3 -p1 fix.patch", "writes beneath ."),
            ("git am -3 0001.patch", "writes beneath ."),
            ("git am --continue", "writes beneath ."),
            ("git -c core.editor=true rebase --continue", "runs true"),
            ("git mv a b", "writes beneath b"),
            ("git -C .git mv a config", "writes beneath .git/config"),
        ] {
            assert_eq!(judged(line), Ok(expected.to_owned()), "{line}");
        }
    }

    const ATTACKS: &[(&str, &str)] = &[
        ("git -c diff.renamesx.textconv=CMD diff", "the setting diff.renamesx.textconv"),
        ("git -c alias.x='!pwn' x", "the setting alias.x"),
        ("git -c core.pager=sh log", "the setting core.pager"),
        ("git -c core.pager=$x log", "the setting core.pager"),
        ("git -c Core.SSHCommand=sh fetch", "the setting Core.SSHCommand"),
        ("git -c core.fsmonitor=./e status", "the setting core.fsmonitor"),
        ("git -c core.fsmonitor status", "the setting core.fsmonitor"),
        ("git -c core.hooksPath=. commit", "the setting core.hooksPath"),
        ("git -c $x status", "the word …"),
        ("git -c user.name -c filter.x.clean=e add .", "the setting filter.x.clean"),
        ("git --config-env=core.pager=X log", "the option --config-env"),
        ("git --exec-path=/tmp/evil status", "the option --exec-path"),
        ("git --git-dir=x status", "the option --git-dir"),
        ("git --work-tree x status", "the option --work-tree"),
        ("git -C a -C b status", "the directory b"),
        ("git x", "the subcommand x"),
        ("git $x", "the word …"),
        ("git clone 'ext::sh -c pwn%' x", "the repository ext::sh -c pwn%"),
        ("git clone $x", "the word …"),
        ("git clone e$x y", "the repository e…"),
        ("git fetch ext::sh", "the repository ext::sh"),
        ("git remote add x ext::sh", "the repository ext::sh"),
        ("git submodule add ext::sh x", "the repository ext::sh"),
        ("git clone -u ./e x y", "the option -u"),
        ("git clone --upload-pack=./e x y", "the option --upload-pack"),
        ("git clone --upload ./e x y", "the option --upload"),
        ("git clone --template=t x", "the option --template"),
        ("git clone -c core.sshCommand=e x y", "the setting core.sshCommand"),
        ("git clone --config=filter.a.smudge=e x", "the setting filter.a.smudge"),
        ("git init --template=t", "the option --template"),
        ("git fetch --upload-pack ./e", "the option --upload-pack"),
        ("git push --receive-pack=./e", "the option --receive-pack"),
        ("git push --exec=./e", "the option --exec"),
        ("git push --push-option -- --exec=./e", "the option --exec"),
        ("git ls-remote --exec=./e x", "the option --exec"),
        ("git pull --upload-pack=e", "the option --upload-pack"),
        ("git pull --jobs -- --upload-pack=e", "the option --upload-pack"),
        ("git log --encoding -- --output=x", "the word --"),
        ("git rebase -x pwn HEAD~1", "the option -x"),
        ("git rebase -ix pwn HEAD~1", "the option -x"),
        ("git rebase --exec=pwn HEAD~1", "the option --exec"),
        ("git rebase --ex=pwn HEAD~1", "the option --ex"),
        ("git rebase $x", "the word …"),
        ("git merge -s evil x", "the strategy evil"),
        ("git pull --strategy=evil", "the strategy evil"),
        ("git bisect run pwn", "the subcommand bisect run"),
        ("git bisect visualize", "the subcommand bisect visualize"),
        ("git submodule foreach pwn", "the subcommand submodule foreach"),
        ("git submodule $x", "the word …"),
        ("git difftool -x pwn", "the subcommand difftool"),
        ("git mergetool", "the subcommand mergetool"),
        ("git filter-branch --tree-filter pwn", "the subcommand filter-branch"),
        ("git grep -Opwn x", "the option -O"),
        ("git grep -nO x", "the option -O"),
        ("git grep --open-files-in-pager=pwn x", "the option --open-files-in-pager"),
        ("git grep $x", "the word …"),
        ("git grep -e -- -Opwn", "the word --"),
        ("git diff --ext-diff", "the option --ext-diff"),
        ("git log $x", "the word …"),
        ("git log --author -- --output=x", "the word --"),
        ("git archive --remote=x --exec=e HEAD", "the option --remote"),
        ("git apply", "a patch from the input"),
        ("git apply --cached -", "a patch from the input"),
        ("git am", "a patch from the input"),
        ("git apply --unsafe-paths x", "the option --unsafe-paths"),
        ("git apply --build-fake-ancestor=x y", "the option --build-fake-ancestor"),
        ("git config alias.x '!pwn'", "the setting alias.x"),
        ("git config core.pager pwn", "the setting core.pager"),
        ("git config set core.editor pwn", "the setting core.editor"),
        ("git config --add core.hooksPath x", "the setting core.hooksPath"),
        ("git config -f .git/config a.b c", "the option -f"),
        ("git config --edit", "the option --edit"),
        ("git config $x y", "the word …"),
        ("git config --unset core.hooksPath", "the setting core.hooksPath"),
        ("git commit", "the editor that git commit opens without a message"),
        ("git commit -e -m x", "the editor that git commit opens"),
        ("git commit -am x --edit", "the editor that git commit opens"),
        ("git commit --author -m", "the editor that git commit opens without a message"),
        (
            "git commit -m x --fixup reword:HEAD",
            "the editor that git commit opens without a message",
        ),
        ("git add -p src", "the editor that git add opens"),
        ("git add -i", "the editor that git add opens"),
        ("git add --interactive", "the editor that git add opens"),
        ("git add -vA --edit", "the editor that git add opens"),
        ("git add $x", "the word …"),
        ("git add @m", "the word …"),
        ("git add *", "the word *"),
        ("git add -$x", "the word -…"),
        ("git commit -p -m x", "the editor that git commit opens"),
        ("git commit --interactive -m x", "the editor that git commit opens"),
        ("git commit -m x $x", "the word …"),
        ("git commit -m x @m", "the word …"),
        ("git commit -m x *.rs", "the word *.rs"),
        ("git checkout -p", "the editor that git checkout opens"),
        ("git checkout $x", "the word …"),
        ("git restore --patch x", "the editor that git restore opens"),
        ("git restore @m", "the word …"),
        ("git reset -p", "the editor that git reset opens"),
        ("git reset $x", "the word …"),
        ("git stash -p", "the editor that git stash opens"),
        ("git stash push --patch", "the editor that git stash opens"),
        ("git am -i x", "the editor that git am opens"),
        ("git am $x", "the word …"),
        ("git tag $x", "the word …"),
        ("git tag --trailer=a:b v1", "the editor that git tag opens without a message"),
        ("git branch $x", "the word …"),
        ("git branch -d @m", "the word …"),
        ("git branch -d $x $y", "the word …"),
        ("git notes add -m x $x", "the word …"),
        ("git pull --rebase=interactive", "the editor that git pull opens"),
        ("git pull -ri", "the editor that git pull opens"),
        ("git -c pull.rebase=i pull", "the setting pull.rebase"),
        ("git -c tag.gpgsign=true tag v1", "the setting tag.gpgsign"),
        ("git rebase -i HEAD~2", "the editor that git rebase opens"),
        ("git tag -a v1", "the editor that git tag opens without a message"),
        ("git notes add", "the editor that git notes opens without a message"),
        ("git config edit", "the editor that git config opens"),
        ("git config core.fsmonitor pwn --list", "the setting core.fsmonitor"),
        ("git branch --edit-description", "the editor that git branch opens"),
        ("git help log", "the subcommand help"),
        ("git log --help", "the option --help"),
        ("git maintenance start", "the subcommand maintenance start"),
        ("git send-email x", "the subcommand send-email"),
        ("git status --frobnicate", "the option --frobnicate"),
        ("git --help log", "the option --help"),
        ("git-upload-pack .", "the subcommand upload-pack"),
        ("git-grep -Opwn x", "the option -O"),
    ];

    #[test]
    fn settings_options_and_subcommands_that_start_programs_are_in_doubt() {
        assert_doubts(ATTACKS);
    }
}
