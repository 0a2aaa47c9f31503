//! git: its own options, settings given on the command line, and subcommands.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::git_options::{Repository, SUBCOMMANDS, Subcommand};
use super::git_settings::{judge_pair, judge_setting};
use super::options::{Arguments, NO_OPTIONS, Options, known, read, stays_one_word};
use super::tool::{join, written};
use crate::command::{Shape, Word};

/// Options before the subcommand, git(1) 2.47.3. `--exec-path=`, `--git-dir`, `--work-tree`,
/// `--config-env` and `--bare` name other programs and settings.
const GLOBAL: [&str; 12] = [
    "-p",
    "--paginate",
    "-P",
    "--no-pager",
    "--no-replace-objects",
    "--literal-pathspecs",
    "--glob-pathspecs",
    "--noglob-pathspecs",
    "--icase-pathspecs",
    "--no-optional-locks",
    "--no-lazy-fetch",
    "--no-advice",
];
/// Options that print and end.
const PRINTING: [&str; 8] =
    ["-v", "--version", "-h", "--help", "--exec-path", "--html-path", "--man-path", "--info-path"];
/// git-merge(1): `-s NAME` starts `git-merge-NAME`.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

const CONFIG: Options = Options {
    flags: "lz",
    long: "local global system worktree blob= null name-only show-origin show-scope show-names \
        includes type= bool int bool-or-int bool-or-str path expiry-date default= get get-all \
        get-regexp get-urlmatch get-color get-colorbool list add replace-all unset unset-all \
        fixed-value all value= url= regexp append comment=",
    negated: true,
    ..NO_OPTIONS
};

/// Judges the arguments of git.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    match program.strip_prefix("git-") {
        Some(subcommand) => Some(judge_subcommand(subcommand, args)),
        None => (program == "git").then(|| judge(args)),
    }
}

fn judge(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let mut all = Vec::new();
    let mut directory: Option<Word> = None;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = known(word)?;
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
            _ if GLOBAL.contains(&text) => {}
            _ if PRINTING.contains(&text) && words.len() == 0 => return Ok(Vec::new()),
            _ if text.starts_with('-') => {
                let name = text.split('=').next().unwrap_or(text);
                return Err(format!("the option {name}"));
            }
            _ => {
                let found = judge_subcommand(text, words.as_slice())?;
                all.extend(found.into_iter().map(|it| moved(it, directory.as_ref())));
                return Ok(all);
            }
        }
    }
    Ok(Vec::new())
}

/// A consequence of a command that runs in another directory.
fn moved(consequence: Consequence, directory: Option<&Word>) -> Consequence {
    let Some(directory) = directory else { return consequence };
    let path = |word: Word| match (directory.value(), word.value()) {
        (_, Some(file)) if file.starts_with('/') => word,
        (Some(directory), Some(file)) => join(directory, file),
        _ => Word::unknown(directory.text.clone(), Shape::One),
    };
    match consequence {
        Consequence::Writes(word) => Consequence::Writes(path(word)),
        Consequence::WritesBeneath(word) => Consequence::WritesBeneath(path(word)),
        other @ (Consequence::Runs(_)
        | Consequence::Script { .. }
        | Consequence::Sets { .. }
        | Consequence::ReadsCode(_)
        | Consequence::ReadsCodeFromInput
        | Consequence::Opaque) => other,
    }
}

fn judge_subcommand(name: &str, args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    if name == "config" {
        return configure(args);
    }
    let subcommand = SUBCOMMANDS.iter().find(|subcommand| subcommand.name == name);
    let Some(subcommand) = subcommand else { return Err(format!("the subcommand {name}")) };
    let found = read(args, &subcommand.options)?;
    subcommand.check_action(&found)?;
    subcommand.check_strategy(&found)?;
    subcommand.check_repository(&found)?;
    check_editor(name, &found)?;
    let mut all = written(found.values(subcommand.writes));
    if name == "clone" {
        for setting in found.values(&["c", "config"]) {
            all.extend(judge_setting(setting)?);
        }
    }
    let is_add = found.operands.first().is_some_and(|action| action.is("add"));
    // The directory that is filled with files of the repository.
    let filled = match name {
        "mv" => found.operands.last(),
        "clone" => found.operands.get(1),
        "worktree" if is_add => found.operands.get(1),
        _ => None,
    };
    all.extend(filled.cloned().map(Consequence::WritesBeneath));
    Ok(all)
}

