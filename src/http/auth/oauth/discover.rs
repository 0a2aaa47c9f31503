//! Where an issuer says that its keys are: RFC 8414, and OpenID Connect Discovery.

use axum::body::Bytes;
use serde::Deserialize;
use thiserror::Error;

use super::fetch::{FetchError, fetch};

/// What an issuer says of itself, as far as we ask.
#[derive(Debug, Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

/// Why it is not known where the keys are.
#[derive(Debug, Error)]
pub(super) enum DiscoverError {
    #[error("the issuer's metadata cannot be fetched ({url}); set oauth.jwks if it has none")]
    Fetch { url: String, source: FetchError },
    #[error("the issuer's metadata cannot be read ({url})")]
    Unreadable { url: String, source: serde_json::Error },
    #[error("the metadata at {url} is that of another issuer; check oauth.issuer")]
    OtherIssuer { url: String },
}

/// The URL of the issuer's keys.
pub(super) async fn keys_url(issuer: &str) -> Result<String, DiscoverError> {
    let [first, others @ ..] = places(issuer);
    let mut found = try_place(issuer, first).await;
    for place in others {
        if found.is_ok() {
            break;
        }
        // The first refusal is told: the others are ways to write the same thing.
        found = try_place(issuer, place).await.or(found);
    }
    found
}

async fn try_place(issuer: &str, url: String) -> Result<String, DiscoverError> {
    match fetch(&url).await {
        Ok(json) => read(issuer, url, &json),
        Err(source) => Err(DiscoverError::Fetch { url, source }),
    }
}

/// RFC 8414 §3.3: metadata of another issuer must not be used.
fn read(issuer: &str, url: String, json: &Bytes) -> Result<String, DiscoverError> {
    let metadata: IssuerMetadata = match serde_json::from_slice(json) {
        Ok(metadata) => metadata,
        Err(source) => return Err(DiscoverError::Unreadable { url, source }),
    };
    if metadata.issuer == issuer {
        Ok(metadata.jwks_uri)
    } else {
        Err(DiscoverError::OtherIssuer { url })
    }
}

/// Where metadata may be, in the order in which MCP asks clients to try: between host and path
/// (RFC 8414 for both kinds), then behind the path (OpenID).
fn places(issuer: &str) -> [String; 3] {
    let issuer = issuer.trim_end_matches('/');
    let host = issuer.find("://").map_or(0, |at| at + "://".len());
    let path = issuer[host..].find('/').map_or(issuer.len(), |at| host + at);
    let (origin, path) = issuer.split_at(path);
    [
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
        format!("{origin}{path}/.well-known/openid-configuration"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_where_both_standards_put_it() {
        for issuer in ["https://id.example.org", "https://id.example.org/"] {
            assert_eq!(
                places(issuer),
                [
                    "https://id.example.org/.well-known/oauth-authorization-server",
                    "https://id.example.org/.well-known/openid-configuration",
                    "https://id.example.org/.well-known/openid-configuration",
                ]
            );
        }
        assert_eq!(
            places("https://id.example.org:8443/realms/a"),
            [
                "https://id.example.org:8443/.well-known/oauth-authorization-server/realms/a",
                "https://id.example.org:8443/.well-known/openid-configuration/realms/a",
                "https://id.example.org:8443/realms/a/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn only_the_issuers_own_metadata_counts() {
        let read = |json: &'static str| {
            read("https://a.example", "https://x".to_owned(), &Bytes::from_static(json.as_bytes()))
        };
        let own = r#"{"issuer": "https://a.example", "jwks_uri": "https://a.example/k", "x": 1}"#;
        assert_eq!(read(own).unwrap(), "https://a.example/k");
        let other = r#"{"issuer": "https://a.example/", "jwks_uri": "https://a.example/k"}"#;
        assert!(matches!(read(other), Err(DiscoverError::OtherIssuer { .. })));
        for odd in ["", "[]", r#"{"issuer": "https://a.example"}"#] {
            assert!(matches!(read(odd), Err(DiscoverError::Unreadable { .. })), "{odd}");
        }
    }
}
