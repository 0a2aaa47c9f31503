//! What kind of content bytes are.

use infer::MatcherType;
use serde::de::IgnoredAny;

use super::charset::Charset;
use super::shown::decode;

/// How much of the content is looked at.
const SAMPLE: usize = 8 * 1024;
/// Less content than this has too few bytes to tell by their share.
const JUDGED_FROM: usize = 64;
/// JSON is only recognised up to this size, because all of it has to be parsed.
const MAX_JSON: usize = 1024 * 1024;

/// Whether the content is no text: more than three tenths of it are no UTF-8, NUL bytes or other
/// control characters that no text has; or it has a known signature and some of it is no text.
/// The first 8 KiB decide. A few bytes (fewer than 64) without a signature are always text: a
/// name in Latin-1 is more useful with a mark in it than as a hexdump.
#[must_use]
pub fn is_binary(content: &[u8]) -> bool {
    let sample = &content[..content.len().min(SAMPLE)];
    let (_, bad_bytes) = decode(sample);
    // A character that the sample's end cuts in two is not bad.
    let bad_bytes =
        if sample.len() < content.len() { bad_bytes.saturating_sub(3) } else { bad_bytes };
    let no_text = bad_bytes + sample.iter().filter(|byte| is_odd_control(**byte)).count();
    (sample.len() >= JUDGED_FROM && no_text * 10 > sample.len() * 3)
        || (bad_bytes > 0 && infer::get(sample).is_some_and(|kind| !is_text(kind.matcher_type())))
}

/// The same for a log in this character set: where it is not UTF-8, more than three tenths of the
/// content are none of its characters.
#[must_use]
pub fn is_binary_in(content: &[u8], charset: Charset) -> bool {
    match charset {
        Charset::Utf8 => is_binary(content),
        Charset::Legacy(_) | Charset::Wide(_) => charset.decode(content).1 * 10 > content.len() * 3,
    }
}

/// A control character that neither lays out text nor colours it. NUL is counted as a bad byte.
const fn is_odd_control(byte: u8) -> bool {
    matches!(byte, 1..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}

/// The content's media type: of a known binary format, `application/json` (also for JSON
/// lines), a known text format, `text/plain`, or `application/octet-stream`.
#[must_use]
pub fn mime(content: &[u8]) -> &'static str {
    let kind = infer::get(content);
    if is_binary(content) {
        return kind.map_or("application/octet-stream", |kind| kind.mime_type());
    }
    if is_json(content) {
        return "application/json";
    }
    // Text that merely begins like a binary format ("BM…") is still text.
    kind.filter(|kind| is_text(kind.matcher_type())).map_or("text/plain", |kind| kind.mime_type())
}

fn is_text(kind: MatcherType) -> bool {
    kind == MatcherType::Text
}

fn is_json(content: &[u8]) -> bool {
    let content = content.trim_ascii();
    let closes = match content.first() {
        Some(b'{') => b'}',
        Some(b'[') => b']',
        Some(_) | None => return false,
    };
    content.len() <= MAX_JSON
        && content.last() == Some(&closes)
        && serde_json::Deserializer::from_slice(content)
            .into_iter::<IgnoredAny>()
            .all(|it| it.is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

    #[track_caller]
    fn check(content: &[u8], expected: &str) {
        assert_eq!(mime(content), expected, "{content:?}");
    }

    #[test]
    fn media_types_are_told_apart() {
        check(b"", "text/plain");
        check(b"hello\n", "text/plain");
        check(b"BM is no bitmap\n", "text/plain");
        check(b" {\"a\": [1, 2]}\n", "application/json");
        check(b"{\"a\":1}\n{\"a\":2}\n", "application/json");
        check(b"[INFO] started [pid 1]\n", "text/plain");
        check(PNG, "image/png");
        check(b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "application/gzip");
        check(&[0; 64], "application/octet-stream");
        check(b"a\0b", "text/plain");
    }

    #[test]
    fn text_in_other_tongues_is_no_binary() {
        assert!(!is_binary("grüße, 世界 😀\n".repeat(2000).as_bytes()));
        assert!(!is_binary(b"one bad byte \xff in a longer line of text\n"));
        assert!(is_binary(PNG));
        assert!(!is_binary(b""));
    }

    #[test]
    fn a_few_bad_bytes_or_nuls_make_no_binary() {
        for text in [&b"caf\xe9\n"[..], b"a\xffb", b"\xff\0abc\n", b"./src/a.rs\0./src/b.rs\0"] {
            assert!(!is_binary(text), "{text:?}");
        }
        assert!(!is_binary(&b"./src/main.rs\0".repeat(500)), "find -print0");
        assert!(!is_binary(&[&b"line\n".repeat(500)[..], b"\0"].concat()));
        assert!(!is_binary(&b"\x1b[31mred\x1b[0m\r\n".repeat(500)));
    }

    #[test]
    fn many_bytes_that_are_no_text_are_binary() {
        assert!(is_binary(&[0; 100]));
        assert!(is_binary(&b"h\0i\0".repeat(50)), "UTF-16");
        assert!(is_binary(&[0xff, 0xfe, 0xfd, b'a'].repeat(50)));
        assert!(is_binary(&[1, 2, 3, b'a'].repeat(50)));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_kind(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(mime(&bytes).contains('/'));
        }
    }
}
