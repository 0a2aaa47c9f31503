//! Closed sets of label values: however the server is used, no further series appear.

use crate::confinement::{Backend, SandboxProfile};

/// The label keys.
pub mod key {
    /// How a job ended.
    pub const OUTCOME: &str = "outcome";
    /// Whose fault it was that a job did not end well.
    pub const FAULT: &str = "fault";
    /// Which limit ended a job.
    pub const LIMIT: &str = "limit";
    /// Why something was turned away, dropped or freed, or what is waited for.
    pub const REASON: &str = "reason";
    /// How far something came.
    pub const STEP: &str = "step";
    /// Which of a job's streams.
    pub const STREAM: &str = "stream";
    /// Where output is held.
    pub const TIER: &str = "tier";
    /// What was tried with a file.
    pub const OPERATION: &str = "operation";
    /// Which method of MCP was asked for; OpenTelemetry's name.
    pub const METHOD: &str = "mcp_method_name";
    /// Which tool was called; OpenTelemetry's name.
    pub const TOOL: &str = "gen_ai_tool_name";
    /// What went wrong with an operation; OpenTelemetry's name.
    pub const ERROR: &str = "error_type";
    /// Whether an operation waits for jobs.
    pub const CLASS: &str = "class";
    /// How a client is connected.
    pub const TRANSPORT: &str = "transport";
    /// What the system stalls for want of.
    pub const RESOURCE: &str = "resource";
    /// A class of actors.
    pub const ACTOR: &str = "actor";
    /// A lane of the queue.
    pub const LANE: &str = "lane";
    /// Whose jobs.
    pub const TENANT: &str = "tenant";
    /// The version that runs.
    pub const VERSION: &str = "version";
    /// The processor that it was built for.
    pub const ARCH: &str = "arch";
    /// How it was built; of a job, what its confinement lets it do.
    pub const PROFILE: &str = "profile";
    /// What enforces a job's confinement.
    pub const BACKEND: &str = "backend";
    /// Whether the host could not give all of it.
    pub const DEGRADED: &str = "degraded";
}

/// One word for all values that have none of their own.
pub const OTHER: &str = "other";

