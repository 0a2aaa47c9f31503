//! Which character set some bytes are written in.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{EUC_JP, EUC_KR, Encoding, ISO_2022_JP, KOI8_R, KOI8_U, WINDOWS_1252};
use infer::MatcherType;
use memchr::{memchr, memmem};

use super::charset::{Charset, SAMPLE_BYTES};
use super::wide::Wide;

/// Fewer bytes than this that are no UTF-8 are a flaw in UTF-8, not a character set; unless they
/// stand where letters do.
const EVIDENCE: usize = 4;

/// What texts in UTF-16 and UTF-32 begin with. The longer ones first: one begins like a shorter.
const BYTE_ORDER_MARKS: [(&[u8], Wide); 4] = [
    (b"\xff\xfe\0\0", Wide::Utf32Le),
    (b"\0\0\xfe\xff", Wide::Utf32Be),
    (b"\xff\xfe", Wide::Utf16Le),
    (b"\xfe\xff", Wide::Utf16Be),
];

/// Decides by the first bytes of a log; what could be anything counts as UTF-8.
pub(super) fn detect(head: &[u8]) -> Charset {
    let head = &head[..head.len().min(SAMPLE_BYTES)];
    let Some(valid) = not_utf8(head) else {
        return unmarked_wide(head)
            .map(Charset::Wide)
            .or_else(|| escaped(head))
            .unwrap_or(Charset::Utf8);
    };
    if infer::get(head).is_some_and(|kind| kind.matcher_type() != MatcherType::Text) {
        return Charset::Utf8;
    }
    let marked = BYTE_ORDER_MARKS.iter().find(|(mark, _)| head.starts_with(mark));
    if let Some(wide) = marked.map(|(_, wide)| *wide).or_else(|| unmarked_wide(head)) {
        return if is_readable(wide, head) { Charset::Wide(wide) } else { Charset::Utf8 };
    }
    legacy(head, valid)
}

/// Bytes of valid multi-byte characters, where there are bytes that are no UTF-8 as well. A
/// character that the end cuts in two is not among these.
fn not_utf8(head: &[u8]) -> Option<usize> {
    match str::from_utf8(head) {
        Ok(_) => return None,
        Err(error) if error.error_len().is_none() => return None,
        Err(_) => {}
    }
    let valid =
        head.utf8_chunks().map(|chunk| chunk.valid().bytes().filter(|byte| !byte.is_ascii()));
    Some(valid.map(Iterator::count).sum())
}

/// UTF-16 without a mark shows by its NULs: Latin text has one in each character, always on the
/// same side.
fn unmarked_wide(head: &[u8]) -> Option<Wide> {
    let nuls = |side: usize| head.iter().skip(side).step_by(2).filter(|byte| **byte == 0).count();
    let units = head.len() / 2;
    if units < EVIDENCE {
        return None;
    }
    let wide = match (nuls(0), nuls(1)) {
        (0, low_first) if low_first * 2 > units => Wide::Utf16Le,
        (high_first, 0) if high_first * 2 > units => Wide::Utf16Be,
        (_, _) => return None,
    };
    is_readable(wide, head).then_some(wide)
}

/// Japanese in seven bits, which switches between alphabets by escape codes of its own.
fn escaped(head: &[u8]) -> Option<Charset> {
    let is_switched =
        [&b"\x1b$B"[..], b"\x1b$@"].iter().any(|code| memmem::find(head, code).is_some());
    let charset = Charset::Legacy(ISO_2022_JP);
    (is_switched && is_likely(charset, head)).then_some(charset)
}

/// Whether it decodes into text: nearly nothing bad in it, and no control characters.
fn is_readable(wide: Wide, head: &[u8]) -> bool {
    let charset = Charset::Wide(wide);
    let (text, bad_bytes) = charset.decode(&head[..charset.whole_characters(head)]);
    let odd = text.chars().filter(|character| is_odd_control(*character)).count();
    (bad_bytes + odd) * 50 <= text.chars().count()
}

