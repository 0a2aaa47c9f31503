//! A Python traceback, which is one error however many of its lines look like one.

use super::endings::Wants;

/// The traceback that is being walked over, where one is.
#[derive(Debug, Default)]
pub(super) struct Traceback {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    indent: usize,
    row: i64,
}

/// What a line is to a traceback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Its first line, or none of its lines.
    Outside,
    /// A frame, or the source of one.
    Frame,
    /// The exception that ends it.
    Exception {
        /// The row of its first line, in whose place it stands.
        row: i64,
    },
}

impl Traceback {
    /// What the next line is. Every line of a traceback is looked at: a line that was not asked
    /// for follows on none.
    pub(super) fn follow(&mut self, text: &str, row: i64, asked: Wants) -> Place {
        let open = self.open.take().filter(|_| asked == Wants::NextLine);
        if let Some(open) = open {
            let inner = text.get(open.indent..).unwrap_or_default();
            if inner.starts_with(' ') {
                self.open = Some(open);
                return Place::Frame;
            }
            if !inner.is_empty() {
                return Place::Exception { row: open.row };
            }
        }
        let start = text.trim_start();
        if start == "Traceback (most recent call last):" {
            self.open = Some(Open { indent: text.len() - start.len(), row });
        }
        Place::Outside
    }
}
