//! Programs that a signal ended, and memory that ran out.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};

pub(super) const SIGNS: &str = r"|(?-i:^(?:\S+: line \d+: +\d+ )?(?:Bus error|Illegal instruction|Floating point exception|Terminated|Trace/breakpoint trap)\b|oom-kill)";

/// How shells name the signals that end a program.
const SIGNALS: [&str; 8] = [
    "Segmentation fault",
    "Killed",
    "Aborted",
    "Bus error",
    "Illegal instruction",
    "Floating point exception",
    "Trace/breakpoint trap",
    "Terminated",
];

/// `bash: line 1: 11370 Segmentation fault      ./app`, or the words alone.
#[derive(Debug, Default)]
pub(super) struct Signals {
    first: Option<Kept>,
    count: u64,
}

/// What a shell says after its place and the process: both are there, or neither is.
fn said_of_process(text: &str) -> &str {
    let after_place = text.split_once(": line ").and_then(|(_, rest)| rest.split_once(": "));
    match after_place {
        Some((_, rest)) => {
            rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start()
        }
        None => text,
    }
}

fn is_signal(text: &str) -> bool {
    let said = said_of_process(text);
    let is_placed = said.len() < text.len();
    SIGNALS.iter().any(|signal| {
        said.strip_prefix(signal).is_some_and(|rest| {
            rest.is_empty() || rest == " (core dumped)" || (is_placed && rest.starts_with(' '))
        })
    })
}

impl Recogniser for Signals {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if is_signal(line.text) {
            self.count += 1;
            let words: Vec<&str> = said_of_process(line.text).split_whitespace().collect();
            self.first.get_or_insert_with(|| line.keep_as(&words.join(" ")));
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("signal", line).with_counts(Counts::errors(self.count));
        self.first.as_ref().map(ending).into_iter().collect()
    }
}

/// How the kernel, node, Java and C++ say that there was not enough memory.
const MEMORY: [&str; 6] = [
    "Out of memory: Killed process",
    "oom-kill:",
    "JavaScript heap out of memory",
    "java.lang.OutOfMemoryError",
    "std::bad_alloc",
    "Cannot allocate memory",
];

#[derive(Debug, Default)]
pub(super) struct Memory {
    first: Option<Kept>,
}

impl Recogniser for Memory {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if self.first.is_none() && MEMORY.iter().any(|sign| line.text.contains(sign)) {
            self.first = Some(line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        self.first.as_ref().map(|line| Ending::told("memory", line)).into_iter().collect()
    }
}
