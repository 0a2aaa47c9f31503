//! The server's description of itself: its name, its icon, how its tools are used, and the methods
//! that it answers.

use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, Icon, Implementation, JsonRpcMessage, ProtocolVersion,
    ServerCapabilities, ServerConfig,
};
use serde_json::{Value, json};

use super::settings::{McpSettings, ServerName, ToolDialect};
use crate::telemetry::labels;

/// The icon: a prompt on a dark background, 32 by 32 pixels. PNG, because every client that shows
/// icons can show it.
const ICON: &str = "\
data:image/png;base64,\
iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAgMAAAAOFJJnAAAACVBMVEUAAAAfKTdK3oBfwLdEAAAAA3RSTlMA//9EUN\
YhAAAAUklEQVR42mNgEA0FghAGBtZQMAiACICEMBmhUICXEbYUJrISxsiCMaKmQhkQRSBdK2GMLHQRuBq4riyEyVmr\
lkLsgjBA+mEMQi7E40F4IMCCBQBIxVaGl01lZAAAAABJRU5ErkJggg==";

/// The instructions that a client may give to its model.
const INSTRUCTIONS: &str = "\
Shellyard runs shell commands as jobs. Each command gets a small job number; its whole output is \
kept and can be read again at any time.
- run_command answers as soon as the command ends. If it takes longer than wait_s, the answer \
says `running` and the job goes on by itself: go on with other work, then call wait_jobs once. \
Do not poll.
- To run several commands at once, start each with wait_s=0, then call wait_jobs with all their \
numbers and mode=\"all\".
- The first line of an answer is the verdict: `exit 0`, `exit 1`, `running`, `timed out`, `killed by`. \
A non-zero exit is a result, not a tool error.
- Long output is cut in the middle; error-like lines inside the cut are shown with their line \
numbers. Read the rest with read_output (view=\"next\", line or grep) instead of running the command \
again, and do not pipe commands through tail or head to save space. No reply shows a line again.
- For servers and watchers use run_command with until=REGEX for the line that says they are ready, \
or with port=N or quiet_s=N; send_input types into them; stop_jobs ends the whole process tree; \
list_jobs shows all that is there.
- A retry with the same key gives back the first job and runs nothing twice.";

/// The instructions of a server that offers only the tools of dialects.
const OTHER_INSTRUCTIONS: &str = "\
Shellyard runs shell commands as jobs. Each tool answers as its own document says; a command that is \
cut short by its timeout or by a user's cancel is ended with all of its processes.";

/// Returns the identity of a server with this name.
fn new_implementation(name: &str) -> Implementation {
    Implementation::new(name, env!("CARGO_PKG_VERSION"))
}

/// Returns the identity of this server, with title and icon.
fn new_shellyard_implementation() -> Implementation {
    let icon = Icon::new(ICON).with_mime_type("image/png").with_sizes(vec!["32x32".to_owned()]);
    new_implementation("shellyard").with_title("Shellyard").with_icons(vec![icon])
}

/// Returns the part of a server's identity that goes into each result: name and version.
pub(super) fn stamp(server: &Implementation) -> Value {
    json!({"name": server.name, "version": server.version})
}

/// Returns the server's capabilities, identity and instructions.
pub(super) fn build_server_config(settings: &McpSettings) -> ServerConfig {
    // Instructions about native tools would mislead clients that do not see them.
    let has_native = settings.dialects.contains(&ToolDialect::Native);
    let instructions = if has_native { INSTRUCTIONS } else { OTHER_INSTRUCTIONS };
    let tools = ServerCapabilities::builder().enable_tools();
    match settings.server_name {
        ServerName::Shellyard => {
            let tools = if has_native { tools.enable_tasks() } else { tools };
            let capabilities = tools
                .enable_resources()
                .enable_resources_subscribe()
                .enable_resources_list_changed()
                .enable_prompts()
                .enable_completions()
                .build();
            ServerConfig::new(capabilities)
                .with_server_info(new_shellyard_implementation())
                .with_instructions(instructions)
        }
        ServerName::McpzShell => ServerConfig::new(tools.build())
            .with_protocol_version(MCPZ_SHELL_VERSIONS[0].clone())
            .with_server_info(new_implementation("mcpz-shell")),
    }
}

/// The protocol versions of the server `mcpz server shell`.
const MCPZ_SHELL_VERSIONS: &[ProtocolVersion] = &[ProtocolVersion::V_2024_11_05];

/// Returns the protocol versions that a server with this name speaks.
pub(super) const fn protocol_versions(name: ServerName) -> &'static [ProtocolVersion] {
    match name {
        ServerName::Shellyard => ProtocolVersion::KNOWN_VERSIONS,
        ServerName::McpzShell => MCPZ_SHELL_VERSIONS,
    }
}

/// The requests that a server answers on JSON lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedMethods {
    /// The methods of the protocol; rmcp and the handler refuse all others.
    Protocol,
    /// The methods in the document of `mcpz server shell`. All others are refused before rmcp sees
    /// them, because rmcp answers some by itself.
    ToolsOnly,
}

