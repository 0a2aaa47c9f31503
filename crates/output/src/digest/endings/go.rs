//! go test.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};
use super::names::Names;
use super::numbers::add;

pub(super) const SIGNS: &str = r"|(?-i:^ *--- (?:PASS|SKIP): |^ok[ \t]+\S+\t)";

/// `--- FAIL: TestStore (0.00s)`, `FAIL\tapp\t0.002s`, `ok  \tapp/ok\t0.002s`.
#[derive(Debug, Default)]
pub(super) struct GoTest {
    counts: Counts,
    failed: Names,
    /// The last package that failed, else the last one.
    package: Option<(Verdict, Kept)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Failed,
}

impl GoTest {
    fn test(&mut self, line: Sight<'_>) {
        let text = line.text.trim_start();
        let is_nested = text.len() < line.text.len();
        let Some((verdict, name)) = text.strip_prefix("--- ").and_then(|it| it.split_once(": "))
        else {
            return;
        };
        let count = match verdict {
            "PASS" => &mut self.counts.passed,
            "FAIL" => {
                self.failed.add(name.rsplit_once(" (").map_or(name, |(name, _)| name));
                &mut self.counts.failed
            }
            "SKIP" => &mut self.counts.skipped,
            _ => return,
        };
        // A test counts with all that is nested in it.
        if !is_nested {
            add(count, Some(1));
        }
    }

    fn package(&mut self, line: Sight<'_>) {
        let verdict = match line.text.split_once('\t') {
            Some((word, _)) if word.trim() == "ok" => Verdict::Ok,
            Some(("FAIL", _)) => Verdict::Failed,
            Some(_) | None => return,
        };
        let has_failed = self.package.as_ref().is_some_and(|(kept, _)| *kept == Verdict::Failed);
        if verdict == Verdict::Failed || !has_failed {
            self.package = Some((verdict, line.keep_as(&line.text.replace('\t', " "))));
        }
    }
}

impl Recogniser for GoTest {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        self.test(line);
        self.package(line);
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = self.package.as_ref().map(|(_, line)| Ending {
            failed: self.failed.innermost(),
            ..Ending::told("go test", line).with_counts(self.counts)
        });
        ending.into_iter().collect()
    }
}
