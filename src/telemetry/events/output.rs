//! What jobs write, and what becomes of it.

use std::fmt::Display;

use crate::ids::JobId;
use crate::output::{Counters, DropReason};
use crate::spec::Stream;
use crate::telemetry::labels::{FreedReason, key};
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

/// Shows the counts of all logs, as they are now.
pub(in crate::telemetry) fn output_counted(counters: &Counters) {
    for (tier, bytes) in counters.stored() {
        output::STORED.with((key::TIER, tier.word())).set(bytes as f64);
    }
    for (reason, bytes) in counters.dropped() {
        output::DROPPED.with((key::REASON, reason)).absolute(bytes);
    }
    for (operation, count) in counters.spill_errors() {
        output::SPILL_ERRORS.with((key::OPERATION, operation.word())).absolute(count);
    }
    output::COMPRESSED.plain().absolute(counters.compressed());
    output::READ_MEMORY.plain().set(counters.read_memory() as f64);
    output::READS_REFUSED.plain().absolute(counters.reads_refused());
}

/// All logs together may hold so much.
pub fn store_limit_known(bytes: u64) {
    output::STORED_LIMIT.plain().set(bytes as f64);
}

/// All reads of output together may take so much memory.
pub fn read_memory_limit_known(bytes: u64) {
    output::READ_MEMORY_LIMIT.plain().set(bytes as f64);
}

/// A finished job was freed; its output had taken so many bytes.
pub fn job_freed(id: JobId, reason: FreedReason, bytes: u64) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, reason = reason.word(), bytes, "job freed");
    output::FREED_JOBS.with((key::REASON, reason.word())).increment(1);
    output::FREED_BYTES.plain().increment(bytes);
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
