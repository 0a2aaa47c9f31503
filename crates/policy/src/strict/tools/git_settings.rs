//! Settings of git that a command line may set: git 2.47.3, git-config(1).

use super::consequence::{Consequence, Doubt};
use super::options::stays_one_word;
use crate::command::{Shape, Word};

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
pub(super) fn judge_setting(word: &Word) -> Result<Option<Consequence>, Doubt> {
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
pub(super) fn judge_pair(name: &str, value: Option<&str>) -> Result<Option<Consequence>, Doubt> {
    let lower = name.to_ascii_lowercase();
    let is_off = |(known, values): &(&str, &[&str])| {
        *known == lower && value.is_some_and(|value| values.contains(&value))
    };
    if SETTINGS.split_whitespace().any(|known| known == lower) || SWITCHED_OFF.iter().any(is_off) {
        return Ok(None);
    }
    if EDITORS.contains(&lower.as_str()) && value == Some("true") {
        return Ok(Some(Consequence::Runs(vec![Word::literal("true")])));
    }
    Err(format!("the setting {name}"))
}
