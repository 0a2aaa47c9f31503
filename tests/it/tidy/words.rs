//! Names and comments in plain words: no metaphors, no type name in three places, predicates that
//! are predicates, and doc comments that start with a subject or a verb.

use std::collections::BTreeMap;

use super::source::{self, SourceFile};

/// Words that are no words of the field; `CONTRIBUTING.md` has the glossary.
const METAPHORS: [&str; 20] = [
    "bequest",
    "berth",
    "birth",
    "broom",
    "crowd",
    "desk",
    "door",
    "errand",
    "estate",
    "hall",
    "heir",
    "letter",
    "midwife",
    "moor",
    "newborn",
    "purse",
    "seat",
    "surroundings",
    "warden",
    "wish",
];

/// Function names without a verb or an object.
const VAGUE_FUNCTIONS: [&str; 16] = [
    "asked", "found", "given", "heard", "kept", "look", "looked", "made", "meant", "of", "said",
    "seen", "settle", "shown", "taken", "told",
];

/// Type names that are used with their module, as `queue::State`.
const USED_WITH_MODULE: [&str; 6] = ["Args", "Effect", "Error", "Event", "Settings", "State"];

/// First words of a doc comment that has no subject.
const HEADLESS: [&str; 13] = [
    "What",
    "Who",
    "Whom",
    "Whose",
    "Whoever",
    "Whatever",
    "Whichever",
    "Whether",
    "Where",
    "Of",
    "How",
    "Those",
    "Which",
];

const MAX_DEFINITIONS_OF_A_NAME: usize = 2;
const SHORT_COMMENT_CHARS: usize = 20;
const MAX_SHORT_COMMENTS: usize = 100;

/// A name that some source line defines.
#[derive(Debug, PartialEq, Eq)]
struct Definition<'a> {
    kind: &'a str,
    name: &'a str,
    line: usize,
    /// The text between the name and the body.
    signature: String,
}

/// The names that `code` (without comments and strings) defines, in order.
fn definitions(code: &str) -> Vec<Definition<'_>> {
    let lines: Vec<&str> = code.lines().collect();
    let found = lines.iter().enumerate().filter_map(|(index, line)| {
        let (kind, name, rest) = definition_in(line)?;
        let following = lines[index + 1..].iter().copied();
        let signature =
            std::iter::once(rest).chain(following).take(12).collect::<Vec<_>>().join(" ");
        let end = signature.find(['{', ';']).unwrap_or(signature.len());
        Some(Definition { kind, name, line: index + 1, signature: signature[..end].to_owned() })
    });
    found.collect()
}

/// Splits a line such as `pub(crate) async fn run(…` into kind, name and rest.
fn definition_in(line: &str) -> Option<(&str, &str, &str)> {
    let is_indented = line.starts_with(' ');
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after
            .strip_prefix('(')
            .map_or(after, |scope| scope.split_once(')').map_or(scope, |(_, after)| after));
        rest = rest.strip_prefix(' ')?;
    }
    while let Some(after) = ["async ", "unsafe "].iter().find_map(|word| rest.strip_prefix(word)) {
        rest = after;
    }
    rest = rest.strip_prefix("const fn ").map_or(rest, |_| &rest["const ".len()..]);
    let (kind, after) = rest.split_once(' ')?;
    let is_item = ["struct", "enum", "trait", "union", "type", "mod", "const", "static", "fn"];
    // An indented `type` is an associated type: its name is the trait's choice.
    if !is_item.contains(&kind) || (kind == "type" && is_indented) {
        return None;
    }
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
    (end > 0).then(|| (kind, &after[..end], &after[end..]))
}

/// The lower-case words of a `CamelCase` or `snake_case` name.
fn words_of_name(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut starts_word = true;
    for c in name.chars() {
        match c {
            '_' | '.' | '/' => starts_word = true,
            _ if c.is_uppercase() || starts_word => {
                words.push(c.to_lowercase().collect());
                starts_word = false;
            }
            _ => words.last_mut().expect("a word was started").push(c),
        }
    }
    words
}

/// The metaphor that a name contains.
fn metaphor_in(name: &str) -> Option<String> {
    words_of_name(name).into_iter().find(|word| METAPHORS.contains(&word.as_str()))
}

/// Everything that is wrong with the names of one file.
fn name_violations(file: &SourceFile) -> Vec<String> {
    let in_path = metaphor_in(file.path.trim_end_matches(".rs")).map(|word| {
        format!("{}: the path contains \"{word}\": use a word of the field", file.path)
    });
    let defined = definitions(&file.code);
    let in_names = defined.iter().filter_map(|definition| {
        let Definition { kind, name, line, .. } = definition;
        let why = metaphor_in(name)
            .map(|word| format!("contains \"{word}\": use a word of the field"))
            .or_else(|| function_violation(definition).map(str::to_owned))?;
        Some(format!("{}:{line}: {kind} `{name}` {why}", file.path))
    });
    in_path.into_iter().chain(in_names).collect()
}

