//! What a query has gathered from JSON lines so far, within bounds.

use std::collections::VecDeque;
use std::io::{self, Write};

use jmespath::{Rcvar, Variable};
use memchr::memchr3_iter;

use super::query::{MAX_BYTES, MAX_VALUES, QueryError};
use super::query_plan::{Keep, Plan};

/// What a query has gathered.
#[derive(Debug)]
pub(super) enum Gathered {
    /// The result so far, as text: an array that is still open.
    Text(Bounded),
    /// What the rest of the query needs.
    Values(Values),
    /// How many values there were.
    Length(u64),
}

/// All that was gathered.
#[derive(Debug)]
pub(super) enum Whole {
    /// The result.
    Text(String),
    /// What the rest of the query is applied to, and about how large it is as text.
    Value { value: Rcvar, bytes: usize },
}

impl Gathered {
    /// Nothing yet.
    pub(super) fn new(plan: &Plan) -> Self {
        match plan.keep {
            Keep::Length => Self::Length(0),
            Keep::All if plan.is_all_local() => Self::Text(Bounded::default()),
            Keep::All => Self::Values(Values::new(Side::First, usize::MAX)),
            Keep::First(most) => Self::Values(Values::new(Side::First, most)),
            Keep::Last(most) => Self::Values(Values::new(Side::Last, most)),
        }
    }

    /// Adds what a line gave, which is an array.
    pub(super) fn add(&mut self, found: &Variable) -> Result<(), QueryError> {
        for value in found.as_array().into_iter().flatten() {
            match self {
                Self::Text(text) => text.add_element(value)?,
                Self::Values(values) => values.add(value)?,
                Self::Length(length) => *length += 1,
            }
        }
        Ok(())
    }

    /// Whether more would change nothing.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::Values(values) => values.is_full(),
            Self::Text(_) | Self::Length(_) => false,
        }
    }

    /// All of it.
    pub(super) fn finish(self) -> Result<Whole, QueryError> {
        let (value, bytes) = match self {
            Self::Text(text) => return Ok(Whole::Text(text.close_array())),
            Self::Values(values) => {
                let bytes = values.size.bytes;
                (values.into_array(), bytes)
            }
            Self::Length(length) => (Variable::Number(length.into()), size_of::<u64>()),
        };
        Ok(Whole::Value { value: Rcvar::new(value), bytes })
    }
}

/// Which end of an array is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    First,
    Last,
}

/// Values that are held in memory.
#[derive(Debug)]
pub(super) struct Values {
    side: Side,
    most: usize,
    values: VecDeque<(Rcvar, Size)>,
    /// Of all of them.
    size: Size,
}

impl Values {
    const fn new(side: Side, most: usize) -> Self {
        Self { side, most, values: VecDeque::new(), size: Size { bytes: 0, values: 0 } }
    }

    fn is_full(&self) -> bool {
        self.side == Side::First && self.values.len() >= self.most
    }

    fn add(&mut self, value: &Rcvar) -> Result<(), QueryError> {
        if self.is_full() {
            return Ok(());
        }
        let size = Size::of(value)?;
        self.values.push_back((Rcvar::clone(value), size));
        self.size.bytes += size.bytes;
        self.size.values += size.values;
        if self.values.len() > self.most
            && let Some((_, gone)) = self.values.pop_front()
        {
            self.size.bytes -= gone.bytes;
            self.size.values -= gone.values;
        }
        self.size.check()
    }

    fn into_array(self) -> Variable {
        Variable::Array(self.values.into_iter().map(|(value, _)| value).collect())
    }
}

/// How large a value is: its text, and the values in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    bytes: usize,
    values: usize,
}

impl Size {
    fn of(value: &Variable) -> Result<Self, QueryError> {
        let mut size = Self { bytes: 0, values: 1 };
        serde_json::to_writer(&mut size, value).map_err(|_| TOO_MUCH)?;
        Ok(size)
    }

    const fn check(self) -> Result<(), QueryError> {
        if self.bytes > MAX_BYTES || self.values > MAX_VALUES { Err(TOO_MUCH) } else { Ok(()) }
    }
}

const TOO_MUCH: QueryError = QueryError::TooLarge {
    what: "an array of over 16 MiB or 2,000,000 values",
    instead: "begin with a projection such as `[?level=='error'].msg`, which is applied line by line",
};

/// Measures what is written to it.
impl Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        self.values += memchr3_iter(b',', b'[', b'{', bytes).count();
        match self.check() {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON text of at most 16 MiB. A result may name a large value many times: its text is bounded
/// while it is written.
#[derive(Debug, Default)]
pub(super) struct Bounded(Vec<u8>);

impl Bounded {
    /// A value as text.
    pub(super) fn write(value: &Variable) -> Result<String, QueryError> {
        let mut text = Self::default();
        text.add(value)?;
        Ok(text.into_string())
    }

    fn add(&mut self, value: &Variable) -> Result<(), QueryError> {
        let too_large = |_| QueryError::too_large("a result of over 16 MiB");
        serde_json::to_writer(self, value).map_err(too_large)
    }

    /// Adds to an array that is still open.
    fn add_element(&mut self, value: &Variable) -> Result<(), QueryError> {
        self.0.push(if self.0.is_empty() { b'[' } else { b',' });
        self.add(value)
    }

    fn close_array(mut self) -> String {
        if self.0.is_empty() {
            self.0.push(b'[');
        }
        self.0.push(b']');
        self.into_string()
    }

    fn into_string(self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
