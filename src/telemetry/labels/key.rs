//! The label keys.

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
