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

mod bearer;
mod credential;
mod denied;
mod door;
mod ended_body;
mod live_tokens;
mod moment;
mod oauth;
mod store;
mod token;
mod token_file;
mod watched;

pub use credential::Credential;
pub use denied::{BadToken, Denied};
pub use door::{Auth, AuthError, AuthSettings, TokenPlace};
pub use moment::Moment;
pub use oauth::{KeySource, OauthMistake, OauthSettings, Scopes};
pub use store::{StoreError, TokenStore};
pub use token::{Secret, TokenHash, TokenId};
pub use token_file::{Label, LineError, TokenEntry, TokenFile};

pub(super) use ended_body::until_it_ends;
pub(super) use oauth::WELL_KNOWN;