fn function_violation(definition: &Definition<'_>) -> Option<&'static str> {
    let Definition { kind, name, signature, .. } = definition;
    if *kind != "fn" {
        return None;
    }
    if VAGUE_FUNCTIONS.contains(name) {
        return Some("says nothing: name it verb + object");
    }
    let is_predicate = ["is_", "has_", "can_"].iter().any(|start| name.starts_with(start));
    // A test's name is a sentence, and a test returns nothing.
    let is_test = signature.trim() == "()";
    if !is_predicate || is_test {
        return None;
    }
    let returns = signature.rsplit_once("->").map_or("", |(_, returns)| returns);
    if !returns.contains("bool") {
        return Some("reads as a predicate but returns no bool");
    }
    signature.contains("&mut self").then_some("is a predicate and must change nothing")
}

/// The doc comments of a file, each with the line on which it starts.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if let Some(comment) = comment.map(str::trim) {
            match comments.last_mut() {
                Some((_, text)) if goes_on => {
                    text.push(' ');
                    text.push_str(comment);
                }
                _ => comments.push((index + 1, comment.to_owned())),
            }
        }
        goes_on = comment.is_some();
    }
    comments
}

fn is_headless(comment: &str) -> bool {
    let first = comment.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    HEADLESS.contains(&first)
}

/// The doc comments of one file that have no subject.
fn comment_violations(file: &SourceFile) -> Vec<String> {
    let comments = doc_comments(&file.text).into_iter().filter(|(_, text)| is_headless(text));
    let path = &file.path;
    comments
        .map(|(line, text)| {
            let start: String = text.chars().take(50).collect();
            format!("{path}:{line}: \"{start}\" has no subject: start with a noun or a verb")
        })
        .collect()
}

#[track_caller]
fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn names_are_plain_words() {
    let found: Vec<String> = source::whole_workspace().iter().flat_map(name_violations).collect();
    assert_none(&found);
}

#[test]
fn no_type_name_is_defined_more_than_twice() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in source::whole_workspace() {
        let types = definitions(&file.code);
        let types =
            types.iter().filter(|item| !matches!(item.kind, "mod" | "const" | "static" | "fn"));
        for Definition { name, line, .. } in types {
            places.entry((*name).to_owned()).or_default().push(format!("{}:{line}", file.path));
        }
    }
    assert!(places.len() > 500, "the types were not read");
    let many = places.iter().filter(|(name, places)| {
        places.len() > MAX_DEFINITIONS_OF_A_NAME && !USED_WITH_MODULE.contains(&name.as_str())
    });
    let found: Vec<String> = many
        .map(|(name, places)| {
            format!("type `{name}` is defined {} times: {}", places.len(), places.join(", "))
        })
        .collect();
    assert_none(&found);
}

#[test]
fn doc_comments_have_a_subject() {
    let found: Vec<String> =
        source::whole_workspace().iter().flat_map(comment_violations).collect();
    assert_none(&found);
}

#[test]
fn few_doc_comments_are_too_short_to_say_something() {
    let files = source::whole_workspace();
    let short = files.iter().flat_map(|file| {
        let comments = doc_comments(&file.text).into_iter();
        let short = comments.filter(|(_, text)| text.chars().count() <= SHORT_COMMENT_CHARS);
        short.map(|(line, text)| format!("{}:{line}: {text}", file.path))
    });
    let short: Vec<String> = short.collect();
    let found = if short.len() > MAX_SHORT_COMMENTS { &short[..] } else { &[] };
    assert_none(found);
}

#[track_caller]
fn check_names(text: &str, expected: &[&str]) {
    let found = name_violations(&SourceFile::new("job/a.rs", text));
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn bad_names_are_caught() {
    check_names("struct RunCommandArgs;\nfn open_log() {}\nfn is_open(&self) -> bool {}\n", &[]);
    check_names("struct Wish;\nmod midwife;\nconst MAX_SEATS: u8 = 1;\n", &["Wish", "midwife"]);
    check_names("    pub(super) const fn of(x: u8) -> u8 {}\n", &["`of` says nothing"]);
    check_names("fn is_gone(path: &Path) {}\n", &["returns no bool"]);
    check_names("fn has_room(\n    &mut self,\n) -> bool {\n", &["change nothing"]);
    check_names("// struct Wish;\nlet x = \"struct Wish;\";\n", &[]);
}

#[test]
fn comments_without_a_subject_are_caught() {
    let file = |text| SourceFile::new("job/a.rs", text);
    let bad = "/// What a job\n/// writes.\nfn a() {}\n    /// Whether it runs.\n    b: bool,\n";
    let found = comment_violations(&file(bad));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("a.rs:1: \"What a job writes.\""), "{found:?}");
    let good =
        "/// The output of a job.\n/// What follows is a second line.\n/// `true` if it runs.\n";
    assert_eq!(comment_violations(&file(good)), Vec::<String>::new());
    assert_eq!(doc_comments("/// A.\nfn a() {}\n/// B.\n").len(), 2);
}
