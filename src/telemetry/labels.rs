//! Closed sets of label values. They bound the number of series, however the server is used.

use crate::confinement::{Backend, SandboxProfile};

/// The label keys.
pub mod key {
    /// The outcome of a job.
    pub const OUTCOME: &str = "outcome";
    /// The party that is responsible for a failed job.
    pub const FAULT: &str = "fault";
    /// The limit that ended a job.
    pub const LIMIT: &str = "limit";
    /// The reason for a refusal, a drop, a deletion or a wait.
    pub const REASON: &str = "reason";
    /// The step of an approval.
    pub const STEP: &str = "step";
    /// The output stream of a job.
    pub const STREAM: &str = "stream";
    /// The storage tier of output.
    pub const TIER: &str = "tier";
    /// The file operation that failed.
    pub const OPERATION: &str = "operation";
    /// The MCP method; the key is OpenTelemetry's.
    pub const METHOD: &str = "mcp_method_name";
    /// The called tool; the key is OpenTelemetry's.
    pub const TOOL: &str = "gen_ai_tool_name";
    /// The kind of error of an operation; the key is OpenTelemetry's.
    pub const ERROR: &str = "error_type";
    /// The tool whose report was found in the output of a job.
    pub const REPORTED_TOOL: &str = "tool";
    /// The result that a tool reported.
    pub const RESULT: &str = "result";
    /// The class of an operation: see [`CallClass`](super::CallClass).
    pub const CLASS: &str = "class";
    /// The transport of a client.
    pub const TRANSPORT: &str = "transport";
    /// The resource that the host stalls for.
    pub const RESOURCE: &str = "resource";
    /// The kind of an actor.
    pub const ACTOR: &str = "actor";
    /// The level at which an allow list is enforced.
    pub const LEVEL: &str = "level";
    /// The lane of the queue.
    pub const LANE: &str = "lane";
    /// The tenant that owns the jobs.
    pub const TENANT: &str = "tenant";
    /// The version of the server.
    pub const VERSION: &str = "version";
    /// The processor architecture of the build.
    pub const ARCH: &str = "arch";
    /// The profile of the build, or the confinement profile of a job.
    pub const PROFILE: &str = "profile";
    /// The kernel mechanism that enforces a job's confinement.
    pub const BACKEND: &str = "backend";
    /// `true` if the host could not provide the whole confinement.
    pub const DEGRADED: &str = "degraded";
}

/// The label value of everything that has no label value of its own.
pub const OTHER: &str = "other";

