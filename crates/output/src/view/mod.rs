//! Bytes → text for a reader. Pure: a view changes a reply, never the store.
//!
//! In this order: text from the log's character set, lossy and with visible NULs (both are counted), then
//! what a screen would show (escape codes gone, `\r` and cursor-up progress collapsed, CRLF as LF), then
//! repeats folded, then overlong lines cut. Each shown line knows which source lines it stands
//! for, so that line numbers stay those of the log.

mod charset;
mod codes;
mod detect;
mod grid;
mod hexdump;
mod kind;
mod plain;
mod row;
mod screen;
mod shown;
mod wide;

pub use charset::Charset;
pub use hexdump::{dump, hexdump};
pub use kind::{is_binary, is_binary_in, mime};
pub use shown::{Ansi, Fold, LINE_CHARS, Long, Text, ViewOptions, text, text_in};

pub(super) use charset::SAMPLE_BYTES;
pub(super) use screen::on_screen;
pub(super) use shown::{Shown, cut_chars, decode, shown};

#[cfg(test)]
pub(super) use wide::Wide;

#[cfg(test)]
mod grid_tests;
