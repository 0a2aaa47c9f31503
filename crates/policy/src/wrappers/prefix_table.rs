//! Programs that take a whole command as their last arguments: the everyday ones.

use super::options::{Grammar, NO_OPTIONS};

/// What such a program does without a command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Alone {
    /// Nothing that starts another program.
    Nothing,
    /// It starts a shell.
    Shell,
}

/// One kind of program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix {
    pub(super) names: &'static [&'static str],
    pub(super) grammar: Grammar,
    /// Words between the options and the command.
    pub(super) operands: usize,
    /// `NAME=value` may stand before the command.
    pub(super) assignments: bool,
    /// With one of these options no command is run.
    pub(super) inert: &'static [&'static str],
    /// With one of these options something is run that is not in the words.
    pub(super) unclear: &'static [&'static str],
    pub(super) alone: Alone,
}

pub(super) const PLAIN: Prefix = Prefix {
    names: &[],
    grammar: NO_OPTIONS,
    operands: 0,
    assignments: false,
    inert: &[],
    unclear: &[],
    alone: Alone::Nothing,
};

/// What needs no privilege and no knowledge of the kernel.
pub(super) const EVERYDAY: &[Prefix] = &[
    Prefix {
        names: &["nohup", "busybox", "toybox", "builtin", "eatmydata", "catchsegv", "torsocks"],
        ..PLAIN
    },
    Prefix { names: &["proot", "coreutils"], alone: Alone::Shell, ..PLAIN },
    Prefix { names: &["gosu", "su-exec"], operands: 1, ..PLAIN },
    Prefix { names: &["chronic"], grammar: Grammar { flags: "ev", ..NO_OPTIONS }, ..PLAIN },
    Prefix { names: &["rlwrap"], grammar: Grammar { flags: "cnNrR", ..NO_OPTIONS }, ..PLAIN },
    Prefix {
        names: &["npx", "pnpx", "bunx"],
        grammar: Grammar {
            flags: "yq",
            long_flags: &["yes", "no", "no-install", "quiet"],
            ..NO_OPTIONS
        },
        ..PLAIN
    },
    // Words of zsh that stand before a command; no other shell has them.
    Prefix { names: &["noglob", "nocorrect", "-"], ..PLAIN },
    Prefix { names: &["repeat"], operands: 1, ..PLAIN },
    Prefix {
        names: &["env"],
        grammar: Grammar {
            flags: "i0v",
            values: "uC",
            long_flags: &[
                "ignore-environment",
                "null",
                "debug",
                "block-signal",
                "default-signal",
                "ignore-signal",
                "list-signal-handling",
            ],
            long_values: &["unset", "chdir"],
            numbers: false,
        },
        assignments: true,
        ..PLAIN
    },
    Prefix {
        names: &["command"],
        grammar: Grammar { flags: "pvV", ..NO_OPTIONS },
        inert: &["v", "V"],
        ..PLAIN
    },
    Prefix {
        names: &["exec"],
        grammar: Grammar { flags: "cl", values: "a", ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["timeout"],
        grammar: Grammar {
            flags: "vfp",
            values: "ks",
            long_flags: &["preserve-status", "foreground", "verbose"],
            long_values: &["kill-after", "signal"],
            numbers: false,
        },
        operands: 1,
        ..PLAIN
    },
    Prefix {
        names: &["nice"],
        grammar: Grammar { values: "n", long_values: &["adjustment"], numbers: true, ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["ionice"],
        grammar: Grammar {
            flags: "t",
            values: "cnpPu",
            long_flags: &["ignore"],
            long_values: &["class", "classdata", "pid", "pgid", "uid"],
            numbers: false,
        },
        ..PLAIN
    },
    Prefix {
        names: &["setsid"],
        grammar: Grammar { flags: "cfw", long_flags: &["ctty", "fork", "wait"], ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["stdbuf"],
        grammar: Grammar {
            values: "ioe",
            long_values: &["input", "output", "error"],
            ..NO_OPTIONS
        },
        ..PLAIN
    },
    Prefix {
        names: &["time"],
        grammar: Grammar {
            flags: "apvq",
            values: "fo",
            long_flags: &["append", "portability", "verbose", "quiet"],
            long_values: &["format", "output"],
            numbers: false,
        },
        ..PLAIN
    },
    Prefix { names: &["setuidgid", "envdir", "faketime"], operands: 1, ..PLAIN },
    Prefix {
        names: &["dbus-run-session", "xvfb-run", "unbuffer", "proxychains", "proxychains4"],
        grammar: Grammar {
            flags: "alpq",
            values: "nsefw",
            long_flags: &["auto-servernum", "auto-display"],
            long_values: &["server-args", "server-num", "config-file"],
            numbers: false,
        },
        ..PLAIN
    },
];
