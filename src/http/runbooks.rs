//! `/runbooks/NAME.md`: the pages to which alerts and dashboards link.

use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};

/// The path above all pages.
const FOLDER: &str = "/runbooks/";

/// The content type: browsers show plain text, and download Markdown.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Each page with its name.
const PAGES: [(&str, &str); 9] = [
    ("README", include_str!("../../docs/runbooks/README.md")),
    ("ShellyardDown", include_str!("../../docs/runbooks/ShellyardDown.md")),
    ("ShellyardJournalDegraded", include_str!("../../docs/runbooks/ShellyardJournalDegraded.md")),
    ("ShellyardOrphans", include_str!("../../docs/runbooks/ShellyardOrphans.md")),
    ("ShellyardOwnFailures", include_str!("../../docs/runbooks/ShellyardOwnFailures.md")),
    ("ShellyardQueueStalled", include_str!("../../docs/runbooks/ShellyardQueueStalled.md")),
    ("ShellyardRejecting", include_str!("../../docs/runbooks/ShellyardRejecting.md")),
    ("ShellyardSaturated", include_str!("../../docs/runbooks/ShellyardSaturated.md")),
    ("ShellyardStoreNearlyFull", include_str!("../../docs/runbooks/ShellyardStoreNearlyFull.md")),
];

/// Answers a request for a page; `None` if its path is not that of a page.
pub(super) fn runbook_response(method: &Method, path: &str) -> Option<Response> {
    let page = find_page(path)?;
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some(StatusCode::METHOD_NOT_ALLOWED.into_response());
    }
    Some(([(CONTENT_TYPE, PLAIN_TEXT)], page).into_response())
}

/// Returns the path of every page. They need no token: whoever follows the link of an alert has none,
/// and they are the same on every server.
pub(super) fn list_runbook_paths() -> impl Iterator<Item = String> {
    PAGES.iter().map(|(name, _)| format!("{FOLDER}{name}.md"))
}

fn find_page(path: &str) -> Option<&'static str> {
    let name = path.strip_prefix(FOLDER)?;
    let name = name.strip_suffix(".md").unwrap_or(name);
    PAGES.iter().find(|(page, _)| *page == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_runbook_has_its_page() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks");
        let files = fs::read_dir(folder).unwrap().flatten();
        let files: BTreeSet<String> =
            files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        let pages: BTreeSet<String> = PAGES.iter().map(|(name, _)| format!("{name}.md")).collect();
        assert_eq!(pages, files);
        assert_eq!(list_runbook_paths().count(), PAGES.len());
        for (name, text) in PAGES {
            assert_eq!(find_page(&format!("/runbooks/{name}.md")), Some(text));
            assert_eq!(find_page(&format!("/runbooks/{name}")), Some(text));
        }
        assert_eq!(find_page("/runbooks/../secret.md"), None);
        assert_eq!(find_page("/runbooks"), None);
    }
}
