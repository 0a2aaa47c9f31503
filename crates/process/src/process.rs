//! A running process, and its connection with this server.

use std::io;

use crate::shell::PipelineReport;
use crate::shim::Role;
use crate::shim_link::ProcessEvents;
use crate::stdio::{OutputPipe, ProcessInput, StdioPipes};
use crate::tree::ProcessTree;

/// A running process, in the parts that different owners take.
#[derive(Debug)]
pub struct Process {
    /// The events of the process and its tree.
    pub events: ProcessEvents,
    /// Everything that the process starts.
    pub tree: ProcessTree,
    /// The standard output, both streams if they are merged, or the terminal.
    pub stdout: OutputPipe,
    /// The standard error, if it is a pipe of its own.
    pub stderr: Option<OutputPipe>,
    /// The standard input, if the process reads any.
    pub stdin: Option<ProcessInput>,
    /// The exit codes of the last pipeline, available after the end.
    pub report: Option<PipelineReport>,
}

impl Process {
    /// Connects this server with a process whose shim was launched.
    pub(crate) fn new(
        tree: ProcessTree,
        pipes: StdioPipes,
        report: Option<PipelineReport>,
        is_terminal: bool,
    ) -> io::Result<Self> {
        let link = tree.link();
        let StdioPipes { mut stdout, mut stderr, child_stdio: _, stdin_writer } = pipes;
        stdout.hold(link, Role::StdoutReader);
        if let Some(stderr) = &mut stderr {
            stderr.hold(link, Role::StderrReader);
        }
        let resizer = stdout.terminal_resizer(is_terminal);
        let has_input = stdin_writer.is_some() || resizer.is_some();
        let stdin = has_input.then(|| ProcessInput::new(link, resizer, (0, 0)));
        let events = ProcessEvents::new(link)?;
        Ok(Self { events, tree, stdout, stderr, stdin, report })
    }
}
