//! Programs that start the command behind their own options: `env`, `timeout`, `sudo`, `strace`.
//!
//! Options that change the directory or the root are left out: the inner command's relative paths
//! would mean other files than they seem to. So are options that clear the environment: without
//! PATH bash also looks for programs in the current directory.
//! Versions: GNU coreutils 9.1, util-linux 2.38.1, procps 4.0.2, sudo 1.9.13, strace 6.1,
//! time 1.9, moreutils 0.67, expect 5.45.4, entr 5.3.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::options::{Arguments, NO_OPTIONS, Options, Order, known, read, stays_one_word};
use super::tool::written;
use crate::command::{Shape, Shell, Word};

/// A program that starts the command in its operands.
struct Wrapper {
    names: &'static [&'static str],
    options: Options,
    /// The operands in front of the command (`timeout 5 make`).
    before: usize,
    /// `NAME=value` may stand in front of the command.
    assigns: bool,
    /// Options whose value is a file that is written.
    writes: &'static [&'static str],
    /// Options with which the operands are no command.
    inspects: &'static [&'static str],
    /// It does nothing of interest without a command. Otherwise it starts a shell.
    may_be_bare: bool,
}

const BASE: Options = Options { order: Order::First, ..NO_OPTIONS };
const PLAIN: Wrapper = Wrapper {
    names: &[],
    options: BASE,
    before: 0,
    assigns: false,
    writes: &[],
    inspects: &[],
    may_be_bare: true,
};

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["env"],
        options: Options {
            flags: "0v",
            values: "u",
            long: "null debug unset= block-signal=? default-signal=? ignore-signal=? \
                list-signal-handling help version",
            ..BASE
        },
        assigns: true,
        ..PLAIN
    },
    Wrapper {
        names: &["timeout", "gtimeout"],
        options: Options {
            flags: "v",
            values: "ks",
            long: "foreground kill-after= preserve-status signal= verbose help version",
            ..BASE
        },
        before: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["nice"],
        options: Options { values: "n", long: "adjustment= help version", numbers: true, ..BASE },
        ..PLAIN
    },
    Wrapper { names: &["nohup"], options: Options { long: "help version", ..BASE }, ..PLAIN },
    Wrapper {
        names: &["stdbuf"],
        options: Options { values: "ioe", long: "input= output= error= help version", ..BASE },
        ..PLAIN
    },
    Wrapper {
        names: &["setsid"],
        options: Options { flags: "cfwhV", long: "ctty fork wait help version", ..BASE },
        ..PLAIN
    },
    Wrapper {
        names: &["ionice"],
        options: Options {
            flags: "thV",
            values: "cnpPu",
            long: "class= classdata= pid= pgid= uid= ignore help version",
            ..BASE
        },
        inspects: &["p", "P", "u", "pid", "pgid", "uid"],
        ..PLAIN
    },
    Wrapper {
        names: &["taskset"],
        options: Options { flags: "apchV", long: "all-tasks pid cpu-list help version", ..BASE },
        before: 1,
        inspects: &["p", "pid"],
        ..PLAIN
    },
    Wrapper {
        names: &["chrt"],
        options: Options {
            flags: "bdfiorRampvhV",
            values: "TPD",
            long: "batch deadline fifo idle other rr reset-on-fork sched-runtime= sched-period= \
                sched-deadline= all-tasks max pid verbose help version",
            ..BASE
        },
        before: 1,
        inspects: &["p", "pid", "m", "max"],
        ..PLAIN
    },
    Wrapper {
        names: &["prlimit"],
        options: Options {
            flags: "hV",
            values: "po",
            attached: "cdefilmnqrstuvxy",
            long: "pid= output= noheadings raw verbose help version core=? data=? nice=? fsize=? \
                sigpending=? memlock=? rss=? nofile=? msgqueue=? rtprio=? stack=? cpu=? nproc=? \
                as=? locks=? rttime=?",
            ..BASE
        },
        ..PLAIN
    },
    Wrapper {
        names: &["unshare"],
        options: Options {
            flags: "muinpUCTfrchV",
            long: "mount uts ipc net pid user cgroup time fork map-user= map-group= map-root-user \
                map-current-user map-auto kill-child=? mount-proc keep-caps help version",
            ..BASE
        },
        may_be_bare: false,
        ..PLAIN
    },
    Wrapper {
        names: &["nsenter"],
        options: Options {
            flags: "amuinpCUTFZhV",
            values: "t",
            long: "all target= mount uts ipc net pid cgroup user time preserve-credentials no-fork \
                follow-context help version",
            ..BASE
        },
        may_be_bare: false,
        ..PLAIN
    },
    Wrapper {
        names: &["sudo"],
        options: Options {
            flags: "BbEHKklnPSVv",
            values: "CgpTUu",
            long: "bell background preserve-env=? set-home remove-timestamp reset-timestamp list \
                non-interactive preserve-groups stdin version validate close-from= group= prompt= \
                command-timeout= other-user= user= help",
            undashed_values: true,
            ..BASE
        },
        assigns: true,
        ..PLAIN
    },
    Wrapper {
        names: &["doas"],
        options: Options { flags: "nL", values: "u", undashed_values: true, ..BASE },
        may_be_bare: true,
        ..PLAIN
    },
    Wrapper {
        names: &["time", "gtime"],
        options: Options {
            flags: "apqvhV",
            values: "fo",
            long: "append format= output= portability quiet verbose help version",
            ..BASE
        },
        writes: &["o", "output"],
        ..PLAIN
    },
    Wrapper {
        names: &["strace"],
        options: Options {
            flags: "AcCDdfhiknqrtTvVwxyzZ",
            values: "IbeaosXOSPpUu",
            long: "follow-forks output= output-append-mode output-separately string-limit= trace= \
                signal= status= trace-path= successful-only failed-only columns= abbrev= verbose= \
                raw= read= write= quiet=? decode-fds=? instruction-pointer stack-traces \
                syscall-number relative-timestamps=? absolute-timestamps=? syscall-times=? \
                summary summary-only summary-sort-by= attach= user= seccomp-bpf help version",
            ..BASE
        },
        writes: &["o", "output"],
        ..PLAIN
    },
    Wrapper {
        names: &["ltrace"],
        options: Options {
            flags: "bcCfhiLrStTV",
            values: "aAenopsux",
            long: "align= output= indent= demangle no-signals help version",
            ..BASE
        },
        writes: &["o", "output"],
        ..PLAIN
    },
    Wrapper { names: &["chronic"], options: Options { flags: "ve", ..BASE }, ..PLAIN },
    Wrapper { names: &["unbuffer"], options: Options { flags: "p", ..BASE }, ..PLAIN },
    Wrapper { names: &["ifne"], options: Options { flags: "n", ..BASE }, ..PLAIN },
    Wrapper {
        names: &["tini", "dumb-init"],
        options: Options {
            flags: "cgsvwVh",
            values: "ep",
            long: "single-child help version",
            ..BASE
        },
        ..PLAIN
    },
    Wrapper { names: &["gosu", "su-exec"], before: 1, ..PLAIN },
    Wrapper { names: &["eatmydata", "fakeroot"], may_be_bare: false, ..PLAIN },
    Wrapper {
        names: &["busybox", "toybox"],
        options: Options { long: "help list", ..BASE },
        ..PLAIN
    },
];