impl From<ServerName> for OfferedMethods {
    fn from(name: ServerName) -> Self {
        match name {
            ServerName::Shellyard => Self::Protocol,
            ServerName::McpzShell => Self::ToolsOnly,
        }
    }
}

/// Checks the requests of one connection before rmcp sees them.
#[derive(Debug)]
pub(crate) struct MethodFilter {
    offered: OfferedMethods,
    /// `true` once the client has sent `initialize`.
    has_initialize: bool,
}

impl MethodFilter {
    pub(crate) const fn new(offered: OfferedMethods) -> Self {
        Self { offered, has_initialize: false }
    }

    /// Checks the method of a request. Other messages pass.
    ///
    /// # Errors
    /// If the server does not have the method; the text is that of the document. Also if the client
    /// has not sent `initialize`: rmcp would then ask for the fields of another era.
    pub(crate) fn check(&mut self, message: &ClientJsonRpcMessage) -> Result<(), ErrorData> {
        let (OfferedMethods::ToolsOnly, JsonRpcMessage::Request(request)) = (self.offered, message)
        else {
            return Ok(());
        };
        match request.request.method() {
            "initialize" => {
                self.has_initialize = true;
                Ok(())
            }
            "tools/list" | "tools/call" if self.has_initialize => Ok(()),
            early @ ("tools/list" | "tools/call") => {
                let text = format!(
                    "{early} came before initialize; send initialize, then the notification \
                     `initialized`, then {early} again"
                );
                Err(ErrorData::invalid_request(text, None))
            }
            other => Err(method_not_found_error(other, "")),
        }
    }
}

/// Returns the error for a method that does not exist, with a hint behind its name.
pub(super) fn method_not_found_error(name: &str, hint: &str) -> ErrorData {
    let given: String = name.chars().take(MAX_NAME_CHARS).collect();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {given}{hint}"), None)
}

/// The characters of an unknown method's name that an error repeats.
const MAX_NAME_CHARS: usize = 60;

/// Returns the methods that this server answers, by era; all others are not found. There are no
/// prompts, but `prompts/list` exists: the protocol's caching tests require it from every server.
/// Each method has its own metric series, so the metric labels are the only list of names.
pub fn list_methods() -> impl Iterator<Item = (&'static str, Eras)> {
    labels::METHODS.into_iter().filter(|name| *name != labels::OTHER).map(|name| {
        let eras = match name {
            "initialize" | "ping" | "resources/subscribe" | "resources/unsubscribe" => Eras::Legacy,
            "server/discover"
            | "subscriptions/listen"
            | "tasks/cancel"
            | "tasks/get"
            | "tasks/update" => Eras::Modern,
            _ => Eras::Both,
        };
        (name, eras)
    })
}

/// The eras of the protocol in which a method exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// Protocol versions that start with a handshake.
    Legacy,
    /// Protocol versions from 2026-07-28 on.
    Modern,
    Both,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_short_enough_for_clients() {
        assert!(INSTRUCTIONS.len() < 2048, "{}", INSTRUCTIONS.len());
        for tool in
            ["run_command", "wait_jobs", "read_output", "list_jobs", "send_input", "stop_jobs"]
        {
            assert!(INSTRUCTIONS.contains(tool), "{tool}");
        }
    }

    #[test]
    fn a_server_of_tools_only_refuses_every_other_request() {
        let parse = |value: Value| serde_json::from_value::<ClientJsonRpcMessage>(value).unwrap();
        let request = |method: &str| {
            parse(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "x"}}))
        };
        let mut filter = MethodFilter::new(OfferedMethods::ToolsOnly);
        let mut any = MethodFilter::new(OfferedMethods::Protocol);
        for method in ["tools/list", "tools/call"] {
            let error = filter.check(&request(method)).unwrap_err();
            assert!(error.message.contains("send initialize"), "{}", error.message);
            assert_eq!(any.check(&request(method)), Ok(()), "{method}");
        }
        let params = json!({"protocolVersion": "2024-11-05", "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"}});
        let initialize =
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        assert_eq!(filter.check(&parse(initialize)), Ok(()));
        for method in ["tools/list", "tools/call"] {
            assert_eq!(filter.check(&request(method)), Ok(()), "{method}");
        }
        for method in ["ping", "resources/list", "prompts/list", "server/discover", "explode"] {
            let error = filter.check(&request(method)).unwrap_err();
            assert_eq!(error.code, ErrorCode::METHOD_NOT_FOUND);
            assert_eq!(error.message, format!("Method not found: {method}"));
            assert_eq!(any.check(&request(method)), Ok(()), "{method}");
        }
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 1}});
        assert_eq!(filter.check(&parse(cancelled)), Ok(()));
    }

    #[test]
    fn the_icon_is_small_and_in_no_result() {
        let introduced = serde_json::to_string(&new_shellyard_implementation()).unwrap();
        assert!(introduced.contains("data:image/png;base64,iVBOR"), "{introduced}");
        assert!(introduced.len() < 600, "{}", introduced.len());
        let expected = json!({"name": "shellyard", "version": env!("CARGO_PKG_VERSION")});
        assert_eq!(stamp(&new_shellyard_implementation()), expected);
    }
}
