//! Replies of the native tools: the only module that writes their text.
//!
//! The verdict comes first, then the body, then at most one `→` line. The structured form says the
//! same in flat fields. Everything here is pure: a [`JobSnapshot`](super::snapshot::JobSnapshot)
//! and a [`ShownOutput`] in, text and fields out.

mod body;
mod budget;
mod digest;
mod error;
mod excerpt;
mod format;
mod hint;
mod job_list;
mod reply_fitter;
mod search;
mod structured;
mod summary;
mod tool_reply;
mod unreported;
mod verdict;

pub(super) use body::{SeenRanges, ShownOutput};
pub(super) use budget::{MAX_LINES, TokenBudget, fair_shares, trim_lines};
pub(super) use digest::{read_summary, show_digest, status_line};
pub use error::DigestError;
pub(super) use error::ToolError;
pub(super) use excerpt::{
    NewOutput, ReadPosition, beyond_end_notice, show, show_base64, show_from, show_hexdump,
    show_page, show_screen,
};
pub(crate) use format::{count, thousands};
pub(super) use hint::{
    AnswerReason, CutWait, TimedOutWait, hint_after_job, hint_after_jobs, hint_after_page,
    hint_after_stop, hint_after_unseen, hint_missing_command, hint_no_room, hint_reused_key,
    hint_silent_input,
};
pub(super) use job_list::{
    EventSign, JobCounts, ReplyPart, client_fields, clipped, list_headline, list_line,
};
pub(super) use reply_fitter::ReplyFitter;
pub(super) use search::{
    JobMatches, SearchCall, SearchTotals, fit_listings, fit_overview, jobs_reply, matches_reply,
    query_reply,
};
pub(super) use summary::{MAX_LISTED, summary_fields};
pub(super) use tool_reply::{PortStatus, ToolReply, mask, mask_value};
pub(super) use unreported::{NextCall, format_unreported};
pub(super) use verdict::{describe_stop, progress_line};

#[cfg(test)]
mod hint_tests;
#[cfg(test)]
mod tests;
