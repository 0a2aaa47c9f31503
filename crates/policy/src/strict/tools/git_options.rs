//! The subcommands of git with their harmless options: git 2.47.3, `git SUBCOMMAND -h` and the
//! manual pages.
//!
//! Left out everywhere: options that name a program (`--upload-pack`, `--receive-pack`, `--exec`,
//! `--extcmd`, `--open-files-in-pager`), directories with hooks (`--template`), and files that are
//! written without a report. Hooks, filters, pagers and editors that the user's own settings name
//! are the user's; the line cannot change those settings.

use super::options::{NO_OPTIONS, Options};

/// A subcommand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subcommand {
    pub(super) name: &'static str,
    pub(super) options: Options,
    /// The words that may follow as a second name; empty if the operands are free.
    pub(super) actions: &'static str,
    /// Options whose value is a file that is written.
    pub(super) writes: &'static [&'static str],
    /// The repository among the operands, if one may be there: it may name a transport.
    pub(super) repository: Repository,
    /// The option `-s` names a merge strategy.
    pub(super) merges: bool,
}

/// The place of a repository among the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repository {
    None,
    First,
    Any,
}

macro_rules! diff_options {
    () => {
        "patch no-patch unified=? function-context raw patch-with-raw patch-with-stat numstat \
         shortstat dirstat=? cumulative dirstat-by-file=? check summary name-only name-status \
         stat=? stat-width= stat-name-width= stat-graph-width= stat-count= compact-summary binary \
         full-index color=? ws-error-highlight= abbrev=? src-prefix= dst-prefix= line-prefix= \
         no-prefix default-prefix inter-hunk-context= output-indicator-new= \
         output-indicator-old= output-indicator-context= break-rewrites=? find-renames=? \
         irreversible-delete find-copies=? find-copies-harder no-renames rename-empty follow \
         minimal ignore-all-space ignore-space-change ignore-space-at-eol ignore-cr-at-eol \
         ignore-blank-lines ignore-matching-lines= indent-heuristic patience histogram \
         diff-algorithm= anchored= word-diff=? word-diff-regex= color-words=? color-moved=? \
         color-moved-ws= relative=? text exit-code quiet textconv no-ext-diff \
         ignore-submodules=? submodule=? ita-invisible-in-index ita-visible-in-index pickaxe-all \
         pickaxe-regex rotate-to= skip-to= find-object= diff-filter= output= cc diff-merges= \
         no-diff-merges combined-all-paths remerge-diff dd "
    };
}

macro_rules! log_options {
    () => {
        "source use-mailmap mailmap clear-decorations decorate-refs= decorate-refs-exclude= \
         decorate=? full-diff log-size max-count= skip= since= after= since-as-filter= until= \
         before= max-age= min-age= author= committer= grep-reflog= grep= all-match invert-grep \
         regexp-ignore-case basic-regexp extended-regexp fixed-strings perl-regexp remove-empty \
         merges no-merges min-parents=? max-parents=? first-parent exclude-first-parent-only not \
         all branches=? tags=? remotes=? glob= exclude= exclude-hidden= reflog alternate-refs \
         single-worktree ignore-missing bisect stdin cherry-mark cherry-pick left-only right-only \
         cherry walk-reflogs merge boundary simplify-by-decoration show-pulls full-history dense \
         sparse simplify-merges ancestry-path=? date-order author-date-order topo-order reverse \
         no-walk=? do-walk pretty=? format=? abbrev-commit no-abbrev-commit oneline encoding= \
         expand-tabs=? notes=? show-notes=? standard-notes show-signature relative-date date= \
         parents children left-right graph show-linear-break=? count objects objects-edge \
         unpacked no-object-names disk-usage=? header timestamp no-commit-header root \
         end-of-options "
    };
}

