//! Reading Rust source as text, with a lexer that is just good enough to tell code from
//! comments and strings.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    /// Its path below `src/`, such as `job/actor.rs`.
    pub(super) path: String,
    /// Its text without the unit tests at its end.
    pub(super) text: String,
    /// The same with comments and the insides of strings blanked out.
    pub(super) code: String,
}

impl SourceFile {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let text = without_tests(text);
        Self { path: path.to_owned(), text: text.to_owned(), code: blank(text) }
    }

    /// The module it belongs to: the first folder, or the file's own name at the top.
    pub(super) fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.trim_end_matches(".rs")
    }

    /// Returns the number of modules between the root and the file.
    pub(super) fn depth(&self) -> usize {
        let folders = self.path.matches('/').count();
        if self.path.ends_with("mod.rs") { folders } else { folders + 1 }
    }
}

/// Everything in `src/` but files of unit tests.
pub(super) fn list_product_files() -> Vec<SourceFile> {
    below("src")
}

/// The product and each crate beside it: its name, and its files but those of unit tests.
pub(super) fn list_crates() -> Vec<(String, Vec<SourceFile>)> {
    let members = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates"));
    let names = members.expect("the crates").flatten().map(|entry| entry.file_name());
    let members = names.map(|name| format!("crates/{}/src", name.to_string_lossy()));
    let roots = std::iter::once("src".to_owned()).chain(members);
    roots.map(|root| (root.clone(), below(&root))).collect()
}

fn below(root: &str) -> Vec<SourceFile> {
    let files = read_folder(root).into_iter();
    let product = files.filter(|(path, _)| !is_test(Path::new(path)));
    product.map(|(path, text)| SourceFile::new(&path, &text)).collect()
}

/// Returns every file of the workspace, tests and benchmarks included, with its whole text; the
/// paths start at the root of the repository.
pub(super) fn whole_workspace() -> Vec<SourceFile> {
    let folders = ["src", "crates", "tests", "benches"].into_iter();
    let files = folders.flat_map(|folder| {
        read_folder(folder).into_iter().map(move |(path, text)| (format!("{folder}/{path}"), text))
    });
    files.map(|(path, text)| SourceFile { path, code: blank(&text), text }).collect()
}

/// The path below `root` and the text of each Rust file in it, sorted by path.
fn read_folder(root: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    paths.sort();
    let texts = paths.iter().map(|path| {
        let below = path.strip_prefix(&root).expect("it is below the root");
        let text = fs::read_to_string(path).expect("a source file");
        (below.to_string_lossy().into_owned(), text)
    });
    texts.collect()
}

/// `true` for a file of unit tests: `tests.rs`, `…_tests.rs`, or anything below `tests/`.
fn is_test(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem == "tests"
        || stem.ends_with("_tests")
        || path.components().any(|part| part.as_os_str() == "tests")
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a source folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

/// Unit tests stand at the end of a file, in `mod tests` (with or without attributes before).
fn without_tests(text: &str) -> &str {
    const START: &str = "\n#[cfg(test)]\n";
    let is_module = |rest: &str| {
        let item = rest.lines().find(|line| !line.trim_start().starts_with("#["));
        item.is_some_and(|line| line.starts_with("mod "))
    };
    let starts = text.match_indices(START).map(|(index, _)| index);
    let cut = starts.into_iter().find(|index| is_module(&text[index + START.len()..]));
    cut.map_or(text, |index| &text[..=index])
}

/// Replaces comments and the insides of strings and characters by spaces; lines stay.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match quoted_length(rest) {
            0 => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            length => length,
        };
        let (quoted, after) = rest.split_at(length);
        code.extend(quoted.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = after;
    }
    code
}

/// The length of the comment, string or character that `text` starts with; else 0.
fn quoted_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return text.find("*/").map_or(text.len(), |end| end + 2);
    }
    if let Some(hashes) = raw_string_hashes(text) {
        let close = format!("\"{}", "#".repeat(hashes));
        let open = hashes + 2;
        return text[open..].find(&close).map_or(text.len(), |end| open + end + close.len());
    }
    match text.as_bytes() {
        [b'"', ..] => escaped_length(text, b'"'),
        [b'\'', b'\\', ..] => escaped_length(text, b'\''),
        [b'\'', _, b'\'', ..] => 3,
        _ => 0,
    }
}

fn raw_string_hashes(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    after[hashes..].starts_with('"').then_some(hashes)
}

fn escaped_length(text: &str, quote: u8) -> usize {
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((index, byte)) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == quote {
            return index + 1;
        }
    }
    text.len()
}

#[test]
fn comments_and_strings_are_no_code() {
    let text = "a /* unsafe */ b // unsafe\n\"unsafe \\\" x\" 'u' '\\'' r#\"un\"safe\"# &'a c";
    let code = blank(text);
    assert!(!code.contains("un"), "{code}");
    assert_eq!(code.split_whitespace().collect::<String>(), "ab&'ac");
    assert_eq!(code.lines().count(), 2);
}

#[test]
fn unit_tests_are_cut_off_at_the_end_only() {
    assert_eq!(without_tests("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), "fn a() {}\n\n");
    let helper = "fn a() {}\n#[cfg(test)]\nfn only_for_tests() {}\nfn b() {}\n";
    assert_eq!(without_tests(helper), helper);
    let expected = "fn a() {}\n#[cfg(test)]\n#[expect(x, reason = \"y\")]\nmod tests {}\n";
    assert_eq!(without_tests(expected), "fn a() {}\n");
}
