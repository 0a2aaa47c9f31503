//! Authentication of callers: by bearer tokens from a file, by access tokens of an authorization
//! server, or not at all on loopback without tokens.
//!
//! ```text
//! Authorization ─▶ Authenticator::identify ─┬▶ LiveTokens (token file, hashes) ─┬▶ Credential
//!                                           └▶ oauth: JWT, keys of the issuer ──┴▶ AccessDenied
//!                                                                                  (401, 403)
//! ```
//!
//! **Invariant:** once tokens are required, they stay required until the server ends, whatever
//! happens to their file.
//! **Invariant:** a stream ends with the credential that opened it: [`Credential::ended`] cuts open
//! streams.

mod authenticate;
mod file_watcher;
mod oauth;
mod oauth_keys;
mod token;
mod token_file;

pub use authenticate::{
    AccessDenied, AuthError, AuthSettings, Authenticator, BadToken, Credential,
};
pub use oauth::{OauthConfig, OauthConfigError, OauthKeySource, OauthScopes};
pub use token::{
    TokenEntry, TokenFile, TokenHash, TokenId, TokenLabel, TokenLineError, TokenSecret, UnixTime,
};
pub use token_file::{TokenFilePath, TokenStore, TokenStoreError};

pub(super) use oauth::WELL_KNOWN;
