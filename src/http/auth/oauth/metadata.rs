//! What we say of ourselves, so that clients find the authorization server (RFC 9728).

use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::settings::OauthSettings;

/// Where it is said, before the path of the resource.
pub(in crate::http) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The URL of the MCP endpoint: as configured, or as the client calls it. The guard has checked
/// that its `Host` is one of ours.
pub(super) fn resource(rules: &OauthSettings, headers: &HeaderMap) -> String {
    if let Some(resource) = &rules.resource {
        return resource.clone();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    format!("{}://{host}{}", rules.scheme, rules.path)
}

/// Where the metadata of this resource is: between its host and its path (RFC 9728 §3.1).
pub(super) fn address(resource: &str) -> String {
    let host = resource.find("://").map_or(0, |at| at + "://".len());
    let path = resource[host..].find('/').map_or(resource.len(), |at| host + at);
    let (origin, path) = resource.split_at(path);
    format!("{origin}{WELL_KNOWN}{}", if path == "/" { "" } else { path })
}

/// The path of the metadata of the resource that is configured, as a request has it.
pub(super) fn path(rules: &OauthSettings) -> Option<String> {
    let address = address(rules.resource.as_ref()?);
    let path = address.get(address.find(WELL_KNOWN)?..)?;
    Some(path.split(['?', '#']).next()?.to_owned())
}

/// The metadata itself.
pub(super) fn response(rules: &OauthSettings, headers: &HeaderMap) -> Response {
    let kind = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "max-age=300")];
    (kind, document(rules, headers).to_string()).into_response()
}

fn document(rules: &OauthSettings, headers: &HeaderMap) -> Value {
    let scopes = &rules.scopes;
    json!({
        "resource": resource(rules, headers),
        "authorization_servers": [rules.issuer],
        "scopes_supported": [scopes.read, scopes.run, scopes.admin],
        "bearer_methods_supported": ["header"],
        "resource_name": "Shellyard",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_stands_between_host_and_path() {
        for (resource, expected) in [
            ("https://a.example/mcp", "https://a.example/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
            ("http://[::1]:1/x/y", "http://[::1]:1/.well-known/oauth-protected-resource/x/y"),
        ] {
            assert_eq!(address(resource), expected);
        }
    }
}
