//! Adds an MCP server to the settings files of AI clients, and removes it again.
//!
//! Edits are functions from text to text: comments, order and layout of everything else stay, and a
//! text that cannot be read is never changed. [`files`] replaces files atomically.

#![warn(missing_docs)]

mod client;
mod diff;
mod entry;
mod error;
pub mod files;
mod format;
mod json_layout;
mod jsonc;
mod marked_section;
mod plan;
mod settings_file;
mod toml_text;
mod value;
mod yaml_text;
mod yaml_tree;

pub use client::{ClientKind, InstallScope, Machine, OperatingSystem};
pub use diff::format_diff;
pub use entry::{ConfiguredCommand, SERVER_NAME};
pub use error::{EditError, TextPlace};
pub use format::SettingsFormat;
pub use marked_section::AGENT_RULES;
pub use plan::InstallRequest;
pub use settings_file::{FilePurpose, SettingsFile, UninstallStep};
pub use value::SettingValue;
