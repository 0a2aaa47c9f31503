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

mod discover;
mod fetch;
mod key_set;
mod keys;
mod metadata;
mod resource_server;
mod settings;
mod signatures;
#[cfg(test)]
mod test_issuer;
mod verify;
#[cfg(test)]
mod verify_tests;

pub(super) use resource_server::ResourceServer;
pub use settings::{KeySource, OauthMistake, OauthSettings, Scopes};
pub(super) use verify::Grant;

pub(in crate::http) use metadata::WELL_KNOWN;
