//! Programs that take a whole command as their last arguments.

use super::dispatch::Effect;
use super::options::{Given, Grammar, NO_OPTIONS, Scan, is_one, scan};
use crate::command::{Assignment, Reach, SimpleCommand, Value, Word, base_name};

/// What such a program leads to; `None` for any other program.
pub(super) fn effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    if let Some(effects) = opaque(name, command).or_else(|| subcommand(name, command)) {
        return Some(effects);
    }
    let name = if is_loader(name) { "ld.so" } else { name };
    let prefix = EVERYDAY.iter().chain(SYSTEM).find(|prefix| prefix.names.contains(&name))?;
    Some(look(name, command, prefix).unwrap_or_else(|odd| vec![Effect::unclear(name, odd)]))
}

/// The dynamic loader runs the program that it is given.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl")
}

fn look(name: &str, command: &SimpleCommand, prefix: &Prefix) -> Result<Vec<Effect>, String> {
    let mut args = command.args.as_slice();
    if name == "env" && args.first().is_some_and(|word| word.is("-")) {
        args = args.get(1..).unwrap_or_default();
    }
    let scan = scan(args, &prefix.grammar)?;
    if let Some(given) =
        scan.given.iter().find(|given| prefix.unclear.contains(&given.name.as_str()))
    {
        return Err(format!("the option {}", given.name));
    }
    if scan.given.iter().any(|given| prefix.inert.contains(&given.name.as_str())) {
        return Ok(Vec::new());
    }
    let mut effects: Vec<Effect> = traced_to_command(name, &scan);
    let rest = args.get(scan.rest..).unwrap_or_default();
    let rest = skip_operands(rest, prefix.operands)?;
    let (assignments, rest) = leading_assignments(rest, prefix)?;
    if rest.first().is_some_and(|word| word.is("--") && prefix.operands > 0) {
        return Err("a second --".to_owned());
    }
    match (Effect::runs(rest, assignments), prefix.alone) {
        (Some(effect), _) => effects.push(effect),
        (None, Alone::Nothing) => {}
        (None, Alone::Shell) => return Err("a shell of its own".to_owned()),
    }
    Ok(effects)
}

/// `strace -o '|command'`.
fn traced_to_command(name: &str, scan: &Scan) -> Vec<Effect> {
    let piped = |given: &&Given| {
        given.value.as_ref().is_some_and(|value| {
            value.text.starts_with(['|', '!']) || (value.value().is_none() && value.text.is_empty())
        })
    };
    let output = scan.given.iter().filter(|given| given.name == "o" || given.name == "output");
    match (name, output.filter(piped).count()) {
        ("strace", count) if count > 0 => {
            vec![Effect::unclear(name, "an output that is a command")]
        }
        _ => Vec::new(),
    }
}

/// Words that come before the command: a duration, a mask, a directory.
fn skip_operands(words: &[Word], count: usize) -> Result<&[Word], String> {
    let (operands, rest) = words.split_at(count.min(words.len()));
    match operands.iter().find(|word| !is_one(word)) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(rest),
    }
}

fn leading_assignments<'w>(
    words: &'w [Word],
    prefix: &Prefix,
) -> Result<(Vec<Assignment>, &'w [Word]), String> {
    let mut assignments = Vec::new();
    let mut rest = words;
    while prefix.assignments
        && let Some((first, others)) = rest.split_first()
    {
        let Some((name, value)) = first.text.split_once('=') else {
            if first.value().is_none() && first.text.is_empty() {
                return Err(format!("the word {first}"));
            }
            break;
        };
        if !is_one(first) {
            return Err(format!("the word {first}"));
        }
        let value = first.value().map_or(Value::Unknown, |_| Value::Text(value.to_owned()));
        let name = name.to_owned();
        assignments.push(Assignment { name, value, reach: Reach::Environment });
        rest = others;
    }
    Ok((assignments, rest))
}

/// `ip netns exec NAME command` and its kin: subcommand words, then words to skip.
const SUBCOMMANDS: [(&str, &[&str], usize); 16] = [
    ("ip", &["netns", "exec"], 1),
    ("ip", &["vrf", "exec"], 1),
    ("direnv", &["exec"], 1),
    ("rustup", &["run"], 1),
    ("bundle", &["exec"], 0),
    ("poetry", &["run"], 0),
    ("pipenv", &["run"], 0),
    ("uv", &["run"], 0),
    ("mise", &["exec"], 0),
    ("conda", &["run"], 0),
    ("mamba", &["run"], 0),
    ("pyenv", &["exec"], 0),
    ("rbenv", &["exec"], 0),
    ("asdf", &["exec"], 0),
    ("perf", &["stat"], 0),
    ("perf", &["record"], 0),
];

/// Programs that run others in ways that are not followed.
const OPAQUE: [&str; 4] = ["start-stop-daemon", "schroot", "logsave", "watchexec"];

/// Subcommands that run others in ways that are not followed.
const OPAQUE_WORDS: [(&str, &[&str]); 4] = [
    ("npm", &["exec", "exe", "ex", "x"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("perf", &["trace", "sched", "lock", "mem", "c2c", "kmem", "kvm", "timechart", "ftrace"]),
];

fn opaque(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let has = |word: &str| command.args.iter().any(|arg| arg.is(word));
    let is_first = |word: &str| command.args.first().is_some_and(|arg| arg.is(word));
    // Behind an option the subcommand may be any word.
    let behind = command.args.first().is_some_and(|first| first.text.starts_with('-'));
    let shifted = behind
        && SUBCOMMANDS.iter().any(|(program, words, _)| {
            *program == name && words.last().is_some_and(|word| has(word))
        });
    let word = OPAQUE_WORDS.iter().any(|(program, words)| {
        *program == name && words.iter().any(|word| is_first(word) || (behind && has(word)))
    });
    let found = shifted || word || (OPAQUE.contains(&name) && !command.args.is_empty());
    found.then(|| vec![Effect::unclear(name, "the command that it runs")])
}

fn subcommand(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let (_, words, skip) = SUBCOMMANDS.iter().find(|(program, words, _)| {
        *program == base_name(name)
            && words.iter().zip(&command.args).filter(|(word, arg)| arg.is(word)).count()
                == words.len()
    })?;
    let rest = command.args.get(words.len()..).unwrap_or_default();
    let rest = rest.get(usize::from(rest.first().is_some_and(|word| word.is("--")))..)?;
    match skip_operands(rest, *skip) {
        Ok(rest) if rest.first().is_some_and(|word| word.text.starts_with('-')) => {
            Some(vec![Effect::unclear(name, "an option before the command")])
        }
        Ok(rest) => Some(Effect::runs(rest, Vec::new()).into_iter().collect()),
        Err(odd) => Some(vec![Effect::unclear(name, odd)]),
    }
}

// Programs that take a whole command as their last arguments: the everyday ones.

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

// Programs that take a whole command as their last arguments: those that change users,
// namespaces, limits or priorities, or that watch what a program does.

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
