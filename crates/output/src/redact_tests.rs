use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

fn given(patterns: &[&str]) -> Redactor {
    let patterns: Vec<_> = patterns.iter().map(|text| (*text).to_owned()).collect();
    Redactor::new(&patterns).unwrap()
}

fn known() -> Redactor {
    Redactor::with_known_secrets(&[]).unwrap()
}

#[track_caller]
fn check(redactor: &Redactor, text: &str, expected: &str) {
    let masked = redactor.mask_text(text);
    assert_eq!(masked, expected);
    assert_eq!(matches!(masked, Cow::Borrowed(_)), text == expected, "{text}");
}

#[test]
fn all_of_a_match_or_only_its_secret_is_masked() {
    check(&given(&["hunter[0-9]"]), "a hunter2 b hunter3\n", "a [redacted] b [redacted]\n");
    check(&given(&[r"pw=(?P<secret>\w+)"]), "pw=abc; x", "pw=[redacted]; x");
    check(&given(&[r"pw=(?P<secret>\w+)|zz\d"]), "zz1 pw=a", "[redacted] pw=[redacted]");
    check(&given(&[]), "pw=abc", "pw=abc");
    check(&given(&["zzz"]), "pw=abc", "pw=abc");
}

#[test]
fn matches_that_overlap_or_touch_are_masked_once() {
    check(&given(&["abc", "bcd", "e"]), "xabcdex", "x[redacted]x");
    check(&given(&["ab", "ab"]), "abab-ab", "[redacted]-[redacted]");
}

#[test]
fn a_line_is_matched_by_itself() {
    check(&given(&["^a+$"]), "aa\r\nba\naa", "[redacted]\r\nba\n[redacted]");
    check(&given(&["(?s)a.b"]), "a\nb", "a\nb");
    check(&given(&["x*"]), "yy xx y", "yy [redacted] y");
}

#[test]
fn known_secrets_are_masked() {
    let github = format!("ghp_{}", "a".repeat(36));
    check(&known(), &format!("token {github}, ok"), "token [redacted], ok");
    check(&known(), "git clone https://me:pw@host/x", "git clone https://me:[redacted]@host/x");
    check(&known(), "Authorization: Bearer abcdefgh", "Authorization: Bearer [redacted]");
    let both = Redactor::with_known_secrets(&["blue".to_owned()]).unwrap();
    check(&both, &format!("blue {github}"), "[redacted] [redacted]");
    check(&given(&["blue"]), &github, &github);
}

#[test]
fn a_secret_is_found_in_a_text_as_it_is_in_its_line() {
    let token = format!("ghp_{}", "a".repeat(36));
    for (before, after) in [("", ""), ("one\n", "\ntwo"), ("one\r\n", "\r\ntwo\r\n"), ("\n", "\n")]
    {
        let expected = format!("{before}[redacted]{after}");
        check(&known(), &format!("{before}{token}{after}"), &expected);
    }
    // What is about an end of its line could be missed in a text.
    for form in &FORMS {
        let pattern = form.pattern.replace("[^", "[");
        let is_about_ends = ["^", "$", r"\A", r"\z", r"\n", "(?s"];
        assert!(!is_about_ends.iter().any(|it| pattern.contains(it)), "{pattern}");
    }
}

#[test]
fn a_private_key_is_masked_to_its_end() {
    let begin = "-----BEGIN RSA PRIVATE KEY-----";
    let end = "-----END RSA PRIVATE KEY-----";
    check(
        &known(),
        &format!("a\n{begin}\nProc-Type: 4\n\nMIIE+/=\n  abc\r\n{end}\nabc\n"),
        &format!("a\n[redacted]\n[redacted]\n\n[redacted]\n[redacted]\r\n{end}\nabc\n"),
    );
    check(&known(), &format!("k: \"{begin}\\nMIIE\\n{end}\\n\"\nabc"), "k: \"[redacted]\\n\"\nabc");
    check(
        &known(),
        &format!("{begin}\nabc{end}\nabc"),
        &format!("[redacted]\n[redacted]{end}\nabc"),
    );
}

#[test]
fn what_follows_the_end_of_a_key_is_looked_at_too() {
    let text = "-----BEGIN PRIVATE KEY-----\nabc-----END PRIVATE KEY----- ://me:pw@h\n";
    check(&known(), text, "[redacted]\n[redacted]-----END PRIVATE KEY----- ://me:[redacted]@h\n");
}

#[test]
fn a_key_without_an_end_does_not_hide_what_follows() {
    let text = "grep -----BEGIN PRIVATE KEY----- x\nno such file\nabc\n";
    check(&known(), text, "grep [redacted]\nno such file\nabc\n");
}

#[test]
fn half_a_character_does_not_break_the_text() {
    check(&given(&["(?-u:\\xc3)"]), "\u{e9}", "[redacted]\u{fffd}");
    assert_eq!(&*given(&["b"]).mask_bytes(b"\xffb\xfe"), b"\xff[redacted]\xfe");
}