/// Programs that start others in ways that no table here follows: at a later time, in another
/// root, from a language of their own, or by applets that have no entry.
const UNREAD: &[&str] = &[
    "at",
    "batch",
    "builtin",
    "bwrap",
    "cgexec",
    "chpst",
    "chroot",
    "command",
    "coreutils",
    "crond",
    "cttyhack",
    "daemonize",
    "dbus-launch",
    "dbus-run-session",
    "direnv",
    "envdir",
    "envuidgid",
    "eval",
    "exec",
    "faketime",
    "firejail",
    "gnome-terminal",
    "hyperfine",
    "i386",
    "inetd",
    "konsole",
    "lckdo",
    "linux32",
    "linux64",
    "linuxrc",
    "lockrun",
    "mdev",
    "mispipe",
    "newgrp",
    "nodemon",
    "nq",
    "numactl",
    "openvt",
    "pee",
    "perf",
    "pkexec",
    "proot",
    "proxychains",
    "proxychains4",
    "pueue",
    "run-init",
    "run-one",
    "run-parts",
    "runcon",
    "runsv",
    "runsvdir",
    "setarch",
    "setlock",
    "setpriv",
    "setuidgid",
    "sudoedit",
    "svlogd",
    "switch_root",
    "systemd-inhibit",
    "systemd-run",
    "tcpsvd",
    "telnetd",
    "torsocks",
    "trickle",
    "tsocks",
    "tsp",
    "uclampset",
    "udhcpc",
    "udpsvd",
    "uevent",
    "vidir",
    "vipe",
    "watchexec",
    "watchdog",
    "x86_64",
    "xterm",
    "xvfb-run",
    "zrun",
];

