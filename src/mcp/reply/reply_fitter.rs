//! Fitting replies into their budget and their number of lines, by showing less output.

use std::sync::Arc;

use super::budget::{MAX_LINES, TokenBudget, escaped_len, fair_shares, next_size};
use super::tool_reply::ToolReply;
use crate::mcp::settings::ResultFormat;
use crate::output::excerpt::Budget;
use crate::output::redaction::Redactor;

/// The estimated size of fields and hints about shown output: its position, and how to continue.
const ABOUT_OUTPUT: usize = 400;
/// The most lines about one shown output: the mark of a hidden part with its errors, and notes.
const LINES_ABOUT_OUTPUT: usize = 20;
/// The number of attempts with less and less output before a reply gets none.
const TRIES: usize = 8;

/// Fits a reply into its budget: the caller rebuilds it with less and less output until it fits.
#[derive(Debug)]
pub(crate) struct ReplyFitter {
    budget: TokenBudget,
    format: ResultFormat,
    redactor: Arc<Redactor>,
    /// The size of the reply without output.
    bare: usize,
    /// The lines of the reply without output.
    bare_lines: usize,
    /// The amount of output for the next attempt, in bytes.
    size: usize,
    /// `true` if an attempt had too many lines.
    had_excess_lines: bool,
    tries: usize,
}

impl ReplyFitter {
    /// Creates a fitter for replies that consist of `bare` and output.
    pub(crate) fn new(
        budget: TokenBudget,
        format: ResultFormat,
        redactor: Arc<Redactor>,
        bare: &ToolReply,
    ) -> Self {
        let bare_lines = bare.text_lines(format);
        let bare = bare.size(format) + ABOUT_OUTPUT;
        let size = budget.bytes().saturating_sub(bare);
        Self { budget, format, redactor, bare, bare_lines, size, had_excess_lines: false, tries: 0 }
    }

    /// Sets the size of a page in log bytes. A program that reads structured replies gets the page
    /// that it asks for.
    pub(crate) fn for_page(mut self, requested: Option<usize>, default: usize) -> Self {
        if let (Some(bytes), ResultFormat::Structured) = (requested, self.format) {
            self.budget = self.budget.with_page(bytes);
        }
        self.size = requested.unwrap_or(default);
        self
    }

    /// The amount of output for the next attempt, in bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Limits the amount of output for the next attempt.
    pub(crate) fn limit_size(&mut self, bytes: usize) {
        self.size = self.size.min(bytes);
    }

    /// The lines that one shown output may have. Structured replies have no limit, because their
    /// text is the verdict alone.
    pub(crate) fn max_lines(&self) -> usize {
        self.max_lines_of(1)
    }

    /// The lines of the log to read for the next attempt, 0 for any number; `requested` is the
    /// caller's limit. The first attempt has no other limit, because a page may show many equal
    /// lines as one.
    pub(crate) fn page_lines(&self, requested: usize) -> usize {
        match (self.had_excess_lines, requested) {
            (false, requested) => requested,
            (true, 0) => self.max_lines(),
            (true, requested) => requested.min(self.max_lines()),
        }
    }

    /// The lines that so many shown outputs may have together, at least one each.
    fn max_lines_of(&self, outputs: usize) -> usize {
        match self.format {
            ResultFormat::Structured => usize::MAX,
            ResultFormat::Text | ResultFormat::Both => {
                let others = self.bare_lines + outputs * LINES_ABOUT_OUTPUT;
                MAX_LINES.saturating_sub(others).max(outputs)
            }
        }
    }

    /// The budget of one excerpt that gets all the room.
    pub(crate) fn excerpt_budget(&self) -> Budget {
        self.excerpt_budget_of(self.size, self.max_lines())
    }

    /// The budgets of several excerpts: the bytes and the lines that each of them may have, if it
    /// wants so many.
    pub(crate) fn excerpt_budgets(&self, bytes: &[usize], lines: &[usize]) -> Vec<Budget> {
        let shown = lines.iter().filter(|lines| **lines > 0).count();
        let bytes = fair_shares(bytes, self.size);
        let lines = fair_shares(lines, self.max_lines_of(shown));
        bytes.into_iter().zip(lines).map(|it| self.excerpt_budget_of(it.0, it.1)).collect()
    }

