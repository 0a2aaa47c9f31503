//! Who calls: bearer tokens from a file, access tokens of an authorization server, or nobody in
//! particular on loopback.
//!
//! ```text
//! Authorization ─▶ Auth::identify ─┬▶ LiveTokens (token file, hashes) ─┐
//!                                  └▶ oauth: JWT, keys of the issuer ──┴▶ Credential { identity }
//!                                                                      └▶ Denied (401, 403)
//! ```
//!
//! **Invariant:** once tokens were asked for they are asked for until the server ends, whatever
//! happens to their file.
//! **Invariant:** what a credential opened ends with it: [`Credential::ended`] cuts open streams.

mod authenticate;
mod denied;
mod live_tokens;
mod oauth;
mod oauth_keys;
mod oauth_verify;
mod token;
mod token_store;

pub use authenticate::{AuthError, AuthSettings, Authenticator, Credential, TokenFilePath};
pub use denied::{AccessDenied, BadToken};
pub use oauth::{OauthConfig, OauthConfigError, OauthKeySource, OauthScopes};
pub use token::{
    TokenEntry, TokenFile, TokenHash, TokenId, TokenLabel, TokenLineError, TokenSecret, UnixTime,
};
pub use token_store::{TokenStore, TokenStoreError};

pub(super) use authenticate::cut_when_revoked;
pub(super) use oauth::WELL_KNOWN;
