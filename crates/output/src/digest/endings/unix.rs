//! git, tar and dd.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};

pub(super) const SIGNS: &str = concat!(
    r"|(?-i:^ ! \[(?:remote )?rejected\]|^tar: |^dd: ",
    r"|^\d+\+\d+ records out|^\d+ bytes .*copied, )",
);

/// `fatal: …`, `CONFLICT (content): …`, ` ! [rejected] …`.
#[derive(Debug, Default)]
pub(super) struct Git {
    first: Option<Kept>,
    count: u64,
}

impl Recogniser for Git {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        let is_failure = ["fatal: ", "CONFLICT (", " ! [rejected]", " ! [remote rejected]"]
            .iter()
            .any(|start| line.text.starts_with(start));
        if is_failure {
            self.count += 1;
            self.first.get_or_insert_with(|| line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("git", line).with_counts(Counts::errors(self.count));
        self.first.as_ref().map(ending).into_iter().collect()
    }
}

/// `tar: missing: Cannot stat: …`; its last words name no cause, so the first ones are told.
#[derive(Debug, Default)]
pub(super) struct Tar {
    first: Option<Kept>,
    count: u64,
}

/// What tar says without anything being wrong.
const TAR_REMARKS: [&str; 2] = ["tar: Removing leading ", "tar: Record size "];

impl Recogniser for Tar {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        let is_remark = TAR_REMARKS.iter().any(|remark| line.text.starts_with(remark));
        if line.text.starts_with("tar: ") && !is_remark {
            self.count += 1;
            self.first.get_or_insert_with(|| line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("tar", line).with_counts(Counts::errors(self.count));
        self.first.as_ref().map(ending).into_iter().collect()
    }
}

/// `3000+0 records out`, and the line about bytes and speed after it; or `dd: …`.
#[derive(Debug, Default)]
pub(super) struct Dd {
    has_written: bool,
    copied: Option<Kept>,
    failure: Option<Kept>,
}

impl Recogniser for Dd {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if line.text.starts_with("dd: ") {
            self.failure = Some(line.keep());
        } else if line.text.contains("+") && line.text.ends_with(" records out") {
            self.has_written = true;
        } else if self.has_written && line.text.contains(" copied, ") {
            self.has_written = false;
            self.copied = Some(line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let told = self.copied.iter().chain(&self.failure);
        told.map(|line| Ending::told("dd", line)).collect()
    }
}
