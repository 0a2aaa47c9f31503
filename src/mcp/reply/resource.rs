//! A job's output as the contents of a resource.

use std::time::Duration;
use std::{io, iter};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{MetaObject, Resource, ResourceContents};
use thiserror::Error;

use crate::mcp::address::{Address, ByteRange, of_output};
use crate::output::redact::Redactor;
use crate::output::view::{self, Ansi, Fold, Long, ViewOptions};
use crate::output::{BlockingReader, LogReader, PageEnd, Part, PartRequest, scan_with};
use crate::spec::Stream;
use crate::yard::JobHandle;

/// How much decides what kind of content an output is.
const SAMPLE: usize = 8 * 1024;
/// Characters of a command or description that are listed.
const ABOUT_CHARS: usize = 200;

/// Why the contents of a resource cannot be given.
#[derive(Debug, Error)]
pub(crate) enum ContentsError {
    /// The range begins behind the end.
    #[error(
        "start={start} is behind the end: there are {total_bytes} bytes; give a start from 0 to {total_bytes}"
    )]
    Outside {
        /// Where it begins.
        start: u64,
        /// How much there is.
        total_bytes: u64,
    },
    /// The stored bytes cannot be read.
    #[error("the output could not be read ({0}); it is still there if the disk is: try again")]
    Read(#[from] io::Error),
}

/// Returns what a list of resources says about the output of these jobs.
pub(crate) async fn listed_resources(jobs: &[JobHandle], redactor: &Redactor) -> Vec<Resource> {
    let logs: Vec<LogReader> = jobs.iter().map(|job| job.output().clone()).collect();
    let mimes = |logs: &[BlockingReader]| logs.iter().map(|log| mime(log).ok()).collect();
    let mimes: io::Result<Vec<_>> = scan_with(&logs, Duration::ZERO, mimes).await;
    // Output that cannot be read is listed all the same; reading it says why not.
    let mimes = mimes.unwrap_or_default().into_iter().chain(iter::repeat(None));
    jobs.iter().zip(mimes).map(|(job, mime)| listed_resource(job, mime, redactor)).collect()
}

fn mime(log: &BlockingReader) -> io::Result<&'static str> {
    Ok(view::mime(&head(log, None)?))
}

fn listed_resource(job: &JobHandle, mime: Option<&str>, redactor: &Redactor) -> Resource {
    let spec = job.spec();
    let about = spec.description.clone().unwrap_or_else(|| spec.program.display());
    let about: String = redactor.mask_text(&about).chars().take(ABOUT_CHARS).collect();
    let resource = Resource::new(of_output(job.id()), format!("job {} output", job.id()))
        .with_description(about)
        .with_size(job.output().progress().total_bytes);
    match mime {
        Some(mime) => resource.with_mime_type(mime),
        None => resource,
    }
}

/// The output at an address, at most `max_bytes` of it: text where it is text, with its secrets
/// masked, else base64. The metadata tells how much there is, which bytes these are, and the
/// address of the next ones where there are more, or may be.
pub(crate) fn resource_contents(
    log: &BlockingReader,
    address: &Address,
    max_bytes: usize,
    redactor: &Redactor,
) -> Result<ResourceContents, ContentsError> {
    let Address { stream, range: ByteRange { start, end }, .. } = *address;
    let part = log.part(&PartRequest { stream, start, end, max_bytes })?;
    if start > part.total_bytes {
        return Err(ContentsError::Outside { start, total_bytes: part.total_bytes });
    }
    let head = head(log, stream)?;
    // The beginning tells what all of it is; what is shown may be more than that.
    let first = if start == 0 && part.bytes.len() > head.len() { &part.bytes } else { &head };
    let contents = if view::is_binary(first) || view::is_binary(&part.bytes) {
        ResourceContents::blob(STANDARD.encode(&part.bytes), address.uri())
    } else {
        let options = ViewOptions { ansi: Ansi::Strip, fold: Fold::Off, long: Long::Keep };
        let text = view::text(&part.bytes, options).text;
        ResourceContents::text(redactor.mask_text(&text).into_owned(), address.uri())
    };
    Ok(contents.with_mime_type(view::mime(first)).with_meta(place(&part, address)))
}

/// The first bytes of an output.
fn head(log: &BlockingReader, stream: Option<Stream>) -> io::Result<Vec<u8>> {
    let request = PartRequest { stream, start: 0, end: Some(SAMPLE as u64), max_bytes: SAMPLE };
    Ok(log.part(&request)?.bytes)
}

/// Which bytes a part is, and where it goes on.
fn place(part: &Part, address: &Address) -> MetaObject {
    let mut meta = MetaObject::default();
    meta.insert("total_bytes".to_owned(), part.total_bytes.into());
    meta.insert("bytes_start".to_owned(), part.start.into());
    meta.insert("bytes_end".to_owned(), part.end.into());
    let (dropped, gap) = (part.progress.dropped_bytes, part.gap_bytes);
    for (name, bytes) in [("dropped_bytes", dropped), ("gap_bytes", gap)] {
        if bytes > 0 {
            meta.insert(name.to_owned(), bytes.into());
        }
    }
    let is_past = address.range.end.is_some_and(|end| end <= part.start);
    match part.end_kind {
        // Nothing of what was asked for is there: this is where the output goes on.
        PageEnd::Complete if gap > 0 && is_past && part.end < part.total_bytes => {
            let range = ByteRange { start: part.end, end: None };
            meta.insert("next".to_owned(), Address { range, ..*address }.uri().into());
        }
        PageEnd::Complete => {}
        PageEnd::More | PageEnd::CaughtUp => {
            let range = ByteRange { start: part.end, ..address.range };
            meta.insert("next".to_owned(), Address { range, ..*address }.uri().into());
        }
    }
    meta
}
