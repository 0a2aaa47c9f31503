//! The log and its rotated files: `<log>`, `<log>.1` (younger), `<log>.2` (older) …

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// `<log>.<suffix>`.
pub(super) fn sibling(log: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(log);
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Where the log goes when it is rotated.
pub(super) fn youngest(log: &Path) -> PathBuf {
    sibling(log, "1")
}

/// The rotated files that exist, the oldest first.
pub(super) fn rotated(log: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let Some(name) = log.file_name().and_then(|name| name.to_str()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of a file is needed"));
    };
    let mut found = Vec::new();
    for item in fs::read_dir(folder(log))? {
        let file_name = item?.file_name();
        if let Some(number) = file_name.to_str().and_then(|file| number(file, name)) {
            found.push((number, sibling(log, &number.to_string())));
        }
    }
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    Ok(found)
}

/// Moves every file on by one number, and removes those beyond `keep`.
///
/// The oldest are moved first: a crash on the way leaves a missing number, and the order right.
pub(super) fn rotate(log: &Path, keep: usize) -> io::Result<()> {
    for (number, path) in rotated(log)? {
        if number as usize >= keep {
            fs::remove_file(path)?;
        } else {
            fs::rename(path, sibling(log, &(number + 1).to_string()))?;
        }
    }
    fs::rename(log, youngest(log))
}

/// The folder that the log is in.
pub(super) fn folder(log: &Path) -> &Path {
    match log.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// The number in `<name>.<number>`, where that is what a file is called.
fn number(file: &str, name: &str) -> Option<u32> {
    let suffix = file.strip_prefix(name)?.strip_prefix('.')?;
    let number: u32 = suffix.parse().ok()?;
    (number > 0 && number.to_string() == suffix).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_numbers_count() {
        assert_eq!(number("audit.jsonl.12", "audit.jsonl"), Some(12));
        for file in ["audit.jsonl", "audit.jsonl.head", "audit.jsonl.0", "audit.jsonl.01", "b.1"] {
            assert_eq!(number(file, "audit.jsonl"), None, "{file}");
        }
    }

    #[test]
    fn rotation_keeps_the_order_and_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for round in 0..5 {
            fs::write(&log, round.to_string()).unwrap();
            rotate(&log, 2).unwrap();
        }
        let files = rotated(&log).unwrap();
        let texts = files.iter().map(|(n, path)| (*n, fs::read_to_string(path).unwrap()));
        assert_eq!(texts.collect::<Vec<_>>(), [(2, "3".to_owned()), (1, "4".to_owned())]);
    }

    #[test]
    fn fewer_files_kept_than_before_leave_no_strays() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for number in 1..=5 {
            fs::write(sibling(&log, &number.to_string()), "old").unwrap();
        }
        fs::write(&log, "new").unwrap();
        rotate(&log, 1).unwrap();
        assert_eq!(rotated(&log).unwrap().len(), 1);
    }
}
