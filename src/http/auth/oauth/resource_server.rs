//! Access tokens in, grants out.

use axum::http::HeaderMap;
use axum::response::Response;

use super::keys::Keys;
use super::metadata;
use super::settings::OauthSettings;
use super::signatures;
use super::verify::{Grant, Unverified};
use crate::http::auth::denied::{BadToken, Help};
use crate::yard::Role;

/// Takes the access tokens of one issuer.
#[derive(Debug)]
pub(in crate::http::auth) struct ResourceServer {
    rules: OauthSettings,
    keys: Keys,
}

impl ResourceServer {
    /// One with these rules; keys are had when the first token comes.
    pub(in crate::http::auth) fn new(rules: OauthSettings) -> Self {
        signatures::install();
        let keys = Keys::new(rules.keys.clone(), &rules.issuer, rules.refresh);
        Self { rules, keys }
    }

    /// What a token stands for. A key that is not known may be a new one, and is looked for.
    pub(in crate::http::auth) async fn verify(&self, token: &str) -> Result<Grant, BadToken> {
        let token = Unverified::read(token)?;
        let known = self.keys.now().await.filter(|keys| token.is_known(keys));
        let keys = match known {
            Some(keys) => keys,
            None => self.keys.renewed().await.ok_or(BadToken::NoKeys)?,
        };
        token.verify(&keys, &self.rules)
    }

    /// What a client without the rights of this role is told.
    pub(in crate::http::auth) fn help(&self, role: Role, headers: &HeaderMap) -> Help {
        Help {
            metadata: metadata::address(&metadata::resource(&self.rules, headers)),
            scope: self.rules.scopes.of(role).to_owned(),
        }
    }

    /// Where clients look for the metadata that know the configured resource.
    pub(in crate::http::auth) fn metadata_path(&self) -> Option<String> {
        metadata::path(&self.rules)
    }

    /// The metadata of RFC 9728.
    pub(in crate::http::auth) fn metadata(&self, headers: &HeaderMap) -> Response {
        metadata::response(&self.rules, headers)
    }
}
