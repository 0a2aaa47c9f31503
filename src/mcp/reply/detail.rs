//! How much of a digest is told, from all of it down to its counts.

/// How much of a digest is told. Whatever has less room tells no more of anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detail {
    /// Endings: the last ones.
    pub(super) endings: usize,
    /// Bytes of each.
    pub(super) ending_bytes: usize,
    /// Names of failed tests in each.
    pub(super) names: usize,
    /// The first and the last error: 2, 1 or 0 of them.
    pub(super) errors: usize,
    /// Lines before and after each.
    pub(super) around: usize,
    /// Numbers of lines of one kind, from each side.
    pub(super) numbers: usize,
    /// Lines of one kind that are listed with their texts, from each side.
    pub(super) listed: usize,
    /// Bytes of each line's text.
    pub(super) text_bytes: usize,
}

const ALL: Detail = Detail {
    endings: 12,
    ending_bytes: 820,
    names: 20,
    errors: 2,
    around: 3,
    numbers: 20,
    listed: 5,
    text_bytes: 900,
};
const SOME: Detail = Detail { numbers: 5, ending_bytes: 320, names: 10, text_bytes: 300, ..ALL };
const FEW: Detail =
    Detail { around: 0, numbers: 3, ending_bytes: 200, names: 3, text_bytes: 120, ..SOME };
const BRIEF: Detail = Detail {
    endings: 6,
    ending_bytes: 120,
    names: 2,
    numbers: 1,
    listed: 0,
    text_bytes: 80,
    ..FEW
};

/// The least that is told: how many there are.
pub(super) const COUNTS: Detail =
    Detail { endings: 0, ending_bytes: 0, names: 0, errors: 0, numbers: 0, text_bytes: 0, ..BRIEF };

/// From the most to the least: each tells of everything at least as much as the next.
pub(super) const DETAILS: [Detail; 18] = [
    ALL,
    Detail { numbers: 10, names: 10, ..ALL },
    Detail { numbers: 10, names: 10, ending_bytes: 320, ..ALL },
    Detail { numbers: 10, names: 10, ending_bytes: 320, text_bytes: 450, ..ALL },
    SOME,
    Detail { text_bytes: 200, ..SOME },
    Detail { around: 1, text_bytes: 160, ..SOME },
    Detail { around: 0, text_bytes: 160, ..SOME },
    Detail { listed: 3, ..FEW },
    Detail { listed: 1, ..FEW },
    Detail { listed: 0, ..FEW },
    Detail { endings: 12, ..BRIEF },
    BRIEF,
    Detail { errors: 1, ..BRIEF },
    Detail { errors: 0, ..BRIEF },
    Detail { errors: 0, endings: 3, ending_bytes: 80, names: 1, ..BRIEF },
    Detail { errors: 0, endings: 1, ending_bytes: 60, names: 0, ..BRIEF },
    COUNTS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_detail_tells_at_least_as_much_of_everything_as_the_next() {
        let parts = |it: Detail| {
            let ending = [it.endings, it.ending_bytes, it.names];
            (ending, [it.errors, it.around, it.numbers, it.listed, it.text_bytes])
        };
        for pair in DETAILS.windows(2) {
            let ((ending, rest), (less_ending, less_rest)) = (parts(pair[0]), parts(pair[1]));
            let more = ending.iter().chain(&rest);
            let less = less_ending.iter().chain(&less_rest);
            assert!(more.zip(less).all(|(more, less)| more >= less), "{pair:?}");
            assert_ne!(pair[0], pair[1]);
        }
    }
}