/// Judges the arguments of a program that starts another one.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    let judgement = match program {
        "watch" => watch(args),
        "flock" => lock(args),
        "script" => record(args),
        "su" => switch_user(args),
        "runuser" => run_as_user(args),
        "entr" => run_on_change(args),
        "crontab" if matches!(args, [list] if list.is("-l")) => Ok(Vec::new()),
        "ts" if args.iter().all(|word| word.text.starts_with(['-', '%'])) => Ok(Vec::new()),
        "crontab" | "ts" => Err(arguments_of(program)),
        _ if UNREAD.contains(&program) => Err(arguments_of(program)),
        _ => {
            let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&program))?;
            wrapper.judge(program, args)
        }
    };
    Some(judgement)
}

fn arguments_of(program: &str) -> Doubt {
    format!("the command that {program} is given")
}

impl Wrapper {
    fn judge(&self, program: &str, args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
        let found = read(args, &self.options)?;
        let mut all = self.files(&found)?;
        for name in found.values(&["u", "unset"]).filter(|_| program == "env") {
            all.extend(unset(known(name)?));
        }
        if found.has(self.inspects) {
            return Ok(all);
        }
        let mut words = found.operands.as_slice();
        while self.assigns
            && let Some((name, value, rest)) = read_assignment(words)?
        {
            all.push(Consequence::Sets { name, value });
            words = rest;
        }
        let (before, command) = words.split_at(self.before.min(words.len()));
        if let Some(word) = before.iter().find(|word| !stays_one_word(word)) {
            return Err(format!("the word {word}"));
        }
        match command.first() {
            Some(_) => all.push(Consequence::Runs(command.to_vec())),
            None if self.may_be_bare || found.has(&["h", "V", "help", "version"]) => {}
            None => return Err(format!("{program} without a command, which starts a shell")),
        }
        Ok(all)
    }

    /// The files that are written. `strace -o '|command'` starts a program instead.
    fn files(&self, found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
        let starts_pipe = |word: &&Word| match word.text.chars().next() {
            Some(first) => matches!(first, '|' | '!'),
            None => true,
        };
        match found.values(self.writes).find(starts_pipe) {
            Some(word) => Err(format!("the output file {word}")),
            None => Ok(written(found.values(self.writes))),
        }
    }
}

/// Variables without which programs are found or text is read in another way.
fn unset(name: &str) -> Option<Consequence> {
    let matters = matches!(name, "PATH" | "HOME" | "IFS" | "LANG") || name.starts_with("LC_");
    matters.then(|| Consequence::Sets { name: name.to_owned(), value: None })
}

/// A variable, its value where that is known, and the words behind it.
type AssignedFirst<'w> = (String, Option<String>, &'w [Word]);

/// Splits `NAME=value` off the words.
fn read_assignment(words: &[Word]) -> Result<Option<AssignedFirst<'_>>, Doubt> {
    let Some((word, rest)) = words.split_first() else { return Ok(None) };
    // `env -` clears the environment.
    if word.is("-") {
        return Err("the option -".to_owned());
    }
    match word.text.split_once('=') {
        Some((name, value)) if stays_one_word(word) => {
            let value = word.value().map(|_| value.to_owned());
            Ok(Some((name.to_owned(), value, rest)))
        }
        None if word.shape == Shape::Literal => Ok(None),
        _ => Err(format!("the word {word}")),
    }
}

/// Shell text that a program hands to `sh -c`.
fn script(text: &Word) -> Result<Consequence, Doubt> {
    Ok(Consequence::Script { text: known(text)?.to_owned(), shell: Shell::Posix })
}

