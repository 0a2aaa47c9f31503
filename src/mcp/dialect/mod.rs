//! Dialects: sets of tools that people already call, each as its own document describes it: names,
//! arguments, defaults, limits, fields and error texts. `docs/dialects.md` goes through them point
//! by point.
//!
//! One file per document. A dialect maps arguments to a submission and a job to a reply, and has no
//! logic of its own: it uses the jobs, policy and output of the native tools.

mod exec_error;
mod execute;
mod execute_command;
mod output_pages;
mod progress_lines;
mod read_file_chunk;
mod read_shell_output;
mod run;
mod run_shell_command;
mod shell;
mod shell_exec;
mod shell_exec_args;
mod tool;

pub(super) use run::DialectReply;
pub(super) use tool::DialectTool;
