//! An OAuth 2.1 resource server: accepts access tokens that an authorization server signed.
//!
//! ```text
//! token ─▶ ResourceServer::verify ─▶ IssuerKeys (file, URL or discovery; cached)
//!                    │                  └▶ KeySet ─▶ verify (pure: signature, claims)
//!                    └────────────────────────────▶ AccessGrant { tenant, role, until }
//! ```
//!
//! **Invariant:** only signatures by public keys are accepted, never `none` or a shared secret,
//! whatever a token or a key claims.
//! **Invariant:** at most one fetch of keys runs at a time, and at most one starts in ten seconds,
//! however many tokens name unknown keys.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use thiserror::Error;

use super::denied::{BadToken, ScopeHint};
use super::oauth_keys::{IssuerKeys, is_allowed_keys_url};
use super::oauth_verify::{AccessGrant, UnverifiedToken, install_crypto_provider};
use crate::bounded_read::{BoundedReadError, read_text};
use crate::ids::TenantId;
use crate::private_files::Symlinks;
use crate::service::CallerRole;

/// Verifies the access tokens of one issuer.
#[derive(Debug)]
pub(super) struct ResourceServer {
    config: OauthConfig,
    keys: IssuerKeys,
}

impl ResourceServer {
    /// Creates a resource server; the keys are loaded when the first token arrives.
    pub(super) fn new(config: OauthConfig) -> Self {
        install_crypto_provider();
        let keys = IssuerKeys::new(config.keys.clone(), &config.issuer, config.refresh);
        Self { config, keys }
    }

    /// Verifies a token and returns its rights. An unknown key may be a new one, so the keys are
    /// then fetched again.
    pub(super) async fn verify(&self, token: &str) -> Result<AccessGrant, BadToken> {
        let token = UnverifiedToken::read(token)?;
        let known = self.keys.now().await.filter(|keys| token.has_known_key(keys));
        let keys = match known {
            Some(keys) => keys,
            None => self.keys.refetch().await.ok_or(BadToken::NoKeys)?,
        };
        token.verify(&keys, &self.config)
    }

    /// Tells a client that lacks this role where and with which scope to get a token.
    pub(super) fn scope_hint(&self, role: CallerRole, headers: &HeaderMap) -> ScopeHint {
        ScopeHint {
            metadata: metadata_url(&resource_url(&self.config, headers)),
            scope: self.config.scopes.scope_for(role).to_owned(),
        }
    }

    /// The path at which clients that know the configured resource look for the metadata.
    pub(super) fn metadata_path(&self) -> Option<String> {
        metadata_path(&self.config)
    }

    /// The metadata response of RFC 9728.
    pub(super) fn metadata(&self, headers: &HeaderMap) -> Response {
        metadata_response(&self.config, headers)
    }
}

/// The issuer whose access tokens are accepted, and how they map to tenants and roles.
#[derive(Debug, Clone)]
pub struct OauthConfig {
    /// The issuer, compared character by character.
    pub issuer: String,
    /// The public URL of the MCP endpoint; `None`: the URL that the client uses.
    pub resource: Option<String>,
    /// The audience that tokens must have.
    pub audience: String,
    /// The location of the issuer's keys.
    pub keys: OauthKeySource,
    /// The age after which keys are fetched again.
    pub refresh: Duration,
    pub tenant_claim: String,
    /// The tenants by value of that claim; if the map is not empty, no other value is accepted.
    pub tenants: HashMap<String, TenantId>,
    /// The scope of each role.
    pub scopes: OauthScopes,
    /// The tolerated difference between clocks.
    pub leeway: Duration,
    /// The scheme in URLs of this server if no resource is configured: `http` or `https`.
    pub scheme: &'static str,
    pub path: String,
}

/// The reason why the OAuth settings cannot be used. Each text says what to do about it.
#[derive(Debug, Error)]
pub enum OauthConfigError {
    /// Keys over plain HTTP: an attacker in between could replace them.
    #[error("oauth.{key} cannot be `{url}`: give an https URL, or an http URL on loopback")]
    Url { key: &'static str, url: String },
    #[error("cannot read the keys in `{}`; name a readable file in oauth.jwks", .path.display())]
    KeyFile { path: PathBuf, source: BoundedReadError },
    #[error("oauth.{key} cannot be `{scope}`: a scope is one word without spaces")]
    Scope { key: &'static str, scope: String },
    /// Two roles with one scope: holders of the lower role would get the higher one.
    #[error(
        "`{scope}` stands for two roles; give oauth.read_scope, run_scope and admin_scope a word each"
    )]
    SameScope { scope: String },
}

impl OauthConfig {
    /// Checks for settings that would admit nobody or the wrong callers.
    pub(super) fn check(&self) -> Result<(), OauthConfigError> {
        match &self.keys {
            OauthKeySource::File(path) => read_text(path, Symlinks::Follow)
                .map(drop)
                .map_err(|source| OauthConfigError::KeyFile { path: path.clone(), source })?,
            OauthKeySource::Url(url) => check_url("jwks", url)?,
            OauthKeySource::Issuer => check_url("issuer", &self.issuer)?,
        }
        if self.issuer.starts_with("http://") {
            check_url("issuer", &self.issuer)?;
        }
        self.scopes.check()
    }
}

fn check_url(key: &'static str, url: &str) -> Result<(), OauthConfigError> {
    let is_safe = is_allowed_keys_url(url);
    if is_safe { Ok(()) } else { Err(OauthConfigError::Url { key, url: url.to_owned() }) }
}

