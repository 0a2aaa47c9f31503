//! Content negotiation: decides what to send from the headers of a request alone (conditions,
//! ranges and codings).

use std::io::Write;
use std::ops::Range;
use std::{io, mem};

use axum::http::header::{ACCEPT_ENCODING, IF_NONE_MATCH, IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderName, Method};
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

/// The decision about a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResponsePlan {
    /// The client already has the content, in this coding.
    NotModified(Coding),
    /// The whole content, in this coding.
    Whole(Coding),
    /// These bytes, uncompressed.
    Part(Range<u64>),
    /// The requested bytes do not exist.
    Outside,
}

/// The name of content that will never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentTag(String);

impl ContentTag {
    /// Creates a tag from characters that are valid in an entity tag.
    pub(super) const fn new(name: String) -> Self {
        Self(name)
    }

    /// The entity tag of the content in one coding: each coding has its own.
    pub(super) fn etag(&self, coding: Coding) -> String {
        match coding {
            Coding::Identity => format!("\"{}\"", self.0),
            Coding::Gzip | Coding::Zstd => format!("\"{}-{}\"", self.0, coding.name()),
        }
    }
}

/// Decides what to send of `length` bytes. Content has a tag once it is complete.
pub(super) fn plan_response(
    method: &Method,
    headers: &HeaderMap,
    length: u64,
    tag: Option<&ContentTag>,
) -> ResponsePlan {
    let coding = Coding::from_headers(headers);
    let range = requested_range(method, headers, length, tag);
    let form = if range == RequestedRange::Whole { coding } else { Coding::Identity };
    // `If-None-Match` comes before the range, as RFC 9110 section 13.2.2 orders it.
    if tag.is_some_and(|tag| is_cached_by_client(headers, &tag.etag(form))) {
        return ResponsePlan::NotModified(form);
    }
    match range {
        RequestedRange::Whole => ResponsePlan::Whole(coding),
        RequestedRange::Part(range) => ResponsePlan::Part(range),
        RequestedRange::Outside => ResponsePlan::Outside,
    }
}

/// Returns the range that applies: only for GET, and only while `If-Range` matches.
fn requested_range(
    method: &Method,
    headers: &HeaderMap,
    length: u64,
    tag: Option<&ContentTag>,
) -> RequestedRange {
    let holds = match joined_values(headers, &IF_RANGE) {
        None => true,
        Some(wanted) => tag.is_some_and(|tag| tag.etag(Coding::Identity) == wanted.trim()),
    };
    if method == Method::GET && holds {
        range(joined_values(headers, &RANGE).as_deref(), length)
    } else {
        RequestedRange::Whole
    }
}

/// `true` if `If-None-Match` names this tag. Weak tags are sufficient here.
fn is_cached_by_client(headers: &HeaderMap, tag: &str) -> bool {
    let known = joined_values(headers, &IF_NONE_MATCH).unwrap_or_default();
    known.split(',').map(str::trim).any(|known| {
        known == "*" || known == tag || known.strip_prefix("W/").is_some_and(|weak| weak == tag)
    })
}

/// The values of a header, joined as one list.
fn joined_values(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<&str> =
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestedRange {
    /// The whole content: there is no range, or it must be ignored.
    Whole,
    /// A non-empty range.
    Part(Range<u64>),
    /// A range outside of the content.
    Outside,
}

/// Parses a `Range` header for `length` bytes. As RFC 9110 requires, a header that makes no sense
/// is ignored. So are multiple ranges: their response would be a format of its own that no client
/// of a log needs.
pub(super) fn range(header: Option<&str>, length: u64) -> RequestedRange {
    let Some((first, last)) = header.and_then(parse_positions) else {
        return RequestedRange::Whole;
    };
    match (first, last) {
        (Some(first), Some(last)) if last < first => RequestedRange::Whole,
        (Some(first), _) if first >= length => RequestedRange::Outside,
        (Some(first), last) => {
            let end = last.map_or(length, |last| last.saturating_add(1).min(length));
            RequestedRange::Part(first..end)
        }
        (None, Some(0)) => RequestedRange::Outside,
        // The last bytes of empty content are empty, and a range cannot express that.
        (None, Some(_)) if length == 0 => RequestedRange::Whole,
        (None, Some(suffix)) => RequestedRange::Part(length.saturating_sub(suffix)..length),
        (None, None) => RequestedRange::Whole,
    }
}

/// Parses the two numbers of `bytes=a-b`, one of which may be missing.
fn parse_positions(header: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, spec) = header.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = spec.trim().split_once('-')?;
    Some((parse_position(first)?, parse_position(last)?))
}

