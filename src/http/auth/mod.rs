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

pub use authenticate::{Auth, AuthError, AuthSettings, Credential, TokenPlace};
pub use denied::{BadToken, Denied};
pub use oauth::{KeySource, OauthMistake, OauthSettings, Scopes};
pub use token::{Label, LineError, Moment, Secret, TokenEntry, TokenFile, TokenHash, TokenId};
pub use token_store::{StoreError, TokenStore};

pub(super) use authenticate::until_it_ends;
pub(super) use oauth::WELL_KNOWN;
