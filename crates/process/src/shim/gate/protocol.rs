//! The reports of a gate to the server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use shellyard_policy::rules::RuleReference;

use crate::wire::path_bytes;

/// The starts of programs in a job, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StartCounts {
    /// Every start whose file exists.
    pub judged: u64,
    /// The refused ones among them, also by the answer to a question.
    pub refused: u64,
}

/// A start that waits inside `execve` for somebody's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartQuestion {
    /// The number of the question in its job.
    pub id: u64,
    /// The rules that ask for an answer.
    pub rules: Vec<RuleReference>,
    /// The file that the start names, links followed.
    #[serde(with = "path_bytes")]
    pub file: PathBuf,
    /// All arguments, the program's name first.
    pub argv: Vec<Vec<u8>>,
    /// The directory of the process.
    #[serde(with = "path_bytes")]
    pub directory: PathBuf,
    /// The variables that the server did not give to the job with that value.
    pub changed_variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// The name of the program that starts it.
    pub started_by: Option<String>,
    /// The beginning of its standard input; `None` if reading it would take it from the process.
    pub input_head: Option<Vec<u8>>,
}
