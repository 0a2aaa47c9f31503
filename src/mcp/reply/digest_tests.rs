//! Digests of real logs, and the bounds of what is written about them.

use std::fs;
use std::path::{Path, PathBuf};

use super::digest::{in_short, text};
use super::digest_fields::short_fields;
use super::words::count;
use crate::output::digest::{Digest, DigestRequest, Reach, digest};
use crate::output::{LogSettings, open};
use crate::spec::Stream;

fn digest_of(bytes: &[u8]) -> Digest {
    let (mut writer, reader) =
        open(&LogSettings { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() });
    writer.append(Stream::Stdout, bytes);
    writer.close();
    digest(
        &reader.blocking_for_test(),
        &DigestRequest { stream: None, from: 0, reach: Reach::default() },
    )
    .unwrap()
}

/// What an agent would read about a log.
fn told(bytes: &[u8]) -> String {
    let digest = digest_of(bytes);
    let short = in_short(&digest).unwrap_or_else(|| "nothing to tell".to_owned());
    let lines = count(digest.lines, "line", "lines");
    format!("digest of {lines}\n{}in short: {short}\n", text(&digest, 3000))
}

/// The logs that `tests/logs/make.sh` made.
fn logs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
    let mut logs: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the logs are there")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    logs
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says it in the environment")]
fn each_log_of_the_corpus_has_the_digest_beside_it() {
    let logs = logs();
    assert!(logs.len() >= 30, "{} logs", logs.len());
    let mut wrong = Vec::new();
    for path in logs {
        let told = told(&fs::read(&path).expect("a log"));
        let expected = path.with_extension("digest");
        if std::env::var_os("UPDATE_DIGESTS").is_some() {
            fs::write(&expected, &told).expect("the folder of the logs is ours");
        }
        let written = fs::read_to_string(&expected).unwrap_or_default();
        if told != written {
            wrong.push(format!("{}:\n{told}", expected.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn both_forms_keep_their_bounds_whatever_the_log() {
    let wide = "€".repeat(5000);
    let noisy: String = (0..300)
        .map(|number| format!("test error_{number}_{wide} ... FAILED\nerror: {wide}\n"))
        .collect();
    let digest =
        digest_of(format!("{noisy}test result: FAILED. 1 passed; 300 failed;\n").as_bytes());
    assert_eq!(digest.errors.count, 601);
    for most in [0, 10, 500, 3000] {
        assert!(text(&digest, most).len() <= most);
    }
    let short = in_short(&digest).unwrap();
    assert!(short.len() <= 600, "{}", short.len());
    assert!(
        short.starts_with("601 errors (1 … 601) · cargo test: 1 passed, 300 failed: "),
        "{short}"
    );
}

#[test]
fn numbers_of_lines_are_listed_with_a_gap_where_some_are_missing() {
    let all = text(&digest_of(b"error: a\nfine\nerror: b\n"), 3000);
    assert!(all.starts_with("2 errors: lines 1, 3; no warnings\n"), "{all}");
    let many = text(&digest_of("warning: x\n".repeat(50).as_bytes()), 3000);
    let numbers = |range: std::ops::RangeInclusive<u32>| {
        range.map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
    };
    let listed = format!("{} … {}", numbers(1..=20), numbers(31..=50));
    assert_eq!(many, format!("no errors; 50 warnings: lines {listed}\n"));
}

#[test]
fn with_more_room_a_digest_tells_no_less() {
    let wide = "漢".repeat(5000);
    let log: String = (0..200).map(|number| format!("error: number {number} {wide}\n")).collect();
    let digest = digest_of(format!("{log}fatal: the end\n").as_bytes());
    let texts: Vec<String> = (0..400).map(|step| text(&digest, step * 10)).collect();
    assert!(texts.windows(2).all(|pair| pair[0].len() <= pair[1].len()));
    for (room, text) in texts.iter().enumerate().skip(30) {
        assert!(text.starts_with("git: fatal: the end (line 201)\n201 errors: "), "{room}: {text}");
        assert!(!text.ends_with("error:\n"), "{room}: {text}");
    }
    assert!(texts[60].contains("\nfirst error:\n1: error: number 0 漢"), "{}", texts[60]);
    assert!(texts[60].contains("\nlast error:\n201: fatal: the end\n"), "{}", texts[60]);
}

#[test]
fn the_short_form_of_a_digest_is_bounded_in_both_forms() {
    let name = "n".repeat(110);
    let failed: String =
        (0..30).map(|number| format!("test {name}{number} ... FAILED\n")).collect();
    let digest =
        digest_of(format!("{failed}test result: FAILED. 1 passed; 30 failed;\n").as_bytes());
    let short = short_fields(&digest);
    assert!(short.to_string().len() <= 2000, "{short}");
    assert_eq!((&short["errors"], &short["endings"][0]["failed"]), (&31.into(), &30.into()));
}
