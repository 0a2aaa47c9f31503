//! The rules, held against the real source.

use super::{layers, rules, source};

#[test]
fn every_file_keeps_the_rules() {
    let files = source::list_product_files();
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| [layers::violations(file), rules::violations(file)])
        .flatten()
        .collect();
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_file_of_the_crates_has_the_shape() {
    let crates = source::list_crates();
    assert!(crates.len() > 3, "the crates were not read");
    let found = crates.iter().flat_map(|(name, files)| {
        let shapes = files.iter().flat_map(rules::shape);
        shapes.map(move |why| format!("{name}/{why}"))
    });
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn the_source_was_really_read() {
    let files = source::list_product_files();
    for path in ["main.rs", "job/mod.rs", "http/mod.rs", "ids.rs"] {
        assert!(files.iter().any(|file| file.path == path), "{path} is missing");
    }
}