/// Parses a number; empty text is `Some(None)`. A number that is too large counts as infinite.
fn parse_position(text: &str) -> Option<Option<u64>> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text {
        "" => Some(None),
        digits if is_number => Some(Some(digits.parse().unwrap_or(u64::MAX))),
        _ => None,
    }
}

/// The zstd level. Text compresses well at this level, as fast as a network takes it, and an
/// encoder needs little more than a megabyte.
const ZSTD_LEVEL: i32 = 1;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Coding {
    /// Uncompressed.
    Identity,
    Gzip,
    Zstd,
}

impl Coding {
    /// Ordered by preference, for clients that rate several the same.
    const ALL: [Self; 3] = [Self::Zstd, Self::Gzip, Self::Identity];

    pub(in crate::http) const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// Chooses the coding for a request with these headers.
    pub(in crate::http) fn from_headers(headers: &HeaderMap) -> Self {
        Self::choose(joined_values(headers, &ACCEPT_ENCODING).as_deref())
    }

    /// Chooses the coding that the client prefers. A client that accepts none of them gets
    /// uncompressed bytes, which is more useful than an error.
    pub(super) fn choose(accepted: Option<&str>) -> Self {
        let Some(accepted) = accepted else { return Self::Identity };
        let mut best = (Self::Identity, 0);
        for coding in Self::ALL {
            let weight = coding.weight(accepted);
            if weight > best.1 {
                best = (coding, weight);
            }
        }
        best.0
    }

    /// The weight that the client gives this coding, from 0 to 1000.
    fn weight(self, accepted: &str) -> u32 {
        let named = |name: &str| {
            let mut entries = accepted.split(',').map(parse_coding);
            entries.find(|(coding, _)| coding.eq_ignore_ascii_case(name)).map(|(_, weight)| weight)
        };
        match self {
            // Identity is acceptable unless it is ruled out, but any coding that is named is
            // preferred.
            Self::Identity => named("identity").unwrap_or_else(|| u32::from(named("*") != Some(0))),
            Self::Gzip => {
                named("gzip").or_else(|| named("x-gzip")).or_else(|| named("*")).unwrap_or(0)
            }
            Self::Zstd => named("zstd").or_else(|| named("*")).unwrap_or(0),
        }
    }
}

/// Parses one entry of `Accept-Encoding`: a name, and its weight in thousandths.
fn parse_coding(text: &str) -> (&str, u32) {
    let (name, parameter) = text.split_once(';').unwrap_or((text, ""));
    let weight = match parameter.trim().split_once('=') {
        Some(("q" | "Q", weight)) => weight.trim().parse::<f64>().unwrap_or(0.0),
        Some(_) | None => 1.0,
    };
    (name.trim(), (weight.clamp(0.0, 1.0) * 1000.0) as u32)
}

/// Encodes a whole body at once. Takes time: call it on a blocking thread if the body may be large.
pub(in crate::http) fn encode_whole(coding: Coding, body: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(coding)?;
    let mut encoded = encoder.push(body)?;
    encoded.append(&mut encoder.finish()?);
    Ok(encoded)
}

/// Encodes bytes incrementally.
pub(super) enum Encoder {
    Identity,
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
    /// All output has been returned.
    Ended,
}

