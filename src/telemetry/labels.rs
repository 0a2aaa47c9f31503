//! Closed sets of label values: however the server is used, no further series appear.

/// The label keys.
pub mod key {
    /// How a job ended.
    pub const OUTCOME: &str = "outcome";
    /// Why something was turned away.
    pub const REASON: &str = "reason";
    /// Which of a job's streams.
    pub const STREAM: &str = "stream";
    /// Which tool was called.
    pub const TOOL: &str = "tool";
    /// How a call ended.
    pub const RESULT: &str = "result";
    /// What the system stalls for want of.
    pub const RESOURCE: &str = "resource";
    /// A lane of the queue.
    pub const LANE: &str = "lane";
    /// Whose jobs.
    pub const TENANT: &str = "tenant";
    /// The version that runs.
    pub const VERSION: &str = "version";
}

/// Values of [`key::VERSION`]: this build's own.
pub(super) const VERSIONS: [&str; 1] = [env!("CARGO_PKG_VERSION")];

/// Values of [`key::STREAM`].
pub(super) const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// Values of [`key::TOOL`]: every tool of every dialect, and one word for whatever else is asked for.
pub(super) const TOOLS: [&str; 16] = [
    "run_command",
    "wait_jobs",
    "read_output",
    "list_jobs",
    "send_input",
    "stop_jobs",
    "shell",
    "execute",
    "run_shell_command",
    "execute_command",
    "read_file",
    "write_file",
    "list_directory",
    "shell_exec",
    "read_file_chunk",
    OTHER,
];

/// One word for all values that have none of their own.
pub(super) const OTHER: &str = "other";

/// The label for a tool name that a client sent.
pub(super) fn tool(name: &str) -> &'static str {
    TOOLS.into_iter().find(|known| *known == name).unwrap_or(OTHER)
}

/// Why a job was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// There was nothing to run.
    EmptyCommand,
    /// The command was too long.
    TooLong,
    /// The deadline was out of bounds.
    Timeout,
    /// A variable's name cannot be one.
    Environment,
    /// There is no such lane.
    UnknownLane,
    /// A rule said no.
    Policy,
    /// Too many jobs wait already.
    QueueFull,
    /// The tenant has as much as it may have.
    TenantLimit,
    /// The tenant starts jobs faster than it may.
    RateLimited,
    /// The caller may only read.
    Forbidden,
    /// The server is shutting down.
    Draining,
}

impl Rejection {
    /// The label value.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::EmptyCommand => "empty_command",
            Self::TooLong => "too_long",
            Self::Timeout => "timeout",
            Self::Environment => "environment",
            Self::UnknownLane => "unknown_lane",
            Self::Policy => "policy",
            Self::QueueFull => "queue_full",
            Self::TenantLimit => "tenant_limit",
            Self::RateLimited => "rate_limited",
            Self::Forbidden => "forbidden",
            Self::Draining => "draining",
        }
    }

    /// Every word that [`Rejection::word`] can give.
    pub const WORDS: [&'static str; 11] = [
        "empty_command",
        "too_long",
        "timeout",
        "environment",
        "unknown_lane",
        "policy",
        "queue_full",
        "tenant_limit",
        "rate_limited",
        "forbidden",
        "draining",
    ];
}

/// Why an HTTP request or connection was turned away before any route saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The Host header is not on the list.
    Host,
    /// The Origin header is not on the list.
    Origin,
    /// The bearer token is missing or wrong.
    Auth,
    /// The headers are too large.
    Headers,
    /// The body is too large.
    Body,
    /// Too many connections are open.
    Connections,
    /// The client left what was sent to it unread for too long.
    Unread,
    /// The process at the other end of the unix socket is another user's.
    Peer,
}

impl Refusal {
    /// The label value.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Auth => "auth",
            Self::Headers => "headers",
            Self::Body => "body",
            Self::Connections => "connections",
            Self::Unread => "unread",
            Self::Peer => "peer",
        }
    }

    /// Every word that [`Refusal::word`] can give.
    pub const WORDS: [&'static str; 8] =
        ["host", "origin", "auth", "headers", "body", "connections", "unread", "peer"];
}

/// Why bytes that a job wrote could not be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The disk, or a limit on files, has no room.
    DiskFull,
    /// The file could not be made or written.
    IoError,
    /// All logs together are at their cap.
    StoreFull,
    /// The tenant's logs are at the cap that every tenant has.
    TenantFull,
    /// The tenant's logs are at the cap that is this tenant's own.
    OwnFull,
    /// It was kept, and somebody else cut it off its file.
    Cut,
}

