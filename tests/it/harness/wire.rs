//! The two eras of MCP, as JSON.

use serde_json::{Value, json};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The protocol revision that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// `initialize` first, in this revision of the protocol.
    Legacy(&'static str),
    /// 2026-07-28: no handshake, every request carries its own metadata.
    Modern,
}

/// Every revision that is promised.
pub(crate) const ERAS: [Era; 5] = [
    Era::Legacy("2024-11-05"),
    Era::Legacy("2025-03-26"),
    Era::Legacy("2025-06-18"),
    Era::Legacy("2025-11-25"),
    Era::Modern,
];

impl Era {
    pub(crate) const fn version(self) -> &'static str {
        match self {
            Self::Legacy(version) => version,
            Self::Modern => "2026-07-28",
        }
    }

    /// A request as this era writes it.
    pub(crate) fn request(self, id: u64, method: &str, mut params: Value) -> Value {
        if self == Self::Modern {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!(self.version());
            meta["io.modelcontextprotocol/clientInfo"] = client_info();
            let capabilities = &mut meta[CAPABILITIES];
            if capabilities.is_null() {
                *capabilities = json!({});
            }
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// The headers that HTTP wants beside this message.
    pub(crate) fn headers(self, message: &Value) -> Vec<(String, String)> {
        let mut headers = vec![("MCP-Protocol-Version".to_owned(), self.version().to_owned())];
        if self == Self::Modern
            && let Some(method) = message["method"].as_str()
        {
            headers.push(("Mcp-Method".to_owned(), method.to_owned()));
            let params = &message["params"];
            let names = ["name", "uri", "taskId"].map(|name| params[name].as_str());
            if let Some(name) = names.into_iter().flatten().next() {
                headers.push(("Mcp-Name".to_owned(), name.to_owned()));
            }
        }
        headers
    }
}

/// The name of the extension by which a call may go on as a task.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The parameters of a modern request whose client can do this.
pub(crate) fn declaring(capabilities: Value, mut params: Value) -> Value {
    params["_meta"][CAPABILITIES] = capabilities;
    params
}

/// The parameters of `initialize`.
pub(crate) fn initialize_params(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client_info()})
}

/// A notification, which has no answer.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn client_info() -> Value {
    json!({"name": "it", "version": "1.0.0"})
}
