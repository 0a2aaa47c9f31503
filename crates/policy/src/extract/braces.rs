//! Brace expansion: whether a word has one. What it expands to is left unknown.

/// The unquoted braces of one word.
#[derive(Debug, Default)]
pub(super) struct Braces {
    /// The length of the text before the first brace that is open.
    first: Option<usize>,
    separated: bool,
}

impl Braces {
    pub(super) fn open(&mut self, length: usize) {
        self.first.get_or_insert(length);
    }

    /// A comma or `..`: behind an open brace it can make an expansion. Bash also pairs the first
    /// brace with a later one than the nearest: `{x},y}` is `x}` and `y`.
    pub(super) const fn comma(&mut self) {
        self.separated |= self.first.is_some();
    }

    /// The length of the text before the braces, if they close an expansion.
    pub(super) const fn close(&self) -> Option<usize> {
        if self.separated { self.first } else { None }
    }
}
