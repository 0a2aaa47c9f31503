//! The address of a job's output: `shellyard://jobs/12/output`, of one stream
//! `shellyard://jobs/12/output/stderr`, of a part of either `…?start=100&end=200`.

use std::fmt;

use thiserror::Error;

use crate::ids::JobNumber;
use crate::spec::Stream;

/// The forms of all such addresses, as URI templates.
pub(super) const TEMPLATES: [&str; 4] = [
    "shellyard://jobs/{job}/output",
    "shellyard://jobs/{job}/output/{stream}",
    "shellyard://jobs/{job}/output{?start,end}",
    "shellyard://jobs/{job}/output/{stream}{?start,end}",
];

/// A job's output, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) job: JobNumber,
    /// One stream alone; its positions then count its own bytes.
    pub(super) stream: Option<Stream>,
    pub(super) range: ByteRange,
}

/// Bytes from `start` on, up to `end` where one is named; `end` itself is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ByteRange {
    pub(super) start: u64,
    pub(super) end: Option<u64>,
}

impl ByteRange {
    /// Everything.
    pub(super) const WHOLE: Self = Self { start: 0, end: None };
}

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum AddressError {
    /// It names nothing of ours.
    #[error("job outputs are at {}", TEMPLATES[0])]
    Foreign,
    /// It names an output, but no part that an output can have.
    #[error(
        "a range reads ?start=100&end=200: whole numbers, start not above end, either may be left out"
    )]
    Range,
}

impl Address {
    /// Reads an address.
    pub(super) fn parse(uri: &str) -> Result<Self, AddressError> {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, it)| (path, Some(it)));
        let (job, stream) = job_and_stream(path).ok_or(AddressError::Foreign)?;
        let range = query.map_or(Ok(ByteRange::WHOLE), range)?;
        Ok(Self { job, stream, range })
    }

    /// The text that stands for it.
    pub(super) fn uri(&self) -> String {
        let stream = self.stream.map(|stream| format!("/{}", stream.name())).unwrap_or_default();
        let whole = format!("{}{stream}", of_output(self.job));
        match self.range {
            ByteRange::WHOLE => whole,
            ByteRange { start, end: None } => format!("{whole}?start={start}"),
            ByteRange { start, end: Some(end) } => format!("{whole}?start={start}&end={end}"),
        }
    }
}

/// The address of all of this job's output.
pub(super) fn of_output(job: impl fmt::Display) -> String {
    format!("shellyard://jobs/{job}/output")
}

fn job_and_stream(path: &str) -> Option<(JobNumber, Option<Stream>)> {
    let (job, rest) = path.strip_prefix("shellyard://jobs/")?.split_once('/')?;
    let stream = match rest {
        "output" => None,
        "output/stdout" => Some(Stream::Stdout),
        "output/stderr" => Some(Stream::Stderr),
        _ => return None,
    };
    Some((job.parse().ok()?, stream))
}

fn range(query: &str) -> Result<ByteRange, AddressError> {
    let (mut start, mut end) = (None, None);
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').ok_or(AddressError::Range)?;
        let position: u64 = value.parse().map_err(|_| AddressError::Range)?;
        let earlier = match name {
            "start" => start.replace(position),
            "end" => end.replace(position),
            _ => return Err(AddressError::Range),
        };
        if earlier.is_some() {
            return Err(AddressError::Range);
        }
    }
    let start = start.unwrap_or(0);
    if end.is_some_and(|end| end < start) {
        return Err(AddressError::Range);
    }
    Ok(ByteRange { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "shellyard://jobs/12/output";

    fn address(stream: Option<Stream>, start: u64, end: Option<u64>) -> Address {
        Address { job: JobNumber::new(12), stream, range: ByteRange { start, end } }
    }

    #[test]
    fn an_address_names_job_stream_and_range() {
        for (uri, expected) in [
            (OUTPUT.to_owned(), address(None, 0, None)),
            (format!("{OUTPUT}/stderr"), address(Some(Stream::Stderr), 0, None)),
            (format!("{OUTPUT}?start=5"), address(None, 5, None)),
            (format!("{OUTPUT}/stdout?start=5&end=9"), address(Some(Stream::Stdout), 5, Some(9))),
            (format!("{OUTPUT}?start=0&end=0"), address(None, 0, Some(0))),
        ] {
            assert_eq!(Address::parse(&uri), Ok(expected));
            assert_eq!(expected.uri(), uri);
        }
        assert_eq!(Address::parse(&format!("{OUTPUT}?end=9")), Ok(address(None, 0, Some(9))));
        assert_eq!(TEMPLATES[0].replace("{job}", "12"), of_output(JobNumber::new(12)));
    }

    #[test]
    fn what_names_nothing_is_told_from_a_range_that_is_none() {
        for uri in [
            "",
            "shellyard://jobs/0/output",
            "shellyard://jobs/x/output",
            "http://jobs/1/output",
            "shellyard://jobs/1/output/",
            "shellyard://jobs/1/output/both",
            "shellyard://jobs/1",
        ] {
            assert_eq!(Address::parse(uri), Err(AddressError::Foreign), "{uri}");
        }
        for query in [
            "",
            "start",
            "start=",
            "start=-1",
            "start=x",
            "start=9&end=5",
            "from=1",
            "start=1&start=2",
        ] {
            let uri = format!("{OUTPUT}?{query}");
            assert_eq!(Address::parse(&uri), Err(AddressError::Range), "{uri}");
        }
    }
}
