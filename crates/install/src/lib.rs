//! Adds an MCP server to the settings files of AI clients, and removes it again.
//!
//! Edits are functions from text to text: comments, order and layout of everything else stay, and a
//! text that cannot be read is never changed. [`files`] replaces files atomically.

#![warn(missing_docs)]

mod client;
pub mod files;
mod format;
mod json;
mod settings_file;
mod toml;
mod yaml;

pub use client::{
    ClientKind, ConfiguredCommand, InstallScope, Machine, OperatingSystem, SERVER_NAME,
};
pub use format::{EditError, SettingValue, SettingsFormat, TextPlace};
pub use settings_file::{FilePurpose, InstallRequest, SettingsFile, UninstallStep, format_diff};
