//! How much an answer may take of its reader's context, and how answers are made to fit.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::Value;

use super::answer::Answer;
use crate::mcp::settings::ResultFormat;
use crate::output::excerpt::Budget;
use crate::output::redact::Redactor;

/// A token stands for two and a half bytes.
const BYTES_OF_TWO_TOKENS: u64 = 5;
/// What an answer says about output that it shows, beside the output: where it lies, how to go on.
const ABOUT_OUTPUT: usize = 400;
/// So often an answer is made again with less output before it gets none.
const TRIES: usize = 8;
/// The most that JSON makes of one byte: `\u0000`.
const WORST_ESCAPE: u64 = 6;

/// How much an answer may take of its reader's context, estimated in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenBudget {
    tokens: u64,
    origin: Origin,
}

/// Who set a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Call,
    Settings,
}

impl TokenBudget {
    /// The argument by which a call asks for another budget than the configured one.
    pub(crate) const ARGUMENT: &'static str = "max_tokens";

    /// What it may ask for: a verdict and a hint always fit.
    pub(crate) const BOUNDS: RangeInclusive<u64> = 500..=400_000;

    /// What a call asks for, if that can be had, else what is configured.
    pub(crate) fn asked(arguments: Option<&JsonObject>, configured: u64) -> Self {
        let number = |value: &Value| match value {
            Value::String(digits) => digits.trim().parse().ok(),
            Value::Number(number) => number.as_u64(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let asked = arguments.and_then(|arguments| number(arguments.get(Self::ARGUMENT)?));
        match asked.filter(|tokens| Self::BOUNDS.contains(tokens)) {
            Some(tokens) => Self { tokens, origin: Origin::Call },
            None => Self { tokens: configured, origin: Origin::Settings },
        }
    }

    /// One that also holds a page of so many bytes in any form, unless the call set its own.
    pub(crate) fn holding(self, page_bytes: usize) -> Self {
        match self.origin {
            Origin::Call => self,
            Origin::Settings => {
                let bytes = (page_bytes as u64).saturating_mul(WORST_ESCAPE);
                let tokens = bytes.saturating_mul(2).div_ceil(BYTES_OF_TWO_TOKENS);
                Self { tokens: self.tokens.saturating_add(tokens), ..self }
            }
        }
    }

    /// One that a call was given earlier.
    pub(crate) const fn given(tokens: u64) -> Self {
        Self { tokens, origin: Origin::Call }
    }

    /// Its size in tokens.
    pub(crate) const fn tokens(self) -> u64 {
        self.tokens
    }

    /// The bytes that it stands for.
    pub(crate) fn bytes(self) -> usize {
        usize::try_from(self.tokens.saturating_mul(BYTES_OF_TWO_TOKENS) / 2).unwrap_or(usize::MAX)
    }
}

/// Makes an answer fit its budget: it is made with less and less output until it does.
#[derive(Debug)]
pub(crate) struct Fit {
    budget: TokenBudget,
    format: ResultFormat,
    redactor: Arc<Redactor>,
    /// What the answer takes without output.
    bare: usize,
    /// How much output the next try may show.
    size: usize,
    tries: usize,
}

impl Fit {
    /// For answers that have, beside output, what `bare` has.
    pub(crate) fn new(
        budget: TokenBudget,
        format: ResultFormat,
        redactor: Arc<Redactor>,
        bare: &Answer,
    ) -> Self {
        let bare = bare.size(format) + ABOUT_OUTPUT;
        Self { budget, format, redactor, bare, size: budget.bytes().saturating_sub(bare), tries: 0 }
    }

    /// The same, for a page of so many bytes as they are in the log. A program that reads
    /// structured answers gets the page that it asks for.
    pub(crate) fn for_page(mut self, asked: Option<usize>, default: usize) -> Self {
        if let (Some(asked), ResultFormat::Structured) = (asked, self.format) {
            self.budget = self.budget.holding(asked);
        }
        self.size = asked.unwrap_or(default);
        self
    }

    /// How much output the next try may show.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// All of it, for one excerpt.
    pub(crate) fn excerpt(&self) -> Budget {
        self.excerpt_of(self.size)
    }

    /// A share of it, for one of several excerpts.
    pub(crate) fn excerpt_of(&self, share: usize) -> Budget {
        let cost = match self.format {
            ResultFormat::Text => str::len,
            ResultFormat::Structured | ResultFormat::Both => escaped_len,
        };
        Budget { cost, ..Budget::of_bytes(share) }
    }

    /// The answer, masked, whether it fits or not.
    pub(crate) fn try_on(&self, answer: Answer) -> Answer {
        answer.masked(&self.redactor).with_budget(self.budget)
    }

    /// Whether an answer fits.
    pub(crate) fn holds(&self, answer: &Answer) -> bool {
        answer.size(self.format) <= self.budget.bytes()
    }

    /// The answer, masked, if it fits or shows no output any more; else the next one has to be made with
    /// less.
    pub(crate) fn settle(&mut self, answer: Answer) -> Option<Answer> {
        let answer = answer.masked(&self.redactor);
        let (limit, takes) = (self.budget.bytes(), answer.size(self.format));
        if takes <= limit || self.size == 0 {
            return Some(answer.with_budget(self.budget));
        }
        self.tries += 1;
        self.size = if self.tries < TRIES { less(self.size, (limit, takes), self.bare) } else { 0 };
        None
    }
}

/// How much output to try next: a little less than in proportion, so that it soon fits.
fn less(size: usize, (limit, takes): (usize, usize), bare: usize) -> usize {
    let room = limit.saturating_sub(bare) as u64;
    let taken = takes.saturating_sub(bare).max(1) as u64;
    let scaled = (size as u64).saturating_mul(room) / taken;
    usize::try_from(scaled / 16 * 15).unwrap_or(usize::MAX).min(size - size.div_ceil(16))
}

/// How to share room between outputs that want so much: small ones get all, the rest equal parts.
pub(crate) fn shares(wants: &[usize], room: usize) -> Vec<usize> {
    let mut by_size: Vec<usize> = (0..wants.len()).collect();
    by_size.sort_unstable_by_key(|index| wants[*index]);
    let mut shares = vec![0; wants.len()];
    let mut left = room;
    for (done, index) in by_size.into_iter().enumerate() {
        shares[index] = wants[index].min(left / (wants.len() - done));
        left -= shares[index];
    }
    shares
}

/// The bytes of a text inside a JSON string.
pub(super) fn escaped_len(text: &str) -> usize {
    text.bytes().map(|byte| usize::from(ESCAPED[usize::from(byte)])).sum()
}

/// What each byte takes there. Looked up: a page has a million of them.
static ESCAPED: [u8; 256] = {
    let mut escaped = [1; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escaped[byte] = match byte as u8 {
            b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
            _ => 6,
        };
        byte += 1;
    }
    escaped[b'"' as usize] = 2;
    escaped[b'\\' as usize] = 2;
    escaped
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn asked(arguments: Value) -> TokenBudget {
        TokenBudget::asked(arguments.as_object(), 8000)
    }

    #[test]
    fn a_token_stands_for_two_and_a_half_bytes() {
        assert_eq!(asked(json!({})).bytes(), 20_000);
        assert_eq!(asked(json!({"max_tokens": 501})).bytes(), 1252);
        assert_eq!(asked(json!({"max_tokens": "1000"})).bytes(), 2500);
        assert_eq!(asked(json!({"max_tokens": 1})).bytes(), 20_000, "refused later");
    }

    #[test]
    fn only_a_call_that_sets_no_budget_may_take_more_for_its_page() {
        assert!(asked(json!({})).holding(1 << 20).bytes() >= 6 << 20);
        assert_eq!(asked(json!({"max_tokens": 1000})).holding(1 << 20).bytes(), 2500);
    }

    #[test]
    fn small_outputs_are_shown_whole_and_the_rest_share_evenly() {
        assert_eq!(shares(&[10, 5000, 20, 9000], 2030), [10, 1000, 20, 1000]);
        assert_eq!(shares(&[10, 20], 1000), [10, 20]);
        assert_eq!(shares(&[], 1000), Vec::<usize>::new());
        assert_eq!(shares(&[7, 7], 0), [0, 0]);
    }

    proptest! {
        #[test]
        fn shares_are_within_the_room_and_within_what_is_wanted(
            wants in proptest::collection::vec(0..5000_usize, 0..20),
            room in 0..20_000_usize,
        ) {
            let shares = shares(&wants, room);
            prop_assert!(shares.iter().sum::<usize>() <= room);
            prop_assert!(shares.iter().zip(&wants).all(|(share, want)| share <= want));
        }

        #[test]
        fn the_escaped_length_is_that_of_json(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(escaped_len(&text) + 2, json.len());
        }

        #[test]
        fn the_next_try_is_always_smaller(
            size in 1..1_000_000_usize,
            limit in 1..100_000_usize,
            over in 1..1_000_000_usize,
            bare in 0..50_000_usize,
        ) {
            prop_assert!(less(size, (limit, limit + over), bare) < size);
        }
    }
}
