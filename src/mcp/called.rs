//! What a message asks for, before anybody answers it.

use serde_json::Value;

/// What a message does that not everybody may do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// It calls the tool of this name.
    Tool(String),
    /// It ends a task, or answers one.
    TaskChange,
}

impl Called {
    /// Read as rmcp reads it: the last of two equal keys counts.
    pub(super) fn by(message: &[u8]) -> Option<Self> {
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
    fn what_a_message_calls_is_found_in_any_form() {
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "run_command"}});
        let tool = |name: &str| Some(Called::Tool(name.to_owned()));
        assert_eq!(Called::by(call.to_string().as_bytes()), tool("run_command"));
        let twice = br#"{"method":"ping","params":{"name":"a","name":"b"},"method":"tools/call"}"#;
        assert_eq!(Called::by(twice), tool("b"));
        for change in ["tasks/cancel", "tasks/update"] {
            let message = json!({"method": change}).to_string();
            assert_eq!(Called::by(message.as_bytes()), Some(Called::TaskChange));
        }
        let look = r#"{"method":"tasks/get","params":{"taskId":"1"}}"#;
        let list = r#"{"method":"tools/list","params":{"name":"run_command"}}"#;
        for other in ["", "[]", "{}", look, list] {
            assert_eq!(Called::by(other.as_bytes()), None, "{other}");
        }
    }
}
