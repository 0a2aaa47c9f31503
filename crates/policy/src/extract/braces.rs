//! Brace expansion: whether a word has one. What it expands to is left unknown.

/// The unquoted braces of one word.
#[derive(Debug, Default)]
pub(super) struct Braces {
    /// The length of the text before the first brace that is open.
    first: Option<usize>,
    open: usize,
    separated: bool,
}

impl Braces {
    pub(super) fn open(&mut self, length: usize) {
        self.first.get_or_insert(length);
        self.open += 1;
    }

    /// A comma or `..`: inside braces it makes an expansion.
    pub(super) const fn comma(&mut self) {
        self.separated |= self.open > 0;
    }

    /// The length of the text before the braces, if they close an expansion.
    pub(super) const fn close(&mut self) -> Option<usize> {
        self.open = self.open.saturating_sub(1);
        if self.separated { self.first } else { None }
    }
}
