//! Digests against a naive count, and endings by table.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Digest, DigestRequest, Ending, Reach, digest, looks_like_error};
use crate::Stream;
use crate::{LogReader, LogSettings, LogWriter, open};

const ALL: DigestRequest = DigestRequest {
    stream: None,
    from: 0,
    reach: Reach { each_side: u64::MAX, time: Duration::ZERO },
};

/// A log with this content; the directory goes when the test ends.
fn log(parts: &[(Stream, Vec<u8>)]) -> (LogWriter, LogReader, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, reader) =
        open(&LogSettings { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() });
    for (stream, bytes) in parts {
        writer.append(*stream, bytes);
    }
    (writer, reader, dir)
}

fn digest_of(text: &str, request: &DigestRequest) -> Digest {
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, text.as_bytes().to_vec())]);
    digest(&reader.blocking(), request).unwrap()
}

/// The one ending of a text, or none.
#[track_caller]
fn ending(text: &str) -> Option<Ending> {
    let mut endings = digest_of(text, &ALL).endings;
    assert!(endings.len() <= 1, "{endings:?}");
    endings.pop().map(|line| line.ending)
}

#[test]
fn tools_are_known_by_their_last_words() {
    for (text, tool, told) in [
        ("  3 passing (12ms)\n  1 failing\n", "mocha", "3 passing (12ms)"),
        (
            "[INFO] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1\n[INFO] BUILD FAILURE\n",
            "maven",
            "BUILD FAILURE",
        ),
        ("BUILD FAILED in 3s\n", "gradle", "BUILD FAILED in 3s"),
        ("FAILED: a.o\ncc a.c\nninja: build stopped: subcommand failed.\n", "ninja", "FAILED: a.o"),
        ("CMake Error at CMakeLists.txt:3 (x):\n", "cmake", "CMake Error at CMakeLists.txt:3 (x):"),
        (
            "make[2]: *** No rule to make target 'x'.  Stop.\n",
            "make",
            "make[2]: *** No rule to make target 'x'.  Stop.",
        ),
        ("Killed\n", "signal", "Killed"),
        ("Segmentation fault (core dumped)\n", "signal", "Segmentation fault (core dumped)"),
        (
            "kernel: Out of memory: Killed process 12 (x)\n",
            "memory",
            "kernel: Out of memory: Killed process 12 (x)",
        ),
        (
            " ! [rejected]        main -> main (fetch first)\n",
            "git",
            "! [rejected]        main -> main (fetch first)",
        ),
        ("====== no tests ran in 0.01s ======\n", "pytest", "no tests ran in 0.01s"),
        ("2 passed in 0.10s\n", "pytest", "2 passed in 0.10s"),
        ("Ran 2 tests in 0.1s\n\nOK\n", "unittest", "OK"),
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nodd.Trouble\n",
            "python",
            "odd.Trouble (a.py:1 in <module>)",
        ),
        (
            "     Summary [   0.5s] 4 tests run: 3 passed, 1 failed, 0 skipped\n",
            "cargo test",
            "Summary [   0.5s] 4 tests run: 3 passed, 1 failed, 0 skipped",
        ),
        ("a.ts:2:33 - error TS2322: no\n", "tsc", "a.ts:2:33 - error TS2322: no"),
        (
            "npm ERR! code ENOENT\nnpm ERR! syscall open\nnpm ERR! no package.json\n",
            "npm",
            "ENOENT: no package.json",
        ),
        ("ok  \tapp/ok\t0.002s\n", "go test", "ok   app/ok 0.002s"),
    ] {
        let ending = ending(text).unwrap_or_else(|| panic!("{text:?} is not known"));
        assert_eq!((ending.tool, ending.text.as_str()), (tool, told));
    }
}

#[test]
fn nothing_is_claimed_without_a_signature() {
    for text in [
        "error: something failed\n",
        "Tests: total\nTests  ()\n",
        "OK\nFAILED (really)\n",
        "make: Nothing to be done for 'all'.\n",
        "3 failing\n2 passed the exam in 2020s\n",
        "Killed the messenger\nhe was Killed\n",
        "12:30:01: error: clock stopped\nnote: error: x\n",
        "TypeError: not ours\n    at f (a.js:1:2)\n",
        "com.acme.BrokenException: a log line without frames\n",
        "thread panicked\nadded 3 rows\nFinished `x`\n",
        "BUILD FAILED\nFAILED: one of two\n",
        "Successfully uninstalled\nERROR: of somebody\n",
        "100 bytes copied, they say\ntar is sticky\nfatalism\n",
        "Traceback (most recent call last):\n\nRuntimeError: no frames\n",
    ] {
        assert_eq!(ending(text), None, "{text:?}");
    }
}

#[test]
fn what_is_skipped_joins_nothing() {
    let filler = "line\n".repeat(100);
    let head = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n";
    let text = format!("{head}{filler}Error: of somebody else\n");
    let each_side = head.len() as u64;
    let reach = Reach { each_side, time: Duration::ZERO };
    let digest = digest_of(&text, &DigestRequest { reach, ..ALL });
    assert_eq!((digest.complete, digest.scanned_bytes), (false, 2 * each_side));
    assert_eq!(digest.endings, []);
    assert_eq!((digest.errors.count, digest.lines), (2, 103));
}

#[test]
fn lines_of_a_log_of_many_blocks_have_their_numbers() {
    let mut text = "a line that says nothing\n".repeat(30_000);
    text.push_str("error: one\n");
    text.push_str(&"x".repeat(700_000));
    text.push_str(" error: deep inside\nfatal: two\n");
    let digest = digest_of(&text, &ALL);
    let lines: Vec<u64> = digest.errors.listed.iter().map(|error| error.line).collect();
    assert_eq!(lines, [30_001, 30_002, 30_003]);
    assert_eq!(digest.endings[0].line, 30_003);
    assert_eq!(digest.scanned_bytes, text.len() as u64);
}

