//! "Did you mean …?"

use super::schema;

/// Below this likeness a suggestion would be a guess.
const ALIKE: f64 = 0.65;

/// The known key or section that `key` was most likely meant to be.
pub(super) fn for_key(key: &str) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let keys = || schema::SETTINGS.iter().map(|setting| setting.key);
    // The right name in the wrong section is the surest sign.
    let moved = keys().find(|known| last(known) == last(key));
    moved
        .map(str::to_owned)
        .or_else(|| in_named(key))
        .or_else(|| closest(key, keys().chain(schema::sections())))
}

/// The same of a key of a lane or a tenant, whose name must not count as likeness.
fn in_named(key: &str) -> Option<String> {
    let (inner, known) = schema::in_named(key)?;
    let meant = closest(inner, known)?;
    Some(format!("{}{meant}", key.strip_suffix(inner)?))
}

/// The variable that `name` was most likely meant to be.
pub(super) fn for_variable(name: &str) -> Option<String> {
    // The prefix is always right, so it must not count as likeness.
    let bare = |name: &str| name.trim_start_matches(schema::VARIABLE_PREFIX).to_owned();
    let known: Vec<_> =
        schema::SETTINGS.iter().map(|setting| bare(&schema::variable(setting.key))).collect();
    let found = closest(&bare(name), known.iter().map(String::as_str))?;
    Some(format!("{}{found}", schema::VARIABLE_PREFIX))
}

/// The word that `given` was most likely meant to be.
pub(super) fn for_word(given: &str, words: &[&'static str]) -> Option<&'static str> {
    let meant = closest(&given.to_lowercase(), words.iter().copied())?;
    words.iter().copied().find(|word| *word == meant)
}

fn closest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|known| (strsim::normalized_damerau_levenshtein(given, known), known))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_find_what_was_meant() {
        let cases = [
            ("http.bnid", Some("http.bind")),
            ("htpp", Some("http")),
            ("queue.slot", Some("queue.slots")),
            ("http.slots", Some("queue.slots")),
            ("slots", Some("queue.slots")),
            ("queue.lane", Some("queue.lanes")),
            ("tenants.ci.confinment", Some("tenants.ci.confinement")),
            ("queue.lanes.gpu.open_file", Some("queue.lanes.gpu.open_files")),
            ("tenants.a-long-name.xyz", None),
            ("colour.scheme", None),
        ];
        for (given, expected) in cases {
            assert_eq!(for_key(given).as_deref(), expected, "{given}");
        }
        assert_eq!(for_variable("SHELLYARD_QUEUE_SLOT").as_deref(), Some("SHELLYARD_QUEUE_SLOTS"));
        assert_eq!(for_variable("SHELLYARD_XYZZY"), None);
    }

    #[test]
    fn near_misses_of_a_word_find_it() {
        let words = ["none", "default", "workspace-write", "read-only"];
        for (given, expected) in [
            ("readonly", Some("read-only")),
            ("Workspace_Write", Some("workspace-write")),
            ("sandbox", None),
        ] {
            assert_eq!(for_word(given, &words), expected, "{given}");
        }
    }
}
