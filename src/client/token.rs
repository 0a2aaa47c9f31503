//! The secret that lets a client in.

use std::fmt;

use hyper::header::{HeaderValue, InvalidHeaderValue};

/// A bearer token, ready to be sent. Never shown.
#[derive(Clone)]
pub struct Token(HeaderValue);

impl Token {
    /// The token with this text.
    ///
    /// # Errors
    /// When it cannot be sent: a control character is in it.
    pub fn new(text: &str) -> Result<Self, InvalidHeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {text}"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    pub(super) const fn header(&self) -> &HeaderValue {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
