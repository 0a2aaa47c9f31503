//! The lines that may matter: one pattern for all words of trouble and all signs of tools.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::{memchr, memchr2, memrchr};
use regex::bytes::Regex;

use super::endings::SIGNS;
use super::rows::Moves;
use super::trouble::{FLAGS, TROUBLE, WARNING, ever_shows};

static CANDIDATES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let signs = SIGNS.concat();
    Regex::new(&format!("{FLAGS}{TROUBLE}|{WARNING}{signs}")).ok()
});

/// How the candidates of a block are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// By one search over all of it.
    Block,
    /// Line by line: escape codes touch the words that they colour, and a line starts anew
    /// after each `\r`.
    Lines,
}

impl Search {
    pub(super) fn of(block: &[u8]) -> Self {
        if memchr2(0x1b, b'\r', block).is_some() { Self::Lines } else { Self::Block }
    }

    /// Whether the block may move the cursor.
    pub(super) const fn moves(self) -> Moves {
        match self {
            Self::Block => Moves::None,
            Self::Lines => Moves::Some,
        }
    }

    /// The next line that may matter, from `at` on, which is the start of a line.
    pub(super) fn next(self, block: &[u8], at: usize) -> Option<Range<usize>> {
        let pattern = CANDIDATES.as_ref()?;
        match self {
            Self::Block => {
                let end = pattern.shortest_match_at(block, at)?;
                let start = memrchr(b'\n', &block[at..end - 1]).map_or(at, |found| at + found + 1);
                line_at(block, start)
            }
            Self::Lines => {
                lines_from(block, at).find(|line| ever_shows(&block[line.clone()], pattern))
            }
        }
    }
}

/// The lines from `at` on, without their newlines.
pub(super) fn lines_from(block: &[u8], at: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = at;
    std::iter::from_fn(move || {
        let line = line_at(block, at)?;
        at = line.end + 1;
        Some(line)
    })
}

/// The line that starts at `start`, without its newline; `None` at the end.
pub(super) fn line_at(block: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = block.get(start..).filter(|rest| !rest.is_empty())?;
    Some(start..start + memchr(b'\n', rest).unwrap_or(rest.len()))
}
