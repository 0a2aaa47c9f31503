//! Replies of the native tools: the only place that writes their text.
//!
//! Verdict first, then the body, then at most one `→` line; the structured form says the
//! same in flat fields. All of it is pure: a [`Snapshot`](super::snapshot::Snapshot) and a
//! [`Shown`] in, text and fields out.

mod body;
mod budget;
mod digest;
mod error;
mod excerpt;
mod format;
mod hint;
mod job_list;
mod search;
mod structured;
mod tool_reply;
mod verdict;

pub(super) use body::Shown;
pub(super) use budget::{TokenBudget, shares};
pub(super) use error::ToolError;
pub(super) use excerpt::{
    Place, beyond_end, glance, show, show_digest, show_dump, show_from, show_page, show_raw,
    with_glance,
};
pub(super) use format::thousands;
pub(super) use hint::{VainWait, after_job, after_page, no_room, reused_key, wait_for_jobs};
pub(super) use job_list::{Counts, Part, clipped, list_headline, list_line};
pub(super) use search::{
    Across, FoundIn, SearchCall, jobs_answer, matches_answer, query_answer, share,
};
pub(super) use tool_reply::{Answer, Fit, Listening, mask, mask_value};
pub(super) use verdict::{progress_line, status_line};

#[cfg(test)]
mod tests;