impl DropReason {
    /// The label value, and the word for it on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::IoError => "io_error",
            Self::StoreFull => "store_full",
            Self::TenantFull | Self::OwnFull => "tenant_full",
            Self::Cut => "cut",
        }
    }

    /// Every word that [`DropReason::word`] can give.
    pub const WORDS: [&'static str; 5] =
        ["disk_full", "io_error", "store_full", "tenant_full", "cut"];
}

/// Why a finished job was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreedReason {
    /// It had ended too long ago.
    Age,
    /// Finished jobs stored too much.
    Bytes,
    /// Too many had finished.
    Count,
    /// Room was needed for what jobs write now.
    Room,
}

impl FreedReason {
    /// The label value.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Room => "room",
        }
    }

    /// Every word that [`FreedReason::word`] can give.
    pub const WORDS: [&'static str; 4] = ["age", "bytes", "count", "room"];
}

/// What a system can stall for want of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A processor.
    Cpu,
    /// Memory.
    Memory,
    /// A disk.
    Io,
}

impl Resource {
    /// Every resource.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Io];

    /// The label value, and the word for it on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }

    /// Every word that [`Resource::word`] can give.
    pub const WORDS: [&'static str; 3] = ["cpu", "memory", "io"];
}

/// What a job in the queue waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// A slot.
    Slots,
    /// A slot of its lane.
    Lane,
    /// Another job of its tenant to end.
    Tenant,
    /// The system to stall less.
    Pressure,
    /// Somebody to resume the queue or its lane.
    Paused,
    /// Its turn, which is about to come.
    Turn,
}

impl WaitReason {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Slots, Self::Lane, Self::Tenant, Self::Pressure, Self::Paused, Self::Turn];

    /// The label value.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Lane => "lane",
            Self::Tenant => "tenant",
            Self::Pressure => "pressure",
            Self::Paused => "paused",
            Self::Turn => "turn",
        }
    }

    /// Every word that [`WaitReason::word`] can give.
    pub const WORDS: [&'static str; 6] = ["slots", "lane", "tenant", "pressure", "paused", "turn"];
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    /// It was answered; the command itself may have failed.
    Ok,
    /// It was answered with an error.
    Error,
}

impl CallResult {
    /// The label value.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
        }
    }

    /// Every word that [`CallResult::word`] can give.
    pub const WORDS: [&'static str; 2] = ["ok", "error"];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Stream;

    #[test]
    fn the_lists_hold_exactly_the_words() {
        let rejections = [
            Rejection::EmptyCommand,
            Rejection::TooLong,
            Rejection::Timeout,
            Rejection::Environment,
            Rejection::UnknownLane,
            Rejection::Policy,
            Rejection::QueueFull,
            Rejection::TenantLimit,
            Rejection::RateLimited,
            Rejection::Forbidden,
            Rejection::Draining,
        ];
        assert_eq!(rejections.map(Rejection::word), Rejection::WORDS);
        let refusals = [
            Refusal::Host,
            Refusal::Origin,
            Refusal::Auth,
            Refusal::Headers,
            Refusal::Body,
            Refusal::Connections,
            Refusal::Unread,
            Refusal::Peer,
        ];
        assert_eq!(refusals.map(Refusal::word), Refusal::WORDS);
        let drops = [
            DropReason::DiskFull,
            DropReason::IoError,
            DropReason::StoreFull,
            DropReason::TenantFull,
            DropReason::Cut,
        ];
        assert_eq!(drops.map(DropReason::word), DropReason::WORDS);
        assert_eq!(DropReason::OwnFull.word(), DropReason::TenantFull.word());
        let freed = [FreedReason::Age, FreedReason::Bytes, FreedReason::Count, FreedReason::Room];
        assert_eq!(freed.map(FreedReason::word), FreedReason::WORDS);
        assert_eq!(Resource::ALL.map(Resource::word), Resource::WORDS);
        assert_eq!(WaitReason::ALL.map(WaitReason::word), WaitReason::WORDS);
        assert_eq!([CallResult::Ok, CallResult::Error].map(CallResult::word), CallResult::WORDS);
        assert_eq!([Stream::Stdout, Stream::Stderr].map(Stream::name), STREAMS);
    }

    #[test]
    fn a_tool_name_from_outside_never_becomes_a_label() {
        assert_eq!(tool("run_command"), "run_command");
        assert_eq!(tool("rm -rf /"), "other");
    }
}
