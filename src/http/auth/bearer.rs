//! The token in a request's head.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

/// What a request shows to come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown<'a> {
    /// Nothing.
    Nothing,
    /// A bearer token.
    Bearer(&'a str),
    /// A credential of another scheme.
    OtherScheme,
    /// Something that is no single credential.
    Malformed,
}

/// What these headers show; two of a kind are as suspicious as something else.
pub(super) fn shown(headers: &HeaderMap) -> Shown<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => Shown::Nothing,
        (Some(value), None) => value.to_str().map_or(Shown::Malformed, credential),
        (Some(_), Some(_)) => Shown::Malformed,
    }
}

fn credential(value: &str) -> Shown<'_> {
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    match token.trim() {
        _ if scheme.is_empty() => Shown::Malformed,
        _ if !scheme.eq_ignore_ascii_case("bearer") => Shown::OtherScheme,
        "" => Shown::Malformed,
        token => Shown::Bearer(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&str], expected: Shown<'_>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        assert_eq!(shown(&headers), expected, "{values:?}");
    }

    #[test]
    fn only_one_bearer_token_is_one() {
        check(&[], Shown::Nothing);
        for value in ["Bearer alpha", "bearer alpha", "BEARER  alpha "] {
            check(&[value], Shown::Bearer("alpha"));
        }
        for value in ["Basic alpha", "Digest", "alpha"] {
            check(&[value], Shown::OtherScheme);
        }
        for value in ["Bearer", "Bearer ", ""] {
            check(&[value], Shown::Malformed);
        }
        check(&["Bearer alpha", "Bearer alpha"], Shown::Malformed);
    }
}
