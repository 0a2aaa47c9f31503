//! Dialects: sets of tools that people already call, each as its own document describes it: names,
//! arguments, defaults, limits, fields and error texts. `docs/dialects.md` goes through them point
//! by point.
//!
//! One file per document. A dialect maps arguments to a submission and a job to a reply, and has no
//! logic of its own: it uses the jobs, policy and output of the native tools.

pub(super) mod execute;
pub(super) mod execute_command;
pub(super) mod read_file_chunk;
mod run;
pub(super) mod run_shell_command;
pub(super) mod shell;
pub(super) mod shell_exec;
pub(super) mod shell_exec_args;

pub(super) use run::DialectReply;
