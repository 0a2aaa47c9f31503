//! Replies of the native tools: the only module that writes their text.
//!
//! The verdict comes first, then the body, then at most one `→` line. The structured form says the
//! same in flat fields. A reply is rendered from a [`JobSnapshot`] and a [`ShownOutput`], which are
//! plain data.

mod budget;
mod excerpt;
mod format;
mod hint;
mod job_list;
mod sandbox_remarks;
mod search;
mod shown_output;
mod snapshot;
mod tool_reply;

pub(super) use budget::{MAX_LINES, ReplyFitter, TokenBudget, fair_shares, trim_lines};
pub(super) use excerpt::{
    NewOutput, ReadPosition, beyond_end_notice, read_digest_resource, read_summary, show,
    show_base64, show_digest, show_from, show_hexdump, show_page, show_screen, status_line,
};
pub(super) use format::millis;
pub(crate) use format::{count, thousands};
pub(super) use hint::{
    AnswerReason, CutWait, TimedOutWait, hint_after_job, hint_after_jobs, hint_after_page,
    hint_after_stop, hint_after_unseen, hint_missing_command, hint_no_room, hint_reused_key,
    hint_silent_input,
};
pub(super) use job_list::{
    EventSign, JobCounts, NextCall, ReplyPart, client_fields, clipped, format_unreported,
    list_headline, list_line,
};
pub(super) use search::{
    JobMatches, SearchCall, SearchTotals, fit_listings, fit_overview, jobs_reply, matches_reply,
    query_reply,
};
pub(super) use shown_output::{MAX_LISTED, SeenRanges, ShownOutput, summary_fields};
pub(super) use snapshot::{JobSnapshot, State, describe_stop, progress_line, read_last_line};
pub use tool_reply::DigestError;
pub(super) use tool_reply::{PortStatus, ToolError, ToolReply, mask, mask_value};

#[cfg(test)]
mod tests;
