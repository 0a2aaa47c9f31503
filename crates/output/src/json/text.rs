//! Text that a query writes, within bounds.

use std::io::{self, Write};

use serde::Serialize;

use super::Error;
use super::meter::{Charge, Meter, growth_of};

/// Text that grows up to a limit. A result may name a large value many times: its text is bounded
/// while it is written.
#[derive(Debug)]
pub(crate) struct JsonText<'a> {
    bytes: Vec<u8>,
    limit: usize,
    charge: Charge<'a>,
}

impl<'a> JsonText<'a> {
    pub(crate) const fn new(limit: usize, meter: &'a Meter<'a>) -> Self {
        Self { bytes: Vec::new(), limit, charge: meter.open() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds a value as JSON.
    pub(crate) fn write(&mut self, value: &impl Serialize) -> Result<(), Error> {
        // Writing fails only where there is no room.
        serde_json::to_writer(self, value).map_err(|_| Error::TooLarge)
    }

    pub(crate) fn push(&mut self, text: &str) -> Result<(), Error> {
        self.extend(text.as_bytes())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let length = self.bytes.len() + bytes.len();
        if length > self.limit {
            return Err(Error::TooLarge);
        }
        if length > self.bytes.capacity() {
            let grown = self.bytes.len() + growth_of(self.bytes.len());
            let capacity = length.max(grown).min(self.limit);
            self.charge.add(capacity - self.bytes.capacity())?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The text, and what was charged for it.
    pub(crate) fn into_parts(self) -> (String, Charge<'a>) {
        let text = String::from_utf8(self.bytes);
        // Never lossy: JSON is written as UTF-8.
        let text =
            text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        (text, self.charge)
    }
}

impl Write for JsonText<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
