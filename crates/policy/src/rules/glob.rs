//! Wildcards: `*` for any text, `?` for one character.

/// Returns whether the whole text fits the pattern. Quadratic at worst, without recursion or copies.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Where to go on after the last `*` if what follows it does not fit here.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        match (pattern.next(), text.clone().next()) {
            (Some('*'), _) => retry = Some((pattern.clone(), text.clone())),
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                text.next();
            }
            (Some(_) | None, _) => {
                let Some((after_star, from)) = &mut retry else { return false };
                if from.next().is_none() {
                    return false;
                }
                (pattern, text) = (after_star.clone(), from.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, text, expected) in [
            ("rm", "rm", true),
            ("rm", "rmdir", false),
            ("rm*", "rmdir", true),
            ("rm*", "rm", true),
            ("*rm", "confirm", true),
            ("r?", "rm", true),
            ("r?", "r", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
