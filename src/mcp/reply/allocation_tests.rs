//! What it costs in memory to answer with a page.

use rmcp::model::CallToolResult;

use super::answer::Answer;
use super::body::{shown_page, shown_raw};
use super::budget::{Fit, TokenBudget};
use super::budget_tests::{job_of, log_of, redactor};
use super::shown::Shown;
use crate::allocation_tests::{Allocated, allocated};
use crate::mcp::settings::ResultFormat;
use crate::output::{BlockingReader, PageRequest};

const PAGE: usize = 1 << 20;
/// Verdict, fields, the looks at the index for the numbers of lines, and what patterns work with: they
/// are shared with other tests, which may have it just then. Less than a page in any case.
const BESIDE: usize = 512 * 1024;

type Show = fn(&BlockingReader, &PageRequest) -> std::io::Result<Shown>;

/// What a page takes from the log to the result, which is built the second time it is asked for:
/// the first time compiles patterns.
fn cost(line: &str, show: Show, format: ResultFormat) -> Allocated {
    let log = log_of(line.repeat(2 * PAGE / line.len()).as_bytes());
    let job = job_of(&log);
    let log = log.blocking_for_test();
    let request = PageRequest { from: 0, stream: None, max_bytes: PAGE, max_lines: 0 };
    let answer = || -> CallToolResult {
        let bare = Answer::about(&job, None, ResultFormat::Both);
        let fit = Fit::new(TokenBudget::given(4 * PAGE as u64), format, redactor(), &bare);
        let shown = show(&log, &request).unwrap();
        let answer = fit.for_page(Some(PAGE), PAGE).settle(Answer::about(
            &job,
            Some(shown),
            ResultFormat::Both,
        ));
        answer.unwrap().masked(&redactor()).into_result(format)
    };
    answer();
    allocated(answer).0
}

#[track_caller]
fn check(line: &str, show: Show, format: ResultFormat, pages: f64) {
    let seen = cost(line, show, format);
    let most = (pages * PAGE as f64) as usize + BESIDE;
    assert!(seen.bytes <= most, "{format:?}: {seen:?}, more than {most}");
    assert!(seen.times < 2000, "{format:?}: {seen:?} although there are many more lines");
}

#[test]
fn a_page_of_text_is_there_once() {
    check("one line and\nanother\n", shown_page, ResultFormat::Structured, 1.0);
    // Below the verdict, in one text.
    check("one line and\nanother\n", shown_page, ResultFormat::Text, 2.0);
}

#[test]
fn a_page_of_bytes_is_there_once_and_once_as_base64() {
    check("any line\n", shown_raw, ResultFormat::Structured, 1.0 + 4.0 / 3.0);
}

#[test]
fn a_page_of_equal_lines_costs_no_more_than_its_bytes() {
    check("y\n", shown_page, ResultFormat::Structured, 1.0);
}