impl Subcommand {
    /// Checks the second name: `git stash pop`, `git bisect start`.
    fn check_action(&self, found: &Arguments) -> Result<(), Doubt> {
        let Some(action) = found.operands.first().filter(|_| !self.actions.is_empty()) else {
            return Ok(());
        };
        let action_name = known(action)?;
        if self.actions.split_whitespace().any(|known| known == action_name) {
            return Ok(());
        }
        Err(format!("the subcommand {} {action}", self.name))
    }

    fn check_strategy(&self, found: &Arguments) -> Result<(), Doubt> {
        let names: &[&str] = if self.merges { &["s", "strategy"] } else { &["strategy"] };
        for value in found.values(names) {
            if !STRATEGIES.contains(&known(value)?) {
                return Err(format!("the strategy {value}"));
            }
        }
        Ok(())
    }

    /// Checks that no operand names a transport: `ext::command` starts the command.
    fn check_repository(&self, found: &Arguments) -> Result<(), Doubt> {
        let count = match self.repository {
            Repository::None => 0,
            Repository::First => 1,
            Repository::Any => found.operands.len(),
        };
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

/// Checks that the command asks for no editor, which would be another program.
///
/// A command that goes on after a conflict (`--continue`) may open the user's editor; it is known
/// by its name, and the line cannot change which editor that is.
fn check_editor(name: &str, found: &Arguments) -> Result<(), Doubt> {
    let edits = match name {
        "add" | "commit" | "tag" | "merge" | "cherry-pick" | "revert" => found.has(&["e", "edit"]),
        "pull" => found.has(&["edit"]),
        "rebase" => found.has(&["i", "interactive", "edit-todo"]),
        "branch" => found.has(&["edit-description"]),
        _ => false,
    };
    let messages = ["m", "message", "F", "file", "C", "reuse-message"];
    let has_message = found.has(&messages);
    let is_action = |names: &[&str]| {
        found.operands.first().is_some_and(|action| names.iter().any(|name| action.is(name)))
    };
    let lacks_message = match name {
        "commit" => {
            let is_plain = |word: &Word| !word.text.contains(':') || word.text.starts_with(":/");
            let mut fixups = found.values(&["fixup"]).peekable();
            let only_fixes = fixups.peek().is_some() && fixups.all(is_plain);
            let has_odd_fixup = found.has(&["fixup"]) && !only_fixes;
            let prints = found.has(&["dry-run", "short", "porcelain", "long", "no-edit"]);
            has_odd_fixup
                || found.has(&["c", "reedit-message"])
                || !(has_message || only_fixes || prints)
        }
        "tag" => {
            let annotates = ["a", "annotate", "s", "sign", "u", "local-user"];
            found.has(&annotates) && !has_message
        }
        "notes" => {
            is_action(&["add", "append", "edit"]) && !has_message
                || found.has(&["c", "reedit-message"])
        }
        _ => false,
    };
    match (edits, lacks_message) {
        (true, _) => Err(format!("the editor that git {name} opens")),
        (false, true) => Err(format!("the editor that git {name} opens without a message")),
        (false, false) => Ok(()),
    }
}

/// The text behind the letters that may name a transport.
fn after_scheme(word: &Word) -> &str {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    word.text.trim_start_matches(is_scheme)
}

fn configure(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &CONFIG)?;
    let reads =
        ["l", "list", "get", "get-all", "get-regexp", "get-urlmatch", "get-color", "get-colorbool"];
    let lists = found.has(&["l", "list"]);
    if found.has(&reads) && (!lists || found.operands.is_empty()) {
        return Ok(Vec::new());
    }
    let unsets = found.has(&["unset", "unset-all"]);
    let editor = match found.operands.as_slice() {
        [] => None,
        [action, ..] if action.is("list") || action.is("get") => None,
        [action, ..] if action.is("edit") => return Err("the editor that git config opens".into()),
        [action, name] if action.is("unset") => judge_pair(known(name)?, None)?,
        [action, name, value, ..] if action.is("set") => judge_pair(known(name)?, value.value())?,
        [_] if !unsets => None,
        [name] => judge_pair(known(name)?, None)?,
        [name, value, ..] => judge_pair(known(name)?, value.value())?,
    };
    Ok(editor.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_doubts, assert_harmless, judged};

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
        "git add *.rs $x @m",
        "git add -p src",
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
        "git clone https://github.com/a/b.git",
        "git clone --depth 1 -b main git@github.com:a/b.git",
        "git clone --depth=1 https://github.com/$x",
        "git clone -c core.autocrlf=input https://x/y",
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
        "git checkout $x",
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
        "git apply -3 -p1 fix.patch",
        "git am -3 0001.patch",
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
            ("git clone git@github.com:a/b.git dir", "writes beneath dir"),
            ("git worktree add ../wt -b new", "writes beneath ../wt"),
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
