//! How answers are written: the only place that makes text for the wire.
//!
//! Verdict first, then the body, then at most one `→` line; the structured form says the
//! same in flat fields. All of it is pure: a [`Snapshot`](super::snapshot::Snapshot) and a
//! [`Shown`] in, text and fields out.

mod answer;
mod body;
mod budget;
mod confined;
mod detail;
mod digest;
mod digest_fields;
mod error;
mod foreign;
mod found;
mod found_jobs;
mod hidden;
mod hint;
mod listing;
mod output;
mod part;
mod progress;
mod question;
mod reading;
mod resource;
mod search_call;
mod shown;
mod structured;
mod trim;
mod verdict;
mod waited;
mod words;

pub(super) use answer::Answer;
pub(super) use body::{Place, beyond_end, show, show_dump, show_from, show_page, show_raw};
pub(super) use budget::{Fit, TokenBudget, shares};
pub(super) use digest::{glance, show_digest, with_glance};
pub(super) use error::ToolError;
pub(super) use foreign::{Foreign, Words};
pub(super) use found::{matches_answer, query_answer};
pub(super) use found_jobs::{Across, FoundIn, jobs_answer, share};
pub(super) use hint::{after_job, after_page, no_room, reused_key, wait_for_jobs};
pub(super) use listing::{Counts, clipped, list_headline, list_line};
pub(super) use part::Part;
pub(super) use progress::{progress_line, status_line};
pub(super) use question::{
    asking_line, client_words, consent_among, consent_in, is_answered, parked_line, question_form,
    question_requests, question_result,
};
pub(super) use resource::{ContentsError, listed_resources, resource_contents};
pub(super) use search_call::SearchCall;
pub(super) use shown::Shown;
pub(super) use waited::{Listening, VainWait};

#[cfg(test)]
mod allocation_tests;
#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod digest_tests;
#[cfg(test)]
mod tests;
