//! That the list of deeds has something for everything that there is.

use std::collections::BTreeSet;

/// Names of what there is, or of what was done.
pub(super) type Names = BTreeSet<String>;

/// What there is and nobody has done anything with.
pub(super) fn without_a_deed(there_is: &Names, done: &Names) -> Vec<String> {
    there_is.difference(done).cloned().collect()
}

/// What was done with something that there is not: a name that is misspelt, or gone.
pub(super) fn without_a_thing(there_is: &Names, done: &Names) -> Vec<String> {
    done.difference(there_is).cloned().collect()
}

fn names(words: &[&str]) -> Names {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn what_is_new_is_named_until_there_is_a_deed_for_it() {
    let done = names(&["tool run_command", "GET /api/v1/jobs", "modern tools/call"]);
    assert!(without_a_deed(&done, &done).is_empty());
    let mut there_is = done.clone();
    there_is.extend(names(&["tool peek", "POST /api/v1/jobs", "legacy tools/call"]));
    let missing = without_a_deed(&there_is, &done);
    assert_eq!(missing, ["POST /api/v1/jobs", "legacy tools/call", "tool peek"]);
    assert!(without_a_thing(&there_is, &done).is_empty());
    assert_eq!(without_a_thing(&names(&["tool run_command"]), &done).len(), 2);
}