/// A character set of bytes, where one explains nearly all that is no UTF-8.
fn legacy(head: &[u8], valid: usize) -> Charset {
    let bad: usize = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    if memchr(0, head).is_some() {
        return Charset::Utf8;
    }
    if bad < EVIDENCE {
        let is_latin = valid == 0 && is_latin(head);
        return if is_latin { Charset::Legacy(WINDOWS_1252) } else { Charset::Utf8 };
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(head, false);
    let guess = russian_or(detector.guess(None, Utf8Detection::Deny), head);
    let charset = Charset::Legacy(guess);
    // Text in UTF-8 with some flaws has more good characters than bad ones.
    let is_flawed_utf8 = bad < 2 * valid && !is_flawless_pairs(guess, head);
    if !is_flawed_utf8 && is_likely(charset, head) { charset } else { Charset::Utf8 }
}

/// Whether all of it is characters of a set whose pairs of bytes often look like UTF-8. No
/// flawed UTF-8 passes for such pairs throughout.
fn is_flawless_pairs(encoding: &'static Encoding, head: &[u8]) -> bool {
    let charset = Charset::Legacy(encoding);
    (encoding == EUC_JP || encoding == EUC_KR)
        && charset.decode(&head[..charset.whole_characters(head)]).1 == 0
}

/// Whether each byte beyond ASCII is an accented letter of Western Europe beside a plain one.
fn is_latin(head: &[u8]) -> bool {
    let is_letter = |index: Option<usize>| {
        index.and_then(|index| head.get(index)).is_some_and(u8::is_ascii_alphabetic)
    };
    head.iter().enumerate().filter(|(_, byte)| !byte.is_ascii()).all(|(index, byte)| {
        is_accented(*byte) && (is_letter(index.checked_sub(1)) || is_letter(Some(index + 1)))
    })
}

/// An accented letter in windows-1252. Those that hardly any language has are left out, and so
/// is what a cut character in UTF-8 most often begins with.
const fn is_accented(byte: u8) -> bool {
    matches!(byte, 0xc0 | 0xc1 | 0xc4..=0xcf | 0xd1..=0xd6 | 0xd8..=0xdc | 0xdf..=0xef | 0xf1..=0xf6 | 0xf8..=0xfc)
}

/// KOI8-R, where a text in KOI8-U has none of the letters in which the two differ.
fn russian_or(encoding: &'static Encoding, head: &[u8]) -> &'static Encoding {
    let is_not_russian = |byte: &u8| {
        matches!(byte, 0xa4 | 0xa6 | 0xa7 | 0xad | 0xae | 0xb4 | 0xb6 | 0xb7 | 0xbd | 0xbe)
    };
    if encoding == KOI8_U && !head.iter().any(is_not_russian) { KOI8_R } else { encoding }
}

/// Whether what is beyond ASCII decodes into letters and the signs that stand beside them.
fn is_likely(charset: Charset, head: &[u8]) -> bool {
    let (text, bad_bytes) = charset.decode(&head[..charset.whole_characters(head)]);
    let beyond = || text.chars().filter(|character| !character.is_ascii());
    let likely = beyond().filter(|character| is_letter_or_sign(*character)).count();
    let letters = text.chars().filter(|character| character.is_alphabetic()).count();
    let odd = text.chars().filter(|character| is_odd_control(*character)).count();
    letters * 2 >= likely
        && bad_bytes * 50 <= head.len()
        && odd * 50 <= text.len()
        && likely * 10 >= beyond().count() * 9
}

fn is_letter_or_sign(character: char) -> bool {
    character.is_alphabetic()
        || matches!(character, '\u{a0}' | '§' | '°' | '©' | '®' | '«' | '»' | '·' | '№' | '€' | '£')
        // General, CJK and full-width punctuation.
        || matches!(character, '\u{2010}'..='\u{2030}' | '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}')
}

/// A control character that no text has.
const fn is_odd_control(character: char) -> bool {
    matches!(character, '\0'..='\u{6}' | '\u{e}'..='\u{1a}' | '\u{1c}'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

#[cfg(test)]
mod tests {
    use encoding_rs::{
        BIG5, EUC_JP, EUC_KR, GBK, ISO_8859_2, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253,
    };
    use proptest::prelude::*;

    use super::*;

    const JAPANESE: &str = "エラー: ファイルが見つかりません。設定を確認してください。\n";
    const CHINESE: &str = "错误：找不到文件。请检查您的配置，然后重试。\n";
    const TAIWANESE: &str = "錯誤：找不到檔案。請檢查您的設定，然後再試一次。\n";
    const KOREAN: &str = "오류: 파일을 찾을 수 없습니다. 설정을 확인하십시오.\n";
    const RUSSIAN: &str = "Ошибка: файл не найден. Проверьте настройки и повторите попытку.\n";
    const GREEK: &str = "Σφάλμα: το αρχείο δεν βρέθηκε. Ελέγξτε τις ρυθμίσεις σας.\n";
    const GERMAN: &str = "Fehler: Übergrößenträger für Straße nicht gefunden, später prüfen.\n";
    const CZECH: &str = "Chyba: příliš žluťoučký kůň úpěl ďábelské ódy, zkontrolujte nastavení.\n";

    #[track_caller]
    fn check(text: &str, encoding: &'static Encoding, others: &[&'static Encoding]) {
        let (bytes, _, unmappable) = encoding.encode(text);
        assert!(!unmappable);
        let Charset::Legacy(found) = detect(&bytes) else { panic!("{encoding:?} taken for UTF-8") };
        assert!(found == encoding || others.contains(&found), "{found:?} for {encoding:?}");
        assert_eq!(Charset::Legacy(found).decode(&bytes), (text.into(), 0));
    }

    #[test]
    fn legacy_character_sets_are_recognised_by_a_line_of_text() {
        check(JAPANESE, SHIFT_JIS, &[]);
        check(JAPANESE, EUC_JP, &[]);
        check(CHINESE, GBK, &[]);
        check(TAIWANESE, BIG5, &[]);
        check(KOREAN, EUC_KR, &[]);
        check(RUSSIAN, WINDOWS_1251, &[]);
        check(RUSSIAN, KOI8_R, &[]);
        check(GREEK, WINDOWS_1253, &[encoding_rs::ISO_8859_7]);
        check(GERMAN, WINDOWS_1252, &[]);
        check(CZECH, ISO_8859_2, &[]);
    }

    #[test]
    fn wide_character_sets_are_recognised_with_and_without_a_mark() {
        let le = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let be = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        for (bytes, wide) in [
            (le("\u{feff}日本語"), Wide::Utf16Le),
            (be("\u{feff}日本語"), Wide::Utf16Be),
            (le("dir listing\r\n"), Wide::Utf16Le),
            (be("dir listing\r\n"), Wide::Utf16Be),
            (le("größer und später\r\n"), Wide::Utf16Le),
            (b"\xff\xfe\0\0h\0\0\0i\0\0\0".to_vec(), Wide::Utf32Le),
            (b"\0\0\xfe\xff\0\0\0h\0\0\0i".to_vec(), Wide::Utf32Be),
        ] {
            assert_eq!(detect(&bytes), Charset::Wide(wide), "{bytes:?}");
        }
    }

    #[test]
    fn utf8_with_flaws_and_bytes_that_are_no_text_stay_what_they_are() {
        let flawed = [GERMAN.repeat(3).as_bytes(), b"\xff\xfe\xfd\xfc\n"].concat();
        let cut = &"ä".repeat(SAMPLE_BYTES).into_bytes()[..SAMPLE_BYTES - 1];
        let png =
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
        let noise: Vec<u8> =
            (0..2000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for bytes in [
            b"".as_slice(),
            b"plain\n",
            b"here\xffand\xfemore\n",
            b"a cut caf\xc3\n",
            b"nothing beside it: \xe9\n",
            b"\x1b[31mred\x1b[0m costs \x1b$B\n",
            &flawed,
            cut,
            png,
            b"./a\0./b\0./c\0./d\0",
            &[0; 100],
            &noise,
            b"a\xff\0b\n\xfe\0",
            &[0x80; 40],
        ] {
            assert_eq!(detect(bytes), Charset::Utf8, "{:?}", &bytes[..bytes.len().min(40)]);
        }
    }

    #[test]
    fn short_texts_are_recognised_too() {
        check("café\n", WINDOWS_1252, &[]);
        check("señor, mañana\n", WINDOWS_1252, &[]);
        check("エラー: 失敗しました\n", EUC_JP, &[]);
        check("エラー: ファイルが見つかりません\n", EUC_JP, &[]);
        check("오류: 파일 없음\n", EUC_KR, &[]);
        check("빌드 실패\n", EUC_KR, &[]);
        check(JAPANESE, ISO_2022_JP, &[]);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_charset(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let charset = detect(&bytes);
            prop_assert!(charset.decode(&bytes).1 <= bytes.len());
        }
    }
}
