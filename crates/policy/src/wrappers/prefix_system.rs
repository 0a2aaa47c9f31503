//! Programs that take a whole command as their last arguments: those that change users,
//! namespaces, limits or priorities, or that watch what a program does.

use super::options::{Grammar, NO_OPTIONS};
use super::prefix_table::{Alone, PLAIN, Prefix};

pub(super) const SYSTEM: &[Prefix] = &[
    Prefix {
        names: &["sudo"],
        grammar: Grammar {
            flags: "ABbEHnPSkKNlviseV",
            values: "CDghpRrTtUu",
            long_flags: &[
                "askpass",
                "background",
                "bell",
                "preserve-env",
                "set-home",
                "non-interactive",
                "preserve-groups",
                "stdin",
                "reset-timestamp",
                "remove-timestamp",
                "list",
                "validate",
                "login",
                "shell",
                "edit",
                "version",
                "help",
                "no-update",
            ],
            long_values: &[
                "close-from",
                "chdir",
                "group",
                "host",
                "prompt",
                "chroot",
                "role",
                "command-timeout",
                "type",
                "other-user",
                "user",
            ],
            numbers: false,
        },
        assignments: true,
        inert: &["l", "list", "v", "validate", "K", "V", "version", "help"],
        unclear: &["i", "s", "e", "login", "shell", "edit"],
        ..PLAIN
    },
    Prefix {
        names: &["doas"],
        grammar: Grammar { flags: "Lns", values: "aCu", ..NO_OPTIONS },
        unclear: &["s"],
        ..PLAIN
    },
    Prefix {
        names: &["pkexec"],
        grammar: Grammar {
            long_flags: &["disable-internal-agent", "keep-cwd"],
            long_values: &["user"],
            ..NO_OPTIONS
        },
        alone: Alone::Shell,
        ..PLAIN
    },
    Prefix {
        names: &["taskset"],
        grammar: Grammar {
            flags: "apc",
            long_flags: &["all-tasks", "pid", "cpu-list"],
            ..NO_OPTIONS
        },
        operands: 1,
        ..PLAIN
    },
    Prefix {
        names: &["chrt"],
        grammar: Grammar {
            flags: "abdefimoprvR",
            values: "TPD",
            long_flags: &["batch", "deadline", "fifo", "idle", "other", "rr", "reset-on-fork"],
            long_values: &["sched-runtime", "sched-period", "sched-deadline"],
            numbers: false,
        },
        operands: 1,
        ..PLAIN
    },
    Prefix {
        names: &["prlimit"],
        grammar: Grammar {
            values: "po",
            long_flags: &[
                "core",
                "data",
                "nice",
                "fsize",
                "sigpending",
                "memlock",
                "rss",
                "nofile",
                "msgqueue",
                "rtprio",
                "stack",
                "cpu",
                "nproc",
                "as",
                "locks",
                "rttime",
                "noheadings",
                "raw",
                "verbose",
            ],
            long_values: &["pid", "output"],
            ..NO_OPTIONS
        },
        ..PLAIN
    },
    Prefix {
        names: &["numactl"],
        grammar: Grammar {
            flags: "alHs",
            values: "NCmipP",
            long_flags: &["all", "localalloc", "hardware", "show", "balancing"],
            long_values: &["cpunodebind", "physcpubind", "membind", "interleave", "preferred"],
            numbers: false,
        },
        ..PLAIN
    },
    Prefix {
        names: &["setarch", "linux32", "linux64", "i386", "x86_64", "aarch64"],
        grammar: Grammar {
            flags: "RBFILSTXZv3",
            long_flags: &["addr-no-randomize", "3gb", "4gb", "32bit", "verbose"],
            ..NO_OPTIONS
        },
        alone: Alone::Shell,
        ..PLAIN
    },
    Prefix {
        names: &["choom"],
        grammar: Grammar { values: "np", long_values: &["adjust", "pid"], ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["cpulimit"],
        grammar: Grammar { flags: "zivbfm", values: "l", long_values: &["limit"], ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["uclampset"],
        grammar: Grammar { flags: "asR", values: "mMp", ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["tini", "docker-init"],
        grammar: Grammar { flags: "sgvw", values: "pe", ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["dumb-init"],
        grammar: Grammar {
            flags: "cv",
            values: "r",
            long_flags: &["single-child", "verbose"],
            long_values: &["rewrite"],
            numbers: false,
        },
        ..PLAIN
    },
    Prefix {
        names: &["chroot"],
        grammar: Grammar {
            long_flags: &["skip-chdir"],
            long_values: &["userspec", "groups"],
            ..NO_OPTIONS
        },
        operands: 1,
        alone: Alone::Shell,
        ..PLAIN
    },
    Prefix {
        names: &["unshare"],
        grammar: Grammar {
            flags: "imnpuUCTrcf",
            values: "SGRw",
            long_flags: &[
                "ipc",
                "mount",
                "net",
                "pid",
                "uts",
                "user",
                "cgroup",
                "time",
                "fork",
                "kill-child",
                "mount-proc",
                "map-root-user",
                "map-current-user",
                "map-auto",
                "keep-caps",
            ],
            long_values: &["setuid", "setgid", "root", "wd", "propagation", "setgroups"],
            numbers: false,
        },
        alone: Alone::Shell,
        ..PLAIN
    },
    Prefix {
        names: &["nsenter"],
        grammar: Grammar {
            flags: "amuinpUCTFZe",
            values: "tSG",
            long_flags: &[
                "all",
                "mount",
                "uts",
                "ipc",
                "net",
                "pid",
                "user",
                "cgroup",
                "time",
                "root",
                "wd",
                "no-fork",
                "env",
                "preserve-credentials",
            ],
            long_values: &["target", "setuid", "setgid"],
            numbers: false,
        },
        alone: Alone::Shell,
        ..PLAIN
    },
    Prefix {
        names: &["setpriv"],
        grammar: Grammar {
            flags: "d",
            long_flags: &[
                "clear-groups",
                "keep-groups",
                "init-groups",
                "no-new-privs",
                "nnp",
                "reset-env",
                "dump",
            ],
            long_values: &[
                "reuid",
                "regid",
                "ruid",
                "rgid",
                "euid",
                "egid",
                "groups",
                "inh-caps",
                "ambient-caps",
                "bounding-set",
                "securebits",
                "pdeathsig",
            ],
            ..NO_OPTIONS
        },
        ..PLAIN
    },
    Prefix {
        names: &["ltrace"],
        grammar: Grammar { flags: "bcCfiLrStT", values: "aADeFlnopsuxXw", ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["strace"],
        grammar: Grammar {
            flags: "cCdDfFikqrtTvwxyYzZ",
            values: "aeEIoOpPsSubUX",
            long_flags: &["follow-forks", "summary", "summary-only", "quiet", "trace-path"],
            long_values: &["output", "trace", "string-limit", "attach", "user"],
            numbers: false,
        },
        ..PLAIN
    },
    Prefix {
        names: &["systemd-run"],
        grammar: Grammar {
            flags: "dPtqGr",
            values: "puEMH",
            long_flags: &[
                "user",
                "system",
                "scope",
                "wait",
                "pipe",
                "pty",
                "quiet",
                "collect",
                "no-block",
                "same-dir",
                "remain-after-exit",
                "no-ask-password",
            ],
            long_values: &[
                "property",
                "unit",
                "uid",
                "gid",
                "setenv",
                "slice",
                "description",
                "working-directory",
                "nice",
                "service-type",
                "on-active",
                "on-calendar",
            ],
            numbers: false,
        },
        ..PLAIN
    },
    Prefix {
        names: &["cgexec", "sshpass", "fakeroot", "chpst"],
        grammar: Grammar { values: "gfpd", flags: "e", ..NO_OPTIONS },
        ..PLAIN
    },
    Prefix {
        names: &["valgrind"],
        grammar: Grammar {
            flags: "qv",
            long_flags: &[
                "tool",
                "leak-check",
                "track-origins",
                "error-exitcode",
                "show-leak-kinds",
                "num-callers",
                "suppressions",
                "log-file",
                "quiet",
                "verbose",
                "trace-children",
            ],
            ..NO_OPTIONS
        },
        ..PLAIN
    },
    Prefix {
        names: &["ld.so"],
        grammar: Grammar {
            long_flags: &["inhibit-cache", "list", "verify"],
            long_values: &["library-path", "preload", "audit", "argv0", "inhibit-rpath"],
            ..NO_OPTIONS
        },
        ..PLAIN
    },
];