const GIT: Options = Options { negated: true, ..NO_OPTIONS };
/// For subcommands whose options are all harmless, so that unknown words are, too.
const SAFE: Options = Options { tolerant: true, ..GIT };
const DIFF: Options = Options {
    flags: "puszWaRbwtrcmiq0123D",
    values: "SGIOl",
    attached: "UXBMC",
    long: concat!(diff_options!(), "cached staged merge-base no-index base ours theirs"),
    undashed_values: true,
    ..GIT
};
const LOG: Options = Options {
    flags: "puszWaRbwtrcmiqEFPgD",
    values: "SGIOlnL",
    attached: "UXBMC",
    long: concat!(diff_options!(), log_options!()),
    numbers: true,
    undashed_values: true,
    ..GIT
};

const BASE: Subcommand = Subcommand {
    name: "",
    options: GIT,
    actions: "",
    writes: &[],
    repository: Repository::None,
    merges: false,
};

const fn with_attached(subcommand: Subcommand, attached: &'static str) -> Subcommand {
    Subcommand { options: Options { attached, ..subcommand.options }, ..subcommand }
}

/// A subcommand whose options are all harmless.
const fn safe(name: &'static str, flags: &'static str, values: &'static str) -> Subcommand {
    Subcommand { name, options: Options { flags, values, ..SAFE }, ..BASE }
}

/// A subcommand of whose options only the listed ones are harmless.
const fn strict(name: &'static str, flags: &'static str, values: &'static str) -> Subcommand {
    Subcommand { name, options: Options { flags, values, ..GIT }, ..BASE }
}

const fn with_long(subcommand: Subcommand, long: &'static str) -> Subcommand {
    Subcommand { options: Options { long, ..subcommand.options }, ..subcommand }
}

const fn log(name: &'static str) -> Subcommand {
    Subcommand { name, options: LOG, writes: &["output"], ..BASE }
}

const fn diff(name: &'static str) -> Subcommand {
    Subcommand { name, options: DIFF, writes: &["output"], ..BASE }
}

