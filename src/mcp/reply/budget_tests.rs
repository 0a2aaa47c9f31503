//! Whatever a job wrote, whichever form is asked for: the answer keeps its budget, and what it says
//! about the bytes that it shows stays true.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use super::answer::Answer;
use super::body::{from_offset, shown_dump, shown_page, shown_raw};
use super::budget::{Fit, TokenBudget};
use super::hint::after_page;
use super::part::Part;
use super::shown::Shown;
use crate::confinement::Granted;
use crate::ids::JobId;
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::{Ending, Outcome, Usage};
use crate::output::redact::Redactor;
use crate::output::{LogReader, LogSettings, PageRequest, open};
use crate::spec::Stream;
use crate::trace::TraceContext;

pub(super) fn log_of(bytes: &[u8]) -> LogReader {
    let (mut writer, reader) =
        open(&LogSettings { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() });
    writer.append(Stream::Stdout, bytes);
    writer.close();
    reader
}

pub(super) fn job_of(log: &LogReader) -> Snapshot {
    let ending = Ending {
        outcome: Outcome::Exited { code: 1 },
        at: Instant::now(),
        usage: Usage::default(),
        pipeline: vec![1, 0],
        survivors: Vec::new(),
        kill: None,
    };
    Snapshot {
        job: JobId::local(1234),
        state: State::Finished(ending),
        elapsed: Duration::from_secs(1),
        queued: Duration::ZERO,
        output: log.progress(),
        quiet_for: None,
        survivors: vec![1, 2, 3],
        confinement: Granted::NOTHING,
        doubt: None,
        writable: Vec::new(),
        trace_id: Some(TraceContext::root().trace_id),
    }
}

/// The kinds of output that are hard to keep short, many times over.
fn any_output() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        vec(any::<u8>(), 1..200),
        "[a-z ]{1,60}\n".prop_map(String::into_bytes),
        Just(b"endless".to_vec()),
        "[一-龥]{1,40}".prop_map(String::into_bytes),
        "[A-Za-z0-9+/]{76}\n".prop_map(String::into_bytes),
        Just(b"\x1b[38;5;196mred\x1b[0m\n".to_vec()),
        Just(b"\x1b[3A\x1b[2Kup\nand\ndown\n".to_vec()),
        vec(0..32_u8, 1..60),
        Just(b"\0".to_vec()),
        Just("👩‍👩‍👧‍👦".as_bytes().to_vec()),
        Just(b"\xed\xa0\x80\xed\xb0\x80".to_vec()),
        Just(b"crlf\r\n".to_vec()),
        Just(b"\t\"\\".to_vec()),
        Just(b"error: \"\\\" it broke\n".to_vec()),
        Just(b"https://u:p@h/ password=x\n".to_vec()),
    ];
    vec((kind, 1..400_usize), 1..6)
        .prop_map(|kinds| kinds.iter().flat_map(|(bytes, times)| bytes.repeat(*times)).collect())
}

fn any_format() -> impl Strategy<Value = ResultFormat> {
    prop_oneof![Just(ResultFormat::Text), Just(ResultFormat::Structured), Just(ResultFormat::Both),]
}

fn budget_of(tokens: u64) -> TokenBudget {
    TokenBudget::asked(json!({"max_tokens": tokens}).as_object(), 8000)
}

/// Which part of the log is wanted, and as what.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Excerpt,
    Page,
    Raw,
    Hexdump,
}

fn any_wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![Just(Wanted::Excerpt), Just(Wanted::Page), Just(Wanted::Raw), Just(Wanted::Hexdump),]
}

fn shown(log: &LogReader, from: u64, wanted: Wanted, fit: &Fit) -> Shown {
    let request = PageRequest { from, stream: None, max_bytes: fit.size(), max_lines: 0 };
    match wanted {
        Wanted::Excerpt => from_offset(&log.blocking_for_test(), from, fit.excerpt()).unwrap(),
        Wanted::Page => shown_page(&log.blocking_for_test(), &request).unwrap(),
        Wanted::Raw => shown_raw(&log.blocking_for_test(), &request).unwrap(),
        Wanted::Hexdump => shown_dump(&log.blocking_for_test(), &request).unwrap(),
    }
}