fn watch(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    const WATCH: Options = Options {
        flags: "bcegptwxhv",
        values: "nq",
        attached: "d",
        long: "beep color differences=? errexit chgexit equexit= interval= precise no-title \
            no-wrap exec help version",
        ..BASE
    };
    let found = read(args, &WATCH)?;
    if found.operands.is_empty() {
        return Ok(Vec::new());
    }
    if found.has(&["x", "exec"]) {
        return Ok(vec![Consequence::Runs(found.operands)]);
    }
    let words = found.operands.iter().map(known).collect::<Result<Vec<&str>, Doubt>>()?;
    Ok(vec![script(&Word::literal(words.join(" ")))?])
}

fn lock(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    const FLOCK: Options = Options {
        flags: "sexunoFhV",
        values: "wE",
        long: "shared exclusive unlock nonblock nb timeout= wait= conflict-exit-code= close \
            no-fork verbose help version",
        ..BASE
    };
    let found = read(args, &FLOCK)?;
    match found.operands.as_slice() {
        [] | [_] => Ok(Vec::new()),
        [file, ..] if !stays_one_word(file) => Err(format!("the word {file}")),
        [_, option, text] if option.is("-c") || option.is("--command") => Ok(vec![script(text)?]),
        [_, option, ..] if option.text.starts_with('-') => Err(format!("the option {option}")),
        [_, command @ ..] => Ok(vec![Consequence::Runs(command.to_vec())]),
    }
}

fn record(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    const SCRIPT: Options = Options {
        flags: "aefqhV",
        values: "IOBTmcEo",
        long: "log-in= log-out= log-io= log-timing= logging-format= append command= return flush \
            echo= output-limit= quiet help version",
        ..NO_OPTIONS
    };
    let found = read(args, &SCRIPT)?;
    let logs = ["I", "O", "B", "T", "log-in", "log-out", "log-io", "log-timing"];
    let mut all = written(found.values(&logs).chain(&found.operands));
    let commands: Vec<&Word> = found.values(&["c", "command"]).collect();
    match commands.as_slice() {
        [] => Err("script without a command, which starts a shell".to_owned()),
        texts => {
            for text in texts {
                all.push(script(text)?);
            }
            Ok(all)
        }
    }
}

const SU: Options = Options {
    flags: "lmpfPhV",
    values: "cgGu",
    long: "login preserve-environment fast pty command= group= supp-group= user= help version",
    ..NO_OPTIONS
};

fn switch_user(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &SU)?;
    let users = found.operands.iter().filter(|word| !word.is("-")).count();
    let texts: Vec<&Word> = found.values(&["c", "command"]).collect();
    match texts.as_slice() {
        // Further operands are arguments of the user's shell.
        [text] if users <= 1 && found.operands.iter().all(stays_one_word) => {
            Ok(vec![script(text)?])
        }
        _ => Err("the shell that su starts".to_owned()),
    }
}

fn run_as_user(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &Options { order: Order::First, ..SU })?;
    match found.operands.as_slice() {
        [_, ..] if found.has(&["u", "user"]) && !found.has(&["c", "command", "l", "login"]) => {
            Ok(vec![Consequence::Runs(found.operands)])
        }
        _ => switch_user(args),
    }
}