/// An enum of which every variant has a word, and the list of all words.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$about])* $variant,)+
        }

        impl $name {
            /// Every one of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Every word that it can have, in the same order.
            pub const WORDS: [&'static str; [$($word),+].len()] = [$($word),+];

            /// The label value, and the word for it on the wire.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

// This build.

/// Its version.
pub(super) const VERSIONS: [&str; 1] = [env!("CARGO_PKG_VERSION")];

/// The processor that it is for.
pub(super) const ARCHES: [&str; 1] = [std::env::consts::ARCH];

/// Whether it is fast or easy to debug.
pub(super) const PROFILES: [&str; 1] = [if cfg!(debug_assertions) { "debug" } else { "release" }];

// Actors.

words! {
    /// A class of actors.
    pub enum ActorKind {
        /// The one that admits, starts and remembers jobs.
        Supervisor = "supervisor",
        /// Those that each run a job.
        Job = "job",
    }
}

// HTTP.

words! {
    /// Why an HTTP request or connection was turned away before any route saw it.
    pub enum HttpRefusalReason {
        /// The Host header is not on the list.
        Host = "host",
        /// The Origin header is not on the list.
        Origin = "origin",
        /// The bearer token is missing or wrong.
        Auth = "auth",
        /// The headers are too large.
        Headers = "headers",
        /// The body is too large.
        Body = "body",
        /// Too many connections are open.
        Connections = "connections",
        /// The client left what was sent to it unread for too long.
        Unread = "unread",
        /// The process at the other end of the unix socket is another user's.
        Peer = "peer",
        /// A job of this server sent it.
        Job = "job",
    }
}

// Jobs.

words! {
    /// How far a command came that somebody must agree to.
    pub enum ApprovalStep {
        /// Somebody is asked.
        Asked = "asked",
        /// Somebody agreed to this run.
        Once = "once",
        /// Somebody agreed, and to the same runs of the tenant from then on.
        Tenant = "tenant",
        /// Somebody said no.
        Declined = "declined",
        /// Nobody said anything in time.
        NoAnswer = "no_answer",
        /// Whoever wanted it took it back.
        Withdrawn = "withdrawn",
        /// The client could not ask.
        CannotAsk = "cannot_ask",
        /// What was said answers no open question, or one about something else.
        NotAsked = "not_asked",
    }
}

words! {
    /// Why a job was not accepted.
    pub enum RejectionReason {
        /// There was nothing to run.
        EmptyCommand = "empty_command",
        /// The command was too long.
        TooLong = "too_long",
        /// The deadline was out of bounds.
        Timeout = "timeout",
        /// A variable's name cannot be one.
        Environment = "environment",
        /// There is no such lane.
        UnknownLane = "unknown_lane",
        /// It cannot be confined as it asks.
        Confinement = "confinement",
        /// A rule said no.
        Policy = "policy",
        /// Too many jobs wait already.
        QueueFull = "queue_full",
        /// The tenant has as much as it may have.
        TenantLimit = "tenant_limit",
        /// The tenant starts jobs faster than it may.
        RateLimited = "rate_limited",
        /// The caller may only read.
        Forbidden = "forbidden",
        /// The server is shutting down.
        Draining = "draining",
        /// The server failed over it.
        Interrupted = "interrupted",
    }
}

/// What a job's confinement lets it do.
pub(super) const CONFINEMENT_PROFILES: [&str; 4] = [
    SandboxProfile::None.word(),
    SandboxProfile::Default.word(),
    SandboxProfile::WorkspaceWrite.word(),
    SandboxProfile::ReadOnly.word(),
];

/// What enforces it.
pub(super) const CONFINEMENT_BACKENDS: [&str; 4] = [
    Backend::Namespaces.word(),
    Backend::Landlock.word(),
    Backend::Seccomp.word(),
    Backend::Nothing.word(),
];

/// Whether something is so.
pub(super) const YES_OR_NO: [&str; 2] = ["true", "false"];

// The queue.

words! {
    /// What a system can stall for want of.
    pub enum HostResource {
        /// A processor.
        Cpu = "cpu",
        /// Memory.
        Memory = "memory",
        /// A disk.
        Io = "io",
    }
}

words! {
    /// What a job in the queue waits for.
    pub enum WaitReason {
        /// A slot.
        Slots = "slots",
        /// A slot of its lane.
        Lane = "lane",
        /// Another job of its tenant to end.
        Tenant = "tenant",
        /// The system to stall less.
        Pressure = "pressure",
        /// Somebody to resume the queue or its lane.
        Paused = "paused",
        /// Its turn, which is about to come.
        Turn = "turn",
    }
}

// MCP.

/// The method that calls a tool.
pub(super) const TOOL_CALL: &str = "tools/call";

/// Every method that is answered, and one word for whatever else is asked for.
pub const METHODS: [&str; 18] = [
    "completion/complete",
    "initialize",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    TOOL_CALL,
    "tools/list",
    OTHER,
];

/// The label for a method that a client asked for.
pub(super) fn method(name: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == name).unwrap_or(OTHER)
}

words! {
    /// Whether an operation waits for jobs: how long it takes then says nothing about the server.
    pub enum CallClass {
        /// It runs a command or stops one, and may wait for its end.
        Run = "run",
        /// It does nothing but wait for something to happen.
        LongPoll = "long_poll",
        /// It is answered at once.
        Ordinary = "ordinary",
    }
}

impl CallClass {
    /// The class of an operation.
    #[must_use]
    pub fn classify(method: &str, tool: Option<&str>) -> Self {
        match (method, tool) {
            ("subscriptions/listen", _) | (_, Some("wait_jobs")) => Self::LongPoll,
            (
                _,
                Some(
                    "run_command" | "shell" | "execute" | "run_shell_command" | "execute_command"
                    | "shell_exec" | "stop_jobs",
                ),
            ) => Self::Run,
            _ => Self::Ordinary,
        }
    }
}

words! {
    /// What went wrong with an operation, in OpenTelemetry's words.
    pub enum ErrorType {
        /// The tool answered with an error.
        Tool = "tool_error",
        /// Anything else: an error of the protocol, or a call that was cancelled.
        Other = "_OTHER",
    }
}

words! {
    /// How a client is connected.
    pub enum Transport {
        /// By its standard streams.
        Stdio = "stdio",
        /// By a session over HTTP.
        Http = "http",
        /// By a proxy's connection.
        Proxy = "proxy",
    }
}

// Output.

/// Values of [`key::STREAM`].
pub(super) const STREAMS: [&str; 2] = ["stdout", "stderr"];

words! {
    /// Why a finished job was freed.
    pub enum FreedReason {
        /// It had ended too long ago.
        Age = "age",
        /// Finished jobs stored too much.
        Bytes = "bytes",
        /// Too many had finished.
        Count = "count",
        /// Room was needed for what jobs write now.
        Room = "room",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Stream;

    #[test]
    fn a_method_from_outside_never_becomes_a_label() {
        assert_eq!(method("tools/list"), "tools/list");
        assert_eq!(method("rm -rf /"), "other");
    }

    #[test]
    fn only_waiting_is_a_long_poll() {
        assert_eq!(CallClass::classify(TOOL_CALL, Some("wait_jobs")), CallClass::LongPoll);
        assert_eq!(CallClass::classify("subscriptions/listen", None), CallClass::LongPoll);
        assert_eq!(CallClass::classify(TOOL_CALL, Some("shell")), CallClass::Run);
        assert_eq!(
            CallClass::classify(TOOL_CALL, Some("stop_jobs")),
            CallClass::Run,
            "it waits as well"
        );
        assert_eq!(CallClass::classify(TOOL_CALL, Some("read_output")), CallClass::Ordinary);
        assert_eq!(CallClass::classify("tools/list", None), CallClass::Ordinary);
    }

    #[test]
    fn the_list_holds_exactly_the_words() {
        assert_eq!([Stream::Stdout, Stream::Stderr].map(Stream::name), STREAMS);
    }
}
