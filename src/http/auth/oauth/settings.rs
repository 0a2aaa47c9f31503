//! Whose access tokens are good, and what they stand for.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::fetch;
use crate::bounded_read::{BoundedReadError, read_text};
use crate::ids::Tenant;
use crate::private_files::Links;
use crate::yard::Role;

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
    pub tenants: HashMap<String, Tenant>,
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
    pub(in crate::http::auth) fn check(&self) -> Result<(), OauthMistake> {
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
    let is_safe = fetch::is_fetched(url);
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
    pub(super) fn of(&self, role: Role) -> &str {
        match role {
            Role::Read => &self.read,
            Role::Run => &self.run,
            Role::Admin => &self.admin,
        }
    }

    /// The highest role that these scopes give.
    pub(super) fn role(&self, granted: &[&str]) -> Option<Role> {
        let roles = [Role::Admin, Role::Run, Role::Read];
        roles.into_iter().find(|role| granted.contains(&self.of(*role)))
    }
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
}
