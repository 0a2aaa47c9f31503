//! The jobs of the load, and what each of them must have done in the end.

use std::path::Path;

use serde_json::{Value, json};

use super::random::Random;
use crate::harness::Marker;

/// The lines of a job that prints for a while.
const LINES: u64 = 40;
/// The lines of a job that prints all at once.
const MANY_LINES: u64 = 60_000;

/// The lines of the input that a slow reader gets: more than a pipe holds.
const INPUT_LINES: u64 = 36_000;
/// The grace period of a stop that a client asks for, far longer than the default of the server.
pub(super) const STOP_GRACE_S: f64 = 600.0;

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkKind {
    /// One line.
    Short,
    /// Numbered lines over some seconds.
    Counter,
    /// Numbered lines of both streams, in pipes of their own.
    Separate,
    /// Numbered lines on a terminal.
    Terminal,
    /// Several hundred kilobytes at once.
    Large,
    /// A line from its input.
    Input,
    /// 200 KB of input that the job reads little by little.
    SlowReader,
    /// Several processes that make files.
    Build,
    /// Waits until a client stops it, and then works on for longer than the default grace period.
    Stopped,
    /// Exits with 0 when its time is over.
    Deadline,
    /// Processes in sessions of their own that never end by themselves.
    Sleeper,
}

impl WorkKind {
    pub(super) const ALL: [Self; 11] = [
        Self::Short,
        Self::Counter,
        Self::Separate,
        Self::Terminal,
        Self::Large,
        Self::Input,
        Self::SlowReader,
        Self::Build,
        Self::Stopped,
        Self::Deadline,
        Self::Sleeper,
    ];
}

/// One job of the load.
#[derive(Debug, Clone)]
pub(super) struct Work {
    /// Unique among all jobs of a test; also its key.
    pub(super) id: u64,
    pub(super) kind: WorkKind,
    pub(super) code: u64,
}

impl Work {
    pub(super) const fn new(id: u64, kind: WorkKind, random: &mut Random) -> Self {
        let code = match random.below(256) {
            // A shell's words for SIGXCPU and SIGXFSZ: such a job has reached a limit.
            152 | 153 => 151,
            code => code,
        };
        Self { id, kind, code }
    }

    /// The arguments of `run_command`. Every job first adds its id to the file `runs`.
    pub(super) fn arguments(&self, runs: &Path, marker: &Marker) -> Value {
        let (id, code) = (self.id, self.code);
        let print = |words: &str| {
            format!(
                "i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); {words}; sleep 0.04; done; exit {code}"
            )
        };
        let work = match self.kind {
            WorkKind::Short => format!("echo token-{id}; exit {code}"),
            WorkKind::Counter => print("echo line-$i"),
            WorkKind::Separate => print("echo out-$i; echo err-$i >&2"),
            WorkKind::Terminal => print("echo tty-$i"),
            WorkKind::Large => format!("seq 1 {MANY_LINES}; exit {code}"),
            WorkKind::Input => "exec cat".to_owned(),
            WorkKind::SlowReader => "i=0; while [ $i -lt 20 ]; do i=$((i+1)); \
                 dd bs=4096 count=1 iflag=fullblock 2>/dev/null; sleep 0.05; done; exec cat"
                .to_owned(),
            WorkKind::Stopped => format!(
                "exec 2>/dev/null; trap 'sleep 0.7; echo clean; exit {code}' TERM; echo ready; \
                 while :; do sleep 0.05; done"
            ),
            WorkKind::Deadline => {
                "exec 2>/dev/null; trap 'echo late; exit 0' TERM; echo up; while :; do sleep 0.05; done".to_owned()
            }
            WorkKind::Build => format!(
                "mkdir build-{id} && for i in 1 2 3 4; do \
                 (sleep 0.5; seq $i 3000 | sha256sum > build-{id}/$i.o) & done; wait; sleep 1; \
                 cat build-{id}/*.o | sha256sum > build-{id}/done && echo built-{id}; exit {code}"
            ),
            WorkKind::Sleeper => {
                format!("setsid sleep {marker} & (setsid sleep {marker} &); sleep {marker}")
            }
        };
        let mut arguments = json!({
            "command": format!(": {marker}; echo {id} >> {}; {work}", runs.display()),
            "key": format!("work-{id}"), "wait_s": 0,
        });
        match self.kind {
            WorkKind::Separate => arguments["streams"] = json!("separate"),
            WorkKind::Terminal => arguments["tty"] = json!(true),
            WorkKind::SlowReader => arguments["stdin"] = json!(numbers(INPUT_LINES)),
            WorkKind::Deadline => arguments["timeout_s"] = json!(1.0 + (id % 16) as f64 / 10.0),
            WorkKind::Short
            | WorkKind::Counter
            | WorkKind::Large
            | WorkKind::Input
            | WorkKind::Build
            | WorkKind::Stopped
            | WorkKind::Sleeper => {}
        }
        arguments
    }

