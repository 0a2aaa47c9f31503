//! Suggestions for misspelled words ("did you mean …?").

/// Returns the known word with the highest similarity (0 to 1), if that is at least `least`: below it
/// a suggestion would be a guess.
pub(crate) fn find_most_alike<'a>(
    known: impl IntoIterator<Item = &'a str>,
    similarity: impl Fn(&str) -> f64,
    least: f64,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (similarity(word), word))
        .filter(|(similarity, _)| *similarity >= least)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| word)
}

/// Returns the known word that `given` most likely misspells, by edit distance relative to length.
pub(crate) fn find_closest<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
    least: f64,
) -> Option<&'a str> {
    find_most_alike(known, |word| strsim::normalized_damerau_levenshtein(given, word), least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_an_unrelated_word_finds_none() {
        let known = ["error", "warn", "info", "debug"];
        assert_eq!(find_closest("eror", known, 0.5), Some("error"));
        assert_eq!(find_closest("wran", known, 0.5), Some("warn"));
        assert_eq!(find_closest("xyzzy", known, 0.5), None);
        assert_eq!(
            find_most_alike(known, |word| word.len() as f64, 5.0),
            Some("debug"),
            "the last of equals wins"
        );
    }
}