impl Encoder {
    pub(super) fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Identity => Self::Identity,
            Coding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Coding::Zstd => Self::Zstd(ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?),
        })
    }

    /// Encodes bytes and returns the output that is ready, possibly none.
    pub(super) fn push(&mut self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(bytes),
            Self::Gzip(encoder) => {
                encoder.write_all(&bytes)?;
                Ok(mem::take(encoder.get_mut()))
            }
            Self::Zstd(encoder) => {
                encoder.write_all(&bytes)?;
                Ok(mem::take(encoder.get_mut()))
            }
            Self::Ended => Ok(Vec::new()),
        }
    }

    /// Returns the rest of the output, once.
    pub(super) fn finish(&mut self) -> io::Result<Vec<u8>> {
        match mem::replace(self, Self::Ended) {
            Self::Identity | Self::Ended => Ok(Vec::new()),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[track_caller]
    fn check(pairs: &[(&'static str, &str)], tag: Option<&str>, expected: ResponsePlan) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let tag = tag.map(|name| ContentTag::new(name.to_owned()));
        let planned = plan_response(&Method::GET, &headers, 100, tag.as_ref());
        assert_eq!(planned, expected, "{pairs:?}");
    }

    #[test]
    fn a_range_is_always_sent_uncompressed() {
        check(&[("accept-encoding", "zstd")], None, ResponsePlan::Whole(Coding::Zstd));
        check(
            &[("accept-encoding", "zstd"), ("range", "bytes=0-9")],
            None,
            ResponsePlan::Part(0..10),
        );
        check(
            &[("accept-encoding", "gzip"), ("range", "nonsense")],
            None,
            ResponsePlan::Whole(Coding::Gzip),
        );
        check(&[("range", "bytes=100-")], None, ResponsePlan::Outside);
    }

    #[test]
    fn a_range_applies_only_while_the_content_is_the_same() {
        let (range, part) = (("range", "bytes=0-9"), ResponsePlan::Part(0..10));
        check(&[range, ("if-range", "\"t\"")], Some("t"), part);
        let whole = ResponsePlan::Whole(Coding::Identity);
        for other in ["\"u\"", "W/\"t\"", "\"t-zstd\"", "Sun, 15 Nov 2026 06:00:00 GMT"] {
            check(&[range, ("if-range", other)], Some("t"), whole.clone());
        }
        check(&[range, ("if-range", "\"t\"")], None, whole);
    }

    #[test]
    fn cached_content_is_not_sent_again() {
        let same = ResponsePlan::NotModified(Coding::Identity);
        for known in ["\"t\"", "\"a\", W/\"t\"", "*"] {
            check(&[("if-none-match", known)], Some("t"), same.clone());
        }
        check(&[("if-none-match", "\"t\""), ("range", "bytes=0-9")], Some("t"), same);
        check(&[("if-none-match", "\"u\"")], Some("t"), ResponsePlan::Whole(Coding::Identity));
        check(&[("if-none-match", "*")], None, ResponsePlan::Whole(Coding::Identity));
        let zstd = ("accept-encoding", "zstd");
        check(&[("if-none-match", "\"t\""), zstd], Some("t"), ResponsePlan::Whole(Coding::Zstd));
        let known = [("if-none-match", "\"t-zstd\""), zstd];
        check(&known, Some("t"), ResponsePlan::NotModified(Coding::Zstd));
    }

    #[test]
    fn only_get_has_ranges() {
        let headers = HeaderMap::from_iter([(RANGE, "bytes=500-".parse().unwrap())]);
        let planned = plan_response(&Method::HEAD, &headers, 100, None);
        assert_eq!(planned, ResponsePlan::Whole(Coding::Identity));
    }

    #[test]
    fn the_coding_is_the_one_that_the_client_prefers() {
        for (accepted, expected) in [
            ("", Coding::Identity),
            ("gzip", Coding::Gzip),
            ("gzip, deflate, br, zstd", Coding::Zstd),
            ("zstd;q=0.5, gzip;q=0.8", Coding::Gzip),
            ("zstd; q=0, GZIP;Q=0.001", Coding::Gzip),
            ("x-gzip", Coding::Gzip),
            ("*", Coding::Zstd),
            ("*;q=0", Coding::Identity),
            ("identity;q=0", Coding::Identity),
            ("identity;q=1, gzip;q=0.5", Coding::Identity),
            ("identity;q=0.5, gzip", Coding::Gzip),
            ("br, deflate", Coding::Identity),
            ("gzip;q=x", Coding::Identity),
            ("gzip;q=nan", Coding::Identity),
        ] {
            assert_eq!(Coding::choose(Some(accepted)), expected, "{accepted}");
        }
        assert_eq!(Coding::choose(None), Coding::Identity);
    }

    fn encoded(coding: Coding, blocks: &[&[u8]]) -> Vec<u8> {
        let mut encoder = Encoder::new(coding).unwrap();
        let mut sent = Vec::new();
        for block in blocks {
            sent.extend(encoder.push(block.to_vec()).unwrap());
        }
        sent.extend(encoder.finish().unwrap());
        assert!(encoder.finish().unwrap().is_empty());
        sent
    }

    #[test]
    fn encoded_output_decodes_to_the_same_bytes() {
        for blocks in [&[&b"one\n"[..], b"two\n"][..], &[]] {
            let whole = blocks.concat();
            assert_eq!(encoded(Coding::Identity, blocks), whole);
            assert_eq!(zstd::decode_all(&encoded(Coding::Zstd, blocks)[..]).unwrap(), whole);
            let mut unzipped = Vec::new();
            let zipped = encoded(Coding::Gzip, blocks);
            flate2::read::GzDecoder::new(&zipped[..]).read_to_end(&mut unzipped).unwrap();
            assert_eq!(unzipped, whole);
        }
    }
}

#[cfg(test)]
mod range_tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(header: &str, length: u64, expected: RequestedRange) {
        assert_eq!(range(Some(header), length), expected, "{header} of {length}");
    }

    #[test]
    fn ranges_follow_the_rfc() {
        assert_eq!(range(None, 100), RequestedRange::Whole);
        check("bytes=0-0", 100, RequestedRange::Part(0..1));
        check("bytes=10-19", 100, RequestedRange::Part(10..20));
        check("Bytes = 10-", 100, RequestedRange::Part(10..100));
        check("bytes=-30", 100, RequestedRange::Part(70..100));
        check("bytes=90-1000", 100, RequestedRange::Part(90..100));
        check("bytes=-1000", 100, RequestedRange::Part(0..100));
        check("bytes=0-99999999999999999999999", 100, RequestedRange::Part(0..100));
    }

    #[test]
    fn ranges_past_the_end_are_outside() {
        for header in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=99999999999999999999999-"]
        {
            check(header, 100, RequestedRange::Outside);
        }
        check("bytes=0-", 0, RequestedRange::Outside);
        check("bytes=-5", 0, RequestedRange::Whole);
    }

    #[test]
    fn meaningless_ranges_are_ignored() {
        for header in
            ["", "bytes", "bytes=", "bytes=-", "bytes=5-1", "bytes=a-b", "lines=1-2", "bytes=+1-2"]
        {
            check(header, 100, RequestedRange::Whole);
        }
        check("bytes=0-1,5-6", 100, RequestedRange::Whole);
    }

    proptest! {
        #[test]
        fn a_range_is_never_empty_and_always_inside_the_content(header in "bytes=[0-9]{0,4}-[0-9]{0,4}", length in 0..9000u64) {
            if let RequestedRange::Part(range) = range(Some(&header), length) {
                prop_assert!(range.start < range.end && range.end <= length);
            }
        }
    }
}
