//! Where output is kept, and what stays of it.

use std::time::Duration;

use serde::Deserialize;

use super::read::{seconds, zero_is_none, zero_seconds_is_none};

/// `[output]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSettings {
    /// Bytes of a job's output that are kept in memory.
    pub memory: usize,
    /// From here on the output of a job is large.
    pub large: u64,
    /// What becomes of a job that writes that much.
    pub on_large_output: OnLargeOutput,
    /// Bytes of output that are kept of all jobs together.
    pub max_store: u64,
    /// Bytes of output that are kept of the jobs of one tenant.
    pub max_tenant: u64,
    /// Finished output of so many bytes is compressed; `None` = never.
    #[serde(deserialize_with = "zero_is_none")]
    pub compress_from: Option<u64>,
    /// Bytes of memory that all reads of output may take at one time.
    pub read_memory: usize,
    /// How long one search or query may take.
    #[serde(rename = "search_s", deserialize_with = "seconds")]
    pub search: Duration,
}

/// What becomes of a job that writes a lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLargeOutput {
    /// All of it is kept.
    Spill,
    /// Its middle is not kept.
    Truncate,
    /// It is ended.
    Error,
}

/// `[retention]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    /// Finished jobs that stay readable.
    pub max_finished: usize,
    /// How long they do; `None` = no bound.
    #[serde(rename = "max_age_s", deserialize_with = "zero_seconds_is_none")]
    pub max_age: Option<Duration>,
    /// What they may store; `None` = no bound.
    #[serde(deserialize_with = "zero_is_none")]
    pub max_bytes: Option<u64>,
    /// Finished jobs of each tenant that stay readable; `None` = no bound of its own.
    #[serde(deserialize_with = "zero_is_none")]
    pub tenant_max_finished: Option<u64>,
    /// How long they do; `None` = no bound of its own.
    #[serde(rename = "tenant_max_age_s", deserialize_with = "zero_seconds_is_none")]
    pub tenant_max_age: Option<Duration>,
    /// What those of each tenant may store; `None` = no bound of its own.
    #[serde(deserialize_with = "zero_is_none")]
    pub tenant_max_bytes: Option<u64>,
}