    /// The line that the job gets as input.
    pub(super) fn input(&self) -> Option<String> {
        (self.kind == WorkKind::Input).then(|| format!("input-{}\n", self.id))
    }

    /// `true` if the job ends before its server does.
    pub(super) fn ends(&self) -> bool {
        self.kind != WorkKind::Sleeper
    }

    /// `true` if a client stops the job once it has written this.
    pub(super) fn is_to_be_stopped(&self, seen: &[u8]) -> bool {
        self.kind == WorkKind::Stopped && seen.starts_with(b"ready\n")
    }

    /// The outcome and the exit code of a job that ends.
    pub(super) const fn true_ending(&self) -> (&'static str, Option<u64>) {
        match self.kind {
            WorkKind::Input | WorkKind::SlowReader => ("exited", Some(0)),
            WorkKind::Stopped | WorkKind::Sleeper => ("stopped", None),
            WorkKind::Deadline => ("timed_out", None),
            WorkKind::Short
            | WorkKind::Counter
            | WorkKind::Separate
            | WorkKind::Terminal
            | WorkKind::Large
            | WorkKind::Build => ("exited", Some(self.code)),
        }
    }

    /// Checks the whole log of a job that has ended.
    #[track_caller]
    pub(super) fn check_output(&self, bytes: &[u8], page: &Value) {
        let text = String::from_utf8_lossy(bytes);
        let numbered = |word: &str, count: u64| -> String {
            (1..=count).map(|number| format!("{word}-{number}\n")).collect()
        };
        match self.kind {
            WorkKind::Short => assert_eq!(text, format!("token-{}\n", self.id)),
            WorkKind::Counter => assert_eq!(text, numbered("line", LINES)),
            WorkKind::Large => {
                let expected = numbers(MANY_LINES);
                assert!(text == expected, "{} of {} bytes", text.len(), expected.len());
            }
            WorkKind::SlowReader => {
                let expected = numbers(INPUT_LINES);
                assert!(text == expected, "{} of {} bytes", text.len(), expected.len());
            }
            WorkKind::Stopped => assert_eq!(text, "ready\nclean\n", "it had its grace period"),
            // On a busy machine its time may be over before it has begun.
            WorkKind::Deadline => assert!(["", "late\n", "up\nlate\n"].contains(&&*text), "{text}"),
            WorkKind::Separate => {
                for word in ["out", "err"] {
                    let of_stream = text.lines().filter(|line| line.starts_with(word));
                    let of_stream: String = of_stream.map(|line| format!("{line}\n")).collect();
                    assert_eq!(of_stream, numbered(word, LINES), "{text}");
                }
            }
            WorkKind::Terminal => check_terminal(&text.replace("\r\n", "\n"), page),
            // A client that got no answer may have sent its line again.
            WorkKind::Input => {
                let line = self.input().unwrap_or_default();
                let lines: Vec<&str> = text.split_inclusive('\n').collect();
                assert!(!lines.is_empty() && lines.iter().all(|it| *it == line), "{text}");
            }
            WorkKind::Build => assert_eq!(text, format!("built-{}\n", self.id)),
            WorkKind::Sleeper => assert_eq!(text, ""),
        }
    }
}

/// The numbers from 1 on, a line each.
fn numbers(count: u64) -> String {
    (1..=count).map(|line| format!("{line}\n")).collect()
}

/// Lines of a terminal are complete, unless the log says that bytes may be missing.
#[track_caller]
fn check_terminal(text: &str, page: &Value) {
    let expected: Vec<String> = (1..=LINES).map(|number| format!("tty-{number}")).collect();
    let lines: Vec<&str> = text.lines().collect();
    if lines != expected {
        let says_so = page.to_string().contains("crash") || !page["dropped_bytes"].is_null();
        assert!(says_so, "lines are missing and nothing says so: {text}\n{page}");
    }
}
