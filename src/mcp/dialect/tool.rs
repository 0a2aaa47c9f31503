//! The tools of the dialects, with their definitions.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};

use super::run::DialectReply;
use super::{
    execute, execute_command, read_file_chunk, read_shell_output, run_shell_command, shell,
    shell_exec, shell_exec_args,
};
use crate::mcp::schema::{ToolEffect, mark_optional_nullable};
use crate::mcp::settings::{DialectSettings, ToolDialect};
use crate::mcp::tools::ToolCall;

/// A tool of one of the dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialectTool {
    Shell,
    Execute,
    RunShellCommand,
    ReadShellOutput,
    ExecuteCommand,
    ReadFile,
    WriteFile,
    ListDirectory,
    ShellExec,
    ReadFileChunk,
}

impl DialectTool {
    /// The tools of a dialect, in listing order. Native tools are not among them.
    pub(crate) const fn in_dialect(dialect: ToolDialect) -> &'static [Self] {
        match dialect {
            ToolDialect::Native => &[],
            #[cfg(feature = "conformance")]
            ToolDialect::Conformance => &[],
            ToolDialect::Shell => &[Self::Shell],
            ToolDialect::Execute => &[Self::Execute],
            ToolDialect::RunShellCommand => &[Self::RunShellCommand, Self::ReadShellOutput],
            ToolDialect::ExecuteCommand => {
                &[Self::ExecuteCommand, Self::ReadFile, Self::WriteFile, Self::ListDirectory]
            }
            ToolDialect::ShellExec => &[Self::ShellExec, Self::ReadFileChunk],
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Execute => "execute",
            Self::RunShellCommand => "run_shell_command",
            Self::ReadShellOutput => read_shell_output::NAME,
            Self::ExecuteCommand => "execute_command",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::ListDirectory => "list_directory",
            Self::ShellExec => "shell_exec",
            Self::ReadFileChunk => "read_file_chunk",
        }
    }

    /// `true` if a call may start a job.
    pub(crate) const fn starts_jobs(self) -> bool {
        matches!(self.effect(), ToolEffect::Runs)
    }

    /// The definition that `tools/list` shows.
    pub(crate) fn definition(self, settings: &DialectSettings) -> Tool {
        let (about, schema) = match self {
            Self::Shell => (shell::ABOUT, shell::schema(&settings.shell)),
            Self::Execute => (execute::ABOUT, execute::schema()),
            Self::RunShellCommand => (run_shell_command::ABOUT, run_shell_command::schema()),
            Self::ReadShellOutput => (read_shell_output::ABOUT, read_shell_output::schema()),
            Self::ExecuteCommand => (execute_command::ABOUT, execute_command::schema()),
            Self::ReadFile => {
                (execute_command::READ_FILE_ABOUT, execute_command::read_file_schema())
            }
            Self::WriteFile => {
                (execute_command::WRITE_FILE_ABOUT, execute_command::write_file_schema())
            }
            Self::ListDirectory => {
                (execute_command::LIST_DIRECTORY_ABOUT, execute_command::list_directory_schema())
            }
            Self::ShellExec => (shell_exec_args::ABOUT, shell_exec_args::schema()),
            Self::ReadFileChunk => (read_file_chunk::ABOUT, read_file_chunk::schema()),
        };
        // A test checks that each schema is an object.
        let mut schema = schema.as_object().cloned().unwrap_or_default();
        mark_optional_nullable(&mut schema);
        let tool = Tool::new(self.name(), about, Arc::new(schema));
        // The document of `execute_command` prints the whole definition. Without annotations the
        // defaults of the protocol hold, which are those of a tool that runs commands.
        if self == Self::ExecuteCommand {
            return tool;
        }
        tool.with_annotations(self.effect().annotations())
    }

    pub(crate) async fn call(self, call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
        match self {
            Self::Shell => shell::call(call, arguments).await,
            Self::Execute => execute::call(call, arguments).await,
            Self::RunShellCommand => run_shell_command::call(call, arguments).await,
            Self::ReadShellOutput => read_shell_output::call(call, arguments).await,
            Self::ExecuteCommand => execute_command::call(call, arguments).await,
            Self::ReadFile => execute_command::read_file(call, arguments).await,
            Self::WriteFile => execute_command::write_file(call, arguments).await,
            Self::ListDirectory => execute_command::list_directory(call, arguments).await,
            Self::ShellExec => shell_exec::call(call, arguments).await,
            Self::ReadFileChunk => read_file_chunk::call(call, arguments).await,
        }
    }

    pub(crate) const fn effect(self) -> ToolEffect {
        match self {
            Self::Shell
            | Self::Execute
            | Self::RunShellCommand
            | Self::ExecuteCommand
            | Self::ShellExec => ToolEffect::Runs,
            Self::WriteFile => ToolEffect::Writes,
            Self::ReadFile | Self::ListDirectory => ToolEffect::ReadsFiles,
            Self::ReadFileChunk | Self::ReadShellOutput => ToolEffect::Reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_schema_and_a_short_description() {
        let dialects = [
            ToolDialect::Shell,
            ToolDialect::Execute,
            ToolDialect::RunShellCommand,
            ToolDialect::ExecuteCommand,
            ToolDialect::ShellExec,
        ];
        for tool in dialects.into_iter().flat_map(DialectTool::in_dialect) {
            let definition = tool.definition(&DialectSettings::default());
            assert_eq!(definition.input_schema["type"], "object", "{}", tool.name());
            assert!(definition.input_schema["properties"].is_object(), "{}", tool.name());
            let about = definition.description.unwrap_or_default();
            assert!(!about.is_empty() && about.len() < 2048, "{}", tool.name());
        }
    }
}