/// The subcommands that are known.
pub(super) const SUBCOMMANDS: &[Subcommand] = &[
    log("log"),
    log("show"),
    log("whatchanged"),
    log("rev-list"),
    diff("diff"),
    Subcommand { options: LOG, ..diff("diff-tree") },
    diff("diff-index"),
    diff("diff-files"),
    Subcommand {
        options: Options {
            long: concat!(
                diff_options!(),
                "creation-factor= no-dual-color dual-color notes=? left-only right-only"
            ),
            ..DIFF
        },
        ..diff("range-diff")
    },
    Subcommand {
        options: Options {
            flags: "nsecEFPi",
            attached: "w",
            long: concat!(log_options!(), "numbered summary email group= output="),
            ..LOG
        },
        ..log("shortlog")
    },
    Subcommand {
        name: "reflog",
        options: Options {
            long: concat!(
                diff_options!(),
                log_options!(),
                "dry-run rewrite updateref verbose expire= expire-unreachable= stale-fix"
            ),
            flags: "puszWaRbwtrcmiqEFPgDv",
            ..LOG
        },
        writes: &["output"],
        ..BASE
    },
    Subcommand {
        name: "format-patch",
        options: Options {
            flags: "puszWaRbwDNkq",
            values: "SGIOlov",
            attached: "UXBMCn",
            long: concat!(
                diff_options!(),
                log_options!(),
                "numbered signoff stdout cover-letter numbered-files start-number= reroll-count= \
                 filename-max-length= rfc=? cover-from-description= description-file= \
                 subject-prefix= output-directory= keep-subject zero-commit \
                 ignore-if-in-upstream add-header= to= cc= from=? in-reply-to= attach=? inline=? \
                 thread=? signature= base= signature-file= progress interdiff= range-diff= \
                 creation-factor= force-in-body-from always encode-email-headers"
            ),
            ..LOG
        },
        writes: &["output", "o", "output-directory"],
        ..BASE
    },
    Subcommand {
        name: "blame",
        options: Options {
            flags: "bltpcfnsewh",
            values: "LS",
            attached: "MC",
            long: "incremental root show-stats progress score-debug show-name show-number \
                porcelain line-porcelain show-email ignore-rev= ignore-revs-file= color-lines \
                color-by-age minimal contents= abbrev=? first-parent reverse date= encoding= \
                since= end-of-options",
            undashed_values: true,
            ..GIT
        },
        ..BASE
    },
    Subcommand {
        name: "grep",
        options: Options {
            flags: "viwaIrEGFPnhHlLzocpWq",
            values: "CBAfem",
            long: "cached no-index untracked exclude-standard recurse-submodules invert-match \
                ignore-case word-regexp text textconv recursive max-depth= extended-regexp \
                basic-regexp fixed-strings perl-regexp line-number column full-name \
                files-with-matches name-only files-without-match null only-matching count \
                color=? break heading context= before-context= after-context= threads= \
                show-function function-context and or not quiet all-match max-count= index \
                end-of-options",
            numbers: true,
            undashed_values: true,
            ..GIT
        },
        ..BASE
    },
    with_long(
        with_attached(safe("status", "vsbz", ""), "uM"),
        "verbose short branch show-stash ahead-behind porcelain=? long null untracked-files=? \
         ignored=? ignore-submodules=? column=? no-renames find-renames=? renames",
    ),
    with_long(
        safe("add", "nvipefuNA", ""),
        "dry-run verbose interactive patch edit force update renormalize intent-to-add all \
         ignore-removal refresh ignore-errors ignore-missing sparse chmod= warn-embedded-repo \
         pathspec-from-file= pathspec-file-nul",
    ),
    with_long(
        with_attached(safe("commit", "qvseaiponz", "FmcCt"), "Su"),
        "quiet verbose file= author= date= message= reedit-message= reuse-message= fixup= squash= \
         reset-author trailer= signoff template= edit cleanup= status gpg-sign=? all include \
         interactive patch only no-verify verify dry-run short branch ahead-behind porcelain long \
         null amend no-post-rewrite post-rewrite untracked-files=? pathspec-from-file= \
         pathspec-file-nul allow-empty allow-empty-message",
    ),
    Subcommand {
        repository: Repository::First,
        ..with_long(
            strict("push", "vqdnfu46", "o"),
            "verbose quiet all branches mirror delete tags dry-run porcelain force \
             force-with-lease=? force-if-includes recurse-submodules= thin set-upstream progress \
             prune no-verify verify follow-tags signed=? atomic push-option= ipv4 ipv6",
        )
    },
    Subcommand {
        repository: Repository::First,
        merges: true,
        ..with_long(
            with_attached(strict("pull", "vqnaftpk46", "sXoj"), "Sr"),
            "verbose quiet progress recurse-submodules=? rebase=? stat summary log=? signoff \
             squash commit edit cleanup= ff ff-only verify verify-signatures autostash strategy= \
             strategy-option= gpg-sign=? allow-unrelated-histories all append force tags prune \
             jobs= dry-run keep depth= shallow-since= shallow-exclude= deepen= unshallow \
             update-shallow refmap= server-option= ipv4 ipv6 negotiation-tip= \
             show-forced-updates set-upstream",
        )
    },
    Subcommand {
        repository: Repository::First,
        ..with_long(
            strict("fetch", "vqafmtnpPku46", "jo"),
            "verbose quiet all set-upstream append atomic force multiple tags jobs= prefetch \
             prune prune-tags recurse-submodules=? dry-run porcelain write-fetch-head keep \
             update-head-ok progress depth= shallow-since= shallow-exclude= deepen= unshallow \
             refetch recurse-submodules-default= update-shallow refmap= server-option= ipv4 ipv6 \
             negotiation-tip= negotiate-only filter= auto-maintenance auto-gc \
             show-forced-updates write-commit-graph",
        )
    },
    Subcommand {
        repository: Repository::First,
        ..with_long(
            strict("clone", "vqnls46", "jobc"),
            "verbose quiet progress reject-shallow no-checkout checkout bare mirror local \
             no-hardlinks hardlinks shared recurse-submodules=? recursive=? jobs= reference= \
             reference-if-able= dissociate origin= branch= depth= shallow-since= \
             shallow-exclude= single-branch no-tags tags shallow-submodules ref-format= config= \
             server-option= ipv4 ipv6 filter= also-filter-submodules remote-submodules sparse",
        )
    },
    Subcommand {
        repository: Repository::First,
        ..with_long(
            strict("ls-remote", "qthb", "o"),
            "quiet tags branches heads refs get-url sort= exit-code symref server-option=",
        )
    },
    Subcommand {
        merges: true,
        ..with_long(
            with_attached(strict("rebase", "qvnfmi", "CsX"), "Sr"),
            "onto= keep-base no-verify verify quiet verbose no-stat stat signoff \
             committer-date-is-author-date reset-author-date ignore-date ignore-whitespace \
             whitespace= force-rebase no-ff ff continue skip abort quit edit-todo \
             show-current-patch apply merge interactive rerere-autoupdate empty= keep-empty \
             autosquash update-refs gpg-sign=? autostash allow-empty-message rebase-merges=? \
             fork-point strategy= strategy-option= root reschedule-failed-exec \
             reapply-cherry-picks",
        )
    },
    Subcommand {
        merges: true,
        ..with_long(
            with_attached(strict("merge", "nevq", "sXmF"), "S"),
            "stat summary log=? squash commit edit cleanup= ff ff-only rerere-autoupdate \
             verify-signatures strategy= strategy-option= message= file= into-name= verbose quiet \
             abort quit continue allow-unrelated-histories progress gpg-sign=? autostash \
             overwrite-ignore signoff no-verify verify",
        )
    },
    with_long(
        with_attached(strict("cherry-pick", "nesx", "mX"), "S"),
        "quit continue abort skip cleanup= no-commit commit edit signoff mainline= \
         rerere-autoupdate strategy= strategy-option= gpg-sign=? ff allow-empty \
         allow-empty-message keep-redundant-commits empty=",
    ),
    with_long(
        with_attached(strict("revert", "nes", "mX"), "S"),
        "quit continue abort skip cleanup= no-commit commit edit signoff mainline= \
         rerere-autoupdate strategy= strategy-option= gpg-sign=? reference",
    ),
    with_long(
        safe("checkout", "lqmdtf23p", "bB"),
        "guess overlay quiet recurse-submodules=? progress merge conflict= detach track=? force \
         orphan= overwrite-ignore ignore-other-worktrees ours theirs patch \
         ignore-skip-worktree-bits pathspec-from-file= pathspec-file-nul",
    ),
    with_long(
        safe("switch", "qmdtf", "cC"),
        "create= force-create= guess discard-changes quiet recurse-submodules=? progress merge \
         conflict= detach track=? force orphan= overwrite-ignore ignore-other-worktrees",
    ),
    with_long(
        safe("restore", "SWqm23p", "s"),
        "source= staged worktree ignore-unmerged overlay quiet recurse-submodules=? progress merge \
         conflict= ours theirs patch ignore-skip-worktree-bits pathspec-from-file= \
         pathspec-file-nul",
    ),
    with_long(
        safe("branch", "vqtradDmMcClfi", "u"),
        "verbose quiet track=? set-upstream set-upstream-to= unset-upstream color=? remotes \
         contains=? no-contains=? with=? without=? abbrev=? all delete move omit-empty copy list \
         show-current create-reflog edit-description force merged=? no-merged=? column=? sort= \
         points-at= ignore-case recurse-submodules format=",
    ),
    with_long(
        with_attached(safe("tag", "ldvaesfi", "mFu"), "n"),
        "list delete verify annotate message= file= trailer= edit sign cleanup= local-user= force \
         create-reflog column=? contains=? no-contains=? with=? without=? merged=? no-merged=? \
         omit-empty sort= points-at=? format= color=? ignore-case",
    ),
    with_long(
        safe("reset", "qpN", ""),
        "quiet no-refresh refresh mixed soft hard merge keep recurse-submodules=? patch \
         intent-to-add pathspec-from-file= pathspec-file-nul",
    ),
    with_long(
        safe("rm", "nqfr", ""),
        "dry-run quiet cached force ignore-unmatch sparse pathspec-from-file= pathspec-file-nul",
    ),
    with_long(safe("mv", "vnfk", ""), "verbose dry-run force sparse"),
    with_long(safe("clean", "qnfidxX", "e"), "quiet dry-run force interactive exclude="),
    with_long(
        strict("init", "q", "b"),
        "bare shared=? quiet initial-branch= object-format= ref-format=",
    ),
    with_long(
        safe("describe", "", ""),
        "contains debug all tags long first-parent abbrev=? exact-match candidates= match= \
         exclude= always dirty=? broken=?",
    ),
    with_long(
        safe("ls-files", "ztvfcdmoisku", "xX"),
        "cached deleted modified others ignored stage killed directory eol empty-directory \
         unmerged resolve-undo exclude= exclude-from= exclude-per-directory= exclude-standard \
         full-name recurse-submodules error-unmatch with-tree= abbrev=? debug deduplicate sparse \
         format=",
    ),
    with_long(
        safe("ls-tree", "drtzl", ""),
        "long name-only name-status object-only full-name full-tree format= abbrev=?",
    ),
    with_long(
        safe("cat-file", "epts", ""),
        "allow-unknown-type use-mailmap mailmap batch=? batch-check=? batch-command=? \
         batch-all-objects buffer follow-symlinks unordered textconv filters path=",
    ),
    with_long(
        safe("for-each-ref", "spq", ""),
        "shell perl python tcl omit-empty count= format= color=? exclude= sort= points-at= \
         merged=? no-merged=? contains=? no-contains=? ignore-case stdin include-root-refs",
    ),
    with_long(safe("symbolic-ref", "qd", "m"), "quiet delete short recurse"),
    with_long(
        safe("show-ref", "dqs", ""),
        "tags branches heads exists verify head dereference hash=? abbrev=? quiet \
         exclude-existing=?",
    ),
    with_long(safe("merge-base", "a", ""), "all octopus independent is-ancestor fork-point"),
    with_long(
        safe("name-rev", "", ""),
        "name-only tags refs= exclude= all stdin annotate-stdin undefined always peel-tag",
    ),
    with_long(safe("cherry", "v", ""), "abbrev=? verbose"),
    with_long(safe("count-objects", "vH", ""), "verbose human-readable"),
    with_long(
        safe("gc", "q", ""),
        "quiet prune=? cruft max-cruft-size= aggressive auto detach force keep-largest-pack",
    ),
    with_long(
        safe("fsck", "v", ""),
        "verbose unreachable dangling tags root cache reflogs full connectivity-only strict \
         lost-found progress name-objects",
    ),
    with_long(safe("check-ignore", "qvnz", ""), "quiet verbose stdin non-matching no-index"),
    with_long(safe("check-attr", "az", ""), "all cached stdin source="),
    with_long(safe("hash-object", "w", "t"), "stdin stdin-paths no-filters literally path="),
    with_long(safe("verify-commit", "v", ""), "verbose raw"),
    with_long(safe("verify-tag", "v", ""), "verbose raw format="),
    with_long(
        safe("merge-tree", "z", "X"),
        "write-tree trivial-merge messages name-only allow-unrelated-histories stdin merge-base= \
         strategy-option=",
    ),
    with_long(safe("write-tree", "", ""), "missing-ok prefix="),
    with_long(safe("pack-refs", "", ""), "all prune auto include= exclude="),
    with_long(safe("prune", "nv", ""), "dry-run verbose progress expire="),
    with_long(safe("version", "", ""), "build-options"),
    safe("var", "l", ""),
    with_long(
        safe("rev-parse", "q", ""),
        "sq-quote default= prefix= verify quiet sq short=? not abbrev-ref=? symbolic \
         symbolic-full-name all branches=? tags=? remotes=? glob= exclude= disambiguate= \
         local-env-vars path-format= git-dir absolute-git-dir git-common-dir resolve-git-dir= \
         git-path= show-toplevel show-superproject-working-tree shared-index-path is-bare-repository \
         is-inside-git-dir is-inside-work-tree is-shallow-repository show-cdup show-prefix \
         show-object-format=? show-ref-format since= after= until= before= revs-only no-revs flags \
         no-flags end-of-options",
    ),
    with_long(
        Subcommand {
            options: Options { flags: "vl", values: "o", numbers: true, ..GIT },
            name: "archive",
            writes: &["o", "output"],
            ..BASE
        },
        "format= list verbose prefix= output= add-file= add-virtual-file= worktree-attributes \
         mtime=",
    ),
    with_long(
        strict("apply", "N3zRvq", "pC"),
        "exclude= include= no-add stat allow-binary-replacement binary numstat summary check index \
         intent-to-add cached apply 3way ours theirs union whitespace= ignore-space-change \
         ignore-whitespace reverse unidiff-zero reject allow-overlap verbose quiet \
         inaccurate-eof recount directory= allow-empty",
    ),
    with_long(
        safe("am", "in3qsukmcr", "Cp"),
        "interactive no-verify verify 3way quiet signoff utf8 keep keep-non-patch message-id \
         keep-cr scissors quoted-cr= whitespace= ignore-space-change ignore-whitespace directory= \
         exclude= include= patch-format= reject resolvemsg= continue resolved skip abort quit \
         show-current-patch=? retry allow-empty committer-date-is-author-date ignore-date \
         rerere-autoupdate gpg-sign=? empty=",
    ),
    Subcommand {
        name: "stash",
        options: Options {
            flags: "kSpqua",
            values: "m",
            attached: "U",
            long: concat!(
                diff_options!(),
                log_options!(),
                "keep-index staged patch quiet include-untracked only-untracked message= \
                 pathspec-from-file= pathspec-file-nul index"
            ),
            numbers: true,
            ..GIT
        },
        actions: "push pop apply list show drop clear save branch create store",
        writes: &["output"],
        ..BASE
    },
    Subcommand {
        name: "remote",
        options: Options {
            flags: "vfpn",
            values: "tm",
            long: "verbose fetch tags track= master= mirror=? push add delete all prune dry-run \
                auto",
            ..GIT
        },
        actions: "add rename remove rm set-head set-branches get-url set-url show prune \
            update",
        repository: Repository::Any,
        ..BASE
    },
    Subcommand {
        name: "submodule",
        options: Options {
            flags: "qfN",
            values: "bj",
            long: "quiet cached recursive init remote no-fetch fetch checkout merge rebase force \
                reference= dissociate depth= jobs= recommend-shallow progress require-init \
                single-branch filter= branch= name= all default",
            ..GIT
        },
        actions: "status init update sync add deinit summary set-branch absorbgitdirs",
        repository: Repository::Any,
        ..BASE
    },
    Subcommand {
        name: "worktree",
        options: Options {
            flags: "fdqnvz",
            values: "bB",
            long: "force orphan detach checkout lock reason= quiet track guess-remote porcelain \
                verbose expire= dry-run",
            ..SAFE
        },
        actions: "add list remove prune lock unlock move repair",
        ..BASE
    },
    Subcommand {
        name: "bisect",
        options: Options {
            long: "first-parent no-checkout term-good= term-bad= term-new= term-old=",
            ..SAFE
        },
        actions: "start good bad new old skip reset log terms next",
        ..BASE
    },
    Subcommand {
        name: "notes",
        options: Options {
            flags: "fnvq",
            values: "mFcC",
            long: "ref= message= file= reedit-message= reuse-message= allow-empty force \
                separator=? stripspace stdin ignore-missing dry-run verbose quiet",
            ..GIT
        },
        actions: "list add show append remove copy prune get-ref edit",
        ..BASE
    },
    Subcommand {
        name: "sparse-checkout",
        options: Options { flags: "z", long: "cone sparse-index skip-checks stdin", ..SAFE },
        actions: "list set add init disable reapply check-rules",
        ..BASE
    },
    Subcommand {
        name: "bundle",
        options: Options { flags: "q", long: "quiet progress all-progress version= all", ..GIT },
        actions: "verify list-heads",
        ..BASE
    },
    Subcommand {
        name: "maintenance",
        options: Options { long: "auto detach quiet task=", ..GIT },
        actions: "run",
        ..BASE
    },
];
