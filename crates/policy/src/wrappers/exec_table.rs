//! The table of programs of which some options run another program.

/// What the value of such an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// A command line.
    Text,
    /// `exec=` and a command line, or something harmless.
    Action,
    /// Something that is not followed.
    Unclear,
}

/// An option that runs something: one letter, two letters behind one dash, or a long name.
#[derive(Debug)]
pub(super) struct ExecOption {
    pub(super) name: &'static str,
    pub(super) how: How,
}

/// A program with such options.
#[derive(Debug)]
pub(super) struct ExecProgram {
    pub(super) names: &'static [&'static str],
    pub(super) runs: &'static [ExecOption],
    /// Other short options that take a value.
    pub(super) values: &'static str,
    /// Other long options that take the next word.
    pub(super) long_values: &'static [&'static str],
    /// The first word may hold options without a dash.
    pub(super) bundles: bool,
}

const fn text(name: &'static str) -> ExecOption {
    ExecOption { name, how: How::Text }
}

const fn unclear(name: &'static str) -> ExecOption {
    ExecOption { name, how: How::Unclear }
}

const PLAIN: ExecProgram =
    ExecProgram { names: &[], runs: &[], values: "", long_values: &[], bundles: false };

pub(super) const TABLE: &[ExecProgram] = &[
    ExecProgram {
        names: &["tar", "gtar", "bsdtar"],
        runs: &[
            text("I"),
            text("use-compress-program"),
            text("to-command"),
            ExecOption { name: "checkpoint-action", how: How::Action },
            unclear("F"),
            unclear("info-script"),
            unclear("new-volume-script"),
            unclear("rsh-command"),
            unclear("rmt-command"),
        ],
        values: "bCfgHKLNTVX",
        long_values: &["file", "directory", "files-from", "exclude", "exclude-from", "transform"],
        bundles: true,
    },
    ExecProgram {
        names: &["rsync"],
        runs: &[text("e"), text("rsh"), unclear("rsync-path")],
        values: "BfMT@",
        long_values: &["exclude", "include", "filter", "files-from", "log-file", "bwlimit"],
        ..PLAIN
    },
    ExecProgram {
        names: &["zip"],
        runs: &[text("TT"), text("unzip-command")],
        values: "bixnPst",
        ..PLAIN
    },
    ExecProgram {
        names: &["man"],
        runs: &[text("P"), text("pager"), text("H"), text("html"), unclear("C")],
        values: "LmMSsepre",
        ..PLAIN
    },
    ExecProgram {
        names: &["sort"],
        runs: &[text("compress-program")],
        values: "koStT",
        long_values: &["key", "output", "field-separator", "parallel", "temporary-directory"],
        ..PLAIN
    },
    ExecProgram {
        names: &["split"],
        runs: &[text("filter")],
        values: "abClnt",
        long_values: &["bytes", "lines", "number", "suffix-length"],
        ..PLAIN
    },
    ExecProgram {
        names: &["rg"],
        runs: &[text("pre"), text("hostname-bin")],
        values: "ABCEMTefgjmrt",
        long_values: &["glob", "regexp", "file", "type", "type-not", "context", "max-count"],
        ..PLAIN
    },
    ExecProgram {
        names: &["bat", "batcat", "ag", "delta"],
        runs: &[text("pager")],
        values: "lHmr",
        ..PLAIN
    },
    ExecProgram { names: &["tcpdump"], runs: &[text("z")], values: "BcCDEFGijmMrsTVwWyQ", ..PLAIN },
    ExecProgram {
        names: &["scp", "sftp"],
        runs: &[unclear("S"), unclear("o"), unclear("F"), unclear("D"), unclear("b")],
        values: "cilJPRX",
        ..PLAIN
    },
    ExecProgram {
        names: &["wget"],
        runs: &[unclear("use-askpass"), unclear("e"), unclear("execute"), unclear("config")],
        values: "oaitOTwQPUlAR",
        long_values: &["output-document", "directory-prefix", "header", "user-agent", "tries"],
        ..PLAIN
    },
    ExecProgram {
        names: &["nc", "ncat", "netcat"],
        runs: &[text("e"), text("c"), text("exec"), text("sh-exec"), unclear("lua-exec")],
        values: "gGiopqswxXTIOm",
        ..PLAIN
    },
    ExecProgram {
        names: &["fzf"],
        runs: &[text("preview"), unclear("bind"), unclear("execute"), unclear("become")],
        values: "dnqf",
        ..PLAIN
    },
    ExecProgram { names: &["cpio"], runs: &[unclear("rsh-command")], values: "CEFHIMOR", ..PLAIN },
    ExecProgram {
        names: &["sdiff", "diff3"],
        runs: &[text("diff-program")],
        values: "IoWw",
        ..PLAIN
    },
    ExecProgram { names: &["install"], runs: &[text("strip-program")], values: "gmoStZ", ..PLAIN },
    ExecProgram { names: &["nix-shell"], runs: &[text("run"), text("command")], ..PLAIN },
    ExecProgram {
        names: &["gdb", "lldb"],
        runs: &[
            unclear("ex"),
            unclear("x"),
            unclear("eval-command"),
            unclear("o"),
            unclear("s"),
            unclear("args"),
            unclear("command"),
            unclear("init-command"),
            unclear("init-eval-command"),
        ],
        ..PLAIN
    },
    ExecProgram { names: &["psql", "mysql", "mariadb", "sqlite3", "dc"], ..PLAIN },
];
