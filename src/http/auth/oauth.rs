//! A resource server of OAuth 2.1: access tokens that an authorization server signed.
//!
//! ```text
//! token ─▶ ResourceServer::verify ─▶ Keys (file, URL or discovery; kept, fetched again)
//!                    │                  └▶ KeySet ─▶ verify (pure: signature, claims)
//!                    └────────────────────────────▶ Grant { tenant, role, until }
//! ```
//!
//! **Invariant:** only signatures by public keys count: neither `none` nor a shared secret is ever
//! accepted, whatever a token or a key says of itself.
//! **Invariant:** keys are fetched by one at a time, and at most once in ten seconds, however many
//! tokens name keys that nobody knows.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use thiserror::Error;

use super::denied::{BadToken, Help};
use super::oauth_keys::{Keys, is_fetched};
use super::oauth_verify::{Grant, Unverified, install};
use crate::bounded_read::{BoundedReadError, read_text};
use crate::ids::TenantId;
use crate::private_files::Links;
use crate::service::CallerRole;

/// Takes the access tokens of one issuer.
#[derive(Debug)]
pub(super) struct ResourceServer {
    rules: OauthSettings,
    keys: Keys,
}

impl ResourceServer {
    /// One with these rules; keys are had when the first token comes.
    pub(super) fn new(rules: OauthSettings) -> Self {
        install();
        let keys = Keys::new(rules.keys.clone(), &rules.issuer, rules.refresh);
        Self { rules, keys }
    }

    /// What a token stands for. A key that is not known may be a new one, and is looked for.
    pub(super) async fn verify(&self, token: &str) -> Result<Grant, BadToken> {
        let token = Unverified::read(token)?;
        let known = self.keys.now().await.filter(|keys| token.is_known(keys));
        let keys = match known {
            Some(keys) => keys,
            None => self.keys.renewed().await.ok_or(BadToken::NoKeys)?,
        };
        token.verify(&keys, &self.rules)
    }

    /// What a client without the rights of this role is told.
    pub(super) fn help(&self, role: CallerRole, headers: &HeaderMap) -> Help {
        Help {
            metadata: metadata_address(&resource_url(&self.rules, headers)),
            scope: self.rules.scopes.of(role).to_owned(),
        }
    }

    /// Where clients look for the metadata that know the configured resource.
    pub(super) fn metadata_path(&self) -> Option<String> {
        metadata_path(&self.rules)
    }

    /// The metadata of RFC 9728.
    pub(super) fn metadata(&self, headers: &HeaderMap) -> Response {
        metadata_response(&self.rules, headers)
    }
}

/// Whose access tokens are good, and what they stand for.
#[derive(Debug, Clone)]
pub struct OauthSettings {
    /// Who signs them, to the letter.
    pub issuer: String,
    /// The public URL of the MCP endpoint; `None` = what the client calls it.
    pub resource: Option<String>,
    /// The audience that they must have.
    pub audience: String,
    /// Where the issuer's keys are.
    pub keys: KeySource,
    /// Keys are fetched again after this long.
    pub refresh: Duration,
    /// The claim whose value is the tenant.
    pub tenant_claim: String,
    /// Values of that claim and their tenants; if there is any, nobody else comes in.
    pub tenants: HashMap<String, TenantId>,
    /// What takes which scope.
    pub scopes: Scopes,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// How clients reach us where no resource is named: `http` or `https`.
    pub scheme: &'static str,
    /// The path of the MCP endpoint.
    pub path: String,
}

/// What is wrong with these settings. Each text says what to do about it.
#[derive(Debug, Error)]
pub enum OauthMistake {
    /// Whoever stands between could bring keys of its own.
    #[error("oauth.{key} cannot be `{url}`: give an https URL, or an http URL on loopback")]
    Url {
        /// The setting.
        key: &'static str,
        /// Its value.
        url: String,
    },
    /// The file of the keys.
    #[error("cannot read the keys in `{}`; name a readable file in oauth.jwks", .path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: BoundedReadError,
    },
    /// A scope that no token can have.
    #[error("oauth.{key} cannot be `{scope}`: a scope is one word without spaces")]
    Scope {
        /// The setting.
        key: &'static str,
        /// Its value.
        scope: String,
    },
    /// Whoever may do the lesser could do the other.
    #[error(
        "`{scope}` stands for two roles; give oauth.read_scope, run_scope and admin_scope a word each"
    )]
    SameScope {
        /// The scope.
        scope: String,
    },
}

impl OauthSettings {
    /// What would let nobody in, or the wrong ones, before anybody relies on it.
    pub(super) fn check(&self) -> Result<(), OauthMistake> {
        match &self.keys {
            KeySource::File(path) => read_text(path, Links::Follow)
                .map(drop)
                .map_err(|source| OauthMistake::Keys { path: path.clone(), source })?,
            KeySource::Url(url) => check_url("jwks", url)?,
            KeySource::Issuer => check_url("issuer", &self.issuer)?,
        }
        if self.issuer.starts_with("http://") {
            check_url("issuer", &self.issuer)?;
        }
        self.scopes.check()
    }
}

