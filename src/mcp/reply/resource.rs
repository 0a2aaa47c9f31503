//! A job's output as the contents of a resource.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{MetaObject, ResourceContents};

use crate::output::redact::Redactor;
use crate::output::view::{self, Ansi, Fold, Long, ViewOptions};
use crate::output::{PageEnd, PageRequest};
use crate::yard::JobHandle;

/// The first `max_bytes` of a job's output: text where it is text, with its secrets masked, else
/// base64. What was left out is told in the metadata, as the cursor to read on from.
pub(crate) fn resource_contents(
    job: &JobHandle,
    uri: &str,
    max_bytes: usize,
    redactor: &Redactor,
) -> io::Result<ResourceContents> {
    let page =
        job.output().page(&PageRequest { from: 0, stream: None, max_bytes, max_lines: 0 })?;
    let contents = if view::is_binary(&page.bytes) {
        ResourceContents::blob(STANDARD.encode(&page.bytes), uri)
    } else {
        let options = ViewOptions { ansi: Ansi::Strip, fold: Fold::Off, long: Long::Keep };
        let text = view::text(&page.bytes, options).text;
        ResourceContents::text(redactor.mask_text(&text).into_owned(), uri)
    };
    let contents = contents.with_mime_type(view::mime(&page.bytes));
    Ok(match page.end_kind {
        PageEnd::Complete => contents,
        PageEnd::More | PageEnd::CaughtUp => {
            let mut meta = MetaObject::default();
            meta.insert("nextCursor".to_owned(), format!("bytes:{}", page.end).into());
            contents.with_meta(meta)
        }
    })
}
