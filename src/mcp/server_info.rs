//! What the server says of itself: its name, its picture, how its tools are used, and the methods
//! that it answers.

use rmcp::model::{Icon, Implementation, ServerCapabilities, ServerConfig};
use serde_json::{Value, json};

use super::settings::{Dialect, McpSettings, ServerName};
use crate::telemetry::labels;

/// A prompt on a dark ground, 32 by 32 points: every client that shows pictures shows this kind.
const ICON: &str = "\
data:image/png;base64,\
iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAgMAAAAOFJJnAAAACVBMVEUAAAAfKTdK3oBfwLdEAAAAA3RSTlMA//9EUN\
YhAAAAUklEQVR42mNgEA0FghAGBtZQMAiACICEMBmhUICXEbYUJrISxsiCMaKmQhkQRSBdK2GMLHQRuBq4riyEyVmr\
lkLsgjBA+mEMQi7E40F4IMCCBQBIxVaGl01lZAAAAABJRU5ErkJggg==";

/// What a client may tell its model about this server.
const INSTRUCTIONS: &str = "\
Shellyard runs shell commands as jobs. Each command gets a small job number; its whole output is \
kept and can be read again at any time.
- run_command answers as soon as the command ends. If it takes longer than wait_s, the answer \
says `running` and the job goes on by itself: go on with other work, then call wait_jobs once. \
Do not poll.
- The first line of an answer is the verdict: `exit 0`, `exit 1`, `running`, `timed out`, `killed by`. \
A non-zero exit is a result, not a tool error.
- Long output is cut in the middle; error-like lines inside the cut are shown with their line \
numbers. Read the rest with read_output (line, cursor or grep) instead of running the command again, \
and do not pipe commands through tail or head to save space.
- For servers and watchers use wait_s=0, then wait_jobs with until=REGEX for the line that says \
they are ready, or with port=N or quiet_s=N; send_input types into them; stop_jobs ends the whole \
process tree; list_jobs shows all that is there.
- A retry with the same key gives back the first job and runs nothing twice.";

/// The same, for a server that offers only the tools of other documents.
const OTHER_INSTRUCTIONS: &str = "\
Shellyard runs shell commands as jobs. Each tool answers as its own document says; a command that is \
cut short by its timeout or by the caller is ended with all of its processes.";

/// A server of this name.
fn of(name: &str) -> Implementation {
    Implementation::new(name, env!("CARGO_PKG_VERSION"))
}

/// This server, with all that is to be shown of it.
fn of_shellyard() -> Implementation {
    let icon = Icon::new(ICON).with_mime_type("image/png").with_sizes(vec!["32x32".to_owned()]);
    of("shellyard").with_title("Shellyard").with_icons(vec![icon])
}

/// What stands of a server in each of its results: no more than what tells it from others.
pub(super) fn stamp(server: &Implementation) -> Value {
    json!({"name": server.name, "version": server.version})
}

/// What the server says of itself.
pub(super) fn server_config(settings: &McpSettings) -> ServerConfig {
    // What it says of the native tools would mislead those who do not see them.
    let has_native = settings.dialects.contains(&Dialect::Native);
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
                .with_server_info(of_shellyard())
                .with_instructions(instructions)
        }
        ServerName::McpzShell => {
            ServerConfig::new(tools.build()).with_server_info(of("mcpz-shell"))
        }
    }
}

/// The methods that this server answers, by era; anything else is not found. There is no
/// prompt, and the list says so: the protocol's own caching tests want that list from everyone.
/// Metrics have a series for each of them, so their labels are the one list of names.
pub fn methods() -> impl Iterator<Item = (&'static str, Eras)> {
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

/// In which eras of the protocol a method exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// In those that begin with a handshake.
    Legacy,
    /// From 2026-07-28 on.
    Modern,
    /// In all of them.
    Both,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_show_to_a_model_is_short_enough_for_them() {
        assert!(INSTRUCTIONS.len() < 2048, "{}", INSTRUCTIONS.len());
        for tool in
            ["run_command", "wait_jobs", "read_output", "list_jobs", "send_input", "stop_jobs"]
        {
            assert!(INSTRUCTIONS.contains(tool), "{tool}");
        }
    }

    #[test]
    fn the_picture_is_small_and_in_no_result() {
        let introduced = serde_json::to_string(&of_shellyard()).unwrap();
        assert!(introduced.contains("data:image/png;base64,iVBOR"), "{introduced}");
        assert!(introduced.len() < 600, "{}", introduced.len());
        let expected = json!({"name": "shellyard", "version": env!("CARGO_PKG_VERSION")});
        assert_eq!(stamp(&of_shellyard()), expected);
    }
}