#[test]
fn a_traceback_is_one_error_and_its_exception_is_what_is_listed() {
    let frames = "  File \"a.py\", line 1, in f\n    assert check(error)\n";
    let one = format!("Traceback (most recent call last):\n{frames}ValueError: bad\nfine\n");
    let digest = digest_of(&one, &ALL);
    let listed = |digest: &Digest| -> Vec<(u64, String)> {
        digest.errors.listed.iter().map(|error| (error.line, error.text.clone())).collect()
    };
    assert_eq!((digest.errors.count, listed(&digest)), (1, vec![(4, "ValueError: bad".into())]));
    let odd = digest_of(&one.replace("ValueError", "odd.Trouble"), &ALL);
    assert_eq!((odd.errors.count, odd.errors.numbers.clone()), (1, vec![1]), "{odd:?}");
    let twice = digest_of(&format!("{one}{one}error: other\n"), &ALL);
    assert_eq!((twice.errors.count, twice.errors.numbers.clone()), (3, vec![4, 9, 11]));
}

#[test]
fn an_error_that_was_written_over_is_listed_as_it_was_written() {
    let digest = digest_of("one\nerror: disk exploded\rall good\n", &ALL);
    assert_eq!(digest.errors.count, 1);
    assert_eq!(digest.errors.listed[0].text, "error: disk exploded");
    assert_eq!(digest.first_error.unwrap().line.text, "error: disk exploded");
}

#[test]
fn an_error_deep_in_a_line_is_in_sight() {
    let (head, tail) = ("x".repeat(50_000), "y".repeat(50_000));
    for overlong in [1, 20] {
        let text = format!("a\n{} error: hidden {tail}\nb\n", head.repeat(overlong));
        let digest = digest_of(&text, &ALL);
        let error = &digest.errors.listed[0];
        assert_eq!((digest.errors.count, error.line), (1, 2));
        assert!(error.text.contains("x error: hidden y"), "{}", error.text);
        assert!(!error.text.contains("chars]"), "nobody counted them: {}", error.text);
        assert_eq!(digest.first_error.unwrap().line, *error);
    }
}

#[test]
fn a_log_of_another_character_set_is_looked_through_as_it_is_shown() {
    let text = "сборка началась\nerror: сломано\nпредупреждение\nWARNING: осторожно\n".repeat(3);
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let marked = utf16(&format!("\u{feff}{text}"));
    let big: Vec<u8> =
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect();
    let legacy = encoding_rs::WINDOWS_1251.encode(&text).0.into_owned();
    for bytes in [marked, big, legacy] {
        let (mut writer, reader, _dir) = log(&[(Stream::Stdout, bytes.clone())]);
        writer.close();
        let digest = digest(&reader.blocking(), &ALL).unwrap();
        assert_eq!((digest.lines, digest.scanned_bytes), (12, bytes.len() as u64));
        assert_eq!((digest.errors.count, digest.warnings.count), (3, 3));
        assert_eq!(digest.errors.numbers, [2, 6, 10]);
        assert_eq!(digest.errors.listed[1].text, "error: сломано");
        let first = digest.first_error.unwrap();
        assert_eq!(first.before[0].text, "сборка началась");
        assert_eq!((first.after[0].line, first.after[0].text.as_str()), (3, "предупреждение"));
    }
}

#[test]
fn an_error_deep_in_a_long_line_of_another_character_set_is_in_sight() {
    let long = format!("{} error: глубоко {}\nконец\n", "ж".repeat(150_000), "я".repeat(40_000));
    let bytes: Vec<u8> =
        format!("\u{feff}{long}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let (_writer, reader, _dir) = log(&[(Stream::Stdout, bytes)]);
    let digest = digest(&reader.blocking(), &ALL).unwrap();
    assert_eq!((digest.errors.count, digest.lines), (1, 2));
    let text = &digest.errors.listed[0].text;
    assert!(text.contains("ж error: глубоко я"), "{text}");
}

fn any_part() -> impl Strategy<Value = (Stream, Vec<u8>)> {
    let text = prop_oneof![
        "[a-z ]{0,20}\n".prop_map(String::into_bytes),
        Just(b"error: here\n".to_vec()),
        Just(b"warning: there\r\n".to_vec()),
        Just(b"\x1b[31mfailed\x1b[0m\n".to_vec()),
        Just(b"an err".to_vec()),
        Just(b"or in pieces\n".to_vec()),
        Just(b"10%\r20%\rfatal\n".to_vec()),
        Just(b"10%\rfailed\r100%\n".to_vec()),
        vec(0_u8..0x1b, 0..20),
    ];
    (prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)], text)
}

proptest! {
    #[test]
    fn every_error_is_counted_once(parts in vec(any_part(), 0..60)) {
        let (_writer, reader, _dir) = log(&parts);
        for stream in [None, Some(Stream::Stdout), Some(Stream::Stderr)] {
            let bytes: Vec<u8> = parts
                .iter()
                .filter(|(of, _)| stream.is_none_or(|stream| stream == *of))
                .flat_map(|(_, bytes)| bytes.clone())
                .collect();
            let errors = bytes.split(|byte| *byte == b'\n').filter(|line| looks_like_error(line));
            let digest = digest(&reader.blocking(), &DigestRequest { stream, ..ALL }).unwrap();
            prop_assert_eq!(digest.errors.count, errors.count() as u64);
            prop_assert_eq!(digest.scanned_bytes, bytes.len() as u64);
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').count() as u64;
            prop_assert_eq!(digest.lines, lines);
            prop_assert!(digest.complete && digest.errors.listed.len() <= 10);
        }
    }
}