#[test]
fn a_bad_pattern_is_named() {
    for (pattern, word, help) in [
        ("(a", "unclosed group", "backslash"),
        ("a(?=b)", "look-around", "secret"),
        ("(?:a{1000}){1000}", "size limit", "smaller"),
        ("", "empty", "remove"),
    ] {
        let error = Redactor::new(&["ok".to_owned(), pattern.to_owned()]).unwrap_err();
        assert_eq!((error.index, error.pattern.as_str()), (1, pattern));
        assert!(error.message.contains(word) && error.suggestion.contains(help), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

fn masker(redactor: Redactor) -> LineMasker {
    LineMasker::new(Arc::new(redactor))
}

/// Compiled once: hundreds of cases use it.
static KNOWN_AND_GIVEN: LazyLock<Arc<Redactor>> =
    LazyLock::new(|| Arc::new(Redactor::with_known_secrets(&["hunter2".to_owned()]).unwrap()));

#[test]
fn whole_lines_are_given_at_once_and_the_rest_at_the_end() {
    let mut masker = masker(given(&["hunter2"]));
    assert_eq!(masker.push(b"a\nhun"), b"a\n");
    assert_eq!(masker.push(b"ter2 b"), b"");
    assert_eq!(masker.push(b"\nc"), b"[redacted] b\n");
    assert_eq!(masker.flush(), b"c");
    assert_eq!(masker.flush(), b"");
}

#[test]
fn a_long_line_is_not_held_back_and_hides_no_secret() {
    for before in [0, 1, 59_000, 61_430, 61_440, 65_530, 65_536, 126_000] {
        let mut masker = masker(given(&["s[0-9]{3000}t"]));
        let secret = format!("s{}t", "1".repeat(3000));
        let text = format!("{}{secret}{}", "a".repeat(before), "b".repeat(100_000));
        let mut masked = Vec::new();
        for chunk in text.as_bytes().chunks(1000) {
            masked.extend(masker.push(chunk));
            assert!(masker.held.len() <= LINE_BYTES);
        }
        masked.extend(masker.flush());
        let expected = format!("{}{MASK}{}", "a".repeat(before), "b".repeat(100_000));
        assert!(masked == expected.as_bytes(), "after {before} bytes");
    }
}

#[test]
fn a_secret_without_end_is_masked_as_it_comes() {
    let mut masker = masker(given(&["1+"]));
    let mut masked = masker.push(&[b'1'; 200_000]);
    masked.extend(masker.flush());
    assert_eq!(masked, MASK.repeat(4).as_bytes());
}

/// Bytes in which patterns and line ends are likely.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let github = format!("ghp_{}", "a".repeat(36));
    let words = vec![
        "\n".to_owned(),
        "\r\n".to_owned(),
        "hunter2".to_owned(),
        "hun".to_owned(),
        "ter2".to_owned(),
        "://me:pw@h".to_owned(),
        "-----BEGIN PRIVATE KEY-----".to_owned(),
        "-----END PRIVATE KEY-----".to_owned(),
        github,
        "plain ".to_owned(),
        "x".repeat(30_000),
    ];
    let word = prop_oneof![
        9 => prop::sample::select(words).prop_map(String::into_bytes),
        2 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

fn in_chunks(redactor: &Arc<Redactor>, bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<u8> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut masker = LineMasker::new(Arc::clone(redactor));
    let (mut masked, mut start) = (Vec::new(), 0);
    for cut in cuts {
        masked.extend(masker.push(&bytes[start..cut]));
        start = cut;
    }
    masked.extend(masker.flush());
    masked
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunks_do_not_matter(bytes in stream(), cuts in cuts()) {
        let masked = in_chunks(&KNOWN_AND_GIVEN, &bytes, &cuts);
        prop_assert!(masked == in_chunks(&KNOWN_AND_GIVEN, &bytes, &[]));
        let longest = bytes.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
        if longest < LINE_BYTES {
            prop_assert!(masked == *KNOWN_AND_GIVEN.mask_bytes(&bytes));
        }
        prop_assert!(memmem::find(&masked, b"hunter2").is_none());
    }

    #[test]
    fn nothing_is_lost_where_nothing_matches(bytes in stream(), cuts in cuts()) {
        let redactor = Arc::new(given(&["no such text"]));
        prop_assert!(in_chunks(&redactor, &bytes, &cuts) == bytes);
        prop_assert!(matches!(redactor.mask_bytes(&bytes), Cow::Borrowed(_)));
    }

    #[test]
    fn any_text_can_be_masked(text in ".*", pattern in "[a-c.*+|()?]{0,8}") {
        prop_assert_eq!(KNOWN_AND_GIVEN.mask_text(&text).lines().count(), text.lines().count());
        if let Ok(redactor) = Redactor::new(&[pattern]) {
            prop_assert_eq!(redactor.mask_text(&text).lines().count(), text.lines().count());
        }
    }
}
