//! What jobs write, and what becomes of it.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{Counter, Gauge, Labels, Metric, PLAIN};
use crate::output::{DropReason, SpillOperation, Tier};
use crate::telemetry::labels::{FreedReason, STREAMS, key};

/// Bytes that jobs wrote, by stream.
pub const BYTES_WRITTEN: Counter = Counter(Metric {
    name: "shellyard_output_bytes_total",
    help: "Bytes that jobs wrote, by stream.",
    unit: Unit::Bytes,
    labels: Labels::Closed(&[(key::STREAM, &STREAMS)]),
});

/// Bytes that could not be kept, by reason.
pub const DROPPED: Counter = Counter(Metric {
    name: "shellyard_output_dropped_bytes_total",
    help: "Bytes that could not be kept, by reason.",
    unit: Unit::Bytes,
    labels: Labels::Closed(&[(key::REASON, &DropReason::WORDS)]),
});

/// Bytes of finished logs that were compressed, as they were before.
pub const COMPRESSED: Counter = Counter(Metric {
    name: "shellyard_output_compressed_bytes_total",
    help: "Bytes of finished logs that were compressed, as they were before.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Failed operations on files that hold output, by operation.
pub const SPILL_ERRORS: Counter = Counter(Metric {
    name: "shellyard_spill_errors_total",
    help: "Failed operations on files that hold output, by operation.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::OPERATION, &SpillOperation::WORDS)]),
});

/// Output that is held for all jobs, by where it is.
pub const STORED: Gauge = Gauge(Metric {
    name: "shellyard_output_stored_bytes",
    help: "Output that is held for all jobs, by where it is.",
    unit: Unit::Bytes,
    labels: Labels::Closed(&[(key::TIER, &Tier::WORDS)]),
});

/// Output that may be held for all jobs, wherever it is.
pub const STORED_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_output_stored_limit_bytes",
    help: "Output that may be held for all jobs, wherever it is.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Memory that is reserved for reads of output now.
pub const READ_MEMORY: Gauge = Gauge(Metric {
    name: "shellyard_read_memory_bytes",
    help: "Memory that is reserved for queries, searches, digests and pages which are being made now.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Memory that may be reserved for reads of output.
pub const READ_MEMORY_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_read_memory_limit_bytes",
    help: "Memory that may be reserved for queries, searches, digests and pages at one time.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Reads of output that were refused because there was no memory for them.
pub const READS_REFUSED: Counter = Counter(Metric {
    name: "shellyard_reads_refused_total",
    help: "Queries, searches, digests and pages that were refused because others had all memory for them.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Room that is left on the disk of the data directory.
pub const DISK_FREE: Gauge = Gauge(Metric {
    name: "shellyard_data_disk_free_bytes",
    help: "Room that is left on the disk of the data directory.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Size of the disk of the data directory.
pub const DISK_SIZE: Gauge = Gauge(Metric {
    name: "shellyard_data_disk_size_bytes",
    help: "Size of the disk of the data directory.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Output of finished jobs that can be read now.
pub const RETAINED: Gauge = Gauge(Metric {
    name: "shellyard_retained_bytes",
    help: "Output of finished jobs that can be read now.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Output of finished jobs that may be kept; 0 = no bound of its own.
pub const RETAINED_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_retained_limit_bytes",
    help: "Output of finished jobs that may be kept; 0 = no bound of its own.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Finished jobs that were freed, by reason.
pub const FREED_JOBS: Counter = Counter(Metric {
    name: "shellyard_retention_freed_jobs_total",
    help: "Finished jobs that were freed, by reason.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::REASON, &FreedReason::WORDS)]),
});

/// Bytes in memory and on disk that freed jobs had taken.
pub const FREED_BYTES: Counter = Counter(Metric {
    name: "shellyard_retention_freed_bytes_total",
    help: "Bytes in memory and on disk that freed jobs had taken.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "What jobs write",
    counters: &[
        BYTES_WRITTEN,
        DROPPED,
        COMPRESSED,
        SPILL_ERRORS,
        READS_REFUSED,
        FREED_JOBS,
        FREED_BYTES,
    ],
    gauges: &[
        STORED,
        STORED_LIMIT,
        READ_MEMORY,
        READ_MEMORY_LIMIT,
        DISK_FREE,
        DISK_SIZE,
        RETAINED,
        RETAINED_LIMIT,
    ],
    histograms: &[],
};
