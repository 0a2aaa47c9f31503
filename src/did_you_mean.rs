//! "Did you mean …?": the known word that is most like one that is not known.

/// The known word with the highest likeness, if that is at least `least`: below it a suggestion
/// would be a guess.
pub(crate) fn most_alike<'a>(
    known: impl IntoIterator<Item = &'a str>,
    likeness: impl Fn(&str) -> f64,
    least: f64,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (likeness(word), word))
        .filter(|(likeness, _)| *likeness >= least)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| word)
}

/// The known word that `given` is a misspelling of: the one with the fewest slips for its length.
pub(crate) fn closest<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
    least: f64,
) -> Option<&'a str> {
    most_alike(known, |word| strsim::normalized_damerau_levenshtein(given, word), least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_finds_none() {
        let known = ["error", "warn", "info", "debug"];
        assert_eq!(closest("eror", known, 0.5), Some("error"));
        assert_eq!(closest("wran", known, 0.5), Some("warn"));
        assert_eq!(closest("xyzzy", known, 0.5), None);
        assert_eq!(most_alike(known, |word| word.len() as f64, 5.0), Some("debug"), "the last");
    }
}
