//! Stack traces of Python, Java, JavaScript, .NET, Ruby, PHP, Go and Rust, and the reports of
//! sanitizers.

use super::section_line::{HeadLine, Membership, SectionLine, shorten};

/// The first line of a Python traceback ends with this.
const TRACEBACK: &str = "Traceback (most recent call last):";
/// The lines before the first frame among which the head is searched.
const MAX_MESSAGE_LINES: usize = 20;

#[derive(Debug)]
pub(super) struct Trace {
    head: HeadLine,
    form: TraceForm,
}

#[derive(Debug)]
enum TraceForm {
    /// Python: the exception comes after the frames.
    Traceback(Traceback),
    /// Frames that begin with `at` or `from`, below the exception.
    Frames,
    /// Frames that begin with `#0`, below the line `Stack trace:`.
    NumberedFrames,
    Go,
    /// Rust: the message is the first line after the head.
    Panic {
        has_message: bool,
    },
    Sanitizer {
        is_over: bool,
    },
}

#[derive(Debug)]
struct Traceback {
    indent: usize,
    /// The newest line that names a file.
    frame: Option<HeadLine>,
    /// The exception, once it is known.
    exception: Option<HeadLine>,
    /// `true` if the exception was added as a line.
    is_over: bool,
}

impl Trace {
    pub(super) fn begin(line: &SectionLine<'_>) -> Option<Self> {
        let text = &*line.text;
        let trimmed = text.trim_start();
        let trace = |form| Some(Self { head: line.to_head(), form });
        if text.trim_end().ends_with(TRACEBACK) {
            let indent = margin(text);
            let traceback = Traceback { indent, frame: None, exception: None, is_over: false };
            return trace(TraceForm::Traceback(traceback));
        }
        if is_frame(line) {
            return Some(Self { head: find_exception(line)?, form: TraceForm::Frames });
        }
        if trimmed.starts_with("#0 ") {
            let mark = line.previous().filter(|mark| mark.text.trim() == "Stack trace:")?;
            let head = mark.previous().filter(|head| !head.is_blank())?.to_head();
            return Some(Self { head, form: TraceForm::NumberedFrames });
        }
        if text.starts_with("panic: ") || text.starts_with("fatal error: ") || is_goroutine(text) {
            return trace(TraceForm::Go);
        }
        if text.starts_with("thread '") && text.contains("panicked at") {
            return trace(TraceForm::Panic { has_message: false });
        }
        if text.starts_with("==") && text.contains("==ERROR: ") {
            return trace(TraceForm::Sanitizer { is_over: false });
        }
        None
    }

    pub(super) fn add_line(&mut self, line: &SectionLine<'_>) -> Membership {
        let text = &*line.text;
        Membership::inside_if(match &mut self.form {
            TraceForm::Traceback(traceback) => traceback.add_line(line),
            TraceForm::Frames => {
                line.indent() > 0 && !line.is_blank()
                    || text.starts_with("Caused by: ")
                    || text.starts_with("Suppressed: ")
            }
            TraceForm::NumberedFrames => {
                text.trim_start().starts_with('#') || text.trim_start().starts_with("thrown in ")
            }
            TraceForm::Go => {
                line.is_blank()
                    || line.indent() > 0
                    || is_goroutine(text)
                    || text.ends_with(')')
                    || ["created by ", "[signal ", "runtime stack:"]
                        .iter()
                        .any(|start| text.starts_with(start))
            }
            TraceForm::Panic { has_message } => {
                if *has_message {
                    line.indent() > 0 && !line.is_blank()
                        || text.starts_with("stack backtrace:")
                        || text.starts_with("note: ")
                } else {
                    *has_message = true;
                    self.head.text = shorten(&format!("{} {}", self.head.text, text.trim()));
                    !line.is_blank()
                }
            }
            TraceForm::Sanitizer { is_over } => {
                let is_inside = !*is_over;
                *is_over = text.starts_with("SUMMARY: ");
                is_inside
            }
        })
    }

