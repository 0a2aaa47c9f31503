//! C and C++ compilers, javac and the linker: `file:line:column: error: …`.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};

/// Invariant: what is counted was written in a compiler's form.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    first_error: Option<Kept>,
    first_warning: Option<Kept>,
    errors: u64,
    warnings: u64,
    tool: Option<&'static str>,
}

/// Whether `text` is `file.ext:12` or `file.ext:12:5`, and which tool reads such files.
fn tool_of(place: &str) -> Option<&'static str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, number) = place.rsplit_once(':')?;
    let file = match rest.rsplit_once(':') {
        Some((file, line)) if is_number(line) => file,
        Some(_) | None => rest,
    };
    let (_, extension) = file.rsplit_once('.')?;
    let is_place = is_number(number) && !file.contains(char::is_whitespace);
    match extension {
        "java" if is_place => Some("javac"),
        "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" | "m" | "mm" | "cu" | "S" if is_place => {
            Some("cc")
        }
        _ => None,
    }
}

/// The place before `: error: ` and the like.
fn complaint(text: &str) -> Option<(&str, Complaint)> {
    [
        (": error: ", Complaint::Error),
        (": fatal error: ", Complaint::Error),
        (": warning: ", Complaint::Warning),
    ]
    .into_iter()
    .find_map(|(word, complaint)| text.split_once(word).map(|(place, _)| (place, complaint)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Complaint {
    Error,
    Warning,
}

impl Compiler {
    fn error(&mut self, line: Sight<'_>) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| line.keep());
    }
}

impl Recogniser for Compiler {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if line.text.contains(": undefined reference to `") {
            self.tool.get_or_insert("ld");
            self.error(line);
            return Wants::Signs;
        }
        let Some((place, complaint)) = complaint(line.text) else { return Wants::Signs };
        let Some(tool) = tool_of(place) else { return Wants::Signs };
        self.tool.get_or_insert(tool);
        match complaint {
            Complaint::Error => self.error(line),
            Complaint::Warning => {
                self.warnings += 1;
                self.first_warning.get_or_insert_with(|| line.keep());
            }
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let line = self.first_error.as_ref().or(self.first_warning.as_ref());
        let (Some(line), Some(tool)) = (line, self.tool) else { return Vec::new() };
        let warnings = Some(self.warnings).filter(|warnings| *warnings > 0);
        let counts = Counts { warnings, ..Counts::errors(self.errors) };
        vec![Ending::told(tool, line).with_counts(counts)]
    }
}
