//! Which dialects there are.

use super::tool::DialectTool;

/// A set of tools that can be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Our own six tools.
    Native,
    /// `shell`.
    Shell,
    /// `execute`.
    Execute,
    /// `run_shell_command`.
    RunShellCommand,
    /// `execute_command`, `read_file`, `write_file`, `list_directory`.
    ExecuteCommand,
    /// `shell_exec`, `read_file_chunk`.
    ShellExec,
    /// What the conformance suite wants to find, which is more than tools.
    #[cfg(feature = "conformance")]
    Conformance,
}

impl Dialect {
    /// Its tools, in the order in which they are listed; our own are not among them.
    pub(crate) const fn tools(self) -> &'static [DialectTool] {
        match self {
            Self::Native => &[],
            #[cfg(feature = "conformance")]
            Self::Conformance => &[],
            Self::Shell => &[DialectTool::Shell],
            Self::Execute => &[DialectTool::Execute],
            Self::RunShellCommand => &[DialectTool::RunShellCommand],
            Self::ExecuteCommand => &[
                DialectTool::ExecuteCommand,
                DialectTool::ReadFile,
                DialectTool::WriteFile,
                DialectTool::ListDirectory,
            ],
            Self::ShellExec => &[DialectTool::ShellExec, DialectTool::ReadFileChunk],
        }
    }
}
