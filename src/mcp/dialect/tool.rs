//! The tools of the dialects: what each says about itself, and who runs it.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};

use super::settings::DialectSettings;
use super::{
    execute, execute_command, list_directory, read_file, read_file_chunk, run_shell_command, shell,
    shell_exec, write_file,
};
use crate::mcp::reply::Foreign;
use crate::mcp::schema::Effect;
use crate::mcp::tools::Call;

/// A tool that a document describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialectTool {
    Shell,
    Execute,
    RunShellCommand,
    ExecuteCommand,
    ReadFile,
    WriteFile,
    ListDirectory,
    ShellExec,
    ReadFileChunk,
}

impl DialectTool {
    /// Its name on the wire.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Execute => "execute",
            Self::RunShellCommand => "run_shell_command",
            Self::ExecuteCommand => "execute_command",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::ListDirectory => "list_directory",
            Self::ShellExec => "shell_exec",
            Self::ReadFileChunk => "read_file_chunk",
        }
    }

    /// Whether a call of it may start a job.
    pub(crate) const fn runs(self) -> bool {
        matches!(self.effect(), Effect::Runs)
    }

    /// The definition that `tools/list` shows.
    pub(crate) fn definition(self, settings: &DialectSettings) -> Tool {
        let (about, schema) = match self {
            Self::Shell => (shell::ABOUT, shell::schema(&settings.shell)),
            Self::Execute => (execute::ABOUT, execute::schema()),
            Self::RunShellCommand => (run_shell_command::ABOUT, run_shell_command::schema()),
            Self::ExecuteCommand => (execute_command::ABOUT, execute_command::schema()),
            Self::ReadFile => (read_file::ABOUT, read_file::schema()),
            Self::WriteFile => (write_file::ABOUT, write_file::schema()),
            Self::ListDirectory => (list_directory::ABOUT, list_directory::schema()),
            Self::ShellExec => (shell_exec::ABOUT, shell_exec::schema()),
            Self::ReadFileChunk => (read_file_chunk::ABOUT, read_file_chunk::schema()),
        };
        // A test holds that each is an object.
        let schema = schema.as_object().cloned().unwrap_or_default();
        Tool::new(self.name(), about, Arc::new(schema))
            .with_annotations(self.effect().annotations())
    }

    /// Runs it.
    pub(crate) async fn call(self, call: Call<'_>, arguments: JsonObject) -> Foreign {
        match self {
            Self::Shell => shell::call(call, arguments).await,
            Self::Execute => execute::call(call, arguments).await,
            Self::RunShellCommand => run_shell_command::call(call, arguments).await,
            Self::ExecuteCommand => execute_command::call(call, arguments).await,
            Self::ReadFile => read_file::call(call, arguments).await,
            Self::WriteFile => write_file::call(call, arguments).await,
            Self::ListDirectory => list_directory::call(call, arguments).await,
            Self::ShellExec => shell_exec::call(call, arguments).await,
            Self::ReadFileChunk => read_file_chunk::call(call, arguments).await,
        }
    }

    /// What a call of it does.
    pub(crate) const fn effect(self) -> Effect {
        match self {
            Self::Shell
            | Self::Execute
            | Self::RunShellCommand
            | Self::ExecuteCommand
            | Self::ShellExec => Effect::Runs,
            Self::WriteFile => Effect::Writes,
            Self::ReadFile | Self::ListDirectory => Effect::ReadsFiles,
            Self::ReadFileChunk => Effect::Reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::mcp::dialect::{Dialect, DialectSettings};

    #[test]
    fn every_tool_says_what_it_takes() {
        let dialects = [
            Dialect::Shell,
            Dialect::Execute,
            Dialect::RunShellCommand,
            Dialect::ExecuteCommand,
            Dialect::ShellExec,
        ];
        for tool in dialects.iter().flat_map(|dialect| dialect.tools()) {
            let definition = tool.definition(&DialectSettings::default());
            assert_eq!(definition.input_schema["type"], "object", "{}", tool.name());
            assert!(definition.input_schema["properties"].is_object(), "{}", tool.name());
            let about = definition.description.unwrap_or_default();
            assert!(!about.is_empty() && about.len() < 2048, "{}", tool.name());
        }
    }
}
