//! Bytes → text for a reader. Pure: a view changes a reply, never the store.
//!
//! Per line, in this order: lossy UTF-8 with visible NULs (both are counted), then what a screen would show
//! (escape codes gone, `\r` progress collapsed, CRLF as LF), then repeats folded, then overlong
//! lines cut. Each shown line knows which source lines it stands for, so that line numbers stay
//! those of the log.

mod kind;
mod screen;
mod shown;

pub use kind::{hexdump, is_binary, mime};
pub use shown::{Ansi, Fold, LINE_CHARS, Long, Text, ViewOptions, text};

pub(super) use screen::on_screen;
pub(super) use shown::{Shown, cut_chars, decode, shown};
