//! Templates: text with holes such as `@file@`, each filled at random.

use super::random::Random;
use super::special;
use crate::jail::MARKERS;

/// The values of simple holes.
const HOLES: &[(&str, &[&str])] = &[
    ("file", &["a.txt", "b.txt", "f", "notes.txt", "README.md", "src/lib.rs", "build.log"]),
    ("source", &["src/lib.rs", "src/main.rs", "Cargo.toml", "README.md"]),
    ("log", &["build.log", "access.log", "notes.txt"]),
    ("dir", &["src", ".", "tests", "src/", "./src"]),
    ("new", &["out/x.txt", "new.txt", "out/result.json", "report.md", "tmp.log"]),
    ("pattern", &["error", "TODO", "alpha", "'^a'", "\"two 2\"", "fn", "'a|b'", "pub"]),
    ("glob", &["'*.rs'", "'*.txt'", "\"*.toml\"", "'[a-z]*.md'", "\\*.rs"]),
    ("files", &["*.txt", "src/*.rs", "*.log", "src/{lib,main}.rs", "{a,b}.txt", "*.t?t"]),
    ("num", &["1", "2", "3", "5", "10", "20"]),
    ("name", &["x", "name", "dir", "n", "count", "result", "file"]),
    ("text", &["done", "'all good'", "\"hello world\"", "ok", "'it is $5'", "\"a; b\"", "-n"]),
    ("message", &["'fix: a bug'", "\"feat: add x\"", "wip", "'say \"hi\"'", "\"it's done\""]),
    ("branch", &["main", "topic", "HEAD", "HEAD~0", "v0.1"]),
    ("sink", &["> /dev/null", "2>/dev/null", ">/dev/null 2>&1", "2>&1", "&>/dev/null"]),
    ("safe", &["CI=1", "RUST_LOG=debug", "RUST_BACKTRACE=1", "NODE_ENV=test", "DEBUG=1"]),
];

/// Fills every hole of a template.
pub(super) fn fill(template: &str, random: &mut Random) -> String {
    let mut text = String::new();
    for (index, part) in template.split('@').enumerate() {
        if index % 2 == 0 {
            text.push_str(part);
        } else {
            text.push_str(&hole(part, random));
        }
    }
    text
}

fn hole(name: &str, random: &mut Random) -> String {
    if let Some((_, values)) = HOLES.iter().find(|(hole, _)| *hole == name) {
        return random.pick(values).to_owned();
    }
    match name {
        "M" => random.pick(&MARKERS).to_owned(),
        "code" => special::code(random),
        "special" => special::name(random).to_owned(),
        "way" => special::assignment(random),
        "use" => special::usage(random),
        "word" => special::word(random),
        "n" => "\n".to_owned(),
        // `@@` is one `@`.
        "" => "@".to_owned(),
        _ => panic!("no such hole: {name}"),
    }
}