/// The location of the issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OauthKeySource {
    File(PathBuf),
    Url(String),
    /// The URL that the issuer's metadata names.
    Issuer,
}

/// The scope of each role.
#[derive(Debug, Clone)]
pub struct OauthScopes {
    pub read: String,
    pub run: String,
    pub admin: String,
}

impl OauthScopes {
    fn check(&self) -> Result<(), OauthConfigError> {
        let named =
            [("read_scope", &self.read), ("run_scope", &self.run), ("admin_scope", &self.admin)];
        for (key, scope) in named {
            if scope.is_empty() || scope.contains(char::is_whitespace) {
                return Err(OauthConfigError::Scope { key, scope: scope.clone() });
            }
        }
        let is_twice =
            |scope: &&&String| named.iter().filter(|(_, other)| other == *scope).count() > 1;
        match [&self.read, &self.run].iter().find(is_twice) {
            Some(scope) => Err(OauthConfigError::SameScope { scope: (*scope).clone() }),
            None => Ok(()),
        }
    }

    /// The scope that grants a role.
    pub(super) fn scope_for(&self, role: CallerRole) -> &str {
        match role {
            CallerRole::Read => &self.read,
            CallerRole::Run => &self.run,
            CallerRole::Admin => &self.admin,
        }
    }

    /// Returns the highest role that these scopes grant.
    pub(super) fn role(&self, granted: &[&str]) -> Option<CallerRole> {
        let roles = [CallerRole::Admin, CallerRole::Run, CallerRole::Read];
        roles.into_iter().find(|role| granted.contains(&self.scope_for(*role)))
    }
}

/// The path prefix of the metadata, in front of the path of the resource.
pub(in crate::http) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The URL of the MCP endpoint: as configured, or as the client calls it. The guard has checked
/// that its `Host` is one of ours.
fn resource_url(config: &OauthConfig, headers: &HeaderMap) -> String {
    if let Some(resource) = &config.resource {
        return resource.clone();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    format!("{}://{host}{}", config.scheme, config.path)
}

/// The URL of the metadata of a resource: between its host and its path (RFC 9728 §3.1).
fn metadata_url(resource: &str) -> String {
    let host = resource.find("://").map_or(0, |at| at + "://".len());
    let path = resource[host..].find('/').map_or(resource.len(), |at| host + at);
    let (origin, path) = resource.split_at(path);
    format!("{origin}{WELL_KNOWN}{}", if path == "/" { "" } else { path })
}

/// The path of the metadata of the configured resource, as it appears in a request.
fn metadata_path(config: &OauthConfig) -> Option<String> {
    let address = metadata_url(config.resource.as_ref()?);
    let path = address.get(address.find(WELL_KNOWN)?..)?;
    Some(path.split(['?', '#']).next()?.to_owned())
}

fn metadata_response(config: &OauthConfig, headers: &HeaderMap) -> Response {
    let kind = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "max-age=300")];
    (kind, metadata_document(config, headers).to_string()).into_response()
}

fn metadata_document(config: &OauthConfig, headers: &HeaderMap) -> Value {
    let scopes = &config.scopes;
    json!({
        "resource": resource_url(config, headers),
        "authorization_servers": [config.issuer],
        "scopes_supported": [scopes.read, scopes.run, scopes.admin],
        "bearer_methods_supported": ["header"],
        "resource_name": "Shellyard",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(issuer: &str, keys: OauthKeySource, [read, run, admin]: [&str; 3]) -> String {
        let scopes = OauthScopes { read: read.into(), run: run.into(), admin: admin.into() };
        let settings = OauthConfig {
            issuer: issuer.into(),
            resource: None,
            audience: "a".into(),
            keys,
            refresh: Duration::from_secs(300),
            tenant_claim: "sub".into(),
            tenants: HashMap::new(),
            scopes,
            leeway: Duration::ZERO,
            scheme: "http",
            path: "/mcp".into(),
        };
        settings.check().map_or_else(|mistake| mistake.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn what_would_let_the_wrong_ones_in_is_refused() {
        const SCOPES: [&str; 3] = ["r", "w", "a"];
        let url = |url: &str| OauthKeySource::Url(url.into());
        let https = "https://id.example";
        for (issuer, keys, scopes, word) in [
            (https, OauthKeySource::Issuer, SCOPES, "fine"),
            ("http://127.0.0.1:9", OauthKeySource::Issuer, SCOPES, "fine"),
            ("http://id.example", OauthKeySource::Issuer, SCOPES, "oauth.issuer"),
            ("http://id.example", url("https://id.example/k"), SCOPES, "oauth.issuer"),
            (https, url("http://id.example/k"), SCOPES, "oauth.jwks"),
            (https, OauthKeySource::File("/nowhere/keys".into()), SCOPES, "/nowhere/keys"),
            (https, OauthKeySource::Issuer, ["", "w", "a"], "oauth.read_scope"),
            (https, OauthKeySource::Issuer, ["r", "w x", "a"], "oauth.run_scope"),
            (https, OauthKeySource::Issuer, ["r", "a", "a"], "two roles"),
            (https, OauthKeySource::Issuer, ["a", "w", "a"], "two roles"),
        ] {
            let said = checked(issuer, keys, scopes);
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn metadata_stands_between_host_and_path() {
        for (resource, expected) in [
            ("https://a.example/mcp", "https://a.example/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
            ("http://[::1]:1/x/y", "http://[::1]:1/.well-known/oauth-protected-resource/x/y"),
        ] {
            assert_eq!(metadata_url(resource), expected);
        }
    }
}