    /// The head, for the line at `offset`.
    pub(super) fn head(&self, offset: u64) -> HeadLine {
        match &self.form {
            TraceForm::Traceback(traceback) => traceback.head(&self.head, offset),
            TraceForm::Frames
            | TraceForm::NumberedFrames
            | TraceForm::Go
            | TraceForm::Panic { .. }
            | TraceForm::Sanitizer { .. } => self.head.clone(),
        }
    }

    /// `true` if the line that says what the trace is about is still to come.
    pub(super) const fn is_unexplained(&self) -> bool {
        match &self.form {
            TraceForm::Traceback(traceback) => traceback.exception.is_none(),
            TraceForm::Frames
            | TraceForm::NumberedFrames
            | TraceForm::Go
            | TraceForm::Panic { .. }
            | TraceForm::Sanitizer { .. } => false,
        }
    }

    /// Takes the exception from the lines that follow the newest line. They are added later.
    pub(super) fn explain<'l>(&mut self, mut following: impl Iterator<Item = (u64, &'l str)>) {
        if let TraceForm::Traceback(traceback) = &mut self.form {
            let exception = following.find(|(_, text)| traceback.is_exception(text));
            traceback.exception = exception.map(|(offset, text)| read_exception(offset, text));
        }
    }
}

impl Traceback {
    fn add_line(&mut self, line: &SectionLine<'_>) -> bool {
        if self.is_over {
            return false;
        }
        if self.is_exception(&line.text) {
            self.exception = Some(read_exception(line.offset, &line.text));
            self.is_over = true;
        } else if without_margin(&line.text).starts_with("File \"") {
            self.frame = Some(HeadLine::new(line.offset, without_margin(&line.text)));
        }
        true
    }

    fn is_exception(&self, text: &str) -> bool {
        !without_margin(text).is_empty() && margin(text) <= self.indent
    }

    /// The exception; for the exception itself, the innermost frame.
    fn head(&self, first: &HeadLine, offset: u64) -> HeadLine {
        match (&self.exception, &self.frame) {
            (Some(exception), Some(frame)) if exception.offset == offset => frame.clone(),
            (Some(exception), _) if exception.offset != offset => HeadLine {
                offset: first.offset,
                text: shorten(&format!("Traceback: {}", exception.text)),
            },
            (Some(_) | None, _) => first.clone(),
        }
    }
}

fn read_exception(offset: u64, text: &str) -> HeadLine {
    HeadLine::new(offset, without_margin(text))
}

/// The width of the margin of a traceback: blanks, and the bars of exception groups.
fn margin(text: &str) -> usize {
    text.len() - without_margin(text).len()
}

fn without_margin(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '|', '+'])
}

/// `true` for a frame of Java, JavaScript, .NET or Ruby.
fn is_frame(line: &SectionLine<'_>) -> bool {
    let text = line.text.trim_start();
    let is_at = text.strip_prefix("at ").is_some_and(|place| place.contains(['(', ':']));
    let is_from = text.starts_with("from ") && text.contains(":in ");
    line.indent() > 0 && (is_at || is_from)
}

/// The exception above the first frame: the line above, or a line further up that has the form of an
/// exception, because a message may have several lines.
fn find_exception(frame: &SectionLine<'_>) -> Option<HeadLine> {
    let above = frame.previous().filter(|line| !line.is_blank() && !is_frame(line));
    if let Some(line) = &above
        && ["rror", "xception", "EXCEPTION"].iter().any(|word| line.text.contains(word))
    {
        return Some(line.to_head());
    }
    let mut before = frame.lines_before().take(MAX_MESSAGE_LINES);
    let named = before.find(|line| names_exception(&line.text));
    named.or(above).map(|line| line.to_head())
}

/// `true` if a word before the first colon, or the whole line, ends as the names of exceptions do.
fn names_exception(text: &str) -> bool {
    let name = text.split(": ").next().unwrap_or(text);
    let words = || name.split([' ', '(', '[']).take(6);
    let is_name = |word: &str| {
        let word = word.trim_end_matches([':', ')', ']']);
        ["Error", "Exception", "Throwable"].iter().any(|end| word.ends_with(end))
    };
    !text.starts_with([' ', '\t']) && words().any(is_name)
}

fn is_goroutine(text: &str) -> bool {
    text.starts_with("goroutine ") && text.trim_end().ends_with("]:")
}
