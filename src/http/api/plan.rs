//! What is sent for a request, decided on its headers alone.

use std::ops::Range;

use axum::http::header::{ACCEPT_ENCODING, IF_NONE_MATCH, IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderName, Method};

use super::coding::Coding;
use super::range::{Asked, asked};

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// That the client has it already, in this coding.
    NotModified(Coding),
    /// Everything, in this coding.
    Whole(Coding),
    /// These bytes, as they are.
    Part(Range<u64>),
    /// That there are no such bytes.
    Outside,
}

/// The name of content that will never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag(String);

impl Tag {
    /// A tag of these characters, which must be fit for one.
    pub(super) const fn new(name: String) -> Self {
        Self(name)
    }

    /// The entity tag of one form of it: each coding has its own.
    pub(super) fn of(&self, coding: Coding) -> String {
        match coding {
            Coding::Identity => format!("\"{}\"", self.0),
            Coding::Gzip | Coding::Zstd => format!("\"{}-{}\"", self.0, coding.name()),
        }
    }
}

/// What to send of `length` bytes; they have a tag once they are all there will ever be.
pub(super) fn plan(method: &Method, headers: &HeaderMap, length: u64, tag: Option<&Tag>) -> Plan {
    let coding = Coding::chosen(joined(headers, &ACCEPT_ENCODING).as_deref());
    let asked = asked_of(method, headers, length, tag);
    let form = if asked == Asked::Whole { coding } else { Coding::Identity };
    // Before the range, as RFC 9110 orders it (section 13.2.2).
    if tag.is_some_and(|tag| is_known(headers, &tag.of(form))) {
        return Plan::NotModified(form);
    }
    match asked {
        Asked::Whole => Plan::Whole(coding),
        Asked::Part(range) => Plan::Part(range),
        Asked::Outside => Plan::Outside,
    }
}

/// The range that counts: only GET has one, and only while `If-Range` holds.
fn asked_of(method: &Method, headers: &HeaderMap, length: u64, tag: Option<&Tag>) -> Asked {
    let holds = match joined(headers, &IF_RANGE) {
        None => true,
        Some(wanted) => tag.is_some_and(|tag| tag.of(Coding::Identity) == wanted.trim()),
    };
    if method == Method::GET && holds {
        asked(joined(headers, &RANGE).as_deref(), length)
    } else {
        Asked::Whole
    }
}

/// Whether `If-None-Match` names this tag. Weak tags will do there.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = joined(headers, &IF_NONE_MATCH).unwrap_or_default();
    known.split(',').map(str::trim).any(|known| {
        known == "*" || known == tag || known.strip_prefix("W/").is_some_and(|weak| weak == tag)
    })
}

/// All values of a header, as one list.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<&str> =
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&'static str, &str)], tag: Option<&str>, expected: Plan) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let tag = tag.map(|name| Tag::new(name.to_owned()));
        let planned = plan(&Method::GET, &headers, 100, tag.as_ref());
        assert_eq!(planned, expected, "{pairs:?}");
    }

    #[test]
    fn a_range_is_always_sent_as_it_is() {
        check(&[("accept-encoding", "zstd")], None, Plan::Whole(Coding::Zstd));
        check(&[("accept-encoding", "zstd"), ("range", "bytes=0-9")], None, Plan::Part(0..10));
        check(
            &[("accept-encoding", "gzip"), ("range", "nonsense")],
            None,
            Plan::Whole(Coding::Gzip),
        );
        check(&[("range", "bytes=100-")], None, Plan::Outside);
    }

    #[test]
    fn a_range_counts_only_while_the_content_is_the_same() {
        let (range, part) = (("range", "bytes=0-9"), Plan::Part(0..10));
        check(&[range, ("if-range", "\"t\"")], Some("t"), part);
        let whole = Plan::Whole(Coding::Identity);
        for other in ["\"u\"", "W/\"t\"", "\"t-zstd\"", "Sun, 15 Nov 2026 06:00:00 GMT"] {
            check(&[range, ("if-range", other)], Some("t"), whole.clone());
        }
        check(&[range, ("if-range", "\"t\"")], None, whole);
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let same = Plan::NotModified(Coding::Identity);
        for known in ["\"t\"", "\"a\", W/\"t\"", "*"] {
            check(&[("if-none-match", known)], Some("t"), same.clone());
        }
        check(&[("if-none-match", "\"t\""), ("range", "bytes=0-9")], Some("t"), same);
        check(&[("if-none-match", "\"u\"")], Some("t"), Plan::Whole(Coding::Identity));
        check(&[("if-none-match", "*")], None, Plan::Whole(Coding::Identity));
        let zstd = ("accept-encoding", "zstd");
        check(&[("if-none-match", "\"t\""), zstd], Some("t"), Plan::Whole(Coding::Zstd));
        let known = [("if-none-match", "\"t-zstd\""), zstd];
        check(&known, Some("t"), Plan::NotModified(Coding::Zstd));
    }

    #[test]
    fn only_get_has_ranges() {
        let headers = HeaderMap::from_iter([(RANGE, "bytes=500-".parse().unwrap())]);
        let planned = plan(&Method::HEAD, &headers, 100, None);
        assert_eq!(planned, Plan::Whole(Coding::Identity));
    }
}
