//! Turns bytes into text for a reader. Pure: a view changes a reply, never the store.
//!
//! The steps, in order: decode the log's character set, lossily and with visible NULs (both are
//! counted); apply terminal codes as a screen does (escape codes are removed, `\r` and cursor-up
//! progress is collapsed, CRLF becomes LF); fold repeated lines; cut overlong lines. Each rendered
//! line knows how many source lines it stands for, so that line numbers stay those of the log.

mod charset;
mod screen;
mod text;

pub use charset::{Charset, hexdump, hexdump_extents, is_binary, is_binary_in, mime};
pub use text::{Ansi, Fold, LongLines, TextView, ViewOptions, render_text, render_text_in};

pub(crate) use charset::{DecodedPart, LineDecoder, SAMPLE_BYTES};
pub(crate) use screen::on_screen;
pub(crate) use text::{LINE_CHARS, RenderedLine, render_lines};

#[cfg(test)]
pub(crate) use charset::Wide;
