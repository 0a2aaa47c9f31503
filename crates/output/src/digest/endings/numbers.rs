//! Numbers in the summaries that tools write.

/// The number before a word: 3 for `passed` in `2 failed, 3 passed`.
pub(super) fn before(text: &str, wanted: &[&str]) -> Option<u64> {
    pairs(text).find(|(_, word)| wanted.contains(word)).and_then(|(number, _)| number.parse().ok())
}

/// The number after a word: 3 for `failures` in `failures=3, errors=1`.
pub(super) fn after(text: &str, wanted: &str) -> Option<u64> {
    pairs(text).find(|(word, _)| *word == wanted).and_then(|(_, number)| number.parse().ok())
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = || text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words().zip(words().skip(1))
}

/// Adds to a count that may not have begun.
pub(super) fn add(count: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *count = Some(count.unwrap_or(0) + more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_before_or_after_their_words() {
        let text = "FAILED (failures=3, errors=1); 12 passed | 1 skipped (3)";
        assert_eq!(before(text, &["passed"]), Some(12));
        assert_eq!(before(text, &["skip", "skipped"]), Some(1));
        assert_eq!(after(text, "failures"), Some(3));
        assert_eq!(before(text, &["missing"]), None);
        assert_eq!(after(text, "FAILED"), None);
    }
}
