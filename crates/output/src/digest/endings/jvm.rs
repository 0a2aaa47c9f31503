//! Java stack traces, Maven and Gradle.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};
use super::numbers::after;

pub(super) const SIGNS: &str = concat!(
    r"|(?-i:^[ \t]+at [\w.$/<>]+\([\w$]+\.(?:java|kt|scala|groovy):\d+\)|^Caused by: ",
    r"|^\[INFO\] BUILD |^BUILD SUCCESSFUL in |\bTests run: \d)",
);

/// `java.lang.IllegalStateException: …`, its frames, and `Caused by: …`.
#[derive(Debug, Default)]
pub(super) struct Java {
    /// An exception whose frames are still to come.
    begun: Option<Kept>,
    first: Option<Kept>,
    cause: Option<String>,
    /// Where the first one was thrown.
    frame: Option<String>,
    count: u64,
}

/// The exception of a line: a class with a package, and perhaps a message.
fn exception(text: &str) -> Option<&str> {
    let text = match text.strip_prefix("Exception in thread \"") {
        Some(rest) => rest.split_once("\" ")?.1,
        None => text.strip_prefix("Caused by: ").unwrap_or(text),
    };
    let class = text.split(':').next().unwrap_or(text).trim_end();
    let is_class = class.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '$' | '_'));
    let is_thrown = ["Exception", "Error", "Throwable"].iter().any(|end| class.ends_with(end));
    (is_class && is_thrown && class.contains('.')).then_some(text)
}

impl Java {
    fn frame(&mut self, text: &str) {
        let Some((_, place)) =
            text.trim_start().strip_prefix("at ").and_then(|at| at.split_once('('))
        else {
            return;
        };
        let Some(begun) = self.begun.take().filter(|_| place.contains(':')) else { return };
        if let Some(cause) = begun.text.strip_prefix("Caused by: ") {
            self.cause = Some(cause.to_owned());
            return;
        }
        self.count += 1;
        if self.first.is_none() {
            self.frame = Some(place.trim_end_matches(')').to_owned());
            self.first = Some(begun);
        }
    }
}

impl Recogniser for Java {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        match exception(line.text) {
            Some(_) if line.text.starts_with("Caused by: ") => self.begun = Some(line.keep()),
            Some(exception) => self.begun = Some(line.keep_as(exception)),
            None => self.frame(line.text),
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let Some(first) = &self.first else { return Vec::new() };
        let frame = self.frame.as_deref().unwrap_or_default();
        let cause = self.cause.as_ref().map(|cause| format!(", caused by {cause}"));
        let text = format!("{} ({frame}){}", first.text, cause.unwrap_or_default());
        let told = Sight { offset: first.offset, text: &text }.keep();
        vec![Ending::told("java", &told).with_counts(Counts::errors(self.count))]
    }
}

/// `[INFO] BUILD FAILURE`, `BUILD FAILED in 3s`, and `Tests run: 3, Failures: 1, …`.
#[derive(Debug, Default)]
pub(super) struct JvmBuild {
    tests: Counts,
    ended: Option<(&'static str, Kept)>,
}

impl Recogniser for JvmBuild {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if let Some(build) = line.text.strip_prefix("[INFO] BUILD ") {
            self.ended = Some(("maven", line.keep_as(&format!("BUILD {build}"))));
        } else if line.text.starts_with("BUILD SUCCESSFUL in ")
            || line.text.starts_with("BUILD FAILED in ")
        {
            self.ended = Some(("gradle", line.keep()));
        } else if let Some(run) =
            after(line.text, "run").filter(|_| line.text.contains("Tests run: "))
        {
            let of = |word| after(line.text, word).unwrap_or(0);
            let (failed, errors, skipped) = (of("Failures"), of("Errors"), of("Skipped"));
            self.tests = Counts {
                passed: Some(run.saturating_sub(failed + errors + skipped)),
                failed: Some(failed),
                skipped: Some(skipped),
                errors: Some(errors),
                warnings: None,
            };
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = self.ended.as_ref();
        let told = ending.map(|(tool, line)| Ending::told(tool, line).with_counts(self.tests));
        told.into_iter().collect()
    }
}
