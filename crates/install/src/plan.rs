//! The files that an installation changes, for each client.

use std::path::PathBuf;

use crate::client::{ClientKind, InstallScope, Machine};
use crate::entry::{ConfiguredCommand, entry_permission};
use crate::format::SettingsFormat;
use crate::marked_section::AGENT_RULES;
use crate::settings_file::{FileEdit, FilePurpose, SettingsFile};
use crate::value::SettingValue;

/// The tools that Zed asks for one by one.
const ZED_TOOLS: [&str; 6] = [
    "mcp:shellyard:run_command",
    "mcp:shellyard:wait_jobs",
    "mcp:shellyard:read_output",
    "mcp:shellyard:list_jobs",
    "mcp:shellyard:send_input",
    "mcp:shellyard:stop_jobs",
];

/// The options of one installation.
#[derive(Debug, Clone)]
pub struct InstallRequest {
    /// The client that gets the server.
    pub client: ClientKind,
    /// The reach of the installation.
    pub scope: InstallScope,
    /// The file that names the servers, instead of the usual one.
    pub config_path: Option<PathBuf>,
    /// The command that the client starts.
    pub command: ConfiguredCommand,
    /// `true` to add instructions for the model and permissions.
    pub has_rules: bool,
}

impl InstallRequest {
    /// Returns the files and their changes; `None` if the client has no settings in this scope.
    #[must_use]
    pub fn files(&self, machine: &Machine) -> Option<Vec<SettingsFile>> {
        let usual = || self.client.settings_file(self.scope, machine);
        let path = self.config_path.clone().or_else(usual)?;
        let mut edits = vec![FileEdit::Server {
            format: self.client.format(),
            section: self.client.section(),
            entry: self.command.to_entry(self.client, self.has_rules),
        }];
        let permissions = self.permission_edits();
        let permissions_file = self.client.permissions_file(self.scope, machine);
        let mut files = Vec::new();
        if self.has_rules {
            match permissions_file {
                Some(path) => {
                    let purpose = FilePurpose::Permissions;
                    files.push(SettingsFile { path, purpose, edits: permissions });
                }
                None => edits.extend(permissions),
            }
            if let Some(path) = self.client.rules_file(self.scope, machine) {
                let edits = vec![FileEdit::Section { lines: AGENT_RULES }];
                files.push(SettingsFile { path, purpose: FilePurpose::Rules, edits });
            }
        }
        files.insert(0, SettingsFile { path, purpose: FilePurpose::Servers, edits });
        Some(files)
    }

    fn permission_edits(&self) -> Vec<FileEdit> {
        let format = SettingsFormat::Jsonc;
        let allow = SettingValue::text("allow");
        match (self.client, self.scope) {
            (ClientKind::ClaudeCode, _) => {
                let path = vec!["permissions", "allow"];
                let format = SettingsFormat::Json;
                vec![FileEdit::Item { format, path, item: "mcp__shellyard" }]
            }
            (ClientKind::OpenCode, _) => {
                let path = vec!["permission", "shellyard_*"];
                vec![FileEdit::Key { format, path, value: allow }]
            }
            (ClientKind::Zed, InstallScope::User) => {
                let edit = |tool| {
                    let path = vec!["agent", "tool_permissions", "tools", tool, "default"];
                    FileEdit::Key { format, path, value: allow.clone() }
                };
                ZED_TOOLS.map(edit).to_vec()
            }
            (
                ClientKind::ClaudeDesktop
                | ClientKind::Codex
                | ClientKind::Cursor
                | ClientKind::VsCode
                | ClientKind::Zed
                | ClientKind::Gemini
                | ClientKind::Qwen
                | ClientKind::Windsurf
                | ClientKind::Goose,
                _,
            ) => Vec::new(),
        }
    }

    /// `true` if the rules contain a permission to use the server without a question.
    #[must_use]
    pub fn permits_without_question(&self) -> bool {
        let has_permission =
            !self.permission_edits().is_empty() || entry_permission(self.client).is_some();
        self.has_rules && has_permission
    }
}
