//! Python: exceptions that nobody caught, and pip.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};

pub(super) const SIGNS: &str = r"|(?-i:^Successfully installed )";

/// A traceback that is longer than this is not followed to its end.
const MOST_LINES: usize = 5000;

/// `Traceback (most recent call last):`, frames, and the exception in the first line after them
/// that is not indented.
#[derive(Debug, Default)]
pub(super) struct Traceback {
    inside: Option<Inside>,
    last: Option<Kept>,
    count: u64,
}

#[derive(Debug)]
struct Inside {
    indent: usize,
    /// The innermost frame so far.
    frame: String,
    lines: usize,
}

impl Traceback {
    /// Whether the traceback goes on after this line.
    fn follow(&mut self, mut inside: Inside, line: Sight<'_>) -> Wants {
        let text = line.text.get(inside.indent..).unwrap_or_default();
        inside.lines += 1;
        if text.starts_with(' ') && inside.lines < MOST_LINES {
            if let Some(frame) = frame(text) {
                inside.frame = frame;
            }
            self.inside = Some(inside);
            return Wants::NextLine;
        }
        let is_exception = text.chars().next().is_some_and(char::is_alphabetic);
        if is_exception && !inside.frame.is_empty() {
            self.count += 1;
            self.last = Some(line.keep_as(&format!("{} ({})", text.trim(), inside.frame)));
        }
        Wants::Signs
    }
}

/// `app.py:12 in main` of `  File "/src/app.py", line 12, in main`.
fn frame(text: &str) -> Option<String> {
    let (path, rest) = text.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let (line, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    let file = path.rsplit('/').next().unwrap_or(path);
    Some(format!("{file}:{line} in {function}"))
}

impl Recogniser for Traceback {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if let Some(inside) = self.inside.take() {
            return self.follow(inside, line);
        }
        let start = line.text.trim_start();
        if start != "Traceback (most recent call last):" {
            return Wants::Signs;
        }
        let indent = line.text.len() - start.len();
        self.inside = Some(Inside { indent, frame: String::new(), lines: 0 });
        Wants::NextLine
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("python", line).with_counts(Counts::errors(self.count));
        self.last.as_ref().map(ending).into_iter().collect()
    }
}

/// How pip says that it failed. A bare `ERROR:` may be anybody's.
const PIP_FAILURES: [&str; 7] = [
    "ERROR: Could not find a version",
    "ERROR: No matching distribution",
    "ERROR: Could not install packages",
    "ERROR: Failed building wheel",
    "ERROR: Failed to build installable wheels",
    "error: externally-managed-environment",
    "error: subprocess-exited-with-error",
];

#[derive(Debug, Default)]
pub(super) struct Pip {
    last: Option<Kept>,
}

impl Recogniser for Pip {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        let is_failure = PIP_FAILURES.iter().any(|start| line.text.starts_with(start));
        if is_failure || line.text.starts_with("Successfully installed ") {
            self.last = Some(line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        self.last.as_ref().map(|line| Ending::told("pip", line)).into_iter().collect()
    }
}
