//! Detects binary content and media types, and formats hexdumps.

use std::fmt::Write as _;

use infer::MatcherType;
use serde::de::IgnoredAny;

use super::charset::Charset;
use super::text::decode;

/// The bytes of the content that are examined.
const SAMPLE: usize = 8 * 1024;
/// The least content that is judged by the share of its invalid bytes.
const JUDGED_FROM: usize = 64;
/// The largest JSON that is recognised, because all of it has to be parsed.
const MAX_JSON: usize = 1024 * 1024;

/// `true` if the content is no text: more than three tenths of it are invalid UTF-8, NUL bytes or
/// other control characters that do not occur in text; or it has a known signature and some of it
/// is no text. The first 8 KiB decide. Fewer than 64 bytes without a signature are always text: a
/// name in Latin-1 is more useful with a replacement character than as a hexdump.
#[must_use]
pub fn is_binary(content: &[u8]) -> bool {
    let sample = &content[..content.len().min(SAMPLE)];
    let (_, bad_bytes) = decode(sample);
    // A character that the end of the sample splits is not invalid.
    let bad_bytes =
        if sample.len() < content.len() { bad_bytes.saturating_sub(3) } else { bad_bytes };
    let no_text = bad_bytes + sample.iter().filter(|byte| is_odd_control(**byte)).count();
    (sample.len() >= JUDGED_FROM && no_text * 10 > sample.len() * 3)
        || (bad_bytes > 0 && infer::get(sample).is_some_and(|kind| !is_text(kind.matcher_type())))
}

/// Does the same for a log in this character set: if it is not UTF-8, the content is binary if more
/// than three tenths of it are not valid in the character set.
#[must_use]
pub fn is_binary_in(content: &[u8], charset: Charset) -> bool {
    match charset {
        Charset::Utf8 => is_binary(content),
        Charset::Legacy(_) | Charset::Wide(_) => charset.decode(content).1 * 10 > content.len() * 3,
    }
}

/// `true` for a control character that neither lays out text nor colours it. NUL is counted
/// elsewhere.
const fn is_odd_control(byte: u8) -> bool {
    matches!(byte, 1..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}

/// The media type of the content: a known binary format, `application/json`, `application/x-ndjson`
/// for JSON lines, a known text format, `text/plain`, or `application/octet-stream`.
#[must_use]
pub fn mime(content: &[u8]) -> &'static str {
    let kind = infer::get(content);
    if is_binary(content) {
        return kind.map_or("application/octet-stream", |kind| kind.mime_type());
    }
    if let Some(json) = json_mime(content) {
        return json;
    }
    // Text that merely begins like a binary format ("BM…") is still text.
    kind.filter(|kind| is_text(kind.matcher_type())).map_or("text/plain", |kind| kind.mime_type())
}

fn is_text(kind: MatcherType) -> bool {
    kind == MatcherType::Text
}

/// The media type of JSON that is an object, an array, or lines with one of them each.
fn json_mime(content: &[u8]) -> Option<&'static str> {
    let content = content.trim_ascii();
    if content.len() > MAX_JSON || !is_json_container(content.first().copied()) {
        return None;
    }
    if is_json_value(content) {
        return Some("application/json");
    }
    let mut lines =
        content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|it| !it.is_empty());
    let has_value = |line: &[u8]| is_json_container(line.first().copied()) && is_json_value(line);
    lines.all(has_value).then_some("application/x-ndjson")
}

const fn is_json_container(first: Option<u8>) -> bool {
    matches!(first, Some(b'{' | b'['))
}

fn is_json_value(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Bytes in one row of a hexdump.
const ROW: usize = 16;

/// Formats bytes like `hexdump -C`, without squeezing equal rows, counted from 0.
#[must_use]
pub fn hexdump(bytes: &[u8]) -> String {
    hexdump_extents(&[(0, bytes)])
}

/// Formats contiguous ranges of a log like `hexdump -C`, each from its own offset on. The last row
/// is the offset after them. Each range starts a new row, so that every row's offset is correct.
#[must_use]
pub fn hexdump_extents(stretches: &[(u64, impl AsRef<[u8]>)]) -> String {
    let mut dump = String::new();
    let mut end = None;
    for (start, bytes) in stretches {
        let mut offset = *start;
        for row in bytes.as_ref().chunks(ROW) {
            let hex: String = (0..ROW).map(|column| hex_cell(row, column)).collect();
            let ascii: String = row.iter().map(|byte| printable(*byte)).collect();
            // Writing to a string cannot fail.
            writeln!(dump, "{offset:08x} {hex} |{ascii}|").ok();
            offset += row.len() as u64;
            end = Some(offset);
        }
    }
    if let Some(end) = end {
        writeln!(dump, "{end:08x}").ok();
    }
    dump
}

fn hex_cell(row: &[u8], column: usize) -> String {
    let gap = if column.is_multiple_of(8) { " " } else { "" };
    row.get(column).map_or_else(|| format!("{gap}   "), |byte| format!("{gap}{byte:02x} "))
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
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
        check(b"{\"a\":1}\n{\"a\":2}\n", "application/x-ndjson");
        check(b"{\"a\":1}\r\n\r\n[2]\r\n", "application/x-ndjson");
        check(b"{\n\"a\":1\n}\n{\n\"a\":2\n}\n", "text/plain");
        check(b"{\"a\":1}\nand more\n", "text/plain");
        check(b"[INFO] started [pid 1]\n", "text/plain");
        check(PNG, "image/png");
        check(b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "application/gzip");
        check(&[0; 64], "application/octet-stream");
        check(b"a\0b", "text/plain");
    }

    #[test]
    fn text_in_other_languages_is_not_binary() {
        assert!(!is_binary("grüße, 世界 😀\n".repeat(2000).as_bytes()));
        assert!(!is_binary(b"one bad byte \xff in a longer line of text\n"));
        assert!(is_binary(PNG));
        assert!(!is_binary(b""));
    }

    #[test]
    fn a_few_invalid_bytes_or_nuls_are_not_binary() {
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

#[cfg(test)]
mod hexdump_tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

    #[test]
    fn a_hexdump_has_the_classic_form() {
        let expected = "\
00000000  89 50 4e 47 0d 0a 1a 0a  00 00 00 0d 49 48 44 52  |.PNG........IHDR|
00000010  00 00 00 01 00 00 00 01  08 06 00 00 00           |.............|
0000001d
";
        assert_eq!(hexdump(PNG), expected);
        assert_eq!(hexdump(b""), "");
    }

    #[test]
    fn a_hexdump_has_the_offsets_of_the_log() {
        let dumped =
            hexdump_extents(&[(5, b"abc".as_slice()), (0x1_0000_0000, b"0123456789abcdefg")]);
        let offsets: Vec<&str> =
            dumped.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(offsets, ["00000005", "100000000", "100000010", "100000011"]);
    }
}
