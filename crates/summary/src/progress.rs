//! Recognises lines that tell how far a program has come.

use std::sync::LazyLock;

use regex::Regex;

/// Forms of progress: `[ 90/400]`, `(90/400)`, `45%`, `#9 … 12.3MB / 40MB`, `Step 3/7`.
const FORMS: &[&str] = &[
    r"^[ \t]*[\[(][ \t]*[0-9]+[ \t]*(?:/|of)[ \t]*[0-9]+[ \t]*[\])]",
    r"(?:^|[ \t|\[(])[0-9]{1,3}(?:\.[0-9]+)?[ ]?%(?:$|[ \t|\])])",
    r"(?:^|[ \t|])[0-9]+(?:\.[0-9]+)?[kKMGT]?i?B?[ ]?/[ ]?[0-9]+(?:\.[0-9]+)?[kKMGT]?i?B?[ \t]*(?:\[|\||$|[A-Za-z])",
    r"^(?i:step|stage|task|epoch|batch|layer)[ \t][0-9]+[ \t]?/[ \t]?[0-9]+",
];

static PROGRESS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&FORMS.join("|")).ok());

/// `true` if a line tells how far the program has come.
#[must_use]
pub fn is_progress_line(text: &str) -> bool {
    PROGRESS.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_recognised_by_its_form() {
        for text in [
            "[ 90/400] CXX obj/module_021/unit_090.o",
            "[ 12%] Building CXX object main.o",
            "model.safetensors:  45%|████      | 900/2000 [00:02<00:03, 412.03MB/s]",
            "   120K .......... .......... 45% 1.2M 3s",
            "Step 3/7 : RUN make",
            "Downloading 12.3MB / 40MB",
            "(3/20) Installing zlib",
            "Epoch 3/10",
        ] {
            assert!(is_progress_line(text), "{text}");
        }
        for text in [
            "listening on port 8080",
            "src/main.rs:3",
            "see https://example.org/a/1/2",
            "100% of the tests",
            "ready in 1187 ms",
        ] {
            assert_eq!(is_progress_line(text), text.starts_with("100%"), "{text}");
        }
    }
}