/// Defines an enum whose variants each have a label value, and the list of all values.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$about])* $variant,)+
        }

        impl $name {
            /// All variants.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The label values of all variants, in the same order.
            pub const WORDS: [&'static str; [$($word),+].len()] = [$($word),+];

            /// The label value, which is also the word on the wire.
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

/// The label value of this build's version.
pub(super) const VERSIONS: [&str; 1] = [env!("CARGO_PKG_VERSION")];

/// The label value of this build's processor architecture.
pub(super) const ARCHES: [&str; 1] = [std::env::consts::ARCH];

/// The label value of this build's profile.
pub(super) const PROFILES: [&str; 1] = [if cfg!(debug_assertions) { "debug" } else { "release" }];

// Actors.

words! {
    /// A kind of actor.
    pub enum ActorKind {
        /// The actor that admits, starts and remembers jobs.
        Supervisor = "supervisor",
        /// An actor that runs one job.
        Job = "job",
    }
}

// HTTP.

words! {
    /// A reason to refuse an HTTP request or connection before it reaches a route.
    pub enum HttpRefusalReason {
        /// The Host header is missing, not valid or not allowed.
        Host = "host",
        /// The Origin header is not on the list.
        Origin = "origin",
        /// The bearer token is missing or not valid, or its role is too low.
        Auth = "auth",
        /// The headers are too large.
        Headers = "headers",
        /// The body is too large, arrives too slowly, or breaks off.
        Body = "body",
        /// Too many connections are open.
        Connections = "connections",
        /// All MCP sessions are open.
        Sessions = "sessions",
        /// The client did not read its response for too long.
        Unread = "unread",
        /// The process at the other end of the unix socket belongs to another user.
        Peer = "peer",
        /// The request comes from a job of this server.
        Job = "job",
    }
}

// Jobs.

words! {
    /// A step in the approval of a command that a rule asks about.
    pub enum ApprovalStep {
        /// The client asks the user.
        Asked = "asked",
        /// The user agreed to this run.
        Once = "once",
        /// The user agreed to this run and to later identical runs of the tenant.
        Tenant = "tenant",
        Declined = "declined",
        /// The user did not answer in time.
        NoAnswer = "no_answer",
        /// The caller cancelled the request.
        Withdrawn = "withdrawn",
        /// The client cannot ask its user.
        CannotAsk = "cannot_ask",
        /// The answer fits no open question, or a question about another run.
        NotAsked = "not_asked",
    }
}

words! {
    /// The level at which the allow list is enforced for jobs of the server's user.
    pub enum GateLabel {
        /// Each start of a program is judged.
        Gate = "gate",
        /// The text of a command decides.
        Text = "text",
        /// Nothing runs, because the settings require a gate that the host cannot have.
        Unavailable = "unavailable",
        /// No allow list is set.
        Unused = "unused",
    }
}

words! {
    /// A reason to reject a job.
    pub enum RejectionReason {
        /// The command is empty.
        EmptyCommand = "empty_command",
        /// The command is too long.
        TooLong = "too_long",
        /// The deadline is out of bounds.
        Timeout = "timeout",
        /// The name of an environment variable is not valid.
        Environment = "environment",
        /// The lane does not exist.
        UnknownLane = "unknown_lane",
        /// The host cannot provide the confinement that the job needs.
        Confinement = "confinement",
        /// A policy rule denies the command.
        Policy = "policy",
        QueueFull = "queue_full",
        /// The tenant has reached one of its limits.
        TenantLimit = "tenant_limit",
        /// The tenant starts jobs too fast.
        RateLimited = "rate_limited",
        /// The idempotency key names the job of another request.
        KeyConflict = "key_conflict",
        /// The role of the caller only allows reading.
        Forbidden = "forbidden",
        /// The server drains: an operator asked for it, or the server is shutting down.
        Draining = "draining",
        /// The server failed while it handled the submission.
        Interrupted = "interrupted",
    }
}

/// The confinement profiles.
pub(super) const CONFINEMENT_PROFILES: [&str; 4] = [
    SandboxProfile::None.word(),
    SandboxProfile::Default.word(),
    SandboxProfile::WorkspaceWrite.word(),
    SandboxProfile::ReadOnly.word(),
];

/// The mechanisms that enforce a confinement.
pub(super) const CONFINEMENT_BACKENDS: [&str; 4] = [
    Backend::Namespaces.word(),
    Backend::Landlock.word(),
    Backend::Seccomp.word(),
    Backend::Nothing.word(),
];

/// The label values of a flag.
pub(super) const YES_OR_NO: [&str; 2] = ["true", "false"];

// The queue.

words! {
    /// A resource that the host can stall for.
    pub enum HostResource {
        Cpu = "cpu",
        Memory = "memory",
        Io = "io",
    }
}

words! {
    /// The reason why a job waits in the queue.
    pub enum WaitReason {
        Slots = "slots",
        /// All slots of the lane are busy.
        Lane = "lane",
        /// The tenant may not run more jobs at once.
        Tenant = "tenant",
        /// Pressure holds starts back.
        Pressure = "pressure",
        /// The server is short of file descriptors.
        Files = "files",
        /// The queue or the lane is paused.
        Paused = "paused",
        /// Nothing holds it back; it starts soon.
        Turn = "turn",
    }
}

// MCP.

/// The method that calls a tool.
pub(super) const TOOL_CALL: &str = "tools/call";

/// Every method that the server answers, and [`OTHER`] for all others.
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

/// The label value for the method of a request.
pub(super) fn method_label(name: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == name).unwrap_or(OTHER)
}

words! {
    /// The class of an operation. The duration of an operation that waits for a job says nothing about
    /// the speed of the server.
    pub enum CallClass {
        /// Runs a command or stops one, and may wait for its end.
        Run = "run",
        /// Only waits for something to happen.
        LongPoll = "long_poll",
        /// Is answered at once.
        Ordinary = "ordinary",
    }
}

impl CallClass {
    /// Returns the class of a request.
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
    /// The kind of error of an operation, in OpenTelemetry's words.
    pub enum ErrorType {
        /// The tool answered with an error.
        Tool = "tool_error",
        /// Anything else: an error of the protocol, or a call that was cancelled.
        Other = "_OTHER",
    }
}

words! {
    /// The transport of a client.
    pub enum Transport {
        /// The standard streams of the server.
        Stdio = "stdio",
        Http = "http",
        /// The connection of a proxy.
        Proxy = "proxy",
    }
}

// Output.

/// Values of [`key::STREAM`].
pub(super) const STREAMS: [&str; 3] = ["stdout", "stderr", MERGED];

/// The value of [`key::STREAM`] for both streams of a job in one pipe.
pub(super) const MERGED: &str = "merged";

words! {
    /// A reason to free a finished job.
    pub enum FreedReason {
        /// The job ended too long ago.
        Age = "age",
        /// Finished jobs store too many bytes.
        Bytes = "bytes",
        /// The number of finished jobs is too high.
        Count = "count",
        /// New output needs the space.
        Room = "room",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Stream;

    #[test]
    fn an_unknown_method_never_becomes_a_label_value() {
        assert_eq!(method_label("tools/list"), "tools/list");
        assert_eq!(method_label("rm -rf /"), "other");
    }

    #[test]
    fn only_operations_that_just_wait_are_long_polls() {
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
    fn the_stream_label_has_a_value_for_each_stream() {
        assert_eq!([Stream::Stdout.name(), Stream::Stderr.name(), MERGED], STREAMS);
    }
}
