//! What a query has gathered from JSON lines so far, within bounds.

use std::collections::VecDeque;

use super::json::{Charge, Error, JsonText, Meter, Value};
use super::query::MAX_BYTES;
use super::query_plan::{Keep, Plan};

/// The values that lines gave so far, as JSON text: the lines themselves are gone by then.
#[derive(Debug)]
pub(super) enum Gathered<'a> {
    /// An array that is still open, of at most so many elements.
    First { text: JsonText<'a>, count: usize, most: usize },
    /// The newest elements, at most so many.
    Last { newest: VecDeque<(String, Charge<'a>)>, most: usize, meter: &'a Meter<'a> },
    /// How many elements there were.
    Length(u64),
}

impl<'a> Gathered<'a> {
    /// Nothing yet.
    pub(super) fn new(plan: &Plan, meter: &'a Meter<'a>) -> Self {
        let first = |most| Self::First { text: JsonText::new(MAX_BYTES, meter), count: 0, most };
        match plan.keep {
            Keep::Length => Self::Length(0),
            Keep::All => first(usize::MAX),
            Keep::First(most) => first(most),
            Keep::Last(most) => Self::Last { newest: VecDeque::new(), most, meter },
        }
    }

    /// Adds what a line gave, which is an array.
    pub(super) fn add(&mut self, found: &Value<'_>) -> Result<(), Error> {
        for value in found.elements().into_iter().flat_map(|(elements, _)| elements) {
            match self {
                Self::First { .. } if self.is_full() => return Ok(()),
                Self::First { text, count, .. } => {
                    text.push(if *count == 0 { "[" } else { "," })?;
                    text.write(&value)?;
                    *count += 1;
                }
                Self::Last { newest, most, meter } => {
                    let mut text = JsonText::new(MAX_BYTES, meter);
                    text.write(&value)?;
                    newest.push_back(text.into_parts());
                    if newest.len() > *most {
                        newest.pop_front();
                    }
                }
                Self::Length(length) => *length += 1,
            }
        }
        Ok(())
    }

    /// `true` if more would change nothing.
    pub(super) const fn is_full(&self) -> bool {
        match self {
            Self::First { count, most, .. } => *count >= *most,
            Self::Last { .. } | Self::Length(_) => false,
        }
    }

    /// All of it as JSON, with what is charged for it.
    pub(super) fn finish(self, meter: &'a Meter<'a>) -> Result<(String, Charge<'a>), Error> {
        let mut text = match self {
            Self::First { text, .. } => text,
            Self::Last { newest, .. } => {
                let mut text = JsonText::new(MAX_BYTES, meter);
                for (index, (value, _)) in newest.into_iter().enumerate() {
                    text.push(if index == 0 { "[" } else { "," })?;
                    text.push(&value)?;
                }
                text
            }
            Self::Length(length) => {
                let mut text = JsonText::new(MAX_BYTES, meter);
                text.write(&length)?;
                return Ok(text.into_parts());
            }
        };
        text.push(if text.is_empty() { "[]" } else { "]" })?;
        Ok(text.into_parts())
    }
}