fn check_url(key: &'static str, url: &str) -> Result<(), OauthMistake> {
    let is_safe = is_fetched(url);
    if is_safe { Ok(()) } else { Err(OauthMistake::Url { key, url: url.to_owned() }) }
}

/// Where the issuer's keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file.
    File(PathBuf),
    /// At a URL.
    Url(String),
    /// Where the issuer's metadata says.
    Issuer,
}

/// What takes which scope.
#[derive(Debug, Clone)]
pub struct Scopes {
    /// To look.
    pub read: String,
    /// To run commands.
    pub run: String,
    /// To see and change what concerns all tenants.
    pub admin: String,
}

impl Scopes {
    fn check(&self) -> Result<(), OauthMistake> {
        let named =
            [("read_scope", &self.read), ("run_scope", &self.run), ("admin_scope", &self.admin)];
        for (key, scope) in named {
            if scope.is_empty() || scope.contains(char::is_whitespace) {
                return Err(OauthMistake::Scope { key, scope: scope.clone() });
            }
        }
        let is_twice =
            |scope: &&&String| named.iter().filter(|(_, other)| other == *scope).count() > 1;
        match [&self.read, &self.run].iter().find(is_twice) {
            Some(scope) => Err(OauthMistake::SameScope { scope: (*scope).clone() }),
            None => Ok(()),
        }
    }

    /// The scope that a role takes.
    pub(super) fn of(&self, role: CallerRole) -> &str {
        match role {
            CallerRole::Read => &self.read,
            CallerRole::Run => &self.run,
            CallerRole::Admin => &self.admin,
        }
    }

    /// The highest role that these scopes give.
    pub(super) fn role(&self, granted: &[&str]) -> Option<CallerRole> {
        let roles = [CallerRole::Admin, CallerRole::Run, CallerRole::Read];
        roles.into_iter().find(|role| granted.contains(&self.of(*role)))
    }
}

/// Where it is said, before the path of the resource.
pub(in crate::http) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The URL of the MCP endpoint: as configured, or as the client calls it. The guard has checked
/// that its `Host` is one of ours.
fn resource_url(rules: &OauthSettings, headers: &HeaderMap) -> String {
    if let Some(resource) = &rules.resource {
        return resource.clone();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    format!("{}://{host}{}", rules.scheme, rules.path)
}

/// Where the metadata of this resource is: between its host and its path (RFC 9728 §3.1).
fn metadata_address(resource: &str) -> String {
    let host = resource.find("://").map_or(0, |at| at + "://".len());
    let path = resource[host..].find('/').map_or(resource.len(), |at| host + at);
    let (origin, path) = resource.split_at(path);
    format!("{origin}{WELL_KNOWN}{}", if path == "/" { "" } else { path })
}

/// The path of the metadata of the resource that is configured, as a request has it.
fn metadata_path(rules: &OauthSettings) -> Option<String> {
    let address = metadata_address(rules.resource.as_ref()?);
    let path = address.get(address.find(WELL_KNOWN)?..)?;
    Some(path.split(['?', '#']).next()?.to_owned())
}

/// The metadata itself.
fn metadata_response(rules: &OauthSettings, headers: &HeaderMap) -> Response {
    let kind = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "max-age=300")];
    (kind, document(rules, headers).to_string()).into_response()
}

fn document(rules: &OauthSettings, headers: &HeaderMap) -> Value {
    let scopes = &rules.scopes;
    json!({
        "resource": resource_url(rules, headers),
        "authorization_servers": [rules.issuer],
        "scopes_supported": [scopes.read, scopes.run, scopes.admin],
        "bearer_methods_supported": ["header"],
        "resource_name": "Shellyard",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(issuer: &str, keys: KeySource, [read, run, admin]: [&str; 3]) -> String {
        let scopes = Scopes { read: read.into(), run: run.into(), admin: admin.into() };
        let settings = OauthSettings {
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
        let url = |url: &str| KeySource::Url(url.into());
        let https = "https://id.example";
        for (issuer, keys, scopes, word) in [
            (https, KeySource::Issuer, SCOPES, "fine"),
            ("http://127.0.0.1:9", KeySource::Issuer, SCOPES, "fine"),
            ("http://id.example", KeySource::Issuer, SCOPES, "oauth.issuer"),
            ("http://id.example", url("https://id.example/k"), SCOPES, "oauth.issuer"),
            (https, url("http://id.example/k"), SCOPES, "oauth.jwks"),
            (https, KeySource::File("/nowhere/keys".into()), SCOPES, "/nowhere/keys"),
            (https, KeySource::Issuer, ["", "w", "a"], "oauth.read_scope"),
            (https, KeySource::Issuer, ["r", "w x", "a"], "oauth.run_scope"),
            (https, KeySource::Issuer, ["r", "a", "a"], "two roles"),
            (https, KeySource::Issuer, ["a", "w", "a"], "two roles"),
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
            assert_eq!(metadata_address(resource), expected);
        }
    }
}
