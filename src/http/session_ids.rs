//! The ids of legacy sessions, from which a session can be continued.
//!
//! Some clients never initialize again: they keep the id of their session over a restart of the
//! server. So an id carries the handshake of its client, signed for its tenant with a key that stays
//! in the data directory. A server that has lost the session repeats the handshake from the id. An
//! id that was not issued here, or was issued to another tenant, has no valid signature.
//!
//! ```text
//! UUID . handshake (JSON in base64url) . signature (base64url)
//! ```

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::HEXLOWER;
use ring::hmac;
use rmcp::transport::common::server_side_http::session_id;
use rmcp::transport::streamable_http_server::session::SessionId;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::bounded_read::read_text;
use crate::ids::TenantId;
use crate::private_files::Symlinks;

const KEY_BYTES: usize = 32;

/// The largest handshake in an id, as JSON. A larger one loses its capabilities. Servers and proxies
/// accept some kilobytes of headers.
const MAX_HANDSHAKE_BYTES: usize = 1024;

/// The longest name or version of a client in an id, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The key that signs session ids.
#[derive(Debug, Clone)]
pub struct SessionKey(hmac::Key);

impl SessionKey {
    /// Reads the key from its file, which is created if it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read or created, or holds no key.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match read_text(path, Symlinks::Refuse) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.is_missing() => Self::create(path),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn parse(text: &str) -> io::Result<Self> {
        let bytes = HEXLOWER.decode(text.trim().as_bytes()).unwrap_or_default();
        if bytes.len() == KEY_BYTES {
            return Ok(Self::from_bytes(&bytes));
        }
        let text = "it holds no key; delete it, and the next start creates a new one";
        Err(io::Error::new(ErrorKind::InvalidData, text))
    }

    fn create(path: &Path) -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes)?;
        // Temporary files are for their owner alone.
        let mut file = NamedTempFile::new_in(path.parent().unwrap_or_else(|| Path::new(".")))?;
        file.write_all(HEXLOWER.encode(&bytes).as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(Self::from_bytes(&bytes))
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns a new id for a session of this tenant that was opened with these parameters of
    /// `initialize`.
    pub(super) fn issue_id(&self, tenant: Option<TenantId>, params: &Value) -> SessionId {
        let handshake = URL_SAFE_NO_PAD.encode(shorten_handshake(params).to_string());
        let signed = format!("{}.{handshake}", session_id());
        let signature = hmac::sign(&self.0, &signed_text(tenant, &signed));
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)).into()
    }

    /// Returns the parameters of `initialize` from an id that was issued to this tenant.
    pub(super) fn read_handshake(&self, tenant: Option<TenantId>, id: &str) -> Option<Value> {
        let (signed, signature) = id.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.0, &signed_text(tenant, signed), &signature).ok()?;
        let (_, handshake) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(handshake).ok()?).ok()
    }
}

fn signed_text(tenant: Option<TenantId>, signed: &str) -> Vec<u8> {
    let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
    format!("{tenant}\0{signed}").into_bytes()
}

/// Reduces the parameters of `initialize` to those that matter later, within a fixed size.
fn shorten_handshake(params: &Value) -> Value {
    let shorten = |text: &Value| -> String {
        text.as_str().unwrap_or_default().chars().take(MAX_NAME_CHARS).collect()
    };
    let with_capabilities = |capabilities: Value| {
        json!({
            "protocolVersion": shorten(&params["protocolVersion"]),
            "capabilities": capabilities,
            "clientInfo": {
                "name": shorten(&params["clientInfo"]["name"]),
                "version": shorten(&params["clientInfo"]["version"]),
            },
        })
    };
    let all = with_capabilities(params["capabilities"].clone());
    let is_small = all.to_string().len() <= MAX_HANDSHAKE_BYTES;
    if is_small && params["capabilities"].is_object() { all } else { with_capabilities(json!({})) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn params(capabilities: Value) -> Value {
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "clientInfo": {"name": "c", "version": "1"},
        })
    }

    fn tenant(name: &str) -> Option<TenantId> {
        TenantId::parse(name).ok()
    }

    #[test]
    fn an_id_gives_its_handshake_to_its_tenant_alone() {
        let key = SessionKey::from_bytes(&[7; KEY_BYTES]);
        let [ours, theirs] = ["ids-a", "ids-b"].map(tenant);
        let params = params(json!({"elicitation": {}}));
        let id = key.issue_id(ours, &params);
        assert_eq!(key.read_handshake(ours, &id), Some(params.clone()));
        assert_eq!(key.read_handshake(theirs, &id), None);
        assert_eq!(key.read_handshake(None, &id), None);
        assert_eq!(SessionKey::from_bytes(&[8; KEY_BYTES]).read_handshake(ours, &id), None);
        assert_ne!(key.issue_id(ours, &params), id, "each id is new");
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        for made_up in ["", "none", "a.b", "a.b.c", &id[1..], &id[..id.len() - 1]] {
            assert_eq!(key.read_handshake(ours, made_up), None, "{made_up}");
        }
    }

    #[test]
    fn an_id_stays_small() {
        let key = SessionKey::from_bytes(&[7; KEY_BYTES]);
        let long = "é".repeat(100_000);
        let large = json!({
            "protocolVersion": &long,
            "capabilities": {"experimental": &long},
            "clientInfo": {"name": &long, "version": &long, "icons": [&long]},
        });
        let id = key.issue_id(None, &large);
        assert!(id.len() < 2048, "{}", id.len());
        let handshake = key.read_handshake(None, &id).unwrap();
        assert_eq!(handshake["capabilities"], json!({}));
        assert_eq!(handshake["clientInfo"]["name"], "é".repeat(MAX_NAME_CHARS));
    }

    #[test]
    fn the_key_is_created_once_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session-key");
        let id = SessionKey::load_or_create(&path).unwrap().issue_id(None, &Value::Null);
        assert!(SessionKey::load_or_create(&path).unwrap().read_handshake(None, &id).is_some());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert_eq!(SessionKey::load_or_create(&path).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