/// The answer as the tools make it, and what of the output is in it.
fn answer(log: &LogReader, from: u64, wanted: Wanted, mut fit: Fit) -> (Answer, Shown) {
    let job = job_of(log);
    loop {
        let shown = shown(log, from, wanted, &fit);
        let answer = Answer::about(&job, Some(shown.clone()), ResultFormat::Both)
            .with_hint(after_page(&job, &shown));
        if let Some(answer) = fit.settle(answer) {
            return (answer, shown);
        }
    }
}

pub(super) fn redactor() -> Arc<Redactor> {
    static REDACTOR: LazyLock<Arc<Redactor>> =
        LazyLock::new(|| Arc::new(Redactor::with_known_secrets(&[]).unwrap()));
    Arc::clone(&REDACTOR)
}

fn check_size(result: &CallToolResult, budget: TokenBudget) -> Result<(), TestCaseError> {
    let value = serde_json::to_value(result).unwrap();
    for block in value["content"].as_array().unwrap() {
        prop_assert!(block["text"].as_str().unwrap().len() <= budget.bytes(), "{block}");
    }
    let structured = value.get("structuredContent").map_or(0, |fields| fields.to_string().len());
    prop_assert!(structured <= budget.bytes(), "{} of {}", structured, budget.bytes());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_keeps_its_budget_and_its_places_are_true(
        output in any_output(),
        wanted in any_wanted(),
        format in any_format(),
        tokens in 500..9000_u64,
        asked in 1..200_000_usize,
    ) {
        let (log, budget) = (log_of(&output), budget_of(tokens));
        let bare = Answer::about(&job_of(&log), None, ResultFormat::Both);
        let mut fit = Fit::new(budget, format, redactor(), &bare);
        if !matches!(wanted, Wanted::Excerpt) {
            fit = fit.for_page(Some(asked), 16_384);
        }
        let (answer, shown) = answer(&log, 0, wanted, fit);
        let fits = answer.size(format) <= budget.bytes();
        let result = answer.within(budget, format).into_result(format);
        check_size(&result, budget)?;
        prop_assert!(fits, "nothing is cut off that was said to be shown");
        if let Some(fields) = &result.structured_content {
            prop_assert_eq!(&fields["bytes_start"], 0);
            prop_assert_eq!(&fields["bytes_end"], shown.end);
        }
        prop_assert!(shown.end > 0 || matches!(wanted, Wanted::Excerpt), "each page gets on");
    }

    #[test]
    fn lists_and_failures_keep_their_budget(
        text in any::<String>(),
        times in 1..300_usize,
        jobs in 0..120_usize,
        format in any_format(),
        tokens in 500..9000_u64,
    ) {
        let budget = budget_of(tokens);
        let long = text.repeat(times);
        let job = job_of(&log_of(b"x\n"));
        let names = json!({"command": long}).as_object().cloned().unwrap();
        let part = Part::listed(&job, long.clone(), names);
        for answer in [
            Answer::failure(long.clone(), "code"),
            Answer::several(None, vec![part.clone(); jobs.min(60)]).with_hint(Some(long.clone())),
            Answer::several(Some("list".to_owned()), vec![Part::job(&job, None); jobs]),
        ] {
            check_size(&answer.within(budget, format).into_result(format), budget)?;
        }
    }
}

#[test]
fn a_page_of_a_program_holds_what_it_asked_for() {
    let log = log_of(&vec![1; 1 << 20]);
    let job = job_of(&log);
    let budget = TokenBudget::asked(None, 8000);
    let fit = Fit::new(
        budget,
        ResultFormat::Structured,
        redactor(),
        &Answer::about(&job, None, ResultFormat::Both),
    );
    let (answer, shown) = answer(&log, 0, Wanted::Raw, fit.for_page(Some(1 << 20), 16_384));
    assert_eq!(shown.end, 1 << 20);
    let result = answer.within(budget, ResultFormat::Structured);
    let fields = result.into_result(ResultFormat::Structured).structured_content.unwrap();
    assert_eq!(fields["output"].as_str().map(str::len), Some((1_usize << 20).div_ceil(3) * 4));
    assert_ne!(fields["bytes_end"], Value::Null);
}
