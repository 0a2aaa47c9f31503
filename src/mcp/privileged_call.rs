//! Recognises messages that need the role `run`.

use serde_json::Value;

/// A message that needs the role `run`, or may need it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PrivilegedCall {
    /// Calls the tool of this name.
    Tool(String),
    /// Cancels a task or sends it input.
    TaskChange,
}

impl PrivilegedCall {
    /// Parses a message as rmcp does: if a key occurs twice, the last one wins.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        let message: Value = serde_json::from_slice(message).ok()?;
        match message.get("method")?.as_str()? {
            "tools/call" => {
                let name = message.get("params")?.get("name")?.as_str()?;
                Some(Self::Tool(name.to_owned()))
            }
            "tasks/cancel" | "tasks/update" => Some(Self::TaskChange),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_privileged_call_is_recognised_in_any_message() {
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "run_command"}});
        let tool = |name: &str| Some(PrivilegedCall::Tool(name.to_owned()));
        assert_eq!(PrivilegedCall::parse(call.to_string().as_bytes()), tool("run_command"));
        let twice = br#"{"method":"ping","params":{"name":"a","name":"b"},"method":"tools/call"}"#;
        assert_eq!(PrivilegedCall::parse(twice), tool("b"));
        for change in ["tasks/cancel", "tasks/update"] {
            let message = json!({"method": change}).to_string();
            assert_eq!(PrivilegedCall::parse(message.as_bytes()), Some(PrivilegedCall::TaskChange));
        }
        let look = r#"{"method":"tasks/get","params":{"taskId":"1"}}"#;
        let list = r#"{"method":"tools/list","params":{"name":"run_command"}}"#;
        for other in ["", "[]", "{}", look, list] {
            assert_eq!(PrivilegedCall::parse(other.as_bytes()), None, "{other}");
        }
    }
}