fn run_on_change(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &Options { flags: "acdnprsxz", ..BASE })?;
    if found.has(&["s"]) {
        return match found.operands.as_slice() {
            [text] => Ok(vec![script(text)?]),
            _ => Err(arguments_of("entr")),
        };
    }
    // The absolute path of the file that changed stands for `/_`.
    let change = |word: Word| if word.is("/_") { Word::unknown("/", Shape::One) } else { word };
    Ok(vec![Consequence::Runs(found.operands.into_iter().map(change).collect())])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_doubts, assert_harmless, judged};

    #[test]
    fn the_inner_command_is_reported() {
        for (line, expected) in [
            ("env", ""),
            ("env ls -l", "runs ls -l"),
            ("env RUST_LOG=debug A=$x cargo test", "sets RUST_LOG, sets A, runs cargo test"),
            ("env -u FOO -u PATH ls", "sets PATH, runs ls"),
            ("env -- A=1 ls", "sets A, runs ls"),
            ("env LD_PRELOAD=./e.so ls", "sets LD_PRELOAD, runs ls"),
            ("timeout 60 cargo test", "runs cargo test"),
            ("timeout -k 5 -s KILL 1m make -j4", "runs make -j4"),
            ("timeout --foreground $x ls", "the word …"),
            ("nice -n 19 make", "runs make"),
            ("nice -19 make", "runs make"),
            ("nice", ""),
            ("ionice -c2 -n7 cp a b", "runs cp a b"),
            ("ionice -p 12", ""),
            ("nohup ./server --port 80", "runs ./server --port 80"),
            ("setsid -f ls", "runs ls"),
            ("stdbuf -oL grep x", "runs grep x"),
            ("time -f %e -o t.txt make", "writes t.txt, runs make"),
            ("taskset -c 0-3 make", "runs make"),
            ("taskset -cp 0 1234", ""),
            ("chrt -b 0 make", "runs make"),
            ("prlimit --nofile=1024 ls", "runs ls"),
            ("strace -f -e trace=execve -o t.log ls -l", "writes t.log, runs ls -l"),
            ("strace -c ls", "runs ls"),
            ("strace -p 12", ""),
            ("strace -p 12 touch x", "runs touch x"),
            ("strace --attach=12 touch x", "runs touch x"),
            ("ltrace -p 12 touch x", "runs touch x"),
            ("sudo -u postgres psql -c x", "runs psql -c x"),
            ("sudo -n FOO=1 ls", "sets FOO, runs ls"),
            ("sudo -l", ""),
            ("doas -u www ls", "runs ls"),
            ("unshare -rn ls", "runs ls"),
            ("tini -s -- ls -l", "runs ls -l"),
            ("gosu root ls", "runs ls"),
            ("busybox ls -l", "runs ls -l"),
            ("chronic make", "runs make"),
            ("watch -n 1 'ls -l | wc -l'", "Posix script ls -l | wc -l"),
            ("watch -d ls -l", "Posix script ls -l"),
            ("watch -x ls -l", "runs ls -l"),
            ("flock -n /tmp/l make all", "runs make all"),
            ("flock /tmp/l -c 'make all'", "Posix script make all"),
            ("flock 9", ""),
            ("script -qec 'ls -l' /dev/null", "writes /dev/null, Posix script ls -l"),
            ("su - app -c 'ls'", "Posix script ls"),
            ("runuser -u app -- ls -l", "runs ls -l"),
            ("entr -r make test", "runs make test"),
            ("entr wc -l /_", "runs wc -l /…"),
            ("entr -s 'make test'", "Posix script make test"),
            ("env $x", "the word …"),
            ("env A$x ls", "the word A…"),
            ("env @m ls", "the word …"),
        ] {
            let found = judged(line).unwrap_or_else(|doubt| doubt);
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn options_that_start_or_move_something_are_in_doubt() {
        assert_doubts(&[
            ("env -S 'touch x'", "the option -S"),
            ("env --split-string='touch x'", "the option --split-string"),
            ("env -C .git tee config", "the option -C"),
            ("env -i bash", "the option -i"),
            ("env - ls", "the option -"),
            ("timeout --sig KILL 5 ls", "the option --sig"),
            ("sudo -A ls", "the option -A"),
            ("sudo -s", "the option -s"),
            ("sudo -i", "the option -i"),
            ("sudo -e /etc/passwd", "the option -e"),
            ("sudo -D /x ls", "the option -D"),
            ("strace -o '|touch x' ls", "the output file |touch x"),
            ("strace -o $x ls", "the output file …"),
            ("strace -E LD_PRELOAD=x ls", "the option -E"),
            ("unshare", "unshare without a command, which starts a shell"),
            ("unshare -R /x ls", "the option -R"),
            ("script out.txt", "script without a command, which starts a shell"),
            ("script -c $x", "the word …"),
            ("su root", "the shell that su starts"),
            ("su -s /tmp/e -c ls", "the option -s"),
            ("su root -c ls a b", "the shell that su starts"),
            ("watch $x", "the word …"),
            ("flock f --comm x", "the option --comm"),
            ("flock -c 'touch x' f", "the option -c"),
            ("at now", "the command that at is given"),
            ("chroot d ls", "the command that chroot is given"),
            ("crontab f", "the command that crontab is given"),
            ("entr -s 'x' y", "the command that entr is given"),
            ("busybox --install x", "the option --install"),
        ]);
    }

    #[test]
    fn inspecting_is_harmless() {
        assert_harmless(&["crontab -l", "ts", "ts %H:%M", "nohup --version", "sudo -v", "timeout"]);
    }
}