    fn excerpt_budget_of(&self, max_bytes: usize, max_lines: usize) -> Budget {
        let cost = match self.format {
            ResultFormat::Text => str::len,
            ResultFormat::Structured | ResultFormat::Both => escaped_len,
        };
        // Zero would mean any number of lines.
        Budget { max_bytes, cost, max_lines: max_lines.max(1) }
    }

    /// Masks a reply and sets its budget, whether it fits or not.
    pub(crate) fn prepare(&self, reply: ToolReply) -> ToolReply {
        reply.masked(&self.redactor).with_budget(self.budget)
    }

    /// `true` if a reply fits.
    pub(crate) fn fits(&self, reply: &ToolReply) -> bool {
        reply.fits(self.budget.bytes(), self.format)
    }

    /// Returns the masked reply if it fits, or if it already shows no output; else shrinks the size
    /// for the next attempt.
    pub(crate) fn accept(&mut self, reply: ToolReply) -> Option<ToolReply> {
        let reply = reply.masked(&self.redactor);
        if self.size == 0 || self.fits(&reply) {
            return Some(reply.with_budget(self.budget));
        }
        self.tries += 1;
        self.size = if self.tries < TRIES { self.next_size(&reply) } else { 0 };
        self.had_excess_lines |= reply.text_lines(self.format) > MAX_LINES;
        None
    }

    /// Returns how much output to try next, after a reply with too many bytes or lines. Fewer bytes
    /// are tried for fewer lines only if a limit on the lines of the page did not help.
    fn next_size(&self, reply: &ToolReply) -> usize {
        let bytes = (reply.size(self.format), self.budget.bytes(), self.bare);
        let lines = (reply.text_lines(self.format), MAX_LINES, self.bare_lines);
        let next = |(takes, limit, bare)| match takes > limit {
            true => next_size(self.size, limit, takes, bare),
            false => self.size,
        };
        let by_lines = if self.had_excess_lines { next(lines) } else { self.size };
        next(bytes).min(by_lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitter(format: ResultFormat) -> ReplyFitter {
        let redactor = Arc::new(Redactor::with_known_secrets(&[]).unwrap());
        let bare = ToolReply::for_jobs(Some("verdict".to_owned()), Vec::new());
        ReplyFitter::new(TokenBudget::from_tokens(400_000), format, redactor, &bare)
    }

    fn reply_of(lines: usize) -> ToolReply {
        ToolReply::for_jobs(Some("verdict".to_owned()), Vec::new()).with_body("x\n".repeat(lines))
    }

    #[test]
    fn a_reply_with_too_many_lines_is_tried_with_fewer_lines_and_then_with_fewer_bytes() {
        for format in [ResultFormat::Text, ResultFormat::Both] {
            let mut fitter = fitter(format);
            let size = fitter.size();
            assert_eq!((fitter.page_lines(0), fitter.page_lines(7)), (0, 7));
            assert!(fitter.accept(reply_of(MAX_LINES)).is_none());
            assert_eq!((fitter.page_lines(0), fitter.page_lines(7)), (fitter.max_lines(), 7));
            assert_eq!(fitter.page_lines(MAX_LINES), fitter.max_lines());
            assert_eq!(fitter.size(), size);
            assert!(fitter.accept(reply_of(MAX_LINES)).is_none());
            assert!(fitter.size() < size);
            assert!(fitter.accept(reply_of(fitter.max_lines())).is_some());
        }
    }

    #[test]
    fn a_structured_reply_may_have_any_number_of_lines() {
        let mut fitter = fitter(ResultFormat::Structured);
        assert_eq!(fitter.max_lines(), usize::MAX);
        assert!(fitter.accept(reply_of(10 * MAX_LINES)).is_some());
    }

    #[test]
    fn several_outputs_share_the_lines() {
        let fitter = fitter(ResultFormat::Text);
        let budgets = fitter.excerpt_budgets(&[10, 500_000, 500_000], &[3, 5000, 0]);
        let lines: Vec<usize> = budgets.iter().map(|budget| budget.max_lines).collect();
        assert_eq!(lines[0], 3);
        assert!(lines[1] > MAX_LINES - 100 && lines[1] < MAX_LINES, "{lines:?}");
    }
}
