//! What jobs write, and what becomes of it.

use std::fmt::Display;

use crate::ids::JobId;
use crate::spec::Stream;
use crate::telemetry::labels::{DropReason, FreedReason, SpillOperation, Tier, key};
use crate::telemetry::names::{jobs, output};

/// This many finished jobs are now readable, and store so much.
pub fn retained_changed(finished: usize, bytes: u64) {
    jobs::RETAINED.set_to(finished);
    output::RETAINED.plain().set(bytes as f64);
}

/// A job wrote bytes, whether or not they could be kept.
pub fn output_written(stream: Stream, bytes: u64) {
    output::BYTES_WRITTEN.with((key::STREAM, stream.name())).increment(bytes);
}

/// All logs together may hold so much.
pub fn store_limit_known(bytes: u64) {
    output::STORED_LIMIT.plain().set(bytes as f64);
}

/// All reads of output together may take so much memory.
pub fn read_memory_limit_known(bytes: u64) {
    output::READ_MEMORY_LIMIT.plain().set(bytes as f64);
}

/// Memory was reserved for a read of output.
pub fn read_memory_reserved(bytes: u64) {
    output::READ_MEMORY.plain().increment(bytes as f64);
}

/// A read of output is over, and its memory is free for others.
pub fn read_memory_released(bytes: u64) {
    output::READ_MEMORY.plain().decrement(bytes as f64);
}

/// A read of output was refused because others had all memory for it.
pub fn read_refused() {
    output::READS_REFUSED.plain().increment(1);
}

/// Room was taken for bytes.
pub fn output_stored(tier: Tier, bytes: u64) {
    output::STORED.with((key::TIER, tier.word())).increment(bytes as f64);
}

/// A finished log of so many bytes now takes only `stored`.
pub fn output_compressed(raw: u64, stored: u64) {
    tracing::debug!(raw, stored, "output compressed");
    output::COMPRESSED.plain().increment(raw);
}

/// A finished log could not be compressed; it stays as it is.
pub fn compression_failed(why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(?why, "output not compressed; it stays readable as it is");
}

/// A finished job was freed; its output had taken so many bytes.
pub fn job_freed(id: JobId, reason: FreedReason, bytes: u64) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, reason = reason.word(), bytes, "job freed");
    output::FREED_JOBS.with((key::REASON, reason.word())).increment(1);
    output::FREED_BYTES.plain().increment(bytes);
}

/// Room that was taken is free again.
pub fn output_freed(tier: Tier, bytes: u64) {
    output::STORED.with((key::TIER, tier.word())).decrement(bytes as f64);
}

/// Something could not be done with a file that holds output. Told by its count alone: on a full
/// disk it happens with every write, and each job's loss is told by itself.
pub fn spill_failed(operation: SpillOperation, why: &dyn Display) {
    let why = why.to_string();
    tracing::debug!(operation = operation.word(), ?why, "file of output failed");
    output::SPILL_ERRORS.with((key::OPERATION, operation.word())).increment(1);
}

/// A job wrote bytes that could not be kept.
pub fn output_dropped(reason: DropReason, bytes: u64) {
    output::DROPPED.with((key::REASON, reason.word())).increment(bytes);
}

/// A job's output can no longer be kept whole; told once for each job.
pub fn output_being_dropped(id: JobId, reason: DropReason) {
    tracing::warn!(tenant = %id.tenant(), job_id = %id, reason = reason.word(), "output dropped, the job goes on");
}

/// Stored output could not be read, or not sent.
pub fn output_unreadable(id: JobId, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(tenant = %id.tenant(), job_id = %id, ?why, "output not readable");
}

/// A job ended whose output is to be in the log, as far as it is given here.
pub fn output_logged(id: JobId, stdout: &str, stderr: &str) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, ?stdout, ?stderr, "job output");
}
